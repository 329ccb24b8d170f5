// Replays a batch of calls as one device graph: recorded at the first run, afterwards only what changed is
// changed in it.
//
// The runner belongs to the binding that runs the batch, so two captures of one function never share recorded
// storage, and it holds every buffer that the graph names. Whatever happens, a run has the result of the
// calls one after the other: when a backend refuses the graph, when arguments overlap in a way that the
// recorded order does not cover, and when a launch is empty, the calls run one by one.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/device/graph.h"
#include "tolk/engine/graph/graph_call.h"

namespace tolk::engine {

// Runs that went call by call because of newly overlapping arguments, since the process started.
extern TOLK_API std::atomic<uint64_t> graph_fallbacks;

class TOLK_API GraphRunner final : public GraphCall {
public:
  // `call` is a graph call whose kernels are compiled. Records nothing yet.
  explicit GraphRunner(const UOp& call);
  ~GraphRunner() override;

  // Throws InvalidArgument for an argument of another size than recorded, and DeviceError.
  bool run(BufferBinding& binding, PreparedLinear& calls, const ExecContext& context, bool wait,
           std::optional<double>& seconds) override;
  bool node_times(std::vector<NodeTime>& times) override;

  // Names of the variables that a run must bring, sorted; those that a launch fills itself are not among
  // them.
  const std::vector<std::string>& variables() const { return variables_; }
  // The backend refused the graph: every run goes call by call.
  bool ungraphable() const { return ungraphable_; }
  // The graph, once recorded, for tests and profiles; else null.
  DeviceGraph* graph() { return graph_.get(); }

private:
  // Bytes of a storage.
  struct Range {
    uint64_t base = 0, begin = 0, end = 0;
    bool overlaps(const Range& r) const { return base == r.base && begin < r.end && r.begin < end; }
    bool operator==(const Range&) const = default;
  };
  static Range range_of(const Buffer& buffer) {
    return {buffer.base_id(), buffer.offset(), buffer.offset() + buffer.bytes()};
  }
  struct Argument {
    BufferRef buffer; // what the graph has now
    tolk_ref ref{};
    uint64_t generation = 0;
    Range recorded; // where it was when the order of the nodes was made
    bool written = false;
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
  std::vector<size_t> roots_;    // an argument for each distinct storage of the rest: is it released?
  std::vector<uint64_t> bases_;  // those storages, sorted
  Changes changes_;
  std::vector<BufferRef> resting_; // what the last update replaced, for a graph that alternates
  uint64_t epoch_ = 0;
  bool ungraphable_ = false;
  bool timed_ = false;                 // recorded for a profile: nodes are timed, which costs
  std::unique_ptr<DeviceGraph> graph_; // goes first: it waits for what still runs
};

// What runs graph calls unless install_graph_calls says otherwise.
TOLK_API std::unique_ptr<GraphCall> make_graph_runner(BufferBinding& binding, const UOp& call);

} // namespace tolk::engine
