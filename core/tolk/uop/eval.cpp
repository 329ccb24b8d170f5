#include "tolk/uop/eval.h"

#include <bit>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "tolk/base/error.h"
#include "tolk/dtype/scalar.h"
#include "tolk/uop/build.h"
#include "tolk/uop/print.h"
#include "tolk/uop/traverse.h"

namespace tolk {
namespace {

using Wide = __int128;
using Result = std::optional<Scalar>;

Result whole(Wide value) { return Scalar{value, 0}; }
Result real(double value) { return Scalar{0, value}; }

Wide floor_div(Wide a, Wide b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

// Results of Index arithmetic are exact or not known.
Result wrapped(DType dtype, Wide value) {
  if (dtype != DType::Index) return whole(wrap_to(dtype, value));
  if (value < std::numeric_limits<int64_t>::min() || value > std::numeric_limits<int64_t>::max()) return {};
  return whole(value);
}

// A product of 64-bit values fits 128 bits, except for two large unsigned ones, where wrapping in 128 bits is
// also right.
Wide multiply(Wide a, Wide b) { return Wide((unsigned __int128)a * (unsigned __int128)b); }

Result on_integers(Op op, DType dtype, std::span<const Scalar> s) {
  Wide a = s[0].i, b = s.size() > 1 ? s[1].i : 0;
  switch (op) {
  case Op::NEG:
    return wrapped(dtype, -a);
  case Op::TRUNC:
    return whole(a);
  case Op::ADD:
    return wrapped(dtype, a + b);
  case Op::SUB:
    return wrapped(dtype, a - b);
  case Op::MUL:
    return wrapped(dtype, multiply(a, b));
  case Op::MULACC:
    return wrapped(dtype, multiply(a, b) + s[2].i);
  case Op::CDIV:
    return wrapped(dtype, b == 0 ? 0 : a / b);
  case Op::CMOD:
    return wrapped(dtype, b == 0 ? 0 : a % b);
  case Op::FLOORDIV:
    return wrapped(dtype, b == 0 ? 0 : floor_div(a, b));
  case Op::FLOORMOD:
    return wrapped(dtype, b == 0 ? 0 : a - floor_div(a, b) * b);
  case Op::MAX:
    return whole(a > b ? a : b);
  case Op::AND:
    return whole(a & b);
  case Op::OR:
    return whole(a | b);
  case Op::XOR:
    return whole(a ^ b);
  case Op::SHL:
    if (dtype == DType::Index && (b < 0 || b > 62)) return {};
    return wrapped(dtype, b < 0 || b >= bits(dtype) ? 0 : multiply(a, Wide(1) << int(b)));
  case Op::SHR:
    if (b < 0 || b >= bits(dtype)) return whole(a < 0 ? -1 : 0);
    return whole(a >> int(b));
  default:
    return {};
  }
}

bool rounds_the_same_everywhere(DType dtype) {
  return dtype == DType::F64 || dtype == DType::F32 || dtype == DType::F16 || dtype == DType::BF16;
}

// Points where a function is exact in every reasonable implementation.
Result function_point(Op op, double x) {
  bool zero = x == 0, one = x == 1;
  double infinity = std::numeric_limits<double>::infinity();
  if (std::isnan(x)) return real(x);
  switch (op) {
  case Op::EXP:
  case Op::EXP2:
    if (zero) return real(1);
    if (std::isinf(x)) return real(x > 0 ? infinity : 0);
    return {};
  case Op::LOG:
  case Op::LOG2:
    if (one) return real(0);
    if (zero) return real(-infinity);
    if (x == infinity) return real(x);
    return {};
  case Op::SIN:
    return zero ? real(x) : Result{};
  case Op::COS:
    return zero ? real(1) : Result{};
  default:
    return {};
  }
}

// Sums, products, quotients and roots of values of 24 bits or fewer may be computed in double and rounded
// again: 53 bits are enough that the first rounding never changes the second.
Result on_floats(Op op, DType dtype, std::span<const Scalar> s) {
  double a = s[0].f, b = s.size() > 1 ? s[1].f : 0;
  if (op == Op::MAX) {
    if (std::isnan(a) || std::isnan(b)) return real(std::numeric_limits<double>::quiet_NaN());
    if (a == b && std::signbit(a) != std::signbit(b)) return {};
    return real(a > b ? a : b);
  }
  if (!rounds_the_same_everywhere(dtype)) return {};
  switch (op) {
  case Op::NEG:
    return real(-a);
  case Op::TRUNC:
    return real(std::trunc(a));
  case Op::ADD:
    return real(round_to(dtype, a + b));
  case Op::SUB:
    return real(round_to(dtype, a - b));
  case Op::MUL:
    return real(round_to(dtype, a * b));
  case Op::FDIV:
    return real(round_to(dtype, a / b));
  case Op::RECIPROCAL:
    return real(round_to(dtype, 1 / a));
  case Op::SQRT:
    return real(round_to(dtype, std::sqrt(a)));
  case Op::MULACC:
    if (dtype == DType::F64) return real(std::fma(a, b, s[2].f));
    if (dtype == DType::F32) return real(double(std::fma(float(a), float(b), float(s[2].f))));
    return {};
  default:
    return function_point(op, a);
  }
}

template <typename T> Result compare(Op op, T a, T b) {
  return whole(op == Op::CMPLT ? a < b : op == Op::CMPEQ ? a == b : a != b);
}

Result convert(DType from, DType to, const Scalar& v) {
  if (is_float(from) && is_float(to)) return real(round_to(to, v.f));
  if (is_float(from)) return whole(float_to_int(to, v.f));
  if (is_float(to)) return real(int_to_float(to, v.i));
  return wrapped(to, v.i);
}

Result reinterpret(DType from, DType to, const Scalar& v) {
  if (from == DType::Index || to == DType::Index || from == DType::BOOL || to == DType::BOOL ||
      bits(from) != bits(to))
    return {};
  uint64_t mask = bits(from) == 64 ? ~uint64_t(0) : (uint64_t(1) << bits(from)) - 1;
  uint64_t code = is_float(from) ? float_to_bits(from, v.f) : uint64_t(v.i) & mask;
  if (is_float(from) && std::isnan(v.f)) return {}; // which NaN is the device's affair
  if (!is_float(to)) return whole(wrap_to(to, Wide(code)));
  double value = float_from_bits(to, code);
  if (std::isnan(value)) return {};
  return real(value);
}

} // namespace

double int_to_float(DType dtype, __int128 value) {
  // Round to odd at 53 bits or more, so that the rounding to the dtype is the only one that counts.
  bool negative = value < 0;
  auto size = negative ? -(unsigned __int128)value : (unsigned __int128)value;
  int shift = 0;
  bool lost = false;
  while (size >> 62) lost |= size & 1, size >>= 1, ++shift;
  if (dtype == DType::F64) {
    // The hardware rounds 62 bits with a sticky last one correctly.
    double d = std::ldexp(double(int64_t(size | lost)), shift);
    return negative ? -d : d;
  }
  while (size >> 53) lost |= size & 1, size >>= 1, ++shift;
  double d = std::ldexp(double(int64_t(size | lost)), shift);
  return round_to(dtype, negative ? -d : d);
}

Scalar scalar_of(const UOp& constant) {
  if (is_float(constant.dtype())) return {0, constant.const_float()};
  if (constant.dtype() == DType::U64) return {Wide(constant.arg().word), 0};
  return {Wide(constant.const_int()), 0};
}

UOp constant_of(DType dtype, const Scalar& value, int lanes) {
  if (is_float(dtype)) return constant(dtype, value.f, lanes);
  if (!wrapped(dtype, value.i)) return {};
  return constant(dtype, int64_t(value.i), lanes);
}

std::optional<Scalar> evaluate_op(Op op, DType dtype, DType src_dtype, std::span<const Scalar> src) {
  switch (op) {
  case Op::CAST:
    return convert(src_dtype, dtype, src[0]);
  case Op::BITCAST:
    return reinterpret(src_dtype, dtype, src[0]);
  case Op::WHERE:
    return src[0].i ? src[1] : src[2];
  case Op::CMPLT:
  case Op::CMPEQ:
  case Op::CMPNE:
    return is_float(src_dtype) ? compare(op, src[0].f, src[1].f) : compare(op, src[0].i, src[1].i);
  case Op::THREEFRY:
    return {};
  default:
    break;
  }
  return is_float(dtype) ? on_floats(op, dtype, src) : on_integers(op, dtype, src);
}

UOp fold_constants(Op op, DType dtype, std::span<const UOp> src) {
  if (!ops::Elementwise.has(op) || src.empty() || src.size() > 3) return {};
  Scalar values[3];
  for (size_t i = 0; i < src.size(); ++i) {
    if (!src[i].is_const()) return {};
    values[i] = scalar_of(src[i]);
  }
  Result r = evaluate_op(op, dtype, src.back().dtype(), {values, src.size()});
  return r ? constant_of(dtype, *r, src[0].lanes()) : UOp{};
}

Evaluator::Evaluator(const UOp& expression, std::span<const UOp> inputs) : inputs_(inputs.size()) {
  std::unordered_map<const UOpNode*, uint32_t> slot;
  for (const UOp& input : inputs) slot.emplace(input.node(), uint32_t(slots_.size())), slots_.emplace_back();
  for (const UOp& u : toposort(expression, [&](const UOp& n) { return !slot.contains(n.node()); })) {
    if (slot.contains(u.node())) continue;
    auto at = uint32_t(slots_.size());
    slots_.emplace_back();
    slot.emplace(u.node(), at);
    if (u.is_const()) {
      slots_.back() = scalar_of(u);
      continue;
    }
    if (!u.is(ops::Elementwise))
      throw InvalidArgument("no value for " + print_line(u) + "; bind it to evaluate the expression");
    steps_.push_back(
        {u.op(), u.dtype(), u.src(u.nsrc() - 1).dtype(), uint32_t(operands_.size()), uint32_t(u.nsrc()), at});
    for (const UOp& s : u.src()) operands_.push_back(slot.at(s.node()));
  }
  result_ = slot.at(expression.node());
}

Scalar Evaluator::run(std::span<const Scalar> values) {
  if (values.size() != inputs_)
    throw InvalidArgument("the expression has " + std::to_string(inputs_) + " inputs, got " +
                          std::to_string(values.size()) + " values");
  for (size_t i = 0; i < inputs_; ++i) slots_[i] = values[i];
  Scalar src[3];
  for (const Step& step : steps_) {
    for (uint32_t i = 0; i < step.count; ++i) src[i] = slots_[operands_[step.first + i]];
    Result r = evaluate_op(step.op, step.dtype, step.src_dtype, {src, step.count});
    if (!r)
      throw InvalidArgument(std::string("the value of ") + name(step.op) +
                            " is not certain without a device");
    slots_[step.slot] = *r;
  }
  return slots_[result_];
}

Scalar evaluate(const UOp& expression, std::span<const Binding> bindings) {
  std::vector<UOp> nodes;
  std::vector<Scalar> values;
  for (const Binding& b : bindings) nodes.push_back(b.node), values.push_back(b.value);
  return Evaluator(expression, nodes).run(values);
}

} // namespace tolk
