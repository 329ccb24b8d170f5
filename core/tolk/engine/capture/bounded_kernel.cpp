#include "tolk/engine/capture/bounded_kernel.h"

#include <unordered_map>
#include <vector>

#include "tolk/uop/build.h"
#include "tolk/uop/storage_ref.h"
#include "tolk/uop/symbolic/symbolic.h"
#include "tolk/uop/traverse.h"

namespace tolk::engine {
namespace {

const OpSet kMemory(Op::PARAM, Op::DEFINE_LOCAL, Op::DEFINE_REG);

bool is_true(const UOp& u) { return u.is_const() && u.const_int() != 0; }

size_t gate_position(const UOp& access) { return access.is(Op::LOAD) ? 2 : 3; }
UOp gate_of(const UOp& access) {
  return access.nsrc() > gate_position(access) ? UOp(access.src(gate_position(access))) : UOp();
}

// The tests that the access still needs: null when it is proven to stay inside.
UOp missing_test(const UOp& access) {
  const UOp &memory = below(access.src(0), OpSet(Op::AFTER)), &index = access.src(1);
  int64_t elements = elements_of(memory);
  if (index.vmin() >= 0 && index.vmax() < elements) return {};
  UOp gate = gate_of(access), test;
  for (const UOp& part : {less(index_const(-1), index), less(index, index_const(elements))})
    if (!is_true(simplify_under(part, gate))) test = logical_and(test, part);
  return test;
}

UOp with_test(const UOp& access, std::vector<UOp> src, const UOp& test) {
  size_t at = gate_position(access);
  if (src.size() > at)
    src[at] = logical_and(src[at], test);
  else
    src.push_back(test);
  if (access.is(Op::LOAD) && src.size() == at + 1)
    src.push_back(constant(access.dtype(), int64_t{0}, access.lanes()));
  return with_sources(access, src);
}

} // namespace

UOp bounded_kernel(const UOp& sink) {
  std::unordered_map<UOp, UOp, UOpHash> tests;
  std::vector<UOp> nodes = toposort(sink);
  for (const UOp& u : nodes)
    if (u.is(OpSet(Op::LOAD, Op::STORE)) && below(u.src(0), OpSet(Op::AFTER)).is(kMemory))
      if (UOp test = missing_test(u)) tests.emplace(u, test);
  if (tests.empty()) return sink;
  UOpMap done;
  auto rebuilt = [&](const UOp& u) { return substitute(u, done); };
  for (const UOp& u : nodes) {
    auto test = tests.find(u);
    if (test == tests.end()) continue;
    std::vector<UOp> src;
    for (const UOp& s : u.src()) src.push_back(rebuilt(s));
    done[u] = with_test(u, std::move(src), rebuilt(test->second));
  }
  return rebuilt(sink);
}

} // namespace tolk::engine
