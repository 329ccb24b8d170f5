#include "tolk/engine/capture/record.h"

#include <algorithm>
#include <map>

#include "tolk/base/config.h"
#include "tolk/base/error.h"
#include "tolk/base/log.h"
#include "tolk/device/registry.h"
#include "tolk/engine/capture/capture_scope.h"
#include "tolk/engine/capture/prune.h"
#include "tolk/engine/compile/lower_linear.h"
#include "tolk/engine/run/calls.h"
#include "tolk/engine/run/node_storage.h"
#include "tolk/engine/run/run_linear.h"
#include "tolk/schedule/tensor/realized.h"
#include "tolk/uop/build.h"
#include "tolk/uop/storage_ref.h"
#include "tolk/uop/traverse.h"

namespace tolk::engine {
namespace {

// The calls with every BUFFER of the map replaced in their arguments; bodies name none.
std::vector<UOp> replaced(const std::vector<UOp>& calls, const UOpMap& map) {
  auto place = [&](const UOp& base) {
    auto it = map.find(base);
    return it == map.end() ? UOp() : it->second;
  };
  std::vector<UOp> out;
  for (const UOp& call : calls)
    out.push_back(with_arguments(call, [&](const UOp& argument) { return with_storage(argument, place); }));
  return out;
}

std::vector<UOp> buffers_of(const std::vector<UOp>& calls) {
  std::vector<UOp> out;
  NodeSet seen;
  for (const UOp& call : calls)
    for (const UOp& argument : call.src().subspan(1))
      for (const UOp& base : bases_of(argument))
        if (base.is(Op::BUFFER) && seen.insert(base).second) out.push_back(base);
  return out;
}

UOp same_with_slot(const UOp& buffer, int64_t slot) {
  return buffer_node(slot, buffer.dtype(), elements_of(buffer), device_text(buffer));
}

// Replaces the buffers that only the calls refer to by internal ones, and returns the others. A node dies with its
// last handle: the calls are rewritten to placeholders and release their handles, and a node that still exists with
// its old id has another owner. The caller must have no handle on a candidate.
std::vector<UOp> release_unreferred(std::vector<UOp>& calls, std::vector<UOp> candidates) {
  struct Candidate {
    uint64_t id;
    int64_t slot;
    UOp placeholder;
  };
  std::vector<Candidate> all;
  UOpMap map;
  for (const UOp& b : candidates) {
    UOp placeholder = same_with_slot(b, fresh_internal_slot());
    all.push_back({b.id(), slot_of(b), placeholder});
    map[b] = placeholder;
  }
  calls = replaced(calls, map);
  candidates.clear(), map.clear();
  std::vector<UOp> referred;
  for (const Candidate& c : all) {
    UOp again = same_with_slot(c.placeholder, c.slot);
    if (again.id() != c.id) continue;
    referred.push_back(again);
    map[c.placeholder] = again;
  }
  calls = replaced(calls, map);
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

// The schedules of the recorded call in order, and the values of the variables that they use.
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

// A failed capture has linked nodes to results that were not computed yet: computes them.
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

// Whether the storage of a node has contents.
bool is_computed(const UOp& base) {
  std::optional<AnyBuffer> known = known_storage(base);
  return known && std::ranges::any_of(shards(*known), [](const BufferRef& b) { return b->is_allocated(); });
}

// Which links from values to storage the scheduling of a capture may follow. A value that depends on an input and
// was computed before the capture would be missing from the replay. That happens when both calls get the same
// tensors and the graph of the first is still referred to.
class Links {
public:
  explicit Links(const NodeSet& inputs) : inputs_(inputs) {}

  bool follow(const UOp& value, const UOp& storage) {
    if (value.is(Op::AFTER)) return true; // a write equals no other: once recorded, it was this one
    UOp base = base_of(storage);
    return inputs_.contains(base) || !depends(value) || !is_computed(base); // else this capture recorded it
  }

private:
  static UOp base_of(const UOp& storage) { return bases_of(storage).at(0); }
  bool is_input(const UOp& u) const {
    if (inputs_.contains(u)) return true;
    const schedule::Realized* realized = schedule::realized_link(u);
    return realized && inputs_.contains(base_of(realized->storage));
  }
  bool depends(const UOp& value) {
    auto known = [&](const UOp& u) {
      auto it = known_.find(u);
      return it != known_.end() && it->second;
    };
    for (const UOp& u : toposort(value, [&](const UOp& n) { return !known_.contains(n) && !is_input(n); }))
      known_.try_emplace(u, is_input(u) || std::ranges::any_of(u.src(), known));
    return known_.at(value);
  }

  const NodeSet& inputs_;
  std::unordered_map<UOp, bool, UOpHash> known_;
};

// Throws when a call reads storage that another thread computed during the capture: replays would read these contents
// forever. Storage that replays write as well is their own.
void refuse_foreign(const std::vector<UOp>& calls, const NodeSet& inputs) {
  NodeSet written = written_by(calls);
  for (const UOp& call : calls)
    each_base(access_of(call), [&](const BaseAccess& a) {
      const UOp& base = a.base;
      if (a.writes || !base.is(Op::BUFFER) || is_older_than_capture(base) || inputs.contains(base) ||
          device_text(base) == "HOST" || written.contains(base) || was_uncaptured(base) || !is_computed(base))
        return;
      int64_t elements = elements_of(base);
      const std::string& where = device_text(base);
      throw JitError("a captured kernel reads " + std::to_string(elements) + " " + name(base.dtype()) +
                     " on " + where +
                     " that another thread computed while the function was captured, so every replay would "
                     "read this one value. Compute it in the function itself, or before the call and pass "
                     "it as an input");
    });
}

// Values that the function leaves behind name the present version of storage; they read what the last replay, or a
// later write, left there. Storage that replays only read gets a new version, so that nodes built from now on differ
// from these.
void keep_versions(const std::vector<UOp>& calls) {
  NodeSet written = written_by(calls);
  for (const UOp& node : buffers_of(calls)) {
    if (slot_of(node) < 0) continue;
    StorageVersion& version = version_of(node);
    version.keep(version.written());
    if (!written.contains(node) && device_text(node) != "HOST" && version.newest() == version.written())
      version.note_written(fresh_version());
  }
}

// Records and lowers one call of a function.
class Recorder {
public:
  Recorder(const FunctionOptions& options, const JitInputs& inputs, const Resolver& buffers)
      : options_(options), inputs_(inputs), buffers_(buffers) {
    parts_.device = options.device.empty() ? default_device() : options.device;
    parts_.to_program = options.to_program;
    parts_.settings = Config::current().codegen_text();
    for (const JitInput& input : inputs.inputs) input_nodes_.push_back(input.storage);
    input_set_.insert(input_nodes_.begin(), input_nodes_.end());
  }

  CaptureParts run(const HeldNodes& held) {
    std::vector<UOp> calls = recorded();
    keep_versions(calls);
    pin_storage(calls, held);
    parts_.variables = variables_of(calls);
    for (const JitVariable& var : parts_.variables)
      if (!inputs_.var_vals.contains(var.name)) throw JitError("variable \"" + var.name + "\" has no value");
    LowerOptions lower;
    lower.to_program = options_.to_program;
    if (int64_t width = Config::current().jit_beam; width >= 0) lower.beam = int(width);
    if (options_.prune) lower.prune = [this](const UOp& compiled) { return pruned(compiled); };
    lower.parametrize = [this](const UOp& compiled) { return with_params(compiled, inputs_, parts_); };
    lower.held = [this] { return std::vector<UOp>(pinned_.begin(), pinned_.end()); };
    lower.batch = true;
    Lowered lowered = lower_linear(ambient(), linear(calls), lower);
    parts_.planned = std::move(lowered.planned), parts_.linear = std::move(lowered.linear);
    if (options_.kept) parts_.value = options_.kept(std::move(parts_.value), inputs_, parts_.returned);
    return std::move(parts_);
  }

private:
  Device& ambient() const { return tolk::device(parts_.device); }

  // Runs the function and returns the calls that it scheduled.
  std::vector<UOp> recorded() {
    Recording recording;
    try {
      {
        Links links(input_set_);
        schedule::RealizedFilter filter(
            [&](const UOp& value, const UOp& storage) { return links.follow(value, storage); });
        CaptureScope scope(recording.capturer());
        parts_.value = options_.function(inputs_);
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

  // Inputs, nodes that the caller holds and nodes that the resolver knows keep their storage. The rest becomes
  // internal; with `hold_reachable` only what nothing outside the calls refers to.
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
      for (const UOp& node : release_unreferred(calls, std::move(others))) pinned_.insert(node);
      return;
    }
    UOpMap map;
    for (const UOp& node : others) map[node] = same_with_slot(node, fresh_internal_slot());
    calls = replaced(calls, map);
  }

  // Runs the calls that no input reaches, and returns the others.
  UOp pruned(const UOp& compiled) {
    Pruned parted = prune_linear(compiled, input_nodes_, std::vector<UOp>(pinned_.begin(), pinned_.end()));
    log::debug(1, "pruned from " + std::to_string(compiled.nsrc()) + " -> " +
                      std::to_string(parted.kept.nsrc()) + " kernels");
    if (parted.kept.nsrc() == 0)
      throw JitError("didn't JIT anything! No kernel depends on an input, and pruning keeps no others");
    if (parted.once.nsrc() == 0) return parted.kept;
    BufferBinding binding(ambient());
    for (const auto& [node, buffer] : parts_.bound) binding.seed(node, buffer);
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

  const FunctionOptions& options_;
  const JitInputs& inputs_;
  const Resolver& buffers_;
  CaptureParts parts_;
  std::vector<UOp> input_nodes_;
  NodeSet input_set_, pinned_; // pinned: keeps its storage
};

} // namespace

UOp with_params(const UOp& list, const JitInputs& inputs, CaptureParts& parts) {
  UOpMap params;
  for (size_t k = 0; k < inputs.inputs.size(); ++k) {
    const JitInput& input = inputs.inputs[k];
    const UOp& node = input.storage;
    params[node] = param_node(int64_t(k), node.dtype(), elements_of(node), device_text(node));
    parts.expected.push_back(InputInfo::of(input));
  }
  parts.names = inputs.names;
  return linear(replaced(calls_of(list), params));
}

CaptureParts record(const FunctionOptions& options, const JitInputs& inputs, const Resolver& buffers,
                    const HeldNodes& held) {
  return Recorder(options, inputs, buffers).run(held);
}

} // namespace tolk::engine
