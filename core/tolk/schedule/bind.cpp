#include "tolk/schedule/bind.h"

#include <unordered_map>

#include "tolk/uop/build.h"
#include "tolk/uop/traverse.h"

namespace tolk::schedule {
namespace {

class Binder {
public:
  explicit Binder(const Template& schedule, const Callified& call) : schedule_(schedule), call_(call) {
    for (const UOp& out : schedule.outputs)
      bound_[out.node()] = buffer_node(fresh_user_slot(), out.dtype(), elements_of(out), device_text(out));
    for (const UOp& bind : call.binds) variables_[bind.src(0)] = bind;
  }

  Schedule run() {
    Schedule out;
    std::vector<UOp> calls, src;
    calls.reserve(schedule_.linear.nsrc());
    for (const UOp& item : schedule_.linear.src()) {
      src.assign({item.src(0)});
      for (const UOp& argument : item.src().subspan(1)) src.push_back(storage(argument));
      calls.push_back(with_sources(item, src));
    }
    out.linear = linear(calls);
    for (const UOp& result : schedule_.results) out.results.push_back(value(result));
    for (const std::string& name : schedule_.variables)
      if (auto it = call_.vars.find(name); it != call_.vars.end()) out.vars.insert(*it);
    return out;
  }

private:
  UOp storage(const UOp& u) {
    if (auto it = bound_.find(u.node()); it != bound_.end()) return it->second;
    UOp result;
    if (u.is(Op::PARAM)) {
      result = call_.arguments[size_t(slot_of(u))];
    } else if (u.is(Op::BUFFER)) {
      result = buffer_node(fresh_internal_slot(), u.dtype(), elements_of(u), device_text(u));
    } else if (u.is(OpSet(Op::MSELECT, Op::MSTACK))) {
      std::vector<UOp> src;
      for (const UOp& s : u.src()) src.push_back(storage(s));
      result = with_sources(u, src);
    } else {
      UOp base = storage(u.src(0));
      int64_t offset = u.arg().i(0);
      if (base.is(Op::SLICE)) offset += base.arg().i(0), base = base.src(0);
      result = slice_node(base, u.dtype(), offset, elements_of(u));
    }
    bound_[u.node()] = result;
    return result;
  }

  // A movement chain over storage, with bound sizes.
  UOp value(const UOp& u) {
    std::vector<const UOp*> chain;
    const UOp* at = &u;
    for (; !at->is(ops::Storage); at = &at->src(0)) chain.push_back(at);
    UOp result = storage(*at);
    std::vector<UOp> src;
    for (size_t i = chain.size(); i-- > 0;) {
      src.assign({result});
      for (const UOp& size : chain[i]->src().subspan(1))
        src.push_back(size.has(kHasVar) ? substitute(size, variables_) : size);
      result = make(chain[i]->op(), chain[i]->dtype(), src, chain[i]->arg());
    }
    return result;
  }

  const Template& schedule_;
  const Callified& call_;
  std::unordered_map<const UOpNode*, UOp> bound_;
  UOpMap variables_;
};

} // namespace

Schedule bind_schedule(const Template& schedule, const Callified& call) {
  return Binder(schedule, call).run();
}

} // namespace tolk::schedule
