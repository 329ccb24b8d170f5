#include "tolk/engine/realize.h"

#include <chrono>

#include "tolk/base/config.h"
#include "tolk/base/error.h"
#include "tolk/device/registry.h"
#include "tolk/engine/capture.h"
#include "tolk/engine/storage.h"
#include "tolk/engine/view_limits.h"
#include "tolk/schedule/realized.h"
#include "tolk/schedule/schedule.h"
#include "tolk/uop/build.h"

namespace tolk::engine {
namespace {

using Clock = std::chrono::steady_clock;
double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

schedule::Options schedule_options(const std::string& device) {
  const Config& config = Config::current();
  schedule::Options options;
  options.split_reduce = config.split_reduce != 0;
  options.view_limits = view_limits; // NO_MEMORY_PLANNER and SCACHE are asked for by the scheduler
  options.ring = int(config.ring), options.all_to_all = int(config.all_to_all);
  options.default_device = device;
  return options;
}

} // namespace

Prepared prepare(std::span<const UOp> roots, const std::string& device, const Progress& progress) {
  Prepared out;
  auto begin = Clock::now();
  const std::string ambient = device.empty() ? default_device() : device;
  schedule::Schedule schedule = schedule::create_schedule(roots, schedule_options(ambient));
  out.schedule_ms = ms_since(begin);
  begin = Clock::now();
  out.linear = std::move(schedule.linear);
  out.vars = std::move(schedule.vars);
  if (out.linear.nsrc() != 0) {
    out.binding = std::make_shared<BufferBinding>(tolk::device(ambient));
    prepare_linear(*out.binding, out.linear, out.vars, progress);
  }
  out.compile_ms = ms_since(begin);
  out.results = std::move(schedule.results);
  return out;
}

schedule::Schedule create_schedule(std::span<const UOp> roots, const std::string& device) {
  schedule::Options options = schedule_options(device.empty() ? default_device() : device);
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

namespace {

// Values of no storage, such as constants, are nodes that everybody shares, on any device: they stay as they
// are, and only whoever realized them has storage.
void remember(std::span<const UOp> roots, const std::vector<UOp>& results) {
  for (size_t i = 0; i < roots.size(); ++i)
    if (roots[i] != results[i] && !device_of(roots[i]).empty()) schedule::set_realized(roots[i], results[i]);
}

} // namespace

std::vector<UOp> realize(std::span<const UOp> roots, const std::string& device) {
  if (is_capturing()) {
    schedule::Schedule captured = create_schedule(roots, device);
    remember(roots, captured.results);
    return captured.results;
  }
  Prepared prepared = prepare(roots, device);
  prepared.run();
  remember(roots, prepared.results);
  return prepared.results;
}

std::vector<std::byte> read_bytes(const UOp& result) {
  require_not_capturing("a value's bytes were asked for");
  UOp storage = contiguous_storage(result);
  TOLK_CHECK(storage, "only a contiguous result can be read");
  AnyBuffer any = any_buffer_of(storage);
  BufferRef buffer = is_multi(any) ? std::get<MultiBufferRef>(any)->shard(0) : std::get<BufferRef>(any);
  std::vector<std::byte> bytes(buffer->bytes());
  if (bytes.empty()) return bytes;
  buffer->allocate();
  buffer->copy_out(bytes);
  return bytes;
}

} // namespace tolk::engine
