#include "tolk/engine/capture/record.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>

#include "tolk/base/config.h"
#include "tolk/base/error.h"
#include "tolk/base/log.h"
#include "tolk/device/registry.h"
#include "tolk/engine/capture/bound_storage.h"
#include "tolk/engine/capture/capture_scope.h"
#include "tolk/engine/capture/prune.h"
#include "tolk/engine/compile/lower_linear.h"
#include "tolk/engine/run/binding.h"
#include "tolk/engine/run/node_storage.h"
#include "tolk/engine/run/run_linear.h"
#include "tolk/schedule/tensor/realized.h"
#include "tolk/uop/build.h"
#include "tolk/uop/state.h"
#include "tolk/uop/traverse.h"

namespace tolk::engine {
namespace {

using Nodes = std::unordered_set<UOp, UOpHash>;

// The calls with every BUFFER of the map replaced in their arguments; bodies name none.
std::vector<UOp> with_storage(const std::vector<UOp>& calls, const UOpMap& map) {
  if (map.empty()) return calls;
  std::vector<UOp> out, src;
  for (const UOp& call : calls) {
    src.assign({UOp(call.src(0))});
    for (const UOp& argument : call.src().subspan(1)) src.push_back(substitute(argument, map));
    out.push_back(with_sources(call, src));
  }
  return out;
}

std::vector<UOp> buffers_of(const std::vector<UOp>& calls) {
  std::vector<UOp> out;
  Nodes seen;
  for (const UOp& call : calls)
    for (const UOp& argument : call.src().subspan(1))
      for (const UOp& base : bases_of(argument))
        if (base.is(Op::BUFFER) && seen.insert(base).second) out.push_back(base);
  return out;
}

UOp same_with_slot(const UOp& buffer, int64_t slot) {
  return buffer_node(slot, buffer.dtype(), elements_of(buffer), device_text(buffer));
}

// Replaces those buffers that nothing but the calls refers to by internal ones, and gives the others. A node
// dies with its last handle: the calls are rewritten to stand-ins, their handles go, and a node that is still
// there with its old id was referred to. The caller must have no handle on a candidate.
std::vector<UOp> part_unreferred(std::vector<UOp>& calls, std::vector<UOp> candidates) {
  struct Candidate {
    uint64_t id;
    int64_t slot;
    UOp stand_in;
  };
  std::vector<Candidate> all;
  UOpMap map;
  for (const UOp& b : candidates) {
    UOp stand_in = same_with_slot(b, fresh_internal_slot());
    all.push_back({b.id(), slot_of(b), stand_in});
    map[b] = stand_in;
  }
  calls = with_storage(calls, map);
  candidates.clear(), map.clear();
  std::vector<UOp> referred;
  for (const Candidate& c : all) {
    UOp again = same_with_slot(c.stand_in, c.slot);
    if (again.id() != c.id) continue;
    referred.push_back(again);
    map[c.stand_in] = again;
  }
  calls = with_storage(calls, map);
  return referred;
}

std::vector<JitVariable> variables_of(const std::vector<UOp>& calls) {
  std::map<std::string, JitVariable> found;
  for (const UOp& call : calls) {
    if (!call.src(0).has(kHasVar)) continue;
    for (const UOp& u : toposort(call.src(0), [](const UOp& n) { return n.has(kHasVar); }))
      if (u.is(Op::VAR) && !is_runtime_variable(var_name(u)) && var_name(u) != kDevicePosition)
        found[var_name(u)] = {var_name(u), u.vmin(), u.vmax()};
  }
  std::vector<JitVariable> out;
  for (auto& [name, var] : found) out.push_back(var);
  return out;
}

// What runs recorded, in order, and the values of the variables that it used.
struct Recording {
  std::vector<UOp> linears;
  std::vector<VarVals> vars;
  VarVals merged;

  Capturer capturer() {
    return [this](const UOp& linear, const VarVals& values) {
      for (const auto& [name, value] : values)
        if (auto [it, fresh] = merged.emplace(name, value); !fresh && it->second != value)
          throw JitError(conflict(name, it->second, value));
      linears.push_back(linear), vars.push_back(values);
    };
  }
  std::vector<UOp> calls() const {
    std::vector<UOp> all;
    for (const UOp& recorded : linears)
      for (const UOp& call : calls_of(recorded)) all.push_back(call);
    return all;
  }
  static std::string conflict(const std::string& name, int64_t a, int64_t b) {
    return "conflicting values for JIT var " + name + ": " + std::to_string(a) + " and " + std::to_string(b);
  }
  void require_inputs(const VarVals& given) const {
    for (const auto& [name, value] : merged) {
      auto it = given.find(name);
      if (it == given.end())
        throw JitError("variable \"" + name +
                       "\" is bound inside the jitted function but is not an input, so replays would not "
                       "know its value; pass the bound variable, or a tensor whose shape uses it");
      if (it->second != value) throw JitError(conflict(name, it->second, value));
    }
  }
};

// A failed capture leaves results recorded on nodes that nothing computed yet.
void run_recorded(Device& on, const ToProgram& to_program, const Recording& recording) noexcept {
  try {
    for (size_t i = 0; i < recording.linears.size(); ++i) {
      BufferBinding binding(on);
      RunOptions options;
      options.var_vals = recording.vars[i];
      run_linear(on, to_program, binding, recording.linears[i], options);
    }
  } catch (const std::exception& e) {
    log::debug(1, std::string("what a failed capture had recorded could not run: ") + e.what());
  }
}

// Which links from values to storage the scheduling of a capture may follow. A value that depends on an input
// and was computed before the capture, as happens when both calls get the same tensors and something kept the
// first one's graph, would be missing from the replay.
class Links {
public:
  explicit Links(const Nodes& inputs) : inputs_(inputs) {}

  bool follow(const UOp& value, const UOp& storage) {
    if (value.is(Op::AFTER)) return true; // a write equals no other: once recorded, it was this one
    UOp base = base_of(storage);
    if (inputs_.contains(base) || !depends(value)) return true;
    std::optional<AnyBuffer> known = known_storage(base);
    if (!known) return true; // this capture recorded it
    for (const BufferRef& b : shards_of(*known))
      if (b->is_allocated()) return false;
    return true;
  }

private:
  static UOp base_of(UOp storage) {
    while (storage.nsrc() > 0) storage = UOp(storage.src(0));
    return storage;
  }
  bool is_input(const UOp& u) const {
    if (inputs_.contains(u)) return true;
    const schedule::Realized* realized = schedule::realized_link(u);
    return realized && inputs_.contains(base_of(realized->storage));
  }
  bool depends(const UOp& value) {
    std::vector<std::pair<UOp, size_t>> stack{{value, 0}};
    while (!stack.empty()) {
      auto& [u, next] = stack.back();
      if (auto it = known_.find(u); it != known_.end()) {
        stack.pop_back();
        continue;
      }
      if (next < u.nsrc() && !is_input(u)) {
        UOp source = u.src(next++);
        stack.emplace_back(source, 0);
        continue;
      }
      bool found = is_input(u);
      for (const UOp& source : u.src()) {
        auto it = known_.find(source);
        found |= it != known_.end() && it->second;
      }
      known_[u] = found;
      stack.pop_back();
    }
    return known_.at(value);
  }

  const Nodes& inputs_;
  std::unordered_map<UOp, bool, UOpHash> known_;
};

int capture_beam(const Config& config) { return int(config.jit_beam >= 0 ? config.jit_beam : config.beam); }

// Storage that came to its contents while the capture went on and not by what it recorded: another thread's
// work. Replays would read what it was at the capture. What they also write is theirs from then on.
void refuse_foreign(const std::vector<UOp>& calls, const Nodes& inputs) {
  Nodes written;
  std::vector<UOp> read;
  for (const UOp& call : calls) {
    CallAccess access = access_of(call);
    for (size_t i = 0; i < access.arguments.size(); ++i)
      for (const UOp& base : bases_of(access.arguments[i])) {
        if (!base.is(Op::BUFFER) || is_older_than_capture(base) || inputs.contains(base)) continue;
        if (access.writes[i])
          written.insert(base);
        else if (device_text(base) != "HOST")
          read.push_back(base);
      }
  }
  for (const UOp& base : read) {
    if (written.contains(base) || was_uncaptured(base)) continue;
    std::optional<AnyBuffer> known = known_storage(base);
    if (!known) continue;
    int64_t elements = elements_of(base);
    const std::string& where = device_text(base);
    for (const BufferRef& b : shards_of(*known))
      if (b->is_allocated())
        throw JitError("a captured kernel reads " + std::to_string(elements) + " " + name(base.dtype()) +
                       " on " + where +
                       " that another thread computed while the function was captured, so every replay would "
                       "read this one value. Compute it in the function itself, or before the call and pass "
                       "it as an input");
  }
}

// What the function leaves behind names storage as it is now, and reads it as the last replay, or whoever
// wrote it since, left it. Others from now on name storage that replays only read as a version of its own, so
// that what they build is not taken for that.
void keep_versions(const std::vector<UOp>& calls) {
  Nodes written;
  for (const UOp& call : calls) {
    CallAccess access = access_of(call);
    for (size_t i = 0; i < access.arguments.size(); ++i)
      for (const UOp& base : bases_of(access.arguments[i]))
        if (access.writes[i]) written.insert(base);
  }
  for (const UOp& node : buffers_of(calls)) {
    if (slot_of(node) < 0) continue;
    StorageVersion& version = version_of(node);
    version.keep(version.written());
    if (!written.contains(node) && device_text(node) != "HOST" && version.newest() == version.written())
      version.note_written(fresh_version());
  }
}

// What recording and lowering one call of a function share.
class Recorder {
public:
  Recorder(const RecordOptions& options, const JitInputs& inputs, const Resolver& buffers)
      : options_(options), inputs_(inputs), buffers_(buffers) {
    parts_.device = options.device.empty() ? default_device() : options.device;
    parts_.to_program = options.to_program;
    parts_.settings = Config::current().codegen_text();
    for (const JitInput& input : inputs.inputs) input_nodes_.push_back(input.storage);
    input_set_.insert(input_nodes_.begin(), input_nodes_.end());
  }

  CaptureParts run(const HeldNodes& held, const std::function<void()>& body) {
    std::vector<UOp> calls = recorded(body);
    keep_versions(calls);
    pin_storage(calls, held);
    parts_.variables = variables_of(calls);
    for (const JitVariable& var : parts_.variables)
      if (!inputs_.var_vals.contains(var.name)) throw JitError("variable \"" + var.name + "\" has no value");
    LowerOptions lower;
    lower.to_program = options_.to_program;
    if (int width = capture_beam(Config::current()); width > 0) lower.beam = width;
    if (options_.prune) lower.prune = [this](const UOp& compiled) { return pruned(compiled); };
    lower.parametrize = [this](const UOp& compiled) { return with_params(compiled, inputs_, parts_); };
    lower.held = [this] { return std::vector<UOp>(pinned_.begin(), pinned_.end()); };
    lower.batch = true;
    Lowered lowered = lower_linear(ambient(), linear(calls), lower);
    parts_.planned = std::move(lowered.planned), parts_.linear = std::move(lowered.linear);
    return std::move(parts_);
  }

private:
  Device& ambient() const { return tolk::device(parts_.device); }

  // Runs the function; gives the calls that it scheduled.
  std::vector<UOp> recorded(const std::function<void()>& body) {
    Recording recording;
    try {
      {
        Links links(input_set_);
        schedule::RealizedFilter filter(
            [&](const UOp& value, const UOp& storage) { return links.follow(value, storage); });
        CaptureScope scope(recording.capturer());
        body();
      }
      if (recording.linears.empty())
        throw JitError(
            "didn't JIT anything! The function computes nothing that its inputs, or anything else, "
            "would need computed again");
      recording.require_inputs(inputs_.var_vals);
      refuse_foreign(recording.calls(), input_set_);
    } catch (...) {
      run_recorded(ambient(), parts_.to_program, recording);
      throw;
    }
    log::debug(1, "JIT captured " + std::to_string(recording.linears.size()) + " linears with " +
                      std::to_string(inputs_.inputs.size()) + " inputs");
    return recording.calls();
  }

  // Inputs, what the caller holds and what the resolver knows keep their identity. The rest becomes internal,
  // except what something outside of the calls refers to when that is asked for.
  void pin_storage(std::vector<UOp>& calls, const HeldNodes& held) {
    pinned_ = input_set_;
    if (held)
      for (const UOp& node : held()) pinned_.insert(node);
    std::vector<UOp> others;
    for (UOp& node : buffers_of(calls)) {
      if (input_set_.contains(node)) continue;
      std::optional<AnyBuffer> known = buffers_ ? buffers_(node) : std::nullopt;
      if (known && has_value(*known)) {
        pinned_.insert(node);
        parts_.bound.emplace_back(node, std::move(*known));
      } else if (!pinned_.contains(node) && slot_of(node) >= 0) {
        others.push_back(std::move(node));
      }
    }
    if (options_.hold_reachable) {
      for (const UOp& node : part_unreferred(calls, std::move(others))) pinned_.insert(node);
      return;
    }
    UOpMap map;
    for (const UOp& node : others) map[node] = same_with_slot(node, fresh_internal_slot());
    calls = with_storage(calls, map);
  }

  // Runs the calls that no input reaches, and gives the others.
  UOp pruned(const UOp& compiled) {
    Pruned parted = prune_linear(compiled, input_nodes_, std::vector<UOp>(pinned_.begin(), pinned_.end()));
    log::debug(1, "pruned from " + std::to_string(compiled.nsrc()) + " -> " +
                      std::to_string(parted.kept.nsrc()) + " kernels");
    if (parted.kept.nsrc() == 0)
      throw JitError("didn't JIT anything! No kernel depends on an input, and pruning keeps no others");
    if (parted.once.nsrc() == 0) return parted.kept;
    BufferBinding binding(ambient());
    for (const auto& [node, buffer] : parts_.bound) seed_any(binding, node, buffer);
    for (const UOp& node : buffers_of(calls_of(parted.once))) {
      if (input_set_.contains(node)) continue;
      pinned_.insert(node), parts_.once.push_back(node);
      if (slot_of(node) < 0) parts_.bound.emplace_back(node, binding.buffer_of_node(node));
    }
    RunOptions options;
    options.var_vals = inputs_.var_vals, options.jit = true;
    run_linear(ambient(), parts_.to_program, binding, parted.once, options);
    for (const std::string& name : devices_of(parted.once)) tolk::device(name).synchronize();
    return parted.kept;
  }

  const RecordOptions& options_;
  const JitInputs& inputs_;
  const Resolver& buffers_;
  CaptureParts parts_;
  std::vector<UOp> input_nodes_;
  Nodes input_set_, pinned_; // pinned: keeps its storage
};

} // namespace

UOp with_params(const UOp& list, const JitInputs& inputs, CaptureParts& parts) {
  UOpMap params;
  for (size_t k = 0; k < inputs.inputs.size(); ++k) {
    const JitInput& input = inputs.inputs[k];
    const UOp& node = input.storage;
    params[node] = param_node(int64_t(k), node.dtype(), elements_of(node), device_text(node));
    parts.expected.push_back({input.view, input.vars, elements_of(node), node.dtype(), device_text(node)});
  }
  parts.names = inputs.names;
  return linear(with_storage(calls_of(list), params));
}

CaptureParts record(const RecordOptions& options, const JitInputs& inputs, const Resolver& buffers,
                    const HeldNodes& held, const std::function<void()>& body) {
  return Recorder(options, inputs, buffers).run(held, body);
}

} // namespace tolk::engine
