// Kernels, copies and fills that are recorded once and launched as one.
//
//   DeviceGraph graph({&cpu});
//   uint32_t a = graph.add_kernel(program, buffers, values, {8, 1, 1}, {1, 1, 1}, {});
//   graph.add_copy(*target, *source, {{a}});             // after node a
//   graph.commit();
//   graph.launch();
//   graph.set_buffer(a, 0, *other), graph.update();      // later launches use `other`
//
// What a node waits for is all the order there is inside. The whole is ordered after everything submitted to
// its devices before and before everything submitted later. A plugin without a graph table gets the host's (host_graph.h),
// which submits the nodes one by one.
//
// One thread at a time. Buffers are borrowed: they must live until they are replaced or the graph goes; where
// the graph alternates(), until the next update after they were replaced.
// Programs are kept. TOLK_TEST_SHUFFLE=N records the nodes in a random order that their dependencies allow.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include <tolk/plugin/tolk_plugin.h>

#include "tolk/base/api.h"
#include "tolk/device/buffer.h"
#include "tolk/device/program.h"
#include "tolk/device/storage.h"

namespace tolk {

// What a graph on a device may hold.
struct GraphAbility {
  bool native = false; // the plugin's own graphs; else the host's
  bool copies = false, fills = false;
  bool several_devices = false; // nodes of different devices of one plugin
  uint32_t nodes_max = 0;       // 0: no limit
  uint64_t offset_max = 0;      // largest offset of an argument in its buffer, 0: no limit
};
TOLK_API GraphAbility graph_ability(const Device& device);

struct GraphTable; // host_graph.h

class TOLK_API DeviceGraph {
public:
  enum class Kind : uint8_t {
    Best,   // the plugin's, else the host's
    Plugin, // GraphError when the plugin has none
    Host,
  };
  // `devices` are of one plugin, each once. `timed` asks for node_times. Throws GraphError when they differ
  // or the plugin refuses.
  explicit DeviceGraph(std::vector<Device*> devices, Kind kind = Kind::Best, bool timed = false);
  ~DeviceGraph(); // waits for launches that still run
  DeviceGraph(const DeviceGraph&) = delete;
  DeviceGraph& operator=(const DeviceGraph&) = delete;

  // Each gives the node's number, 0, 1, 2 ...; `after` are numbers of earlier nodes. Allocates buffers. Throw
  // InvalidArgument for arguments that Program::launch or copy_buffer would refuse, for a size of 0 along an
  // axis, and for a device that is not of the graph.
  uint32_t add_kernel(const ProgramRef& program, std::span<Buffer* const> buffers,
                      std::span<const int64_t> values, std::array<uint32_t, 3> grid,
                      std::array<uint32_t, 3> local, std::span<const uint32_t> after);
  uint32_t add_copy(Buffer& dst, Buffer& src, std::span<const uint32_t> after);
  uint32_t add_fill(Buffer& dst, uint64_t pattern, uint32_t pattern_bytes, std::span<const uint32_t> after);
  // Ends recording. Throws GraphError when the plugin refuses a node or the whole.
  void commit();

  // Collect changes of committed nodes; `update` makes all of them effective for later launches, running ones
  // do not see them. A copy has its destination at index 0 and its source at 1, a fill its destination at 0.
  // The setters throw as the add functions do and then nothing is collected any more. A plugin that cannot
  // change a committed graph gets a new one.
  void set_buffer(uint32_t node, uint32_t index, Buffer& buffer);
  void set_value(uint32_t node, uint32_t index, int64_t value);
  void set_sizes(uint32_t node, std::array<uint32_t, 3> grid, std::array<uint32_t, 3> local);
  void update();
  void discard() {
    changes_.clear();
    changed_storages_.clear();
  }

  // Submits everything. With `device_ns` the call waits and stores how long it took. Throws DeviceError.
  void launch(uint64_t* device_ns = nullptr);
  // Begin and end of every node in the last launch that was waited for, on the host's steady clock; false
  // when the plugin does not know, or has no clock to compare with.
  bool node_times(std::vector<uint64_t>& begin_ns, std::vector<uint64_t>& end_ns);

  size_t size() const { return nodes_.size(); }
  // Double-buffered: updates go to two graphs of the plugin in turn, since they would wait for running launches. The inactive
  // one still has the buffers from before the last update.
  bool alternates() const { return alternates_; }
  std::span<Device* const> devices() const { return devices_; }

  // For Device::close: destroys what plugins hold for graphs on this device; they refuse later launches.
  static void drop_all_of(const Device& device);

private:
  enum class NodeKind : uint8_t { Kernel, Copy, Fill };
  struct Node {
    NodeKind kind = NodeKind::Kernel;
    uint32_t device = 0; // position
    ProgramRef program;
    std::vector<tolk_ref> buffers;  // with the handles of table_
    std::vector<Storage*> storages; // by buffer
    std::vector<uint64_t> values;
    std::array<uint32_t, 3> grid{1, 1, 1}, local{1, 1, 1};
    uint64_t pattern = 0;
    uint32_t pattern_bytes = 0;
    std::vector<uint32_t> after;
  };
  tolk_ref ref_of(Buffer& buffer) const;
  void touch(const Node& node, uint32_t index, Storage* storage, int by);
  void collect_uses();
  uint32_t add(Node node, std::span<const uint32_t> after);
  uint32_t position_of(const Device& device) const;
  Node& committed_node(uint32_t node);
  std::vector<uint32_t> order();
  void apply_changes();
  std::vector<tolk_patch> still_missing(const std::vector<tolk_patch>& missing) const;
  tolk_graph* build(); // a graph of nodes_ as they are
  void record_node(tolk_graph* graph, const Node& node, std::vector<uint32_t>& after);
  void wait_all();
  void drop();
  [[noreturn]] void refuse(tolk_status status, std::string_view doing);

  struct Instance {
    tolk_graph* graph = nullptr;
    std::vector<tolk_patch> missing; // changes that it has not got yet
  };
  std::vector<Device*> devices_;
  std::vector<tolk_stream*> streams_;
  Plugin& plugin_;
  std::unique_ptr<const GraphTable> table_;
  bool timed_, committed_ = false, dropped_ = false, alternates_ = false;
  std::vector<Node> nodes_;
  std::vector<uint32_t> recorded_as_; // by node: its number in the recorded graph
  // Two when an update would wait for running launches: they take turns.
  std::array<Instance, 2> instances_;
  size_t active_ = 0;
  std::vector<tolk_patch> changes_;
  std::vector<Storage*> changed_storages_; // of the buffer patches among them, in order
  struct Touched {
    int reads = 0, writes = 0; // arguments
  };
  std::unordered_map<Storage*, Touched> touched_;
  std::vector<std::vector<Use>> uses_; // by device
  bool uses_known_ = false;
};

} // namespace tolk
