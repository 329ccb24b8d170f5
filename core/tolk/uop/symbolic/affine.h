// Index expressions as linear forms f0*v0 + f1*v1 + ... + k with int64 factors. The nodes v are opaque: anything
// but a sum or a product with a constant. The rules of symbolic/ and code generation work on these.
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
  int64_t f; // never 0
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

// Terms are sorted by `order` and distinct. A factor that leaves int64, or more than kMaxTerms terms, clear `valid`:
// a rule then declines. Arithmetic on forms still goes on modulo 2^64 and keeps every term, so code generation,
// which cannot decline, gets what the index computes at run time.
class Affine {
public:
  static constexpr size_t kMaxTerms = 48;
  boost::container::small_vector<Term, 8> terms;
  int64_t k = 0;
  bool valid = true;

  Affine() = default;
  // Stops early, with `valid` cleared, when the sum has too many terms or overflows.
  explicit Affine(const UOp& u) { add(u, 1); }
  // The sum, or one opaque term when it is not valid.
  static Affine of(const UOp& u);
  void add(const UOp& u, int64_t scale); // u may be a sum
  void add(const Affine& other, int64_t scale);
  void add_term(const UOp& v, int64_t f); // v is opaque
  void add_constant(Wide c);
  void scale(int64_t c);
  // Divides the factors, which must be multiples of g > 0, and rounds the constant down.
  void divide_exactly(int64_t g);
  // Factor of v, 0 when absent.
  int64_t factor(const UOp& v) const;
  // Greatest common divisor of c > 0 and all factors.
  int64_t common_divisor(int64_t c) const;
  void erase(size_t i) { terms.erase(terms.begin() + std::ptrdiff_t(i)); }
  Interval interval() const; // of the whole sum; unbounded when it is not valid
  bool is_constant() const { return terms.empty(); }
  UOp build() const; // the canonical node
};

// x = c*outer + inner for a divisor c > 0. Factors of inner are congruent to those of x modulo c.
struct Division {
  Affine outer, inner;
  // inner lies in 0 .. c-1, so outer is the floor quotient and inner the remainder.
  bool known = false;
};
// Which congruent factor inner gets. Whole: 0 for multiples of c, else the factor of x, which other indices may share.
enum class Residue { Truncated, Nearest, Positive, Whole };
Division divide(const Affine& x, int64_t c, Residue kind);

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
