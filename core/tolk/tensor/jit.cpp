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
#include "tolk/tensor/pending.h"
#include "tolk/uop/build.h"
#include "tolk/uop/storage_ref.h"
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

// A captured function at storage level.
class JitState {
public:
  using Keep = std::function<std::any(const JitCall::Visit&)>;

  explicit JitState(JitOptions options) : wait(options.wait), function(make(std::move(options))) {}
  explicit JitState(std::shared_ptr<const engine::Capture> captured)
      : compares_deep(false), function({.captured = std::move(captured)}) {}
  JitState(const JitState&) = delete; // the function refers to it
  JitState& operator=(const JitState&) = delete;

  bool wait = false;
  bool compares_deep = true; // a file does not say which tensors were deep
  std::vector<UOp> captured_deep;
  engine::Function function;
  // Of the call that is going on.
  const std::function<void()>* run = nullptr;
  const Keep* keep = nullptr;

private:
  engine::FunctionOptions make(JitOptions options);
};

struct JitCall::Data {
  engine::Function::Claim claim; // first: the rest of the call belongs to the thread that holds it
  uint64_t since = 0;            // version of the first write that belongs to the call
  engine::JitInputs inputs = {};
  int position = 0;
  std::vector<Tensor> positional = {}, contained = {}, deep = {}; // at depth 0, 1, and more
  std::vector<int> positions = {};                                // of `positional`
  std::map<std::string, Tensor> named = {};
  std::vector<SInt> sizes = {};

  // Nodes of the tensors below the first level.
  std::vector<UOp> deep_nodes() const {
    std::vector<UOp> out;
    for (const Tensor& t : deep) out.push_back(without_states(schedule::realized_form(t.node())));
    return out;
  }
};

namespace {

StorageRef storage_under(const Tensor& t) {
  return storage_ref(t.node(), Through::States | Through::Pads, schedule::realized_form);
}
bool has_storage(const Tensor& t) {
  StorageRef ref = storage_under(t);
  return ref.base && ref.base.is(Op::BUFFER);
}

JitError constant_input(size_t i) {
  return JitError(
      "input " + std::to_string(i) +
      " is a constant, which kernels would contain as it is now. JIT inputs must be real buffers; "
      "use .clone()");
}

// A value is a constant when no storage is below it.
bool is_constant(const Tensor& t) { return t.device().empty(); }

void set_value(engine::VarVals& values, const UOp& bound) {
  const std::string& name = var_name(bound.src(0));
  int64_t value = bound.src(1).const_int();
  if (auto [it, fresh] = values.emplace(name, value); !fresh && it->second != value)
    throw JitError("conflicting values for JIT var " + name + ": " + std::to_string(it->second) + " and " +
                   std::to_string(value));
}

// The input as a view of its storage, which is null when the value is computed; the values that its variables are
// bound to go to `values`.
engine::JitInput described(const Tensor& t, engine::VarVals& values) {
  engine::JitInput out;
  StorageRef ref = storage_under(t);
  if (!ref.base || !ref.base.is(Op::BUFFER)) return out;
  out.storage = ref.base;
  UOp view = with_views(ref.views, ref.below);
  UOpMap map;
  map[out.storage] = param_node(0, out.storage.dtype(), elements_of(out.storage));
  std::set<std::string> names;
  if (view.has(kHasVar))
    for (const UOp& u : toposort(view))
      if (u.is(Op::BIND)) {
        set_value(values, u);
        names.insert(var_name(u.src(0)));
        map[u] = UOp(u.src(0));
      }
  out.view = substitute(view, map);
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

// Puts PARAM k in place of the storage of input k in a result that is an input or a view of one, since a capture keeps
// one result for all calls.
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
  UOp place = below(tensor.node(), ops::View | OpSet(Op::PAD, Op::AFTER, Op::SLICE));
  if (!place.is(Op::PARAM)) return;
  tensor = Tensor(substitute(tensor.node(), {{place, inputs.inputs.at(size_t(slot_of(place))).storage}}));
}

} // namespace

engine::FunctionOptions JitState::make(JitOptions options) {
  engine::FunctionOptions out;
  out.device = std::move(options.device), out.to_program = std::move(options.to_program);
  out.prune = options.prune, out.hold_reachable = true;
  out.function = [this](const engine::JitInputs&) {
    (*run)();
    return std::any();
  };
  out.kept = [this](const std::any&, const engine::JitInputs& inputs, std::vector<size_t>& returned) {
    return (*keep)([&](Tensor& t) { take_input_out(t, inputs, returned); });
  };
  return out;
}

JitCall::JitCall(JitState& state) : state_(state), data_(new Data{.claim = state.function.claim()}) {
  // Before the function, so that they are no part of it.
  data_->since = realize_what_can_be();
  if (const auto& replay = state.function.replay()) realize_pending_on(replay->capture().storage());
}
JitCall::~JitCall() = default;

void JitCall::tensor(const Tensor& value, int depth) {
  if (!value.defined()) return;
  (depth == 0 ? data_->positional : depth == 1 ? data_->contained : data_->deep).push_back(value);
  if (depth == 0) data_->positions.push_back(data_->position);
}

void JitCall::arguments(const Arguments& value, int depth) {
  for (const Tensor& t : value.positional()) {
    tensor(t, depth == 0 ? 0 : depth + 1);
    if (depth == 0) next();
  }
  for (const auto& [name, t] : value.named()) {
    if (depth > 0)
      tensor(t, depth + 1);
    else if (t.defined() && !data_->named.emplace(name, t).second)
      throw InvalidArgument("argument " + name + " is given twice in one call");
  }
}

void JitCall::size(const SInt& value) { data_->sizes.push_back(value); }
void JitCall::next() { ++data_->position; }

const std::any* JitCall::call(const std::function<void()>& run, const JitState::Keep& keep) {
  prepare();
  engine::Function& function = state_.function;
  state_.run = &run, state_.keep = &keep;
  bool captures = function.phase() == engine::Phase::Capture;
  bool ran = function.call(data_->claim, data_->inputs, engine::known_storage, {}, state_.wait).ran;
  if (captures && function.phase() == engine::Phase::Exec) state_.captured_deep = data_->deep_nodes();
  return ran ? nullptr : &function.replay()->capture().value();
}

void JitCall::realize(const std::vector<Tensor*>& tensors) const {
  std::vector<Tensor> values;
  std::vector<Tensor*> defined;
  for (Tensor* t : tensors)
    if (t->defined()) values.push_back(*t), defined.push_back(t);
  realize_with_pending(values, data_->since);
  for (size_t i = 0; i < values.size(); ++i) *defined[i] = values[i];
}

void JitCall::finish(Tensor& tensor) const {
  put_input_in(tensor, data_->inputs);
  if (!data_->inputs.var_vals.empty()) rebind(tensor, data_->inputs.var_vals);
}

void JitCall::prepare() {
  engine::JitInputs& out = data_->inputs;
  std::vector<Tensor> inputs = std::move(data_->positional);
  out.names.assign(data_->positions.begin(), data_->positions.end());
  for (const auto& [name, t] : data_->named) out.names.emplace_back(name), inputs.push_back(t);
  for (const Tensor& t : data_->contained)
    if (std::none_of(inputs.begin(), inputs.end(), [&](const Tensor& i) { return i.node() == t.node(); }))
      inputs.push_back(t);
  for (size_t i = 0; i < inputs.size(); ++i)
    if (is_constant(inputs[i])) throw constant_input(i);
  for (const SInt& size : data_->sizes) {
    if (size.is_const() || !size.uop().is(Op::BIND))
      throw JitError("JIT vars must be bound variables: give Variable::bind(value), not " + to_string(size));
    set_value(out.var_vals, size.uop());
  }
  if (state_.compares_deep && state_.function.phase() == engine::Phase::Exec &&
      data_->deep_nodes() != state_.captured_deep)
    throw JitError(
        "a tensor that is nested more than one level deep in an argument is not the one that the "
        "capture saw, and only tensors in the arguments themselves and one level below are inputs; "
        "pass it less deep");

  std::vector<Tensor> lazy;
  for (const Tensor& t : inputs)
    if (!has_storage(t)) lazy.push_back(t);
  if (!lazy.empty()) Tensor::realize(lazy);
  std::set<const UOpNode*> seen;
  for (size_t i = 0; i < inputs.size(); ++i) {
    out.inputs.push_back(described(inputs[i], out.var_vals));
    const UOp& storage = out.inputs.back().storage;
    if (!storage) throw constant_input(i);
    if (!seen.insert(storage.node()).second)
      throw JitError("duplicate inputs to JIT: input " + std::to_string(i) +
                     " shares its storage with an earlier one; pass a clone()");
    // Storage that nothing was written to yet is real storage too.
    engine::any_buffer_of(storage);
  }
}

std::shared_ptr<JitState> jit_state(JitOptions options) {
  return std::make_shared<JitState>(std::move(options));
}
std::shared_ptr<JitState> jit_state(std::shared_ptr<const engine::Capture> captured) {
  return std::make_shared<JitState>(std::move(captured));
}
void reset(JitState& state) { state.function.reset(); }
engine::Phase phase(const JitState& state) { return state.function.phase(); }
int cnt(const JitState& state) { return state.function.cnt(); }
std::shared_ptr<const engine::Capture> captured(const JitState& state) { return state.function.captured(); }
std::shared_ptr<engine::Replay> replay(const JitState& state) { return state.function.replay(); }

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
