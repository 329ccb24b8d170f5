#include "tolk/tensor/gradient_rules.h"

#include <algorithm>
#include <cmath>

#include "tolk/device/registry.h"
#include "tolk/tensor/tensor_internal.h"

namespace tolk::detail {
namespace {

using Gradients = std::vector<Tensor>;

constexpr double kLn2 = 0.69314718055994530942, kTwoOverSqrtPi = 1.12837916709551257390;

Tensor zero(const Tensor& like) { return Tensor::constant(like.dtype(), 0); }

// The constant in every element; it overflows to infinity as the device's arithmetic does.
Tensor everywhere(DType dtype, double value, const Shape& shape) {
  return Tensor(tolk::constant(dtype, value)).expand(shape);
}

// c * factor. A constant gradient stays a constant where it can, which may save a kernel.
Tensor scaled(const Tensor& c, double factor) {
  if (std::optional<double> known = constant_value(c))
    return everywhere(c.dtype(), *known * factor, c.shape());
  return c * factor;
}

// Sum over the axes of the mask, which stay with size 1; small floats accumulate in f32.
Tensor summed(const Tensor& c, uint64_t mask) {
  if (!mask) return c;
  return Tensor(reduce_axis(Op::ADD, c.cast(sum_dtype(c.dtype())).node(), mask)).cast(c.dtype());
}

// ---- arithmetic

Gradients add(const Backward& b) { return {b.c, b.c}; }
Gradients subtract(const Backward& b) { return {b.c, b.wanted[1] ? b.c.neg() : Tensor()}; }
Gradients negate(const Backward& b) { return {b.c.neg()}; }

Gradients multiply(const Backward& b) {
  if (b.y.src(0) == b.y.src(1)) return {scaled(b.c, 2) * b.src(0), {}};
  return {b.wanted[0] ? b.c * b.src(1) : Tensor(), b.wanted[1] ? b.c * b.src(0) : Tensor()};
}

Gradients multiply_add(const Backward& b) {
  Gradients g = multiply(b);
  g.push_back(b.c);
  return g;
}

Gradients divide(const Backward& b) {
  std::optional<double> c = constant_value(b.c), by = constant_value(b.src(1));
  Tensor share = c && by ? everywhere(b.c.dtype(), *c / *by, b.c.shape()) : b.c / b.src(1);
  return {share, b.wanted[1] ? (share * Tensor(b.y)).neg() : Tensor()};
}

Gradients reciprocal(const Backward& b) { return {(b.c * Tensor(b.y) * Tensor(b.y)).neg()}; }

Gradients larger(const Backward& b) {
  Tensor x = b.src(0), y = b.src(1);
  Tensor tie = equal(x, y).where(scaled(b.c, 0.5), zero(b.c));
  return {b.wanted[0] ? (y < x).where(b.c, tie) : Tensor(), b.wanted[1] ? (x < y).where(b.c, tie) : Tensor()};
}

Gradients select(const Backward& b) {
  Tensor p = b.src(0);
  return {
      {}, b.wanted[1] ? p.where(b.c, zero(b.c)) : Tensor(), b.wanted[2] ? p.where(zero(b.c), b.c) : Tensor()};
}

// ---- functions of the graph

Gradients square_root(const Backward& b) { return {b.c / (Tensor(b.y) * 2.0)}; }
Gradients exponential(const Backward& b) { return {b.c * Tensor(b.y)}; }
Gradients exponential_2(const Backward& b) { return {b.c * Tensor(b.y) * kLn2}; }
Gradients logarithm(const Backward& b) { return {b.c / b.src(0)}; }
Gradients logarithm_2(const Backward& b) { return {b.c / (b.src(0) * kLn2)}; }
Gradients sine(const Backward& b) { return {b.c * b.src(0).cos()}; }
Gradients cosine(const Backward& b) { return {(b.c * b.src(0).sin()).neg()}; }

// ---- what keeps the value

Gradients unchanged(const Backward& b) { return {b.c}; }
Gradients materialised(const Backward& b) { return {b.c.contiguous()}; }

Gradients copied_back(const Backward& b) {
  // The host computes nothing: gradients of its data meet on the default device.
  std::string from = device_of(b.y.src(0));
  if (from == "HOST") from = default_device();
  return {from.empty() || b.c.device().empty() ? b.c : b.c.to(from)};
}

// ---- several devices. A node's shape and meaning are those of the full value, so only operations that take
// it apart need rules.

// The full value that the shards of a MULTI were cut from by position; null for shards that came one by one.
UOp whole_of(const UOp& multi) {
  UOp part = multi.src(0);
  while (part.is(OpSet(Op::CONTIGUOUS, Op::COPY))) part = part.src(0);
  return part.is(Op::SHRINK) && part.has(kHasVar) && shape_of(part.src(0)) == shape_of(multi) ? part.src(0)
                                                                                              : UOp();
}

Gradients sharded(const Backward& b) {
  if (UOp whole = whole_of(b.y)) {
    std::string from = device_of(whole);
    return {from.empty() || from == b.c.device() || b.c.device().empty() ? b.c : b.c.to(from)};
  }
  const UOp& stack = b.y.src(0);
  if (!stack.is(Op::MSTACK))
    throw InvalidArgument("no gradient goes to single parts of a sharded value of shape " +
                          to_string(shape_of(b.y)) + " on " + device_of(b.y) +
                          ", whose parts are storage; ask for that of the sharded value");
  int64_t axis = multi_axis(b.y);
  SInt size = shape_of(stack)[size_t(axis)];
  Gradients parts;
  for (size_t i = 0; i < stack.nsrc(); ++i) {
    Tensor part = b.c.narrow(axis, size * SInt(int64_t(i)), size);
    parts.push_back(part.device().empty() ? part : part.to(device_of(stack.src(i))));
  }
  return parts;
}

// Each position gets the derivative of what it holds.
Gradients allreduced(const Backward& b) {
  std::string on = device_of(b.y);
  if (!is_multi(on)) return {b.c};
  Tensor x = b.src(0), c = b.c.device().empty() ? b.c : b.c.to(on);
  switch (allreduce_op(b.y)) {
  case Op::ADD:
    return {c};
  case Op::MAX: {
    Tensor hit = equal(x, Tensor(b.y));
    Tensor hits = Tensor(allreduce(hit.cast(sum_dtype(x.dtype())).node(), Op::ADD)).cast(x.dtype());
    return {hit.where(c / hits, zero(c))};
  }
  default: {
    std::vector<std::string> devices = split_devices(on);
    std::vector<UOp> others;
    for (size_t p = 0; p < devices.size(); ++p) {
      Tensor product;
      for (size_t q = 0; q < devices.size(); ++q) {
        if (p == q) continue;
        Tensor factor = Tensor(mselect(x.node(), int64_t(q))).to(devices[p]);
        product = product.defined() ? product * factor : factor;
      }
      others.push_back(product.node());
    }
    return {c * Tensor(mstack(others))};
  }
  }
}

Gradients stacked(const Backward& b) {
  Gradients parts;
  for (size_t p = 0; p < b.y.nsrc(); ++p)
    parts.push_back(is_multi(b.c.device()) ? Tensor(mselect(b.c.node(), int64_t(p))) : b.c);
  return parts;
}

Gradients selected(const Backward& b) {
  std::vector<std::string> devices = split_devices(device_of(b.y.src(0)));
  Tensor none = zero(b.c).expand(b.c.shape());
  std::vector<UOp> parts;
  for (size_t p = 0; p < devices.size(); ++p)
    parts.push_back((int64_t(p) == position_of(b.y) ? b.c : none).to(devices[p]).node());
  return {Tensor(mstack(parts))};
}

// ---- movement

Gradients reshaped(const Backward& b) { return {b.c.reshape(shape_of(b.y.src(0)))}; }

Gradients permuted(const Backward& b) {
  Axes inverse(b.y.arg().ints().size());
  for (size_t i = 0; i < inverse.size(); ++i) inverse[size_t(b.y.arg().i(i))] = int64_t(i);
  return {b.c.permute(inverse)};
}

Gradients flipped(const Backward& b) { return {Tensor(flip(b.c.node(), b.y.arg().word))}; }

Gradients expanded(const Backward& b) {
  const Shape &from = shape_of(b.y.src(0)), &to = shape_of(b.y);
  uint64_t mask = 0;
  for (size_t i = 0; i < from.size(); ++i)
    if (from[i] == 1 && !(to[i] == 1)) mask |= uint64_t(1) << i;
  return {summed(b.c, mask)};
}

Gradients padded(const Backward& b) {
  const Shape& from = shape_of(b.y.src(0));
  Shape before;
  for (size_t i = 0; i < from.size(); ++i) before.emplace_back(b.y.src(1 + i));
  return {b.c.shrink(before, from)};
}

Gradients shrunk(const Backward& b) {
  const Shape &from = shape_of(b.y.src(0)), &to = shape_of(b.y);
  Shape before, after;
  for (size_t i = 0; i < from.size(); ++i) {
    before.emplace_back(b.y.src(1 + i));
    after.push_back(from[i] - before[i] - to[i]);
  }
  return {Tensor(pad(b.c.node(), before, after))};
}

Tensor padded_on(const Tensor& t, size_t axis, int64_t before, int64_t after) {
  std::vector<std::pair<int64_t, int64_t>> amounts(t.shape().size(), {0, 0});
  amounts[axis] = {before, after};
  return t.pad(amounts);
}

// `gap` zeros between the elements of an axis of n.
Tensor spread(const Tensor& t, size_t axis, int64_t n, int64_t gap) {
  if (gap == 0 || n <= 1) return t;
  Shape joined = t.shape();
  joined[axis] = n * (gap + 1);
  Tensor wide = padded_on(t.unsqueeze(int64_t(axis) + 1), axis + 1, 0, gap).reshape(joined);
  return wide.narrow(int64_t(axis), 0, (n - 1) * (gap + 1) + 1);
}

Tensor of_length(const Tensor& t, size_t axis, int64_t length, int64_t n) {
  return length < n ? padded_on(t, axis, 0, n - length) : t.narrow(int64_t(axis), 0, n);
}

// Inverse of WINDOW: element i of the axis is the sum of all (o, k) with o * stride + k * dilation == i.
// Every result is gathered, so nothing is written twice.
Tensor overlapped(Tensor c, size_t axis, int64_t n, int64_t stride, int64_t dilation) {
  auto size = [&](size_t a) { return c.shape()[a].value("the gradient of a window"); };
  if (size(axis) == 0 || size(axis + 1) == 0) {
    Shape to = c.shape();
    to.erase(to.begin() + int64_t(axis) + 1);
    to[axis] = n;
    return Tensor::zeros(to, c.dtype());
  }
  // The two axes play the same part. The second is the one that is summed, unless blocks lie side by side.
  int64_t reach = (size(axis + 1) - 1) * dilation, other_reach = (size(axis) - 1) * stride;
  bool swap = other_reach < dilation || (reach >= stride && size(axis + 1) > size(axis));
  if (swap) {
    c = c.transpose(int64_t(axis), int64_t(axis) + 1);
    std::swap(stride, dilation);
    std::swap(reach, other_reach);
  }
  Shape joined = c.shape();
  joined.erase(joined.begin() + int64_t(axis) + 1);
  int64_t outer = size(axis), inner = size(axis + 1);
  if (reach < stride) {
    // No two places meet: blocks of `stride` elements, one after the other.
    Tensor block = padded_on(spread(c, axis + 1, inner, dilation - 1), axis + 1, 0, stride - 1 - reach);
    joined[axis] = outer * stride;
    return of_length(block.reshape(joined), axis, outer * stride, n);
  }
  // With row k as long as all shifts need, row k read from k * dilation on is a window over the rows end to
  // end, whose stride is one row and one shift.
  Tensor rows = spread(c, axis, outer, stride - 1);
  int64_t places = other_reach + 1 + reach, length = places + reach;
  rows = padded_on(rows.flip({int64_t(axis) + 1}), axis, reach, reach);
  joined[axis] = inner * length;
  rows = rows.transpose(int64_t(axis), int64_t(axis) + 1).reshape(joined);
  Tensor shifted = rows.window(int64_t(axis), inner, places, length + dilation, 1);
  return of_length(drop_axes(summed(shifted, uint64_t(1) << axis), uint64_t(1) << axis), axis, places, n);
}

Gradients windowed(const Backward& b) {
  auto axis = size_t(b.y.arg().i(0));
  int64_t n = shape_of(b.y.src(0))[axis].value("the gradient of a window");
  return {overlapped(b.c, axis, n, b.y.arg().i(1), b.y.arg().i(2))};
}

// Every element of the source asks which positions read it.
Gradients gathered(const Backward& b) {
  Tensor indices = b.src(1);
  const Shape& from = shape_of(b.y.src(0));
  size_t axis = b.y.arg().word;
  SInt before = 1, after = 1;
  for (size_t i = 0; i < from.size(); ++i)
    if (i != axis) (i < axis ? before : after) = (i < axis ? before : after) * from[i];
  Tensor i = indices.flatten().cast(DType::I64), n(cast(from[axis].uop(), DType::I64));
  i = is_unsigned(indices.dtype()) ? i : (i < 0).where(i + n, i);
  if (before.is_const() && after.is_const()) {
    Tensor rows = b.c.cast(sum_dtype(b.c.dtype())).reshape({before, i.numel(), after}).transpose(0, 1);
    if (Tensor sums = sum_by_index(rows.reshape({i.numel(), before * after}), i, from[axis]); sums.defined())
      return {sums.cast(b.c.dtype()).reshape({from[axis], before, after}).transpose(0, 1).reshape(from), {}};
  }
  Tensor c = b.c.reshape({before, SInt(1), i.numel(), after});
  Tensor hit =
      equal(Tensor::arange(from[axis]).reshape({1, from[axis], 1, 1}), i.reshape({1, 1, i.numel(), 1}));
  return {drop_axes(summed(hit.where(c, zero(c)), 4), 4).reshape(from), {}};
}

// ---- reductions; the reduced axes are kept with size 1

// The product of all others, along the last axis and without a division, so that it holds for any number of
// zeros and its derivatives do: an element of the first half and one of the second are multiplied, and each
// of the two gets the other times what their product gets.
Tensor product_of_others(const Tensor& x) {
  SInt n = x.size(-1);
  int64_t most = n.max(), half = (most + 1) / 2;
  if (most == 1) return Tensor::ones(x.shape(), x.dtype());
  Shape before(x.shape().size(), SInt(0)), after = before, split(x.shape().begin(), x.shape().end() - 1);
  // With ones behind the end, up to the largest size when it is symbolic.
  Tensor all = x;
  if (SInt missing = SInt(2 * half) - n; !(missing == 0)) {
    after.back() = missing;
    Tensor inside(pad(Tensor::constant(DType::BOOL, 1).expand(x.shape()).node(), before, after));
    all = inside.where(Tensor(pad(x.node(), before, after)), Tensor::constant(x.dtype(), 1));
  }
  split.insert(split.end(), {SInt(2), SInt(half)});
  all = all.reshape(split);
  Tensor others = all.flip({-2});
  if (half > 1) {
    Tensor pairs = (all.narrow(-2, 0, 1) * all.narrow(-2, 1, 1)).squeeze(-2);
    Tensor of_pairs = product_of_others(pairs);
    // Computed in every use, short levels are cheaper, long ones are not.
    if (half > 16) of_pairs = of_pairs.contiguous();
    others = of_pairs.unsqueeze(-2) * others;
  }
  split.pop_back(), split.back() = 2 * half;
  return others.reshape(split).narrow(-1, 0, n);
}

Tensor product_of_others(const Tensor& x, uint64_t mask) {
  Axes order, back(x.shape().size());
  Shape flat;
  SInt n = 1;
  for (int64_t a = 0; a < x.rank(); ++a)
    if (!(mask >> a & 1)) order.push_back(a), flat.push_back(x.size(a));
  for (int64_t a = 0; a < x.rank(); ++a)
    if (mask >> a & 1) order.push_back(a), n = n * x.size(a);
  for (size_t i = 0; i < order.size(); ++i) back[size_t(order[i])] = int64_t(i);
  flat.push_back(n);
  Tensor moved = x.permute(order);
  return product_of_others(moved.reshape(flat)).reshape(moved.shape()).permute(back);
}

Gradients reduced(const Backward& b) {
  Tensor x = b.src(0), y(b.y), c = b.c.expand(x.shape());
  uint64_t mask = reduce_axes(b.y);
  switch (reduce_op(b.y)) {
  case Op::ADD:
    return {c};
  case Op::MAX: {
    Tensor hit = equal(x, y);
    Tensor share = b.c / summed(hit.cast(sum_dtype(x.dtype())), mask).cast(x.dtype());
    return {hit.where(share, zero(c))};
  }
  default:
    return {x.numel() == 0 ? c : c * product_of_others(x, mask)};
  }
}

// ---- named functions; src(0) is the value, the arguments follow

using FunctionRule = std::vector<Tensor> (*)(const Backward&, const Tensor& x);

Gradients of_abs(const Backward& b, const Tensor& x) { return {b.c * x.sign()}; }
// Computed from the result, so that the argument need not be kept.
Gradients of_relu(const Backward& b, const Tensor&) { return {(Tensor(b.y) > 0.0).where(b.c, zero(b.c))}; }
Gradients of_tan(const Backward& b, const Tensor&) { return {b.c * (Tensor(b.y).square() + 1.0)}; }
Tensor one_less_square(const Tensor& x) { return (1.0 - x) * (1.0 + x); }
Gradients of_asin(const Backward& b, const Tensor& x) { return {b.c / one_less_square(x).sqrt()}; }
Gradients of_acos(const Backward& b, const Tensor& x) { return {(b.c / one_less_square(x).sqrt()).neg()}; }
Gradients of_atan(const Backward& b, const Tensor& x) { return {b.c / (x.square() + 1.0)}; }
Gradients of_sinh(const Backward& b, const Tensor& x) { return {b.c * x.cosh()}; }
Gradients of_cosh(const Backward& b, const Tensor& x) { return {b.c * x.sinh()}; }
Gradients of_tanh(const Backward& b, const Tensor&) { return {b.c * one_less_square(Tensor(b.y))}; }
Gradients of_asinh(const Backward& b, const Tensor& x) { return {b.c / (x.square() + 1.0).sqrt()}; }
Gradients of_acosh(const Backward& b, const Tensor& x) {
  return {b.c / ((x - 1.0).sqrt() * (x + 1.0).sqrt())};
}
Gradients of_atanh(const Backward& b, const Tensor& x) { return {b.c / one_less_square(x)}; }
Gradients of_erf(const Backward& b, const Tensor& x) {
  return {b.c * x.square().neg().exp() * kTwoOverSqrtPi};
}
Gradients of_expm1(const Backward& b, const Tensor& x) { return {b.c * x.exp()}; }
Gradients of_log1p(const Backward& b, const Tensor& x) { return {b.c / (x + 1.0)}; }
Gradients of_softplus(const Backward& b, const Tensor& x) { return {b.c * x.sigmoid()}; }
Gradients of_sigmoid(const Backward& b, const Tensor&) {
  Tensor y(b.y);
  return {b.c * y * (1.0 - y)};
}

Gradients of_pow(const Backward& b, const Tensor& x) {
  Tensor e = b.src(2), y(b.y), by_base, by_exponent;
  if (b.wanted[0]) {
    std::optional<double> known = constant_value(e);
    Tensor less = known ? Tensor::constant(e.dtype(), *known - 1) : e - 1.0;
    by_base = b.c * equal(e, 0.0).where(zero(b.c), e * x.pow(less));
  }
  if (b.wanted[1]) {
    // 0^e is 0 all along positive e, and jumps from infinity at e = 0.
    Tensor at_zero =
        (e < 0.0).where(Tensor::constant(x.dtype(), -std::numeric_limits<double>::infinity()), zero(x));
    Tensor none = equal(x, 0.0);
    by_exponent = b.c * none.where(at_zero, y * none.where(Tensor::constant(x.dtype(), 1), x).log());
  }
  return {by_base, by_exponent};
}

Gradients of_fmod(const Backward& b, const Tensor& x) {
  return {b.c, b.wanted[1] ? (b.c * (x / b.src(2)).trunc()).neg() : Tensor()};
}

Gradients of_gather_elements(const Backward& b, const Tensor& x) {
  DType wide = sum_dtype(x.dtype());
  return {Tensor::zeros(x.shape(), wide)
              .scatter_elements(b.src(2), b.c.cast(wide), b.y.arg().i(0), Tensor::Combine::Add)
              .cast(x.dtype()),
          {}};
}

Gradients of_sum_by_index(const Backward& b, const Tensor&) {
  Tensor i = b.src(2);
  return {b.c.gather((i < 0).where(Tensor(cast(b.c.size(0).uop(), DType::I64)), i), 0), {}};
}

struct FunctionRow {
  std::string_view name;
  FunctionRule rule;
};
constexpr FunctionRow kFunctions[] = {
    {"abs", of_abs},
    {"acos", of_acos},
    {"acosh", of_acosh},
    {"asin", of_asin},
    {"asinh", of_asinh},
    {"atan", of_atan},
    {"atanh", of_atanh},
    {"cosh", of_cosh},
    {"erf", of_erf},
    {"expm1", of_expm1},
    {"fmod", of_fmod},
    {"gather_elements", of_gather_elements},
    {"log1p", of_log1p},
    {"pow", of_pow},
    {"relu", of_relu},
    {"sigmoid", of_sigmoid},
    {"sinh", of_sinh},
    {"softplus", of_softplus},
    {"sum_by_index", of_sum_by_index},
    {"tan", of_tan},
    {"tanh", of_tanh},
};

Gradients named_function(const Backward& b) {
  const std::string& name = b.y.arg().text();
  for (const FunctionRow& row : kFunctions)
    if (row.name == name) return row.rule(b, b.src(1));
  throw InternalError("function " + name + " has no row in the table of gradients");
}

// ---- writes

Gradients stored(const Backward& b) {
  const UOp& effect = b.y.src(1);
  if (b.y.nsrc() != 2 || !effect.is(Op::STORE) || effect.src(0) != b.y.src(0))
    throw InvalidArgument("no gradient goes through a value of shape " + to_string(shape_of(b.y)) +
                          " that was assigned in parts or more than once; build it from its parts instead, "
                          "with concat or where");
  return {b.c};
}

struct Row {
  Op op;
  GradientRule rule;
};
constexpr Row kRules[] = {
    {Op::ADD, add},
    {Op::SUB, subtract},
    {Op::NEG, negate},
    {Op::MUL, multiply},
    {Op::MULACC, multiply_add},
    {Op::FDIV, divide},
    {Op::RECIPROCAL, reciprocal},
    {Op::MAX, larger},
    {Op::WHERE, select},
    {Op::SQRT, square_root},
    {Op::EXP, exponential},
    {Op::EXP2, exponential_2},
    {Op::LOG, logarithm},
    {Op::LOG2, logarithm_2},
    {Op::SIN, sine},
    {Op::COS, cosine},
    {Op::CAST, unchanged},
    {Op::CONTIGUOUS, unchanged},
    {Op::CONTIGUOUS_BACKWARD, materialised},
    {Op::COPY, copied_back},
    {Op::FUNCTION, named_function},
    {Op::AFTER, stored},
    {Op::MULTI, sharded},
    {Op::ALLREDUCE, allreduced},
    {Op::MSTACK, stacked},
    {Op::MSELECT, selected},
    {Op::RESHAPE, reshaped},
    {Op::PERMUTE, permuted},
    {Op::EXPAND, expanded},
    {Op::PAD, padded},
    {Op::SHRINK, shrunk},
    {Op::FLIP, flipped},
    {Op::WINDOW, windowed},
    {Op::GATHER, gathered},
    {Op::REDUCE_AXIS, reduced},
};

// Operations that block gradients: their derivative is zero wherever it exists, or the graph states it.
constexpr OpSet kStops(Op::DETACH, Op::TRUNC, Op::BITCAST);

} // namespace

std::vector<UOp> gradient_carriers(const UOp& u) {
  if (u.is(kStops | ops::Storage | ops::Compare)) return {};
  if (u.is(Op::FUNCTION)) return {u.src().begin() + 1, u.src().end()};
  if (u.is(Op::AFTER)) {
    std::vector<UOp> written;
    for (const UOp& effect : u.src().subspan(1))
      written.push_back(effect.is(Op::STORE) ? effect.src(1) : effect);
    return written;
  }
  if (u.is(Op::MULTI)) {
    if (UOp whole = whole_of(u)) return {whole};
    if (u.src(0).is(Op::MSTACK)) return {u.src(0).src().begin(), u.src(0).src().end()};
  }
  return {u.src().begin(), u.src().end()};
}

GradientRule gradient_rule(const UOp& u) {
  for (const Row& row : kRules)
    if (u.is(row.op)) return row.rule;
  return nullptr;
}

std::vector<Op> ops_with_gradient() {
  std::vector<Op> all;
  for (const Row& row : kRules) all.push_back(row.op);
  return all;
}

std::vector<std::string_view> functions_with_gradient() {
  std::vector<std::string_view> all;
  for (const FunctionRow& row : kFunctions) all.push_back(row.name);
  return all;
}

} // namespace tolk::detail
