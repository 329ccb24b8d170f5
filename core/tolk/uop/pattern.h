// Patterns: what a rewrite rule looks for, as a value.
//
//   using namespace pat;
//   Rule rule{"add_zero", op(Op::ADD, any(0), number(0)), [](const Match& m) { return m[0]; }};
//
// A pattern names an op or a set, optionally the sources, and captures nodes in numbered slots. A slot that
// occurs twice must match the same node. Sources of a commutative op match in either order.
#pragma once

#include <optional>
#include <vector>

#include "tolk/uop/uop.h"

namespace tolk {

enum class Sources : uint8_t { Any, Exact, Prefix };

struct Pattern {
  OpSet ops;                   // empty: every op
  int slot = -1;               // capture, -1 none
  Sources form = Sources::Any; // how `src` is read
  std::vector<Pattern> src;
  bool (*test)(const UOp&) = nullptr; // further condition on the node
  std::optional<int64_t> integer;     // an integer, bool or index constant of this value

  Pattern named(int s) const {
    Pattern p = *this;
    p.slot = s;
    return p;
  }
  Pattern when(bool (*condition)(const UOp&)) const {
    Pattern p = *this;
    p.test = condition;
    return p;
  }
};

namespace pat {
// Any node, captured.
inline Pattern any(int slot) {
  Pattern p;
  p.slot = slot;
  return p;
}
// A CONST, captured.
inline Pattern cst(int slot) {
  Pattern p;
  p.ops = Op::CONST, p.slot = slot;
  return p;
}
// The integer, bool or index constant of this value.
inline Pattern number(int64_t value) {
  Pattern p;
  p.ops = Op::CONST, p.integer = value;
  return p;
}
// An op of the set with exactly these sources; without sources, whatever they are.
inline Pattern op(OpSet ops) {
  Pattern p;
  p.ops = ops;
  return p;
}
template <typename... Src> Pattern op(OpSet ops, Src... src) {
  Pattern p;
  p.ops = ops, p.form = Sources::Exact, p.src = {std::move(src)...};
  return p;
}
// The first sources are these; more may follow.
template <typename... Src> Pattern starts(OpSet ops, Src... src) {
  Pattern p = op(ops, std::move(src)...);
  p.form = Sources::Prefix;
  return p;
}
} // namespace pat

// What a rule's function sees. Captures are borrowed: no count is touched while matching.
struct Match {
  static constexpr int kSlots = 10;
  const UOp* slots[kSlots] = {};
  const UOp* root = nullptr;
  void* context = nullptr;

  const UOp& operator[](int slot) const { return *slots[slot]; }
  template <typename T> T& ctx() const { return *static_cast<T*>(context); }
};

// A named rewrite: when the pattern matches and the function returns a node other than the root, the root is
// replaced. A null result means "does not apply": the next way to match, then the next rule, is tried.
struct Rule {
  const char* name;
  Pattern pattern;
  UOp (*function)(const Match&);
};

} // namespace tolk
