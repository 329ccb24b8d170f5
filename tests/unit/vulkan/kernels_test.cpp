// Kernels on the Vulkan device give what the interpreter gives: bit for bit, except that a device may flush subnormal
// floats, has its own NaNs, and divides f64 with an error of 2.5 ulp.
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <span>

#include <boost/test/unit_test.hpp>

#include "kernel_builder.h"
#include "parse_kernel.h"
#include "sample_kernels.h"
#include "tolk/dtype/scalar.h"
#include "vulkan_device.h"

namespace tolk::test {
namespace {

using Id = KernelBuilder::Id;

// Random bits of the dtype, with limits and special values among them; no subnormals of f32 and f64.
Bytes values_of(DType dtype, size_t count, unsigned seed) {
  std::mt19937_64 random(seed * 100 + static_cast<unsigned>(dtype));
  Bytes bytes(count * storage_bytes(dtype, 1));
  const double kSpecial[] = {
      0.0,       -0.0,          1,      -1,      0.5,       1.5,     2.5,       -2.5,
      127.5,     128,           255.5,  256,     -129,      32767.5, 65535.75,  2147483648.0,
      4.3e9,     -2147483649.0, 9.3e18, -9.3e18, 1.9e19,    65504,   65520,     INFINITY,
      -INFINITY, NAN,           1e-7,   5.97e-8, 3.3895e38, 448,     16777217.0};
  for (size_t i = 0; i < count; ++i) {
    uint64_t word = random();
    if (is_bool(dtype)) word &= 1;
    if (is_float(dtype)) {
      if (i < std::size(kSpecial))
        word = float_to_bits(dtype, kSpecial[i]);
      else if (i % 4 != 0)
        word = float_to_bits(
            dtype, std::ldexp(static_cast<double>(static_cast<int64_t>(word)), int(word % 64) - 70));
      double value = float_from_bits(dtype, word);
      if ((dtype == DType::F32 || dtype == DType::F64 || dtype == DType::BF16) && subnormal(dtype, value))
        word = 0;
    } else if (i < 8) {
      const __int128 kEdges[] = {0, 1, -1, int_min(dtype), int_max(dtype), int_max(dtype) - 1, 40, 7};
      word = static_cast<uint64_t>(kEdges[i]) & (is_bool(dtype) ? 1 : ~uint64_t{0});
    }
    std::memcpy(bytes.data() + i * storage_bytes(dtype, 1), &word, storage_bytes(dtype, 1));
  }
  return bytes;
}

Arguments elementwise(const KernelIR& kernel, uint16_t lanes) {
  constexpr uint32_t kTiles = 64;
  Arguments arguments{.buffers = {}, .grid = {kTiles, 1, 1}};
  for (size_t i = 0; i < kernel.params.size(); ++i)
    arguments.buffers.push_back(values_of(static_cast<DType>(kernel.params[i].dtype), size_t{kTiles} * lanes,
                                          static_cast<unsigned>(i)));
  return arguments;
}

BOOST_AUTO_TEST_CASE(casts_between_all_dtypes_follow_the_rules_of_the_kernel_ir,
                     *boost::unit_test::precondition(has_vulkan) * boost::unit_test::label("slow")) {
  for (int from = 0; from <= TOLK_DTYPE_F8E8M0; ++from)
    for (int to = 0; to <= TOLK_DTYPE_F8E8M0; ++to) {
      if (from == to) continue;
      KernelIR kernel = cast_kernel(static_cast<DType>(from), static_cast<DType>(to), 4);
      compare_with_interpreter(kernel, elementwise(kernel, 4));
    }
}

BOOST_AUTO_TEST_CASE(arithmetic_of_all_dtypes_follows_the_rules_of_the_kernel_ir,
                     *boost::unit_test::precondition(has_vulkan) * boost::unit_test::label("slow")) {
  for (const KernelIR& kernel : all_sample_kernels()) {
    size_t cut = kernel.name.find('_');
    bool sample = kernel.name[0] >= 'A' && kernel.name[0] <= 'Z'; // an opcode
    bool fused = kernel.name.starts_with("MULACC") && is_float(static_cast<DType>(kernel.params[0].dtype));
    // Sums and products of f8e8m0 overflow f32, which no code generator asks for.
    bool unbounded = kernel.params[0].dtype == TOLK_DTYPE_F8E8M0;
    if (!sample || fused || unbounded || cut == std::string::npos) continue;
    uint16_t lanes = kernel.name.ends_with("_8") ? 8 : 1;
    if (lanes == 8 && kernel.params[0].dtype != TOLK_DTYPE_F32 && kernel.params[0].dtype != TOLK_DTYPE_U8)
      continue;
    bool rounds = kernel.name.starts_with("FDIV") || kernel.name.starts_with("SQRT");
    compare_with_interpreter(kernel, elementwise(kernel, lanes), rounds ? 4 : 0);
  }
}

// A driver may simplify the comparison of a converted integer with a constant to one of the narrower type.
BOOST_AUTO_TEST_CASE(converted_integers_compare_by_value, *boost::unit_test::precondition(has_vulkan)) {
  std::vector<int32_t> numbers = {INT32_MIN, -300, -128, -1, 0, 1, 9, 10, 11, 127, 300, INT32_MAX};
  Bytes given(numbers.size() * 4);
  std::memcpy(given.data(), numbers.data(), given.size());
  for (std::string from : {"i8", "u8", "i16", "u16", "i32", "u32"})
    for (std::string to : {"i16", "u16", "i32", "u32", "i64", "u64"})
      for (std::string compared :
           {"CMPLT bool %7 %8", "CMPLT bool %8 %7", "CMPEQ bool %7 %8", "CMPNE bool %7 %8"})
        for (std::string number : {"10", "-5000000000", "5000000000"}) {
          if (from == to || (number.size() > 2 && to != "i64")) continue;
          std::string text =
              "kernel compare\nparam buffer i32 w 12\nparam buffer i32 r 12\n%0 = PARAM i32 [0]\n"
              "%1 = PARAM i32 [1]\n%2 = SPECIAL i32 [256, 12]\n%3 = LOAD i32 %1 %2\n%4 = CONST i32 1\n"
              "%5 = CONST i32 0\n%6 = " +
              (from == "i32" ? "ADD i32 %3 %5" : "CAST " + from + " %3") + "\n%7 = CAST " + to +
              " %6\n%8 = CONST " + to + " " + number + "\n%9 = " + compared +
              "\n%10 = WHERE i32 %9 %4 %5\n%11 = STORE i32 %0 %2 %10\n";
          BOOST_TEST_CONTEXT(text)
          compare_with_interpreter(parse_kernel_ir(text),
                                   {.buffers = {Bytes(given.size()), given}, .local = {12, 1, 1}});
        }
}

BOOST_AUTO_TEST_CASE(loops_registers_gates_and_gathers, *boost::unit_test::precondition(has_vulkan)) {
  auto f32 = [](size_t count, unsigned seed) {
    Bytes bytes(count * 4);
    for (size_t i = 0; i < count; ++i) {
      float v = static_cast<float>(static_cast<int>((i * 7 + seed * 13) % 31) - 15) * 0.25f;
      std::memcpy(bytes.data() + 4 * i, &v, 4);
    }
    return bytes;
  };
  auto i32 = [](std::initializer_list<int32_t> values) {
    Bytes bytes(values.size() * 4);
    std::memcpy(bytes.data(), values.begin(), bytes.size());
    return bytes;
  };
  compare_with_interpreter(vector_add(),
                           {.buffers = {f32(512, 0), f32(512, 1), f32(512, 2)}, .grid = {64, 1, 1}});
  compare_with_interpreter(row_sum(), {.buffers = {f32(16, 0), f32(512, 1)}, .grid = {16, 1, 1}});
  for (int64_t n : {0, 1, 5, 100})
    compare_with_interpreter(guarded_sum(),
                             {.buffers = {i32({0}), values_of(DType::I32, 1000, 3)}, .values = {n}});
  for (int64_t n : {0, 3, 13, 16}) {
    Bytes flags = values_of(DType::BOOL, 128, 1);
    compare_with_interpreter(
        gated_copy(), {.buffers = {f32(128, 0), f32(128, 1), flags}, .values = {n}, .grid = {1, 1, 1}});
  }
  compare_with_interpreter(
      gather_scatter(),
      {.buffers = {f32(8, 0), f32(8, 1), i32({3, -1, 0, 7, 2, 2, -1, 5})}, .grid = {1, 1, 1}});
  compare_with_interpreter(
      shared_transpose(),
      {.buffers = {values_of(DType::I16, 64, 1), values_of(DType::I16, 64, 2)}, .grid = {4, 1, 1}});
  compare_with_interpreter(
      integer_mix(),
      {.buffers = {values_of(DType::I32, 8, 1), values_of(DType::I32, 8, 2), values_of(DType::U8, 8, 3)}});
}

// llvmpipe leaves a shader's loops after 65,535 iterations in all.
BOOST_AUTO_TEST_CASE(long_loops_run_to_their_end, *boost::unit_test::precondition(has_vulkan)) {
  KernelBuilder b("long");
  Id out = b.buffer(DType::I32, true), n = b.value(DType::I32, 0, 70000);
  Id acc = b.registers(DType::I32, 1), i0 = b.index(0);
  b.store(acc, i0, i0);
  Id i = b.loop(300), j = b.loop(301);
  b.store(acc, i0, b.add(b.load(acc, i0), b.add(i, j)));
  b.end(j);
  b.end(i);
  Id k = b.range(n);
  b.store(acc, i0, b.add(b.load(acc, i0), k));
  b.end(k);
  b.store(out, i0, b.load(acc, i0));
  // Below the limit by its iterations alone, but the last test of each loop counts, too.
  KernelBuilder c("short_inner_loops");
  Id sum = c.buffer(DType::I32, true), reg = c.registers(DType::I32, 1), zero = c.index(0);
  c.store(reg, zero, zero);
  Id outer = c.loop(15000), inner = c.loop(3);
  c.store(reg, zero, c.add(c.load(reg, zero), c.add(outer, inner)));
  c.end(inner);
  c.end(outer);
  c.store(sum, zero, c.load(reg, zero));
  compare_with_interpreter(c.kernel, {.buffers = {Bytes(4)}});
  for (int64_t count : {0, 1, 69999, 70000})
    compare_with_interpreter(b.kernel, {.buffers = {Bytes(4)}, .values = {count}});
}

BOOST_AUTO_TEST_CASE(work_items_of_a_group_exchange_elements, *boost::unit_test::precondition(has_vulkan)) {
  KernelBuilder b("reverse");
  Id out = b.buffer(DType::I32, true), x = b.buffer(DType::I32, false);
  Id group = b.tile(), item = b.kernel.add(TOLK_IR_SPECIAL, DType::I32, 1, {}, {256, 64});
  Id local = b.local(DType::I32, 64), at = b.iadd(b.imul(group, b.index(64)), item);
  b.store(local, item, b.load(x, at));
  b.kernel.add(TOLK_IR_BARRIER, DType::Void, 1, {});
  b.store(out, at, b.load(local, b.op(TOLK_IR_SUB, {b.index(63), item})));
  Bytes in = values_of(DType::I32, 640, 1);
  std::vector<Bytes> result =
      run_on("VULKAN", b.kernel, {.buffers = {Bytes(640 * 4), in}, .grid = {10, 1, 1}, .local = {64, 1, 1}});
  for (size_t i = 0; i < 640; ++i)
    BOOST_TEST(element(result[0], DType::I32, i) == element(in, DType::I32, i / 64 * 64 + 63 - i % 64));
}

} // namespace
} // namespace tolk::test
