// The graph table. A launch runs the recorded nodes in order on one thread, the caller's or a stream's, with
// one direct call each; kernels of several tiles go to the workers as they do outside of graphs. Small
// independent nodes run together on the workers where that saves more than it costs, which is measured: now
// and then (at launches 2, 4, 8, ...) nodes are timed one by one, and what can run together is decided anew
// from that.
#include <algorithm>
#include <cstring>
#include <span>

#include <tolk/plugin/helpers.h>

#include "float_env.h"
#include "stream.h"

namespace tolk_cpu {
namespace {

enum class Kind : uint8_t { Kernel, Copy, Fill };

// Work of a worker that may still have to wake up, and what it must save at least.
constexpr double kHandOverNs = 3000, kLeastGain = 1.25;

struct Node {
  Kind kind = Kind::Kernel;
  uint8_t pattern_bytes = 0;
  uint32_t level = 0; // 1 more than the deepest node that it waits for
  tolk_cpu_kernel function = nullptr;
  void** buffers = nullptr;   // kernel: into tolk_graph::pointers once committed; copy: to, from; fill: to
  uint64_t* values = nullptr; // into tolk_graph::slots
  uint64_t tiles = 1, scratch_bytes = 0, bytes = 0, pattern = 0;
  const tolk_program* program = nullptr;
  size_t first_pointer = 0, first_slot = 0;
  uint32_t buffer_count = 0, value_count = 0;
  bool wide() const { return kind == Kind::Kernel && tiles > 1; }
};

void run_node(const Node& node, void* scratch) {
  switch (node.kind) {
  case Kind::Kernel:
    node.function(node.buffers, node.values, 0, node.tiles, node.scratch_bytes ? scratch : nullptr);
    break;
  case Kind::Copy:
    if (node.bytes) std::memmove(node.buffers[0], node.buffers[1], node.bytes); // changes may overlap
    break;
  case Kind::Fill:
    tolk_fill_bytes(node.buffers[0], node.bytes, node.pattern, node.pattern_bytes);
    break;
  }
}

// Nodes as the tiles of one piece of work: what run_inline and the worker pool take.
void run_nodes(void* const* nodes, const uint64_t*, uint64_t begin, uint64_t end, void* scratch) {
  for (uint64_t i = begin; i < end; ++i) run_node(*static_cast<const Node*>(nodes[i]), scratch);
}

// A stretch of the sequence: nodes one after the other, one kernel of several tiles, or nodes at once.
struct Step {
  enum class Way : uint8_t { InOrder, Tiles, Together } way;
  uint32_t begin, end;
  uint64_t scratch_bytes;
};

} // namespace
} // namespace tolk_cpu

struct tolk_graph {
  uint32_t device_count = 0;
  bool committed = false, timed = false;
  std::vector<tolk_cpu::Node> nodes;
  std::vector<void*> pointers; // arguments of all nodes
  std::vector<uint64_t> slots;
  std::vector<void*> sequence; // Node*, in the order of the steps
  std::vector<tolk_cpu::Step> steps;
  uint64_t launches = 0;
  bool layered = false; // some nodes are independent and small: worth measuring
  std::vector<uint64_t> begin_ns, end_ns;
  tolk_cpu::Point running; // the last launch; whatever changes the graph waits for it
};

namespace tolk_cpu {
namespace {

bool inside(const tolk_ref& ref) { return tolk_inside(ref.offset, ref.size, ref.buffer->size); }

uint8_t* address(const tolk_ref& ref) { return ref.buffer->data + ref.offset; }

// TOLK_OK when a kernel may get this range as its argument `index`.
tolk_status check_argument(const tolk_program& program, uint32_t index, const tolk_ref& ref) {
  if (!inside(ref))
    return fail(TOLK_E_INVALID, "argument " + std::to_string(index) + " lies outside its buffer");
  if (reinterpret_cast<uintptr_t>(address(ref)) % program.align[index])
    return fail(TOLK_E_INVALID, "argument " + std::to_string(index) + " is not aligned to its dtype");
  return TOLK_OK;
}

tolk_status check_sizes(const uint32_t grid[3], const uint32_t local[3]) {
  if (grid[0] < 1 || grid[1] != 1 || grid[2] != 1 || local[0] != 1 || local[1] != 1 || local[2] != 1)
    return fail(TOLK_E_LIMIT, "the CPU device has one grid axis and work-groups of one item");
  return TOLK_OK;
}

tolk_status create(tolk_device* const*, uint32_t device_count, uint32_t flags, tolk_graph** out) {
  return guarded([&] {
    auto graph = std::make_unique<tolk_graph>();
    graph->device_count = device_count;
    graph->timed = (flags & TOLK_GRAPH_TIMED) != 0;
    *out = graph.release();
    return TOLK_OK;
  });
}

tolk_status add(tolk_graph& graph, uint32_t device, Node node, std::span<void* const> pointers,
                std::span<const uint64_t> values, const uint32_t* after, uint32_t after_count) {
  if (graph.committed) return fail(TOLK_E_INVALID, "the graph is committed and takes no more nodes");
  if (device >= graph.device_count)
    return fail(TOLK_E_INVALID, "the graph has " + std::to_string(graph.device_count) + " devices, none is " +
                                    std::to_string(device));
  for (uint32_t i = 0; i < after_count; ++i) {
    if (after[i] >= graph.nodes.size()) return fail(TOLK_E_INVALID, "a node waits for one that comes later");
    node.level = std::max(node.level, graph.nodes[after[i]].level + 1);
  }
  node.first_pointer = graph.pointers.size(), node.first_slot = graph.slots.size();
  node.buffer_count = static_cast<uint32_t>(pointers.size());
  node.value_count = static_cast<uint32_t>(values.size());
  graph.pointers.insert(graph.pointers.end(), pointers.begin(), pointers.end());
  graph.slots.insert(graph.slots.end(), values.begin(), values.end());
  graph.nodes.push_back(node);
  return TOLK_OK;
}

tolk_status add_kernel(tolk_graph* graph, uint32_t device, tolk_kernel* kernel, const tolk_launch* launch,
                       const uint32_t* after, uint32_t after_count) {
  return guarded([&]() -> tolk_status {
    const tolk_program& program = *kernel->program;
    if (tolk_status status = check_sizes(launch->grid, launch->local)) return status;
    if (launch->buffer_count != program.buffer_count || launch->value_count != program.value_count)
      return fail(TOLK_E_INVALID, "the number of arguments is not that of kernel " + kernel->name);
    std::vector<void*> pointers;
    for (uint32_t i = 0; i < launch->buffer_count; ++i) {
      if (tolk_status status = check_argument(program, i, launch->buffers[i])) return status;
      pointers.push_back(address(launch->buffers[i]));
    }
    Node node;
    node.function = kernel->function;
    node.program = &program;
    node.tiles = launch->grid[0];
    node.scratch_bytes = program.scratch_bytes + launch->shared_bytes;
    return add(*graph, device, node, pointers, {launch->values, launch->value_count}, after, after_count);
  });
}

tolk_status add_copy(tolk_graph* graph, uint32_t device, tolk_ref dst, tolk_ref src, const uint32_t* after,
                     uint32_t after_count) {
  return guarded([&]() -> tolk_status {
    if (dst.size != src.size || !inside(dst) || !inside(src))
      return fail(TOLK_E_INVALID, "a range of the copy lies outside its buffer, or their sizes differ");
    if (address(dst) < address(src) + src.size && address(src) < address(dst) + dst.size)
      return fail(TOLK_E_INVALID, "the two ranges of a copy overlap");
    Node node;
    node.kind = Kind::Copy;
    node.bytes = dst.size;
    void* pointers[] = {address(dst), address(src)};
    return add(*graph, device, node, pointers, {}, after, after_count);
  });
}

tolk_status add_fill(tolk_graph* graph, uint32_t device, tolk_ref dst, uint64_t pattern,
                     uint32_t pattern_bytes, const uint32_t* after, uint32_t after_count) {
  return guarded([&]() -> tolk_status {
    if (!tolk_fill_fits(dst, pattern_bytes))
      return fail(TOLK_E_INVALID,
                  "a fill pattern has 1, 2, 4 or 8 bytes, and offset and size are multiples of it");
    if (!inside(dst)) return fail(TOLK_E_INVALID, "the range to fill lies outside its buffer");
    Node node;
    node.kind = Kind::Fill;
    node.bytes = dst.size;
    node.pattern = pattern;
    node.pattern_bytes = static_cast<uint8_t>(pattern_bytes);
    void* pointers[] = {address(dst)};
    return add(*graph, device, node, pointers, {}, after, after_count);
  });
}

// Appends a stretch that runs in order; kernels of several tiles stand alone.
void append_in_order(tolk_graph& graph, Node& node) {
  auto at = static_cast<uint32_t>(graph.sequence.size());
  graph.sequence.push_back(&node);
  if (!node.wide() && !graph.steps.empty() && graph.steps.back().way == Step::Way::InOrder) {
    graph.steps.back().end = at + 1;
    graph.steps.back().scratch_bytes = std::max(graph.steps.back().scratch_bytes, node.scratch_bytes);
    return;
  }
  graph.steps.push_back(
      {node.wide() ? Step::Way::Tiles : Step::Way::InOrder, at, at + 1, node.scratch_bytes});
}

void plan_in_order(tolk_graph& graph) {
  graph.sequence.clear(), graph.steps.clear();
  for (Node& node : graph.nodes) append_in_order(graph, node);
}

// Whether nodes with these times are done sooner on several threads.
bool pays(const std::vector<std::pair<uint64_t, Node*>>& nodes) {
  uint64_t total = 0, longest = 0;
  for (const auto& [ns, node] : nodes) total += ns, longest = std::max(longest, ns);
  double threads = std::min<double>(thread_count(), static_cast<double>(nodes.size()));
  double together =
      std::max(static_cast<double>(longest), static_cast<double>(total) / threads) + kHandOverNs;
  return nodes.size() > 1 && threads > 1 && together * kLeastGain < static_cast<double>(total);
}

// Level by level, where one has enough small work to share; else the recorded order stays, which has the
// better locality.
void plan_from_times(tolk_graph& graph, const std::vector<uint64_t>& ns) {
  uint32_t levels = 0;
  for (const Node& node : graph.nodes) levels = std::max(levels, node.level + 1);
  std::vector<std::vector<std::pair<uint64_t, Node*>>> small(levels);
  std::vector<std::vector<Node*>> wide(levels);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& node = graph.nodes[i];
    if (node.wide())
      wide[node.level].push_back(&node);
    else
      small[node.level].emplace_back(ns[i], &node);
  }
  if (std::none_of(small.begin(), small.end(), pays)) return plan_in_order(graph);
  graph.sequence.clear(), graph.steps.clear();
  for (uint32_t level = 0; level < levels; ++level) {
    for (Node* node : wide[level]) append_in_order(graph, *node);
    auto& nodes = small[level];
    if (!pays(nodes)) {
      for (auto& [time, node] : nodes) append_in_order(graph, *node);
      continue;
    }
    // Long ones first: the short ones even out what is left.
    std::sort(nodes.begin(), nodes.end(), [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first > b.first : a.second < b.second;
    });
    auto begin = static_cast<uint32_t>(graph.sequence.size());
    uint64_t scratch = 0;
    for (auto& [time, node] : nodes) {
      graph.sequence.push_back(node);
      scratch = std::max(scratch, node->scratch_bytes);
    }
    graph.steps.push_back(
        {Step::Way::Together, begin, static_cast<uint32_t>(graph.sequence.size()), scratch});
  }
}

tolk_status commit(tolk_graph* graph) {
  return guarded([&]() -> tolk_status {
    if (graph->committed) return fail(TOLK_E_INVALID, "the graph is committed");
    std::vector<uint32_t> small; // by level
    for (Node& node : graph->nodes) {
      node.buffers = graph->pointers.data() + node.first_pointer;
      node.values = graph->slots.data() + node.first_slot;
      if (node.level >= small.size()) small.resize(node.level + 1);
      if (!node.wide() && ++small[node.level] > 1) graph->layered = true;
    }
    plan_in_order(*graph);
    graph->committed = true;
    return TOLK_OK;
  });
}

tolk_status check_patch(const tolk_graph& graph, const tolk_patch& patch) {
  if (patch.node >= graph.nodes.size())
    return fail(TOLK_E_INVALID, "the graph has no node " + std::to_string(patch.node));
  const Node& node = graph.nodes[patch.node];
  std::string which = "node " + std::to_string(patch.node);
  switch (patch.kind) {
  case TOLK_PATCH_BUFFER:
    if (patch.index >= node.buffer_count)
      return fail(TOLK_E_INVALID, which + " has no buffer " + std::to_string(patch.index));
    if (node.kind == Kind::Kernel) return check_argument(*node.program, patch.index, patch.to.buffer);
    if (patch.to.buffer.size != node.bytes || !inside(patch.to.buffer))
      return fail(TOLK_E_INVALID, which + ": the new range lies outside its buffer or has another size");
    return TOLK_OK;
  case TOLK_PATCH_VALUE:
    if (patch.index >= node.value_count)
      return fail(TOLK_E_INVALID, which + " has no value " + std::to_string(patch.index));
    return TOLK_OK;
  case TOLK_PATCH_SIZES:
    if (node.kind != Kind::Kernel) return fail(TOLK_E_INVALID, which + " is no kernel and has no sizes");
    return check_sizes(patch.to.sizes.grid, patch.to.sizes.local);
  default:
    return fail(TOLK_E_INVALID, "a change of an unknown kind");
  }
}

tolk_status update(tolk_graph* graph, const tolk_patch* patches, uint32_t patch_count) {
  return guarded([&]() -> tolk_status {
    if (!graph->committed) return fail(TOLK_E_INVALID, "the graph is not committed");
    graph->running.wait();
    for (uint32_t i = 0; i < patch_count; ++i)
      if (tolk_status status = check_patch(*graph, patches[i])) return status;
    bool way_changed = false;
    for (uint32_t i = 0; i < patch_count; ++i) {
      const tolk_patch& patch = patches[i];
      Node& node = graph->nodes[patch.node];
      if (patch.kind == TOLK_PATCH_BUFFER) {
        node.buffers[patch.index] = address(patch.to.buffer);
      } else if (patch.kind == TOLK_PATCH_VALUE) {
        node.values[patch.index] = patch.to.value;
      } else {
        bool wide = node.wide();
        node.tiles = patch.to.sizes.grid[0];
        way_changed |= wide != node.wide();
      }
    }
    if (way_changed) plan_in_order(*graph); // what was measured is of another form
    return TOLK_OK;
  });
}

bool run_step(const tolk_graph& graph, const Step& step) {
  void* const* nodes = graph.sequence.data() + step.begin;
  if (step.way == Step::Way::Tiles) {
    const Node& node = *static_cast<const Node*>(nodes[0]);
    return worker_pool().run({node.function, node.buffers, node.values, node.tiles, node.scratch_bytes});
  }
  Work work{run_nodes, nodes, nullptr, step.end - step.begin, step.scratch_bytes};
  return step.way == Step::Way::Together ? worker_pool().run(work) : run_inline(work);
}

// Node by node in the recorded order, with the time of each.
bool run_measured(tolk_graph& graph, std::vector<uint64_t>& begin_ns, std::vector<uint64_t>& end_ns) {
  begin_ns.resize(graph.nodes.size()), end_ns.resize(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& node = graph.nodes[i];
    void* one = &node;
    begin_ns[i] = host->clock_ns(host->ctx);
    Work work{run_nodes, &one, nullptr, 1, node.scratch_bytes};
    bool ran =
        node.wide()
            ? worker_pool().run({node.function, node.buffers, node.values, node.tiles, node.scratch_bytes})
            : run_inline(work);
    if (!ran) return false;
    end_ns[i] = host->clock_ns(host->ctx);
  }
  return true;
}

bool run(tolk_graph& graph) {
  uint64_t number = ++graph.launches;
  bool measure = graph.layered && number > 1 && (number & (number - 1)) == 0 && thread_count() > 1;
  if (!graph.timed && !measure)
    return std::all_of(graph.steps.begin(), graph.steps.end(),
                       [&](const Step& step) { return run_step(graph, step); });
  std::vector<uint64_t> from, to;
  bool ran = run_measured(graph, from, to);
  if (ran && measure && !graph.timed) {
    std::vector<uint64_t> ns(from.size());
    for (size_t i = 0; i < ns.size(); ++i) ns[i] = to[i] - from[i];
    plan_from_times(graph, ns);
  }
  graph.begin_ns = std::move(from), graph.end_ns = std::move(to);
  return ran;
}

// On the first device's stream, after what the others have; what they get later waits for it.
tolk_status launch(tolk_graph* graph, tolk_stream* const* streams, uint64_t* device_ns) {
  return guarded([&]() -> tolk_status {
    if (!graph->committed) return fail(TOLK_E_INVALID, "the graph is not committed");
    tolk_stream* stream = streams && graph->device_count ? streams[0] : nullptr;
    if (stream)
      for (uint32_t i = 1; i < graph->device_count; ++i)
        if (streams[i] != stream) stream->submit([before = streams[i]->end()] { return before.wait(); });
    if (!stream || device_ns)
      return run_on(stream, true, [&] {
        uint64_t begin = device_ns ? host->clock_ns(host->ctx) : 0;
        bool ran = run(*graph);
        if (device_ns) *device_ns = host->clock_ns(host->ctx) - begin;
        return ran;
      });
    stream->submit([graph] { return run(*graph); });
    graph->running = stream->end();
    for (uint32_t i = 1; i < graph->device_count; ++i)
      if (streams[i] != stream) streams[i]->submit([before = graph->running] { return before.wait(); });
    return TOLK_OK;
  });
}

tolk_status node_times(tolk_graph* graph, uint64_t* begin_ns, uint64_t* end_ns) {
  graph->running.wait();
  if (!graph->timed || graph->begin_ns.size() != graph->nodes.size())
    return fail(TOLK_E_UNSUPPORTED, "the graph was not made with TOLK_GRAPH_TIMED, or not launched");
  std::copy(graph->begin_ns.begin(), graph->begin_ns.end(), begin_ns);
  std::copy(graph->end_ns.begin(), graph->end_ns.end(), end_ns);
  return TOLK_OK;
}

void destroy(tolk_graph* graph) { delete graph; }

} // namespace

const tolk_graph_vt graph_table = {
    .struct_size = sizeof(tolk_graph_vt),
    .reserved = 0,
    .create = create,
    .add_kernel = add_kernel,
    .add_copy = add_copy,
    .add_fill = add_fill,
    .commit = commit,
    .update = update,
    .launch = launch,
    .node_times = node_times,
    .destroy = destroy,
};

} // namespace tolk_cpu
