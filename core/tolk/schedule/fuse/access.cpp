#include "tolk/schedule/fuse/access.h"

#include <utility>

#include "tolk/uop/build.h"

namespace tolk::schedule {
namespace {

// The parameter below the AFTERs of an access; null for a kernel's own storage.
const UOp* parameter_of(const UOp& access) {
  const UOp* at = &access.src(0);
  while (at->is(Op::AFTER)) at = &at->src(0);
  return at->is(Op::PARAM) && slot_of(*at) >= 0 ? at : nullptr;
}

} // namespace

bool is_storage_argument(const UOp& argument) { return !argument.is(OpSet(Op::BIND, Op::VAR, Op::CONST)); }

AccessTable::Facts AccessTable::look(const UOp& body) {
  Facts facts;
  auto at = [&](int64_t argument) -> Access& {
    if (size_t(argument) >= facts.by_argument.size()) facts.by_argument.resize(size_t(argument) + 1);
    return facts.by_argument[size_t(argument)];
  };
  if (body.is(Op::COPY)) {
    facts.known = true;
    at(1).reads = true, at(0).writes = true;
    return facts;
  }
  const UOp& kernel = body.is(Op::PROGRAM) ? body.src(0) : body;
  if (!kernel.is(Op::SINK) || kernel.arg() == Arg()) return facts; // the SINK of a function has no KernelInfo
  seen_.clear();
  stack_.assign({&kernel});
  while (!stack_.empty()) {
    const UOp& u = *stack_.back();
    stack_.pop_back();
    if (std::exchange(seen_[u], 1)) continue;
    if (u.is(OpSet(Op::LOAD, Op::STORE)))
      if (const UOp* parameter = parameter_of(u)) {
        Access& access = at(slot_of(*parameter));
        (u.is(Op::LOAD) ? access.reads : access.writes) = true;
        facts.known |= u.is(Op::STORE); // a kernel without stores is opaque
      }
    for (const UOp& s : u.src())
      if (s.has(kHasLoad) || s.is(ops::Effect) || s.is(Op::AFTER)) stack_.push_back(&s);
  }
  return facts;
}

const AccessTable::Facts& AccessTable::of(const UOp& body) {
  uint32_t& number = number_[body];
  if (!number) {
    facts_.push_back(look(body));
    bodies_.push_back(body);
    number = uint32_t(facts_.size());
  }
  return facts_[number - 1];
}

} // namespace tolk::schedule
