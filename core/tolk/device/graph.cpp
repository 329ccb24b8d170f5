#include "tolk/device/graph.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <random>
#include <set>
#include <tuple>
#include <utility>

#include <tolk/plugin/helpers.h>

#include "tolk/base/clock.h"
#include "tolk/base/error.h"
#include "tolk/base/test_switches.h"
#include "tolk/device/host_graph.h"
#include "tolk/device/stream.h"
#include "tolk/loader/plugin_loader.h"
#include "tolk/loader/status.h"

namespace tolk {
namespace {

// Graphs that live, so that closing a device can take from them what its plugin owns.
struct Live {
  std::mutex mutex;
  std::vector<DeviceGraph*> graphs;
};
Live& live() {
  static auto* all = new Live; // leaked: graphs may outlive static destructors
  return *all;
}

// The generator of TOLK_TEST_SHUFFLE, null when that is off. Each use of a process continues one sequence.
std::mt19937_64* shuffler() {
  uint64_t seed = test_switches().shuffle.load(std::memory_order_relaxed);
  if (seed == 0) return nullptr;
  static std::mt19937_64 generator(seed);
  return &generator;
}

[[noreturn]] void zero_size(const std::string& kernel) {
  throw InvalidArgument("kernel " + kernel +
                        " in a graph: a launch size is 0, and a recorded node always "
                        "runs; leave it out or launch it by itself");
}

bool has_zero(const std::array<uint32_t, 3>& sizes) {
  return sizes[0] == 0 || sizes[1] == 0 || sizes[2] == 0;
}

std::array<uint32_t, 3> at_least_one(std::array<uint32_t, 3> local) {
  for (uint32_t& n : local) n = n ? n : 1;
  return local;
}

tolk_launch c_launch(const std::vector<tolk_ref>& buffers, const std::vector<uint64_t>& values,
                     const std::array<uint32_t, 3>& grid, const std::array<uint32_t, 3>& local) {
  tolk_launch launch{};
  launch.struct_size = sizeof launch;
  launch.flags = TOLK_LAUNCH_CHECKED;
  for (size_t i = 0; i < 3; i++) launch.grid[i] = grid[i], launch.local[i] = local[i];
  launch.buffer_count = static_cast<uint32_t>(buffers.size());
  launch.value_count = static_cast<uint32_t>(values.size());
  launch.buffers = buffers.data();
  launch.values = values.data();
  return launch;
}

GraphTable graph_table(const Device& device, DeviceGraph::Kind kind) {
  const bool has_graphs = device.plugin().has_graph && (device.caps().graph & TOLK_GRAPH_KERNELS);
  if (kind == DeviceGraph::Kind::Plugin && !has_graphs)
    throw GraphError("device " + device.name() + ": its plugin has no graphs");
  return has_graphs && kind != DeviceGraph::Kind::Host ? plugin_graph_table(device)
                                                       : host_graph_table(device);
}

} // namespace

GraphAbility graph_ability(const Device& device) {
  return graph_table(device, DeviceGraph::Kind::Best).ability;
}

DeviceGraph::DeviceGraph(std::vector<Device*> devices, Kind kind, bool timed)
    : devices_(std::move(devices)),
      plugin_(devices_.empty() ? throw InvalidArgument("a graph needs at least one device")
                               : devices_[0]->plugin()),
      table_(std::make_unique<GraphTable>(graph_table(*devices_[0], kind))), timed_(timed) {
  for (Device* device : devices_) {
    device->require_usable();
    if (&device->plugin() != &plugin_)
      throw GraphError("one graph cannot hold work of " + devices_[0]->name() + " and of " + device->name() +
                       ": they belong to different plugins");
    if (std::count(devices_.begin(), devices_.end(), device) != 1)
      throw InvalidArgument("device " + device->name() + " is named twice for one graph");
    streams_.push_back(device->stream());
  }
  if (devices_.size() > 1 && !table_->ability.several_devices)
    throw GraphError("device " + devices_[0]->name() + ": its plugin's graphs hold work of one device only");
  std::lock_guard lock(live().mutex);
  live().graphs.push_back(this);
}

DeviceGraph::~DeviceGraph() {
  {
    std::lock_guard lock(live().mutex);
    std::erase(live().graphs, this);
  }
  drop();
}

void DeviceGraph::drop() {
  if (dropped_) return;
  dropped_ = true;
  bool alive = std::all_of(devices_.begin(), devices_.end(), [](Device* d) { return d->alive(); });
  if (!alive || (!instances_[0].graph && !instances_[1].graph)) return;
  SubmitLock locks(devices_);
  auto serial = plugin_.serialize();
  wait_all(); // errors of work in flight stay with their streams
  for (Instance& instance : instances_)
    if (instance.graph) table_->entries->destroy(std::exchange(instance.graph, nullptr));
}

void DeviceGraph::drop_all_of(const Device& device) {
  std::lock_guard lock(live().mutex);
  for (DeviceGraph* graph : live().graphs)
    if (std::find(graph->devices_.begin(), graph->devices_.end(), &device) != graph->devices_.end())
      graph->drop();
}

void DeviceGraph::refuse(tolk_status status, std::string_view doing) {
  if (status == TOLK_E_DEVICE_LOST) devices_[0]->check(status, doing);
  throw GraphError(devices_[0]->name() + ": " + std::string(doing) + ": " + take_error_text(status) + " (" +
                   status_name(status) + ")");
}

tolk_ref DeviceGraph::ref_of(Buffer& buffer) const {
  const tolk_ref ref = buffer.ref();
  return {table_->buffer(buffer.storage()), ref.offset, ref.size};
}

uint32_t DeviceGraph::position_of(const Device& device) const {
  for (size_t i = 0; i < devices_.size(); i++)
    if (devices_[i] == &device) return static_cast<uint32_t>(i);
  throw InvalidArgument("a graph of " + devices_[0]->name() + (devices_.size() > 1 ? " and others" : "") +
                        " cannot hold work of " + device.name() + ", which it was not made for");
}

// Counts who reads and writes each storage, so that a launch can be ordered as a whole.
void DeviceGraph::touch(const Node& node, uint32_t index, Storage* storage, int by) {
  const bool written = node.kind == NodeKind::Kernel
                           ? (node.program->params()[index].access & TOLK_ACCESS_WRITE) != 0
                           : index == 0;
  auto [it, fresh] = touched_.try_emplace(storage);
  (written ? it->second.writes : it->second.reads) += by;
  if (it->second.reads == 0 && it->second.writes == 0) touched_.erase(it);
  uses_known_ = false;
}

// By device: what the whole graph does with storage there.
void DeviceGraph::collect_uses() {
  if (uses_known_) return;
  uses_.assign(devices_.size(), {});
  for (const auto& [storage, counts] : touched_)
    uses_[position_of(storage->device)].push_back({storage, counts.writes > 0});
  uses_known_ = true;
}

uint32_t DeviceGraph::add(Node node, std::span<const uint32_t> after) {
  if (committed_) throw InvalidArgument("a graph takes no more nodes after commit");
  const GraphAbility& ability = table_->ability;
  if (ability.nodes_max && nodes_.size() >= ability.nodes_max)
    throw GraphError("device " + devices_[0]->name() + ": its graphs hold at most " +
                     std::to_string(ability.nodes_max) + " nodes");
  for (const tolk_ref& ref : node.buffers)
    if (ability.offset_max && ref.offset > ability.offset_max)
      throw GraphError("device " + devices_[0]->name() + ": an argument at byte " +
                       std::to_string(ref.offset) + " lies beyond the largest offset " +
                       std::to_string(ability.offset_max));
  auto number = static_cast<uint32_t>(nodes_.size());
  for (uint32_t earlier : after)
    if (earlier >= number)
      throw InvalidArgument("graph node " + std::to_string(number) + " cannot wait for node " +
                            std::to_string(earlier) + ", which comes later");
  node.after.assign(after.begin(), after.end());
  for (uint32_t i = 0; i < node.storages.size(); i++) touch(node, i, node.storages[i], 1);
  nodes_.push_back(std::move(node));
  return number;
}

uint32_t DeviceGraph::add_kernel(const ProgramRef& program, std::span<Buffer* const> buffers,
                                 std::span<const int64_t> values, std::array<uint32_t, 3> grid,
                                 std::array<uint32_t, 3> local, std::span<const uint32_t> after) {
  Node node;
  node.kind = NodeKind::Kernel;
  node.device = position_of(program->device());
  program->check_counts(buffers.size(), values.size());
  if (has_zero(grid)) zero_size(program->name());
  for (size_t i = 0; i < buffers.size(); i++) {
    program->check_buffer(i, *buffers[i]);
    node.buffers.push_back(ref_of(*buffers[i]));
    node.storages.push_back(&buffers[i]->storage());
  }
  for (size_t i = 0; i < values.size(); i++) {
    program->check_value(i, values[i]);
    node.values.push_back(static_cast<uint64_t>(values[i]));
  }
  node.program = program;
  node.grid = grid;
  node.local = at_least_one(local);
  return add(std::move(node), after);
}

uint32_t DeviceGraph::add_copy(Buffer& dst, Buffer& src, std::span<const uint32_t> after) {
  if (!table_->ability.copies)
    throw GraphError("device " + devices_[0]->name() + ": its plugin's graphs hold no copies");
  Node node;
  node.kind = NodeKind::Copy;
  node.device = position_of(dst.device());
  position_of(src.device());
  if (dst.bytes() != src.bytes())
    throw InvalidArgument("copy in a graph: size mismatch: " + std::to_string(src.bytes()) + " bytes into " +
                          std::to_string(dst.bytes()));
  if (!dst.writable())
    throw InvalidArgument("the destination is imported read-only memory and cannot be written");
  node.buffers = {ref_of(dst), ref_of(src)};
  node.storages = {&dst.storage(), &src.storage()};
  if (tolk_overlap(node.buffers[0], node.buffers[1]))
    throw GraphError("a copy whose two ranges overlap cannot be in a graph");
  return add(std::move(node), after);
}

uint32_t DeviceGraph::add_fill(Buffer& dst, uint64_t pattern, uint32_t pattern_bytes,
                               std::span<const uint32_t> after) {
  if (!table_->ability.fills)
    throw GraphError("device " + devices_[0]->name() + ": its plugin's graphs hold no fills");
  bool known = pattern_bytes == 1 || pattern_bytes == 2 || pattern_bytes == 4 || pattern_bytes == 8;
  if (!known || dst.bytes() % pattern_bytes || dst.offset() % pattern_bytes)
    throw InvalidArgument("fill in a graph: " + std::to_string(dst.bytes()) + " bytes at offset " +
                          std::to_string(dst.offset()) + " cannot be filled with a pattern of " +
                          std::to_string(pattern_bytes) + " bytes; it has 1, 2, 4 or 8 and divides both");
  if (!dst.writable()) throw InvalidArgument("the buffer is imported read-only memory and cannot be written");
  Node node;
  node.kind = NodeKind::Fill;
  node.device = position_of(dst.device());
  node.buffers = {ref_of(dst)};
  node.storages = {&dst.storage()};
  node.pattern = pattern;
  node.pattern_bytes = pattern_bytes;
  return add(std::move(node), after);
}

// Node numbers in an order in which they may run: as recorded, or with TOLK_TEST_SHUFFLE at random.
std::vector<uint32_t> DeviceGraph::order() {
  std::vector<uint32_t> out(nodes_.size());
  for (size_t i = 0; i < out.size(); i++) out[i] = static_cast<uint32_t>(i);
  std::mt19937_64* random = shuffler();
  if (!random) return out;
  std::vector<std::vector<uint32_t>> users(nodes_.size());
  std::vector<size_t> waiting(nodes_.size());
  std::vector<uint32_t> ready;
  for (size_t i = 0; i < nodes_.size(); i++) {
    waiting[i] = nodes_[i].after.size();
    if (waiting[i] == 0) ready.push_back(static_cast<uint32_t>(i));
    for (uint32_t earlier : nodes_[i].after) users[earlier].push_back(static_cast<uint32_t>(i));
  }
  for (uint32_t& place : out) {
    std::swap(ready[(*random)() % ready.size()], ready.back());
    place = ready.back();
    ready.pop_back();
    for (uint32_t user : users[place])
      if (--waiting[user] == 0) ready.push_back(user);
  }
  return out;
}

void DeviceGraph::commit() {
  if (committed_) throw InvalidArgument("a graph is committed once");
  instances_[0].graph = build();
  // Without update there is nothing to wait in: each change makes a new graph anyway.
  alternates_ = (table_->update_flags & TOLK_GRAPH_UPDATE_MAY_BLOCK) && streams_[0];
  committed_ = true;
}

tolk_graph* DeviceGraph::build() {
  for (Device* device : devices_) device->require_usable();
  std::vector<tolk_device*> handles;
  for (Device* device : devices_) handles.push_back(table_->device(*device));
  if (recorded_as_.size() != nodes_.size()) { // a second instance numbers its nodes alike
    std::vector<uint32_t> sequence = order();
    recorded_as_.resize(nodes_.size());
    for (size_t i = 0; i < sequence.size(); i++) recorded_as_[sequence[i]] = static_cast<uint32_t>(i);
  }
  std::vector<uint32_t> sequence(nodes_.size()), after;
  for (size_t i = 0; i < sequence.size(); i++) sequence[recorded_as_[i]] = static_cast<uint32_t>(i);
  auto serial = plugin_.serialize();
  tolk_graph* graph = nullptr;
  uint32_t flags = TOLK_GRAPH_UPDATABLE | (timed_ ? uint32_t{TOLK_GRAPH_TIMED} : 0u);
  tolk_status status =
      table_->entries->create(handles.data(), static_cast<uint32_t>(handles.size()), flags, &graph);
  if (status < 0) refuse(status, "making a graph");
  if (!graph) throw GraphError(devices_[0]->name() + ": making a graph succeeded but gave none");
  try {
    for (uint32_t i : sequence) record_node(graph, nodes_[i], after);
    status = table_->entries->commit(graph);
    if (status < 0) refuse(status, "committing a graph of " + std::to_string(nodes_.size()) + " nodes");
  } catch (...) {
    table_->entries->destroy(graph);
    throw;
  }
  return graph;
}

void DeviceGraph::record_node(tolk_graph* graph, const Node& node, std::vector<uint32_t>& after) {
  after.clear();
  for (uint32_t earlier : node.after) after.push_back(recorded_as_[earlier]);
  auto count = static_cast<uint32_t>(after.size());
  tolk_status status;
  switch (node.kind) {
  case NodeKind::Kernel: {
    tolk_launch launch = c_launch(node.buffers, node.values, node.grid, node.local);
    status =
        table_->entries->add_kernel(graph, node.device, node.program->kernel(), &launch, after.data(), count);
    if (status < 0) refuse(status, "adding kernel " + node.program->name() + " to a graph");
    break;
  }
  case NodeKind::Copy:
    status =
        table_->entries->add_copy(graph, node.device, node.buffers[0], node.buffers[1], after.data(), count);
    if (status < 0) refuse(status, "adding a copy to a graph");
    break;
  case NodeKind::Fill:
    status = table_->entries->add_fill(graph, node.device, node.buffers[0], node.pattern, node.pattern_bytes,
                                       after.data(), count);
    if (status < 0) refuse(status, "adding a fill to a graph");
    break;
  }
}

DeviceGraph::Node& DeviceGraph::committed_node(uint32_t node) {
  if (committed_ && node < nodes_.size()) return nodes_[node];
  discard();
  if (!committed_) throw InvalidArgument("a graph is changed after commit; until then add what is meant");
  throw InvalidArgument("a graph of " + std::to_string(nodes_.size()) + " nodes has no node " +
                        std::to_string(node));
}

void DeviceGraph::set_buffer(uint32_t node, uint32_t index, Buffer& buffer) {
  Node& n = committed_node(node);
  try {
    if (index >= n.buffers.size())
      throw InvalidArgument("graph node " + std::to_string(node) + " has " +
                            std::to_string(n.buffers.size()) + " buffers, none is number " +
                            std::to_string(index));
    if (n.kind == NodeKind::Kernel) {
      n.program->check_buffer(index, buffer);
    } else {
      position_of(buffer.device());
      if (index == 0 && &buffer.device() != devices_[n.device])
        throw InvalidArgument("the destination of graph node " + std::to_string(node) + " is on " +
                              buffer.device().name() + ", the node runs on " + devices_[n.device]->name());
      if (buffer.bytes() != n.buffers[index].size)
        throw InvalidArgument("graph node " + std::to_string(node) + ": size mismatch: recorded with " +
                              std::to_string(n.buffers[index].size) + " bytes, got " +
                              std::to_string(buffer.bytes()));
      if (index == 0 && !buffer.writable())
        throw InvalidArgument("the destination is imported read-only memory and cannot be written");
    }
    tolk_patch patch{};
    patch.node = node, patch.kind = TOLK_PATCH_BUFFER, patch.index = index;
    patch.to.buffer = ref_of(buffer);
    changes_.push_back(patch);
    changed_storages_.push_back(&buffer.storage());
  } catch (...) {
    discard();
    throw;
  }
}

void DeviceGraph::set_value(uint32_t node, uint32_t index, int64_t value) {
  Node& n = committed_node(node);
  try {
    if (index >= n.values.size())
      throw InvalidArgument("graph node " + std::to_string(node) + " has " + std::to_string(n.values.size()) +
                            " values, none is number " + std::to_string(index));
    n.program->check_value(index, value);
  } catch (...) {
    discard();
    throw;
  }
  tolk_patch patch{};
  patch.node = node, patch.kind = TOLK_PATCH_VALUE, patch.index = index;
  patch.to.value = static_cast<uint64_t>(value);
  changes_.push_back(patch);
}

void DeviceGraph::set_sizes(uint32_t node, std::array<uint32_t, 3> grid, std::array<uint32_t, 3> local) {
  Node& n = committed_node(node);
  if (n.kind != NodeKind::Kernel || has_zero(grid)) {
    discard();
    if (n.kind == NodeKind::Kernel) zero_size(n.program->name());
    throw InvalidArgument("graph node " + std::to_string(node) + " is no kernel and has no launch sizes");
  }
  tolk_patch patch{};
  patch.node = node, patch.kind = TOLK_PATCH_SIZES;
  local = at_least_one(local);
  for (size_t i = 0; i < 3; i++) patch.to.sizes.grid[i] = grid[i], patch.to.sizes.local[i] = local[i];
  changes_.push_back(patch);
}

void DeviceGraph::apply_changes() {
  size_t next_storage = 0;
  for (const tolk_patch& patch : changes_) {
    Node& n = nodes_[patch.node];
    if (patch.kind == TOLK_PATCH_BUFFER) {
      n.buffers[patch.index] = patch.to.buffer;
      touch(n, patch.index, n.storages[patch.index], -1);
      n.storages[patch.index] = changed_storages_[next_storage++];
      touch(n, patch.index, n.storages[patch.index], 1);
    } else if (patch.kind == TOLK_PATCH_VALUE) {
      n.values[patch.index] = patch.to.value;
    } else {
      for (size_t i = 0; i < 3; i++) n.grid[i] = patch.to.sizes.grid[i], n.local[i] = patch.to.sizes.local[i];
    }
  }
}

// What the other instance got at its last change and this one did not. A later change of the same argument takes its place:
// the storage that the earlier one named may be gone.
std::vector<tolk_patch> DeviceGraph::still_missing(const std::vector<tolk_patch>& missing) const {
  auto key = [](uint32_t node, const tolk_patch& p) { return std::tuple(node, p.kind, p.index); };
  std::set<std::tuple<uint32_t, uint32_t, uint32_t>> replaced;
  if (!missing.empty())
    for (const tolk_patch& p : changes_) replaced.insert(key(recorded_as_[p.node], p));
  std::vector<tolk_patch> still;
  for (const tolk_patch& p : missing)
    if (!replaced.contains(key(p.node, p))) still.push_back(p);
  return still;
}

void DeviceGraph::update() {
  if (changes_.empty()) return;
  for (const tolk_patch& patch : changes_)
    if (nodes_[patch.node].kind == NodeKind::Copy) {
      std::vector<tolk_ref> refs = nodes_[patch.node].buffers;
      for (const tolk_patch& p : changes_)
        if (p.node == patch.node) refs[p.index] = p.to.buffer;
      if (tolk_overlap(refs[0], refs[1])) {
        discard();
        throw GraphError("a copy whose two ranges overlap cannot be in a graph");
      }
    }
  if (dropped_) {
    apply_changes();
    discard();
    return;
  }
  SubmitLock locks(devices_);
  auto serial = plugin_.serialize();
  size_t next = alternates_ ? 1 - active_ : active_;
  Instance& instance = instances_[next];
  std::vector<tolk_patch> patches = still_missing(instance.missing); // usually empty
  for (tolk_patch patch : changes_) {
    patch.node = recorded_as_[patch.node];
    patches.push_back(patch);
  }
  tolk_status status = TOLK_E_UNSUPPORTED;
  const uint32_t offered = table_->update_flags;
  const bool updates = std::all_of(patches.begin(), patches.end(), [&](const tolk_patch& p) {
    return offered & (p.kind == TOLK_PATCH_BUFFER  ? TOLK_GRAPH_UPDATE_BUFFERS
                      : p.kind == TOLK_PATCH_VALUE ? TOLK_GRAPH_UPDATE_VALUES
                                                   : TOLK_GRAPH_UPDATE_SIZES);
  });
  if (instance.graph && updates)
    status = table_->entries->update(instance.graph, patches.data(), static_cast<uint32_t>(patches.size()));
  if (status == TOLK_E_UNSUPPORTED) {
    if (instance.graph) take_error_text(status);
    std::vector<Node> before = nodes_;
    auto touched_before = touched_;
    apply_changes();
    try {
      tolk_graph* fresh = build();
      if (instance.graph) {
        wait_all();
        table_->entries->destroy(instance.graph);
      }
      instance.graph = fresh;
    } catch (...) {
      nodes_ = std::move(before);
      touched_ = std::move(touched_before);
      uses_known_ = false;
      discard();
      throw;
    }
  } else if (status < 0) {
    discard();
    refuse(status, "changing a graph");
  } else {
    apply_changes();
  }
  if (alternates_) {
    instance.missing.clear();
    std::vector<tolk_patch>& other = instances_[1 - next].missing;
    for (tolk_patch patch : changes_) {
      patch.node = recorded_as_[patch.node];
      other.push_back(patch);
    }
    active_ = next;
  }
  discard();
}

// What fails meanwhile stays with its stream.
void DeviceGraph::wait_all() {
  for (Device* device : devices_) device->compute().settle();
}

void DeviceGraph::launch(uint64_t* device_ns) {
  if (!committed_) throw InvalidArgument("a graph is launched after commit");
  for (Device* device : devices_) device->require_usable();
  if (dropped_) throw DeviceError("device " + devices_[0]->name() + " was shut down");
  collect_uses();
  SubmitLock locks(devices_);
  for (size_t i = 0; i < devices_.size(); i++) devices_[i]->compute().before(uses_[i]);
  auto serial = plugin_.serialize();
  constexpr uint64_t kUnmeasured = UINT64_MAX;
  uint64_t begin = 0;
  if (device_ns) *device_ns = kUnmeasured, begin = now_ns();
  tolk_status status = table_->entries->launch(instances_[active_].graph, streams_.data(), device_ns);
  if (status < 0)
    devices_[0]->compute().check(status, "launch of a graph of " + std::to_string(size()) + " nodes");
  for (size_t i = 0; i < devices_.size(); i++) devices_[i]->compute().after(uses_[i]);
  if (!device_ns) return;
  wait_all();
  uint64_t elapsed = now_ns() - begin;
  if (*device_ns == kUnmeasured) *device_ns = elapsed;
  for (Device* device : devices_) device->compute().require_sound();
}

bool DeviceGraph::node_times(std::vector<uint64_t>& begin_ns, std::vector<uint64_t>& end_ns) {
  if (!timed_ || dropped_ || !committed_) return false;
  std::vector<uint64_t> begin(nodes_.size()), end(nodes_.size());
  uint64_t device_now = 0, host_now = 0;
  tolk_status status;
  {
    auto serial = plugin_.serialize();
    status = table_->entries->node_times(instances_[active_].graph, begin.data(), end.data());
    if (status >= 0) status = plugin_.device.clock(devices_[0]->handle(), &device_now, &host_now);
  }
  if (status == TOLK_E_UNSUPPORTED) {
    take_error_text(status);
    return false;
  }
  devices_[0]->check(status, "node times of a graph");
  begin_ns.resize(nodes_.size()), end_ns.resize(nodes_.size());
  for (size_t i = 0; i < nodes_.size(); i++)
    begin_ns[i] = begin[recorded_as_[i]] - device_now + host_now,
    end_ns[i] = end[recorded_as_[i]] - device_now + host_now;
  return true;
}

} // namespace tolk
