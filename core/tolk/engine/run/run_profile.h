// The profile events of one run of a LINEAR; internal to run_linear.
#pragma once

#include <optional>
#include <vector>

#include "tolk/engine/graph/graph_call.h"
#include "tolk/engine/run/prepared.h"
#include "tolk/engine/run/profile.h"

namespace tolk::engine {

class RunProfile {
public:
  RunProfile() = default;
  ~RunProfile() { record_events(std::move(events_)); } // including those of a failed run
  RunProfile(const RunProfile&) = delete;
  RunProfile& operator=(const RunProfile&) = delete;

  // One launch or copy of a step.
  ProfileEvent& add(const Step& step, const Position& position, const VarVals& vars, uint64_t begin_ns,
                    uint64_t end_ns);
  // A graph and its launches, with the times that the graph measured, else in equal parts of its time.
  void add_graph(GraphCall& graph, const PreparedLinear& calls, const std::string& ambient,
                 const VarVals& vars, uint64_t begin_ns, uint64_t end_ns);

private:
  std::vector<ProfileEvent> events_;
};

} // namespace tolk::engine
