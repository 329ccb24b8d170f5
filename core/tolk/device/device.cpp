#include "tolk/device/device.h"

#include <algorithm>
#include <cstring>

#include "tolk/base/config.h"
#include "tolk/base/error.h"
#include "tolk/base/log.h"
#include "tolk/device/allocator.h"
#include "tolk/device/graph.h"
#include "tolk/device/pools.h"
#include "tolk/device/program.h"
#include "tolk/device/stream.h"
#include "tolk/loader/clamp.h"
#include "tolk/loader/fork_guard.h"
#include "tolk/loader/plugin_host.h"
#include "tolk/loader/plugin_loader.h"
#include "tolk/loader/status.h"

namespace tolk {
namespace {

std::atomic<uint32_t> next_device_id{1};

// 0 reads as 1; anything but a power of two is a fault of the plugin.
void fix_alignment(uint64_t& align, const char* field, const std::string& device) {
  if (align == 0) align = 1;
  if ((align & (align - 1)) != 0)
    throw PluginError("device " + device + ": caps." + field + " is " + std::to_string(align) +
                      ", not a power of two");
}

uint32_t count_tokens(const char* opts, char kind) {
  uint32_t n = 0;
  for (const char* p = opts; p && *p; p++) n += *p == kind && (p == opts || p[-1] == ' ');
  return n;
}

bool sound(const tolk_tensor_core& t) {
  uint32_t local = count_tokens(t.opts, 'l'), upcast = count_tokens(t.opts, 'u');
  if (local > 16 || upcast > 16 || t.threads == 0) return false;
  return t.threads == 1u << local && t.elements[2] == 1u << upcast &&
         static_cast<uint64_t>(t.n) * t.m * t.k % t.threads == 0;
}

tolk_source c_source(const KernelSource& source) {
  tolk_source c{};
  c.struct_size = sizeof c;
  c.target_index = source.target_index;
  c.text = source.ir ? tolk_bytes{source.ir, source.ir->struct_size}
                     : tolk_bytes{source.text.data(), source.text.size()};
  c.entry = source.entry.c_str();
  c.options = source.options.c_str();
  c.params = source.params.data();
  c.param_count = static_cast<uint32_t>(source.params.size());
  c.flags = source.flags;
  for (int i = 0; i < 3; i++) c.local[i] = source.local[static_cast<size_t>(i)];
  c.shared_bytes = source.shared_bytes;
  return c;
}

} // namespace

Device::Device(Plugin& plugin, uint32_t index, std::string name)
    : plugin_(plugin), index_(index), id_(next_device_id++), name_(std::move(name)),
      is_host_(plugin.origin == PluginOrigin::BuiltIn) {
  auto serial = plugin_.serialize();
  const tolk_device_info* info = nullptr;
  uint32_t count = 0;
  check_status(plugin_.table.device_count(plugin_.self, &count), name_, "counting devices");
  // Extra devices of a kind that may be opened again share the record of the last counted one.
  uint32_t described = count == 0 ? 0 : std::min(index_, count - 1);
  check_status(plugin_.table.device_info(plugin_.self, described, &info), name_, "device information");
  if (!info) throw PluginError("device " + name_ + ": device_info succeeded but gave no record");
  info_ = clamp_copy(info);
  check_status(plugin_.table.device_open(plugin_.self, index_, &handle_), name_, "cannot open the device");
  if (!handle_) throw PluginError("device " + name_ + ": device_open succeeded but gave no device");
  try {
    read_caps();
    events_ = std::make_unique<EventPool>(*this);
    pools_ = std::make_unique<PoolTable>(*this);
    make_streams();
  } catch (...) {
    plugin_.device.close(handle_);
    throw;
  }
  allocator_ = std::make_unique<Allocator>(*this);
  alive_.store(true, std::memory_order_release);
  if (log::enabled(1) && !is_host_)
    log::debug(1, "opened device " + name_ + ": " + (info_.name ? info_.name : "") + ", target " +
                      target_name(targets_[target_index()]));
}

Device::~Device() = default;

void Device::make_streams() {
  tolk_stream *compute = nullptr, *copy = nullptr;
  if (!plugin_.synchronous && caps_.streams_max != 0)
    check_status(plugin_.stream.create(handle_, TOLK_STREAM_COMPUTE, &compute), name_, "making a stream");
  compute_ = std::make_unique<Stream>(*this, Stream::Kind::Compute, compute);
  if (!compute || caps_.copy_engines == 0 || caps_.streams_max < 2) return;
  // A device that cannot have the second one copies on the first.
  tolk_status status = plugin_.stream.create(handle_, TOLK_STREAM_COPY_ONLY, &copy);
  if (status < 0) take_error_text(status);
  if (status >= 0 && copy) copy_ = std::make_unique<Stream>(*this, Stream::Kind::Copy, copy);
}

std::string Device::get_name() const {
  return plugin_.name + ":" + std::to_string(index_) + ":" + std::to_string(id_);
}

tolk_stream* Device::stream() const { return compute_->handle(); }

std::string describe(const Device& device) {
  return "device " + device.name() + ", index " + std::to_string(device.index()) + ", number " +
         std::to_string(device.id()) + (device.alive() ? "" : ", shut down");
}

void Device::read_caps() {
  const tolk_caps* record = nullptr;
  check_status(plugin_.device.caps(handle_, &record), name_, "capabilities");
  if (!record) throw PluginError("device " + name_ + ": caps succeeded but gave no record");
  caps_ = clamp_copy(record);
  if (!is_host_ && (caps_.target_count == 0 || !caps_.targets))
    throw PluginError("device " + name_ + ": it has no targets, so no kernel could ever run on it");
  for (uint32_t i = 0; i < caps_.target_count; i++) {
    const tolk_target* theirs = strided(record->targets, i);
    tolk_target target = clamp_copy(theirs);
    for (const char** text : {&target.dialect, &target.arch, &target.arch_features, &target.data_layout})
      if (!*text) *text = "";
    if (!plugin_.has_compile && !(target.flags & TOLK_TARGET_LOAD_DIRECT))
      throw PluginError("device " + name_ + ": target " + target_name(target) +
                        " needs compile, which is NULL");
    plugin_targets_.push_back(theirs);
    targets_.push_back(target);
  }
  caps_.targets = targets_.data();
  for (uint32_t i = 0; i < caps_.tensor_core_count && caps_.tensor_cores; i++) {
    tolk_tensor_core core = clamp_copy(strided(record->tensor_cores, i));
    if (sound(core))
      tensor_cores_.push_back(core);
    else
      log::warning("device " + name_ + ": matrix instruction " + std::to_string(i) +
                   " contradicts itself and is ignored");
  }
  caps_.tensor_cores = tensor_cores_.data();
  caps_.tensor_core_count = static_cast<uint32_t>(tensor_cores_.size());
  fix_alignment(caps_.buffer_align, "buffer_align", name_);
  fix_alignment(caps_.offset_align, "offset_align", name_);
  fix_alignment(caps_.copy_align, "copy_align", name_);
  fix_alignment(caps_.map_align, "map_align", name_);
  if (caps_.import_align != 0) fix_alignment(caps_.import_align, "import_align", name_);
  for (int i = 0; i < 3; i++) {
    caps_.grid_max[i] = std::max(1u, caps_.grid_max[i]);
    caps_.local_max[i] = std::max(1u, caps_.local_max[i]);
  }
  caps_.local_product_max = std::max(1u, caps_.local_product_max);
  caps_.buffer_kinds |= 1u << TOLK_BUFFER_DEVICE;
}

std::string Device::target_name(const tolk_target& target) {
  switch (target.kind) {
  case TOLK_TARGET_SOURCE:
    return target.dialect;
  case TOLK_TARGET_SPIRV:
    return "spirv";
  case TOLK_TARGET_LLVM_IR:
    return "llvm-ir";
  case TOLK_TARGET_KERNEL_IR:
    return "kernel-ir";
  case TOLK_TARGET_NATIVE:
    return "native";
  default:
    return "kind " + std::to_string(target.kind);
  }
}

uint32_t Device::target_index() const {
  const std::string& wanted = Config::current().target;
  if (wanted.empty()) return 0;
  std::string known;
  for (uint32_t i = 0; i < targets_.size(); i++) {
    std::string name = target_name(targets_[i]);
    if (name == wanted) return i;
    known += (i == 0 ? "" : ", ") + name;
  }
  throw DeviceError("TARGET=" + wanted + ": device " + name_ + " has no such target; it has " + known);
}

std::string Device::compiler_key(uint32_t target_index) const {
  const tolk_target& t = targets_.at(target_index);
  std::string key =
      plugin_.name + '\n' + plugin_.version + '\n' + plugin_.compiler_id + '\n' + target_name(t);
  for (const char* text : {t.dialect, t.arch, t.arch_features, t.data_layout})
    key += std::string("\n") + text;
  return key + '\n' + std::to_string(t.version_min) + '\n' + std::to_string(t.version_max) + '\n' +
         std::to_string(t.features);
}

CompiledKernel Device::compile(const KernelSource& source) {
  require_usable();
  const tolk_target& target = targets_.at(source.target_index);
  if (target.flags & TOLK_TARGET_LOAD_DIRECT)
    return {source.ir ? std::string() : std::string(source.text), {}};
  tolk_source c = c_source(source);
  tolk_blob *binary = nullptr, *log = nullptr;
  tolk_status status;
  {
    auto serial = plugin_.serialize();
    status = plugin_.program.compile(plugin_.self, plugin_targets_[source.target_index], &c, &binary, &log);
  }
  CompiledKernel compiled{take_blob(binary), take_blob(log)};
  if (status == TOLK_E_COMPILE) {
    std::string reason = take_error_text(status);
    throw CompileError("kernel " + source.entry + " was rejected by " + plugin_.name +
                       "'s compiler: " + reason + (compiled.log.empty() ? "" : "\n" + compiled.log));
  }
  check(status, "compiling " + source.entry);
  if (!binary) throw PluginError(name_ + ": compiling " + source.entry + " succeeded but gave no binary");
  return compiled;
}

ProgramRef Device::load(const KernelSource& source, std::string_view binary) {
  require_usable();
  const tolk_target& target = targets_.at(source.target_index);
  const bool direct = target.flags & TOLK_TARGET_LOAD_DIRECT;
  tolk_source c = c_source(source);
  tolk_bytes bytes = direct && source.ir ? c.text : tolk_bytes{binary.data(), binary.size()};
  c.text = direct ? bytes : tolk_bytes{};
  ProgramRef program(new Program(*this, source)); // declared before the lock below, so destroyed after it
  bool values = false;
  for (const tolk_param& p : source.params) {
    if (p.kind != TOLK_PARAM_BUFFER) {
      values = true;
      continue;
    }
    if (values) throw InvalidArgument("kernel " + source.entry + ": buffer parameters come before values");
    uint64_t width = p.dtype < kDTypeCount ? static_cast<uint64_t>(bits(static_cast<DType>(p.dtype))) : 0;
    program->min_bytes_.push_back((p.count * width + 7) / 8);
  }
  {
    auto serial = plugin_.serialize();
    tolk_status status = plugin_.program.load(handle_, bytes, &c, &program->program_);
    if (status < 0) program->program_ = nullptr;
    check(status, "loading " + source.entry);
    check(plugin_.program.get_kernel(program->program_, c.entry, &program->kernel_),
          "looking up " + source.entry);
  }
  adopt(program);
  return program;
}

void Device::adopt(const ProgramRef& program) {
  std::lock_guard lock(programs_mutex_);
  if (programs_.size() >= 64 && (programs_.size() & (programs_.size() - 1)) == 0)
    std::erase_if(programs_, [](const auto& p) { return p.expired(); });
  programs_.push_back(program);
}

void Device::synchronize() {
  require_usable();
  {
    SubmitLock lock(*this);
    compute_->settle();
    if (copy_) copy_->settle();
    auto serial = plugin_.serialize();
    if (!lost_.load(std::memory_order_acquire))
      check(plugin_.device.synchronize(handle_, TOLK_FOREVER), "waiting for the device");
  }
  allocator_->reap();
  compute_->require_sound();
  if (copy_) copy_->require_sound();
}

bool Device::is_idle() { return !alive() || (compute_->is_idle() && (!copy_ || copy_->is_idle())); }

DeviceMemory Device::memory() const {
  DeviceMemory memory = allocator_->memory();
  memory.driver.struct_size = sizeof memory.driver;
  if (alive() && plugin_.has_memory) {
    auto serial = plugin_.serialize();
    plugin_.device.memory(handle_, &memory.driver);
  }
  return memory;
}

void Device::trim() {
  require_usable();
  allocator_->trim();
  auto serial = plugin_.serialize();
  check(plugin_.device.trim(handle_), "trim");
}

void Device::flush_caches() {
  require_usable();
  std::lock_guard lock(submit_mutex_);
  auto serial = plugin_.serialize();
  check(plugin_.device.flush_caches(handle_), "flushing caches");
}

bool Device::alive() const { return alive_.load(std::memory_order_acquire) && !in_forked_child(); }

void Device::require_usable() const {
  if (in_forked_child()) [[unlikely]]
    throw DeviceError("device " + name_ + ": tolk was initialised before fork; use spawn or fork earlier");
  if (lost_.load(std::memory_order_acquire)) [[unlikely]]
    throw DeviceError("device " + name_ + " is lost: " + lost_reason_);
  if (!alive()) [[unlikely]]
    throw DeviceError("device " + name_ + " was shut down");
}

void Device::note_lost() {
  std::lock_guard lock(programs_mutex_);
  if (lost_.load(std::memory_order_acquire)) return;
  const char* reason = plugin_.device.lost_reason(handle_);
  lost_reason_ = reason && *reason ? reason : "the plugin gives no reason";
  lost_.store(true, std::memory_order_release);
}

void Device::fail(tolk_status status, std::string_view doing) {
  if (status == TOLK_E_DEVICE_LOST) note_lost();
  throw_status(status, name_, doing);
}

void Device::settle() {
  if (!alive() || lost_) return;
  SubmitLock lock(*this);
  compute_->settle();
  if (copy_) copy_->settle();
}

void Device::close() {
  if (!alive()) return;
  try {
    if (!lost_) synchronize();
  } catch (const Error& e) {
    log::warning(std::string("while closing: ") + e.what());
  }
  DeviceGraph::drop_all_of(*this);
  std::vector<std::weak_ptr<Program>> programs;
  {
    std::lock_guard lock(programs_mutex_);
    programs.swap(programs_);
  }
  for (const auto& weak : programs)
    if (ProgramRef program = weak.lock()) program->unload();
  allocator_->destroy_all();
  events_->destroy_all();
  alive_.store(false, std::memory_order_release);
  auto serial = plugin_.serialize();
  for (Stream* stream : {copy_.get(), compute_.get()}) {
    if (!stream || stream->synchronous()) continue;
    plugin_.stream.destroy(stream->handle());
    stream->drop_handle();
  }
  plugin_.device.close(handle_);
}

} // namespace tolk
