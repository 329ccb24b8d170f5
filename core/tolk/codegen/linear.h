// Index expressions as linear forms: constant + sum of coefficient * atom. An atom is a node that is not
// itself a sum or a product with a constant: a loop variable, a symbolic size, a quotient, an index read from
// memory.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include <boost/container/small_vector.hpp>

#include "tolk/uop/traverse.h"
#include "tolk/uop/uop.h"

namespace tolk::codegen {

struct Term {
  UOp atom;
  int64_t coefficient = 0; // never 0
  bool operator==(const Term&) const = default;
};

struct Linear {
  int64_t constant = 0;
  boost::container::small_vector<Term, 5> terms; // by increasing id of the atom, each atom once

  bool is_const() const { return terms.empty(); }
  // Coefficient of an atom, 0 when it does not occur.
  int64_t coefficient(const UOp& atom) const;
  bool operator==(const Linear& o) const { return constant == o.constant && terms == o.terms; }
};

// sum += form * factor.
void add_scaled(Linear& sum, const Linear& form, int64_t factor);
void add_atom(Linear& sum, const UOp& atom, int64_t factor);

struct Bounds {
  __int128 low, high;
};
// What the form can be, from the bounds of its atoms.
Bounds bounds(const Linear& form);

// floor(form / divisor) for a positive divisor, as a sum of what divides exactly and at most one quotient.
struct Division {
  Linear quotient;  // the exact part
  Linear remainder; // what still has to be divided by `divisor`; constant 0 and no terms when nothing is left
  int64_t divisor = 1;
};
Division divide(const Linear& form, int64_t divisor);
// form mod divisor when that is linear; nothing when a FLOORMOD of `rest` by `divisor` is needed.
std::optional<Linear> modulo(const Linear& form, int64_t divisor, Linear& rest);

// The linear forms of the index nodes of one graph, each computed once.
class LinearMap {
public:
  const Linear& of(const UOp& index);

private:
  Linear compute(const UOp& index);
  Memo<const Linear*> memo_;
  std::vector<std::unique_ptr<Linear>> owned_;
};

} // namespace tolk::codegen
