#include "tolk/device/host_backend.h"

#include <cstdlib>
#include <cstring>
#include <new>

#include <tolk/plugin/helpers.h>

struct tolk_device {
  uint32_t index;
};

struct tolk_buffer {
  char* bytes;
  bool owned;
  tolk_release_fn release;
  void* release_arg;
};

namespace tolk {
namespace {

constexpr uint64_t kAlign = 64;

tolk_status device_count(void*, uint32_t* out) {
  *out = 1;
  return TOLK_OK;
}

tolk_status device_info(void*, uint32_t, const tolk_device_info** out) {
  static const tolk_device_info info = [] {
    tolk_device_info i{};
    i.struct_size = sizeof i;
    i.kind = TOLK_KIND_OTHER;
    i.numa_node = -1;
    i.name = "host memory";
    i.description = "plain bytes; runs no kernels";
    i.arch = "";
    i.driver_version = "";
    i.dlpack_type = 1; // kDLCPU
    return i;
  }();
  *out = &info;
  return TOLK_OK;
}

tolk_status device_open(void*, uint32_t index, tolk_device** out) {
  if (index != 0) return TOLK_E_NOT_FOUND;
  *out = new (std::nothrow) tolk_device{index};
  return *out ? TOLK_OK : TOLK_E_HOST_OOM;
}

void close(tolk_device* device) { delete device; }

tolk_status caps(tolk_device*, const tolk_caps** out) {
  static const tolk_caps record = [] {
    tolk_caps c{};
    c.struct_size = sizeof c;
    c.dtype_storage = (UINT64_C(1) << TOLK_DTYPE_COUNT) - 1;
    for (int i = 0; i < 3; i++) c.grid_max[i] = c.local_max[i] = 1;
    c.local_product_max = 1;
    c.buffer_align = kAlign;
    c.import_align = 1;
    c.buffer_kinds = 1u << TOLK_BUFFER_DEVICE | 1u << TOLK_BUFFER_STAGING | 1u << TOLK_BUFFER_UNIFIED;
    return c;
  }();
  *out = &record;
  return TOLK_OK;
}

tolk_status create(tolk_device*, const tolk_buffer_desc* desc, tolk_buffer** out) {
  if (desc->size > PTRDIFF_MAX - kAlign) return TOLK_E_HOST_OOM;
  uint64_t size = (desc->size + kAlign) / kAlign * kAlign; // aligned_alloc wants a multiple, and never 0
  auto* buffer = new (std::nothrow) tolk_buffer{};
  auto* bytes = static_cast<char*>(std::aligned_alloc(kAlign, size));
  if (!buffer || !bytes) {
    std::free(bytes);
    delete buffer;
    return TOLK_E_HOST_OOM;
  }
  if (desc->flags & TOLK_BUFFER_ZEROED) std::memset(bytes, 0, size);
  buffer->bytes = bytes;
  buffer->owned = true;
  *out = buffer;
  return TOLK_OK;
}

void destroy(tolk_buffer* buffer) {
  if (buffer->owned) std::free(buffer->bytes);
  if (buffer->release) buffer->release(buffer->release_arg);
  delete buffer;
}

tolk_status map(tolk_buffer* buffer, uint64_t offset, uint64_t, uint32_t, void** out) {
  *out = buffer->bytes + offset;
  return TOLK_OK;
}

tolk_status unmap(tolk_buffer*, void*) { return TOLK_OK; }

tolk_status import_handle(tolk_device*, const tolk_buffer_desc*, uint32_t type, uint64_t value,
                          tolk_release_fn release, void* arg, tolk_buffer** out) {
  if (type != TOLK_HANDLE_HOST_POINTER) return TOLK_E_UNSUPPORTED;
  *out = new (std::nothrow) tolk_buffer{static_cast<char*>(tolk_pointer(value)), false, release, arg};
  return *out ? TOLK_OK : TOLK_E_HOST_OOM;
}

tolk_status copy_in(tolk_stream*, tolk_ref dst, const void* src, uint32_t) {
  std::memcpy(dst.buffer->bytes + dst.offset, src, dst.size);
  return TOLK_OK;
}

tolk_status copy_out(tolk_stream*, void* dst, tolk_ref src, uint32_t) {
  std::memcpy(dst, src.buffer->bytes + src.offset, src.size);
  return TOLK_OK;
}

tolk_status load(tolk_device*, tolk_bytes, const tolk_source*, tolk_program**) { return TOLK_E_UNSUPPORTED; }
void unload(tolk_program*) {}
tolk_status get_kernel(tolk_program*, const char*, tolk_kernel**) { return TOLK_E_UNSUPPORTED; }
tolk_status launch(tolk_stream*, tolk_kernel*, const tolk_launch*) { return TOLK_E_UNSUPPORTED; }

template <typename T> T sized() {
  T t{};
  t.struct_size = sizeof t;
  return t;
}

} // namespace

const tolk_plugin* host_backend_table() {
  static const auto device = [] {
    auto t = sized<tolk_device_vt>();
    t.close = close;
    t.caps = caps;
    return t;
  }();
  static const auto buffer = [] {
    auto t = sized<tolk_buffer_vt>();
    t.create = create;
    t.destroy = destroy;
    t.map = map;
    t.unmap = unmap;
    t.import_handle = import_handle;
    return t;
  }();
  static const auto stream = [] {
    auto t = sized<tolk_stream_vt>();
    t.copy_in = copy_in;
    t.copy_out = copy_out;
    return t;
  }();
  static const auto program = [] {
    auto t = sized<tolk_program_vt>();
    t.load = load;
    t.unload = unload;
    t.get_kernel = get_kernel;
    t.launch = launch;
    return t;
  }();
  static const auto plugin = [] {
    auto t = sized<tolk_plugin>();
    t.abi_major = TOLK_ABI_MAJOR;
    t.abi_minor = TOLK_ABI_MINOR;
    t.name = "HOST";
    t.display_name = "host memory";
    t.vendor = "tolk";
    t.version = "";
    t.compiler_id = "none";
    t.device = &device;
    t.buffer = &buffer;
    t.stream = &stream;
    t.program = &program;
    t.device_count = device_count;
    t.device_info = device_info;
    t.device_open = device_open;
    return t;
  }();
  return &plugin;
}

} // namespace tolk
