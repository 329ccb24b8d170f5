#include "tolk/tensor/jit.h"

#include <algorithm>
#include <cstdlib>
#include <cxxabi.h>
#include <set>
#include <typeinfo>

#include "tolk/base/error.h"
#include "tolk/engine/capture/function.h"
#include "tolk/engine/run/node_storage.h"
#include "tolk/engine/run/realize.h"
#include "tolk/schedule/tensor/realized.h"
#include "tolk/tensor/jit_state.h"
#include "tolk/tensor/pending.h"
#include "tolk/uop/build.h"
#include "tolk/uop/state.h"
#include "tolk/uop/traverse.h"

namespace tolk {

Variable::Variable(std::string name, int64_t min, int64_t max) {
  if (min < 0 || min > max)
    throw InvalidArgument("variable " + name + " needs bounds 0 <= min <= max, got " + std::to_string(min) +
                          " .. " + std::to_string(max));
  node_ = variable(std::move(name), min, max);
}

SInt Variable::bind(int64_t value) const { return SInt(tolk::bind(node_, value)); }

Arguments& Arguments::with(const std::string& name, Tensor value) {
  if (!named_.emplace(name, std::move(value)).second)
    throw InvalidArgument("argument " + name + " is given twice");
  return *this;
}

const Tensor& Arguments::operator[](size_t position) const {
  if (position >= positional_.size())
    throw InvalidArgument("argument " + std::to_string(position) + " is asked for, and there are " +
                          std::to_string(positional_.size()));
  return positional_[position];
}

const Tensor& Arguments::operator[](const std::string& name) const {
  auto it = named_.find(name);
  if (it == named_.end()) throw InvalidArgument("there is no argument " + name);
  return it->second;
}

namespace detail {
namespace {

UOp storage_node(const Tensor& t) {
  UOp at = schedule::realized_form(t.node());
  while (at.nsrc() > 0 &&
         (is_state(at) || at.is(ops::Movement | OpSet(Op::SLICE, Op::BITCAST, Op::DETACH, Op::MULTI))))
    at = schedule::realized_form(at.src(0));
  return at.is(Op::BUFFER) ? at : UOp();
}

JitError constant_input(size_t i) {
  return JitError(
      "input " + std::to_string(i) +
      " is a constant, which kernels would contain as it is now. JIT inputs must be real buffers; "
      "use .clone()");
}

// A value is a constant when no storage is below it.
bool is_constant(const Tensor& t) { return t.device().empty(); }

// The view, over the storage of what was realised below it.
UOp in_storage(const UOp& u) {
  UOp at = schedule::realized_form(u);
  if (!at.is(ops::Movement | OpSet(Op::BITCAST, Op::DETACH, Op::MULTI))) return at;
  std::vector<UOp> src(at.src().begin(), at.src().end());
  src[0] = in_storage(src[0]);
  return src[0] == at.src(0) ? at : with_sources(at, src);
}

// How the input lies in its storage; the values that its variables are bound to go to `values`.
engine::JitInput described(const Tensor& t, engine::VarVals& values) {
  engine::JitInput out;
  out.storage = storage_node(t);
  UOp value = without_states(in_storage(t.node()));
  UOpMap map;
  map[out.storage] = param_node(0, out.storage.dtype(), elements_of(out.storage));
  std::set<std::string> names;
  if (value.has(kHasVar))
    for (const UOp& u : toposort(value))
      if (u.is(Op::BIND)) {
        const std::string& name = var_name(u.src(0));
        int64_t bound = u.src(1).const_int();
        if (auto [it, fresh] = values.emplace(name, bound); !fresh && it->second != bound)
          throw JitError("conflicting values for JIT var " + name + ": " + std::to_string(it->second) +
                         " and " + std::to_string(bound));
        names.insert(name);
        map[u] = UOp(u.src(0));
      }
  out.view = substitute(value, map);
  out.vars.assign(names.begin(), names.end());
  return out;
}

void rebind(Tensor& tensor, const engine::VarVals& values) {
  if (!tensor.defined() || !tensor.node().has(kHasVar)) return;
  UOpMap map;
  for (const UOp& u : toposort(tensor.node(), [](const UOp& n) { return n.has(kHasVar); })) {
    if (!u.is(Op::BIND)) continue;
    auto it = values.find(var_name(u.src(0)));
    if (it != values.end()) map[u] = bind(u.src(0), it->second);
  }
  tensor = Tensor(substitute(tensor.node(), map));
}

// A result that is an input of the call, or a view of one, with PARAM k in place of the input's storage: what is
// kept of a capture is the same at every call.
void take_input_out(Tensor& tensor, const engine::JitInputs& inputs, std::vector<size_t>& returned) {
  UOp storage = tensor.defined() ? buffer_below(tensor.node()) : UOp();
  if (!storage) return;
  for (size_t k = 0; k < inputs.inputs.size(); ++k) {
    if (inputs.inputs[k].storage != storage) continue;
    UOp place = param_node(int64_t(k), storage.dtype(), elements_of(storage), device_text(storage));
    tensor = Tensor(substitute(without_states(tensor.node()), {{storage, place}}));
    returned.push_back(k);
  }
}

void put_input_in(Tensor& tensor, const engine::JitInputs& inputs) {
  if (!tensor.defined()) return;
  UOp place = tensor.node();
  while (place.nsrc() > 0) place = UOp(place.src(0));
  if (!place.is(Op::PARAM)) return;
  tensor = Tensor(substitute(tensor.node(), {{place, inputs.inputs.at(size_t(slot_of(place))).storage}}));
}

} // namespace

JitState::JitState(JitOptions options) : wait_(options.wait), function_(make(std::move(options))) {}
JitState::JitState(std::shared_ptr<const engine::Capture> captured)
    : compares_deep_(false), function_(engine::Function::create({.captured = std::move(captured)})) {}

engine::Function JitState::make(JitOptions options) {
  engine::Function::Options out;
  out.device = std::move(options.device), out.to_program = std::move(options.to_program);
  out.prune = options.prune, out.hold_reachable = true;
  out.function = [this](const engine::JitInputs&) {
    (*run_)();
    return std::any();
  };
  out.kept = [this](const std::any&, const engine::JitInputs& inputs, std::vector<size_t>& returned) {
    return (*keep_)([&](Tensor& t) { take_input_out(t, inputs, returned); });
  };
  return engine::Function::create(std::move(out));
}

// The claim comes first: what follows is the claimer's.
void JitState::begin_call() {
  engine::Function::Claim claim(function_);
  claim_.emplace(std::move(claim));
  // Before the function, so that they are no part of it.
  try {
    since_ = realize_what_can_be();
    if (const auto& replay = function_.replay()) realize_pending_on(replay->capture().storage());
  } catch (...) {
    end_call();
    throw;
  }
}

void JitState::end_call() {
  position_ = 0;
  positional_.clear(), named_.clear(), contained_.clear(), deep_.clear(), sizes_.clear();
  inputs_.inputs.clear(), inputs_.var_vals.clear(), inputs_.names.clear();
  claim_.reset();
}

const std::any* JitState::call(const std::function<void()>& run, const Keep& keep) {
  inputs_ = prepare();
  run_ = &run, keep_ = &keep;
  bool captures = function_.phase() == engine::Phase::Capture;
  bool ran = function_.call(*claim_, inputs_, engine::known_storage, {}, wait_).ran;
  if (captures && function_.phase() == engine::Phase::Exec) captured_deep_ = deep();
  return ran ? nullptr : &function_.replay()->capture().value();
}

void JitState::realize(const std::vector<Tensor*>& tensors) const {
  std::vector<Tensor> values;
  std::vector<Tensor*> defined;
  for (Tensor* t : tensors)
    if (t->defined()) values.push_back(*t), defined.push_back(t);
  if (values.empty()) return realize_pending(since_);
  realize_with_pending(values, since_);
  for (size_t i = 0; i < values.size(); ++i) *defined[i] = values[i];
}

void JitState::finish(Tensor& tensor) const {
  put_input_in(tensor, inputs_);
  if (!inputs_.var_vals.empty()) rebind(tensor, inputs_.var_vals);
}

void JitState::tensor(const Tensor& value, int depth) {
  if (!value.defined()) return;
  if (depth == 0)
    positional_.push_back({position_, value});
  else
    (depth == 1 ? contained_ : deep_).push_back(value);
}

void JitState::arguments(const Arguments& value, int depth) {
  if (depth > 0) {
    for (const Tensor& t : value.positional()) tensor(t, depth + 1);
    for (const auto& [name, t] : value.named()) tensor(t, depth + 1);
    return;
  }
  for (const Tensor& t : value.positional()) tensor(t, 0), ++position_;
  for (const auto& [name, t] : value.named()) {
    if (!t.defined()) continue;
    if (!named_.emplace(name, t).second)
      throw InvalidArgument("argument " + name + " is given twice in one call");
  }
}

void JitState::size(const SInt& value) { sizes_.push_back(value); }

std::vector<UOp> JitState::deep() const {
  std::vector<UOp> out;
  for (const Tensor& t : deep_) out.push_back(without_states(schedule::realized_form(t.node())));
  return out;
}

engine::JitInputs JitState::prepare() const {
  engine::JitInputs out;
  std::vector<Tensor> inputs;
  for (const Positional& p : positional_) out.names.emplace_back(p.position), inputs.push_back(p.value);
  for (const auto& [name, t] : named_) out.names.emplace_back(name), inputs.push_back(t);
  for (const Tensor& t : contained_)
    if (std::none_of(inputs.begin(), inputs.end(), [&](const Tensor& i) { return i.node() == t.node(); }))
      inputs.push_back(t);
  for (size_t i = 0; i < inputs.size(); ++i)
    if (is_constant(inputs[i])) throw constant_input(i);
  for (const SInt& size : sizes_) {
    if (size.is_const() || !size.uop().is(Op::BIND))
      throw JitError("JIT vars must be bound variables: give Variable::bind(value), not " + to_string(size));
    UOp bound = size.uop();
    const std::string& name = var_name(bound.src(0));
    int64_t value = bound.src(1).const_int();
    if (auto [it, fresh] = out.var_vals.emplace(name, value); !fresh && it->second != value)
      throw JitError("conflicting values for JIT var " + name + ": " + std::to_string(it->second) + " and " +
                     std::to_string(value));
  }
  if (compares_deep_ && function_.phase() == engine::Phase::Exec && deep() != captured_deep_)
    throw JitError(
        "a tensor that is nested more than one level deep in an argument is not the one that the "
        "capture saw, and only tensors in the arguments themselves and one level below are inputs; "
        "pass it less deep");

  std::vector<Tensor> lazy;
  for (const Tensor& t : inputs)
    if (!storage_node(t)) lazy.push_back(t);
  if (!lazy.empty()) Tensor::realize(lazy);
  std::set<const UOpNode*> seen;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!storage_node(inputs[i])) throw constant_input(i);
    out.inputs.push_back(described(inputs[i], out.var_vals));
    const UOp& storage = out.inputs.back().storage;
    if (!seen.insert(storage.node()).second)
      throw JitError("duplicate inputs to JIT: input " + std::to_string(i) +
                     " shares its storage with an earlier one; pass a clone()");
    // Storage that nothing was written to yet is real storage too.
    engine::any_buffer_of(storage);
  }
  return out;
}

JitCall::JitCall(JitState& state) : state_(state) { state_.begin_call(); }
JitCall::~JitCall() { state_.end_call(); }
void JitCall::tensor(const Tensor& value, int depth) { state_.tensor(value, depth); }
void JitCall::arguments(const Arguments& value, int depth) { state_.arguments(value, depth); }
void JitCall::size(const SInt& value) { state_.size(value); }
void JitCall::next() { state_.next(); }
const std::any* JitCall::call(const std::function<void()>& run,
                              const std::function<std::any(const Visit&)>& keep) {
  return state_.call(run, keep);
}
void JitCall::realize(const std::vector<Tensor*>& tensors) { state_.realize(tensors); }
void JitCall::finish(Tensor& tensor) { state_.finish(tensor); }

std::shared_ptr<JitState> jit_state(JitOptions options) {
  return std::make_shared<JitState>(std::move(options));
}
void reset(JitState& state) { state.function().reset(); }
engine::Phase phase(const JitState& state) { return state.function().phase(); }
int cnt(const JitState& state) { return state.function().cnt(); }
std::shared_ptr<const engine::Capture> captured(const JitState& state) { return state.function().captured(); }
std::shared_ptr<engine::Replay> replay(const JitState& state) { return state.function().replay(); }

void visit_any(std::any& value, const std::function<void(Tensor&)>& visit) {
  if (!value.has_value()) return;
  if (auto* tensor = std::any_cast<Tensor>(&value)) return visit(*tensor);
  if (auto* list = std::any_cast<std::vector<Tensor>>(&value)) {
    for (Tensor& t : *list) visit(t);
  } else if (auto* map = std::any_cast<std::map<std::string, Tensor>>(&value)) {
    for (auto& [key, t] : *map) visit(t);
  } else if (auto* values = std::any_cast<std::vector<std::any>>(&value)) {
    for (std::any& v : *values) visit_any(v, visit);
  } else if (auto* named = std::any_cast<std::map<std::string, std::any>>(&value)) {
    for (auto& [key, v] : *named) visit_any(v, visit);
  } else {
    int status = 0;
    std::unique_ptr<char, void (*)(void*)> text(
        abi::__cxa_demangle(value.type().name(), nullptr, nullptr, &status), std::free);
    throw JitError(std::string("JIT return contains non-Tensor value of type ") +
                   (status == 0 ? text.get() : value.type().name()) +
                   "; it would be that of the capture for ever");
  }
}

} // namespace detail
} // namespace tolk
