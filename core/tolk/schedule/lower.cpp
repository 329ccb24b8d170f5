#include "tolk/schedule/lower.h"

#include <chrono>
#include <set>

#include "tolk/base/check.h"
#include "tolk/base/error.h"
#include "tolk/base/log.h"
#include "tolk/schedule/fuse/fusion.h"
#include "tolk/schedule/fuse/fusion_graph.h"
#include "tolk/schedule/fuse/index.h"
#include "tolk/schedule/fuse/kernels.h"
#include "tolk/schedule/memory/memory_plan.h"
#include "tolk/schedule/order/choose_copies.h"
#include "tolk/schedule/order/device_copies.h"
#include "tolk/schedule/order/item_graph.h"
#include "tolk/schedule/order/kernel_graph.h"
#include "tolk/schedule/order/snapshot_reads.h"
#include "tolk/schedule/resolve.h"
#include "tolk/schedule/tensor/canonicalize.h"
#include "tolk/schedule/tensor/multi.h"
#include "tolk/schedule/tensor/views.h"
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

// A schedule in the arena of its body.
struct Lowered {
  std::vector<UOp> calls, outputs, results;
};

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
  std::vector<UOp> outputs;
  UOp linear;
};

// Kernels in order. Items are built again with copies until no write-after-read cycle is left.
Ordered ordered(Canonical& canonical, int64_t arguments, const Options& options) {
  for (;;) {
    Ordered out;
    out.graph = build_graph(canonical);
    IndexSpace index;
    Fusion fusion;
    std::vector<int> through;
    Copies copies;
    do {
      Items made = build_within_limit(out.graph, fusion, index, arguments, options, through);
      ItemGraph kernels = get_kernel_graph(out.graph, made.items);
      out.linear = schedule_kernel_graph(kernels.sink, [&](const KernelGraph& cyclic) {
        copies = choose_copies(out.graph, fusion, made.items, kernels, cyclic);
      });
      out.outputs = std::move(made.outputs);
      through.insert(through.end(), copies.through.begin(), copies.through.end());
    } while (!out.linear && copies.snapshots.empty());
    if (out.linear) return out;
    read_snapshots(canonical, copies.snapshots);
  }
}

Lowered lower_tensors(const Body& body, const Options& options) {
  PerPosition positions;
  positions.body = body.sink;
  if (body.several_devices) positions = without_multi(body.sink, options);
  verify_stage(positions.body, Stage::TensorGraph);
  Canonical canonical = canonicalize(positions.body, options);
#ifdef TOLK_VERIFY
  verify(sink(canonical.roots), Stage::TensorGraph);
#endif
  Ordered made = ordered(canonical, body.parameters, options);
  Lowered out;
  out.outputs = std::move(made.outputs);
  out.calls.reserve(made.linear.nsrc());
  for (const UOp& call : made.linear.src()) append_calls(call, out.calls);
  for (size_t i = 0; i < made.graph.roots.size(); ++i) {
    const std::string& device = i < positions.devices.size() && !positions.devices[i].empty()
                                    ? positions.devices[i]
                                    : options.default_device;
    out.results.push_back(result_of(made.graph.roots[i], made.graph, body.parameters, out.outputs, device));
    if (i >= positions.shardings.size()) continue;
    if (const Sharding& s = positions.shardings[i]; s.sharded())
      out.results[i] = multi(out.results[i], s.axis, s.count);
  }
  return out;
}

// The graph with a LINEAR in place of every function's SINK.
UOp with_lowered_functions(const UOp& graph, Options options) {
  options.memory_plan = false; // one plan for all
  UOpMap linears;
  for (const UOp& u : toposort(graph, [&](const UOp& n) { return n == graph || !is_function_sink(n); })) {
    if (!u.is(Op::CALL) || !is_function_sink(u.src(0)) || linears.contains(u.src(0))) continue;
    std::shared_ptr<const Template> shared = lower_sink_to_linear(body_of(u.src(0)), options);
    if (!shared->outputs.empty())
      throw InvalidArgument("a function stores its results in its parameters: its roots are AFTERs");
    linears.emplace(u.src(0), import_graph(shared->linear));
  }
  return linears.empty() ? graph : substitute(graph, linears);
}

Lowered lower_kernels(const Body& body, const Options& options) {
  Lowered out;
  for (const UOp& root : body.sink.src()) {
    if (!viewed_storage(root))
      throw InvalidArgument(std::string("a root of a graph of kernels is a state of storage, not ") +
                            name(root.op()) +
                            ": what kernels of a graph compute is not fused with other values");
    out.results.push_back(plain_view(root));
  }
  UOp graph = with_lowered_functions(body.sink, options);
  out.calls = inline_functions(schedule_kernel_graph(graph));
  copy_between_devices(out.calls);
  return out;
}

void add_variables(const UOp& kernel, std::set<std::string>& names) {
  if (!kernel.has(kHasVar)) return;
  for (const UOp& u : toposort(kernel, [](const UOp& n) { return n.has(kHasVar); }))
    if (u.is(Op::VAR)) names.insert(var_name(u));
}

std::shared_ptr<const Template> lowered(const Body& body, const Options& options) {
  verify_stage(body.sink, Stage::TensorGraph);
  Lowered made = body.kernels ? lower_kernels(body, options) : lower_tensors(body, options);
  std::set<std::string> variables;
  for (const UOp& c : made.calls) add_variables(c.src(0), variables);
  UOp list = linear(made.calls);
  if (options.memory_plan) list = plan_memory(list, {}, nullptr, options.view_limits);
  verify_stage(list, Stage::KernelGraph);

  // Everything that leaves, exported under one root so that shared parts stay shared.
  std::vector<UOp> parts{list};
  parts.insert(parts.end(), made.outputs.begin(), made.outputs.end());
  parts.insert(parts.end(), made.results.begin(), made.results.end());
  UOp whole = sink(parts);
  ArenaScope global(nullptr);
  UOp exported = import_graph(whole);
  auto out = std::make_shared<Template>();
  out->linear = exported.src(0);
  auto results = exported.src().begin() + 1 + std::ptrdiff_t(made.outputs.size());
  out->outputs.assign(exported.src().begin() + 1, results);
  out->results.assign(results, exported.src().end());
  out->variables.assign(variables.begin(), variables.end());
  return out;
}

// "scheduled N kernels in T ms | cache hit KEY", for DEBUG=1 and, when it is one kernel, 3.
void log_scheduled(size_t kernels, double ms, bool hit, const ContentKey& key) {
  int level = kernels > 1 ? 1 : 3;
  if (!log::enabled(level)) return;
  log::debug(level, "scheduled " + std::to_string(kernels) + " kernels in " + std::to_string(ms) + " ms | " +
                        (hit ? "cache hit " : "CACHE MISS ") + key.hex().substr(0, 8));
}

} // namespace

std::shared_ptr<const Template> lower_sink_to_linear(const Body& body, const Options& options) {
  if (!body.sink.is(Op::SINK) || body.sink.arg() != Arg()) return {};
  auto begin = std::chrono::steady_clock::now();
  ContentKey key = schedule_key(body.sink, options);
  std::shared_ptr<const Template> found;
  if (options.cache) found = find_schedule(key);
  bool hit = found != nullptr;
  if (!hit) found = lowered(body, options);
  if (!hit && options.cache) keep_schedule(key, found);
  double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  log_scheduled(found->linear.nsrc(), ms, hit, key);
  return found;
}

} // namespace tolk::schedule
