// The parts of symbolic_rules(), by subject. Internal to symbolic/. Rule functions see sources in normal
// form.
#pragma once

#include <vector>

#include "tolk/uop/build.h"
#include "tolk/uop/pattern.h"
#include "tolk/uop/symbolic/affine.h"

namespace tolk::sym {

std::vector<Rule> folding_rules(); // constants, identities, casts
std::vector<Rule> logic_rules();   // bool algebra, WHERE
std::vector<Rule> algebra_rules(); // sums and products
std::vector<Rule> divmod_rules();  // FLOORDIV, FLOORMOD
std::vector<Rule> compare_rules(); // CMPLT, CMPEQ, CMPNE

// Puts `(b % d)*m + (b // d)*(d*m)` and its relatives back together, in place.
void recombine(Affine& sum);

inline bool is_index(const UOp& u) { return u.dtype() == DType::Index && u.lanes() == 1; }
inline bool is_integer(const UOp& u) { return is_int(u.dtype()) || is_bool(u.dtype()); }
// A known sign needs bounds that are no saturated ends.
inline bool bounded(const UOp& u) { return u.vmin() > INT64_MIN && u.vmax() < INT64_MAX; }
// Whether the bounds of an ADD, SUB, MUL or NEG prove that it never wraps.
bool never_wraps(const UOp& u);
// Null when the result is the root itself: the rule changed nothing.
inline UOp changed(const UOp& result, const UOp& root) { return result == root ? UOp{} : result; }

} // namespace tolk::sym
