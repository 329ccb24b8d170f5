// Replays a batch of calls as one device graph: records it at the first run and afterwards patches what
// changed.
//
// A runner belongs to the binding that runs the batch, so two captures of one function share no recorded
// storage, and it holds every buffer that the graph refers to. Every run has the result of running the calls
// in order. Where a graph cannot give that, the calls run one by one: the backend refuses the graph,
// arguments overlap in a way that the recorded order does not cover, or a launch is empty.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/device/graph.h"
#include "tolk/engine/graph/graph_call.h"
#include "tolk/engine/run/storage_range.h"

namespace tolk::engine {

// Runs that took the calls one by one because arguments newly overlapped, since the process started. Any
// thread.
uint64_t graph_fallbacks();

class TOLK_API GraphRunner final : public GraphCall {
public:
  // `call` is a graph call whose kernels are compiled. Records nothing yet.
  explicit GraphRunner(const UOp& call);
  ~GraphRunner() override;

  // Throws InvalidArgument for an argument of another size than recorded, and DeviceError.
  bool run(BufferBinding& binding, PreparedLinear& calls, const ExecContext& context, bool wait,
           std::optional<double>& seconds) override;
  bool node_times(std::vector<NodeTime>& times) override;

  // Names of the variables that a run must give, sorted, without those that a launch sets itself.
  const std::vector<std::string>& variables() const { return variables_; }
  // Whether the backend refused the graph: every run takes the calls one by one.
  bool ungraphable() const { return ungraphable_; }
  // The recorded graph, else null.
  DeviceGraph* graph() { return graph_.get(); }

private:
  struct Argument {
    BufferRef buffer; // in the graph now
    tolk_ref ref{};
    uint64_t generation = 0;
    StorageUse recorded; // what the recorded order of the nodes covers
  };
  struct Node {
    size_t step, position;
    size_t first_argument, argument_count;
    Program* program; // null for a copy; the graph keeps it
    std::vector<int64_t> values;
    std::array<uint32_t, 3> grid{}, local{};
  };
  struct BufferChange {
    uint32_t node, index;
    size_t argument;
    BufferRef buffer;
  };
  struct Changes {
    std::vector<BufferChange> buffers;
    std::vector<uint32_t> launches; // nodes with other values or sizes
    bool rerecord = false;          // a kernel became another program
    void clear() { buffers.clear(), launches.clear(), rerecord = false; }
  };

  bool record(BufferBinding& binding, PreparedLinear& calls);
  bool stale(const BufferBinding& binding) const;
  bool find_changes(PreparedLinear& calls, bool all);
  bool newly_overlaps() const;
  void apply_changes(PreparedLinear& calls);
  void note_storages();
  void forget();
  bool fall_back(); // false

  std::vector<std::string> variables_;
  std::vector<Node> nodes_; // by number in the graph
  std::vector<Argument> arguments_;
  std::vector<size_t> changing_; // nodes whose storage or sizes depend on the run
  std::vector<size_t> moving_;   // their arguments
  // Of the other arguments: the distinct storages, sorted, and one argument of each, to see whether it was
  // released.
  std::vector<uint64_t> bases_;
  std::vector<size_t> roots_;
  Changes changes_;
  std::vector<BufferRef>
      retained_; // what the last update replaced: the other instance of a double-buffered graph
  uint64_t epoch_ = 0;
  bool ungraphable_ = false;
  bool timed_ = false;                 // recorded with timed nodes, for a profile
  std::unique_ptr<DeviceGraph> graph_; // destroyed first: it waits for running work
};

} // namespace tolk::engine
