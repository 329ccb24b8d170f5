// The shared library through its tables, with a host that offers just enough.
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>

#include <tolk/plugin/tolk_plugin.h>

#include "parse_kernel.h"
#include "tolk/kernel/kernel_ir.h"

struct tolk_blob {
  std::string bytes;
};

using namespace tolk;

namespace {

std::string last_error;
int live_allocations = 0, live_blobs = 0;

struct Host {
  tolk_host table{};
  Host() {
    table.struct_size = sizeof table;
    table.abi_major = TOLK_ABI_MAJOR;
    table.set_error = [](void*, tolk_status code, const char* text) {
      last_error = text;
      return code;
    };
    table.mem_alloc = [](void*, uint64_t size, uint64_t align) {
      live_allocations++;
      return std::aligned_alloc(align, (size + align - 1) / align * align);
    };
    table.mem_free = [](void*, void* pointer) {
      live_allocations--;
      std::free(pointer);
    };
    table.blob_create = [](void*, uint64_t size, void** data) {
      live_blobs++;
      auto* blob = new tolk_blob{std::string(size, '\0')};
      *data = blob->bytes.data();
      return blob;
    };
    table.clock_ns = [](void*) {
      return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
    };
  }
};

// The bytes of a blob, which is then gone.
std::string taken(tolk_blob* blob) {
  if (!blob) return "";
  std::string bytes = blob->bytes;
  delete blob;
  live_blobs--;
  return bytes;
}

const tolk_plugin& plugin() {
  static const tolk_plugin* table = [] {
    static Host host;
    const char* folder = std::getenv("TOLK_PLUGIN_PATH");
    BOOST_REQUIRE(folder);
    void* library =
        dlopen((std::string(folder) + "/libtolk-backend-interp.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    BOOST_REQUIRE_MESSAGE(library, dlerror());
    auto entry = reinterpret_cast<decltype(&tolk_plugin_entry_v1)>(dlsym(library, "tolk_plugin_entry_v1"));
    BOOST_REQUIRE(entry);
    const tolk_plugin* out = nullptr;
    BOOST_REQUIRE(entry(&host.table, &out) == TOLK_OK);
    return out;
  }();
  return *table;
}

struct Device {
  tolk_device* handle = nullptr;
  explicit Device(uint32_t index = 0) {
    BOOST_REQUIRE(plugin().device_open(plugin().self, index, &handle) == TOLK_OK);
  }
  ~Device() { plugin().device->close(handle); }
  const tolk_caps& caps() const {
    const tolk_caps* out = nullptr;
    BOOST_REQUIRE(plugin().device->caps(handle, &out) == TOLK_OK);
    return *out;
  }
  tolk_buffer* buffer(uint64_t size, uint32_t flags = 0) const {
    tolk_buffer_desc desc{};
    desc.struct_size = sizeof desc;
    desc.kind = TOLK_BUFFER_DEVICE;
    desc.flags = flags;
    desc.size = size;
    tolk_buffer* out = nullptr;
    BOOST_REQUIRE(plugin().buffer->create(handle, &desc, &out) == TOLK_OK);
    return out;
  }
};

tolk_status compile(const KernelIR& kernel, const Device& device, std::string& binary, std::string& log) {
  tolk_kernel_ir view = kernel.view();
  tolk_source source{};
  source.struct_size = sizeof source;
  source.text = {&view, view.struct_size};
  source.entry = kernel.name.c_str();
  source.options = "";
  source.params = kernel.params.data();
  source.param_count = static_cast<uint32_t>(kernel.params.size());
  tolk_blob *binary_blob = nullptr, *log_blob = nullptr;
  tolk_status status =
      plugin().program->compile(plugin().self, device.caps().targets, &source, &binary_blob, &log_blob);
  binary = taken(binary_blob), log = taken(log_blob);
  return status;
}

tolk_status load(const Device& device, const std::string& bytes, tolk_program** out) {
  tolk_source source{};
  source.struct_size = sizeof source;
  return plugin().program->load(device.handle, {bytes.data(), bytes.size()}, &source, out);
}

// out[g] = in[g] * 2 for 8 floats per group.
KernelIR doubling() {
  return test::parse_kernel_ir(
      "kernel double_it\nparam buffer f32 w 0\nparam buffer f32 r 0\n%0 = PARAM f32 [0]\n"
      "%1 = PARAM f32 [1]\n%2 = SPECIAL i32 [0, 0]\n%3 = CONST i32 8\n%4 = MUL i32 %2 %3\n"
      "%5 = LOAD f32x8 %1 %4\n%6 = ADD f32x8 %5 %5\n%7 = STORE f32x8 %0 %4 %6\n");
}

} // namespace

BOOST_AUTO_TEST_SUITE(interp_plugin)

BOOST_AUTO_TEST_CASE(it_presents_itself_as_a_test_device) {
  BOOST_TEST(plugin().name == std::string("INTERP"));
  BOOST_TEST((plugin().flags & TOLK_PLUGIN_TEST_ONLY) != 0u);
  uint32_t count = 0;
  BOOST_TEST(plugin().device_count(plugin().self, &count) == TOLK_OK);
  BOOST_TEST(count == 1u);
  const tolk_device_info* info = nullptr;
  BOOST_TEST(plugin().device_info(plugin().self, 0, &info) == TOLK_OK);
  BOOST_TEST((info->flags & TOLK_DEVICE_REOPENABLE) != 0u);
  Device device;
  const tolk_caps& caps = device.caps();
  BOOST_TEST(caps.target_count == 1u);
  BOOST_TEST(caps.targets[0].kind == TOLK_TARGET_KERNEL_IR);
  BOOST_TEST(caps.dtype_alu == (uint64_t{1} << TOLK_DTYPE_COUNT) - 1);
  BOOST_TEST((caps.targets[0].features & TOLK_FEATURE_ALL) == TOLK_FEATURE_ALL);
  BOOST_TEST((caps.flags & TOLK_CAP_BOUNDS_CHECKED) != 0u);
  BOOST_TEST(caps.local_product_max > 1u);
}

BOOST_AUTO_TEST_CASE(a_kernel_goes_from_source_to_result_and_leaves_nothing_behind) {
  {
    Device device(3), other(3); // independent devices beyond the count
    std::string binary, log;
    BOOST_REQUIRE(compile(doubling(), device, binary, log) == TOLK_OK);
    tolk_program* program = nullptr;
    BOOST_REQUIRE(load(device, binary, &program) == TOLK_OK);
    tolk_kernel *kernel = nullptr, *again = nullptr;
    BOOST_TEST(plugin().program->get_kernel(program, "other", &kernel) == TOLK_E_NOT_FOUND);
    BOOST_REQUIRE(plugin().program->get_kernel(program, "double_it", &kernel) == TOLK_OK);
    BOOST_TEST(plugin().program->get_kernel(program, "double_it", &again) == TOLK_OK);
    BOOST_TEST(kernel == again);

    std::vector<float> in(20), out(16);
    for (size_t i = 0; i < in.size(); i++) in[i] = static_cast<float>(i);
    tolk_buffer *a = device.buffer(64), *b = device.buffer(80);
    BOOST_TEST(plugin().stream->copy_in(nullptr, {b, 0, 80}, in.data(), 0) == TOLK_OK);
    tolk_ref refs[] = {{a, 0, 64}, {b, 16, 64}}; // reads from the fifth element on
    uint64_t ns = 0;
    tolk_launch launch{};
    launch.struct_size = sizeof launch;
    launch.grid[0] = 2, launch.grid[1] = launch.grid[2] = 1;
    launch.local[0] = launch.local[1] = launch.local[2] = 1;
    launch.buffer_count = 2;
    launch.buffers = refs;
    launch.device_ns = &ns;
    BOOST_TEST(plugin().program->launch(nullptr, kernel, &launch) == TOLK_OK);
    BOOST_TEST(ns > 0u);
    BOOST_TEST(plugin().stream->copy_out(nullptr, out.data(), {a, 0, 64}, 0) == TOLK_OK);
    for (size_t i = 0; i < 16; i++) BOOST_TEST(out[i] == 2 * in[i + 4]);

    launch.grid[0] = 3; // one group too many for the refs
    BOOST_TEST(plugin().program->launch(nullptr, kernel, &launch) == TOLK_E_KERNEL_FAULT);
    BOOST_TEST(last_error.find("LOAD %5: index 16") != std::string::npos, last_error);
    launch.grid[0] = 1;
    launch.buffer_count = 1;
    BOOST_TEST(plugin().program->launch(nullptr, kernel, &launch) == TOLK_E_INVALID);
    launch.buffer_count = 2;
    refs[1].size = 65; // beyond the buffer
    BOOST_TEST(plugin().program->launch(nullptr, kernel, &launch) == TOLK_E_INVALID);

    tolk_memory memory{};
    memory.struct_size = sizeof memory;
    BOOST_TEST(plugin().device->memory(device.handle, &memory) == TOLK_OK);
    BOOST_TEST(memory.used_bytes == 144u);
    BOOST_TEST(plugin().device->memory(other.handle, &memory) == TOLK_OK);
    BOOST_TEST(memory.used_bytes == 0u);
    plugin().program->unload(program);
    plugin().buffer->destroy(a);
    plugin().buffer->destroy(b);
  }
  BOOST_TEST(live_allocations == 0);
  BOOST_TEST(live_blobs == 0);
}

BOOST_AUTO_TEST_CASE(a_broken_kernel_is_rejected_with_a_log) {
  Device device;
  KernelIR bad = doubling();
  bad.ops[6].dtype = TOLK_DTYPE_I32;
  std::string binary, log;
  BOOST_TEST(compile(bad, device, binary, log) == TOLK_E_COMPILE);
  BOOST_TEST(binary.empty());
  BOOST_TEST(log.find("ADD %6") != std::string::npos, log);
}

BOOST_AUTO_TEST_CASE(foreign_bytes_are_refused) {
  Device device;
  std::string binary, log;
  BOOST_REQUIRE(compile(doubling(), device, binary, log) == TOLK_OK);
  std::string damaged = binary;
  damaged[damaged.size() / 2] ^= 1;
  for (const std::string& bytes : {std::string(), std::string("ELF"), std::string(5000, '\xee'), damaged,
                                   binary.substr(0, binary.size() - 1), serialize(doubling())}) {
    tolk_program* program = nullptr;
    BOOST_TEST(load(device, bytes, &program) == TOLK_E_BAD_BINARY);
  }
}

BOOST_AUTO_TEST_CASE(copies_fills_and_maps_stay_inside_their_buffer) {
  Device device;
  tolk_buffer *a = device.buffer(16, TOLK_BUFFER_ZEROED), *b = device.buffer(16), *empty = device.buffer(0);
  uint8_t bytes[16];
  const tolk_stream_vt& s = *plugin().stream;
  BOOST_TEST(s.copy_out(nullptr, bytes, {a, 0, 16}, 0) == TOLK_OK);
  for (uint8_t byte : bytes) BOOST_TEST(byte == 0);
  BOOST_TEST(s.fill(nullptr, {b, 4, 8}, 0x04030201, 4) == TOLK_OK);
  BOOST_TEST(s.copy(nullptr, {a, 1, 4}, {b, 8, 4}) == TOLK_OK);
  void* mapped = nullptr;
  BOOST_TEST(plugin().buffer->map(a, 1, 4, TOLK_MAP_READ, &mapped) == TOLK_OK);
  BOOST_TEST(std::memcmp(mapped, "\1\2\3\4", 4) == 0);
  BOOST_TEST(plugin().buffer->unmap(a, mapped) == TOLK_OK);
  BOOST_TEST(s.copy_in(nullptr, {empty, 0, 0}, nullptr, 0) == TOLK_OK);
  BOOST_TEST(s.copy_in(nullptr, {a, 8, 9}, bytes, 0) == TOLK_E_INVALID);
  BOOST_TEST(s.copy_out(nullptr, bytes, {a, UINT64_MAX, 2}, 0) == TOLK_E_INVALID);
  BOOST_TEST(s.copy(nullptr, {a, 0, 4}, {b, 0, 5}) == TOLK_E_INVALID);
  BOOST_TEST(s.copy(nullptr, {a, 0, 4}, {a, 3, 4}) == TOLK_E_INVALID);
  BOOST_TEST(s.fill(nullptr, {a, 2, 4}, 0, 4) == TOLK_E_INVALID);
  BOOST_TEST(s.fill(nullptr, {a, 0, 3}, 0, 3) == TOLK_E_INVALID);
  BOOST_TEST(plugin().buffer->map(a, 10, 7, TOLK_MAP_READ, &mapped) == TOLK_E_INVALID);
  for (tolk_buffer* buffer : {a, b, empty}) plugin().buffer->destroy(buffer);
}

BOOST_AUTO_TEST_CASE(imported_memory_is_used_in_place_released_once_and_protected) {
  Device device;
  std::vector<float> in = {1, 2, 3, 4, 5, 6, 7, 8};
  int released = 0;
  tolk_buffer_desc desc{};
  desc.struct_size = sizeof desc;
  desc.size = 32;
  tolk_buffer* imported = nullptr;
  auto release = [](void* arg) { ++*static_cast<int*>(arg); };
  const tolk_buffer_vt& vt = *plugin().buffer;
  BOOST_TEST(vt.import_handle(device.handle, &desc, TOLK_HANDLE_DMA_BUF, 3, release, &released, &imported) ==
             TOLK_E_UNSUPPORTED);
  BOOST_REQUIRE(vt.import_handle(device.handle, &desc, TOLK_HANDLE_HOST_POINTER,
                                 reinterpret_cast<uint64_t>(in.data()), release, &released,
                                 &imported) == TOLK_OK);
  std::string binary, log;
  BOOST_REQUIRE(compile(doubling(), device, binary, log) == TOLK_OK);
  tolk_program* program = nullptr;
  tolk_kernel* kernel = nullptr;
  BOOST_REQUIRE(load(device, binary, &program) == TOLK_OK);
  BOOST_REQUIRE(plugin().program->get_kernel(program, "double_it", &kernel) == TOLK_OK);
  tolk_buffer* out = device.buffer(32);
  tolk_ref refs[] = {{out, 0, 32}, {imported, 0, 32}};
  tolk_launch launch{};
  launch.struct_size = sizeof launch;
  for (int axis = 0; axis < 3; axis++) launch.grid[axis] = launch.local[axis] = 1;
  launch.buffer_count = 2;
  launch.buffers = refs;
  BOOST_TEST(plugin().program->launch(nullptr, kernel, &launch) == TOLK_OK);
  float got[8];
  BOOST_TEST(plugin().stream->copy_out(nullptr, got, {out, 0, 32}, 0) == TOLK_OK);
  BOOST_TEST(got[7] == 16.0f);
  std::swap(refs[0], refs[1]); // now the kernel would write what it may only read
  BOOST_TEST(plugin().program->launch(nullptr, kernel, &launch) == TOLK_E_INVALID);
  BOOST_TEST(in[0] == 1.0f);
  BOOST_TEST(released == 0);
  vt.destroy(imported);
  BOOST_TEST(released == 1);
  vt.destroy(out);
  plugin().program->unload(program);
}

BOOST_AUTO_TEST_SUITE_END()
