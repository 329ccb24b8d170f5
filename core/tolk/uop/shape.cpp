#include "tolk/uop/shape.h"

#include <algorithm>

#include "tolk/base/error.h"
#include "tolk/uop/build.h"
#include "tolk/uop/intern_internal.h"
#include "tolk/uop/symbolic/symbolic.h"

namespace tolk {

struct ShapeData {
  Shape shape;
};

void destroy_shape(const ShapeData* shape) { delete shape; }

SInt::SInt(UOp expression) {
  if (expression.is_const())
    value_ = expression.const_int();
  else
    expression_ = std::move(expression);
}

void SInt::refuse(uint64_t value) {
  throw InvalidArgument("a size of " + std::to_string(value) +
                        " is more than 2^63 - 1, the largest there is");
}

int64_t SInt::value(const char* what) const {
  if (expression_)
    throw InvalidArgument(std::string("a symbolic size stands where ") + what + " needs a known one");
  return value_;
}

UOp SInt::uop() const { return expression_ ? expression_ : index_const(value_); }

namespace {
[[noreturn]] void overflow(int64_t x, const char* op, int64_t y) {
  throw InvalidArgument("a size overflows 64 bits: " + std::to_string(x) + " " + op + " " +
                        std::to_string(y));
}

template <typename F, typename G> SInt combine(const SInt& a, const SInt& b, F on_ints, G on_nodes) {
  if (a.is_const() && b.is_const()) return on_ints(a.value(), b.value());
  // Canonical, so that equal sizes are equal nodes.
  return SInt(simplify(on_nodes(a.uop(), b.uop())));
}
// `overflows` stores the result and says whether it wrapped.
template <typename F, typename G>
SInt checked(const SInt& a, const char* op, const SInt& b, F overflows, G on_nodes) {
  auto on_ints = [&](int64_t x, int64_t y) {
    int64_t result;
    if (overflows(x, y, &result)) overflow(x, op, y);
    return result;
  };
  return combine(a, b, on_ints, on_nodes);
}
} // namespace

SInt operator+(const SInt& a, const SInt& b) {
  return checked(
      a, "+", b, [](int64_t x, int64_t y, int64_t* sum) { return __builtin_add_overflow(x, y, sum); },
      [](const UOp& x, const UOp& y) { return x + y; });
}
SInt operator-(const SInt& a, const SInt& b) {
  return checked(
      a, "-", b, [](int64_t x, int64_t y, int64_t* rest) { return __builtin_sub_overflow(x, y, rest); },
      [](const UOp& x, const UOp& y) { return x - y; });
}
SInt operator*(const SInt& a, const SInt& b) {
  return checked(
      a, "*", b, [](int64_t x, int64_t y, int64_t* product) { return __builtin_mul_overflow(x, y, product); },
      [](const UOp& x, const UOp& y) { return x * y; });
}
SInt floordiv(const SInt& a, const SInt& b) {
  return combine(
      a, b,
      [](int64_t x, int64_t y) {
        if (x == std::numeric_limits<int64_t>::min() && y == -1) overflow(x, "/", y);
        return y == 0 ? 0 : x / y - (x % y != 0 && (x < 0) != (y < 0));
      },
      [](const UOp& x, const UOp& y) { return floordiv(x, y); });
}
SInt floormod(const SInt& a, const SInt& b) { return a - floordiv(a, b) * b; }

SInt numel(const Shape& shape) {
  SInt product = 1;
  for (const SInt& d : shape) product = product * d;
  return product;
}

int64_t max_numel(const Shape& shape) {
  constexpr int64_t kMost = int64_t(1) << 62;
  int64_t product = 1;
  for (const SInt& d : shape)
    if (__builtin_mul_overflow(product, std::max<int64_t>(d.max(), 0), &product) || product > kMost)
      return kMost;
  return product;
}

std::string to_string(const SInt& size) {
  if (size.is_const()) return std::to_string(size.value());
  UOp u = size.uop();
  return u.is(Op::VAR) ? var_name(u) : "?";
}

std::string to_string(const Shape& shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? "," : "") + to_string(shape[i]);
  return text + ")";
}

namespace {

Shape dims_from(const UOp& u, size_t first, size_t count) {
  Shape shape;
  shape.reserve(count);
  for (size_t i = 0; i < count; ++i) shape.emplace_back(u.src(first + i));
  return shape;
}

// Shape of one node whose sources' shapes are known.
Shape derive(const UOp& u) {
  auto of = [&](size_t i) -> const Shape& {
    return u.src(i).node()->shape.load(std::memory_order_acquire)->shape;
  };
  switch (u.op()) {
  case Op::BUFFER:
  case Op::PARAM:
  case Op::SLICE:
    return {SInt(elements_of(u))};
  case Op::IOTA:
    return {SInt(u.src(0))};
  case Op::RESHAPE:
  case Op::EXPAND:
    return dims_from(u, 1, u.nsrc() - 1);
  case Op::SHRINK: {
    size_t rank = (u.nsrc() - 1) / 2;
    return dims_from(u, 1 + rank, rank);
  }
  case Op::PAD: {
    Shape shape = of(0);
    size_t rank = shape.size();
    for (size_t i = 0; i < rank; ++i) shape[i] = shape[i] + SInt(u.src(1 + i)) + SInt(u.src(1 + rank + i));
    return shape;
  }
  case Op::PERMUTE: {
    Shape shape;
    for (int64_t axis : u.arg().ints()) shape.push_back(of(0)[axis]);
    return shape;
  }
  case Op::FLIP:
  case Op::CONTIGUOUS:
  case Op::DETACH:
  case Op::CONTIGUOUS_BACKWARD:
  case Op::FUNCTION:
  case Op::COPY:
  case Op::AFTER:
  case Op::MSELECT:
  case Op::MSTACK:
  case Op::ALLREDUCE:
    return of(0);
  case Op::MULTI: {
    Shape shape = of(0);
    shape[size_t(multi_axis(u))] = shape[size_t(multi_axis(u))] * SInt(multi_count(u));
    return shape;
  }
  case Op::WINDOW: {
    Shape shape = of(0);
    size_t axis = u.arg().i(0);
    shape[axis] = SInt(u.src(1));
    shape.insert(shape.begin() + axis + 1, SInt(u.src(2)));
    return shape;
  }
  case Op::GATHER: {
    Shape shape = of(0);
    size_t axis = u.arg().word;
    shape.erase(shape.begin() + axis);
    shape.insert(shape.begin() + axis, of(1).begin(), of(1).end());
    return shape;
  }
  case Op::REDUCE_AXIS: {
    Shape shape = of(0);
    for (size_t i = 0; i < shape.size(); ++i)
      if (reduce_axes(u) >> i & 1) shape[i] = 1;
    return shape;
  }
  default:
    if (u.is(ops::Elementwise))
      for (size_t i = 0; i < u.nsrc(); ++i)
        if (!of(i).empty()) return of(i);
    return {};
  }
}

const ShapeData* publish(const UOp& u, Shape shape) {
  auto* data = new ShapeData{std::move(shape)};
  const ShapeData* expected = nullptr;
  if (u.node()->shape.compare_exchange_strong(expected, data, std::memory_order_acq_rel)) return data;
  delete data;
  return expected;
}

} // namespace

const Shape& shape_of(const UOp& u) {
  if (const ShapeData* known = u.node()->shape.load(std::memory_order_acquire)) return known->shape;
  std::vector<UOp> stack{u};
  while (!stack.empty()) {
    UOp top = stack.back();
    if (top.node()->shape.load(std::memory_order_acquire)) {
      stack.pop_back();
      continue;
    }
    bool ready = true;
    for (const UOp& s : top.src())
      if (!s.node()->shape.load(std::memory_order_acquire)) stack.push_back(s), ready = false;
    if (!ready) continue;
    publish(top, derive(top));
    stack.pop_back();
  }
  return u.node()->shape.load(std::memory_order_acquire)->shape;
}

} // namespace tolk
