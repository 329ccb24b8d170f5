// Random expressions, evaluated at every assignment before and after simplification.
#include <boost/test/unit_test.hpp>

#include "random_expr.h"
#include "tolk/uop/arena.h"
#include "tolk/uop/print.h"
#include "tolk/uop/symbolic/symbolic.h"
#include "tolk/uop/traverse.h"

using namespace tolk;
using namespace tolk::testing;

namespace {

constexpr int kGroups = 130, kCasesPerGroup = 800; // variables change with the group

// Every property over kGroups * kCasesPerGroup random cases; `check` returns a complaint, or nothing.
template <typename Check> void over_random_cases(uint64_t salt, int divide_by, Check check) {
  uint64_t seed = test_seed() + salt;
  BOOST_TEST_MESSAGE("seed " << seed);
  int failures = 0;
  for (int group = 0; group < kGroups && failures < 5; ++group) {
    Arena arena;
    ArenaScope scope(&arena);
    RandomExpr random(seed * 1000 + uint64_t(group)); // its handles must go before the arena
    for (int i = 0; i < kCasesPerGroup / divide_by && failures < 5; ++i) {
      std::string complaint = check(random);
      if (complaint.empty()) continue;
      ++failures;
      BOOST_ERROR("seed " << seed << ", group " << group << ", case " << i << ": " << complaint);
    }
  }
  BOOST_TEST(failures == 0);
}

UOp random_case(RandomExpr& random) {
  int64_t kind = random.pick(0, 7);
  if (kind < 2) return random.gate(2);
  if (kind < 4) return random.reshaped();
  return random.index(int(random.pick(1, 4)));
}

std::string difference(const UOp& before, const UOp& after, const std::vector<UOp>& variables,
                       const UOp& gate = {}) {
  Evaluator f(before, variables), g(after, variables);
  std::optional<Evaluator> valid;
  if (gate) valid.emplace(gate, variables);
  std::string text;
  for_all(variables, [&](const std::vector<Scalar>& values) {
    if (valid && !valid->run(values).i) return true;
    int64_t x = int64_t(f.run(values).i), y = int64_t(g.run(values).i);
    if (x == y) return true;
    text = print_expr(before) + (gate ? " under " + print_expr(gate) : "") + "  became  " +
           print_expr(after) + ", " + std::to_string(x) + " against " + std::to_string(y) + " at " +
           assignment_text(variables, values);
    return false;
  });
  return text;
}

} // namespace

BOOST_AUTO_TEST_CASE(simplified_expressions_have_the_same_value_everywhere) {
  over_random_cases(1, 1, [](RandomExpr& random) {
    UOp e = random_case(random);
    return difference(e, simplify(e), random.variables());
  });
}

BOOST_AUTO_TEST_CASE(simplifying_twice_changes_nothing) {
  over_random_cases(2, 4, [](RandomExpr& random) {
    UOp once = simplify(random_case(random));
    // In another arena nothing is remembered.
    Arena other;
    ArenaScope scope(&other);
    UOp moved = import_graph(once);
    UOp twice = simplify(moved);
    return twice == moved ? std::string() : print_expr(once) + "  became  " + print_expr(twice);
  });
}

BOOST_AUTO_TEST_CASE(bounds_contain_every_value) {
  over_random_cases(3, 2, [](RandomExpr& random) {
    UOp e = random_case(random);
    std::string text;
    for (const UOp& u : {e, simplify(e)}) {
      Evaluator f(u, random.variables());
      for_all(random.variables(), [&](const std::vector<Scalar>& values) {
        auto x = int64_t(f.run(values).i);
        if (x >= u.vmin() && x <= u.vmax()) return true;
        text = print_expr(u) + " is " + std::to_string(x) + ", outside " + std::to_string(u.vmin()) + ".." +
               std::to_string(u.vmax());
        return false;
      });
    }
    return text;
  });
}

BOOST_AUTO_TEST_CASE(simplification_under_a_gate_keeps_the_value_where_the_gate_holds) {
  over_random_cases(4, 2, [](RandomExpr& random) {
    UOp gate = random.clause();
    for (int64_t i = random.pick(0, 3); i > 0; --i) gate = alu(Op::AND, gate, random.clause());
    UOp e = random_case(random);
    return difference(e, simplify_under(e, gate), random.variables(), gate);
  });
}

BOOST_AUTO_TEST_CASE(a_simplified_gate_is_the_same_gate) {
  over_random_cases(5, 2, [](RandomExpr& random) {
    UOp gate = random.clause();
    for (int64_t i = random.pick(0, 4); i > 0; --i)
      gate = alu(Op::AND, gate, random.pick(0, 3) ? random.clause() : random.gate(1));
    return difference(gate, simplify_gate(gate), random.variables());
  });
}

BOOST_AUTO_TEST_CASE(normal_forms_do_not_grow) {
  over_random_cases(6, 4, [](RandomExpr& random) {
    UOp e = random_case(random), s = simplify(e);
    size_t before = toposort(e).size(), after = toposort(s).size();
    // Multiplying out and taking multiples out of divisions may add a few nodes to a tiny expression.
    return after <= 2 * before + 4 ? std::string() : print_expr(e) + "  became  " + print_expr(s);
  });
}

BOOST_AUTO_TEST_CASE(the_result_does_not_depend_on_where_nodes_live) {
  over_random_cases(7, 16, [](RandomExpr& random) {
    UOp e = random_case(random);
    std::string in_arena = print(simplify(e)), outside;
    {
      ArenaScope global(nullptr);
      outside = print(simplify(import_graph(e)));
    }
    return in_arena == outside ? std::string() : print_expr(e) + " differs:\n" + in_arena + outside;
  });
}
