#include "tolk/codegen/lower/fold.h"

#include "tolk/dtype/scalar.h"

namespace tolk::codegen {

UOp splat(const UOp& value, int lanes) {
  if (value.lanes() == lanes) return value;
  TOLK_CHECK(value.lanes() == 1, "a vector meets a vector of another width");
  if (value.is_const()) return make(Op::CONST, value.dtype(), {}, value.arg(), lanes);
  return make(Op::SPLAT, value.dtype(), {value}, {}, lanes);
}

UOp stack(std::span<const UOp> lanes) {
  bool same = true;
  for (const UOp& u : lanes) same &= u == lanes[0];
  if (same) return splat(lanes[0], int(lanes.size()));
  return make(Op::STACK, lanes[0].dtype(), lanes, {}, int(lanes.size()));
}

UOp extract(const UOp& vector, int lane) {
  if (vector.lanes() == 1) return vector;
  if (vector.is(Op::SPLAT)) return vector.src(0);
  if (vector.is(Op::STACK)) return vector.src(size_t(lane));
  if (vector.is_const()) return make(Op::CONST, vector.dtype(), {}, vector.arg());
  return make(Op::EXTRACT, vector.dtype(), {vector}, Arg(uint64_t(lane)));
}

namespace {

// What constants make of a bool or integer op; null when nothing.
UOp folded(Op op, const UOp& like, std::span<const UOp> src) {
  if (op == Op::WHERE && src[0].is_const()) return src[0].const_int() ? src[1] : src[2];
  if (op == Op::WHERE && src[1] == src[2]) return src[1];
  if (is_float(like.dtype()) || src.size() != 2) return {};
  for (int i = 0; i < 2; ++i) {
    const UOp &c = src[size_t(i)], &x = src[size_t(1 - i)];
    if (!c.is_const() || is_float(c.dtype())) continue;
    int64_t v = c.const_int();
    switch (op) {
    case Op::AND:
      if (v == 0) return c;
      if (is_bool(like.dtype())) return x;
      break;
    case Op::OR:
      if (v == 0) return x;
      if (is_bool(like.dtype())) return c;
      break;
    case Op::XOR:
    case Op::ADD:
      if (v == 0) return x;
      break;
    case Op::MUL:
      if (v == 1) return x;
      if (v == 0) return c;
      break;
    default:
      break;
    }
  }
  if (src[0] == src[1] && (op == Op::AND || op == Op::OR)) return src[0];
  return {};
}

} // namespace

UOp elementwise(const UOp& like, std::span<const UOp> src) {
  int lanes = 1;
  for (const UOp& s : src)
    if (s.lanes() > 1) lanes = s.lanes();
  std::vector<UOp> wide(src.begin(), src.end());
  for (size_t i = 0; i < wide.size(); ++i)
    if (!(like.is(Op::WHERE) && i == 0)) wide[i] = splat(wide[i], lanes);
  if (UOp r = folded(like.op(), like, wide)) return splat(r, lanes);
  // Bounds may decide a comparison of integers.
  UOp r = make(like.op(), like.dtype(), wide, like.arg(), lanes);
  if (ops::Compare.has(like.op()) && r.vmin() == r.vmax() && !is_float(wide[0].dtype()))
    return constant(DType::BOOL, r.vmin(), lanes);
  return r;
}

UOp value_op(Op op, const UOp& a, const UOp& b) {
  int lanes = std::max(a.lanes(), b.lanes());
  return alu(op, splat(a, lanes), splat(b, lanes));
}

UOp fold_values(Op op, std::vector<UOp> values) {
  while (values.size() > 1) {
    size_t half = values.size() / 2;
    for (size_t i = 0; i < half; ++i) values[i] = value_op(op, values[2 * i], values[2 * i + 1]);
    if (values.size() % 2) values[half++] = values.back();
    values.resize(half);
  }
  return values[0];
}

UOp fold_lanes(Op op, const UOp& vector) {
  std::vector<UOp> lanes;
  // First lane with the one half a vector away, so that compilers find the vector halves again.
  int n = vector.lanes();
  for (int i = 0; i < n; ++i) lanes.push_back(extract(vector, i));
  while (n > 1 && n % 2 == 0) {
    n /= 2;
    for (int i = 0; i < n; ++i) lanes[size_t(i)] = value_op(op, lanes[size_t(i)], lanes[size_t(i + n)]);
  }
  lanes.resize(size_t(n));
  return fold_values(op, std::move(lanes));
}

UOp accumulation(Op op, std::span<const UOp> values, std::span<const UOp> loops) {
  TOLK_CHECK(!values.empty(), "a reduction without a value");
  std::vector<UOp> src(values.begin(), values.end());
  src.insert(src.end(), loops.begin(), loops.end());
  return make(Op::REDUCE, values[0].dtype(), src, Arg(uint64_t(op) << 56 | values.size()), values[0].lanes());
}

size_t value_count(const UOp& reduce) { return std::max<size_t>(1, reduce_axes(reduce)); }

} // namespace tolk::codegen
