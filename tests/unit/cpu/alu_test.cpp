// Arithmetic of every dtype against references of the test's own.
#include <cmath>
#include <cstring>

#include <boost/test/unit_test.hpp>

#include "cpu_plugin.h"
#include "exact.h"
#include "sample_kernels.h"

namespace tolk::test {
namespace {

constexpr size_t kPairs = 20000;

// Operand arrays: every combination of corner values, then random ones.
std::vector<uint64_t> operands(DType dtype, size_t salt) {
  std::vector<uint64_t> pool = interesting(dtype), result;
  size_t corners = std::min<size_t>(pool.size(), 16);
  for (size_t i = 0; i < corners * corners; ++i)
    result.push_back(pool[salt == 1 ? i / corners : i % corners]);
  while (result.size() < kPairs) result.push_back(pool[random_bits() % pool.size()]);
  return result;
}

std::vector<uint8_t> pack(DType dtype, const std::vector<uint64_t>& codes) {
  std::vector<uint8_t> bytes(codes.size() * static_cast<size_t>(bits(dtype)) / 8);
  for (size_t i = 0; i < codes.size(); ++i) set(dtype, bytes.data(), i, codes[i]);
  return bytes;
}

// Runs opcode over operand arrays and compares each result with `reference(a, b, c)`.
template <class Reference>
void check_op(uint16_t opcode, DType dtype, const std::vector<uint64_t>& a, const std::vector<uint64_t>& b,
              const std::vector<uint64_t>& c, Reference reference) {
  bool compares = opcode >= TOLK_IR_CMPLT && opcode <= TOLK_IR_CMPNE;
  bool unary = opcode == TOLK_IR_NEG || opcode == TOLK_IR_SQRT || opcode == TOLK_IR_TRUNC;
  bool ternary = opcode == TOLK_IR_MULACC || opcode == TOLK_IR_WHERE;
  DType result_type = compares ? DType::BOOL : dtype;
  DType first_type = opcode == TOLK_IR_WHERE ? DType::BOOL : dtype;
  std::vector<uint8_t> pa = pack(first_type, a), pb = pack(dtype, b), pc = pack(dtype, c);
  for (uint16_t lanes : {uint16_t{1}, uint16_t{8}}) {
    LoadedKernel kernel(alu_kernel(opcode, dtype, lanes));
    std::vector<uint8_t> out(a.size() * static_cast<size_t>(bits(result_type)) / 8);
    auto tiles = static_cast<uint32_t>(a.size() / lanes);
    if (unary)
      kernel.run({out, pa}, tiles);
    else if (ternary)
      kernel.run({out, pa, pb, pc}, tiles);
    else
      kernel.run({out, pa, pb}, tiles);
    int wrong = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      uint64_t found = get(result_type, out.data(), i), expected = reference(a[i], b[i], c[i]);
      if (!same(result_type, found, expected) && ++wrong <= 3)
        BOOST_ERROR(ir_op_name(opcode)
                    << " x" << lanes << ": " << show(first_type, a[i]) << ", " << show(dtype, b[i]) << ", "
                    << show(dtype, c[i]) << " gave " << show(result_type, found) << ", expected "
                    << show(result_type, expected));
    }
    BOOST_CHECK_MESSAGE(wrong == 0, ir_op_name(opcode)
                                        << " " << name(dtype) << " x" << lanes << ": " << wrong << " wrong");
  }
}

i128 to_int(DType dtype, uint64_t code) {
  Exact v = decode(dtype, code);
  return v.negative ? -static_cast<i128>(v.size) : static_cast<i128>(v.size);
}
uint64_t wrap(DType dtype, i128 value) {
  return static_cast<uint64_t>(value) & (bits(dtype) == 64 ? ~uint64_t{0} : (uint64_t{1} << bits(dtype)) - 1);
}

constexpr DType kIntegers[] = {DType::I8,  DType::U8,  DType::I16, DType::U16,
                               DType::I32, DType::U32, DType::I64, DType::U64};

BOOST_AUTO_TEST_CASE(integers_wrap_and_division_by_zero_gives_zero) {
  for (DType t : kIntegers) {
    std::vector<uint64_t> a = operands(t, 1), b = operands(t, 2), c = operands(t, 3);
    auto with = [&](uint16_t opcode, auto function) {
      check_op(opcode, t, a, b, c, [&](uint64_t x, uint64_t y, uint64_t z) {
        return wrap(t, function(to_int(t, x), to_int(t, y), to_int(t, z)));
      });
    };
    auto product = [](i128 x, i128 y) {
      return static_cast<i128>(static_cast<u128>(x) * static_cast<u128>(y));
    };
    with(TOLK_IR_ADD, [](i128 x, i128 y, i128) { return x + y; });
    with(TOLK_IR_SUB, [](i128 x, i128 y, i128) { return x - y; });
    with(TOLK_IR_MUL, [&](i128 x, i128 y, i128) { return product(x, y); });
    with(TOLK_IR_MULACC, [&](i128 x, i128 y, i128 z) {
      return static_cast<i128>(static_cast<u128>(product(x, y)) + static_cast<u128>(z));
    });
    with(TOLK_IR_NEG, [](i128 x, i128, i128) { return -x; });
    with(TOLK_IR_CDIV, [](i128 x, i128 y, i128) { return y == 0 ? 0 : x / y; });
    with(TOLK_IR_CMOD, [](i128 x, i128 y, i128) { return y == 0 ? 0 : x % y; });
    with(TOLK_IR_MAX, [](i128 x, i128 y, i128) { return x > y ? x : y; });
    with(TOLK_IR_AND, [](i128 x, i128 y, i128) { return x & y; });
    with(TOLK_IR_OR, [](i128 x, i128 y, i128) { return x | y; });
    with(TOLK_IR_XOR, [](i128 x, i128 y, i128) { return x ^ y; });
    with(TOLK_IR_CMPLT, [](i128 x, i128 y, i128) { return x < y; });
    with(TOLK_IR_CMPEQ, [](i128 x, i128 y, i128) { return x == y; });
    with(TOLK_IR_CMPNE, [](i128 x, i128 y, i128) { return x != y; });
    for (uint64_t& count : b)
      if (random_bits() % 4) count = random_bits() % (static_cast<uint64_t>(bits(t)) + 2);
    // A count is taken as unsigned.
    auto big = [&](i128 y) { return y < 0 || y >= bits(t); };
    with(TOLK_IR_SHL,
         [&](i128 x, i128 y, i128) { return big(y) ? 0 : static_cast<i128>(static_cast<u128>(x) << y); });
    with(TOLK_IR_SHR, [&](i128 x, i128 y, i128) { return big(y) ? (x < 0 ? -1 : 0) : x >> y; });
  }
}

template <class T> T as(uint64_t code) {
  T value;
  std::memcpy(&value, &code, sizeof value);
  return value;
}
template <class T> uint64_t code_of(T value) {
  uint64_t code = 0;
  std::memcpy(&code, &value, sizeof value);
  return code;
}

template <class T> void check_hardware_float(DType t) {
  std::vector<uint64_t> a = operands(t, 1), b = operands(t, 2), c = operands(t, 3);
  auto with = [&](uint16_t opcode, auto function) {
    check_op(opcode, t, a, b, c, [&](uint64_t x, uint64_t y, uint64_t z) {
      return code_of(function(as<T>(x), as<T>(y), as<T>(z)));
    });
  };
  with(TOLK_IR_ADD, [](T x, T y, T) { return x + y; });
  with(TOLK_IR_SUB, [](T x, T y, T) { return x - y; });
  with(TOLK_IR_MUL, [](T x, T y, T) { return x * y; });
  with(TOLK_IR_FDIV, [](T x, T y, T) { return x / y; });
  with(TOLK_IR_MULACC, [](T x, T y, T z) { return std::fma(x, y, z); });
  with(TOLK_IR_SQRT, [](T x, T, T) { return std::sqrt(x); });
  with(TOLK_IR_TRUNC, [](T x, T, T) { return std::trunc(x); });
  with(TOLK_IR_NEG, [](T x, T, T) { return -x; });
  with(TOLK_IR_CMPLT, [](T x, T y, T) { return x < y; });
  with(TOLK_IR_CMPEQ, [](T x, T y, T) { return x == y; });
  with(TOLK_IR_CMPNE, [](T x, T y, T) { return x != y; });
  // Zeros of both signs are equal, so either may come out.
  for (size_t i = 0; i < a.size(); ++i)
    if (as<T>(a[i]) == 0 && as<T>(b[i]) == 0) b[i] = a[i];
  with(TOLK_IR_MAX, [](T x, T y, T) { return std::isnan(x) || std::isnan(y) ? NAN : (x > y ? x : y); });
}

BOOST_AUTO_TEST_CASE(f32_is_ieee_with_nan_from_max) { check_hardware_float<float>(DType::F32); }
BOOST_AUTO_TEST_CASE(f64_is_ieee_with_nan_from_max) { check_hardware_float<double>(DType::F64); }

constexpr DType kSmall[] = {DType::F16,    DType::BF16,       DType::F8E4M3, DType::F8E4M3FNUZ,
                            DType::F8E5M2, DType::F8E5M2FNUZ, DType::F8E8M0};

double to_double(DType t, uint64_t code) {
  Exact v = decode(t, code);
  if (v.kind == Exact::Kind::Nan) return NAN;
  double size =
      v.kind == Exact::Kind::Infinity ? INFINITY : std::ldexp(static_cast<double>(v.size), v.exponent);
  return v.negative ? -size : size;
}
uint64_t from_double(DType t, double value) { return encode(t, decode(DType::F64, code_of(value))); }

// The result in f32, rounded to the small type. f32 holds more than twice the bits of each of them, so for
// normal results that is the exact result rounded once.
BOOST_AUTO_TEST_CASE(small_floats_compute_in_f32_and_round_after_each_operation) {
  for (DType t : kSmall) {
    std::vector<uint64_t> a = operands(t, 1), b = operands(t, 2), c = operands(t, 3);
    auto with = [&](uint16_t opcode, auto function) {
      check_op(opcode, t, a, b, c, [&](uint64_t x, uint64_t y, uint64_t) {
        float result = function(static_cast<float>(to_double(t, x)), static_cast<float>(to_double(t, y)));
        return from_double(t, result);
      });
    };
    with(TOLK_IR_ADD, [](float x, float y) { return x + y; });
    with(TOLK_IR_SUB, [](float x, float y) { return x - y; });
    with(TOLK_IR_MUL, [](float x, float y) { return x * y; });
    with(TOLK_IR_FDIV, [](float x, float y) { return x / y; });
    with(TOLK_IR_SQRT, [](float x, float) { return std::sqrt(x); });
    with(TOLK_IR_TRUNC, [](float x, float) { return std::trunc(x); });
    with(TOLK_IR_NEG, [](float x, float) { return -x; });
    auto compare = [&](uint16_t opcode, auto function) {
      check_op(opcode, t, a, b, c, [&](uint64_t x, uint64_t y, uint64_t) {
        return uint64_t{function(to_double(t, x), to_double(t, y))};
      });
    };
    compare(TOLK_IR_CMPLT, [](double x, double y) { return x < y; });
    compare(TOLK_IR_CMPEQ, [](double x, double y) { return x == y; });
    compare(TOLK_IR_CMPNE, [](double x, double y) { return x != y; });
    for (size_t i = 0; i < a.size(); ++i)
      if (to_double(t, a[i]) == 0 && to_double(t, b[i]) == 0) b[i] = a[i];
    with(TOLK_IR_MAX,
         [](float x, float y) { return std::isnan(x) || std::isnan(y) ? NAN : (x > y ? x : y); });
  }
}

// Exact sums as integers: operands are kept within 2^-26 .. 2^26 for bf16, so that 128 bits hold them.
BOOST_AUTO_TEST_CASE(multiply_accumulate_of_small_floats_rounds_once) {
  for (DType t : {DType::F16, DType::BF16, DType::F8E4M3, DType::F8E5M2, DType::F8E4M3FNUZ}) {
    std::vector<uint64_t> v[3] = {operands(t, 1), operands(t, 2), operands(t, 3)};
    for (auto& values : v)
      for (uint64_t& code : values) {
        Exact x = decode(t, code);
        bool wide = t == DType::BF16 && x.kind == Exact::Kind::Finite && x.size != 0 &&
                    std::fabs(std::log2(std::fabs(to_double(t, code)))) > 26;
        if (wide) code = (code & 0x807f) | (101 + random_bits() % 50) << 7;
      }
    // Sums whose exact value lies just beside a midpoint: c is half a last place of the product, or the
    // reverse.
    for (size_t i = 0; i + 1 < v[0].size(); i += 2) {
      Exact product = decode(t, from_double(t, to_double(t, v[0][i]) * to_double(t, v[1][i])));
      if (product.kind != Exact::Kind::Finite || product.size == 0) continue;
      product.size = 1;
      product.exponent -= 1;
      product.negative = random_bits() & 1;
      v[2][i] = encode(t, product);
    }
    check_op(TOLK_IR_MULACC, t, v[0], v[1], v[2], [&](uint64_t x, uint64_t y, uint64_t z) {
      Exact a = decode(t, x), b = decode(t, y), c = decode(t, z);
      if (a.kind != Exact::Kind::Finite || b.kind != Exact::Kind::Finite || c.kind != Exact::Kind::Finite)
        return from_double(t, std::fma(to_double(t, x), to_double(t, y), to_double(t, z)));
      auto scaled = [](const Exact& e, u128 size, int exponent) {
        if (size == 0) return i128{0}; // its exponent may be far below
        i128 value = static_cast<i128>(size << (exponent + 68));
        return e.negative ? -value : value;
      };
      Exact p{Exact::Kind::Finite, a.negative != b.negative, a.size * b.size, a.exponent + b.exponent};
      i128 sum = scaled(p, p.size, p.exponent) + scaled(c, c.size, c.exponent);
      if (sum == 0) return from_double(t, std::fma(to_double(t, x), to_double(t, y), to_double(t, z)));
      Exact result{Exact::Kind::Finite, sum < 0, static_cast<u128>(sum < 0 ? -sum : sum), -68};
      return encode(t, result);
    });
  }
}

BOOST_AUTO_TEST_CASE(where_and_bool_operations) {
  for (int code = 0; code <= TOLK_DTYPE_F8E8M0; ++code) {
    auto t = static_cast<DType>(code);
    std::vector<uint64_t> a = operands(DType::BOOL, 1), b = operands(t, 2), c = operands(t, 3);
    check_op(TOLK_IR_WHERE, t, a, b, c, [&](uint64_t x, uint64_t y, uint64_t z) { return x ? y : z; });
  }
  std::vector<uint64_t> a = operands(DType::BOOL, 1), b = operands(DType::BOOL, 2);
  auto with = [&](uint16_t opcode, auto function) {
    check_op(opcode, DType::BOOL, a, b, b,
             [&](uint64_t x, uint64_t y, uint64_t) { return uint64_t{function(x, y)}; });
  };
  with(TOLK_IR_AND, [](bool x, bool y) { return x && y; });
  with(TOLK_IR_OR, [](bool x, bool y) { return x || y; });
  with(TOLK_IR_XOR, [](bool x, bool y) { return x != y; });
  with(TOLK_IR_MAX, [](bool x, bool y) { return x || y; });
  with(TOLK_IR_CMPLT, [](bool x, bool y) { return !x && y; });
  with(TOLK_IR_CMPEQ, [](bool x, bool y) { return x == y; });
  with(TOLK_IR_CMPNE, [](bool x, bool y) { return x != y; });
}

} // namespace
} // namespace tolk::test
