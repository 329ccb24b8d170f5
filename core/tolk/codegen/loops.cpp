#include "tolk/codegen/loops.h"

#include <algorithm>

#include "tolk/codegen/opt/ranges.h"
#include "tolk/uop/traverse.h"

namespace tolk::codegen {

namespace {

// The sum of `times` equal terms. The count and the product are rounded once each, where a loop of additions
// would drift by up to the count. Narrow floats cannot hold large counts, so theirs are multiplied in f32.
UOp multiplied(const UOp& term, const UOp& times) {
  DType dtype = term.dtype();
  if (!is_float(dtype)) return term * cast(times, dtype);
  DType wide = promote(dtype, DType::F32);
  // Minus zero plus minus zero is minus zero, but a sum starts with zero.
  UOp product = alu(Op::ADD, alu(Op::MUL, cast(term, wide), cast(times, wide)), zero_of(wide));
  return cast(product, dtype);
}

} // namespace

UOp drop_unused_loops(const UOp& ast) {
  if (!ast.has(kHasReduce)) return ast;
  UOpMap replaced;
  for (const UOp& u : toposort(ast)) {
    if (!u.is(Op::REDUCE)) continue;
    UOp now = substitute(u, replaced), times;
    Op op = reduce_op(u);
    std::vector<UOp> src{now.src(0)};
    for (const UOp& r : now.src().subspan(1)) {
      bool used = contains(now.src(0), r);
      for (const UOp& other : now.src().subspan(1)) used |= other != r && contains(other, r);
      bool repeats = op == Op::MAX || (op == Op::ADD && !is_bool(u.dtype()));
      if (used || !repeats || r.src(0).vmin() < 1)
        src.push_back(r);
      else if (op == Op::ADD)
        times = times ? times * r.src(0) : r.src(0);
    }
    if (src.size() == now.nsrc()) {
      if (now != u) replaced[u] = now;
      continue;
    }
    UOp rest = src.size() == 1 ? src[0] : with_sources(now, src);
    replaced[u] = times ? multiplied(rest, times) : rest;
  }
  return substitute(ast, replaced);
}

namespace {

// One merge of two loops of a list, or the AST as it was.
UOp merge_once(const UOp& ast) {
  for (const UOp& u : toposort(ast)) {
    if (!u.is(Op::END) && !u.is(Op::REDUCE)) continue;
    std::span<const UOp> list = u.src().subspan(1);
    for (size_t i = 0; i < list.size(); ++i)
      for (size_t j = 0; j < list.size(); ++j) {
        if (i == j || (u.is(Op::END) && j != i + 1)) continue;
        const UOp &a = list[i], &b = list[j];
        if (axis_type(a) != axis_type(b) || !a.src(0).is_const() || !b.src(0).is_const()) continue;
        bool together = true;
        for (const UOp& other : toposort(ast)) {
          if (!other.is(Op::END) && !other.is(Op::REDUCE)) continue;
          auto has = [&](const UOp& r) {
            return std::find(other.src().begin() + 1, other.src().end(), r) != other.src().end();
          };
          together &= has(a) == has(b);
        }
        if (!together) continue;
        UOp merged = range_node(a.src(0).const_int() * b.src(0).const_int(), axis_of(a), axis_type(a));
        if (UOp r = merge_ranges(ast, a, b, merged, true)) return r;
      }
  }
  return ast;
}

} // namespace

UOp merge_loops(const UOp& ast) {
  UOp now = ast;
  for (;;) {
    UOp next = merge_once(now);
    if (next == now) return now;
    now = next;
  }
}

} // namespace tolk::codegen
