// Symbolic simplification. Every rule keeps the value of an expression for all values of its variables:
//   Index              unbounded integers with floor division: sums are brought to one canonical form,
//                      divisions and remainders are split, comparisons are decided by bounds
//   fixed-width ints   wrap: identities, constants merged modulo 2^n, and what bounds prove
//   floats             exact identities only; no result changes a bit
//
// Canonical form of an Index sum: t0*c0 + t1*c1 + ... + k, terms in structural order, no two terms alike, a
// constant last. Comparisons are L < R with positive coefficients on both sides; the negation of one is
// another comparison.
#pragma once

#include "tolk/uop/rewrite.h"
#include "tolk/uop/uop.h"

namespace tolk {

// The normal form: no rule applies to any node of it. In an arena normal forms are memoized for the arena's lifetime,
// so simplifying an expression over normal parts costs only its new nodes.
TOLK_API UOp simplify(const UOp& u);

// The rules, in order. `simplify` applies these until none fits.
TOLK_API const RuleSet& symbolic_rules();

// `e` simplified with the knowledge that `gate` is true: the result equals `e` wherever the gate holds.
// Clauses X < c, c < X and X != c joined by AND narrow the bounds of X and of X's terms. A null gate
// states nothing.
TOLK_API UOp simplify_under(const UOp& e, const UOp& gate);

// The same gate with every clause simplified under the others; clauses that the others imply vanish.
TOLK_API UOp simplify_gate(const UOp& gate);

// Rules applied by this thread's `simplify` so far, for tests of how work grows.
TOLK_API uint64_t simplification_steps();

} // namespace tolk
