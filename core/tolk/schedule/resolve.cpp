#include "tolk/schedule/resolve.h"

#include <map>
#include <unordered_map>

#include "tolk/base/error.h"
#include "tolk/uop/build.h"
#include "tolk/uop/storage_ref.h"
#include "tolk/uop/traverse.h"

namespace tolk::schedule {
namespace {

// The storage and variables of one call of a list.
class Scope {
public:
  std::vector<UOp> arguments;
  std::map<std::string, UOp> variables; // p<k>

  // What an argument of one of the list's calls means.
  UOp argument(const UOp& u) {
    if (u.is(Op::VAR)) {
      auto it = variables.find(var_name(u));
      return it == variables.end() ? u : fitting(u, it->second);
    }
    if (u.nsrc() == 0 && !u.is(ops::Storage)) return u;
    if (auto it = known_.find(u.node()); it != known_.end()) return it->second;
    UOp result = storage(u);
    known_[u.node()] = result;
    return result;
  }

  // The kernel over the variables that p<k> stand for.
  UOp kernel(const UOp& body) const {
    if (variables.empty() || !body.has(kHasVar)) return body;
    UOpMap map;
    for (const UOp& u : toposort(body, [](const UOp& n) { return n.has(kHasVar); }))
      if (u.is(Op::VAR))
        if (auto it = variables.find(var_name(u)); it != variables.end())
          map.emplace(u, fitting(u, it->second));
    return map.empty() ? body : substitute(body, map);
  }

private:
  UOp storage(const UOp& u) {
    if (u.is(Op::PARAM)) return given(slot_of(u));
    if (u.is(Op::BUFFER))
      return buffer_node(fresh_internal_slot(), u.dtype(), elements_of(u), device_text(u));
    if (u.is(Op::SLICE)) return slice_over(u, argument(u.src(0)));
    std::vector<UOp> src;
    for (const UOp& s : u.src()) src.push_back(argument(s));
    return with_sources(u, src);
  }

  const UOp& given(int64_t k) const {
    if (k < 0 || size_t(k) >= arguments.size())
      throw InvalidArgument("PARAM " + std::to_string(k) + " has no argument: the call gives " +
                            std::to_string(arguments.size()));
    const UOp& u = arguments[size_t(k)];
    if (u.is(Op::VAR))
      throw InvalidArgument("PARAM " + std::to_string(k) + " is storage, and the call gives the variable " +
                            var_name(u));
    return u;
  }

  static const UOp& fitting(const UOp& parameter, const UOp& given) {
    if (given.vmin() < parameter.vmin() || given.vmax() > parameter.vmax())
      throw InvalidArgument("variable " + var_name(given) + " in " + std::to_string(given.vmin()) + ".." +
                            std::to_string(given.vmax()) + " is given for " + var_name(parameter) +
                            ", whose bounds are " + std::to_string(parameter.vmin()) + ".." +
                            std::to_string(parameter.vmax()));
    return given;
  }

  std::unordered_map<const UOpNode*, UOp> known_;
};

class Inliner {
public:
  // Null scope: the storage that the list names is its own.
  void list(const UOp& linear, Scope* scope) {
    for (const UOp& u : linear.src()) {
      const UOp* at = &u;
      while (at->is(Op::END)) at = &at->src(0);
      if (at->is(Op::LINEAR))
        list(*at, scope);
      else if (at->is(Op::CALL))
        call(*at, scope);
      else
        throw InvalidArgument(std::string("a LINEAR holds CALLs and LINEARs, not ") + name(at->op()));
    }
  }

  std::vector<UOp> calls;

private:
  void call(const UOp& u, Scope* scope) {
    const UOp& body = u.src(0);
    bool kernel = !body.is(Op::LINEAR);
    if (kernel && !scope) return calls.push_back(u);
    std::vector<UOp> src;
    if (kernel) src.push_back(scope->kernel(body));
    for (const UOp& a : u.src().subspan(1)) src.push_back(scope ? scope->argument(a) : a);
    if (kernel) return calls.push_back(with_sources(u, src));
    Scope inner;
    if (scope) inner.variables = scope->variables;
    for (size_t k = 0; k < src.size(); ++k)
      if (src[k].is(Op::VAR)) inner.variables["p" + std::to_string(k)] = src[k];
    inner.arguments = std::move(src);
    list(body, &inner);
  }
};

// A movement chain over storage, with bound sizes.
UOp result_of(const UOp& u, Scope& scope, const UOpMap& binds) {
  std::vector<const UOp*> chain;
  const UOp* at = &u;
  for (; !at->is(ops::Storage); at = &at->src(0)) chain.push_back(at);
  UOp result = scope.argument(*at);
  std::vector<UOp> src;
  for (size_t i = chain.size(); i-- > 0;) {
    src.assign({result});
    for (const UOp& size : chain[i]->src().subspan(1))
      src.push_back(size.has(kHasVar) ? substitute(size, binds) : size);
    result = make(chain[i]->op(), chain[i]->dtype(), src, chain[i]->arg());
  }
  return result;
}

} // namespace

Schedule resolve(const Template& shared, const Parametrized& call) {
  Scope scope;
  scope.arguments = call.arguments;
  for (const UOp& out : shared.outputs)
    scope.arguments.push_back(
        buffer_node(fresh_user_slot(), out.dtype(), elements_of(out), device_text(out)));
  Schedule out;
  std::vector<UOp> calls, src;
  calls.reserve(shared.linear.nsrc());
  for (const UOp& item : shared.linear.src()) {
    src.assign({item.src(0)});
    for (const UOp& a : item.src().subspan(1)) src.push_back(scope.argument(a));
    calls.push_back(with_sources(item, src));
  }
  out.linear = linear(calls);
  UOpMap binds;
  for (const UOp& bind : call.binds) binds[bind.src(0)] = bind;
  for (const UOp& result : shared.results) out.results.push_back(result_of(result, scope, binds));
  for (const std::string& name : shared.variables)
    if (auto it = call.vars.find(name); it != call.vars.end()) out.vars.insert(*it);
  return out;
}

std::vector<UOp> inline_functions(const UOp& linear) {
  Inliner inliner;
  inliner.list(linear, nullptr);
  return std::move(inliner.calls);
}

} // namespace tolk::schedule
