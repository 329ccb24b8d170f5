// Each rule once where it applies and once where it just does not; fixed-width wrapping; floats keep every
// bit.
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <limits>
#include <set>

#include "random_expr.h"
#include "tolk/uop/build.h"
#include "tolk/uop/print.h"
#include "tolk/uop/symbolic/symbolic.h"

using namespace tolk;

namespace {

UOp input(int slot, DType dtype) { return load(param_node(slot, dtype, 16), variable("at", 0, 15)); }
UOp num(DType d, double v) { return constant(d, v); }
UOp num(DType d, int v) { return constant(d, v); }

void becomes(const UOp& from, const UOp& to) {
  UOp got = simplify(from);
  BOOST_TEST((got == to), print_expr(from) << " became " << print_expr(got) << ", not " << print_expr(to));
}
void stays(const UOp& u) { becomes(u, u); }

const double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

} // namespace

BOOST_AUTO_TEST_CASE(identities_of_integers) {
  for (DType d : {DType::I32, DType::U8, DType::I64, DType::U64}) {
    UOp x = input(1, d), y = input(2, d), zero = num(d, 0), one = num(d, 1), ones = num(d, -1);
    becomes(alu(Op::ADD, x, zero), x), becomes(alu(Op::ADD, zero, x), x), becomes(alu(Op::SUB, x, zero), x);
    becomes(alu(Op::MUL, x, one), x), becomes(alu(Op::MUL, one, x), x), becomes(alu(Op::MUL, x, zero), zero);
    becomes(alu(Op::FLOORDIV, x, one), x), becomes(alu(Op::CDIV, x, one), x),
        becomes(alu(Op::FLOORMOD, x, one), zero);
    becomes(alu(Op::FLOORDIV, x, zero), zero), becomes(alu(Op::CMOD, x, zero), zero);
    becomes(alu(Op::AND, x, zero), zero), becomes(alu(Op::AND, x, ones), x), becomes(alu(Op::OR, x, zero), x),
        becomes(alu(Op::OR, x, ones), ones);
    becomes(alu(Op::XOR, x, zero), x), becomes(alu(Op::XOR, x, x), zero),
        becomes(alu(Op::XOR, alu(Op::XOR, x, y), y), x);
    becomes(alu(Op::SUB, x, x), zero), becomes(alu(Op::MAX, x, x), x), becomes(alu(Op::AND, x, x), x);
    becomes(alu(Op::SHL, x, zero), x), becomes(alu(Op::SHL, x, num(d, 64)), zero);
    becomes(alu(Op::NEG, alu(Op::NEG, x)), x), becomes(alu(Op::FLOORMOD, x, x), zero);
    becomes(alu(Op::FLOORMOD, alu(Op::FLOORMOD, x, y), y), alu(Op::FLOORMOD, x, y));
    becomes(alu(Op::CMPLT, x, x), bool_const(false)), becomes(alu(Op::CMPEQ, x, x), bool_const(true));
    stays(alu(Op::FLOORDIV, x, x)); // 0 where x is 0
    stays(alu(Op::SUB, zero, x)), stays(alu(Op::SUB, x, y)), stays(alu(Op::ADD, x, y)),
        stays(alu(Op::ADD, y, x)), stays(alu(Op::AND, x, one));
  }
  UOp x = input(1, DType::I32);
  becomes(alu(Op::SHR, x, num(DType::I32, 31)), alu(Op::SHR, x, num(DType::I32, 31)));
  stays(alu(Op::SHR, x, num(DType::I32, 40))); // the sign, not 0
  UOp u = input(1, DType::U32);
  becomes(alu(Op::SHR, u, num(DType::U32, 40)), num(DType::U32, 0));
}

BOOST_AUTO_TEST_CASE(constants_merge_modulo_the_width) {
  UOp x = input(1, DType::U8);
  becomes(alu(Op::ADD, alu(Op::ADD, x, num(DType::U8, 200)), num(DType::U8, 100)),
          alu(Op::ADD, x, num(DType::U8, 44)));
  becomes(alu(Op::ADD, alu(Op::ADD, x, num(DType::U8, 200)), num(DType::U8, 56)), x);
  becomes(alu(Op::MUL, alu(Op::MUL, x, num(DType::U8, 16)), num(DType::U8, 16)), num(DType::U8, 0));
  becomes(alu(Op::AND, alu(Op::AND, x, num(DType::U8, 12)), num(DType::U8, 10)),
          alu(Op::AND, x, num(DType::U8, 8)));
  becomes(alu(Op::MAX, alu(Op::MAX, x, num(DType::U8, 12)), num(DType::U8, 10)),
          alu(Op::MAX, x, num(DType::U8, 12)));
  UOp f = input(2, DType::F32);
  stays(alu(Op::ADD, alu(Op::ADD, f, num(DType::F32, 1.0)), num(DType::F32, 2.0)));
  stays(alu(Op::MUL, alu(Op::MUL, f, num(DType::F32, 3.0)), num(DType::F32, 2.0)));
}

BOOST_AUTO_TEST_CASE(wrapping_comparisons_are_not_solved) {
  // x = 0: x - 1 is 255. x = 250: x + 10 is 4.
  UOp x = input(1, DType::U8);
  stays(alu(Op::CMPLT, alu(Op::ADD, x, num(DType::U8, 255)), num(DType::U8, 5)));
  stays(alu(Op::CMPLT, alu(Op::ADD, x, num(DType::U8, 10)), num(DType::U8, 20)));
  stays(alu(Op::CMPLT, alu(Op::MUL, x, num(DType::U8, 4)), num(DType::U8, 17)));
  stays(alu(Op::FLOORDIV, alu(Op::MUL, x, num(DType::U8, 4)), num(DType::U8, 4)));
  UOp i = input(2, DType::I32);
  stays(alu(Op::CMPLT, alu(Op::ADD, i, num(DType::I32, 1)), num(DType::I32, 5)));
  // Where the bounds prove that nothing wraps, they are.
  UOp small = alu(Op::AND, i, num(DType::I32, 15));
  becomes(alu(Op::CMPLT, alu(Op::ADD, small, num(DType::I32, 1)), num(DType::I32, 5)),
          alu(Op::CMPLT, small, num(DType::I32, 4)));
  becomes(alu(Op::CMPLT, small, num(DType::I32, 16)), bool_const(true));
  becomes(alu(Op::FLOORMOD, small, num(DType::I32, 16)), small);
  stays(alu(Op::FLOORMOD, small, num(DType::I32, 15)));
}

BOOST_AUTO_TEST_CASE(simplified_fixed_width_arithmetic_has_the_same_value_for_every_input) {
  testing::RandomExpr random(testing::test_seed());
  for (DType d : {DType::U8, DType::I8}) {
    UOp x = input(1, d), y = input(2, d);
    for (int round = 0; round < 150; ++round) {
      std::vector<UOp> pool{x, y, constant(d, random.pick(-128, 255)), constant(d, random.pick(0, 9))};
      static const Op binary[] = {Op::ADD,      Op::SUB,      Op::MUL,  Op::MAX,  Op::AND, Op::OR, Op::XOR,
                                  Op::FLOORDIV, Op::FLOORMOD, Op::CDIV, Op::CMOD, Op::SHL, Op::SHR};
      auto any = [&] { return pool[size_t(random.pick(0, int64_t(pool.size()) - 1))]; };
      for (int i = 0; i < 8; ++i) {
        if (random.pick(0, 6) == 0)
          pool.push_back(where(alu(random.pick(0, 1) ? Op::CMPLT : Op::CMPEQ, any(), any()), any(), any()));
        else if (random.pick(0, 8) == 0)
          pool.push_back(cast(cast(any(), random.pick(0, 1) ? DType::I32 : DType::F32), d));
        else
          pool.push_back(alu(binary[random.pick(0, 12)], any(), any()));
      }
      UOp before = pool.back(), after = simplify(before);
      std::vector<UOp> inputs{x, y};
      Evaluator f(before, inputs), g(after, inputs);
      for (int i = 0; i < 256; i += 3)
        for (int j = 0; j < 256; j += 5) {
          std::vector<Scalar> values{scalar_of(constant(d, i)), scalar_of(constant(d, j))};
          auto p = int64_t(f.run(values).i), q = int64_t(g.run(values).i);
          BOOST_REQUIRE_MESSAGE(p == q, print_expr(before) << " became " << print_expr(after) << " at " << i
                                                           << ", " << j << ": " << p << " against " << q);
        }
    }
  }
}

BOOST_AUTO_TEST_CASE(floats_keep_every_bit) {
  for (DType d : {DType::F32, DType::F64, DType::F16}) {
    UOp x = input(1, d), y = input(2, d), zero = num(d, 0.0), one = num(d, 1.0);
    becomes(alu(Op::MUL, x, one), x), becomes(alu(Op::MUL, one, x), x), becomes(alu(Op::FDIV, x, one), x);
    becomes(alu(Op::ADD, x, num(d, -0.0)), x), becomes(alu(Op::SUB, x, zero), x);
    becomes(alu(Op::NEG, alu(Op::NEG, x)), x), becomes(alu(Op::MAX, x, x), x),
        becomes(alu(Op::MAX, x, num(d, -kInf)), x);
    becomes(where(bool_const(true), x, y), x), becomes(where(input(3, DType::BOOL), x, x), x);
    becomes(alu(Op::CMPLT, x, x), bool_const(false));
    stays(alu(Op::MUL, x, zero));         // NaN and inf give NaN
    stays(alu(Op::ADD, x, zero));         // -0 becomes +0
    stays(alu(Op::SUB, x, num(d, -0.0))); // likewise
    stays(alu(Op::SUB, x, x)), stays(alu(Op::FDIV, x, x));
    stays(alu(Op::FDIV, alu(Op::MUL, x, y), y));
    stays(alu(Op::CMPEQ, x, x)), stays(alu(Op::CMPNE, x, x));
    stays(alu(Op::ADD, x, x)), stays(alu(Op::ADD, alu(Op::ADD, x, y), x));
    stays(alu(Op::ADD, y, x)), stays(alu(Op::MUL, alu(Op::ADD, x, y), num(d, 2.0)));
    stays(alu(Op::RECIPROCAL, alu(Op::RECIPROCAL, x)));
    stays(alu(Op::XOR, alu(Op::CMPLT, x, y), bool_const(true))); // !(a < b) is not b <= a
  }
  UOp nan = num(DType::F32, kNan), zero = num(DType::F32, 0.0);
  becomes(alu(Op::MUL, nan, zero), nan);
}

BOOST_AUTO_TEST_CASE(casts_merge_only_where_the_first_loses_nothing) {
  UOp i8 = input(1, DType::I8), i16 = input(2, DType::I16), i32 = input(3, DType::I32),
      f16 = input(4, DType::F16), f32 = input(5, DType::F32), b = input(6, DType::BOOL),
      u64 = input(7, DType::U64);
  becomes(cast(cast(i8, DType::I32), DType::I64), cast(i8, DType::I64));
  becomes(cast(cast(i32, DType::I64), DType::I8), cast(i32, DType::I8));
  becomes(cast(cast(f16, DType::F32), DType::F16), f16);
  becomes(cast(cast(i8, DType::F32), DType::I16), cast(i8, DType::I16));
  becomes(cast(cast(b, DType::I32), DType::F32), cast(b, DType::F32));
  becomes(cast(cast(i32, DType::F64), DType::F32), cast(i32, DType::F32));
  stays(cast(cast(i32, DType::I8), DType::I32));
  stays(cast(cast(f32, DType::F16), DType::F32));
  stays(cast(cast(i16, DType::F32), DType::I8));  // saturates, where the direct cast wraps
  stays(cast(cast(i32, DType::F32), DType::F64)); // rounds
  stays(cast(cast(i8, DType::U8), DType::I32));
  stays(cast(cast(u64, DType::Index), DType::F32));
  UOp f = make(Op::BITCAST, DType::I32, {f32});
  becomes(bitcast(f, DType::U32), bitcast(f32, DType::U32));
  becomes(bitcast(f, DType::F32), f32);
  stays(bitcast(bitcast(i32, DType::F32), DType::U32)); // a NaN may be quietened on the way
}

BOOST_AUTO_TEST_CASE(positions_that_travelled_as_data_are_index_again) {
  UOp l = range_node(100, 0, AxisType::Loop);
  UOp as_int = cast(l, DType::I32);
  becomes(cast(as_int, DType::Index), l);
  becomes(cast(alu(Op::ADD, alu(Op::MUL, as_int, num(DType::I32, 2)), num(DType::I32, 1)), DType::Index),
          simplify(l * 2 + 1));
  becomes(alu(Op::CMPLT, as_int, num(DType::I32, 5)), less(l, index_const(5)));
  becomes(alu(Op::CMPLT, as_int, num(DType::I32, 100)), bool_const(true));
  // 99 does not fit 4 bits, and 99 * 2 does not fit 7.
  stays(cast(cast(l, DType::I4), DType::Index));
  stays(cast(alu(Op::MUL, cast(l, DType::I8), num(DType::I8, 2)), DType::Index));
  UOp data = input(1, DType::I32);
  stays(cast(alu(Op::ADD, data, num(DType::I32, 1)), DType::Index));
}

BOOST_AUTO_TEST_CASE(bools_and_choices) {
  UOp p = input(1, DType::BOOL), q = input(2, DType::BOOL), t = bool_const(true), f = bool_const(false);
  UOp x = input(3, DType::F32), y = input(4, DType::F32), z = input(5, DType::F32);
  auto inv = [](const UOp& u) { return alu(Op::XOR, u, bool_const(true)); };
  becomes(inv(inv(p)), p);
  becomes(alu(Op::AND, p, t), p), becomes(alu(Op::AND, p, f), f), becomes(alu(Op::OR, p, t), t),
      becomes(alu(Op::OR, p, f), p);
  becomes(alu(Op::AND, p, inv(p)), f), becomes(alu(Op::OR, p, inv(p)), t);
  becomes(alu(Op::AND, alu(Op::AND, p, q), p), simplify(alu(Op::AND, p, q)));
  BOOST_TEST((simplify(alu(Op::AND, p, q)) == simplify(alu(Op::AND, q, p))));
  becomes(alu(Op::CMPNE, p, t), inv(p)), becomes(alu(Op::CMPEQ, p, t), p), becomes(alu(Op::CMPNE, p, f), p);
  becomes(where(p, t, f), p), becomes(where(p, f, t), inv(p));
  becomes(where(inv(p), x, y), where(p, y, x));
  becomes(where(p, where(p, x, y), z), where(p, x, z)), becomes(where(p, z, where(p, x, y)), where(p, z, y));
  becomes(where(p, where(q, x, y), y), where(simplify(alu(Op::AND, p, q)), x, y));
  becomes(where(p, x, where(q, x, y)), where(simplify(alu(Op::OR, p, q)), x, y));
  becomes(inv(alu(Op::CMPEQ, x, y)), alu(Op::CMPNE, x, y));
  stays(where(p, where(q, x, y), z)), stays(inv(p)), stays(where(p, x, y));
}

BOOST_AUTO_TEST_CASE(memory_accesses_forget_gates_that_are_always_true) {
  UOp p = param_node(0, DType::F32, 16), l = range_node(16, 0, AxisType::Loop), v = input(1, DType::F32);
  UOp always = less(l, index_const(16)), never = less(l, index_const(0)), sometimes = less(l, index_const(9));
  becomes(load(p, l, always), load(p, l));
  becomes(load(p, l, never), num(DType::F32, 0.0));
  becomes(load(p, l, never, num(DType::F32, 3.0)), num(DType::F32, 3.0));
  stays(load(p, l, sometimes));
  becomes(store(p, l, v, always), store(p, l, v));
  stays(store(p, l, v, sometimes));
}

BOOST_AUTO_TEST_CASE(loops_of_one_iteration_disappear) {
  UOp p = param_node(0, DType::F32, 16), one = range_node(1, 0, AxisType::Reduce),
      l = range_node(4, 1, AxisType::Loop);
  UOp value = load(param_node(1, DType::F32, 64), l * 16 + one);
  becomes(reduce(Op::ADD, value, std::vector<UOp>{one}), load(param_node(1, DType::F32, 64), l * 16));
  UOp empty = range_node(0, 0, AxisType::Reduce);
  stays(reduce(Op::ADD, load(p, empty), std::vector<UOp>{empty})); // the identity, not an element
}

BOOST_AUTO_TEST_CASE(values_beyond_64_bits_are_not_mistaken_for_the_limit) {
  UOp big = constant(DType::U64, int64_t(uint64_t(1) << 63)), bigger = constant(DType::U64, int64_t(-1));
  becomes(alu(Op::CMPEQ, big, bigger), bool_const(false));
  becomes(alu(Op::CMPLT, big, bigger), bool_const(true));
  UOp x = input(1, DType::U64), masked = alu(Op::OR, x, big);
  stays(alu(Op::CMPLT, masked, bigger));
  stays(alu(Op::CMPEQ, masked, bigger));
  UOp plus = alu(Op::ADD, x, constant(DType::U64, 1)); // wraps to 0
  BOOST_TEST(plus.vmin() == 0);
  stays(alu(Op::CMPLT, constant(DType::U64, 0), plus));
}

BOOST_AUTO_TEST_CASE(index_arithmetic_that_would_leave_64_bits_is_left_alone) {
  UOp x = variable("x", 0, 9), huge = index_const(int64_t(1) << 62);
  UOp e = alu(Op::MUL, alu(Op::MUL, x, huge), huge);
  BOOST_TEST((simplify(e) == simplify(simplify(e))));
  BOOST_TEST(simplify(e).vmax() == INT64_MAX);
  stays(less(e, index_const(INT64_MAX)));
}

BOOST_AUTO_TEST_CASE(rules_have_distinct_names) {
  std::set<std::string> names;
  for (const Rule& rule : symbolic_rules().rules()) BOOST_TEST(names.insert(rule.name).second, rule.name);
}
