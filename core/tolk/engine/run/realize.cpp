#include "tolk/engine/run/realize.h"

#include <algorithm>
#include <climits>
#include <set>
#include <unordered_set>

#include "tolk/base/clock.h"
#include "tolk/base/config.h"
#include "tolk/base/error.h"
#include "tolk/device/registry.h"
#include "tolk/engine/capture/capture_scope.h"
#include "tolk/engine/compile/view_limits.h"
#include "tolk/engine/run/host_data.h"
#include "tolk/engine/run/node_storage.h"
#include "tolk/schedule/schedule.h"
#include "tolk/schedule/tensor/realized.h"
#include "tolk/uop/build.h"
#include "tolk/uop/storage_ref.h"

namespace tolk::engine {
namespace {

// The most buffers that kernels of the devices take, where there is a limit.
schedule::BufferLimits buffer_limits(const std::set<std::string>& devices) {
  schedule::BufferLimits out;
  each_device(devices, [&](const std::string& name, const tolk_caps& caps) {
    if (caps.max_buffer_args != 0) out.emplace(name, int(std::min<uint32_t>(caps.max_buffer_args, INT_MAX)));
  });
  return out;
}

// `devices`: those that storage and copies below the roots are on.
schedule::Options schedule_options(const std::string& device, std::set<std::string> devices) {
  const Config& config = Config::current();
  schedule::Options options;
  options.split_reduce = config.split_reduce != 0;
  options.ring = int(config.ring), options.all_to_all = int(config.all_to_all);
  options.default_device = device.empty() ? default_device() : device;
  devices.insert(options.default_device);
  options.max_kernel_buffers = buffer_limits(devices), options.view_limits = view_limits(devices);
  return options;
}

// The view of storage that a written value is, over the storage of realised values; null when the value is
// computed.
UOp written_view(const UOp& u) {
  StorageRef ref = storage_ref(u, Through::Writes, schedule::realized_form);
  if (!ref) return {};
  std::erase_if(ref.views,
                [](const UOp& view) { return view.is(OpSet(Op::DETACH, Op::CONTIGUOUS_BACKWARD)); });
  return with_views(ref.views, ref.storage);
}

[[noreturn]] void refuse_outdated(const UOp& buffer) {
  throw InvalidArgument(
      "a value was built on storage of " + std::to_string(elements_of(buffer)) + " " + name(buffer.dtype()) +
      " on " + device_text(buffer) +
      " that was assigned to after that, and what it would read is gone. Realize the value before the "
      "assignment is carried out, or together with it, or build it again from the tensor as it is now");
}

// Throws when storage was written since the version that the node names.
void require_current(const UOp& u) {
  UOp buffer = buffer_below(u);
  StorageVersion* version = buffer ? known_version(buffer) : nullptr;
  if (!version) return;
  uint64_t named = is_state(u) ? version_named(u) : 0;
  if (version->written() != named && !version->keeps(named)) refuse_outdated(buffer);
}

// The side effects of scheduling the roots, sources first.
struct Below {
  std::vector<UOp> writes;       // AFTERs
  std::vector<UOp> host_data;    // COPYs of staged host data
  std::set<std::string> devices; // that storage and copies are on
};
Below below(std::span<const UOp> roots, bool current) {
  current = current && anything_written();
  Below out;
  std::unordered_set<UOp, UOpHash> seen;
  std::vector<std::pair<UOp, size_t>> stack;
  auto visit = [&](const UOp& u) {
    UOp form = schedule::realized_form(u);
    if (form.dtype() == DType::Index || !seen.insert(form).second) return;
    if (current && (is_state(form) || form.is(Op::BUFFER))) require_current(form);
    if (form.is(OpSet(Op::BUFFER, Op::COPY))) out.devices.insert(device_text(form));
    if (!is_state(form)) stack.emplace_back(form, 0);
  };
  for (const UOp& root : roots) {
    visit(root);
    while (!stack.empty()) {
      auto& [u, next] = stack.back();
      if (next < u.nsrc()) {
        UOp source = u.src(next++); // the stack may move
        visit(source);
        continue;
      }
      if (is_write(u)) out.writes.push_back(u);
      if (host_data_of(u)) out.host_data.push_back(u);
      stack.pop_back();
    }
  }
  return out;
}

// Records that the write was executed; returns its number.
uint64_t note(const UOp& write, const UOp& buffer) {
  uint64_t number = version_named(write) != 0 ? version_named(write) : fresh_version();
  version_of(buffer).note_written(number);
  return number;
}

// Links writes and values to their results (schedule::Realized). Constants are not linked: their nodes are
// shared and name no device, so a result would appear on another device as well.
void remember(std::span<const UOp> roots, const std::vector<UOp>& writes, std::vector<UOp>& results) {
  for (const UOp& u : writes) {
    UOp view = written_view(u), buffer = view ? buffer_below(view) : UOp();
    if (buffer) schedule::set_realized(u, view_at(view, note(u, buffer)));
  }
  for (size_t i = 0; i < roots.size(); ++i) {
    UOp view = written_view(roots[i]);
    if (UOp buffer = buffer_below(view ? view : results[i]))
      if (uint64_t version = written_version(buffer)) results[i] = view_at(view ? view : results[i], version);
    if (roots[i] != results[i] && !device_of(roots[i]).empty()) schedule::set_realized(roots[i], results[i]);
  }
}

// A schedule with a binding, not compiled yet: the first run does it.
Prepared scheduled(std::span<const UOp> roots, const std::string& device, std::set<std::string> devices) {
  schedule::Options options = schedule_options(device, std::move(devices));
  schedule::Schedule schedule = schedule::create_schedule(roots, options);
  Prepared out;
  out.linear = std::move(schedule.linear);
  out.vars = std::move(schedule.vars);
  out.results = std::move(schedule.results);
  if (out.linear.nsrc() != 0)
    out.binding = std::make_shared<BufferBinding>(tolk::device(options.default_device));
  return out;
}

} // namespace

Prepared prepare(std::span<const UOp> roots, const std::string& device, const Progress& progress) {
  uint64_t begin = now_ns();
  Prepared out = scheduled(roots, device, below(roots, false).devices);
  out.schedule_ms = ms_since(begin);
  begin = now_ns();
  if (out.binding) prepare_linear(*out.binding, out.linear, out.vars, progress);
  out.compile_ms = ms_since(begin);
  return out;
}

schedule::Schedule create_schedule(std::span<const UOp> roots, const std::string& device) {
  schedule::Options options = schedule_options(device, below(roots, false).devices);
  if (!is_capturing()) return schedule::create_schedule(roots, options);
  options.memory_plan = false;
  schedule::Schedule schedule = schedule::create_schedule(roots, options);
  capture(schedule.linear, schedule.vars);
  schedule.linear = linear({});
  return schedule;
}

void Prepared::run() const {
  if (binding) run_linear(*binding, linear, {.var_vals = vars});
}

std::vector<UOp> realize(std::span<const UOp> roots, const std::string& device, bool current) {
  auto [writes, host_data, devices] = below(roots, current);
  std::vector<UOp> results;
  if (is_capturing()) {
    // Writes assigned before the capture run now: replays would repeat them. So do copies of staged host
    // data: replays would overwrite what is assigned to the tensor later.
    std::vector<UOp> older;
    for (const UOp& write : writes)
      if (is_older_than_capture(write)) older.push_back(write);
    for (const UOp& copy : host_data)
      if (is_older_than_capture(host_data_of(copy))) older.push_back(copy);
    if (!older.empty()) {
      Config config = Config::current();
      config.capturing = 0;
      ScopedConfig at_once(config);
      realize(older, device, current);
      writes = below(roots, current).writes;
    }
    results = create_schedule(roots, device).results;
  } else {
    Prepared once = scheduled(roots, device, std::move(devices));
    once.run();
    results = std::move(once.results);
  }
  remember(roots, writes, results);
  if (!capturing().empty() && !is_capturing())
    for (const UOp& result : results)
      if (UOp buffer = buffer_below(result)) note_uncaptured(buffer);
  return results;
}

std::vector<std::byte> read_bytes(const UOp& result) {
  require_not_capturing("a value's bytes were asked for");
  UOp storage = contiguous_storage(result);
  TOLK_CHECK(storage, "only a contiguous result can be read");
  AnyBuffer any = any_buffer_of(storage);
  const BufferRef& buffer = shards(any)[0];
  std::vector<std::byte> bytes(buffer->bytes());
  if (bytes.empty()) return bytes;
  buffer->allocate();
  buffer->copy_out(bytes);
  return bytes;
}

} // namespace tolk::engine
