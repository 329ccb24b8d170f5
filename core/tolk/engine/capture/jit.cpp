#include "tolk/engine/capture/jit.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>

#include "tolk/base/config.h"
#include "tolk/base/log.h"
#include "tolk/device/registry.h"
#include "tolk/engine/capture/capture.h"
#include "tolk/engine/capture/jit_internal.h"
#include "tolk/engine/capture/prune.h"
#include "tolk/engine/compile/view_limits.h"
#include "tolk/engine/run/node_storage.h"
#include "tolk/schedule/memory/memory_plan.h"
#include "tolk/schedule/tensor/realized.h"
#include "tolk/uop/build.h"
#include "tolk/uop/state.h"
#include "tolk/uop/traverse.h"

namespace tolk::engine {
namespace {

using Nodes = std::unordered_set<UOp, UOpHash>;

JitError nested() {
  return JitError("having TinyJit inside another TinyJit is not supported: its kernels would be missing from "
                  "the outer replay. Call the function itself there");
}

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

} // namespace

JitInputs whole_inputs(std::span<const UOp> storage, VarVals var_vals) {
  JitInputs out;
  for (const UOp& node : storage) {
    out.names.emplace_back(int(out.inputs.size()));
    out.inputs.push_back({node, {}, {}});
  }
  out.var_vals = std::move(var_vals);
  return out;
}

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

std::optional<AnyBuffer> known_storage(const UOp& node) {
  if (!node.is(Op::BUFFER) || !has_buffer(node)) return std::nullopt;
  return any_buffer_of(node);
}

InUse::Claim::Claim(InUse& object) : object_(object) {
  std::thread::id nobody;
  if (object.by_.compare_exchange_strong(nobody, std::this_thread::get_id())) return;
  if (nobody == std::this_thread::get_id()) throw nested();
  throw JitError(
      "another thread is in a call of this captured function, and one thread at a time may call it: its "
      "results share storage. Give each thread a Jit of its own, or let one wait for the other");
}
InUse::Claim::~Claim() { object_.by_.store({}); }

JitCore::JitCore(Options options, bool has_function, bool has_capture)
    : options_(std::move(options)), has_function_(has_function), cnt_(has_capture ? 2 : 0) {}

void JitCore::reset() {
  if (!has_function_)
    throw InvalidArgument(
        "a TinyJit that was made from a capture alone can't reset without function: there is "
        "nothing to capture anew");
  cnt_ = 0;
}

JitCore::Outcome JitCore::call(const JitInputs& inputs, const Resolver& buffers, const HeldNodes& held,
                               const std::function<void()>& body,
                               const std::function<void(CaptureParts)>& publish,
                               const std::function<void()>& replay) {
  InUse::Claim claim(in_use_);
  const Config& config = Config::current();
  if (config.jit == 0 && has_function_) {
    body();
    return Outcome::Ran;
  }
  if (phase() == Phase::Warmup) {
    Config plain = config;
    if (config.ignore_jit_first_beam != 0) plain.beam = 0;
    ScopedConfig scope(plain);
    body();
    cnt_ = 1;
    return Outcome::Ran;
  }
  if (!capturing().empty()) throw nested();
  if (phase() == Phase::Exec) {
    replay();
    return Outcome::Replayed;
  }
  if (config.capturing == 0)
    throw JitError("didn't JIT anything! CAPTURING=0 is set, so that the kernels of the function would run "
                   "at once and the capture would stay empty. Unset it for this call, or set JIT=0 to run "
                   "the function without capturing");
  publish(capture(inputs, buffers, held, body));
  cnt_ = 2;
  return Outcome::Captured;
}

CaptureParts JitCore::capture(const JitInputs& inputs, const Resolver& buffers, const HeldNodes& held,
                              const std::function<void()>& body) {
  CaptureParts parts;
  parts.device = options_.device.empty() ? default_device() : options_.device;
  parts.to_program = options_.to_program;
  parts.settings = Config::current().codegen_text();
  Device& on = tolk::device(parts.device);
  std::vector<UOp> input_nodes;
  for (const JitInput& input : inputs.inputs) input_nodes.push_back(input.storage);
  const Nodes input_set(input_nodes.begin(), input_nodes.end());
  Recording recording;
  try {
    {
      Links links(input_set);
      schedule::RealizedFilter filter(
          [&](const UOp& value, const UOp& storage) { return links.follow(value, storage); });
      CaptureScope scope(recording.capturer());
      body();
    }
    if (recording.linears.empty())
      throw JitError("didn't JIT anything! The function computes nothing that its inputs, or anything else, "
                     "would need computed again");
    recording.require_inputs(inputs.var_vals);
    refuse_foreign(recording.calls(), input_set);
  } catch (...) {
    run_recorded(on, parts.to_program, recording);
    throw;
  }
  log::debug(1, "JIT captured " + std::to_string(recording.linears.size()) + " linears with " +
                    std::to_string(inputs.inputs.size()) + " inputs");

  std::vector<UOp> calls = recording.calls();
  recording.linears.clear();
  keep_versions(calls);

  // What keeps its identity: inputs, what the caller holds, what the resolver knows.
  Nodes kept = input_set;
  if (held)
    for (const UOp& node : held()) kept.insert(node);
  std::vector<UOp> others;
  for (UOp& node : buffers_of(calls)) {
    if (input_set.contains(node)) continue;
    std::optional<AnyBuffer> known = buffers ? buffers(node) : std::nullopt;
    if (known && has_value(*known)) {
      kept.insert(node);
      parts.bound.emplace_back(node, std::move(*known));
    } else if (!kept.contains(node) && slot_of(node) >= 0) {
      others.push_back(std::move(node));
    }
  }
  if (options_.hold_reachable) {
    for (const UOp& node : part_unreferred(calls, std::move(others))) kept.insert(node);
  } else {
    UOpMap map;
    for (const UOp& node : others) map[node] = same_with_slot(node, fresh_internal_slot());
    calls = with_storage(calls, map);
  }

  parts.variables = variables_of(calls);
  for (const JitVariable& var : parts.variables)
    if (!inputs.var_vals.contains(var.name)) throw JitError("variable \"" + var.name + "\" has no value");
  std::vector<UOp> held_nodes(kept.begin(), kept.end());
  std::optional<int> beam;
  if (int width = capture_beam(Config::current()); width > 0) beam = width;
  UOp compiled = compile_linear(on, parts.to_program, linear(calls), beam);

  if (options_.prune) {
    Pruned pruned = prune_linear(compiled, input_nodes, held_nodes);
    log::debug(1, "pruned from " + std::to_string(compiled.nsrc()) + " -> " +
                      std::to_string(pruned.kept.nsrc()) + " kernels");
    if (pruned.kept.nsrc() == 0)
      throw JitError("didn't JIT anything! No kernel depends on an input, and pruning keeps no others");
    if (pruned.once.nsrc() > 0) {
      BufferBinding binding(on);
      for (const auto& [node, buffer] : parts.bound) seed_any(binding, node, buffer);
      for (const UOp& node : buffers_of(calls_of(pruned.once))) {
        if (input_set.contains(node)) continue;
        kept.insert(node), parts.once.push_back(node);
        if (slot_of(node) < 0) parts.bound.emplace_back(node, binding.buffer_of_node(node));
      }
      RunOptions options;
      options.var_vals = inputs.var_vals, options.jit = true;
      run_linear(on, parts.to_program, binding, pruned.once, options);
      for (const std::string& name : devices_of(pruned.once)) tolk::device(name).synchronize();
      held_nodes.assign(kept.begin(), kept.end());
    }
    compiled = pruned.kept;
  }

  UOp list = with_params(compiled, inputs, parts);
  std::vector<std::string> devices = devices_of(list);
  parts.planned =
      schedule::plan_memory(list, held_nodes, nullptr, view_limits({devices.begin(), devices.end()}));
  return parts;
}

} // namespace tolk::engine
