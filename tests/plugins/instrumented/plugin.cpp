// DEVICE=XDEV and DEVICE=YDEV: devices and buffers, and the plugin's table.
#include <cstdlib>
#include <cstring>

#include <tolk/plugin/helpers.h>

#include "state.h"

TOLK_PLUGIN_STAMP(PLUGIN_NAME, TOLK_ABI_MAJOR, TOLK_ABI_MINOR);

namespace tb {

const tolk_host* host = nullptr;

tolk_status fail(tolk_status code, const std::string& text) {
  return host->set_error(host->ctx, code, text.c_str());
}

namespace {

std::atomic<uint64_t> next_buffer{1};

tolk_target make_target() {
  tolk_target t{};
  t.struct_size = sizeof t;
  t.kind = TOLK_TARGET_KERNEL_IR;
  t.version_min = t.version_max = TOLK_KERNEL_IR_VERSION;
  t.features = 0
#define TOLK_IR(NAME, code, lo, hi, meaning) | uint64_t{1} << code
#include <tolk/plugin/kernel_ir_ops.def>
#undef TOLK_IR
      ;
  t.dialect = "kernel-ir";
  t.arch = t.arch_features = t.data_layout = "";
  return t;
}

void fill_caps(tolk_device& device) {
  const tb_options& o = device.options;
  tolk_caps& c = device.caps;
  c.struct_size = sizeof c;
  device.target = make_target();
  c.target_count = 1;
  c.targets = &device.target;
  c.dtype_storage = c.dtype_alu = o.dtype_storage;
  c.flags = TOLK_CAP_BOUNDS_CHECKED | TOLK_CAP_DENORMALS_F16 | TOLK_CAP_DENORMALS_F32 |
            TOLK_CAP_NO_CONTRACTION | TOLK_CAP_SCALAR_SLOTS_64 | TOLK_CAP_EVENT_TIMING | TOLK_CAP_NODE_TIMING;
  if (!o.offset_views) c.flags |= TOLK_CAP_NO_OFFSET_VIEWS;
  if (o.retains_args) c.flags |= TOLK_CAP_RETAINS_ARGS;
  if (o.non_uniform) c.flags |= TOLK_CAP_NON_UNIFORM_GROUPS;
  c.vector_bytes = 32;
  c.vector_widths = 0x7f;
  for (int axis = 0; axis < 3; axis++) {
    c.grid_max[axis] = o.grid_max;
    c.local_max[axis] = o.local_max;
  }
  c.local_product_max = o.local_max;
  c.shared_bytes = o.shared_bytes;
  c.max_buffer_args = o.buffer_args;
  c.buffer_align = c.map_align = o.buffer_align;
  c.offset_align = o.offset_align;
  c.offset_max = o.offset_max;
  c.copy_align = 1;
  c.import_align = o.host_map;
  c.max_total_bytes = o.memory_limit;
  c.buffer_kinds = c.kernel_kinds = 0x1e;
  c.compute_units = c.cores = 1;
  c.streams_max = o.streams ? 8 : 0;
  c.copy_engines = o.streams ? 1 : 0;
  c.graph = o.graph;
}

tolk_status device_count(void*, uint32_t* out) {
  *out = 1;
  return TOLK_OK;
}

tolk_status device_info(void*, uint32_t, const tolk_device_info** out) {
  static const tolk_device_info info = [] {
    tolk_device_info i{};
    i.struct_size = sizeof i;
    i.kind = TOLK_KIND_CPU; // so that any index opens
    i.flags = TOLK_DEVICE_REOPENABLE | TOLK_DEVICE_DETERMINISTIC;
    i.numa_node = -1;
    i.name = "instrumented backend";
    i.description = "counts, records and fails on demand; for tests";
    i.arch = "";
    i.driver_version = "1";
    return i;
  }();
  *out = &info;
  return TOLK_OK;
}

tolk_status device_open(void*, uint32_t index, tolk_device** out) {
  return guarded([&]() -> tolk_status {
    if (tolk_status s = injected(index, TB_OPEN)) return s;
    auto device = std::make_unique<tolk_device>();
    device->ordinal = index;
    device->options = current_options();
    if (const char* text = host->config_get(host->ctx, "streams"))
      device->options.streams = std::strtoul(text, nullptr, 10) != 0;
    if (const char* text = host->config_get(host->ctx, "delay_us"))
      control_table()->delay(index, std::strtoull(text, nullptr, 10), std::strtoull(text, nullptr, 10));
    fill_caps(*device);
    count(index, &tb_counters::live_devices);
    *out = device.release();
    return TOLK_OK;
  });
}

void device_close(tolk_device* device) {
  uncount(device->ordinal, &tb_counters::live_devices);
  delete device;
}

tolk_status device_caps(tolk_device* device, const tolk_caps** out) {
  *out = &device->caps;
  return TOLK_OK;
}

tolk_status device_memory(tolk_device* device, tolk_memory* out) {
  tolk_memory m{};
  m.struct_size = sizeof m;
  m.total_bytes = device->options.memory_limit;
  m.used_bytes = device->used_bytes;
  m.free_bytes = m.total_bytes > m.used_bytes ? m.total_bytes - m.used_bytes : 0;
  m.peak_bytes = device->peak_bytes;
  m.buffer_count = device->buffer_count;
  tolk_write_out(out, &m, sizeof m);
  return TOLK_OK;
}

tolk_status device_synchronize(tolk_device* device, uint64_t timeout_ns) {
  count(device->ordinal, &tb_counters::device_synchronize);
  std::vector<std::shared_ptr<Signal>> marks;
  {
    std::lock_guard lock(device->mutex);
    for (tolk_stream* s : device->streams) marks.push_back(s->mark());
  }
  for (const auto& m : marks)
    if (!m->wait(timeout_ns)) return TOLK_TIMEOUT;
  return TOLK_OK;
}

tolk_status device_peer(tolk_device* device, tolk_device* other, uint32_t* flags) {
  *flags = device->options.copy_hook && other->options.copy_hook ? uint32_t{TOLK_PEER_COPY} : 0u;
  return TOLK_OK;
}

tolk_status device_clock(tolk_device*, uint64_t* device_ns, uint64_t* host_ns) {
  *device_ns = *host_ns = host->clock_ns(host->ctx);
  return TOLK_OK;
}

void count_buffer(tolk_buffer* buffer) {
  tolk_device* device = buffer->device;
  buffer->number = next_buffer++;
  device->buffer_count++;
  uint64_t used = device->used_bytes += buffer->size;
  uint64_t peak = device->peak_bytes;
  while (used > peak && !device->peak_bytes.compare_exchange_weak(peak, used)) {
  }
  count(device->ordinal, &tb_counters::live_buffers);
  count(device->ordinal, &tb_counters::live_bytes, buffer->size);
}

tolk_status buffer_create(tolk_device* device, const tolk_buffer_desc* desc, tolk_buffer** out) {
  return guarded([&]() -> tolk_status {
    count(device->ordinal, &tb_counters::buffer_create);
    if (tolk_status s = injected(device->ordinal, TB_BUFFER_CREATE)) return s;
    const uint64_t limit = device->options.memory_limit;
    if (limit && (desc->size > limit || device->used_bytes > limit - desc->size))
      return fail(TOLK_E_DEVICE_OOM, "the memory limit of the test is reached");
    uint64_t align = desc->align > device->caps.buffer_align ? desc->align : device->caps.buffer_align;
    if (align & (align - 1)) return fail(TOLK_E_INVALID, "the alignment is not a power of two");
    auto buffer = std::make_unique<tolk_buffer>();
    buffer->device = device;
    buffer->size = desc->size;
    buffer->data = static_cast<std::byte*>(host->mem_alloc(host->ctx, desc->size + 1, align));
    if (!buffer->data) return fail(TOLK_E_DEVICE_OOM, "no host memory for the buffer");
    // Contents that nobody takes for zeros or for a result.
    std::memset(buffer->data, desc->flags & TOLK_BUFFER_ZEROED ? 0 : 0xee, desc->size);
    count_buffer(buffer.get());
    *out = buffer.release();
    return TOLK_OK;
  });
}

void buffer_destroy(tolk_buffer* buffer) {
  tolk_device* device = buffer->device;
  device->buffer_count--;
  device->used_bytes -= buffer->size;
  count(device->ordinal, &tb_counters::buffer_destroy);
  uncount(device->ordinal, &tb_counters::live_buffers);
  uncount(device->ordinal, &tb_counters::live_bytes, buffer->size);
  if (buffer->owned) {
    std::memset(buffer->data, 0xdd, buffer->size); // a use after this shows in the numbers
    host->mem_free(host->ctx, buffer->data);
  }
  if (buffer->release) buffer->release(buffer->release_arg);
  delete buffer;
}

tolk_status buffer_map(tolk_buffer* buffer, uint64_t offset, uint64_t size, uint32_t, void** out) {
  if (!buffer->device->options.host_map) return fail(TOLK_E_UNSUPPORTED, "map is switched off");
  if (!tolk_inside(offset, size, buffer->size))
    return fail(TOLK_E_INVALID, "the range to map is outside of the buffer");
  count(buffer->device->ordinal, &tb_counters::buffer_map);
  *out = buffer->data + offset;
  return TOLK_OK;
}

tolk_status buffer_unmap(tolk_buffer*, void*) { return TOLK_OK; }

tolk_status buffer_import(tolk_device* device, const tolk_buffer_desc* desc, uint32_t type, uint64_t value,
                          tolk_release_fn release, void* arg, tolk_buffer** out) {
  return guarded([&]() -> tolk_status {
    if (!device->options.host_map || type != TOLK_HANDLE_HOST_POINTER)
      return fail(TOLK_E_UNSUPPORTED, "only host pointers are imported, and only with host_map");
    auto buffer = std::make_unique<tolk_buffer>();
    buffer->device = device;
    buffer->size = desc->size;
    buffer->data = static_cast<std::byte*>(tolk_pointer(value));
    buffer->writable = (desc->usage & TOLK_USAGE_KERNEL_WRITE) != 0;
    buffer->owned = false;
    buffer->release = release;
    buffer->release_arg = arg;
    count(device->ordinal, &tb_counters::buffer_import);
    count_buffer(buffer.get());
    *out = buffer.release();
    return TOLK_OK;
  });
}

tolk_status get_extension(void*, const char* name, uint32_t version, const void** table) {
  if (std::strcmp(name, TB_EXTENSION) != 0 || version != 1) return TOLK_E_NOT_FOUND;
  *table = control_table();
  return TOLK_OK;
}

constexpr tolk_device_vt make_device_table() {
  tolk_device_vt t{};
  t.struct_size = sizeof t;
  t.close = device_close;
  t.caps = device_caps;
  t.memory = device_memory;
  t.synchronize = device_synchronize;
  t.peer = device_peer;
  t.clock = device_clock;
  return t;
}

constexpr tolk_buffer_vt make_buffer_table() {
  tolk_buffer_vt t{};
  t.struct_size = sizeof t;
  t.create = buffer_create;
  t.destroy = buffer_destroy;
  t.map = buffer_map;
  t.unmap = buffer_unmap;
  t.import_handle = buffer_import;
  return t;
}

constinit const tolk_device_vt kDeviceTable = make_device_table();

constexpr tolk_plugin make_plugin() {
  tolk_plugin p{};
  p.struct_size = sizeof p;
  p.abi_major = TOLK_ABI_MAJOR;
  p.abi_minor = TOLK_ABI_MINOR;
  p.name = PLUGIN_NAME;
  p.display_name = "Instrumented test backend";
  p.vendor = "tests";
  p.version = "1";
  p.compiler_id = "instrumented-1 kernel-ir-1.0";
  p.flags = TOLK_PLUGIN_TEST_ONLY | TOLK_PLUGIN_NO_PROBE_CHILD;
  p.device = &kDeviceTable;
  p.buffer = &kBufferTable;
  p.stream = &kStreamTable;
  p.program = &kProgramTable;
  p.graph = &kGraphTable;
  p.device_count = device_count;
  p.device_info = device_info;
  p.device_open = device_open;
  p.get_extension = get_extension;
  return p;
}

} // namespace

constinit const tolk_buffer_vt kBufferTable = make_buffer_table();

namespace {
constinit const tolk_plugin kPlugin = make_plugin();
}

} // namespace tb

TOLK_PLUGIN_EXPORT tolk_status tolk_plugin_entry_v1(const tolk_host* the_host, const tolk_plugin** out) {
  tb::host = the_host;
  *out = &tb::kPlugin;
  return TOLK_OK;
}
