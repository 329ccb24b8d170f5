#include "tolk/engine/graph/graph_runner.h"

#include <algorithm>
#include <atomic>

#include "tolk/base/error.h"
#include "tolk/base/log.h"
#include "tolk/engine/graph/deps_tracker.h"
#include "tolk/engine/run/prepared.h"
#include "tolk/engine/run/profile.h"
#include "tolk/uop/build.h"
#include "tolk/uop/traverse.h"

namespace tolk::engine {

namespace {

std::atomic<uint64_t> fallbacks{0};

bool is_empty(const Step& step, const Position& p) {
  return step.kind == Step::Kind::Kernel && (p.grid[0] == 0 || p.grid[1] == 0 || p.grid[2] == 0);
}

// The buffers of a node in the graph's order: the program's, or destination and source.
size_t buffer_count(const Step& step, const Position& p) {
  return step.kind == Step::Kind::Copy ? p.arguments.size() : p.ordered.size();
}
Buffer* buffer_at(const Step& step, const Position& p, size_t i) {
  return step.kind == Step::Kind::Copy ? p.arguments[i].get() : p.ordered[i];
}
BufferRef reference_to(const Position& p, const Buffer* buffer) {
  for (const BufferRef& argument : p.arguments)
    if (argument.get() == buffer) return argument;
  throw InternalError("a launch names a buffer that its call does not have");
}

// Whether the call writes the buffer: through this argument, or through another that is the same buffer.
bool is_written(const Step& step, const Position& p, const Buffer* buffer) {
  if (step.kind == Step::Kind::Copy) return p.arguments[0].get() == buffer;
  for (int out : step.entry->info.outs)
    if (p.arguments[size_t(out)].get() == buffer) return true;
  return false;
}

void add_names(const UOp& size, std::vector<std::string>& names) {
  if (!size) return;
  for (const UOp& u : toposort(size))
    if (u.is(Op::VAR)) names.push_back(var_name(u));
}

} // namespace

uint64_t graph_fallbacks() { return fallbacks.load(std::memory_order_relaxed); }

GraphRunner::GraphRunner(const UOp& call) {
  for (const UOp& inner : graph_linear(call).src()) {
    if (!inner.is(Op::CALL) || !inner.src(0).is(Op::PROGRAM)) continue;
    const ProgramEntry& entry = program_entry(inner.src(0));
    for (const VarInfo& var : entry.info.vars) variables_.push_back(var.name);
    for (size_t i = 0; i < 3; ++i)
      add_names(entry.global[i], variables_), add_names(entry.local[i], variables_);
  }
  std::erase_if(variables_,
                [](const std::string& name) { return name == kDevicePosition || is_runtime_variable(name); });
  std::sort(variables_.begin(), variables_.end());
  variables_.erase(std::unique(variables_.begin(), variables_.end()), variables_.end());
}

GraphRunner::~GraphRunner() = default;

void GraphRunner::forget() {
  graph_.reset();
  retained_.clear();
  nodes_.clear(), arguments_.clear(), changing_.clear(), moving_.clear(), roots_.clear(), bases_.clear();
}

// Returns false when a launch of this run is empty, which a graph cannot hold. Throws GraphError.
bool GraphRunner::record(BufferBinding& binding, PreparedLinear& calls) {
  forget();
  std::vector<Device*> devices;
  auto use = [&](Device& device) {
    if (std::find(devices.begin(), devices.end(), &device) == devices.end()) devices.push_back(&device);
  };
  for (Step& step : calls.steps()) {
    if (step.kind != Step::Kind::Kernel && step.kind != Step::Kind::Copy)
      throw GraphError("a batch holds something else than kernels and copies");
    for (Position& p : step.positions) {
      if (is_empty(step, p)) return false;
      use(*p.device);
      for (size_t i = 0; i < buffer_count(step, p); ++i) use(buffer_at(step, p, i)->device());
    }
  }
  auto graph = std::make_unique<DeviceGraph>(devices, DeviceGraph::Kind::Best, timed_);
  DepsTracker tracker;
  std::vector<StorageUse> uses;
  try {
    for (size_t s = 0; s < calls.steps().size(); ++s) {
      Step& step = calls.steps()[s];
      for (size_t j = 0; j < step.positions.size(); ++j) {
        Position& p = step.positions[j];
        auto number = uint32_t(nodes_.size());
        Node node{s, j, arguments_.size(), buffer_count(step, p), p.program.get(), p.values, p.grid, p.local};
        uses.clear();
        for (size_t i = 0; i < node.argument_count; ++i) {
          Argument a;
          a.buffer = reference_to(p, buffer_at(step, p, i));
          a.ref = a.buffer->ref(); // allocates
          a.generation = a.buffer->generation();
          a.recorded = use_of(*a.buffer, is_written(step, p, a.buffer.get()));
          uses.push_back(a.recorded);
          arguments_.push_back(std::move(a));
        }
        std::vector<uint32_t> after = tracker.access(uses, number);
        if (step.kind == Step::Kind::Copy)
          graph->add_copy(*p.arguments[0], *p.arguments[1], after);
        else
          graph->add_kernel(p.program, p.ordered, p.values, p.grid, p.local, after);
        if (step.on(DependsOn::Inputs | DependsOn::Variables)) changing_.push_back(nodes_.size());
        nodes_.push_back(std::move(node));
      }
    }
    graph->commit();
  } catch (...) {
    forget();
    throw;
  }
  graph_ = std::move(graph);
  epoch_ = binding.epoch();
  note_storages();
  return true;
}

// Collects the storages of arguments that do not depend on the run.
void GraphRunner::note_storages() {
  std::vector<bool> changes(arguments_.size());
  moving_.clear(), roots_.clear(), bases_.clear();
  for (size_t n : changing_)
    for (size_t i = 0; i < nodes_[n].argument_count; ++i) {
      changes[nodes_[n].first_argument + i] = true;
      moving_.push_back(nodes_[n].first_argument + i);
    }
  std::vector<std::pair<uint64_t, size_t>> all;
  for (size_t i = 0; i < arguments_.size(); ++i)
    if (!changes[i]) all.emplace_back(arguments_[i].buffer->base_id(), i);
  std::sort(all.begin(), all.end());
  for (const auto& [base, argument] : all)
    if (bases_.empty() || bases_.back() != base) bases_.push_back(base), roots_.push_back(argument);
}

bool GraphRunner::stale(const BufferBinding& binding) const {
  if (binding.epoch() != epoch_) return true;
  for (size_t i : roots_)
    if (arguments_[i].buffer->generation() != arguments_[i].generation) return true;
  return false; // arguments that depend on the run are compared in any case
}

// Compares the graph with this run: the nodes that depend on runs, or all of them. Returns false when a
// launch is empty.
bool GraphRunner::find_changes(PreparedLinear& calls, bool all) {
  changes_.clear();
  size_t count = all ? nodes_.size() : changing_.size();
  for (size_t k = 0; k < count; ++k) {
    size_t n = all ? k : changing_[k];
    Node& node = nodes_[n];
    const Step& step = calls.steps()[node.step];
    if (node.position >= step.positions.size()) return changes_.rerecord = true;
    const Position& p = step.positions[node.position];
    if (is_empty(step, p)) return false;
    // The storage is on another number of devices, or overlapping arguments need another program.
    if (p.program.get() != node.program || buffer_count(step, p) != node.argument_count ||
        (n + 1 == nodes_.size() || nodes_[n + 1].step != node.step) !=
            (node.position + 1 == step.positions.size())) {
      changes_.rerecord = true;
      continue;
    }
    for (size_t i = 0; i < node.argument_count; ++i) {
      Argument& a = arguments_[node.first_argument + i];
      Buffer* now = buffer_at(step, p, i);
      bool kept = a.buffer->generation() == a.generation;
      if (now == a.buffer.get() && kept) continue;
      tolk_ref ref = now->ref();
      if (kept && ref.buffer == a.ref.buffer && ref.offset == a.ref.offset && ref.size == a.ref.size)
        continue;
      if (ref.size != a.ref.size)
        throw InvalidArgument("graph: an argument had " + std::to_string(a.ref.size) +
                              " bytes when it was recorded, now it has " + std::to_string(ref.size));
      changes_.buffers.push_back({uint32_t(n), uint32_t(i), node.first_argument + i, reference_to(p, now)});
    }
    if (step.kind == Step::Kind::Kernel &&
        (p.values != node.values || p.grid != node.grid || p.local != node.local))
      changes_.launches.push_back(uint32_t(n));
  }
  return true;
}

// Whether two arguments conflict that did not when the graph was recorded: the recorded order covers no such
// pair.
bool GraphRunner::newly_overlaps() const {
  // One input is usually an argument of several nodes: they move together.
  struct Moved {
    StorageUse from, to;
  };
  auto newly = [](const Moved& a, const Moved& b) {
    return conflict(a.to, b.to) && !a.from.range.overlaps(b.from.range);
  };
  std::vector<Moved> moved;
  bool known = false; // some input is in storage that the graph uses for another argument
  for (const BufferChange& change : changes_.buffers) {
    const Argument& a = arguments_[change.argument];
    StorageUse to = use_of(*change.buffer, a.recorded.written);
    auto same = std::find_if(moved.begin(), moved.end(), [&](const Moved& m) {
      return m.from.range == a.recorded.range && m.to.range == to.range;
    });
    if (same != moved.end()) {
      same->to.written |= to.written;
      continue;
    }
    moved.push_back({a.recorded, to});
    known = known || std::binary_search(bases_.begin(), bases_.end(), to.range.base);
    for (size_t i = 0; i < moving_.size() && !known; ++i)
      known = arguments_[moving_[i]].buffer->base_id() == to.range.base;
  }
  for (size_t i = 0; i < moved.size(); ++i)
    for (size_t j = i + 1; j < moved.size(); ++j)
      if (newly(moved[i], moved[j])) return true;
  if (!known) return false;
  std::vector<bool> changes(arguments_.size());
  for (const BufferChange& change : changes_.buffers) changes[change.argument] = true;
  for (size_t i = 0; i < arguments_.size(); ++i) {
    if (changes[i]) continue;
    Moved stays{arguments_[i].recorded, use_of(*arguments_[i].buffer, arguments_[i].recorded.written)};
    for (const Moved& m : moved)
      if (newly(m, stays)) return true;
  }
  return false;
}

void GraphRunner::apply_changes(PreparedLinear& calls) {
  for (const BufferChange& change : changes_.buffers)
    graph_->set_buffer(change.node, change.index, *change.buffer);
  for (uint32_t n : changes_.launches) {
    const Position& p = calls.steps()[nodes_[n].step].positions[nodes_[n].position];
    for (size_t i = 0; i < p.values.size(); ++i)
      if (p.values[i] != nodes_[n].values[i]) graph_->set_value(n, uint32_t(i), p.values[i]);
    if (p.grid != nodes_[n].grid || p.local != nodes_[n].local) graph_->set_sizes(n, p.grid, p.local);
  }
  graph_->update();
  retained_.clear();
  for (BufferChange& change : changes_.buffers) {
    Argument& a = arguments_[change.argument];
    std::swap(a.buffer, change.buffer);
    if (graph_->alternates()) retained_.push_back(std::move(change.buffer));
    a.ref = a.buffer->ref(), a.generation = a.buffer->generation();
  }
  for (uint32_t n : changes_.launches) {
    const Position& p = calls.steps()[nodes_[n].step].positions[nodes_[n].position];
    nodes_[n].values = p.values, nodes_[n].grid = p.grid, nodes_[n].local = p.local;
  }
  changes_.clear(); // holds the replaced buffers
}

bool GraphRunner::fall_back() {
  fallbacks.fetch_add(1, std::memory_order_relaxed);
  changes_.clear(); // do not retain the caller's buffers
  return false;
}

bool GraphRunner::run(BufferBinding& binding, PreparedLinear& calls, const ExecContext&, bool wait,
                      std::optional<double>& seconds) {
  if (ungraphable_) return false;
  const bool timed = wait && profiling();
  if (timed != timed_) forget();
  timed_ = timed;
  try {
    bool all = graph_ && stale(binding);
    if (graph_) {
      if (!find_changes(calls, all)) return false;
      // Overlapping inputs need another program: only this run takes the calls one by one.
      if (changes_.rerecord && !all) return fall_back();
      if (changes_.rerecord) forget();
    }
    if (!graph_) {
      if (!record(binding, calls)) return false;
    } else {
      if (!changes_.buffers.empty() && newly_overlaps()) return fall_back();
      if (!changes_.buffers.empty() || !changes_.launches.empty()) apply_changes(calls);
      if (all) note_storages();
      epoch_ = binding.epoch();
    }
  } catch (const GraphError& e) {
    log::debug(1, std::string("a batch of ") + std::to_string(calls.steps().size()) +
                      " calls runs one by one: " + e.what());
    ungraphable_ = true;
    forget();
    return false;
  }
  uint64_t ns = 0;
  graph_->launch(wait ? &ns : nullptr);
  if (wait) seconds = double(ns) * 1e-9;
  return true;
}

bool GraphRunner::node_times(std::vector<NodeTime>& times) {
  std::vector<uint64_t> begin, end;
  if (!graph_ || !timed_ || !graph_->node_times(begin, end)) return false;
  for (size_t i = 0; i < begin.size(); ++i) times.push_back({begin[i], end[i]});
  return true;
}

} // namespace tolk::engine
