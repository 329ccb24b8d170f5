// Index expressions and the forms they must come to, with their bounds: divisions, remainders, reshapes,
// gates.
#include <boost/test/unit_test.hpp>

#include "tolk/uop/build.h"
#include "tolk/uop/print.h"
#include "tolk/uop/symbolic/symbolic.h"

using namespace tolk;

namespace {

struct Vars {
  UOp a = variable("a", 0, 3), b = variable("b", 0, 7), c = variable("c", 0, 31), n = variable("n", -8, 7),
      x = variable("x", 0, 99);
  UOp r = range_node(8, 1, AxisType::Loop), q = range_node(4, 0, AxisType::Loop);
};

UOp div(const UOp& u, int64_t d) { return alu(Op::FLOORDIV, u, index_const(d)); }
UOp mod(const UOp& u, int64_t d) { return alu(Op::FLOORMOD, u, index_const(d)); }
UOp below(const UOp& u, int64_t c) { return less(u, index_const(c)); }

struct Row {
  UOp input;
  const char* expected;
};
void check(const std::vector<Row>& rows) {
  for (const Row& row : rows)
    BOOST_TEST(print_expr(simplify(row.input)) == row.expected,
               print_expr(row.input) << " became " << print_expr(simplify(row.input)) << ", not "
                                     << row.expected);
}

} // namespace

BOOST_AUTO_TEST_CASE(divisions_and_remainders_come_to_their_known_forms) {
  Vars v;
  check({{div(v.a * 8 + v.b, 8), "a"},
         {mod(v.a * 8 + v.b, 8), "b"},
         {div(v.a * 8 + v.b, 4), "a*2+b//4"},
         {mod(v.a * 8 + v.b, 4), "b%4"},
         {div(v.a * 8 + v.b, 3), "a*2+(a*2+b)//3"},
         {div(v.n * 4 + 1, 4), "n"},
         {div(v.n, 4), "n//4"},
         {mod(v.n, 4), "n%4"},
         {div(v.c, 4) * 4 + mod(v.c, 4), "c"},
         {mod(div(v.c, 8), 2) * 8 + mod(v.c, 8), "c%16"},
         {div(mod(v.x, 12), 4), "x//4%3"},
         {mod(mod(v.x, 12), 4), "x%4"},
         {div(div(v.x, 3), 4), "x//12"},
         {div(div(v.x, 2) + 3, 5), "(x+6)//10"},
         {div(v.x * 3, 6), "x//2"},
         {div(v.x * 6 + 2, 4), "x+(x+1)//2"},
         {div(v.x + 25, 10), "(x+5)//10+2"},
         {mod(v.x + 25, 10), "(x+5)%10"},
         {mod(v.b * 2 + 1, 2), "1"},
         {div(v.q * 8 + v.r, 8), "L0"},
         {below(v.a * 8 + v.b, 16), "a<2"},
         {below(v.x * 4, 17), "x<5"},
         {below(div(v.x, 4), 3), "x<12"},
         {below(v.x + 1, 1), "false"},
         {alu(Op::MAX, v.a, index_const(7)), "7"},
         {below(v.x, 100), "true"}});
}

BOOST_AUTO_TEST_CASE(truncating_division_of_a_value_of_unknown_sign_stays) {
  Vars v;
  UOp quotient = alu(Op::CDIV, v.n, index_const(4)), rest = alu(Op::CMOD, v.n, index_const(4));
  BOOST_TEST((simplify(quotient) == quotient));
  BOOST_TEST((simplify(rest) == rest));
  BOOST_TEST(quotient.vmin() == -2);
  BOOST_TEST(quotient.vmax() == 1);
  BOOST_TEST(rest.vmin() == -3);
  BOOST_TEST(rest.vmax() == 3);
  UOp floor = div(v.n, 4), remainder = mod(v.n, 4);
  BOOST_TEST(floor.vmin() == -2);
  BOOST_TEST(floor.vmax() == 1);
  BOOST_TEST(remainder.vmin() == 0);
  BOOST_TEST(remainder.vmax() == 3);
}

BOOST_AUTO_TEST_CASE(sums_have_one_form) {
  Vars v;
  UOp one = simplify(v.a * 3 + v.b + 5), other = simplify((v.b + 2) + (v.a + 1) * 3);
  BOOST_TEST((one == other));
  BOOST_TEST(print_expr(one) == "a*3+b+5");
  check({{v.a + v.a, "a*2"},
         {v.a * 2 + v.a * -2, "0"},
         {v.a * 2 + v.b + v.a * 3, "a*5+b"},
         {(v.a + v.b + 1) * 4, "a*4+b*4+4"},
         {alu(Op::SUB, v.a + v.b, v.b), "a"},
         {alu(Op::NEG, v.a + 2), "a*-1+-2"},
         {alu(Op::SHL, v.a, index_const(3)), "a*8"},
         {alu(Op::MUL, v.n, v.a + 1), "n+a*n"},
         {index_const(7) + v.a, "a+7"},
         {alu(Op::MUL, alu(Op::MUL, v.b, v.a), index_const(1)), "a*b"}});
}

BOOST_AUTO_TEST_CASE(splitting_and_joining_axes_cancels) {
  // (5, 6, 7) flattened, viewed as (15, 14), flattened, and viewed as (5, 6, 7).
  UOp i = range_node(5, 0, AxisType::Loop), j = range_node(6, 1, AxisType::Loop),
      k = range_node(7, 2, AxisType::Loop);
  UOp flat = (i * 6 + j) * 7 + k;
  UOp flat2 = div(flat, 14) * 14 + mod(flat, 14);
  BOOST_TEST(print_expr(simplify(flat2)) == "L0*42+L1*7+L2");
  check({{div(flat2, 42), "L0"}, {mod(div(flat2, 7), 6), "L1"}, {mod(flat2, 7), "L2"}});
  // Three digits put together from the middle.
  UOp c = variable("c", 0, 999);
  check({{mod(c, 4) + mod(div(c, 4), 5) * 4 + mod(div(c, 20), 6) * 20 + div(c, 120) * 120, "c"},
         {mod(c, 4) + mod(div(c, 4), 5) * 4 + mod(div(c, 20), 6) * 20, "c%120"},
         {mod(c, 4) * 3 + div(c, 4) * 12, "c*3"},
         {mod(c + 25, 10) + div(c + 25, 10) * 10, "c+25"},
         {mod(div(c, 3), 4) + div(c, 12) * 4, "c//3"},
         {mod(c + 1, 8) + mod(div(c + 9, 8), 2) * 8, "(c+9)%16"}});
}

BOOST_AUTO_TEST_CASE(parts_that_do_not_belong_together_stay_apart) {
  UOp c = variable("c", 0, 31), d = variable("d", 0, 31);
  for (const UOp& u : {div(c, 4) * 4 + mod(d, 4), div(c, 4) * 5 + mod(c, 4), div(c, 3) * 4 + mod(c, 4),
                       div(c, 4) * -4 + mod(c, 4)})
    BOOST_TEST((simplify(u) == simplify(simplify(u))));
  BOOST_TEST(print_expr(simplify(div(c, 4) * 4 + mod(d, 4))) == "c//4*4+d%4");
  BOOST_TEST(print_expr(simplify(div(c, 4) * 5 + mod(c, 4))) == "c//4*5+c%4");
}

BOOST_AUTO_TEST_CASE(symbolic_sizes_divide_out) {
  UOp n = variable("n", 1, 64), m = variable("m", 1, 64);
  UOp i = range_node(4, 0, AxisType::Loop), j = range_node(n, 1, AxisType::Loop);
  UOp flat = i * n + j;
  check({{floordiv(flat, n), "L0"},
         {floormod(flat, n), "L1"},
         {floormod(j, n), "L1"},
         {floordiv(j, n), "0"},
         {less(j, n), "true"},
         {less(j + 1, n + 1), "true"},
         {floormod(j * 4 + i, n * 4), "L0+L1*4"},
         {floordiv(n * m * 3, m), "n*3"},
         {floormod(i, n) + floordiv(i, n) * n, "L0"},
         {floordiv(floordiv(i, n), m), "L0//(m*n)"}});
  // Nothing says that i stays below n.
  BOOST_TEST(simplify(less(i, n)).is_const() == false);
  BOOST_TEST(print_expr(simplify(floormod(i, n))) == "L0%n");
}

BOOST_AUTO_TEST_CASE(declared_multiples_vanish_under_remainders) {
  UOp n = variable("n", 0, 64, 8), x = variable("x", 0, 7);
  check({{mod(n, 4), "0"}, {mod(n + x, 4), "x%4"}, {mod(n, 16), "n%16"}, {mod(n * 2, 16), "0"}});
}

BOOST_AUTO_TEST_CASE(comparisons_have_one_form) {
  Vars v;
  check({{logical_not(below(v.x, 5)), "4<x"},
         {less(index_const(4), v.x), "4<x"},
         {less(v.a * 2, v.a * 2 + v.b), "0<b"},
         {less(v.a * 4, v.b * 4 + 3), "a<b+1"},
         {less(v.a, v.b + 1), "a<b+1"},
         {less(v.x * -1, index_const(-5)), "5<x"},
         {below(v.n, 8), "true"},
         {below(v.n, -8), "false"},
         {less(v.r, v.r + 1), "true"},
         {alu(Op::CMPEQ, v.a * 2, v.b * 4), "a==b*2"},
         {alu(Op::CMPEQ, v.b * 4, v.a * 2), "a==b*2"},
         {alu(Op::CMPNE, v.a * 2 + 1, v.b * 4), "true"},
         {alu(Op::CMPEQ, v.x, index_const(100)), "false"},
         {logical_not(alu(Op::CMPEQ, v.a, v.b)), "a!=b"},
         {alu(Op::CMPEQ, v.a + v.b, v.b + v.a), "true"}});
}

BOOST_AUTO_TEST_CASE(gates_keep_the_tightest_clauses) {
  Vars v;
  auto both = [](const UOp& x, const UOp& y) { return alu(Op::AND, x, y); };
  auto either = [](const UOp& x, const UOp& y) { return alu(Op::OR, x, y); };
  UOp over5 = less(index_const(5), v.x);
  check({{both(below(v.x, 9), below(v.x, 7)), "x<7"},
         {both(below(v.x, 100), below(v.a, 2)), "a<2"},
         {both(over5, below(v.x, 5)), "false"},
         {both(over5, below(v.x, 6)), "false"},
         {both(over5, below(v.x, 7)), "5<x&(x<7)"},
         {either(over5, below(v.x, 6)), "true"},
         {either(over5, below(v.x, 5)), "5<x|(x<5)"},
         {either(below(v.x, 9), below(v.x, 7)), "x<9"},
         {both(below(v.x, 9), logical_not(below(v.x, 9))), "false"},
         {both(both(below(v.a, 2), below(v.b, 3)), below(v.a, 2)), "a<2&(b<3)"}});
}

BOOST_AUTO_TEST_CASE(a_gate_simplifies_what_it_guards) {
  Vars v;
  UOp h = range_node(5, 0, AxisType::Loop), k = range_node(3, 1, AxisType::Reduce);
  UOp row = h + k - 1, inside = logical_and(logical_not(below(row, 0)), below(row, 5));
  auto under = [](const UOp& e, const UOp& gate) { return print_expr(simplify_under(e, gate)); };
  BOOST_TEST(under(mod(v.r, 4), below(v.r, 3)) == "L1");
  BOOST_TEST(under(div(v.x, 10), logical_and(below(v.x, 40), less(index_const(29), v.x))) == "3");
  BOOST_TEST(under(mod(row, 5), inside) == "L0+R1+-1");
  BOOST_TEST(under(div(row * 7 + v.r, 35), logical_and(inside, below(v.r, 7))) == "0");
  BOOST_TEST(under(below(v.x, 10), below(v.x, 5)) == "true");
  BOOST_TEST(under(below(v.x, 5), less(index_const(4), v.x)) == "false");
  BOOST_TEST(under(v.x + 1, below(v.x, 5)) == "x+1");
  // From the sum alone, each part is bounded by the least of the others.
  BOOST_TEST(under(below(v.b, 6), below(v.a + v.b, 6)) == "true");
  BOOST_TEST(under(below(v.b, 5), below(v.a + v.b, 6)) == "b<5");
  // An equation fixes a value.
  BOOST_TEST(under(v.x * 2 + v.a, alu(Op::CMPEQ, v.x, index_const(9))) == "a+18");
  // Near misses: the gate says nothing of y, or not enough.
  BOOST_TEST(under(mod(v.c, 4), below(v.x, 3)) == "c%4");
  BOOST_TEST(under(mod(v.c, 4), below(v.c, 5)) == "c%4");
  BOOST_TEST((simplify_under(mod(v.c, 4), UOp{}) == mod(v.c, 4)));
}

BOOST_AUTO_TEST_CASE(clauses_that_others_imply_vanish) {
  Vars v;
  UOp gate = logical_and(below(v.a + v.b, 4), below(v.b, 6));
  BOOST_TEST(print_expr(simplify_gate(gate)) == "a+b<4");
  UOp contradiction = logical_and(below(v.a + v.b, 4), less(index_const(5), v.b));
  BOOST_TEST(print_expr(simplify_gate(contradiction)) == "false");
}

BOOST_AUTO_TEST_CASE(a_padded_convolution_reads_one_affine_index) {
  UOp c = range_node(16, 0, AxisType::Reduce), h = range_node(5, 4, AxisType::Loop),
      k = range_node(3, 1, AxisType::Reduce), w = range_node(5, 5, AxisType::Loop),
      l = range_node(3, 2, AxisType::Reduce);
  UOp flat = c * 25 + (h + k - 1) * 5 + (w + l - 1);
  auto within = [](const UOp& u) { return logical_and(less(index_const(0), u), less(u, index_const(6))); };
  UOp gate = logical_and(within(h + k), within(w + l));
  UOp split = mod(div(flat, 25), 16) * 25 + mod(div(flat, 5), 5) * 5 + mod(flat, 5);
  BOOST_TEST(print_expr(simplify_under(split, gate)) == "R0*25+R1*5+R2+L4*5+L5+-6");
}
