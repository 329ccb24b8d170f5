// The rest of kernel_graph.h: SINKs to LINEARs, and calls of LINEARs written out.
#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tolk/base/config.h"
#include "tolk/base/error.h"
#include "tolk/schedule/cache.h"
#include "tolk/schedule/fuse/access.h"
#include "tolk/schedule/order/kernel_graph.h"
#include "tolk/uop/build.h"
#include "tolk/uop/key.h"
#include "tolk/uop/spec.h"
#include "tolk/uop/traverse.h"

namespace tolk::schedule {
namespace {

bool is_tensor_sink(const UOp& u) { return u.is(Op::SINK) && u.arg() == Arg(); }

// The graph with its variables unbound.
UOp without_values(const UOp& root) {
  UOpMap unbound;
  for (const UOp& u : toposort(root))
    if (u.is(Op::BIND)) unbound.emplace(u, u.src(0));
  return unbound.empty() ? root : substitute(root, unbound);
}

// What is made on the way to a LINEAR and may be kept once everything went well.
class Lowering {
public:
  explicit Lowering(const GetKernelGraph& get_kernel_graph) : get_kernel_graph_(get_kernel_graph) {}

  UOp lowered(const UOp& sink) {
    auto begin = std::chrono::steady_clock::now();
    UOp plain = without_values(sink);
    bool cached = Config::current().schedule_cache != 0;
    ContentKey key = graph_key(plain);
    UOp list;
    if (cached) list = find(key, plain);
    bool hit = bool(list);
    if (!hit) {
      verify_stage(plain, Stage::TensorGraph);
      list = schedule_kernel_graph(with_lowered_bodies(get_kernel_graph_(plain)));
      if (cached) made_.push_back({key, {plain, list}});
    }
    double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    log_scheduled(list.nsrc(), ms, hit, key);
    return list;
  }

  // Every CALL of a tensor-level SINK, anywhere, as a CALL of its LINEAR.
  UOp with_lowered_bodies(const UOp& root) {
    UOpMap done;
    // Kernels and lists are final; the body of a call is lowered by itself, which sees to what is inside.
    auto enter = [&](const UOp& u) {
      return u == root || !u.is(OpSet(Op::SINK, Op::LINEAR, Op::PROGRAM, Op::CUSTOM_FUNCTION));
    };
    std::vector<UOp> src;
    for (const UOp& u : toposort(root, enter)) {
      if (!enter(u)) continue;
      src.clear();
      bool changed = false;
      for (const UOp& s : u.src()) {
        auto it = done.find(s);
        src.push_back(it == done.end() ? s : it->second);
        changed |= src.back() != s;
      }
      if (u.is(Op::CALL) && is_tensor_sink(u.src(0))) src[0] = lowered(u.src(0)), changed = true;
      if (changed) done.emplace(u, with_sources(u, src));
    }
    auto it = done.find(root);
    return it == done.end() ? root : it->second;
  }

  void keep() {
    for (auto& [key, lowered] : made_) keep_lowered(key, std::move(lowered));
    made_.clear();
  }

private:
  UOp find(const ContentKey& key, const UOp& plain) const {
    for (const auto& [k, lowered] : made_)
      if (k == key) return lowered.linear;
    return find_lowered(key, plain);
  }

  const GetKernelGraph& get_kernel_graph_;
  std::vector<std::pair<ContentKey, LoweredSink>> made_;
};

const UOp& variable_of(const UOp& scalar) { return scalar.is(Op::BIND) ? scalar.src(0) : scalar; }
bool is_scalar(const UOp& u) { return u.is(OpSet(Op::BIND, Op::VAR)); }

// The BUFFERs below views, states and values on several devices.
void add_buffers(const UOp& u, std::vector<UOp>& out) {
  const UOp* at = &u;
  while (!at->is(OpSet(Op::BUFFER, Op::MSTACK)) && at->nsrc() > 0 && !is_scalar(*at)) at = &at->src(0);
  if (at->is(Op::BUFFER)) out.push_back(*at);
  if (at->is(Op::MSTACK))
    for (const UOp& s : at->src()) add_buffers(s, out);
}

// Calls of LINEARs written out, inner ones inside outer ones.
class Resolver {
public:
  // Storage of the outermost list that stays what it is: what is `named`, and what has a user slot; all of it
  // when the caller made the list (`as_given`).
  Resolver(std::vector<UOp> named, bool as_given) : named_(std::move(named)), as_given_(as_given) {}

  std::vector<UOp> run(const UOp& root) {
    Scope outermost;
    outermost.is_call = false;
    if (root.is(Op::CALL))
      item(root, outermost);
    else
      list(root, outermost);
    return std::move(calls_);
  }

private:
  struct Scope {
    bool is_call = true; // of a LINEAR: has arguments
    std::vector<UOp> arguments;
    std::map<std::string, UOp> scalars; // p<k>
    UOpMap fresh;                       // storage of the body
  };

  void list(const UOp& linear, Scope& scope) {
    for (const UOp& u : linear.src()) {
      const UOp* at = &u;
      while (at->is(Op::END)) at = &at->src(0);
      if (at->is(Op::LINEAR))
        list(*at, scope);
      else
        item(*at, scope);
    }
  }

  void item(const UOp& call, Scope& scope) {
    if (!call.is(Op::CALL))
      throw InvalidArgument(std::string("a LINEAR holds CALLs and LINEARs, not ") + name(call.op()));
    std::vector<UOp> arguments;
    for (const UOp& a : call.src().subspan(1)) arguments.push_back(argument(a, scope));
    const UOp& body = call.src(0);
    if (body.is(Op::LINEAR)) {
      Scope inner;
      inner.scalars = scope.scalars;
      for (size_t k = 0; k < arguments.size(); ++k)
        if (is_scalar(arguments[k])) inner.scalars["p" + std::to_string(k)] = variable_of(arguments[k]);
      inner.arguments = std::move(arguments);
      list(body, inner);
      return;
    }
    arguments.insert(arguments.begin(), kernel(body, scope));
    calls_.push_back(with_sources(call, arguments));
  }

  UOp argument(const UOp& u, Scope& scope) {
    if (u.is(Op::PARAM) && slot_of(u) >= 0) {
      if (!scope.is_call) return u;
      auto k = uint64_t(slot_of(u));
      if (k >= scope.arguments.size())
        throw InvalidArgument("PARAM " + std::to_string(k) + " has no argument: the call gives " +
                              std::to_string(scope.arguments.size()));
      const UOp& given = scope.arguments[k];
      if (is_scalar(given))
        throw InvalidArgument("PARAM " + std::to_string(k) + " is storage, and the call gives the variable " +
                              var_name(variable_of(given)));
      return given;
    }
    if (u.is(Op::VAR)) {
      auto it = scope.scalars.find(var_name(u));
      return it == scope.scalars.end() ? u : fitting(u, it->second);
    }
    if (u.is(Op::BUFFER)) {
      if (!scope.is_call && (as_given_ || slot_of(u) >= 0 || std::ranges::count(named_, u) > 0)) return u;
      UOp& fresh = scope.fresh[u];
      if (!fresh) fresh = buffer_node(fresh_internal_slot(), u.dtype(), elements_of(u), device_text(u));
      return fresh;
    }
    if (u.is(OpSet(Op::BIND, Op::CONST)) || u.nsrc() == 0) return u;
    std::vector<UOp> src;
    for (const UOp& s : u.src()) src.push_back(argument(s, scope));
    if (u.is(Op::SLICE)) return slice_over(with_sources(u, src), src[0]);
    return with_sources(u, src);
  }

  // The kernel over the variables that the scope's p<k> stand for.
  static UOp kernel(const UOp& body, const Scope& scope) {
    if (scope.scalars.empty() || !body.has(kHasVar)) return body;
    UOpMap map;
    for (const UOp& u : toposort(body, [](const UOp& n) { return n.has(kHasVar); }))
      if (u.is(Op::VAR))
        if (auto it = scope.scalars.find(var_name(u)); it != scope.scalars.end())
          map.emplace(u, fitting(u, it->second));
    return map.empty() ? body : substitute(body, map);
  }

  static UOp fitting(const UOp& parameter, const UOp& given) {
    if (given.vmin() < parameter.vmin() || given.vmax() > parameter.vmax())
      throw InvalidArgument("variable " + var_name(given) + " in " + std::to_string(given.vmin()) + ".." +
                            std::to_string(given.vmax()) + " is given for " + var_name(parameter) +
                            ", whose bounds are " + std::to_string(parameter.vmin()) + ".." +
                            std::to_string(parameter.vmax()));
    return given;
  }

  std::vector<UOp> named_, calls_;
  bool as_given_;
};

std::vector<UOp> storage_arguments(const UOp& call) {
  std::vector<UOp> out;
  for (const UOp& a : call.src().subspan(1))
    if (is_storage_argument(a)) out.push_back(a);
  return out;
}

// Kernels on one device each; copies made of those that move values between two.
void settle_devices(std::vector<UOp>& calls) {
  for (UOp& call : calls) {
    if (!call.src(0).is(OpSet(Op::SINK, Op::PROGRAM))) continue;
    std::vector<UOp> arguments = storage_arguments(call);
    std::vector<std::string> devices;
    for (const UOp& a : arguments)
      if (std::string d = device_of(a); !d.empty() && std::ranges::count(devices, d) == 0)
        devices.push_back(std::move(d));
    if (devices.size() < 2) continue;
    if (arguments.size() == 2)
      if (UOp copy = copy_of_kernel(call.src(0), device_of(arguments[0]))) {
        call = tolk::call(copy, arguments);
        continue;
      }
    std::string all;
    for (const std::string& d : devices) all += (all.empty() ? "" : ", ") + d;
    throw InvalidArgument("all buffers must be on the same device: [" + all +
                          "]; only a kernel that copies one buffer to another may be on two");
  }
}

// Names of the variables that kernels use, below bodies of bodies too.
std::set<std::string> used_variables(const std::vector<UOp>& calls) {
  std::set<std::string> names;
  std::vector<UOp> bodies;
  for (const UOp& c : calls)
    if (c.src(0).has(kHasVar)) bodies.push_back(c.src(0));
  for (const UOp& u : toposort(bodies, [](const UOp& n) { return n.has(kHasVar); }))
    if (u.is(Op::VAR)) names.insert(var_name(u));
  return names;
}

VarVals bound_values(const UOp& root, const std::set<std::string>& used) {
  VarVals vars;
  for (const UOp& u : toposort(root)) {
    if (!u.is(Op::BIND) || !used.contains(var_name(u.src(0)))) continue;
    const UOp& var = u.src(0);
    int64_t value = u.src(1).const_int();
    if (value < var.vmin() || value > var.vmax())
      throw InvalidArgument("variable " + var_name(var) + " is bound to " + std::to_string(value) +
                            ", outside its bounds " + std::to_string(var.vmin()) + ".." +
                            std::to_string(var.vmax()));
    auto [it, fresh] = vars.emplace(var_name(var), value);
    if (!fresh && it->second != value)
      throw InvalidArgument("bind mismatch on " + var_name(var) + ", " + std::to_string(it->second) +
                            " != " + std::to_string(value));
  }
  return vars;
}

// Whether the values of `index`, a sum of loop variables times constants, are 0 .. elements-1, each once.
bool counts_through(const UOp& index, std::span<const UOp> loops, int64_t elements) {
  std::vector<UOp> terms{index};
  std::vector<std::pair<int64_t, int64_t>> strides; // stride, extent
  std::vector<UOp> met;
  for (size_t i = 0; i < terms.size(); ++i) {
    UOp t = terms[i];
    int64_t factor = 1;
    if (t.is(Op::ADD)) {
      terms.push_back(t.src(0)), terms.push_back(t.src(1));
      continue;
    }
    if (t.is_const_int(0)) continue;
    if (t.is(Op::MUL) && t.src(1).is_const()) factor = t.src(1).const_int(), t = t.src(0);
    if (!t.is(Op::RANGE) || !t.src(0).is_const() || std::ranges::count(met, t) > 0) return false;
    met.push_back(t);
    strides.emplace_back(factor, t.src(0).const_int());
  }
  if (met.size() != loops.size()) return false;
  std::ranges::sort(strides);
  int64_t next = 1;
  for (auto [stride, extent] : strides) {
    if (stride != next || __builtin_mul_overflow(next, extent, &next)) return false;
  }
  return next == elements;
}

} // namespace

UOp copy_of_kernel(const UOp& kernel, const std::string& device) {
  const UOp& sink = kernel.is(Op::PROGRAM) ? kernel.src(0) : kernel;
  if (!sink.is(Op::SINK) || sink.nsrc() != 1) return {};
  std::vector<UOp> loops;
  const UOp* effect = &sink.src(0);
  for (; effect->is(Op::END); effect = &effect->src(0))
    loops.insert(loops.end(), effect->src().begin() + 1, effect->src().end());
  if (!effect->is(Op::STORE) || effect->nsrc() != 3) return {};
  const UOp &to = effect->src(0), &value = effect->src(2);
  if (!value.is(Op::LOAD) || value.nsrc() != 2) return {};
  const UOp& from = value.src(0);
  bool whole = to.is(Op::PARAM) && from.is(Op::PARAM) && slot_of(to) == 0 && slot_of(from) == 1 &&
               elements_of(to) == elements_of(from) && value.src(1) == effect->src(1);
  if (!whole || !counts_through(effect->src(1), loops, elements_of(to))) return {};
  return copy_to(from, device);
}

std::optional<UOp> lower_sink_to_linear(const GetKernelGraph& get_kernel_graph, const UOp& sink) {
  if (!is_tensor_sink(sink)) return {};
  Lowering lowering(get_kernel_graph);
  UOp list = lowering.lowered(sink);
  lowering.keep();
  return list;
}

LinearWithVars create_linear_with_vars(const GetKernelGraph& get_kernel_graph, const UOp& root,
                                       const LinearOptions& options) {
  Lowering lowering(get_kernel_graph);
  std::vector<UOp> named; // by the caller
  UOp lowered = root;
  if (is_tensor_sink(root)) {
    for (const UOp& u : root.src()) add_buffers(u, named);
    lowered = lowering.lowered(root);
  } else if (root.is(Op::CALL)) {
    for (const UOp& a : root.src().subspan(1)) add_buffers(a, named);
    lowered = lowering.with_lowered_bodies(root);
  }
  const UOp& result = lowered.is(Op::CALL) ? lowered.src(0) : lowered;
  if (!result.is(Op::LINEAR))
    throw InvalidArgument(
        std::string("expected LINEAR, got ") + name(result.op()) +
        ": only a tensor-level SINK and a call of one or of a LINEAR become a list of calls");
  std::vector<UOp> calls = Resolver(named, root.is(Op::LINEAR)).run(lowered);
  settle_devices(calls);
  LinearWithVars out;
  out.linear = linear(calls);
  out.vars = bound_values(root, used_variables(calls));
  verify_stage(out.linear, Stage::KernelGraph);
  lowering.keep();
  if (options.capture && options.capture(out.linear, out.vars)) {
    out.linear = linear({});
    return out;
  }
  if (options.memory_plan) out.linear = plan_memory(out.linear, named, nullptr, options.view_limits);
  return out;
}

} // namespace tolk::schedule
