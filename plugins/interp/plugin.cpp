// DEVICE=INTERP: the plugin tables of the interpreter. Memory is host memory, devices are synchronous, and every
// index opens another independent device. No exception leaves this file.
#include <atomic>
#include <cstring>
#include <exception>
#include <new>

#include <tolk/plugin/helpers.h>
#include <tolk/plugin/tolk_plugin.h>

#include "interp.h"

using namespace tolk_interp;

TOLK_PLUGIN_STAMP("INTERP", TOLK_ABI_MAJOR, TOLK_ABI_MINOR);

struct tolk_device {
  std::atomic<uint64_t> used_bytes{0}, peak_bytes{0}, buffer_count{0};
};

struct tolk_buffer {
  tolk_device* device = nullptr;
  std::byte* data = nullptr;
  uint64_t size = 0;
  bool writable = true; // imported memory may be read-only for the process
  bool owned = true;
  tolk_release_fn release = nullptr;
  void* release_arg = nullptr;
};

struct tolk_kernel {
  std::shared_ptr<const Program> program;
};

struct tolk_program {
  tolk_kernel kernel;
};

namespace {

const tolk_host* host = nullptr;

tolk_status fail(tolk_status code, const char* text) { return host->set_error(host->ctx, code, text); }

template <class F> tolk_status guarded(F body) {
  try {
    return body();
  } catch (const Error& error) {
    return fail(error.code, error.text.c_str());
  } catch (const std::bad_alloc&) {
    return fail(TOLK_E_HOST_OOM, "host memory is exhausted");
  } catch (const std::exception& error) {
    return fail(TOLK_E_INTERNAL, error.what());
  }
}

// ---- device

constexpr uint64_t kAlign = 64;
constexpr uint64_t kAllTypes = (uint64_t{1} << TOLK_DTYPE_COUNT) - 1;
constexpr uint64_t kAllOpcodes = 0
#define TOLK_IR(NAME, code, lo, hi, meaning) | uint64_t{1} << code
#include <tolk/plugin/kernel_ir_ops.def>
#undef TOLK_IR
    ;

constexpr tolk_target make_target() {
  tolk_target t{};
  t.struct_size = sizeof t;
  t.kind = TOLK_TARGET_KERNEL_IR;
  t.version_min = t.version_max = TOLK_KERNEL_IR_VERSION;
  t.features = kAllOpcodes;
  t.dialect = "kernel-ir";
  t.arch = t.arch_features = t.data_layout = "";
  return t;
}
constexpr tolk_target kTarget = make_target();

constexpr tolk_caps make_caps() {
  tolk_caps c{};
  c.struct_size = sizeof c;
  c.target_count = 1;
  c.targets = &kTarget;
  c.dtype_storage = c.dtype_alu = kAllTypes;
  c.flags = TOLK_CAP_BOUNDS_CHECKED | TOLK_CAP_DENORMALS_F16 | TOLK_CAP_DENORMALS_F32 |
            TOLK_CAP_NO_CONTRACTION | TOLK_CAP_SCALAR_SLOTS_64;
  c.vector_bytes = 32;
  c.vector_widths = 0x7f; // 1 to 64 elements; any width runs
  for (int axis = 0; axis < 3; axis++) {
    c.grid_max[axis] = INT32_MAX;
    c.local_max[axis] = 1024;
  }
  c.local_product_max = 1024;
  c.shared_bytes = 64 << 10;
  c.buffer_align = c.map_align = kAlign;
  c.offset_align = c.copy_align = c.import_align = 1;
  c.buffer_kinds = c.kernel_kinds = 0x1e;
  c.compute_units = c.cores = 1;
  return c;
}
constexpr tolk_caps kCaps = make_caps();

constexpr tolk_device_info make_info() {
  tolk_device_info i{};
  i.struct_size = sizeof i;
  i.kind = TOLK_KIND_CPU;
  i.flags = TOLK_DEVICE_UNIFIED_MEMORY | TOLK_DEVICE_REOPENABLE | TOLK_DEVICE_DETERMINISTIC;
  i.numa_node = -1;
  i.name = "Reference interpreter";
  i.description = "runs kernels one operation at a time, with every access checked; for tests";
  i.arch = "";
  i.driver_version = "1";
  i.dlpack_type = 1; // kDLCPU
  return i;
}
constexpr tolk_device_info kInfo = make_info();

tolk_status device_count(void*, uint32_t* out) {
  *out = 1;
  return TOLK_OK;
}

tolk_status device_info(void*, uint32_t, const tolk_device_info** out) {
  *out = &kInfo;
  return TOLK_OK;
}

tolk_status device_open(void*, uint32_t, tolk_device** out) {
  return guarded([&] {
    *out = new tolk_device;
    return TOLK_OK;
  });
}

void device_close(tolk_device* device) { delete device; }

tolk_status device_caps(tolk_device*, const tolk_caps** out) {
  *out = &kCaps;
  return TOLK_OK;
}

tolk_status device_memory(tolk_device* device, tolk_memory* out) {
  tolk_memory m{};
  m.struct_size = sizeof m;
  m.used_bytes = device->used_bytes;
  m.peak_bytes = device->peak_bytes;
  m.buffer_count = device->buffer_count;
  tolk_write_out(out, &m, sizeof m);
  return TOLK_OK;
}

tolk_status device_peer(tolk_device*, tolk_device*, uint32_t* flags) {
  *flags = TOLK_PEER_COPY;
  return TOLK_OK;
}

// ---- buffers

void count_buffer(tolk_buffer* buffer) {
  tolk_device* device = buffer->device;
  device->buffer_count++;
  uint64_t used = device->used_bytes += buffer->size;
  uint64_t peak = device->peak_bytes;
  while (used > peak && !device->peak_bytes.compare_exchange_weak(peak, used)) {
  }
}

tolk_status buffer_create(tolk_device* device, const tolk_buffer_desc* desc, tolk_buffer** out) {
  return guarded([&]() -> tolk_status {
    if (desc->kind < TOLK_BUFFER_DEVICE || desc->kind > TOLK_BUFFER_DEVICE_WRITABLE)
      return fail(TOLK_E_UNSUPPORTED, "a kind of buffer that this device does not have");
    uint64_t align = desc->align > kAlign ? desc->align : kAlign;
    if (align & (align - 1)) return fail(TOLK_E_INVALID, "the alignment is not a power of two");
    auto buffer = std::make_unique<tolk_buffer>();
    buffer->device = device;
    buffer->size = desc->size;
    // One byte more for size 0, whose handle has an address all the same.
    buffer->data = static_cast<std::byte*>(host->mem_alloc(host->ctx, desc->size ? desc->size : 1, align));
    if (!buffer->data) return fail(TOLK_E_DEVICE_OOM, "no host memory for the buffer");
    if (desc->flags & TOLK_BUFFER_ZEROED) std::memset(buffer->data, 0, desc->size);
    count_buffer(buffer.get());
    *out = buffer.release();
    return TOLK_OK;
  });
}

void buffer_destroy(tolk_buffer* buffer) {
  buffer->device->buffer_count--;
  buffer->device->used_bytes -= buffer->size;
  if (buffer->owned) host->mem_free(host->ctx, buffer->data);
  if (buffer->release) buffer->release(buffer->release_arg);
  delete buffer;
}

bool inside(const tolk_buffer* buffer, uint64_t offset, uint64_t size) {
  return buffer && tolk_inside(offset, size, buffer->size);
}

tolk_status buffer_map(tolk_buffer* buffer, uint64_t offset, uint64_t size, uint32_t, void** out) {
  if (!inside(buffer, offset, size)) return fail(TOLK_E_INVALID, "the range to map is outside of the buffer");
  *out = buffer->data + offset;
  return TOLK_OK;
}

tolk_status buffer_unmap(tolk_buffer*, void*) { return TOLK_OK; }

tolk_status buffer_import(tolk_device* device, const tolk_buffer_desc* desc, uint32_t type, uint64_t value,
                          tolk_release_fn release, void* arg, tolk_buffer** out) {
  return guarded([&]() -> tolk_status {
    if (type != TOLK_HANDLE_HOST_POINTER) return fail(TOLK_E_UNSUPPORTED, "only host pointers are imported");
    auto buffer = std::make_unique<tolk_buffer>();
    buffer->device = device;
    buffer->size = desc->size;
    buffer->data = static_cast<std::byte*>(tolk_pointer(value));
    buffer->writable = (desc->usage & TOLK_USAGE_KERNEL_WRITE) != 0;
    buffer->owned = false;
    buffer->release = release;
    buffer->release_arg = arg;
    count_buffer(buffer.get());
    *out = buffer.release();
    return TOLK_OK;
  });
}

// ---- copies

tolk_status check_ref(tolk_ref ref) {
  if (inside(ref.buffer, ref.offset, ref.size)) return TOLK_OK;
  return fail(TOLK_E_INVALID, "a range is outside of its buffer");
}

tolk_status copy_in(tolk_stream*, tolk_ref dst, const void* src, uint32_t) {
  if (tolk_status s = check_ref(dst)) return s;
  if (dst.size) std::memcpy(dst.buffer->data + dst.offset, src, dst.size);
  return TOLK_OK;
}

tolk_status copy_out(tolk_stream*, void* dst, tolk_ref src, uint32_t) {
  if (tolk_status s = check_ref(src)) return s;
  if (src.size) std::memcpy(dst, src.buffer->data + src.offset, src.size);
  return TOLK_OK;
}

tolk_status copy(tolk_stream*, tolk_ref dst, tolk_ref src) {
  if (tolk_status s = check_ref(dst)) return s;
  if (tolk_status s = check_ref(src)) return s;
  if (dst.size != src.size) return fail(TOLK_E_INVALID, "source and destination differ in size");
  if (tolk_overlap(dst, src)) return fail(TOLK_E_INVALID, "source and destination overlap");
  if (dst.size) std::memcpy(dst.buffer->data + dst.offset, src.buffer->data + src.offset, dst.size);
  return TOLK_OK;
}

tolk_status fill(tolk_stream*, tolk_ref dst, uint64_t pattern, uint32_t pattern_bytes) {
  if (tolk_status s = check_ref(dst)) return s;
  if (!tolk_fill_fits(dst, pattern_bytes))
    return fail(TOLK_E_INVALID, "offset and size are multiples of the pattern's 1, 2, 4 or 8 bytes");
  tolk_fill_bytes(dst.buffer->data + dst.offset, dst.size, pattern, pattern_bytes);
  return TOLK_OK;
}

// ---- programs

tolk_blob* make_blob(const std::string& bytes) {
  tolk_blob* blob = tolk_blob_of(host, bytes.data(), bytes.size());
  if (!blob) throw std::bad_alloc();
  return blob;
}

tolk_status compile(void*, const tolk_target* target, const tolk_source* source, tolk_blob** binary,
                    tolk_blob** log) {
  std::string problems;
  tolk_status status = guarded([&]() -> tolk_status {
    *binary = make_blob(tolk_interp::compile(*target, *source, problems));
    return TOLK_OK;
  });
  if (log && !problems.empty()) *log = tolk_blob_of(host, problems.data(), problems.size());
  return status;
}

tolk_status load(tolk_device*, tolk_bytes binary, const tolk_source*, tolk_program** out) {
  return guarded([&]() -> tolk_status {
    auto program = std::make_unique<tolk_program>();
    program->kernel.program = tolk_interp::load(binary);
    *out = program.release();
    return TOLK_OK;
  });
}

void unload(tolk_program* program) { delete program; }

tolk_status get_kernel(tolk_program* program, const char* entry, tolk_kernel** out) {
  return guarded([&]() -> tolk_status {
    const std::string& has = name(*program->kernel.program);
    if (has != entry)
      return fail(TOLK_E_NOT_FOUND, ("the program has the kernel " + has + ", not " + entry).c_str());
    *out = &program->kernel;
    return TOLK_OK;
  });
}

tolk_status kernel_info(tolk_kernel* kernel, tolk_kernel_info* out) {
  tolk_kernel_info info{};
  info.struct_size = sizeof info;
  info.shared_bytes = shared_bytes(*kernel->program);
  info.private_bytes = private_bytes(*kernel->program);
  info.max_local = kCaps.local_product_max;
  info.subgroup = 1;
  tolk_write_out(out, &info, sizeof info);
  return TOLK_OK;
}

tolk_status launch(tolk_stream*, tolk_kernel* kernel, const tolk_launch* l) {
  return guarded([&]() -> tolk_status {
    std::vector<BufferArg> buffers;
    buffers.reserve(l->buffer_count);
    for (uint32_t i = 0; i < l->buffer_count; i++) {
      const tolk_ref& ref = l->buffers[i];
      if (tolk_status s = check_ref(ref)) return s;
      buffers.push_back({ref.buffer->data + ref.offset, ref.size, ref.buffer->writable});
    }
    LaunchArgs args;
    std::memcpy(args.grid, l->grid, sizeof args.grid);
    std::memcpy(args.local, l->local, sizeof args.local);
    args.buffers = buffers;
    args.values = {l->values, l->value_count};
    uint64_t begin = l->device_ns ? host->clock_ns(host->ctx) : 0;
    run(*kernel->program, args);
    if (l->device_ns) *l->device_ns = host->clock_ns(host->ctx) - begin;
    return TOLK_OK;
  });
}

// ---- tables

constexpr tolk_device_vt make_device_vt() {
  tolk_device_vt t{};
  t.struct_size = sizeof t;
  t.close = device_close;
  t.caps = device_caps;
  t.memory = device_memory;
  t.peer = device_peer;
  return t;
}
constexpr tolk_device_vt kDevice = make_device_vt();

constexpr tolk_buffer_vt make_buffer_vt() {
  tolk_buffer_vt t{};
  t.struct_size = sizeof t;
  t.create = buffer_create;
  t.destroy = buffer_destroy;
  t.map = buffer_map;
  t.unmap = buffer_unmap;
  t.import_handle = buffer_import;
  return t;
}
constexpr tolk_buffer_vt kBuffer = make_buffer_vt();

constexpr tolk_stream_vt make_stream_vt() {
  tolk_stream_vt t{};
  t.struct_size = sizeof t;
  t.copy_in = copy_in;
  t.copy_out = copy_out;
  t.copy = copy;
  t.fill = fill;
  return t;
}
constexpr tolk_stream_vt kStream = make_stream_vt();

constexpr tolk_program_vt make_program_vt() {
  tolk_program_vt t{};
  t.struct_size = sizeof t;
  t.compile = compile;
  t.load = load;
  t.unload = unload;
  t.get_kernel = get_kernel;
  t.kernel_info = kernel_info;
  t.launch = launch;
  return t;
}
constexpr tolk_program_vt kProgram = make_program_vt();

constexpr tolk_plugin make_plugin() {
  tolk_plugin p{};
  p.struct_size = sizeof p;
  p.abi_major = TOLK_ABI_MAJOR;
  p.abi_minor = TOLK_ABI_MINOR;
  p.name = "INTERP";
  p.display_name = "Reference interpreter";
  p.vendor = "tolk";
  p.version = "1";
  p.compiler_id = "interp-1 kernel-ir-1.0"; // the form of blob.cpp
  p.flags = TOLK_PLUGIN_TEST_ONLY | TOLK_PLUGIN_NO_PROBE_CHILD;
  p.device = &kDevice;
  p.buffer = &kBuffer;
  p.stream = &kStream;
  p.program = &kProgram;
  p.device_count = device_count;
  p.device_info = device_info;
  p.device_open = device_open;
  return p;
}
constexpr tolk_plugin kPlugin = make_plugin();

} // namespace

TOLK_PLUGIN_EXPORT tolk_status tolk_plugin_entry_v1(const tolk_host* the_host, const tolk_plugin** out) {
  host = the_host;
  *out = &kPlugin;
  return TOLK_OK;
}
