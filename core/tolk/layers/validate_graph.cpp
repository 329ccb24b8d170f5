// The layer `validate`: graphs, as a machine with the states recording, committed, launched.
#include <algorithm>

#include "tolk/layers/validate.h"

namespace tolk::validating {

std::shared_ptr<Graph> ValidateLayer::enter_graph(Call& call, InUse& use, tolk_graph* handle) {
  auto graph = call.find(graphs_, handle, "the graph");
  if (graph) call.need(use.enter(graph->busy, graph), Rule::graph_threads);
  return call.ok() ? graph : nullptr;
}

tolk_status ValidateLayer::graph_create(tolk_device* const* devices, uint32_t device_count, uint32_t flags,
                                        tolk_graph** out) {
  Call call(*this, "graph.create");
  call.need(out && (devices || device_count == 0), Rule::pointer_null);
  call.need(device_count != 0, Rule::graph_devices);
  auto graph = std::make_shared<Graph>();
  graph->flags = flags;
  for (uint32_t i = 0; call.ok() && i < device_count; i++)
    graph->devices.push_back(call.find(devices_, devices[i], "a device"));
  if (!call.ok()) return call.refuse();
  *out = nullptr;
  tolk_status status = call.forward(graph->devices[0].get(), 0,
                                    [&] { return next->graph_create(devices, device_count, flags, out); });
  if (status != TOLK_OK || !call.need(*out, Rule::result_null, "no graph")) return call.result(status);
  graph->handle = *out;
  auto owners = graph->devices;
  if (call.need(graphs_.add(*out, std::move(graph)), Rule::handle_twice, "graph " + Call::address(*out)))
    for (const DeviceRef& device : owners) device->children++;
  return call.result(status);
}

void ValidateLayer::check_node(Call& call, const Graph& graph, uint32_t device, uint32_t needs,
                               const uint32_t* after, uint32_t after_count) {
  call.need(!graph.committed, Rule::graph_frozen);
  call.need(after || after_count == 0, Rule::pointer_null, "the dependencies are NULL");
  call.need(device < graph.devices.size(), Rule::graph_position,
            "position " + std::to_string(device) + " of " + std::to_string(graph.devices.size()));
  for (uint32_t i = 0; call.ok() && i < after_count; i++)
    call.need(after[i] < graph.nodes.size(), Rule::graph_after,
              "node " + std::to_string(graph.nodes.size()) + " after " + std::to_string(after[i]));
  if (!call.ok()) return;
  const Device& d = *graph.devices[device];
  call.need(!d.caps_known || (d.caps.graph & needs), Rule::graph_nodes, "this kind is not offered");
  call.need(d.caps.graph_nodes_max == 0 || graph.nodes.size() < d.caps.graph_nodes_max, Rule::graph_nodes,
            "there are " + std::to_string(graph.nodes.size()) + " already");
}

void ValidateLayer::hold(Graph::Node& node, int by) {
  for (const BufferRef& buffer : node.buffers) buffer->graphs += static_cast<uint32_t>(by);
  if (node.program) node.program->graphs += static_cast<uint32_t>(by);
}

tolk_status ValidateLayer::graph_add_kernel(tolk_graph* handle, uint32_t device, tolk_kernel* kernel_handle,
                                            const tolk_launch* launch, const uint32_t* after,
                                            uint32_t after_count) {
  InUse use;
  Call call(*this, "graph.add_kernel");
  auto graph = enter_graph(call, use, handle);
  if (graph) check_node(call, *graph, device, TOLK_GRAPH_KERNELS, after, after_count);
  auto kernel = call.find(kernels_, kernel_handle, "the kernel");
  Graph::Node node{Graph::Node::Kernel, device, nullptr, {}};
  if (kernel) {
    node.program = kernel->program;
    call.need(node.program->device == graph->devices[device], Rule::launch_device, node.program->entry);
    check_launch(call, *kernel, launch, node.buffers);
  }
  if (!call.ok()) return call.refuse();
  tolk_status status = call.forward(graph->devices[device].get(), 0, [&] {
    return next->graph_add_kernel(handle, device, kernel_handle, launch, after, after_count);
  });
  if (status == TOLK_OK) {
    hold(node, 1);
    graph->nodes.push_back(std::move(node));
  }
  return call.result(status);
}

tolk_status ValidateLayer::graph_add_copy(tolk_graph* handle, uint32_t device, tolk_ref dst, tolk_ref src,
                                          const uint32_t* after, uint32_t after_count) {
  InUse use;
  Call call(*this, "graph.add_copy");
  auto graph = enter_graph(call, use, handle);
  if (graph) check_node(call, *graph, device, TOLK_GRAPH_COPIES, after, after_count);
  BufferRef to = check_ref(call, dst, "the destination"), from = check_ref(call, src, "the source");
  if (!call.ok()) return call.refuse();
  check_pair(call, dst, src);
  check_copy(call, *to, dst, "the destination", true);
  check_copy(call, *from, src, "the source", false);
  if (!call.ok()) return call.refuse();
  tolk_status status = call.forward(graph->devices[device].get(), 0, [&] {
    return next->graph_add_copy(handle, device, dst, src, after, after_count);
  });
  if (status == TOLK_OK) {
    graph->nodes.push_back({Graph::Node::Copy, device, nullptr, {to, from}});
    hold(graph->nodes.back(), 1);
  }
  return call.result(status);
}

tolk_status ValidateLayer::graph_add_fill(tolk_graph* handle, uint32_t device, tolk_ref dst, uint64_t pattern,
                                          uint32_t pattern_bytes, const uint32_t* after,
                                          uint32_t after_count) {
  InUse use;
  Call call(*this, "graph.add_fill");
  auto graph = enter_graph(call, use, handle);
  if (graph) check_node(call, *graph, device, TOLK_GRAPH_FILLS, after, after_count);
  BufferRef to = check_ref(call, dst, "the destination");
  if (!call.ok()) return call.refuse();
  check_fill(call, dst, pattern_bytes);
  call.need(to->copies_write, Rule::write_read_only);
  if (!call.ok()) return call.refuse();
  tolk_status status = call.forward(graph->devices[device].get(), 0, [&] {
    return next->graph_add_fill(handle, device, dst, pattern, pattern_bytes, after, after_count);
  });
  if (status == TOLK_OK) {
    graph->nodes.push_back({Graph::Node::Fill, device, nullptr, {to}});
    hold(graph->nodes.back(), 1);
  }
  return call.result(status);
}

tolk_status ValidateLayer::graph_commit(tolk_graph* handle) {
  InUse use;
  Call call(*this, "graph.commit");
  auto graph = enter_graph(call, use, handle);
  if (graph) call.need(!graph->committed, Rule::graph_commit_twice);
  if (!call.ok()) return call.refuse();
  tolk_status status = call.forward(graph->devices[0].get(), 0, [&] { return next->graph_commit(handle); });
  graph->committed |= status == TOLK_OK;
  return call.result(status);
}

void ValidateLayer::check_patch(Call& call, const Graph& graph, const tolk_patch& patch, BufferRef& buffer) {
  if (!call.need(patch.node < graph.nodes.size(), Rule::graph_patch_node,
                 "node " + std::to_string(patch.node) + " of " + std::to_string(graph.nodes.size())))
    return;
  const Graph::Node& node = graph.nodes[patch.node];
  const Device& device = *graph.devices[node.device];
  const uint32_t offered = device.caps_known ? device.caps.graph : UINT32_MAX;
  const std::string where = "node " + std::to_string(patch.node) + ", index " + std::to_string(patch.index);
  const bool kernel = node.kind == Graph::Node::Kernel;
  switch (patch.kind) {
  case TOLK_PATCH_BUFFER:
    call.need(offered & TOLK_GRAPH_UPDATE_BUFFERS, Rule::graph_patch_kind, where);
    if (!call.need(patch.index < node.buffers.size(), Rule::graph_patch_index, where)) return;
    buffer = kernel ? check_argument(call, *node.program, patch.index, patch.to.buffer)
                    : check_ref(call, patch.to.buffer, "the new range");
    return;
  case TOLK_PATCH_VALUE:
    if (!call.need(kernel && (offered & TOLK_GRAPH_UPDATE_VALUES), Rule::graph_patch_kind, where)) return;
    if (!call.need(patch.index < node.program->values, Rule::graph_patch_index, where)) return;
    return check_value(call, *node.program, patch.index, patch.to.value);
  case TOLK_PATCH_SIZES:
    if (!call.need(kernel && (offered & TOLK_GRAPH_UPDATE_SIZES), Rule::graph_patch_kind, where)) return;
    return check_sizes(call, *node.program, patch.to.sizes.grid, patch.to.sizes.local);
  default:
    call.fail(Rule::graph_patch_kind, where + ": kind " + std::to_string(patch.kind));
  }
}

tolk_status ValidateLayer::graph_update(tolk_graph* handle, const tolk_patch* patches, uint32_t patch_count) {
  InUse use;
  Call call(*this, "graph.update");
  auto graph = enter_graph(call, use, handle);
  if (graph) {
    call.need(graph->committed, Rule::graph_update_early);
    call.need(graph->flags & TOLK_GRAPH_UPDATABLE, Rule::graph_not_updatable);
    call.need(patches || patch_count == 0, Rule::pointer_null);
  }
  std::vector<BufferRef> buffers(call.ok() ? patch_count : 0);
  for (uint32_t i = 0; call.ok() && i < patch_count; i++) check_patch(call, *graph, patches[i], buffers[i]);
  if (!call.ok()) return call.refuse();
  tolk_status status = call.forward(graph->devices[0].get(), 0,
                                    [&] { return next->graph_update(handle, patches, patch_count); });
  for (uint32_t i = 0; status == TOLK_OK && i < patch_count; i++) {
    if (!buffers[i]) continue;
    BufferRef& held = graph->nodes[patches[i].node].buffers[patches[i].index];
    // A launch that still runs uses the old one.
    for (const auto& [stream, position] : graph->uses.last) held->uses.add(stream, position);
    held->graphs--;
    held = buffers[i];
    held->graphs++;
  }
  return call.result(status);
}

tolk_status ValidateLayer::graph_launch(tolk_graph* handle, tolk_stream* const* streams,
                                        uint64_t* device_ns) {
  InUse use;
  Call call(*this, "graph.launch");
  auto graph = enter_graph(call, use, handle);
  if (graph) {
    call.need(graph->committed, Rule::graph_launch_early);
    call.need(streams, Rule::pointer_null);
  }
  if (!call.ok()) return call.refuse();
  const size_t count = graph->devices.size();
  const auto entered = std::make_unique<InUse[]>(count);
  std::vector<StreamRef> queues(count);
  for (size_t i = 0; call.ok() && i < count; i++) {
    if (streams[i] && streams_.live.contains(streams[i]))
      call.need(streams_.live[streams[i]]->device == graph->devices[i], Rule::graph_streams,
                "stream " + std::to_string(i) + " belongs to another device");
    // One stream may stand for several positions of one device.
    size_t same = 0;
    while (same < i && (streams[same] != streams[i] || graph->devices[same] != graph->devices[i])) same++;
    queues[i] = same < i ? queues[same]
                         : check_stream(call, entered[i], streams[i], *graph->devices[i], *graph->devices[i]);
  }
  if (!call.ok()) return call.refuse();
  std::vector<uint64_t> positions(count);
  for (size_t i = 0; i < count; i++) positions[i] = submit(queues[i], {&graph->uses});
  // In order on every stream: who knows that one of them is past the graph knows it of all.
  for (size_t i = 0; i < count; i++)
    for (size_t j = 0; j < count; j++)
      if (queues[i] && queues[j] && queues[i] != queues[j])
        queues[i]->joins.push_back({positions[i], queues[j], positions[j]});
  for (Graph::Node& node : graph->nodes) {
    if (!queues[node.device]) continue;
    for (const BufferRef& buffer : node.buffers)
      buffer->uses.add(queues[node.device], positions[node.device]);
    if (node.program) node.program->uses.add(queues[node.device], positions[node.device]);
  }
  graph->launches++;
  tolk_status status = call.forward(graph->devices[0].get(), Submits,
                                    [&] { return next->graph_launch(handle, streams, device_ns); });
  if (device_ns && status == TOLK_OK) // it waited
    for (size_t i = 0; i < count; i++)
      if (queues[i]) complete(*queues[i], positions[i]);
  return call.result(status);
}

tolk_status ValidateLayer::graph_node_times(tolk_graph* handle, uint64_t* begin_ns, uint64_t* end_ns) {
  InUse use;
  Call call(*this, "graph.node_times");
  auto graph = enter_graph(call, use, handle);
  if (graph) {
    call.need(begin_ns && end_ns, Rule::pointer_null);
    call.need((graph->flags & TOLK_GRAPH_TIMED) && graph->launches != 0 && !graph->uses.pending(),
              Rule::graph_times);
  }
  if (!call.ok()) return call.refuse();
  return call.result(call.forward(graph->devices[0].get(), 0,
                                  [&] { return next->graph_node_times(handle, begin_ns, end_ns); }));
}

void ValidateLayer::graph_destroy(tolk_graph* handle) {
  InUse use;
  Call call(*this, "graph.destroy");
  auto graph = enter_graph(call, use, handle);
  if (!graph) return;
  call.need(!graph->uses.pending(), Rule::graph_pending);
  if (!call.ok()) return;
  for (Graph::Node& node : graph->nodes) hold(node, -1);
  graphs_.remove(handle);
  for (const DeviceRef& device : graph->devices) device->children--;
  call.forward_void([&] { next->graph_destroy(handle); });
}

} // namespace tolk::validating
