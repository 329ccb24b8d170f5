// Local folds: constants and identities.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tolk/dtype/scalar.h"
#include "tolk/uop/eval.h"
#include "tolk/uop/symbolic/rules.h"

namespace tolk::sym {
namespace {

using namespace pat;

bool integer(const UOp& u) { return is_integer(u); }
bool fixed_integer(const UOp& u) { return is_int(u.dtype()) && u.dtype() != DType::Index; }
bool number_type(const UOp& u) { return is_int(u.dtype()); }
bool all_ones(const UOp& u) { return is_integer(u) && scalar_of(u).i == wrap_to(u.dtype(), -1); }
bool float_value(const UOp& u, double value) {
  return is_float(u.dtype()) && u.const_float() == value &&
         std::signbit(u.const_float()) == std::signbit(value);
}
bool float_one(const UOp& u) { return float_value(u, 1); }
bool float_zero(const UOp& u) { return float_value(u, 0.0); }
bool float_minus_zero(const UOp& u) { return float_value(u, -0.0); }
bool float_lowest(const UOp& u) { return float_value(u, -std::numeric_limits<double>::infinity()); }
bool is_narrow(DType d) {
  return is_float(d) && bits(d) < 16;
} // arithmetic on these is the renderer's, not IEEE's

UOp first(const Match& m) { return m[0]; }
UOp zero(const Match& m) { return zero_of(m.root->dtype(), m.root->lanes()); }

UOp one_point(const Match& m) {
  const UOp& u = *m.root;
  if (u.vmin() != u.vmax() || !is_integer(u)) return {};
  // The largest int64 stands for "unknown" where values reach beyond it.
  if (u.vmin() == INT64_MAX || u.vmin() == INT64_MIN) return {};
  return constant(u.dtype(), u.vmin(), u.lanes());
}

UOp fold(const Match& m) {
  const UOp& u = *m.root;
  if (!OpSet(Op::CONST).contains(u.node()->src_ops)) return {};
  return fold_constants(u.op(), u.dtype(), u.src());
}

// Constants stand on the right of commutative ops: one pattern order serves every rule below.
UOp constant_right(const Match& m) {
  const UOp& u = *m.root;
  if (!u.src(0).is_const() || u.src(1).is_const()) return {};
  return make(u.op(), u.dtype(), {u.src(1), u.src(0)}, u.arg(), u.lanes());
}

// Sums and products merge modulo 2^n; the bit operations and MAX are associative as they are.
UOp merge_constants(const Match& m) {
  const UOp& u = *m.root;
  if (!u.src(0).is(u.op())) return {};
  UOp c = fold_constants(u.op(), u.dtype(), std::vector<UOp>{m[1], m[2]});
  return c ? alu(u.op(), m[0], c) : UOp{};
}

UOp cast_of_cast(const Match& m) {
  const UOp& x = m[0];
  DType from = x.dtype(), mid = m[1].dtype(), to = m.root->dtype();
  if (!lossless_cast(from, mid)) {
    // Index positions that fit the integer type they travel in.
    if (from != DType::Index || !is_int(mid) || !bounded(x) || x.vmin() < int_min(mid) ||
        x.vmax() > int_max(mid))
      return {};
    return is_int(to) || is_float(to) ? cast(x, to) : UOp{};
  }
  // An integer carried by a float saturates on the way back, where a direct cast would wrap.
  if (is_float(mid) && !is_float(from) && !is_float(to) && to != DType::BOOL && !lossless_cast(from, to))
    return {};
  if (mid == DType::Index && bits(from) == 64 && is_unsigned(from)) return {};
  return cast(x, to);
}

// Index arithmetic that was done in an integer type, and cannot have wrapped there, is done in Index.
UOp cast_into_index(const Match& m) {
  const UOp& a = m[0];
  if (m.root->dtype() != DType::Index || m.root->lanes() != 1 || !fixed_integer(a) || a.dtype() == DType::U64)
    return {};
  Op as = a.op();
  switch (a.op()) {
  case Op::ADD:
  case Op::SUB:
  case Op::MUL:
  case Op::NEG:
    if (!never_wraps(a)) return {};
    break;
  case Op::CDIV:
  case Op::CMOD:
    if (a.src(0).vmin() < 0) return {};
    as = as == Op::CDIV ? Op::FLOORDIV : Op::FLOORMOD;
    [[fallthrough]];
  case Op::FLOORDIV:
  case Op::FLOORMOD:
    if (!a.src(1).is_const() || a.src(1).const_int() <= 0) return {};
    break;
  case Op::WHERE:
    return where(a.src(0), cast(a.src(1), DType::Index), cast(a.src(2), DType::Index));
  case Op::MAX:
    break;
  default:
    return {};
  }
  std::vector<UOp> src;
  for (const UOp& s : a.src()) src.push_back(cast(s, DType::Index));
  return make(as, DType::Index, src);
}

UOp bitcast_of_bitcast(const Match& m) {
  // A float in between may quieten a NaN.
  return is_float(m[1].dtype()) ? UOp{} : bitcast(m[0], m.root->dtype());
}

UOp same_divided(const Match& m) {
  const UOp& x = m[0];
  return x.vmin() > 0 || x.vmax() < 0 ? one_of(x.dtype(), x.lanes()) : UOp{};
}

UOp max_by_bounds(const Match& m) {
  const UOp &a = m.root->src(0), &b = m.root->src(1);
  if (!is_integer(a)) return {};
  if (a.vmin() >= b.vmax() && b.vmax() < INT64_MAX) return a;
  if (b.vmin() >= a.vmax() && a.vmax() < INT64_MAX) return b;
  return {};
}

// x // c and x % c of a fixed-width integer that lies in [0, c).
UOp below_divisor(const Match& m) {
  const UOp &x = m[0], &c = m[1];
  if (!is_integer(x) || x.vmin() < 0 || x.vmax() == INT64_MAX || c.vmin() <= x.vmax()) return {};
  return m.root->is(OpSet(Op::FLOORMOD, Op::CMOD)) ? x : zero(m);
}

UOp shift_to_zero(const Match& m) {
  const UOp& count = m[1];
  bool vanishes = m.root->is(Op::SHL) || is_unsigned(m.root->dtype());
  return vanishes && fixed_integer(*m.root) && count.const_int() >= bits(m.root->dtype()) ? zero(m) : UOp{};
}

// Loops of one iteration are constants here; END and REDUCE drop them.
UOp drop_constant_ranges(const Match& m) {
  const UOp& u = *m.root;
  if (!u.node()->src_ops.has(Op::CONST)) return {};
  std::vector<UOp> kept{u.src(0)};
  for (size_t i = 1; i < u.nsrc(); ++i)
    if (!u.src(i).is_const()) kept.push_back(u.src(i));
  if (kept.size() == u.nsrc()) return {};
  return kept.size() == 1 ? u.src(0) : with_sources(u, kept);
}

UOp load_gate(const Match& m) {
  const UOp& u = *m.root;
  if (!u.src(2).is_const()) return {};
  if (u.src(2).const_int()) return make(Op::LOAD, u.dtype(), {u.src(0), u.src(1)}, u.arg(), u.lanes());
  return u.nsrc() > 3 ? u.src(3) : zero(m);
}

UOp store_gate(const Match& m) {
  const UOp& u = *m.root;
  if (u.nsrc() != 4 || !u.src(3).is_const_int(1)) return {};
  return make(Op::STORE, u.dtype(), {u.src(0), u.src(1), u.src(2)}, u.arg());
}

UOp identity_of_float(const Match& m) { return is_narrow(m[0].dtype()) ? UOp{} : m[0]; }

} // namespace

bool never_wraps(const UOp& u) {
  if (u.dtype() == DType::Index) return true;
  Interval a = bounds(u.src(0)), b = u.nsrc() > 1 ? bounds(u.src(1)) : Interval{0, 0};
  if (!bounded(u.src(0)) || (u.nsrc() > 1 && !bounded(u.src(1)))) return false;
  Interval r;
  switch (u.op()) {
  case Op::NEG:
    r = {-a.hi, -a.lo};
    break;
  case Op::ADD:
    r = {a.lo + b.lo, a.hi + b.hi};
    break;
  case Op::SUB:
    r = {a.lo - b.hi, a.hi - b.lo};
    break;
  case Op::MUL: {
    Wide p[4] = {a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi};
    r = {p[0], p[0]};
    for (Wide v : p) r = {std::min(r.lo, v), std::max(r.hi, v)};
    break;
  }
  default:
    return false;
  }
  return r.lo >= int_min(u.dtype()) && r.hi <= int_max(u.dtype());
}

std::vector<Rule> folding_rules() {
  OpSet divisions(Op::CDIV, Op::FLOORDIV), remainders(Op::CMOD, Op::FLOORMOD), shifts(Op::SHL, Op::SHR);
  OpSet bounded_ops = ops::Elementwise | OpSet(Op::RANGE, Op::SPECIAL, Op::VAR);
  return {
      {"fold", op(ops::Elementwise), fold},
      {"one_point", op(bounded_ops), one_point},
      {"constant_right", op(ops::Commutative, cst(0), any(1)), constant_right},
      {"merge_constants",
       op(OpSet(Op::ADD, Op::MUL, Op::AND, Op::OR, Op::XOR, Op::MAX),
          op(OpSet(Op::ADD, Op::MUL, Op::AND, Op::OR, Op::XOR, Op::MAX), any(0), cst(1)).when(integer),
          cst(2)),
       merge_constants},
      {"add_zero", op(OpSet(Op::ADD, Op::SUB, Op::OR, Op::XOR, Op::SHL, Op::SHR), any(0), number(0)), first},
      {"multiply_one", op(OpSet(Op::MUL, Op::FLOORDIV, Op::CDIV), any(0), number(1)), first},
      {"multiply_zero", op(OpSet(Op::MUL, Op::AND), any(0), number(0)), zero},
      {"divide_by_zero", op(divisions | remainders, any(0), number(0)), zero},
      {"remainder_of_one", op(remainders, any(0), number(1)), zero},
      {"and_all_ones", op(Op::AND, any(0), cst(1).when(all_ones)), first},
      {"or_all_ones", op(Op::OR, any(0), cst(1).when(all_ones)), [](const Match& m) { return m[1]; }},
      {"idempotent", op(OpSet(Op::AND, Op::OR, Op::MAX), any(0), any(0)), first},
      {"cancel", op(OpSet(Op::SUB, Op::XOR), any(0).when(integer), any(0)), zero},
      {"divide_by_itself", op(divisions, any(0), any(0)), same_divided},
      {"remainder_of_itself", op(remainders, any(0).when(number_type), any(0)), zero},
      {"below_divisor", op(divisions | remainders, any(0), any(1)), below_divisor},
      {"remainder_twice", op(Op::FLOORMOD, op(Op::FLOORMOD, any(0), any(1)).named(2), any(1)),
       [](const Match& m) { return m[2]; }},
      {"xor_twice", op(Op::XOR, op(Op::XOR, any(0).when(integer), any(1)), any(1)), first},
      {"shift_to_zero", op(shifts, any(0), cst(1)), shift_to_zero},
      {"negate_twice", op(Op::NEG, op(Op::NEG, any(0))), first},
      {"trunc_integer", op(Op::TRUNC, any(0).when(integer)), first},
      {"max_by_bounds", op(Op::MAX), max_by_bounds},

      {"float_times_one", op(OpSet(Op::MUL, Op::FDIV), any(0), cst(1).when(float_one)), identity_of_float},
      {"float_plus_minus_zero", op(Op::ADD, any(0), cst(1).when(float_minus_zero)), identity_of_float},
      {"float_minus_zero", op(Op::SUB, any(0), cst(1).when(float_zero)), identity_of_float},
      {"max_of_lowest", op(Op::MAX, any(0), cst(1).when(float_lowest)), first},

      {"cast_to_same", op(OpSet(Op::CAST, Op::BITCAST), any(0)),
       [](const Match& m) { return m[0].dtype() == m.root->dtype() ? m[0] : UOp{}; }},
      {"cast_of_cast", op(Op::CAST, op(Op::CAST, any(0)).named(1)), cast_of_cast},
      {"cast_into_index", op(Op::CAST, any(0)), cast_into_index},
      {"bitcast_of_bitcast", op(Op::BITCAST, op(Op::BITCAST, any(0)).named(1)), bitcast_of_bitcast},

      {"drop_constant_ranges", op(OpSet(Op::REDUCE, Op::END)), drop_constant_ranges},
      {"load_gate", starts(Op::LOAD, any(0), any(1), cst(2)), load_gate},
      {"store_gate", op(Op::STORE, any(0), any(1), any(2), cst(3)), store_gate},
  };
}

} // namespace tolk::sym
