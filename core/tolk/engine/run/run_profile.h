// Collects the events of one run of a LINEAR; internal to run_linear.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "tolk/engine/graph/graph_call.h"
#include "tolk/engine/run/prepared.h"
#include "tolk/engine/run/profile.h"

namespace tolk::engine {

class RunProfile {
public:
  RunProfile() = default;
  ~RunProfile() { record_events(std::move(events_)); } // also of a run that failed later
  RunProfile(const RunProfile&) = delete;
  RunProfile& operator=(const RunProfile&) = delete;

  // Nanoseconds of the steady clock.
  static uint64_t now() {
    auto time = std::chrono::steady_clock::now().time_since_epoch();
    return uint64_t(std::chrono::duration_cast<std::chrono::nanoseconds>(time).count());
  }

  // One launch or copy of a step.
  ProfileEvent& add(const Step& step, const Position& position, const VarVals& vars, uint64_t begin_ns,
                    uint64_t end_ns);
  // A graph and, inside its time, its launches, as the graph timed them or in equal parts.
  void add_graph(GraphCall& graph, const PreparedLinear& calls, const std::string& ambient,
                 const VarVals& vars, uint64_t begin_ns, uint64_t end_ns);

private:
  std::vector<ProfileEvent> events_;
};

} // namespace tolk::engine
