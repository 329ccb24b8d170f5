// Graphs: a recorded command buffer, replayed with one submission.
//
// The arguments and the grid of each kernel are in memory that the commands read when they run, so a changed buffer,
// value or grid is written there and nothing is recorded again. A changed work-group size is another pipeline, and a
// changed copy or fill another command: those are recorded again. A recording with its arguments is an instance.
// An instance that runs is never touched: a launch after an update takes one that is idle, or makes one more.
#include <algorithm>
#include <cstring>

#include <tolk/plugin/helpers.h>

#include "state.h"

using namespace tolk_vulkan;

namespace {

struct Node {
  enum class Kind : uint8_t { Kernel, Copy, Fill };
  Kind kind;
  std::vector<uint32_t> after;
  tolk_kernel* kernel = nullptr; // Kernel
  std::vector<tolk_ref> buffers; // Kernel: its arguments; Copy: destination, source; Fill: destination
  std::vector<uint64_t> values;  // Kernel
  uint32_t grid[3] = {}, local[3] = {};
  uint32_t word = 0;      // Fill
  uint64_t arguments = 0; // Kernel: offset of the argument block; the grid is behind it
  uint64_t grid_offset() const { return arguments + kernel->program->argument_bytes(); }
};

// A recording and the arguments that it reads.
struct Instance {
  VkCommandBuffer commands = VK_NULL_HANDLE;
  std::unique_ptr<tolk_buffer> arguments;
  uint64_t written = 0, recorded = 0; // the graph's counts when that was done
  std::shared_ptr<Timeline> timeline; // of the last launch
  uint64_t position = 0;

  bool is_idle() const { return !timeline || timeline->is_done(position); }
};

} // namespace

struct tolk_graph {
  tolk_device* device = nullptr;
  std::vector<Node> nodes;
  bool committed = false;
  uint64_t argument_bytes = 0;
  uint64_t updates = 1, recordings = 1; // counted on by changes of arguments, and of commands
  VkCommandPool pool = VK_NULL_HANDLE;
  std::vector<std::unique_ptr<Instance>> instances;
  Instance* current = nullptr; // launched last

  ~tolk_graph() {
    for (const auto& instance : instances)
      if (instance->arguments) free_buffer(*instance->arguments);
    if (pool) device->vk.vkDestroyCommandPool(device->handle, pool, nullptr);
  }
};

namespace tolk_vulkan {
namespace {

tolk_status add(tolk_graph& graph, uint32_t device, Node&& node, const uint32_t* after, uint32_t count) {
  if (graph.committed) return fail(TOLK_E_INVALID, "the graph is committed");
  if (device != 0) return fail(TOLK_E_INVALID, "the graph has one device");
  for (uint32_t i = 0; i < count; ++i)
    if (after[i] >= graph.nodes.size())
      return fail(TOLK_E_INVALID, "a node comes after one that does not exist");
  node.after.assign(after, after + count);
  graph.nodes.push_back(std::move(node));
  return TOLK_OK;
}

tolk_status create(tolk_device* const* devices, uint32_t count, uint32_t, tolk_graph** out) {
  return guarded([&]() -> tolk_status {
    if (count != 1) return fail(TOLK_E_UNSUPPORTED, "a graph is of one Vulkan device");
    auto graph = std::make_unique<tolk_graph>();
    graph->device = devices[0];
    *out = graph.release();
    return TOLK_OK;
  });
}

tolk_status add_kernel(tolk_graph* graph, uint32_t device, tolk_kernel* kernel, const tolk_launch* launch,
                       const uint32_t* after, uint32_t after_count) {
  return guarded([&]() -> tolk_status {
    const tolk_program& program = *kernel->program;
    if (launch->buffer_count != program.buffer_count || launch->value_count != program.value_count)
      return fail(TOLK_E_INVALID, kernel->name + ": the number of arguments is not the kernel's");
    if (std::string broken = broken_limit(*graph->device, launch->grid, launch->local); !broken.empty())
      return fail(TOLK_E_LIMIT, kernel->name + ": " + broken);
    Node node{.kind = Node::Kind::Kernel, .after = {}, .kernel = kernel, .buffers = {}, .values = {}};
    node.buffers.assign(launch->buffers, launch->buffers + launch->buffer_count);
    node.values.assign(launch->values, launch->values + launch->value_count);
    std::copy_n(launch->grid, 3, node.grid);
    std::copy_n(launch->local, 3, node.local);
    return add(*graph, device, std::move(node), after, after_count);
  });
}

tolk_status add_copy(tolk_graph* graph, uint32_t device, tolk_ref dst, tolk_ref src, const uint32_t* after,
                     uint32_t after_count) {
  return guarded([&]() -> tolk_status {
    if (!is_inside(dst) || !is_inside(src) || dst.size != src.size || tolk_overlap(dst, src))
      return fail(TOLK_E_INVALID,
                  "the ranges of a copy overlap, differ in size or are outside their buffers");
    Node node{.kind = Node::Kind::Copy, .after = {}, .buffers = {dst, src}, .values = {}};
    return add(*graph, device, std::move(node), after, after_count);
  });
}

tolk_status add_fill(tolk_graph* graph, uint32_t device, tolk_ref dst, uint64_t pattern,
                     uint32_t pattern_bytes, const uint32_t* after, uint32_t after_count) {
  return guarded([&]() -> tolk_status {
    if (!is_inside(dst) || !tolk_fill_fits(dst, pattern_bytes))
      return fail(TOLK_E_INVALID, "the range to fill is not in its buffer, or not whole patterns");
    uint32_t words[2];
    tolk_fill_bytes(words, sizeof words, pattern, pattern_bytes);
    if (words[0] != words[1] || dst.offset % 4 != 0 || dst.size % 4 != 0)
      return fail(TOLK_E_UNSUPPORTED, "Vulkan fills whole words with one 32-bit pattern");
    Node node{.kind = Node::Kind::Fill, .after = {}, .buffers = {dst}, .values = {}};
    node.word = words[0];
    return add(*graph, device, std::move(node), after, after_count);
  });
}

void record_node(tolk_graph& graph, const Node& node, const Instance& instance) {
  tolk_device& device = *graph.device;
  VkCommandBuffer commands = instance.commands;
  if (node.kind == Node::Kind::Kernel) {
    VkPipeline pipeline = node.kernel->program->pipeline(node.local);
    const VkDeviceAddress address = instance.arguments->address() + node.arguments;
    device.vk.vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    device.vk.vkCmdPushConstants(commands, device.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof address,
                                 &address);
    device.vk.vkCmdDispatchIndirect(commands, instance.arguments->block->buffer,
                                    instance.arguments->offset + node.grid_offset());
    return;
  }
  const tolk_ref& to = node.buffers[0];
  if (to.size == 0) return;
  const uint64_t offset = to.buffer->offset + to.offset;
  if (node.kind == Node::Kind::Fill) {
    device.vk.vkCmdFillBuffer(commands, to.buffer->block->buffer, offset, to.size, node.word);
    return;
  }
  const tolk_ref& from = node.buffers[1];
  const VkBufferCopy region = {from.buffer->offset + from.offset, offset, to.size};
  device.vk.vkCmdCopyBuffer(commands, from.buffer->block->buffer, to.buffer->block->buffer, 1, &region);
}

void record(tolk_graph& graph, Instance& instance) {
  tolk_device& device = *graph.device;
  VkCommandBufferBeginInfo begin{};
  begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
  begin.flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT;
  device.check(device.vk.vkBeginCommandBuffer(instance.commands, &begin), "recording a graph");
  // Nodes behind the last barrier may run at once.
  size_t since = 0;
  barrier(device, instance.commands);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const std::vector<uint32_t>& after = graph.nodes[i].after;
    if (std::any_of(after.begin(), after.end(), [&](uint32_t earlier) { return earlier >= since; })) {
      barrier(device, instance.commands);
      since = i;
    }
    record_node(graph, graph.nodes[i], instance);
  }
  barrier(device, instance.commands, true);
  device.check(device.vk.vkEndCommandBuffer(instance.commands), "recording a graph");
  instance.recorded = graph.recordings;
}

void write_arguments(const tolk_graph& graph, Instance& instance) {
  for (const Node& node : graph.nodes) {
    if (node.kind != Node::Kind::Kernel) continue;
    uint8_t* to = instance.arguments->mapped() + node.arguments;
    tolk_launch launch{};
    launch.buffer_count = static_cast<uint32_t>(node.buffers.size());
    launch.value_count = static_cast<uint32_t>(node.values.size());
    launch.buffers = node.buffers.data();
    launch.values = node.values.data();
    node.kernel->program->write_arguments(launch, reinterpret_cast<uint64_t*>(to));
    std::memcpy(instance.arguments->mapped() + node.grid_offset(), node.grid, sizeof node.grid);
  }
  instance.written = graph.updates;
}

Instance& make_instance(tolk_graph& graph) {
  tolk_device& device = *graph.device;
  auto instance = std::make_unique<Instance>();
  instance->arguments = make_buffer(device, graph.argument_bytes, TOLK_BUFFER_STAGING);
  VkCommandBufferAllocateInfo allocate{};
  allocate.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
  allocate.commandPool = graph.pool;
  allocate.commandBufferCount = 1;
  graph.instances.push_back(std::move(instance));
  Instance& made = *graph.instances.back();
  device.check(device.vk.vkAllocateCommandBuffers(device.handle, &allocate, &made.commands),
               "making a command buffer");
  return made;
}

// An instance with the graph's present contents.
Instance& ready_instance(tolk_graph& graph) {
  auto is_current = [&](const Instance& i) {
    return i.written == graph.updates && i.recorded == graph.recordings;
  };
  if (graph.current && is_current(*graph.current)) return *graph.current;
  Instance* free = nullptr;
  for (const auto& instance : graph.instances)
    if (instance->is_idle()) free = instance.get();
  Instance& chosen = free ? *free : make_instance(graph);
  if (chosen.written != graph.updates) write_arguments(graph, chosen);
  if (chosen.recorded != graph.recordings) record(graph, chosen);
  graph.current = &chosen;
  return chosen;
}

tolk_status commit(tolk_graph* graph) {
  return guarded([&]() -> tolk_status {
    if (graph->committed) return fail(TOLK_E_INVALID, "the graph is committed");
    constexpr uint64_t kAlign = 16;
    for (Node& node : graph->nodes) {
      if (node.kind != Node::Kind::Kernel) continue;
      node.arguments = graph->argument_bytes;
      const uint64_t end = node.grid_offset() + sizeof node.grid;
      graph->argument_bytes = (end + kAlign - 1) / kAlign * kAlign;
    }
    tolk_device& device = *graph->device;
    VkCommandPoolCreateInfo create{};
    create.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
    create.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
    create.queueFamilyIndex = device.adapter.queue_family;
    device.check(device.vk.vkCreateCommandPool(device.handle, &create, nullptr, &graph->pool),
                 "making a command pool");
    ready_instance(*graph);
    graph->committed = true;
    return TOLK_OK;
  });
}

// Why a change does not fit; empty when it does.
std::string unfit(const tolk_graph& graph, const tolk_patch& patch) {
  if (patch.node >= graph.nodes.size()) return "it is of a node that does not exist";
  const Node& node = graph.nodes[patch.node];
  const bool kernel = node.kind == Node::Kind::Kernel;
  switch (patch.kind) {
  case TOLK_PATCH_BUFFER:
    if (patch.index >= node.buffers.size()) return "the node has no such buffer";
    if (!is_inside(patch.to.buffer)) return "the range is not inside its buffer";
    if (!kernel && patch.to.buffer.size != node.buffers[0].size)
      return "it changes the size of a copy or fill";
    if (!kernel && patch.to.buffer.offset % 4 != 0 && node.kind == Node::Kind::Fill)
      return "a fill begins at a word";
    return {};
  case TOLK_PATCH_VALUE:
    return patch.index < node.values.size() ? "" : "the node has no such value";
  case TOLK_PATCH_SIZES:
    if (!kernel) return "only kernels have sizes";
    return broken_limit(*graph.device, patch.to.sizes.grid, patch.to.sizes.local);
  default:
    return "its kind is unknown";
  }
}

void apply(tolk_graph& graph, const tolk_patch& patch) {
  Node& node = graph.nodes[patch.node];
  const bool kernel = node.kind == Node::Kind::Kernel;
  switch (patch.kind) {
  case TOLK_PATCH_BUFFER:
    node.buffers[patch.index] = patch.to.buffer;
    break;
  case TOLK_PATCH_VALUE:
    node.values[patch.index] = patch.to.value;
    break;
  default:
    std::copy_n(patch.to.sizes.grid, 3, node.grid);
    if (!std::equal(node.local, node.local + 3, patch.to.sizes.local)) {
      std::copy_n(patch.to.sizes.local, 3, node.local);
      ++graph.recordings;
    }
  }
  if (!kernel) ++graph.recordings;
}

tolk_status update(tolk_graph* graph, const tolk_patch* patches, uint32_t count) {
  return guarded([&]() -> tolk_status {
    if (!graph->committed) return fail(TOLK_E_INVALID, "the graph is not committed");
    for (uint32_t i = 0; i < count; ++i)
      if (std::string why = unfit(*graph, patches[i]); !why.empty())
        return fail(TOLK_E_INVALID, "change " + std::to_string(i) + " does not fit: " + why);
    for (uint32_t i = 0; i < count; ++i) apply(*graph, patches[i]);
    ++graph->updates;
    return TOLK_OK;
  });
}

// device_ns stays as it is: the host measures.
tolk_status launch(tolk_graph* graph, tolk_stream* const* streams, uint64_t*) {
  return guarded([&]() -> tolk_status {
    if (!graph->committed) return fail(TOLK_E_INVALID, "the graph is not committed");
    Instance& instance = ready_instance(*graph);
    streams[0]->submit(instance.commands);
    instance.timeline = streams[0]->timeline;
    instance.position = streams[0]->last_submitted();
    return TOLK_OK;
  });
}

void destroy(tolk_graph* graph) { delete graph; }

} // namespace

const tolk_graph_vt graph_table = [] {
  tolk_graph_vt table{};
  table.struct_size = sizeof table;
  table.create = create;
  table.add_kernel = add_kernel;
  table.add_copy = add_copy;
  table.add_fill = add_fill;
  table.commit = commit;
  table.update = update;
  table.launch = launch;
  table.destroy = destroy;
  return table;
}();

} // namespace tolk_vulkan
