#include "tolk/engine/run/run_profile.h"

#include <algorithm>

namespace tolk::engine {

ProfileEvent& RunProfile::add(const Step& step, const Position& p, const VarVals& vars, uint64_t begin_ns,
                              uint64_t end_ns) {
  ProfileEvent e;
  e.device = p.device->name();
  e.begin_ns = begin_ns;
  e.end_ns = std::max(begin_ns, end_ns);
  auto use = [&](const Buffer& b) { e.buffers.push_back({b.base_id(), b.offset(), b.bytes()}); };
  if (step.kind == Step::Kind::Kernel) {
    e.name = step.entry->info.name;
    for (const Buffer* b : p.ordered) use(*b);
    for (const VarInfo& v : step.entry->info.vars)
      if (auto it = vars.find(v.name); it != vars.end()) e.var_vals.insert(*it);
  } else {
    e.kind = ProfileEvent::Kind::Copy;
    const Buffer &to = *p.arguments[0], &from = *p.arguments[1];
    e.name = p.copy->display_name;
    use(to), use(from);
  }
  return events_.emplace_back(std::move(e));
}

void RunProfile::add_graph(GraphCall& graph, const PreparedLinear& calls, const std::string& ambient,
                           const VarVals& vars, uint64_t begin_ns, uint64_t end_ns) {
  const std::vector<Step>& steps = calls.steps();
  size_t launches = 0;
  const Position* first = nullptr;
  for (const Step& step : steps) {
    launches += step.positions.size();
    if (!first && !step.positions.empty()) first = &step.positions[0];
  }
  ProfileEvent e;
  e.kind = ProfileEvent::Kind::Graph;
  e.device = first ? first->device->name() : ambient;
  e.name = "batched " + std::to_string(steps.size());
  e.begin_ns = begin_ns, e.end_ns = end_ns;
  events_.push_back(std::move(e));

  std::vector<GraphCall::NodeTime> times;
  const bool known = graph.node_times(times) && times.size() == launches;
  size_t n = 0;
  for (size_t s = 0; s < steps.size(); ++s)
    for (size_t j = 0; j < steps[s].positions.size(); ++j, ++n) {
      uint64_t begin = begin_ns + (end_ns - begin_ns) * n / launches,
               end = begin_ns + (end_ns - begin_ns) * (n + 1) / launches;
      if (known) {
        begin = std::clamp(times[n].begin_ns, begin_ns, end_ns);
        end = std::clamp(times[n].end_ns, begin, end_ns);
      }
      ProfileEvent& node = add(steps[s], steps[s].positions[j], vars, begin, end);
      node.in_graph = true, node.estimated = !known;
    }
}

} // namespace tolk::engine
