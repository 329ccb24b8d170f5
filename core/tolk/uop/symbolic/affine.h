// Index expressions as sums: f0*v0 + f1*v1 + ... + k with int64 factors and opaque nodes v. Internal to
// symbolic/.
#pragma once

#include <boost/container/small_vector.hpp>

#include "tolk/uop/uop.h"

namespace tolk::sym {

using Wide = __int128;

inline Wide floor_div(Wide a, Wide b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
inline Wide floor_mod(Wide a, Wide b) { return a - floor_div(a, b) * b; }
inline bool fits(Wide v) { return v >= INT64_MIN && v <= INT64_MAX; }

// Total structural order, the same in every process: op, dtype, arg, then sources. 0 only for the same node.
int order(const UOp& a, const UOp& b);

struct Term {
  UOp v;
  int64_t f;
};

// Closed interval; `kUnbounded` and beyond mean that nothing is known on that side.
inline constexpr Wide kUnbounded = Wide(1) << 100;
struct Interval {
  Wide lo, hi;
};
Interval bounds(const UOp& u);
Interval scaled(const Interval& i, int64_t f);
// f(lo) when both ends fall into the same period of length c, that is floor(lo/c) == floor(hi/c).
bool one_period(const Interval& i, int64_t c, Wide& quotient);

// Terms are sorted, distinct, and have factors other than 0. An operation that would leave int64, or take
// more than kMostTerms terms, makes the sum invalid, and the rule that wanted it declines.
class Affine {
public:
  static constexpr size_t kMostTerms = 48;
  boost::container::small_vector<Term, 8> terms;
  int64_t k = 0;
  bool valid = true;

  Affine() = default;
  explicit Affine(const UOp& u) { add(u, 1); }
  void add(const UOp& u, int64_t scale); // u may be a sum
  void add(const Affine& other, int64_t scale);
  void add_term(const UOp& v, int64_t f); // v is opaque
  void add_constant(Wide c);
  void scale(int64_t c);
  // Factor of v, 0 when absent.
  int64_t factor(const UOp& v) const;
  void erase(size_t i) { terms.erase(terms.begin() + std::ptrdiff_t(i)); }
  Interval interval() const; // of the whole sum
  bool is_constant() const { return terms.empty(); }
  UOp build() const; // the canonical node
};

// A product of Index nodes: coefficient and factors in structural order.
struct Product {
  int64_t f = 1;
  boost::container::small_vector<UOp, 4> factors;
  bool valid = true;
  explicit Product(const UOp& u) { multiply(u); }
  void multiply(const UOp& u);
  // Removes the factors of `other`, coefficient aside; false, and nothing changes, when some are missing.
  bool divide_factors(const Product& other);
  UOp build() const;
};

} // namespace tolk::sym
