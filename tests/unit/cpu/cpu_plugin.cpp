#include "cpu_plugin.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <stdexcept>

#include "tolk/render/llvm/llvm_ir.h"
#include "tolk/render/renderer.h"

struct tolk_blob {
  std::string bytes;
};

namespace tolk::test {
namespace {

thread_local std::string error_text;

tolk_host make_host() {
  tolk_host h{};
  h.struct_size = sizeof h;
  h.abi_major = TOLK_ABI_MAJOR;
  h.abi_minor = TOLK_ABI_MINOR;
  h.log_message = [](void*, uint32_t, const char*) {};
  h.set_error = [](void*, tolk_status code, const char* text) {
    error_text = text;
    return code;
  };
  h.mem_alloc = [](void*, uint64_t size, uint64_t align) -> void* {
    if (size > uint64_t{1} << 40) return nullptr;
    return std::aligned_alloc(align, (size + align - 1) / align * align);
  };
  h.mem_free = [](void*, void* pointer) { std::free(pointer); };
  h.blob_create = [](void*, uint64_t size, void** data) {
    auto* blob = new tolk_blob{std::string(size, '\0')};
    *data = blob->bytes.data();
    return blob;
  };
  h.blob_bytes = [](void*, const tolk_blob* blob) {
    return tolk_bytes{blob->bytes.data(), blob->bytes.size()};
  };
  h.blob_destroy = [](void*, tolk_blob* blob) { delete blob; };
  h.config_get = [](void*, const char* key) -> const char* {
#ifdef TOLK_TEST_STREAMS
    if (std::string(key) == "streams") return "1";
#endif
    return std::string(key) == "threads" ? "2" : nullptr;
  };
  h.clock_ns = [](void*) {
    return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  };
  h.cancelled = [](void*) { return 0; };
  return h;
}

const tolk_plugin* open_plugin(const char* file, const tolk_host& host) {
  void* library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (!library) throw std::runtime_error(dlerror());
  auto entry = reinterpret_cast<decltype(&tolk_plugin_entry_v1)>(dlsym(library, "tolk_plugin_entry_v1"));
  const tolk_plugin* plugin = nullptr;
  if (!entry || entry(&host, &plugin) != TOLK_OK) throw std::runtime_error("the CPU plugin's entry failed");
  return plugin;
}

struct Instance {
  tolk_host host = make_host();
  const tolk_plugin* plugin = nullptr;
  tolk_device* device = nullptr;
  const tolk_caps* caps = nullptr;

  Instance() {
    plugin = open_plugin(TOLK_TEST_CPU_PLUGIN, host);
    if (plugin->device_open(plugin->self, 0, &device) != TOLK_OK) throw std::runtime_error(error_text);
    plugin->device->caps(device, &caps);
  }
  ~Instance() {
    plugin->device->close(device);
    plugin->shutdown(plugin->self);
  }
};

Instance& instance() {
  static Instance the;
  return the;
}

} // namespace

const tolk_plugin& plugin() { return *instance().plugin; }
const tolk_target& target() { return instance().caps->targets[0]; }
tolk_device* device() { return instance().device; }
std::string last_error() { return error_text; }

std::string take_blob(tolk_blob* blob) {
  if (!blob) return {};
  std::string bytes = std::move(blob->bytes);
  delete blob;
  return bytes;
}

GuardedBytes::GuardedBytes(size_t size, bool at_start) : size_(size) {
  size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE)), inner = (size + page - 1) / page * page;
  map_size_ = inner + 2 * page;
  void* map = mmap(nullptr, map_size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) throw std::bad_alloc();
  map_ = static_cast<uint8_t*>(map);
  if (inner && mprotect(map_ + page, inner, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
  data_ = at_start ? map_ + page : map_ + page + inner - size;
}

GuardedBytes::~GuardedBytes() { munmap(map_, map_size_); }

tolk_source source_for(const std::string& text, const KernelIR& kernel) {
  tolk_source s{};
  s.struct_size = sizeof s;
  s.text = {text.data(), text.size()};
  s.entry = kernel.name.c_str();
  s.options = "";
  s.params = kernel.params.data();
  s.param_count = static_cast<uint32_t>(kernel.params.size());
  s.local[0] = s.local[1] = s.local[2] = 1;
  s.shared_bytes = local_storage_offset(kernel, uint32_t(kernel.ops.size()));
  return s;
}

namespace {
tolk_status compile_source(const tolk_source& source, std::string& binary, std::string& log) {
  tolk_blob *object = nullptr, *text = nullptr;
  tolk_status status = plugin().program->compile(plugin().self, &target(), &source, &object, &text);
  binary = take_blob(object);
  log = take_blob(text);
  return status;
}
} // namespace

const tolk_plugin& open_copy(const std::string& file) {
  static const tolk_host host = make_host();
  return *open_plugin(file.c_str(), host);
}

tolk_status compile_text(const std::string& text, const char* entry, std::string& binary, std::string& log) {
  KernelIR empty;
  empty.name = entry;
  return compile_source(source_for(text, empty), binary, log);
}

std::string compile_kernel(const KernelIR& kernel, bool may_alias) {
  std::string text = render_llvm_ir(kernel, {.may_alias = may_alias}), binary, log;
  if (compile_source(source_for(text, kernel), binary, log) != TOLK_OK)
    throw std::runtime_error(error_text + ": " + log + text);
  return binary;
}

LoadedKernel::LoadedKernel(const KernelIR& kernel, bool may_alias) {
  verify(kernel);
  std::string binary = compile_kernel(kernel, may_alias), none;
  tolk_source source = source_for(none, kernel);
  if (plugin().program->load(device(), {binary.data(), binary.size()}, &source, &program_) != TOLK_OK)
    throw std::runtime_error(error_text);
  if (plugin().program->get_kernel(program_, kernel.name.c_str(), &kernel_) != TOLK_OK)
    throw std::runtime_error(error_text);
}

LoadedKernel::~LoadedKernel() {
  if (program_) plugin().program->unload(program_);
}

void LoadedKernel::run(std::initializer_list<Bytes> buffers, uint32_t tiles,
                       std::initializer_list<uint64_t> values) const {
  std::vector<tolk_ref> refs;
  for (const Bytes& bytes : buffers) {
    tolk_buffer_desc desc{};
    desc.struct_size = sizeof desc;
    desc.kind = TOLK_BUFFER_DEVICE;
    desc.usage = TOLK_USAGE_KERNEL_READ | TOLK_USAGE_KERNEL_WRITE;
    desc.size = bytes.size;
    tolk_buffer* buffer = nullptr;
    tolk_status status =
        plugin().buffer->import_handle(device(), &desc, TOLK_HANDLE_HOST_POINTER,
                                       reinterpret_cast<uint64_t>(bytes.data), nullptr, nullptr, &buffer);
    if (status != TOLK_OK) throw std::runtime_error(error_text);
    refs.push_back({buffer, 0, bytes.size});
  }
  tolk_launch launch{};
  launch.struct_size = sizeof launch;
  launch.grid[0] = tiles;
  launch.grid[1] = launch.grid[2] = launch.local[0] = launch.local[1] = launch.local[2] = 1;
  launch.buffer_count = static_cast<uint32_t>(refs.size());
  launch.buffers = refs.data();
  launch.value_count = static_cast<uint32_t>(values.size());
  launch.values = values.begin();
  tolk_status status = plugin().program->launch(nullptr, kernel_, &launch);
  std::string error = error_text;
  for (const tolk_ref& ref : refs) plugin().buffer->destroy(ref.buffer);
  if (status != TOLK_OK) throw std::runtime_error(error);
}

} // namespace tolk::test
