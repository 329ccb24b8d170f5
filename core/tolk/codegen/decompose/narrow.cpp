// Dtypes without arithmetic on the target, and float functions of small floats: the operation is done in a
// wider type and its result rounded once.
#include "tolk/codegen/decompose/decompose.h"
#include "tolk/codegen/lower/fold.h"
#include "tolk/uop/build.h"

namespace tolk::codegen {
namespace {

constexpr OpSet kMoves{Op::CAST, Op::BITCAST, Op::WHERE};

bool small_float(DType t) { return is_float(t) && bits(t) < 32; }

// The type to compute in; the dtype itself when it will do.
DType computing_type(DType t, const Target& target, bool missing_function) {
  bool widen = !target.computes(t) || (missing_function && small_float(t));
  if (!widen || t == DType::Index || is_bool(t)) return t;
  if (is_float(t)) return bits(t) < 32 ? DType::F32 : t;
  if (bits(t) >= 32) return t;
  return is_signed(t) ? DType::I32 : DType::U32;
}

UOp wider(const Match& m) {
  const UOp& u = *m.root;
  const Target& target = m.ctx<Target>();
  if (kMoves.has(u.op())) return {};
  DType from = u.src(0).dtype();
  DType to = computing_type(from, target, ops::FloatFunction.has(u.op()) && !target.has(u.op()));
  if (to == from) return {};
  std::vector<UOp> src;
  for (const UOp& s : u.src()) src.push_back(cast(s, to));
  bool compares = ops::Compare.has(u.op());
  UOp r = make(u.op(), compares ? DType::BOOL : to, src, u.arg(), u.lanes());
  return compares ? r : cast(r, from);
}

// A sum of small values is kept in the wider type until its end.
UOp wider_reduction(const Match& m) {
  const UOp& u = *m.root;
  DType to = computing_type(u.dtype(), m.ctx<Target>(), false);
  if (to == u.dtype()) return {};
  std::vector<UOp> values;
  for (const UOp& v : values_of(u)) values.push_back(cast(v, to));
  return cast(accumulation(reduce_op(u), values, loops_of(u)), u.dtype());
}

} // namespace

std::vector<Rule> narrow_rules() {
  using namespace pat;
  return {
      {"wider", op(ops::Elementwise), wider},
      {"wider_reduction", op(Op::REDUCE), wider_reduction},
  };
}

} // namespace tolk::codegen
