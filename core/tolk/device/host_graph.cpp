#include "tolk/device/host_graph.h"

#include <algorithm>
#include <exception>

#include <tolk/plugin/helpers.h>

#include "tolk/device/copy.h"
#include "tolk/device/stream.h"
#include "tolk/loader/plugin_loader.h"
#include "tolk/loader/status.h"

namespace {

enum class NodeKind : uint8_t { Kernel, Copy, Fill };

struct Node {
  NodeKind kind = NodeKind::Kernel;
  uint32_t device = 0; // position
  tolk_kernel* kernel = nullptr;
  std::vector<tolk_ref> refs; // with the plugin's handles
  std::vector<uint64_t> values;
  uint32_t grid[3] = {1, 1, 1}, local[3] = {1, 1, 1};
  tolk::Device* source = nullptr; // of a copy
  uint64_t pattern = 0;
  uint32_t pattern_bytes = 0;
  std::vector<uint32_t> after;
};

} // namespace

struct tolk_graph {
  std::vector<tolk::Device*> devices;
  // Shared with launches that still read arguments; such nodes are copied before a change.
  std::shared_ptr<std::vector<Node>> nodes = std::make_shared<std::vector<Node>>();
  bool keeps_arguments = false; // kernels read their arguments when they start

  tolk::Plugin& plugin() const { return devices[0]->plugin(); }
  // What fails meanwhile stays with its stream.
  void wait_all() const {
    for (tolk::Device* device : devices) device->compute().settle();
  }
};

namespace tolk {
namespace {

tolk::Storage& storage_of(tolk_buffer* handle) { return *reinterpret_cast<Storage*>(handle); }

tolk_ref plugin_ref(const tolk_ref& ref) { return {storage_of(ref.buffer).handle, ref.offset, ref.size}; }

template <typename Body> tolk_status guarded(Body body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return TOLK_E_HOST_OOM;
  } catch (const std::exception& e) {
    keep_error_text(TOLK_E_INTERNAL, e.what());
    return TOLK_E_INTERNAL;
  }
}

tolk_status create(tolk_device* const* devices, uint32_t count, uint32_t, tolk_graph** out) {
  return guarded([&] {
    auto graph = std::make_unique<tolk_graph>();
    for (uint32_t i = 0; i < count; i++) {
      auto* device = reinterpret_cast<Device*>(devices[i]);
      graph->devices.push_back(device);
      graph->keeps_arguments |= device->stream() && (device->caps().flags & TOLK_CAP_RETAINS_ARGS);
    }
    *out = graph.release();
    return TOLK_OK;
  });
}

void destroy(tolk_graph* graph) { delete graph; }

tolk_status add_kernel(tolk_graph* graph, uint32_t device, tolk_kernel* kernel, const tolk_launch* launch,
                       const uint32_t* after, uint32_t after_count) {
  return guarded([&] {
    Node node;
    node.device = device;
    node.kernel = kernel;
    for (uint32_t i = 0; i < launch->buffer_count; i++) node.refs.push_back(plugin_ref(launch->buffers[i]));
    node.values.assign(launch->values, launch->values + launch->value_count);
    std::copy_n(launch->grid, 3, node.grid);
    std::copy_n(launch->local, 3, node.local);
    node.after.assign(after, after + after_count);
    graph->nodes->push_back(std::move(node));
    return TOLK_OK;
  });
}

tolk_status add_copy(tolk_graph* graph, uint32_t device, tolk_ref dst, tolk_ref src, const uint32_t* after,
                     uint32_t after_count) {
  return guarded([&] {
    Node node;
    node.kind = NodeKind::Copy;
    node.device = device;
    node.refs = {plugin_ref(dst), plugin_ref(src)};
    node.source = &storage_of(src.buffer).device;
    node.after.assign(after, after + after_count);
    graph->nodes->push_back(std::move(node));
    return TOLK_OK;
  });
}

tolk_status add_fill(tolk_graph* graph, uint32_t device, tolk_ref dst, uint64_t pattern,
                     uint32_t pattern_bytes, const uint32_t* after, uint32_t after_count) {
  return guarded([&] {
    Node node;
    node.kind = NodeKind::Fill;
    node.device = device;
    node.refs = {plugin_ref(dst)};
    node.pattern = pattern;
    node.pattern_bytes = pattern_bytes;
    node.after.assign(after, after + after_count);
    graph->nodes->push_back(std::move(node));
    return TOLK_OK;
  });
}

tolk_status commit(tolk_graph*) { return TOLK_OK; }

tolk_status update(tolk_graph* graph, const tolk_patch* patches, uint32_t patch_count) {
  return guarded([&] {
    if (graph->nodes.use_count() > 1) graph->nodes = std::make_shared<std::vector<Node>>(*graph->nodes);
    for (const tolk_patch& patch : std::span(patches, patch_count)) {
      Node& node = (*graph->nodes)[patch.node];
      if (patch.kind == TOLK_PATCH_BUFFER) {
        node.refs[patch.index] = plugin_ref(patch.to.buffer);
        if (node.kind == NodeKind::Copy && patch.index == 1)
          node.source = &storage_of(patch.to.buffer.buffer).device;
      } else if (patch.kind == TOLK_PATCH_VALUE) {
        node.values[patch.index] = patch.to.value;
      } else {
        std::copy_n(patch.to.sizes.grid, 3, node.grid);
        std::copy_n(patch.to.sizes.local, 3, node.local);
      }
    }
    return TOLK_OK;
  });
}

tolk_status submit_copy(const tolk_graph& graph, const Node& node, tolk_stream* const* streams) {
  const Plugin& plugin = graph.plugin();
  const tolk_ref &dst = node.refs[0], &src = node.refs[1];
  tolk_status status = TOLK_E_UNSUPPORTED;
  if (can_transfer(*graph.devices[node.device], *node.source))
    status = plugin.stream.copy(streams[node.device], dst, src);
  if (status != TOLK_E_UNSUPPORTED) return status;
  take_error_text(status);
  graph.wait_all();
  std::vector<std::byte> bytes(dst.size);
  const auto from =
      std::find(graph.devices.begin(), graph.devices.end(), node.source) - graph.devices.begin();
  status = plugin.stream.copy_out(streams[from], bytes.data(), src, 0);
  return status < 0 ? status : plugin.stream.copy_in(streams[node.device], dst, bytes.data(), 0);
}

tolk_status submit(const tolk_graph& graph, const Node& node, tolk_stream* const* streams) {
  const Plugin& plugin = graph.plugin();
  tolk_stream* stream = streams[node.device];
  if (node.kind == NodeKind::Copy) return submit_copy(graph, node, streams);
  if (node.kind == NodeKind::Fill) {
    const tolk_ref& dst = node.refs[0];
    tolk_status status = plugin.stream.fill(stream, dst, node.pattern, node.pattern_bytes);
    if (status != TOLK_E_UNSUPPORTED) return status;
    take_error_text(status);
    std::vector<std::byte> bytes(dst.size);
    tolk_fill_bytes(bytes.data(), bytes.size(), node.pattern, node.pattern_bytes);
    return plugin.stream.copy_in(stream, dst, bytes.data(), 0);
  }
  tolk_launch launch{};
  launch.struct_size = sizeof launch;
  launch.flags = TOLK_LAUNCH_CHECKED;
  std::copy_n(node.grid, 3, launch.grid);
  std::copy_n(node.local, 3, launch.local);
  launch.buffer_count = static_cast<uint32_t>(node.refs.size());
  launch.value_count = static_cast<uint32_t>(node.values.size());
  launch.buffers = node.refs.data();
  launch.values = node.values.data();
  return plugin.program.launch(stream, node.kernel, &launch);
}

// Queues of several devices are kept in step by waiting: correct, and rare enough.
tolk_status submit_all(const tolk_graph& graph, tolk_stream* const* streams) {
  const bool several = graph.devices.size() > 1 && streams[0];
  if (several) graph.wait_all();
  for (const Node& node : *graph.nodes) {
    if (several)
      for (uint32_t earlier : node.after)
        if (const uint32_t other = (*graph.nodes)[earlier].device; other != node.device)
          graph.devices[other]->compute().settle();
    if (tolk_status status = submit(graph, node, streams); status < 0) return status;
  }
  if (several) graph.wait_all();
  return TOLK_OK;
}

// Leaves *device_ns as it is: the caller measures.
tolk_status launch(tolk_graph* graph, tolk_stream* const* streams, uint64_t*) {
  return guarded([&] {
    const tolk_status status = submit_all(*graph, streams);
    if (!graph->keeps_arguments) return status;
    if (status < 0) {
      graph->wait_all(); // for the nodes that were submitted
      return status;
    }
    for (Device* device : graph->devices) {
      device->compute().after({});
      device->compute().retain(graph->nodes);
    }
    return status;
  });
}

tolk_status node_times(tolk_graph*, uint64_t*, uint64_t*) { return TOLK_E_UNSUPPORTED; }

constexpr tolk_graph_vt kHostGraphs = {
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

} // namespace

GraphTable host_graph_table(const Device& device) {
  GraphAbility ability;
  ability.copies = ability.fills = ability.several_devices = true;
  ability.offset_max = device.caps().offset_max;
  return {&kHostGraphs, ability,
          TOLK_GRAPH_UPDATE_BUFFERS | TOLK_GRAPH_UPDATE_VALUES | TOLK_GRAPH_UPDATE_SIZES,
          [](Device& d) { return reinterpret_cast<tolk_device*>(&d); },
          [](Storage& s) { return reinterpret_cast<tolk_buffer*>(&s); }};
}

GraphTable plugin_graph_table(const Device& device) {
  const tolk_caps& caps = device.caps();
  GraphAbility ability;
  ability.native = true;
  ability.copies = caps.graph & TOLK_GRAPH_COPIES;
  ability.fills = caps.graph & TOLK_GRAPH_FILLS;
  ability.several_devices = caps.graph & TOLK_GRAPH_CROSS_DEVICE;
  ability.nodes_max = caps.graph_nodes_max;
  ability.offset_max = caps.offset_max;
  return {&device.plugin().graph, ability, caps.graph, [](Device& d) { return d.handle(); },
          [](Storage& s) { return s.handle; }};
}

} // namespace tolk
