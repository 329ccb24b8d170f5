#include "tolk/codegen/gates.h"

#include <algorithm>
#include <vector>

#include "tolk/uop/build.h"
#include "tolk/uop/traverse.h"

namespace tolk::codegen {
namespace {

// Each condition causes one traversal of what it guards.
constexpr int kMostConditions = 64;

void add_clauses(const UOp& gate, std::vector<UOp>& out) {
  if (gate.is(Op::AND) && is_bool(gate.dtype())) {
    add_clauses(gate.src(0), out);
    add_clauses(gate.src(1), out);
  } else {
    out.push_back(gate);
  }
}

bool implied(const UOp& gate, const std::vector<UOp>& known) {
  std::vector<UOp> clauses;
  add_clauses(gate, clauses);
  return std::all_of(clauses.begin(), clauses.end(),
                     [&](const UOp& c) { return std::find(known.begin(), known.end(), c) != known.end(); });
}

bool inside(const UOp& storage, const UOp& index) {
  return index.vmin() >= 0 && index.vmax() < elements_of(storage);
}

// `value` where `gate` is known to be true.
UOp under(const UOp& value, const UOp& gate) {
  std::vector<UOp> known;
  add_clauses(gate, known);
  UOpMap bare;
  for (const UOp& u : toposort(value, [](const UOp& n) { return n.has(kHasLoad); }))
    if (u.is(Op::LOAD) && u.nsrc() > 2 && inside(u.src(0), u.src(1)) && implied(u.src(2), known))
      bare[u] = load(u.src(0), u.src(1));
  return substitute(value, bare);
}

} // namespace

UOp drop_implied_gates(const UOp& ast) {
  if (!ast.has(kHasLoad)) return ast;
  Memo<UOp> done;
  std::vector<UOp> src;
  int conditions = 0;
  for (const UOp& u : toposort(ast)) {
    src.clear();
    bool changed = false;
    for (const UOp& s : u.src()) {
      src.push_back(*done.find(s));
      changed |= src.back() != s;
    }
    // The condition's own loads must stay as they are.
    bool guards = u.is(Op::WHERE) || (u.is(Op::STORE) && u.nsrc() > 3);
    size_t gate = u.is(Op::WHERE) ? 0 : 3, value = u.is(Op::WHERE) ? 1 : 2;
    if (guards && src[gate].has(kHasRange) && src[value].has(kHasLoad) && conditions < kMostConditions) {
      ++conditions;
      UOp pruned = under(src[value], src[gate]);
      changed |= pruned != src[value];
      src[value] = pruned;
    }
    done.set(u, changed ? with_sources(u, src) : u);
  }
  return *done.find(ast);
}

} // namespace tolk::codegen
