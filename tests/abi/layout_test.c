/* Pins the layout of every struct of the plugin interface for 64-bit machines: a wrong size or offset does
 * not compile. A field may be appended (its struct's size changes here); an existing line never changes
 * within a major. */
#include <tolk/plugin/tolk_plugin.h>

#include <stdio.h>
#include <string.h>

/* clang-format off */
#define SIZE(type, bytes) typedef char size_of_##type[sizeof(type) == (bytes) ? 1 : -1];
#define FIELD(type, field, bytes) typedef char offset_of_##type##_##field[offsetof(type, field) == (bytes) ? 1 : -1];

SIZE(tolk_bytes, 16)
FIELD(tolk_bytes, data, 0)
FIELD(tolk_bytes, size, 8)

SIZE(tolk_ref, 24)
FIELD(tolk_ref, buffer, 0)
FIELD(tolk_ref, offset, 8)
FIELD(tolk_ref, size, 16)

SIZE(tolk_param, 40)
FIELD(tolk_param, kind, 0)
FIELD(tolk_param, access, 4)
FIELD(tolk_param, dtype, 8)
FIELD(tolk_param, count, 16)
FIELD(tolk_param, min, 24)
FIELD(tolk_param, max, 32)

SIZE(tolk_chain, 16)
FIELD(tolk_chain, type, 0)
FIELD(tolk_chain, next, 8)

SIZE(tolk_ir_op, 24)
FIELD(tolk_ir_op, opcode, 0)
FIELD(tolk_ir_op, dtype, 2)
FIELD(tolk_ir_op, flags, 3)
FIELD(tolk_ir_op, lanes, 4)
FIELD(tolk_ir_op, source_count, 6)
FIELD(tolk_ir_op, first_source, 8)
FIELD(tolk_ir_op, first_attr, 12)
FIELD(tolk_ir_op, reserved, 16)

SIZE(tolk_kernel_ir, 64)
FIELD(tolk_kernel_ir, version, 4)
FIELD(tolk_kernel_ir, ops, 8)
FIELD(tolk_kernel_ir, sources, 16)
FIELD(tolk_kernel_ir, attrs, 24)
FIELD(tolk_kernel_ir, params, 32)
FIELD(tolk_kernel_ir, op_count, 40)
FIELD(tolk_kernel_ir, source_count, 44)
FIELD(tolk_kernel_ir, attr_count, 48)
FIELD(tolk_kernel_ir, param_count, 52)
FIELD(tolk_kernel_ir, name, 56)

SIZE(tolk_host, 176)
FIELD(tolk_host, abi_major, 4)
FIELD(tolk_host, abi_minor, 8)
FIELD(tolk_host, ctx, 16)
FIELD(tolk_host, log_message, 24)
FIELD(tolk_host, set_error, 32)
FIELD(tolk_host, mem_alloc, 40)
FIELD(tolk_host, mem_free, 48)
FIELD(tolk_host, blob_create, 56)
FIELD(tolk_host, blob_bytes, 64)
FIELD(tolk_host, blob_destroy, 72)
FIELD(tolk_host, parallel_for, 80)
FIELD(tolk_host, worker_count, 88)
FIELD(tolk_host, cache_path, 96)
FIELD(tolk_host, cache_get, 104)
FIELD(tolk_host, cache_put, 112)
FIELD(tolk_host, config_get, 120)
FIELD(tolk_host, clock_ns, 128)
FIELD(tolk_host, cancelled, 136)
FIELD(tolk_host, trace_begin, 144)
FIELD(tolk_host, trace_end, 152)
FIELD(tolk_host, resolve_event, 160)
FIELD(tolk_host, get_extension, 168)

SIZE(tolk_target, 72)
FIELD(tolk_target, kind, 4)
FIELD(tolk_target, flags, 8)
FIELD(tolk_target, version_min, 12)
FIELD(tolk_target, version_max, 16)
FIELD(tolk_target, features, 24)
FIELD(tolk_target, dialect, 32)
FIELD(tolk_target, arch, 40)
FIELD(tolk_target, arch_features, 48)
FIELD(tolk_target, data_layout, 56)
FIELD(tolk_target, params, 64)

SIZE(tolk_tensor_core, 112)
FIELD(tolk_tensor_core, n, 4)
FIELD(tolk_tensor_core, threads, 16)
FIELD(tolk_tensor_core, elements, 20)
FIELD(tolk_tensor_core, dtype_in, 32)
FIELD(tolk_tensor_core, operation, 40)
FIELD(tolk_tensor_core, opts, 48)
FIELD(tolk_tensor_core, swizzle, 56)
FIELD(tolk_tensor_core, intrinsic, 104)

SIZE(tolk_caps, 272)
FIELD(tolk_caps, target_count, 4)
FIELD(tolk_caps, targets, 8)
FIELD(tolk_caps, dtype_storage, 16)
FIELD(tolk_caps, dtype_alu, 24)
FIELD(tolk_caps, flags, 32)
FIELD(tolk_caps, vector_bytes, 40)
FIELD(tolk_caps, vector_widths, 44)
FIELD(tolk_caps, grid_max, 48)
FIELD(tolk_caps, local_max, 60)
FIELD(tolk_caps, grid_product_max, 72)
FIELD(tolk_caps, local_product_max, 80)
FIELD(tolk_caps, subgroup_min, 84)
FIELD(tolk_caps, shared_bytes, 96)
FIELD(tolk_caps, register_bytes_hint, 104)
FIELD(tolk_caps, max_buffer_args, 112)
FIELD(tolk_caps, max_scalar_bytes, 116)
FIELD(tolk_caps, buffer_align, 120)
FIELD(tolk_caps, offset_align, 128)
FIELD(tolk_caps, offset_max, 136)
FIELD(tolk_caps, copy_align, 144)
FIELD(tolk_caps, map_align, 152)
FIELD(tolk_caps, import_align, 160)
FIELD(tolk_caps, max_buffer_bytes, 168)
FIELD(tolk_caps, max_total_bytes, 176)
FIELD(tolk_caps, buffer_kinds, 184)
FIELD(tolk_caps, kernel_kinds, 188)
FIELD(tolk_caps, compute_units, 192)
FIELD(tolk_caps, streams_max, 196)
FIELD(tolk_caps, copy_engines, 200)
FIELD(tolk_caps, graph, 204)
FIELD(tolk_caps, graph_nodes_max, 208)
FIELD(tolk_caps, timestamp_bits, 212)
FIELD(tolk_caps, timer_hz, 216)
FIELD(tolk_caps, tensor_cores, 224)
FIELD(tolk_caps, tensor_core_count, 232)
FIELD(tolk_caps, vector_registers, 236)
FIELD(tolk_caps, fma_ports, 240)
FIELD(tolk_caps, cores, 244)
FIELD(tolk_caps, l1d_bytes, 248)
FIELD(tolk_caps, l2_bytes, 256)
FIELD(tolk_caps, llc_bytes, 264)

SIZE(tolk_device_info, 88)
FIELD(tolk_device_info, kind, 4)
FIELD(tolk_device_info, flags, 8)
FIELD(tolk_device_info, numa_node, 12)
FIELD(tolk_device_info, memory_bytes, 16)
FIELD(tolk_device_info, uuid, 24)
FIELD(tolk_device_info, name, 40)
FIELD(tolk_device_info, description, 48)
FIELD(tolk_device_info, arch, 56)
FIELD(tolk_device_info, pci_id, 64)
FIELD(tolk_device_info, driver_version, 72)
FIELD(tolk_device_info, dlpack_type, 80)
FIELD(tolk_device_info, dlpack_id, 84)

SIZE(tolk_memory, 56)
FIELD(tolk_memory, total_bytes, 8)
FIELD(tolk_memory, largest_free_bytes, 48)

SIZE(tolk_buffer_desc, 40)
FIELD(tolk_buffer_desc, kind, 4)
FIELD(tolk_buffer_desc, usage, 8)
FIELD(tolk_buffer_desc, flags, 12)
FIELD(tolk_buffer_desc, size, 16)
FIELD(tolk_buffer_desc, align, 24)
FIELD(tolk_buffer_desc, next, 32)

SIZE(tolk_source, 88)
FIELD(tolk_source, target_index, 4)
FIELD(tolk_source, text, 8)
FIELD(tolk_source, entry, 24)
FIELD(tolk_source, options, 32)
FIELD(tolk_source, params, 40)
FIELD(tolk_source, param_count, 48)
FIELD(tolk_source, flags, 52)
FIELD(tolk_source, local, 56)
FIELD(tolk_source, shared_bytes, 72)
FIELD(tolk_source, next, 80)

SIZE(tolk_kernel_info, 48)
FIELD(tolk_kernel_info, registers, 4)
FIELD(tolk_kernel_info, spill_bytes, 8)
FIELD(tolk_kernel_info, max_local, 40)
FIELD(tolk_kernel_info, subgroup, 44)

SIZE(tolk_launch, 80)
FIELD(tolk_launch, flags, 4)
FIELD(tolk_launch, grid, 8)
FIELD(tolk_launch, local, 20)
FIELD(tolk_launch, buffer_count, 32)
FIELD(tolk_launch, value_count, 36)
FIELD(tolk_launch, buffers, 40)
FIELD(tolk_launch, values, 48)
FIELD(tolk_launch, shared_bytes, 56)
FIELD(tolk_launch, device_ns, 64)
FIELD(tolk_launch, next, 72)

SIZE(tolk_patch, 40)
FIELD(tolk_patch, node, 0)
FIELD(tolk_patch, kind, 4)
FIELD(tolk_patch, index, 8)
FIELD(tolk_patch, to, 16)

FIELD(tolk_plugin, abi_major, 4)
FIELD(tolk_plugin, abi_minor, 8)
FIELD(tolk_plugin, min_host_minor, 12)
FIELD(tolk_plugin, name, 16)
FIELD(tolk_plugin, display_name, 24)
FIELD(tolk_plugin, vendor, 32)
FIELD(tolk_plugin, version, 40)
FIELD(tolk_plugin, compiler_id, 48)
FIELD(tolk_plugin, flags, 56)
FIELD(tolk_plugin, self, 64)
FIELD(tolk_plugin, device, 72)
FIELD(tolk_plugin, buffer, 80)
FIELD(tolk_plugin, stream, 88)
FIELD(tolk_plugin, program, 96)
FIELD(tolk_plugin, graph, 104)

SIZE(tolk_plugin_stamp, 64)
FIELD(tolk_plugin_stamp, owner, 12)
FIELD(tolk_plugin_stamp, name, 20)
FIELD(tolk_plugin_stamp, abi_major, 52)
FIELD(tolk_plugin_stamp, abi_minor, 56)
FIELD(tolk_plugin_stamp, default_priority, 60)

/* Every function stays in its slot, and nothing is newer than the headers. */
#define TABLE_plugin tolk_plugin
#define TABLE_device tolk_device_vt
#define TABLE_buffer tolk_buffer_vt
#define TABLE_stream tolk_stream_vt
#define TABLE_program tolk_program_vt
#define TABLE_graph tolk_graph_vt
#define OF(macro, ...) macro(__VA_ARGS__)
#define FIRST_plugin 112
#define FIRST_device 8
#define FIRST_buffer 8
#define FIRST_stream 8
#define FIRST_program 8
#define FIRST_graph 8
#define TOLK_ENTRY(table, slot, entry, need, since, otherwise, result, parameters, arguments)                          \
  OF(FIELD, TABLE_##table, entry, FIRST_##table + 8 * (slot))                                                          \
  typedef char since_of_##table##_##entry[(since) <= TOLK_ABI_MINOR ? 1 : -1];
#include <tolk/plugin/entries.def>
#undef TOLK_ENTRY
/* Codes never move either. */
#define VALUE(name, value) typedef char value_of_##name[(name) == (value) ? 1 : -1];
VALUE(TOLK_TARGET_SOURCE, 1) VALUE(TOLK_TARGET_SPIRV, 2) VALUE(TOLK_TARGET_LLVM_IR, 3)
VALUE(TOLK_TARGET_KERNEL_IR, 4) VALUE(TOLK_TARGET_NATIVE, 5)
VALUE(TOLK_E_INVALID, -1) VALUE(TOLK_E_DEVICE_OOM, -5) VALUE(TOLK_E_VERSION, -16)
VALUE(TOLK_DTYPE_BOOL, 0) VALUE(TOLK_DTYPE_F32, 11) VALUE(TOLK_DTYPE_U2, 22)
VALUE(TOLK_KIND_CPU, 1) VALUE(TOLK_KIND_DISCRETE_GPU, 3) VALUE(TOLK_KIND_NULL, 5)

/* Nor do opcodes, which are feature bits as well. */
VALUE(TOLK_IR_MULACC, 40) VALUE(TOLK_IR_SQRT, 56) VALUE(TOLK_IR_COS, 63)
    /* clang-format on */

    /* What is left needs all rows of a table: an entry in the header without a row, and a row out of order. */
    struct row {
  const char* table;
  const char* entry;
  unsigned slot, since, size, first;
};
static const struct row rows[] = {
#define TOLK_ENTRY(table, slot, entry, need, since, otherwise, result, parameters, arguments)                \
  {#table, #entry, slot, since, sizeof(TABLE_##table), FIRST_##table},
#include <tolk/plugin/entries.def>
#undef TOLK_ENTRY
};

int main(void) {
  const size_t count = sizeof rows / sizeof rows[0];
  size_t i;
  int wrong = 0;
  for (i = 0; i < count; i++) {
    const struct row* r = &rows[i];
    const int first = i == 0 || strcmp(rows[i - 1].table, r->table) != 0;
    const int last = i + 1 == count || strcmp(rows[i + 1].table, r->table) != 0;
    if (r->slot != (first ? 0 : rows[i - 1].slot + 1) || (!first && r->since < rows[i - 1].since)) {
      printf("%s.%s: entries.def has it out of order\n", r->table, r->entry);
      wrong = 1;
    }
    if (last && r->size != r->first + 8 * (r->slot + 1)) {
      printf("%s: the table has %u bytes, the %u rows of entries.def make %u\n", r->table, r->size,
             r->slot + 1, r->first + 8 * (r->slot + 1));
      wrong = 1;
    }
  }
  return wrong;
}
