// Recorded graphs: nodes with dependencies, run by the first stream's worker while the other streams of the
// graph stand still. A launch keeps the node list that it started with, so a later update never reaches it.
#include <cstring>
#include <random>

#include <tolk/plugin/helpers.h>

#include "state.h"

namespace tb {
namespace {

enum class NodeKind { Kernel, Copy, Fill };

struct Node {
  NodeKind kind = NodeKind::Kernel;
  tolk_device* device = nullptr;
  const tolk_kernel* kernel = nullptr;
  KernelWork work;
  Range dst, src;
  uint64_t pattern = 0;
  uint32_t pattern_bytes = 0;
  std::vector<uint32_t> after;
};

using Nodes = std::vector<Node>;

struct Times {
  std::mutex mutex;
  std::vector<uint64_t> begin, end;
};

} // namespace
} // namespace tb

struct tolk_graph {
  std::vector<tolk_device*> devices;
  uint32_t flags = 0;
  bool committed = false;
  std::shared_ptr<const tb::Nodes> nodes = std::make_shared<tb::Nodes>();
  std::shared_ptr<tb::Times> times = std::make_shared<tb::Times>();
};

namespace tb {
namespace {

uint32_t ordinal_of(const tolk_graph* graph) { return graph->devices[0]->ordinal; }

tolk_status create(tolk_device* const* devices, uint32_t device_count, uint32_t flags, tolk_graph** out) {
  return guarded([&]() -> tolk_status {
    if (device_count == 0) return fail(TOLK_E_INVALID, "a graph without a device");
    for (uint32_t i = 0; i < device_count; i++) {
      if (!devices[i]->options.graph) return fail(TOLK_E_UNSUPPORTED, "graphs are switched off");
      if (device_count > 1 && !(devices[i]->options.graph & TOLK_GRAPH_CROSS_DEVICE))
        return fail(TOLK_E_UNSUPPORTED, "graphs over several devices are switched off");
    }
    if (tolk_status s = injected(devices[0]->ordinal, TB_GRAPH_CREATE)) return s;
    auto graph = std::make_unique<tolk_graph>();
    graph->devices.assign(devices, devices + device_count);
    graph->flags = flags;
    count(ordinal_of(graph.get()), &tb_counters::graph_create);
    count(ordinal_of(graph.get()), &tb_counters::live_graphs);
    *out = graph.release();
    return TOLK_OK;
  });
}

tolk_status add(tolk_graph* graph, uint32_t device, uint32_t needed, Node node, const uint32_t* after,
                uint32_t after_count) {
  if (graph->committed) return fail(TOLK_E_INVALID, "the graph is committed");
  if (device >= graph->devices.size()) return fail(TOLK_E_INVALID, "no such device of the graph");
  node.device = graph->devices[device];
  if (!(node.device->options.graph & needed))
    return fail(TOLK_E_UNSUPPORTED, "graphs take no such node here");
  auto nodes = std::make_shared<Nodes>(*graph->nodes);
  for (uint32_t i = 0; i < after_count; i++) {
    if (after[i] >= nodes->size()) return fail(TOLK_E_INVALID, "a dependency is not an earlier node");
    node.after.push_back(after[i]);
  }
  nodes->push_back(std::move(node));
  graph->nodes = std::move(nodes);
  count(ordinal_of(graph), &tb_counters::graph_edges, after_count);
  return TOLK_OK;
}

tolk_status add_kernel(tolk_graph* graph, uint32_t device, tolk_kernel* kernel, const tolk_launch* launch,
                       const uint32_t* after, uint32_t after_count) {
  return guarded([&]() -> tolk_status {
    Node node;
    node.kernel = kernel;
    if (device < graph->devices.size() && kernel->device != graph->devices[device])
      return fail(TOLK_E_INVALID, "the kernel was loaded on another device");
    if (tolk_status s = take_launch(kernel, launch, node.work)) return s;
    if (tolk_status s = add(graph, device, TOLK_GRAPH_KERNELS, std::move(node), after, after_count)) return s;
    count(ordinal_of(graph), &tb_counters::graph_kernels);
    return TOLK_OK;
  });
}

tolk_status add_copy(tolk_graph* graph, uint32_t device, tolk_ref dst, tolk_ref src, const uint32_t* after,
                     uint32_t after_count) {
  return guarded([&]() -> tolk_status {
    Node node;
    node.kind = NodeKind::Copy;
    if (tolk_status s = take_range(dst, node.dst)) return s;
    if (tolk_status s = take_range(src, node.src)) return s;
    if (dst.size != src.size) return fail(TOLK_E_INVALID, "source and destination differ in size");
    if (tolk_status s = add(graph, device, TOLK_GRAPH_COPIES, std::move(node), after, after_count)) return s;
    count(ordinal_of(graph), &tb_counters::graph_copies);
    return TOLK_OK;
  });
}

tolk_status add_fill(tolk_graph* graph, uint32_t device, tolk_ref dst, uint64_t pattern,
                     uint32_t pattern_bytes, const uint32_t* after, uint32_t after_count) {
  return guarded([&]() -> tolk_status {
    Node node;
    node.kind = NodeKind::Fill;
    node.pattern = pattern;
    node.pattern_bytes = pattern_bytes;
    if (!tolk_fill_fits(dst, pattern_bytes))
      return fail(TOLK_E_INVALID, "offset and size are multiples of the pattern's 1, 2, 4 or 8 bytes");
    if (tolk_status s = take_range(dst, node.dst)) return s;
    if (tolk_status s = add(graph, device, TOLK_GRAPH_FILLS, std::move(node), after, after_count)) return s;
    count(ordinal_of(graph), &tb_counters::graph_fills);
    return TOLK_OK;
  });
}

tolk_status commit(tolk_graph* graph) {
  if (graph->committed) return fail(TOLK_E_INVALID, "the graph is committed already");
  if (tolk_status s = injected(ordinal_of(graph), TB_GRAPH_COMMIT)) return s;
  graph->committed = true;
  count(ordinal_of(graph), &tb_counters::graph_commit);
  return TOLK_OK;
}

tolk_status apply(Node& node, const tolk_patch& patch) {
  const uint32_t offered = node.device->options.graph;
  switch (patch.kind) {
  case TOLK_PATCH_BUFFER: {
    if (!(offered & TOLK_GRAPH_UPDATE_BUFFERS)) return fail(TOLK_E_UNSUPPORTED, "buffers cannot be updated");
    Range range;
    if (tolk_status s = take_range(patch.to.buffer, range)) return s;
    if (node.kind == NodeKind::Kernel) {
      if (patch.index >= node.work.buffers.size())
        return fail(TOLK_E_INVALID, "a patch of no buffer parameter");
      node.work.buffers[patch.index] = range;
    } else {
      if (patch.index > (node.kind == NodeKind::Copy ? 1u : 0u))
        return fail(TOLK_E_INVALID, "a copy has two buffers, a fill one");
      (patch.index == 0 ? node.dst : node.src) = range;
    }
    return TOLK_OK;
  }
  case TOLK_PATCH_VALUE:
    if (!(offered & TOLK_GRAPH_UPDATE_VALUES)) return fail(TOLK_E_UNSUPPORTED, "values cannot be updated");
    if (node.kind != NodeKind::Kernel || patch.index >= node.work.values.size())
      return fail(TOLK_E_INVALID, "a patch of no value parameter");
    node.work.values[patch.index] = patch.to.value;
    return TOLK_OK;
  case TOLK_PATCH_SIZES:
    if (!(offered & TOLK_GRAPH_UPDATE_SIZES)) return fail(TOLK_E_UNSUPPORTED, "sizes cannot be updated");
    if (node.kind != NodeKind::Kernel) return fail(TOLK_E_INVALID, "sizes of a node that is no kernel");
    std::memcpy(node.work.grid, patch.to.sizes.grid, sizeof node.work.grid);
    std::memcpy(node.work.local, patch.to.sizes.local, sizeof node.work.local);
    return TOLK_OK;
  default:
    return fail(TOLK_E_INVALID, "a patch of unknown kind");
  }
}

tolk_status update(tolk_graph* graph, const tolk_patch* patches, uint32_t patch_count) {
  return guarded([&]() -> tolk_status {
    if (!graph->committed) return fail(TOLK_E_INVALID, "the graph is not committed");
    const uint32_t ordinal = ordinal_of(graph);
    if (tolk_status s = injected(ordinal, TB_GRAPH_UPDATE)) return s;
    auto nodes = std::make_shared<Nodes>(*graph->nodes);
    for (uint32_t i = 0; i < patch_count; i++) {
      if (patches[i].node >= nodes->size()) return fail(TOLK_E_INVALID, "a patch of no node");
      if (tolk_status s = apply((*nodes)[patches[i].node], patches[i])) return s;
    }
    graph->nodes = std::move(nodes);
    count(ordinal, &tb_counters::graph_update);
    for (uint32_t i = 0; i < patch_count; i++)
      count(ordinal, patches[i].kind == TOLK_PATCH_BUFFER  ? &tb_counters::patches_buffer
                     : patches[i].kind == TOLK_PATCH_VALUE ? &tb_counters::patches_value
                                                           : &tb_counters::patches_sizes);
    return TOLK_OK;
  });
}

Failure run_node(const Node& node) {
  switch (node.kind) {
  case NodeKind::Kernel:
    return run_kernel(node.device->ordinal, node.work);
  case NodeKind::Copy:
    return run_copy(node.device->ordinal, node.dst, node.src);
  default:
    return run_fill(node.device->ordinal, node.dst, node.pattern, node.pattern_bytes);
  }
}

Failure run_nodes(const Nodes& nodes, Times& times) {
  std::vector<size_t> waiting(nodes.size());
  std::vector<std::vector<size_t>> next(nodes.size());
  std::vector<size_t> ready;
  for (size_t i = 0; i < nodes.size(); i++) {
    waiting[i] = nodes[i].after.size();
    for (uint32_t before : nodes[i].after) next[before].push_back(i);
    if (waiting[i] == 0) ready.push_back(i);
  }
  std::vector<uint64_t> begin(nodes.size()), end(nodes.size());
  static thread_local std::minstd_rand random;
  const bool any = shuffled();
  Failure first;
  while (!ready.empty()) {
    size_t pick = any ? random() % ready.size() : 0;
    if (!any)
      for (size_t i = 1; i < ready.size(); i++)
        if (ready[i] < ready[pick]) pick = i;
    size_t n = ready[pick];
    ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(pick));
    begin[n] = host->clock_ns(host->ctx);
    Failure f = run_node(nodes[n]);
    end[n] = host->clock_ns(host->ctx);
    if (f.status != TOLK_OK && first.status == TOLK_OK) first = std::move(f);
    for (size_t after : next[n])
      if (--waiting[after] == 0) ready.push_back(after);
  }
  std::lock_guard lock(times.mutex);
  times.begin = std::move(begin);
  times.end = std::move(end);
  return first;
}

tb_record record_launch(const tolk_graph* graph, const Nodes& nodes, uint64_t stream, bool timed) {
  tb_record r{};
  r.kind = TB_GRAPH;
  r.device = ordinal_of(graph);
  r.stream = stream;
  r.timed = timed;
  record(r);
  for (const Node& node : nodes) {
    tb_record n = node.kind == NodeKind::Kernel ? kernel_record(node.device, node.kernel, node.work)
                                                : copy_record(node.kind == NodeKind::Copy ? TB_COPY : TB_FILL,
                                                              node.device->ordinal, node.dst, node.src);
    n.stream = stream;
    n.in_graph = 1;
    record(n);
  }
  return r;
}

tolk_status launch(tolk_graph* graph, tolk_stream* const* streams, uint64_t* device_ns) {
  return guarded([&]() -> tolk_status {
    if (!graph->committed) return fail(TOLK_E_INVALID, "the graph is not committed");
    const uint32_t ordinal = ordinal_of(graph);
    if (tolk_status s = injected(ordinal, TB_GRAPH_LAUNCH)) return s;
    tolk_stream* stream = streams ? streams[0] : nullptr;
    std::shared_ptr<const Nodes> nodes = graph->nodes;
    std::shared_ptr<Times> times = graph->times;
    count(ordinal, &tb_counters::graph_launch);
    const tb_record r = record_launch(graph, *nodes, stream ? stream->number : 0, device_ns != nullptr);
    auto elapsed = std::make_shared<uint64_t>(0);
    auto body = [nodes, times, elapsed] {
      uint64_t begin = host->clock_ns(host->ctx);
      Failure f = run_nodes(*nodes, *times);
      *elapsed = host->clock_ns(host->ctx) - begin;
      return f;
    };
    if (!stream) {
      Failure f = body();
      if (device_ns) *device_ns = reported_time(r, *elapsed);
      return f.status == TOLK_OK ? TOLK_OK : fail(f.status, f.text);
    }
    if (tolk_status s = stream->take_failure()) return s;
    // The other streams stop where they are until the whole graph ran.
    std::vector<std::shared_ptr<Signal>> arrived;
    auto finished = std::make_shared<Signal>();
    for (size_t i = 1; i < graph->devices.size(); i++) {
      if (!streams[i] || streams[i] == stream) continue;
      auto signal = std::make_shared<Signal>();
      arrived.push_back(signal);
      streams[i]->submit([signal, finished]() -> Failure {
        signal->set();
        finished->wait(TOLK_FOREVER);
        return {};
      });
    }
    stream->submit([body, arrived, finished] {
      for (const auto& signal : arrived) signal->wait(TOLK_FOREVER);
      Failure f = body();
      finished->set();
      return f;
    });
    if (!device_ns) return TOLK_OK;
    stream->mark()->wait(TOLK_FOREVER);
    *device_ns = reported_time(r, *elapsed);
    return stream->take_failure();
  });
}

tolk_status node_times(tolk_graph* graph, uint64_t* begin_ns, uint64_t* end_ns) {
  if (!(graph->flags & TOLK_GRAPH_TIMED)) return fail(TOLK_E_INVALID, "the graph was not made with TIMED");
  std::lock_guard lock(graph->times->mutex);
  std::memcpy(begin_ns, graph->times->begin.data(), graph->times->begin.size() * sizeof *begin_ns);
  std::memcpy(end_ns, graph->times->end.data(), graph->times->end.size() * sizeof *end_ns);
  return TOLK_OK;
}

void destroy(tolk_graph* graph) {
  if (!graph) return;
  count(ordinal_of(graph), &tb_counters::graph_destroy);
  uncount(ordinal_of(graph), &tb_counters::live_graphs);
  delete graph;
}

constexpr tolk_graph_vt make_table() {
  tolk_graph_vt t{};
  t.struct_size = sizeof t;
  t.create = create;
  t.add_kernel = add_kernel;
  t.add_copy = add_copy;
  t.add_fill = add_fill;
  t.commit = commit;
  t.update = update;
  t.launch = launch;
  t.node_times = node_times;
  t.destroy = destroy;
  return t;
}

} // namespace

constinit const tolk_graph_vt kGraphTable = make_table();

} // namespace tb
