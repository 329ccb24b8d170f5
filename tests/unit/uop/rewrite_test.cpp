// Patterns, rule sets and the driver.
#include <boost/test/unit_test.hpp>

#include "thrown.h"
#include "tolk/base/error.h"
#include "tolk/uop/arena.h"
#include "tolk/uop/build.h"
#include "tolk/uop/rewrite.h"
#include "tolk/uop/traverse.h"

using namespace tolk;
using namespace tolk::pat;

namespace {

UOp v(const char* name) { return variable(name, 0, 9); }
std::string error_of(const UOp& root, const RuleSet& rules) {
  return test::message_of<InternalError>([&] { rewrite(root, rules); });
}
UOp is_a(const Match& m) { return var_name(*m.root) == "a" ? variable("b", 0, 9) : UOp{}; }
UOp is_b(const Match& m) { return var_name(*m.root) == "b" ? variable("a", 0, 9) : UOp{}; }
const RuleSet& swap_rules() {
  static const RuleSet rules{{{"a_to_b", op(Op::VAR), is_a}, {"b_to_a", op(Op::VAR), is_b}}};
  return rules;
}

} // namespace

BOOST_AUTO_TEST_CASE(rules_that_undo_each_other_are_reported_by_name) {
  std::string text = error_of(v("a"), swap_rules());
  BOOST_TEST(text.find("a_to_b") != std::string::npos, text);
  BOOST_TEST(text.find("b_to_a") != std::string::npos, text);
}

BOOST_AUTO_TEST_CASE(a_node_shared_by_many_paths_is_rewritten_once) {
  UOp x = v("x");
  for (int i = 0; i < 20; ++i) x = alu(Op::ADD, x, x); // 2^20 paths
  int visits = 0;
  const RuleSet rules{{{"count", op(Op::VAR), [](const Match& m) {
                          ++m.ctx<int>();
                          return var_name(*m.root) == "x" ? variable("y", 0, 9) : UOp{};
                        }}}};
  UOp out = rewrite(x, rules, &visits);
  BOOST_TEST(visits == 2); // x, and the y that it became
  BOOST_TEST(toposort(out).size() == 21u);
}

BOOST_AUTO_TEST_CASE(a_value_that_holds_its_own_key_is_substituted_once) {
  UOp x = v("x"), f = alu(Op::NEG, x);
  BOOST_TEST((substitute(alu(Op::ADD, x, x), {{x, f}}) == alu(Op::ADD, f, f)));
}

BOOST_AUTO_TEST_CASE(rules_see_sources_in_final_form_and_results_are_rewritten_again) {
  const RuleSet rules{{{"add_to_mul", op(Op::ADD, any(0), any(0)),
                        [](const Match& m) { return alu(Op::MUL, m[0], index_const(2)); }},
                       {"mul_to_shl", op(Op::MUL, any(0), number(2)),
                        [](const Match& m) { return alu(Op::SHL, m[0], index_const(1)); }},
                       {"neg_away", op(Op::NEG, any(0)), [](const Match& m) { return m[0]; }}}};
  UOp a = v("a");
  UOp root = alu(Op::ADD, alu(Op::NEG, a), a); // a + a once the source is final
  BOOST_TEST((rewrite(root, rules) == alu(Op::SHL, a, index_const(1))));
}

BOOST_AUTO_TEST_CASE(the_first_rule_that_applies_wins_and_null_passes_on) {
  const RuleSet rules{{{"declines", op(Op::NEG, any(0)), [](const Match&) { return UOp{}; }},
                       {"same", op(Op::NEG, any(0)), [](const Match& m) { return *m.root; }},
                       {"first", op(Op::NEG, any(0)), [](const Match& m) { return m[0]; }},
                       {"second", op(Op::NEG, any(0)), [](const Match&) { return index_const(7); }}}};
  const char* applied = nullptr;
  BOOST_TEST((rules.apply(alu(Op::NEG, v("a")), nullptr, &applied) == v("a")));
  BOOST_TEST(std::string(applied) == "first");
}

BOOST_AUTO_TEST_CASE(patterns_constrain_what_they_say) {
  UOp a = v("a"), b = v("b");
  auto matches = [](const Pattern& p, const UOp& u) {
    return bool(RuleSet{{{"r", p, [](const Match&) { return index_const(99); }}}}.apply(u));
  };
  BOOST_TEST(matches(op(Op::ADD, any(0), any(0)), alu(Op::ADD, a, a)));
  BOOST_TEST(!matches(op(Op::ADD, any(0), any(0)), alu(Op::ADD, a, b)));
  // Commutative sources match in both orders, others in one.
  BOOST_TEST(matches(op(Op::ADD, number(3), any(0)), alu(Op::ADD, a, index_const(3))));
  BOOST_TEST(!matches(op(Op::SUB, number(3), any(0)), alu(Op::SUB, a, index_const(3))));
  BOOST_TEST(!matches(op(Op::ADD, number(3), any(0)), alu(Op::ADD, a, index_const(4))));
  BOOST_TEST(matches(op(OpSet(Op::ADD, Op::MUL)), alu(Op::MUL, a, b)));
  BOOST_TEST(!matches(op(OpSet(Op::ADD, Op::MUL)), alu(Op::MAX, a, b)));
  BOOST_TEST(matches(op(Op::NEG, any(0).when([](const UOp& u) { return u.vmax() == 9; })), alu(Op::NEG, a)));
  BOOST_TEST(!matches(op(Op::NEG, any(0).when([](const UOp& u) { return u.vmax() == 8; })), alu(Op::NEG, a)));
  // Nested commutative patterns backtrack: the shared capture decides which order.
  Pattern nested = op(Op::ADD, op(Op::MUL, any(0), any(1)), op(Op::MUL, any(0), any(2)));
  UOp c = v("c");
  BOOST_TEST(matches(nested, alu(Op::ADD, alu(Op::MUL, a, b), alu(Op::MUL, a, c))));
  UOp l = param_node(0, DType::F32, 8);
  BOOST_TEST(matches(starts(Op::LOAD, any(0), any(1)), load(l, a, less(a, b))));
  BOOST_TEST(!matches(op(Op::LOAD, any(0), any(1)), load(l, a, less(a, b))));
}

BOOST_AUTO_TEST_CASE(both_orders_of_a_commutative_root_reach_the_function) {
  const RuleSet rules{{{"picky", op(Op::ADD, any(0), any(1)),
                        [](const Match& m) { return m[0].is(Op::NEG) ? m[1] : UOp{}; }}}};
  UOp a = v("a"), n = alu(Op::NEG, v("b"));
  BOOST_TEST((rules.apply(alu(Op::ADD, a, n)) == a));
  BOOST_TEST((rules.apply(alu(Op::ADD, n, a)) == a));
}

BOOST_AUTO_TEST_CASE(the_driver_works_in_an_arena) {
  Arena arena;
  ArenaScope scope(&arena);
  UOp before = alu(Op::ADD, v("a"), v("b"));
  const RuleSet rules{{{"neg_away", op(Op::NEG, any(0)), [](const Match& m) { return m[0]; }}}};
  BOOST_TEST((rewrite(alu(Op::NEG, alu(Op::NEG, before)), rules) == before));
}
