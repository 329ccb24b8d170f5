#include "tolk/schedule/schedule.h"

#include <chrono>
#include <set>

#include "tolk/base/check.h"
#include "tolk/base/config.h"
#include "tolk/base/error.h"
#include "tolk/base/hash.h"
#include "tolk/schedule/bind.h"
#include "tolk/schedule/cache.h"
#include "tolk/schedule/fuse/fusion.h"
#include "tolk/schedule/fuse/fusion_graph.h"
#include "tolk/schedule/fuse/index.h"
#include "tolk/schedule/fuse/kernels.h"
#include "tolk/schedule/memory/memory_plan.h"
#include "tolk/schedule/order/order.h"
#include "tolk/schedule/order/snapshot_reads.h"
#include "tolk/schedule/tensor/canonicalize.h"
#include "tolk/schedule/tensor/multi.h"
#include "tolk/schedule/tensor/parametrize.h"
#include "tolk/uop/arena.h"
#include "tolk/uop/build.h"
#include "tolk/uop/spec.h"
#include "tolk/uop/traverse.h"

namespace tolk::schedule {
namespace {

// Attempts at the buffer limit after which values that were stored before stay stored. Until then storing one
// value may let another be computed again where it is used, which takes fewer kernels but may take another
// attempt.
constexpr int kFreeAttempts = 4;

void add_variables(const UOp& kernel, std::set<std::string>& names) {
  if (!kernel.has(kHasVar)) return;
  for (const UOp& u : toposort(kernel, [](const UOp& n) { return n.has(kHasVar); }))
    if (u.is(Op::VAR)) names.insert(var_name(u));
}

// The value of a root, given the storage of what was stored for it. A value without elements gets storage of
// its own, on `device`.
UOp result_of(const Root& root, const Graph& graph, int64_t arguments, std::vector<UOp>& outputs,
              const std::string& device) {
  if (root.empty) {
    outputs.push_back(param_node(arguments + int64_t(outputs.size()), root.view.dtype(), 0, device));
    return reshape(outputs.back(), shape_of(root.view));
  }
  if (root.node < 0) return root.view;
  const Node& node = graph.nodes[size_t(root.node)];
  const Shape& shape = shape_of(node.u);
  UOp at = outputs[size_t(node.output)];
  // Symbolic sizes: a dense value at the start of the storage.
  if (SInt count = numel(shape); !(count == node.numel)) at = shrink(at, {0}, {count});
  at = reshape(at, shape);
  std::vector<UOp> src;
  for (const UOp& view : root.chain) {
    src.assign(view.src().begin(), view.src().end());
    src[0] = at;
    at = with_sources(view, src);
  }
  return at;
}

// Decides what is stored, with kernels that respect the limit of buffers, and gives their expressions. Every
// attempt stores at least one value more. `through` as for build_items: such a kernel has a buffer more.
Items build_within_limit(const Graph& graph, Fusion& fusion, IndexSpace& index, int64_t arguments,
                         const Options& options, std::span<const int> through) {
  std::vector<bool> stored(graph.nodes.size());
  std::vector<int> also_stored;
  auto store = [&](int n) {
    if (stored[size_t(n)]) return;
    stored[size_t(n)] = true;
    also_stored.push_back(n);
  };
  for (int attempt = 0;; ++attempt) {
    fusion = fuse(graph, index, also_stored);
    Items items = build_items(graph, fusion, index, arguments, options, through);
    if (items.too_many.empty()) return items;
    size_t before = also_stored.size();
    for (int n : items.too_many) store(n);
    TOLK_CHECK(also_stored.size() > before, "an attempt at the limit of buffers stores one value more");
    if (attempt < kFreeAttempts) continue;
    for (size_t n = 0; n < graph.nodes.size(); ++n)
      if (fusion.nodes[n].stored && !is_alias(graph.nodes[n].kind)) store(int(n));
  }
}

struct Ordered {
  Graph graph;
  std::vector<Item> items;
  std::vector<UOp> outputs;
  std::vector<int> order; // of the items
};

// From the graph to calls in order. Where stores need each other's old contents, with copies of those.
Ordered ordered(Early& early, int64_t arguments, const Options& options) {
  for (;;) {
    Ordered out;
    out.graph = build_graph(early);
    IndexSpace index;
    Fusion fusion;
    Items made;
    Order order;
    std::vector<int> through;
    do {
      through.insert(through.end(), order.through.begin(), order.through.end());
      made = build_within_limit(out.graph, fusion, index, arguments, options, through);
      order = order_items(out.graph, fusion, made.items);
    } while (!order.through.empty());
    if (!order.copied.empty()) {
      read_copies(early, order.copied);
      continue;
    }
    out.items = std::move(made.items), out.outputs = std::move(made.outputs);
    out.order = std::move(order.items);
    return out;
  }
}

// All steps but the first and the last, in the arena of the body.
std::shared_ptr<const Template> scheduled(const Callified& callified, const Options& options) {
  auto arguments = int64_t(callified.arguments.size());
  PerPosition positions;
  positions.body = callified.body;
  if (callified.several_devices) positions = without_multi(callified.body, options);
  verify_stage(positions.body, Stage::TensorGraph);
  Early early = early_rewrites(positions.body, options);
#ifdef TOLK_VERIFY
  verify(sink(early.roots), Stage::TensorGraph);
#endif
  Ordered made = ordered(early, arguments, options);
  const Graph& graph = made.graph;
  std::vector<UOp> calls;
  for (int i : made.order) append_calls(made.items[size_t(i)].call, calls);
  std::set<std::string> variables;
  for (const UOp& c : calls) add_variables(c.src(0), variables);
  UOp list = linear(calls);
  verify_stage(list, Stage::KernelGraph);
  if (options.memory_plan) list = plan_memory(list, {}, nullptr, options.view_limits);
  verify_stage(list, Stage::KernelGraph);

  // Everything that leaves, exported under one root so that shared parts stay shared.
  std::vector<UOp> parts{list}, results;
  for (size_t i = 0; i < graph.roots.size(); ++i) {
    const std::string& device = i < positions.devices.size() && !positions.devices[i].empty()
                                    ? positions.devices[i]
                                    : options.default_device;
    results.push_back(result_of(graph.roots[i], graph, arguments, made.outputs, device));
    if (i >= positions.shardings.size()) continue;
    if (const Sharding& s = positions.shardings[i]; s.sharded())
      results[i] = multi(results[i], s.axis, s.count);
  }
  parts.insert(parts.end(), made.outputs.begin(), made.outputs.end());
  parts.insert(parts.end(), results.begin(), results.end());
  UOp whole = sink(parts);
  ArenaScope global(nullptr);
  UOp exported = import_graph(whole);
  auto out = std::make_shared<Template>();
  out->linear = exported.src(0);
  size_t outputs = made.outputs.size();
  out->outputs.assign(exported.src().begin() + 1, exported.src().begin() + 1 + std::ptrdiff_t(outputs));
  out->results.assign(exported.src().begin() + 1 + std::ptrdiff_t(outputs), exported.src().end());
  out->variables.assign(variables.begin(), variables.end());
  return out;
}

} // namespace

uint64_t Options::digest() const {
  uint64_t d = combine64(0x5EED, split_reduce);
  d = combine64(d, uint64_t(reduce_split_threshold));
  d = combine64(d, uint64_t(max_kernel_buffers));
  d = combine64(d, memory_plan);
  for (const auto& [device, limits] : view_limits)
    d = combine64(combine64(combine64(d, hash64(device)), uint64_t(limits.alignment)),
                  uint64_t(limits.largest_offset));
  d = combine64(d, uint64_t(ring) << 8 | uint64_t(all_to_all));
  return combine64(d, hash64(default_device));
}

Schedule create_schedule(std::span<const UOp> roots, const Options& given) {
  Options options = given;
  if (options.max_kernel_buffers < 0 || (options.max_kernel_buffers > 0 && options.max_kernel_buffers < 4))
    throw InvalidArgument(
        "a kernel may have at least 4 buffers, a result and three values, but the limit is " +
        std::to_string(options.max_kernel_buffers) + "; 0 means no limit");
  const Config& config = Config::current();
  options.memory_plan &= config.no_memory_planner == 0;
  options.cache &= config.schedule_cache != 0;
  auto begin = std::chrono::steady_clock::now();
  Arena arena;
  Callified call;
  std::shared_ptr<const Template> found;
  ContentKey key;
  bool hit = false;
  {
    ArenaScope scope(&arena);
    call = callify(roots);
    verify_stage(call.body, Stage::TensorGraph);
    key = schedule_key(call.body, options);
    if (options.cache) found = find_schedule(key);
    hit = found != nullptr;
    if (!found) found = scheduled(call, options);
  }
  if (!hit && options.cache) keep_schedule(key, found);
  ArenaScope global(nullptr);
  Schedule out = bind_schedule(*found, call);
  double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  log_scheduled(out.linear.nsrc(), ms, hit, key);
  return out;
}

} // namespace tolk::schedule
