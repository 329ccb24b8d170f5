// Dimensions. A dimension is a number or an index-typed UOp (a symbolic size); a shape is a list of them.
#pragma once

#include <concepts>
#include <initializer_list>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tolk/uop/uop.h"

namespace tolk {

// A size or offset: an int64, or an index expression when it is not known yet. Constant expressions collapse
// to numbers.
class TOLK_API SInt {
public:
  SInt() = default;
  // Any integer. Throws InvalidArgument above the largest int64.
  template <std::integral T> SInt(T value) : value_(int64_t(value)) { // NOLINT(google-explicit-constructor)
    if (std::cmp_greater(+value, std::numeric_limits<int64_t>::max())) refuse(uint64_t(value));
  }
  explicit SInt(UOp expression);
  bool is_const() const { return !expression_; }
  // The number. Throws InvalidArgument when symbolic; `what` completes "... needs a known size for WHAT".
  int64_t value(const char* what = "this operation") const;
  int64_t min() const { return expression_ ? expression_.vmin() : value_; }
  int64_t max() const { return expression_ ? expression_.vmax() : value_; }
  UOp uop() const; // the index-typed node, in the thread's present home for constants
  // Provably equal; two different expressions may still be equal at run time.
  bool operator==(const SInt& other) const {
    return value_ == other.value_ && expression_ == other.expression_;
  }
  template <std::integral T> bool operator==(T other) const {
    return is_const() && std::cmp_equal(value_, +other);
  }

private:
  [[noreturn]] static void refuse(uint64_t value);
  int64_t value_ = 0;
  UOp expression_;
};
TOLK_API SInt operator+(const SInt& a, const SInt& b);
TOLK_API SInt operator-(const SInt& a, const SInt& b);
TOLK_API SInt operator*(const SInt& a, const SInt& b);
TOLK_API SInt floordiv(const SInt& a, const SInt& b);
TOLK_API SInt floormod(const SInt& a, const SInt& b);

using Shape = std::vector<SInt>;
TOLK_API SInt numel(const Shape& shape);
// numel at the upper bound of every symbolic dimension; saturates at 2^62.
TOLK_API int64_t max_numel(const Shape& shape);
TOLK_API std::string to_string(const Shape& shape); // (4,8)
TOLK_API std::string to_string(const SInt& size);

// Shape of a tensor-level node, derived once and cached on it. Effects and kernel-level nodes have shape ().
// Throws InternalError when the sources' shapes do not fit the op.
TOLK_API const Shape& shape_of(const UOp& u);

} // namespace tolk
