// Operations on integers and bool, against 128-bit arithmetic.
#include "bulk.h"

using namespace tolk;
using namespace tolk::test;

namespace {

constexpr auto equal = [](uint64_t a, uint64_t b) { return a == b; };

// Result of an operation on values, before it is wrapped.
Int reference(uint16_t opcode, DType dtype, Int a, Int b, Int c) {
  int width = bits(dtype);
  // A shift count that is negative or too large: everything is shifted out.
  bool out = b < 0 || b >= width;
  switch (opcode) {
  case TOLK_IR_ADD:
    return a + b;
  case TOLK_IR_SUB:
    return a - b;
  case TOLK_IR_MUL:
    return static_cast<Int>(static_cast<unsigned __int128>(a) * static_cast<unsigned __int128>(b));
  case TOLK_IR_NEG:
    return -a;
  case TOLK_IR_MULACC:
    return static_cast<Int>(static_cast<unsigned __int128>(a) * static_cast<unsigned __int128>(b) +
                            static_cast<unsigned __int128>(c));
  case TOLK_IR_MAX:
    return a > b ? a : b;
  case TOLK_IR_CDIV:
    return b == 0 ? 0 : a / b;
  case TOLK_IR_CMOD:
    return b == 0 ? 0 : a % b;
  case TOLK_IR_SHL:
    return out ? 0 : static_cast<Int>(static_cast<unsigned __int128>(a) << static_cast<int>(b));
  case TOLK_IR_SHR:
    return out ? (a < 0 ? -1 : 0) : a >> static_cast<int>(b);
  case TOLK_IR_AND:
    return a & b;
  case TOLK_IR_OR:
    return a | b;
  case TOLK_IR_XOR:
    return a ^ b;
  case TOLK_IR_CMPLT:
    return a < b;
  case TOLK_IR_CMPEQ:
    return a == b;
  case TOLK_IR_CMPNE:
    return a != b;
  default:
    throw std::logic_error("no reference");
  }
}

bool is_comparison(uint16_t opcode) { return opcode >= TOLK_IR_CMPLT && opcode <= TOLK_IR_CMPNE; }

void check_op(uint16_t opcode, DType dtype, std::vector<Argument> arguments) {
  DType result = is_comparison(opcode) ? DType::BOOL : dtype;
  for (uint16_t lanes : {1, 4}) {
    // Vectors run the same function in a loop: a part of the list is enough for them.
    for (Argument& argument : arguments) {
      if (lanes > 1 && argument.values.size() > 4000)
        argument.values.erase(argument.values.begin(), argument.values.end() - 4000);
      pad(argument.values, lanes);
    }
    auto value = [&](size_t k, size_t i) -> Int {
      return k < arguments.size() ? int_value(dtype, arguments[k].values[i]) : 0;
    };
    check_all(
        ir_op_name(opcode), dtype, apply(opcode, result, arguments, lanes), arguments,
        [&](size_t i) {
          return int_raw(result, reference(opcode, dtype, value(0, i), value(1, i), value(2, i)));
        },
        equal);
  }
}

} // namespace

BOOST_AUTO_TEST_SUITE(int_ops)

BOOST_AUTO_TEST_CASE(binary_operations_of_every_integer_type) {
  const uint16_t opcodes[] = {TOLK_IR_ADD,  TOLK_IR_SUB,   TOLK_IR_MUL,   TOLK_IR_MAX,  TOLK_IR_CDIV,
                              TOLK_IR_CMOD, TOLK_IR_SHL,   TOLK_IR_SHR,   TOLK_IR_AND,  TOLK_IR_OR,
                              TOLK_IR_XOR,  TOLK_IR_CMPLT, TOLK_IR_CMPEQ, TOLK_IR_CMPNE};
  for (DType dtype : int_dtypes()) {
    std::vector<uint64_t> a = interesting(dtype), b = a;
    cross(a, b);
    std::vector<uint64_t> more_a = random_raw(dtype, 1000, 1), more_b = random_raw(dtype, 1000, 2);
    a.insert(a.end(), more_a.begin(), more_a.end());
    b.insert(b.end(), more_b.begin(), more_b.end());
    for (uint16_t opcode : opcodes) check_op(opcode, dtype, {{dtype, a}, {dtype, b}});
  }
}

BOOST_AUTO_TEST_CASE(negation_and_multiply_add_of_every_integer_type) {
  for (DType dtype : int_dtypes()) {
    check_op(TOLK_IR_NEG, dtype, {{dtype, interesting(dtype)}});
    std::vector<Argument> three;
    for (uint64_t seed : {3, 4, 5}) three.push_back({dtype, random_raw(dtype, 3000, seed)});
    check_op(TOLK_IR_MULACC, dtype, three);
  }
}

BOOST_AUTO_TEST_CASE(bool_has_logic_maximum_and_comparisons) {
  std::vector<uint64_t> a = {0, 1}, b = a;
  cross(a, b);
  for (uint16_t opcode :
       {TOLK_IR_AND, TOLK_IR_OR, TOLK_IR_XOR, TOLK_IR_MAX, TOLK_IR_CMPLT, TOLK_IR_CMPEQ, TOLK_IR_CMPNE})
    check_op(opcode, DType::BOOL, {{DType::BOOL, a}, {DType::BOOL, b}});
}

BOOST_AUTO_TEST_CASE(the_cases_where_machines_differ) {
  auto one = [](uint16_t opcode, DType dtype, uint64_t a, uint64_t b) {
    return apply(opcode, dtype, {{dtype, {a}}, {dtype, {b}}})[0];
  };
  BOOST_TEST(one(TOLK_IR_CDIV, DType::I32, 0x80000000, 0xffffffff) == 0x80000000u);
  BOOST_TEST(one(TOLK_IR_CMOD, DType::I32, 0x80000000, 0xffffffff) == 0u);
  BOOST_TEST(one(TOLK_IR_CDIV, DType::I64, uint64_t{1} << 63, UINT64_MAX) == uint64_t{1} << 63);
  BOOST_TEST(one(TOLK_IR_CMOD, DType::I64, uint64_t{1} << 63, UINT64_MAX) == 0u);
  BOOST_TEST(one(TOLK_IR_CDIV, DType::U8, 7, 0) == 0u);
  BOOST_TEST(one(TOLK_IR_CMOD, DType::U8, 7, 0) == 0u);
  BOOST_TEST(one(TOLK_IR_CDIV, DType::I32, static_cast<uint32_t>(-7), 2) == static_cast<uint32_t>(-3));
  BOOST_TEST(one(TOLK_IR_CMOD, DType::I32, static_cast<uint32_t>(-7), 2) == static_cast<uint32_t>(-1));
  BOOST_TEST(one(TOLK_IR_SHL, DType::U32, 1, 32) == 0u);
  BOOST_TEST(one(TOLK_IR_SHR, DType::U64, UINT64_MAX, 64) == 0u);
  BOOST_TEST(one(TOLK_IR_SHR, DType::I16, 0x8000, 16) == 0xffffu);
  BOOST_TEST(one(TOLK_IR_SHR, DType::I16, 0x8000, 0xffff) == 0xffffu); // a negative count
  BOOST_TEST(one(TOLK_IR_MUL, DType::U16, 0xffff, 0xffff) == 1u);
  BOOST_TEST(one(TOLK_IR_ADD, DType::I8, 127, 1) == 128u);
}

BOOST_AUTO_TEST_SUITE_END()
