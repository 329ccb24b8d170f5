#include "tolk/engine/compile/local_size.h"

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <random>

#include "tolk/base/error.h"
#include "tolk/base/log.h"
#include "tolk/engine/compile/runtimes.h"

namespace tolk::engine {
namespace {

constexpr int64_t kMaxItems = 1024;

using Size = std::array<int64_t, 3>;

std::vector<int64_t> axis_choices(int64_t extent) {
  std::vector<int64_t> choices;
  for (int64_t n = 1; n <= kMaxItems && n <= extent; n *= 2) choices.push_back(n);
  if (extent <= kMaxItems && (choices.empty() || choices.back() != extent)) choices.push_back(extent);
  return choices;
}

std::vector<Size> candidates(const Size& global) {
  std::vector<Size> out;
  for (int64_t x : axis_choices(global[0]))
    for (int64_t y : axis_choices(global[1]))
      for (int64_t z : axis_choices(global[2]))
        if (x * y * z <= kMaxItems) out.push_back({x, y, z});
  return out;
}

int64_t product(const Size& s) { return s[0] * s[1] * s[2]; }

// Scratch storage with the contents of the original, which may be indices.
BufferRef scratch_for(const BufferRef& original) {
  BufferRef scratch = make_buffer(original->device(), original->dtype(), original->count());
  if (original->is_allocated()) copy_buffer(*scratch, *original);
  return scratch;
}

struct Tuned {
  std::mutex mutex;
  std::map<std::tuple<ContentKey, uint32_t, Size>, Size> sizes;
};
Tuned& tuned() {
  static auto* all = new Tuned;
  return *all;
}

Size tune(Device& device, const UOp& program, const ProgramEntry& entry) {
  LocalSizeProblem problem;
  problem.global.assign(entry.info.grid, entry.info.grid + 3);
  problem.seed = entry.code_key.low;
  for (const tolk_param& p : entry.params) {
    if (p.kind != TOLK_PARAM_BUFFER) continue;
    BufferOptions options;
    options.zeroed = true; // values that a kernel uses as indices must be valid ones
    problem.buffers.push_back(
        make_buffer(device, static_cast<DType>(p.dtype), std::max<uint64_t>(p.count, 1), options));
  }
  std::vector<Buffer*> ordered;
  for (const BufferRef& b : problem.buffers) ordered.push_back(b.get());
  std::vector<int64_t> values;
  for (const VarInfo& v : entry.info.vars)
    if (!is_runtime_variable(v.name)) values.push_back(v.max);
  ProgramRef loaded = get_runtime(device, program);
  const tolk_caps& caps = device.caps();
  auto trial = [&](std::span<const BufferRef>, Size groups, Size local) -> std::optional<double> {
    for (size_t i = 0; i < 3; ++i)
      if (local[i] > int64_t(caps.local_max[i]) || groups[i] > int64_t(caps.grid_max[i])) return {};
    if (product(local) > int64_t(caps.local_product_max)) return {};
    uint64_t ns = 0;
    loaded->launch(ordered, values, {uint32_t(groups[0]), uint32_t(groups[1]), uint32_t(groups[2])},
                   {uint32_t(local[0]), uint32_t(local[1]), uint32_t(local[2])}, &ns);
    return double(ns) * 1e-9;
  };
  std::vector<int64_t> best = optimize_local_size(problem, trial);
  return {best[0], best[1], best[2]};
}

} // namespace

std::vector<int64_t> optimize_local_size(const LocalSizeProblem& problem, const LocalSizeTrial& trial) {
  if (problem.global.empty()) return {};
  TOLK_CHECK(problem.global.size() <= 3, "a launch has three axes");
  Size global{1, 1, 1};
  std::copy(problem.global.begin(), problem.global.end(), global.begin());

  std::vector<BufferRef> buffers = problem.buffers;
  std::vector<bool> replaced(buffers.size(), false);
  auto protect = [&](size_t i) {
    if (replaced[i]) return;
    buffers[i] = scratch_for(buffers[i]);
    buffers[i]->allocate();
    replaced[i] = true;
  };
  for (size_t i = 1; i < buffers.size(); ++i)
    if (problem.buffers[i]->base_id() == problem.buffers[0]->base_id()) protect(0);
  for (int position : problem.written) protect(size_t(position));

  std::vector<Size> sizes = candidates(global);
  if (!problem.non_uniform_groups)
    std::erase_if(sizes, [&](const Size& s) {
      return global[0] % s[0] != 0 || global[1] % s[1] != 0 || global[2] % s[2] != 0;
    });
  std::vector<size_t> order;
  for (size_t i = 0; i < sizes.size(); ++i) order.insert(order.end(), {i, i});
  std::mt19937_64 random(problem.seed);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);

  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<double> times(sizes.size(), kNever);
  for (size_t i : order) {
    const Size& local = sizes[i];
    Size groups{};
    for (size_t axis = 0; axis < 3; ++axis) groups[axis] = (global[axis] + local[axis] - 1) / local[axis];
    try {
      if (std::optional<double> seconds = trial(buffers, groups, local))
        times[i] = std::min(times[i], *seconds);
    } catch (const Error& e) { // the device refuses the size
      log::debug(2, e.what());
    }
  }
  size_t best = sizes.size();
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (times[i] == kNever) continue;
    auto better = [&](size_t a, size_t b) {
      if (times[a] != times[b]) return times[a] < times[b];
      if (product(sizes[a]) != product(sizes[b])) return product(sizes[a]) > product(sizes[b]);
      return sizes[a] < sizes[b];
    };
    if (best == sizes.size() || better(i, best)) best = i;
  }
  if (best == sizes.size())
    throw InvalidArgument("all optimize_local_size exec failed: none of " + std::to_string(sizes.size()) +
                          " sizes could be launched and timed");
  return {sizes[best].begin(), sizes[best].begin() + std::ptrdiff_t(problem.global.size())};
}

UOp with_tuned_local_size(Device& device, const UOp& program) {
  const ProgramEntry& entry = program_entry(program);
  if (!entry.local_free || device.caps().local_product_max <= 1) return program;
  for (const UOp& size : entry.global)
    if (size) return with_local_size(program, {1, 1, 1});
  Size grid{entry.info.grid[0], entry.info.grid[1], entry.info.grid[2]};
  if (product(grid) <= 0) return with_local_size(program, {1, 1, 1});
  std::tuple key{entry.code_key, device.id(), grid};
  {
    std::lock_guard lock(tuned().mutex);
    if (auto it = tuned().sizes.find(key); it != tuned().sizes.end())
      return with_local_size(program, it->second);
  }
  Size best{1, 1, 1};
  try {
    best = tune(device, program, entry);
  } catch (const Error& e) {
    log::debug(1, "no work-group size could be timed for " + entry.info.name + ": " + e.what());
  }
  std::lock_guard lock(tuned().mutex);
  return with_local_size(program, tuned().sizes.emplace(key, best).first->second);
}

void clear_local_sizes() {
  std::lock_guard lock(tuned().mutex);
  tuned().sizes.clear();
}

} // namespace tolk::engine
