/* DEVICE=NULL: takes every kind of kernel and runs none. It counts what it is asked to do, so that the cost
 * of the host alone can be measured and tests can see how often something was launched. Buffers are real
 * memory: copies work, and what a kernel would have written keeps its old contents. Also the shortest example
 * of a plugin; its graphs, which are optional, are in graph.c. */
#include "null.h"

TOLK_PLUGIN_STAMP("NULL", TOLK_ABI_MAJOR, TOLK_ABI_MINOR);

const tolk_host* null_host;
null_counters null_counts = {.struct_size = sizeof(null_counters)};

struct tolk_device {
  uint32_t index;
};
struct tolk_program {
  struct tolk_kernel kernel;
  char name[1]; /* as long as needed */
};

/* ---- device ---- */

static tolk_status device_count(void* self, uint32_t* out) {
  (void)self;
  *out = 1;
  return TOLK_OK;
}

static const tolk_device_info info = {sizeof info,
                                      TOLK_KIND_NULL,
                                      TOLK_DEVICE_REOPENABLE | TOLK_DEVICE_UNIFIED_MEMORY |
                                          TOLK_DEVICE_DETERMINISTIC,
                                      -1,
                                      0,
                                      {0},
                                      "null device",
                                      "counts launches, computes nothing",
                                      "",
                                      NULL,
                                      "",
                                      1,
                                      0};

static tolk_status device_info(void* self, uint32_t index, const tolk_device_info** out) {
  (void)self, (void)index;
  *out = &info;
  return TOLK_OK;
}

static tolk_status device_open(void* self, uint32_t index, tolk_device** out) {
  tolk_device* device = null_host->mem_alloc(null_host->ctx, sizeof *device, 8);
  (void)self;
  if (!device) return null_fail(TOLK_E_HOST_OOM, "no memory for the device record");
  device->index = index;
  *out = device;
  return TOLK_OK;
}

static void device_close(tolk_device* device) { null_host->mem_free(null_host->ctx, device); }

#define DIRECT(kind, features, dialect, arch)                                                                \
  {sizeof(tolk_target), kind, TOLK_TARGET_LOAD_DIRECT, 0, 0, 0, features, dialect, arch, "", "", NULL}
static const tolk_target targets[] = {
    DIRECT(TOLK_TARGET_KERNEL_IR, TOLK_FEATURE_ALL, "kernel-ir", ""),
    DIRECT(TOLK_TARGET_LLVM_IR, TOLK_FEATURE_MULACC | TOLK_FEATURE_SQRT | TOLK_FEATURE_TRUNC,
           "x86_64-unknown-linux-gnu", "x86-64-v3"),
    DIRECT(TOLK_TARGET_SOURCE, TOLK_FEATURE_ALL, "c99", ""),
    DIRECT(TOLK_TARGET_SOURCE, TOLK_FEATURE_ALL, "opencl-c", ""),
    DIRECT(TOLK_TARGET_SPIRV, TOLK_FEATURE_SQRT | TOLK_FEATURE_TRUNC, "vulkan1.2", ""),
    DIRECT(TOLK_TARGET_NATIVE, TOLK_FEATURE_ALL, "", ""),
};

static tolk_status device_caps(tolk_device* device, const tolk_caps** out) {
  static const tolk_caps caps = {
      .struct_size = sizeof caps,
      .target_count = sizeof targets / sizeof targets[0],
      .targets = targets,
      .dtype_storage = (UINT64_C(1) << TOLK_DTYPE_COUNT) - 1,
      .dtype_alu = (UINT64_C(1) << (TOLK_DTYPE_F64 + 1)) - 1,
      .flags = TOLK_CAP_NON_UNIFORM_GROUPS | TOLK_CAP_DENORMALS_F16 | TOLK_CAP_DENORMALS_F32 |
               TOLK_CAP_NO_CONTRACTION | TOLK_CAP_SCALAR_SLOTS_64,
      .vector_bytes = 32,
      .vector_widths = 0x3f,
      .grid_max = {UINT32_MAX, 1, 1},
      .local_max = {1, 1, 1},
      .local_product_max = 1,
      .buffer_align = 64,
      .offset_align = 1,
      .copy_align = 1,
      .map_align = 64,
      .import_align = 1,
      .buffer_kinds = 1u << TOLK_BUFFER_DEVICE | 1u << TOLK_BUFFER_STAGING | 1u << TOLK_BUFFER_UNIFIED,
      .kernel_kinds = 1u << TOLK_BUFFER_DEVICE | 1u << TOLK_BUFFER_STAGING | 1u << TOLK_BUFFER_UNIFIED,
      .compute_units = 1,
      .graph = TOLK_GRAPH_KERNELS | TOLK_GRAPH_COPIES | TOLK_GRAPH_FILLS | TOLK_GRAPH_CROSS_DEVICE |
               TOLK_GRAPH_UPDATE_BUFFERS | TOLK_GRAPH_UPDATE_VALUES | TOLK_GRAPH_UPDATE_SIZES,
      .vector_registers = 16,
      .fma_ports = 2,
      .cores = 1,
      .l1d_bytes = 32 << 10,
      .l2_bytes = 1 << 20,
      .llc_bytes = 16 << 20,
  };
  (void)device;
  *out = &caps;
  return TOLK_OK;
}

/* ---- buffers ---- */

static tolk_status buffer_create(tolk_device* device, const tolk_buffer_desc* desc, tolk_buffer** out) {
  tolk_buffer* b = null_host->mem_alloc(null_host->ctx, sizeof *b, 8);
  uint64_t align = desc->align > 64 ? desc->align : 64;
  (void)device;
  if (desc->kind < TOLK_BUFFER_DEVICE || desc->kind > TOLK_BUFFER_UNIFIED) {
    null_host->mem_free(null_host->ctx, b);
    return null_fail(TOLK_E_UNSUPPORTED, "a kind of buffer that this device does not have");
  }
  if (!b) return null_fail(TOLK_E_HOST_OOM, "no memory for the buffer record");
  memset(b, 0, sizeof *b);
  b->size = desc->size;
  b->bytes = null_host->mem_alloc(null_host->ctx, desc->size ? desc->size : 1, align);
  if (!b->bytes) {
    null_host->mem_free(null_host->ctx, b);
    return null_fail(TOLK_E_DEVICE_OOM, "host memory is exhausted");
  }
  if (desc->flags & TOLK_BUFFER_ZEROED) memset(b->bytes, 0, desc->size);
  null_count(&null_counts.buffers, 1);
  *out = b;
  return TOLK_OK;
}

static void buffer_destroy(tolk_buffer* b) {
  if (!b->imported)
    null_host->mem_free(null_host->ctx, b->bytes);
  else if (b->release)
    b->release(b->release_arg);
  null_host->mem_free(null_host->ctx, b);
}

static tolk_status buffer_map(tolk_buffer* b, uint64_t offset, uint64_t size, uint32_t access, void** out) {
  (void)access;
  if (!tolk_inside(offset, size, b->size))
    return null_fail(TOLK_E_INVALID, "the range to map is not in the buffer");
  *out = b->bytes + offset;
  return TOLK_OK;
}

static tolk_status buffer_unmap(tolk_buffer* b, void* pointer) {
  (void)b, (void)pointer;
  return TOLK_OK;
}

static tolk_status buffer_import(tolk_device* device, const tolk_buffer_desc* desc, uint32_t type,
                                 uint64_t value, tolk_release_fn release, void* arg, tolk_buffer** out) {
  tolk_buffer* b;
  (void)device;
  if (type != TOLK_HANDLE_HOST_POINTER)
    return null_fail(TOLK_E_UNSUPPORTED, "only host pointers are imported");
  b = null_host->mem_alloc(null_host->ctx, sizeof *b, 8);
  if (!b) return null_fail(TOLK_E_HOST_OOM, "no memory for the buffer record");
  memset(b, 0, sizeof *b);
  b->bytes = (char*)tolk_pointer(value);
  b->size = desc->size;
  b->release = release;
  b->release_arg = arg;
  b->imported = 1;
  *out = b;
  return TOLK_OK;
}

static tolk_status copy_in(tolk_stream* stream, tolk_ref dst, const void* src, uint32_t flags) {
  (void)stream, (void)flags;
  if (!null_inside(dst)) return null_fail(TOLK_E_INVALID, "the destination is not in its buffer");
  memcpy(dst.buffer->bytes + dst.offset, src, dst.size);
  null_count(&null_counts.copies_in, 1);
  null_count(&null_counts.copied_bytes, dst.size);
  return TOLK_OK;
}

static tolk_status copy_out(tolk_stream* stream, void* dst, tolk_ref src, uint32_t flags) {
  (void)stream, (void)flags;
  if (!null_inside(src)) return null_fail(TOLK_E_INVALID, "the source is not in its buffer");
  memcpy(dst, src.buffer->bytes + src.offset, src.size);
  null_count(&null_counts.copies_out, 1);
  null_count(&null_counts.copied_bytes, src.size);
  return TOLK_OK;
}

/* ---- programs ---- */

static tolk_status program_load(tolk_device* device, tolk_bytes binary, const tolk_source* source,
                                tolk_program** out) {
  size_t length = strlen(source->entry);
  tolk_program* p = null_host->mem_alloc(null_host->ctx, sizeof *p + length, 8);
  uint32_t i;
  (void)device, (void)binary;
  if (!p) return null_fail(TOLK_E_HOST_OOM, "no memory for the program record");
  memset(p, 0, sizeof *p);
  memcpy(p->name, source->entry, length + 1);
  for (i = 0; i < source->param_count; i++)
    if (source->params[i].kind == TOLK_PARAM_BUFFER)
      p->kernel.buffer_count++;
    else
      p->kernel.value_count++;
  null_count(&null_counts.loads, 1);
  *out = p;
  return TOLK_OK;
}

static void program_unload(tolk_program* p) { null_host->mem_free(null_host->ctx, p); }

static tolk_status get_kernel(tolk_program* p, const char* name, tolk_kernel** out) {
  if (strcmp(p->name, name) != 0)
    return null_fail(TOLK_E_NOT_FOUND, "the program has no kernel of that name");
  *out = &p->kernel;
  return TOLK_OK;
}

static tolk_status launch(tolk_stream* stream, tolk_kernel* kernel, const tolk_launch* l) {
  (void)stream;
  if (l->buffer_count != kernel->buffer_count || l->value_count != kernel->value_count)
    return null_fail(TOLK_E_INVALID, "the number of arguments is not the kernel's");
  null_count(&null_counts.launches, 1);
  null_count(&null_counts.groups, (uint64_t)l->grid[0] * l->grid[1] * l->grid[2]);
  if (l->device_ns) *l->device_ns = 0;
  return TOLK_OK;
}

/* ---- tables ---- */

static tolk_status get_extension(void* self, const char* name, uint32_t version, const void** table) {
  (void)self;
  if (strcmp(name, "x.null.counters") != 0 || version != 1) return TOLK_E_NOT_FOUND;
  *table = &null_counts;
  return TOLK_OK;
}

static const tolk_device_vt device_table = {
    .struct_size = sizeof device_table, .close = device_close, .caps = device_caps};
static const tolk_buffer_vt buffer_table = {.struct_size = sizeof buffer_table,
                                            .create = buffer_create,
                                            .destroy = buffer_destroy,
                                            .map = buffer_map,
                                            .unmap = buffer_unmap,
                                            .import_handle = buffer_import};
static const tolk_stream_vt stream_table = {
    .struct_size = sizeof stream_table, .copy_in = copy_in, .copy_out = copy_out};
static const tolk_program_vt program_table = {.struct_size = sizeof program_table,
                                              .load = program_load,
                                              .unload = program_unload,
                                              .get_kernel = get_kernel,
                                              .launch = launch};

static const tolk_plugin plugin = {.struct_size = sizeof plugin,
                                   .abi_major = TOLK_ABI_MAJOR,
                                   .abi_minor = TOLK_ABI_MINOR,
                                   .name = "NULL",
                                   .display_name = "null device",
                                   .vendor = "tolk",
                                   .version = "1",
                                   .compiler_id = "none",
                                   .flags = TOLK_PLUGIN_TEST_ONLY,
                                   .device = &device_table,
                                   .buffer = &buffer_table,
                                   .stream = &stream_table,
                                   .program = &program_table,
                                   .graph = &null_graph_table,
                                   .device_count = device_count,
                                   .device_info = device_info,
                                   .device_open = device_open,
                                   .get_extension = get_extension};

tolk_status tolk_plugin_entry_v1(const tolk_host* host, const tolk_plugin** out) {
  null_host = host;
  *out = &plugin;
  return TOLK_OK;
}
