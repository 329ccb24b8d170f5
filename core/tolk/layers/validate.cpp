#include "tolk/layers/validate.h"

#include <cfenv>
#include <cstring>
#include <utility>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "tolk/base/log.h"
#include "tolk/dtype/dtype.h"
#include "tolk/layers/watched_host.h"
#include "tolk/loader/clamp.h"
#include "tolk/loader/plugin_host.h"
#include "tolk/loader/status.h"

namespace tolk {
namespace {

struct Found {
  std::mutex mutex;
  std::vector<Violation> violations;
};
Found& found() {
  static auto* f = new Found;
  return *f;
}

} // namespace

std::vector<Violation> take_layer_violations() {
  std::lock_guard lock(found().mutex);
  return std::exchange(found().violations, {});
}

std::unique_ptr<Layer> make_validate_layer(const LayerSubject& subject) {
  return std::make_unique<validating::ValidateLayer>(subject);
}

namespace validating {
namespace {

const LayerRule& row(Rule rule) { return layer_rules()[static_cast<size_t>(rule)]; }

// Rounding mode, and whether denormals are flushed.
uint32_t float_mode() {
  auto mode = static_cast<uint32_t>(std::fegetround());
#if defined(__SSE__)
  mode = mode << 16 | (_mm_getcsr() & 0xe040);
#endif
  return mode;
}

void restore_float_mode(uint32_t mode) {
#if defined(__SSE__)
  std::fesetround(static_cast<int>(mode >> 16));
  _mm_setcsr((_mm_getcsr() & ~0xe040u) | (mode & 0xe040));
#else
  std::fesetround(static_cast<int>(mode));
#endif
}

bool known(tolk_status status) {
  switch (status) {
#define TOLK_STATUS(name, value, meaning) case value:
#include <tolk/plugin/status.def>
#undef TOLK_STATUS
    return true;
  default:
    return false;
  }
}

bool power_of_two(uint64_t n) { return (n & (n - 1)) == 0; } // 0 included

} // namespace

void Uses::add(const std::shared_ptr<Stream>& stream, uint64_t position) {
  std::erase_if(last,
                [&](const auto& use) { return use.first == stream || use.first->completed >= use.second; });
  last.emplace_back(stream, position);
}

bool Uses::pending() const {
  for (const auto& [stream, position] : last)
    if (stream->completed < position && !stream->device->lost) return true;
  return false;
}

Call::Call(ValidateLayer& layer, const char* name) : layer_(layer), name_(name), lock_(layer.mutex_) {
  need(!layer.shut_down_, Rule::after_shutdown);
}

std::string Call::address(const void* pointer) {
  char text[2 + 16 + 1] = "0x";
  auto bits = reinterpret_cast<uintptr_t>(pointer);
  for (int i = 0; i < 16; i++) text[2 + i] = "0123456789abcdef"[bits >> (60 - 4 * i) & 15];
  const char* first = text + 2;
  while (*first == '0' && first[1]) first++;
  return "0x" + std::string(first);
}

void Call::report(Rule rule, const std::string& detail) {
  const LayerRule& r = row(rule);
  std::string text = layer_.subject().name + " " + name_ + ": " +
                     (r.side == LayerSide::Host ? "tolk" : "the plugin") + " broke the rule that " +
                     r.sentence + (detail.empty() ? "" : ": " + detail) + " (validate: " + r.id + ")";
  if (r.side == LayerSide::Hint)
    log::warning(text);
  else
    log::error(text);
  std::lock_guard lock(found().mutex);
  if (found().violations.size() < 1000)
    found().violations.push_back({r.id, layer_.subject().name, name_, text, r.side});
  if (r.side == LayerSide::Hint) return;
  text_ = std::move(text);
  side_ = r.side;
}

bool Call::need(bool holds, Rule rule, const std::string& detail) {
  if (holds || failed_) return !failed_;
  failed_ = true;
  report(rule, detail);
  return false;
}

void Call::hint(Rule rule, const std::string& detail) { report(rule, detail); }

tolk_status Call::result(tolk_status status) const {
  if (!failed_) return status;
  const bool host = side_ == LayerSide::Host;
  const tolk_status code = host ? TOLK_E_INVALID : TOLK_E_INTERNAL;
  keep_violation_text(code, text_.c_str(), host);
  return code;
}

void Call::before(Device* device, bool forget) {
  was_lost_ = device && device->lost;
  if (forget) take_error_text(TOLK_OK);
  float_mode_ = float_mode();
  lock_.unlock();
}

tolk_status Call::after(Device* device, uint32_t expect, tolk_status status) {
  const uint32_t mode = float_mode();
  if (mode != float_mode_) restore_float_mode(float_mode_);
  lock_.lock();
  need(!threw_, Rule::exception);
  need(mode == float_mode_, Rule::float_mode);
  need(known(status), Rule::status_unknown, "it answered " + std::to_string(status));
  const bool waits = expect & MayTimeOut;
  need((status != TOLK_NOT_READY || (expect & MayBeNotReady)) && (status != TOLK_TIMEOUT || waits),
       Rule::status_misplaced, status > 0 ? std::string("it answered ") + status_name(status) : "");
  need(status != TOLK_E_UNSUPPORTED || !(expect & Mandatory), Rule::mandatory_unsupported);
  if (device && status == TOLK_E_DEVICE_LOST) device->lost = true;
  need(!was_lost_ || !(expect & Submits) || status == TOLK_E_DEVICE_LOST, Rule::lost_forgotten,
       std::string("it answered ") + status_name(status));
  if (ok() && status < 0 && !(expect & Quiet) && status != TOLK_E_UNSUPPORTED && !has_error_text(status))
    hint(Rule::error_text, std::string("it answered ") + status_name(status));
  return status;
}

// --- the plugin's own table ---

tolk_status ValidateLayer::plugin_device_count(void* self, uint32_t* out) {
  Call call(*this, "device_count");
  if (!call.need(out, Rule::pointer_null)) return call.refuse();
  tolk_status status = call.forward(nullptr, Mandatory, [&] { return next->plugin_device_count(self, out); });
  if (status == TOLK_OK && call.ok()) {
    call.need(!count_known_ || count_ == *out, Rule::count_changed,
              "it was " + std::to_string(count_) + " and is " + std::to_string(*out));
    count_ = *out;
    count_known_ = true;
  }
  return call.result(status);
}

tolk_status ValidateLayer::plugin_device_info(void* self, uint32_t index, const tolk_device_info** out) {
  Call call(*this, "device_info");
  call.need(out, Rule::pointer_null);
  call.need(!count_known_ || index < count_, Rule::device_index,
            "index " + std::to_string(index) + " of " + std::to_string(count_));
  if (!call.ok()) return call.refuse();
  *out = nullptr;
  tolk_status status =
      call.forward(nullptr, Mandatory, [&] { return next->plugin_device_info(self, index, out); });
  call.need(status != TOLK_OK || *out, Rule::result_null, "no record");
  return call.result(status);
}

tolk_status ValidateLayer::plugin_device_open(void* self, uint32_t index, tolk_device** out) {
  Call call(*this, "device_open");
  call.need(out, Rule::pointer_null);
  if (call.ok() && count_known_ && index >= count_) {
    const tolk_device_info* info = nullptr;
    bool extra = false;
    if (count_ > 0)
      call.forward(nullptr, Quiet, [&] { return next->plugin_device_info(self, count_ - 1, &info); });
    if (info) {
      tolk_device_info record = clamp_copy(info);
      extra = (record.flags & TOLK_DEVICE_REOPENABLE) &&
              (record.kind == TOLK_KIND_CPU || record.kind == TOLK_KIND_NULL);
    }
    call.need(extra, Rule::device_index, "index " + std::to_string(index) + " of " + std::to_string(count_));
  }
  if (!call.ok()) return call.refuse();
  *out = nullptr;
  tolk_status status =
      call.forward(nullptr, Mandatory, [&] { return next->plugin_device_open(self, index, out); });
  if (status == TOLK_OK && call.need(*out, Rule::result_null, "no device")) {
    auto device = std::make_shared<Device>();
    device->handle = *out;
    device->index = index;
    call.need(devices_.add(*out, std::move(device)), Rule::handle_twice, "device " + Call::address(*out));
  }
  return call.result(status);
}

void ValidateLayer::plugin_shutdown(void* self) {
  Call call(*this, "shutdown");
  if (!call.need(devices_.live.empty(), Rule::shutdown_open,
                 std::to_string(devices_.live.size()) + " are open"))
    return;
  call.forward_void([&] { next->plugin_shutdown(self); });
  shut_down_ = true;
  const uint64_t left = subject_.host->live_allocations;
  if (left != 0)
    call.hint(Rule::host_memory_left, std::to_string(left) + " blocks of " +
                                          std::to_string(subject_.host->live_bytes.load()) + " bytes in all");
}

tolk_status ValidateLayer::plugin_rescan(void* self) {
  Call call(*this, "rescan");
  if (!call.ok()) return call.refuse();
  tolk_status status = call.forward(nullptr, 0, [&] { return next->plugin_rescan(self); });
  count_known_ = false;
  return call.result(status);
}

tolk_status ValidateLayer::plugin_get_extension(void* self, const char* name, uint32_t version,
                                                const void** table) {
  Call call(*this, "get_extension");
  if (!call.need(name && table, Rule::pointer_null)) return call.refuse();
  *table = nullptr;
  tolk_status status =
      call.forward(nullptr, Quiet, [&] { return next->plugin_get_extension(self, name, version, table); });
  call.need(status != TOLK_OK || *table, Rule::result_null, "no table");
  return call.result(status);
}

// --- devices ---

void ValidateLayer::device_close(tolk_device* handle) {
  Call call(*this, "device.close");
  DeviceRef device = call.find(devices_, handle, "the device");
  if (!device) return;
  if (!call.need(device->children == 0, Rule::device_children,
                 std::to_string(device->children) + " are left"))
    return;
  if (device->caps_known) {
    tolk_caps now = clamp_copy(device->caps_record);
    call.need(std::memcmp(&now, &device->caps, sizeof now) == 0,
              Rule::caps_changed); // reported; the device goes
  }
  devices_.remove(handle);
  call.forward_void([&] { next->device_close(handle); });
}

tolk_status ValidateLayer::device_caps(tolk_device* handle, const tolk_caps** out) {
  Call call(*this, "device.caps");
  DeviceRef device = call.find(devices_, handle, "the device");
  if (!call.need(out, Rule::pointer_null)) return call.refuse();
  *out = nullptr;
  tolk_status status = call.forward(device.get(), Mandatory, [&] { return next->device_caps(handle, out); });
  if (status == TOLK_OK && call.need(*out, Rule::result_null, "no record")) check_caps(call, *device, *out);
  return call.result(status);
}

void ValidateLayer::check_caps(Call& call, Device& device, const tolk_caps* record) {
  const tolk_caps c = clamp_copy(record);
  if (device.caps_known) {
    call.need(record == device.caps_record && std::memcmp(&c, &device.caps, sizeof c) == 0,
              Rule::caps_changed);
    return;
  }
  auto impossible = [&](bool fault, const std::string& detail) {
    call.need(!fault, Rule::caps_impossible, detail);
  };
  auto align = [&](uint64_t n, const char* field) {
    impossible(!power_of_two(n), std::string(field) + " is " + std::to_string(n) + ", no power of two");
  };
  impossible(c.target_count == 0 || !c.targets, "there is no target");
  align(c.buffer_align, "buffer_align");
  align(c.offset_align, "offset_align");
  align(c.copy_align, "copy_align");
  align(c.map_align, "map_align");
  align(c.import_align, "import_align");
  impossible((c.dtype_storage | c.dtype_alu) >> TOLK_DTYPE_COUNT != 0,
             "the dtype masks have bits of no dtype");
  impossible((c.kernel_kinds & ~(c.buffer_kinds | 1u << TOLK_BUFFER_DEVICE)) != 0,
             "kernel_kinds has kinds that buffer_kinds lacks");
  impossible(c.subgroup_min > c.subgroup_max ||
                 (c.subgroup_preferred != 0 &&
                  (c.subgroup_preferred < c.subgroup_min || c.subgroup_preferred > c.subgroup_max)),
             "subgroup_min, subgroup_preferred, subgroup_max do not ascend");
  uint64_t items = 1;
  for (uint32_t n : c.local_max) items *= std::min<uint64_t>(std::max(1u, n), UINT32_MAX >> 12);
  impossible(c.local_product_max > items, "local_product_max is above the product of local_max");
  impossible(c.streams_max != 0 && !subject_.has_streams, "streams_max is not 0, and stream.create is NULL");
  impossible(c.graph != 0 && !subject_.has_graph, "graph is not 0, and there is no graph table");
  impossible(c.max_total_bytes != 0 && c.max_buffer_bytes > c.max_total_bytes,
             "max_buffer_bytes is above max_total_bytes");
  if (!call.ok()) return;
  device.caps_known = true;
  device.caps_record = record;
  device.caps = c;
  for (uint32_t i = 0; i < c.target_count; i++) device.targets.push_back(clamp_copy(strided(c.targets, i)));
}

namespace {

// A struct of the host that is longer than the plugin may know.
template <typename T> struct Guarded {
  T value;
  unsigned char tail[64];
};

template <typename T> bool intact(const Guarded<T>& g, uint32_t size) {
  for (unsigned char c : g.tail)
    if (c != 0xa5) return false;
  return g.value.struct_size == size;
}

} // namespace

tolk_status ValidateLayer::device_memory(tolk_device* handle, tolk_memory* out) {
  Call call(*this, "device.memory");
  DeviceRef device = call.find(devices_, handle, "the device");
  call.need(out, Rule::pointer_null);
  call.need(!call.ok() || out->struct_size >= sizeof *out, Rule::struct_size);
  if (!call.ok()) return call.refuse();
  Guarded<tolk_memory> g{*out, {}};
  std::memset(g.tail, 0xa5, sizeof g.tail);
  g.value.struct_size = sizeof g.value;
  tolk_status status = call.forward(device.get(), 0, [&] { return next->device_memory(handle, &g.value); });
  if (status == TOLK_OK) {
    const tolk_memory& m = g.value;
    call.need(intact(g, sizeof g.value), Rule::struct_overrun);
    call.need((m.total_bytes == 0 || m.free_bytes <= m.total_bytes) &&
                  (m.peak_bytes == 0 || m.used_bytes <= m.peak_bytes),
              Rule::memory_figures,
              "free " + std::to_string(m.free_bytes) + " of " + std::to_string(m.total_bytes) + ", used " +
                  std::to_string(m.used_bytes) + ", peak " + std::to_string(m.peak_bytes));
    const uint32_t size = out->struct_size;
    *out = g.value;
    out->struct_size = size;
  }
  return call.result(status);
}

tolk_status ValidateLayer::program_kernel_info(tolk_kernel* handle, tolk_kernel_info* out) {
  Call call(*this, "program.kernel_info");
  auto kernel = call.find(kernels_, handle, "the kernel");
  call.need(out, Rule::pointer_null);
  call.need(!call.ok() || out->struct_size >= sizeof *out, Rule::struct_size);
  if (!call.ok()) return call.refuse();
  Guarded<tolk_kernel_info> g{*out, {}};
  std::memset(g.tail, 0xa5, sizeof g.tail);
  g.value.struct_size = sizeof g.value;
  Device* device = kernel->program->device.get();
  tolk_status status = call.forward(device, 0, [&] { return next->program_kernel_info(handle, &g.value); });
  if (status == TOLK_OK && call.need(intact(g, sizeof g.value), Rule::struct_overrun)) {
    const uint32_t size = out->struct_size;
    *out = g.value;
    out->struct_size = size;
  }
  return call.result(status);
}

tolk_status ValidateLayer::device_trim(tolk_device* handle) {
  Call call(*this, "device.trim");
  DeviceRef device = call.find(devices_, handle, "the device");
  if (!call.ok()) return call.refuse();
  return call.result(call.forward(device.get(), 0, [&] { return next->device_trim(handle); }));
}

tolk_status ValidateLayer::device_synchronize(tolk_device* handle, uint64_t timeout_ns) {
  Call call(*this, "device.synchronize");
  DeviceRef device = call.find(devices_, handle, "the device");
  if (!call.ok()) return call.refuse();
  tolk_status status = call.forward(device.get(), limit(timeout_ns),
                                    [&] { return next->device_synchronize(handle, timeout_ns); });
  if (subject_.device_synchronizes && status <= TOLK_OK) complete_device(*device);
  return call.result(status);
}

tolk_status ValidateLayer::device_peer(tolk_device* handle, tolk_device* other, uint32_t* flags) {
  Call call(*this, "device.peer");
  DeviceRef device = call.find(devices_, handle, "the device");
  call.find(devices_, other, "the other device");
  if (!call.need(flags, Rule::pointer_null)) return call.refuse();
  return call.result(call.forward(device.get(), 0, [&] { return next->device_peer(handle, other, flags); }));
}

tolk_status ValidateLayer::device_clock(tolk_device* handle, uint64_t* device_ns, uint64_t* host_ns) {
  Call call(*this, "device.clock");
  DeviceRef device = call.find(devices_, handle, "the device");
  if (!call.need(device_ns && host_ns, Rule::pointer_null)) return call.refuse();
  const uint64_t before = device->last_clock;
  tolk_status status =
      call.forward(device.get(), 0, [&] { return next->device_clock(handle, device_ns, host_ns); });
  if (status == TOLK_OK) {
    call.need(*device_ns >= before, Rule::clock_backwards,
              "from " + std::to_string(before) + " to " + std::to_string(*device_ns) + " ns");
    device->last_clock = std::max(device->last_clock, *device_ns);
  }
  return call.result(status);
}

tolk_status ValidateLayer::device_flush_caches(tolk_device* handle) {
  Call call(*this, "device.flush_caches");
  DeviceRef device = call.find(devices_, handle, "the device");
  if (!call.ok()) return call.refuse();
  return call.result(call.forward(device.get(), 0, [&] { return next->device_flush_caches(handle); }));
}

const char* ValidateLayer::device_lost_reason(tolk_device* handle) {
  Call call(*this, "device.lost_reason");
  DeviceRef device = call.find(devices_, handle, "the device");
  if (!call.ok()) return "";
  const char* reason = "";
  call.forward_void([&] { reason = next->device_lost_reason(handle); });
  return reason;
}

} // namespace validating
} // namespace tolk
