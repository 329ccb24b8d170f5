// Linear forms of index expressions: terms, bounds, division, and what happens at the limits.
#include <boost/test/unit_test.hpp>

#include <random>

#include "tolk/uop/build.h"
#include "tolk/uop/symbolic/affine.h"

using namespace tolk;
using namespace tolk::sym;

namespace {

UOp range(int64_t extent, int axis) { return range_node(extent, axis, AxisType::Loop); }

} // namespace

BOOST_AUTO_TEST_SUITE(affine)

BOOST_AUTO_TEST_CASE(terms_are_collected) {
  UOp a = range(8, 0), b = range(5, 1);
  Affine form((a * int64_t(10) + b) * int64_t(3) + (b - a) + int64_t(7));
  BOOST_TEST(form.valid);
  BOOST_TEST(form.k == 7);
  BOOST_TEST(form.factor(a) == 29);
  BOOST_TEST(form.factor(b) == 4);
  BOOST_TEST(int64_t(form.interval().lo) == 7);
  BOOST_TEST(int64_t(form.interval().hi) == 7 + 29 * 7 + 4 * 4);
}

// Against arithmetic, for every value of the loops.
BOOST_AUTO_TEST_CASE(division_splits_off_multiples) {
  std::mt19937_64 random(3);
  int known = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    int64_t ea = int64_t(random() % 5) + 2, eb = int64_t(random() % 6) + 2, c = int64_t(random() % 12) + 1;
    UOp a = range(ea, 0), b = range(eb, 1);
    Affine form;
    form.add_constant(int64_t(random() % 41) - 20);
    form.add_term(a, int64_t(random() % 25) - 12);
    form.add_term(b, int64_t(random() % 25) - 12);
    for (Residue kind : {Residue::Truncated, Residue::Nearest, Residue::Positive, Residue::Whole}) {
      Division d = divide(form, c, kind);
      known += d.known;
      for (int64_t va = 0; va < ea; ++va)
        for (int64_t vb = 0; vb < eb; ++vb) {
          auto value = [&](const Affine& f) { return f.k + f.factor(a) * va + f.factor(b) * vb; };
          BOOST_REQUIRE_EQUAL(value(form), value(d.outer) * c + value(d.inner));
          if (d.known) BOOST_REQUIRE(value(d.inner) >= 0 && value(d.inner) < c);
        }
    }
  }
  BOOST_TEST(known > 100);
}

BOOST_AUTO_TEST_CASE(overflow_clears_valid_and_wraps) {
  UOp a = range(8, 0);
  Affine form;
  form.add_term(a, INT64_MAX);
  form.add_term(a, 2);
  form.add_constant(INT64_MAX);
  form.add_constant(1);
  BOOST_TEST(!form.valid);
  BOOST_TEST(form.factor(a) == INT64_MIN + 1);
  BOOST_TEST(form.k == INT64_MIN);
  BOOST_TEST((form.interval().hi == kUnbounded));
  // As an expression it stays one term.
  UOp product = alu(Op::MUL, alu(Op::MUL, a, index_const(INT64_MAX)), index_const(3));
  BOOST_TEST(!Affine(product).valid);
  Affine opaque = Affine::of(product);
  BOOST_TEST(opaque.valid);
  BOOST_TEST(opaque.factor(product) == 1);
}

BOOST_AUTO_TEST_CASE(long_sums_keep_their_terms_and_are_not_valid) {
  UOp sum;
  Affine form;
  for (int i = 0; i < int(Affine::kMaxTerms) + 1; ++i) {
    BOOST_TEST(form.valid);
    form.add_term(range(4, i), i + 1);
    sum = sum ? sum + range(4, i) : range(4, i);
  }
  BOOST_TEST(!form.valid);
  BOOST_TEST(form.terms.size() == Affine::kMaxTerms + 1);
  BOOST_TEST(!Affine(sum).valid);
  BOOST_TEST(Affine::of(sum).factor(sum) == 1);
}

BOOST_AUTO_TEST_SUITE_END()
