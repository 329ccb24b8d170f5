// Every cast between two dtypes, scalar and in vectors of 8, over all bit patterns up to 16 bits and the hard
// ones above.
#include <boost/test/unit_test.hpp>

#include "cpu_plugin.h"
#include "exact.h"
#include "kernel_builder.h"
#include "sample_kernels.h"

namespace tolk::test {
namespace {

std::vector<uint8_t> pack(DType dtype, const std::vector<uint64_t>& codes) {
  std::vector<uint8_t> bytes(codes.size() * static_cast<size_t>(bits(dtype)) / 8);
  for (size_t i = 0; i < codes.size(); ++i) set(dtype, bytes.data(), i, codes[i]);
  return bytes;
}

void check_cast(DType from, DType to, uint16_t lanes, const std::vector<uint64_t>& codes) {
  std::vector<uint8_t> input = pack(from, codes), output(codes.size() * static_cast<size_t>(bits(to)) / 8);
  LoadedKernel kernel(cast_kernel(from, to, lanes));
  kernel.run({output, input}, static_cast<uint32_t>(codes.size() / lanes));
  int wrong = 0;
  for (size_t i = 0; i < codes.size(); ++i) {
    uint64_t found = get(to, output.data(), i), expected;
    // Between integers the value wraps instead of saturating.
    if (!is_float(from) && !is_float(to) && !is_bool(to)) {
      Exact v = decode(from, codes[i]);
      u128 wrapped = v.negative ? ~v.size + 1 : v.size;
      expected =
          static_cast<uint64_t>(wrapped) & (bits(to) == 64 ? ~uint64_t{0} : (uint64_t{1} << bits(to)) - 1);
    } else {
      expected = encode(to, decode(from, codes[i]));
    }
    if (!same(to, found, expected) && ++wrong <= 3)
      BOOST_ERROR(name(from) << " to " << name(to) << " x" << lanes << ": " << show(from, codes[i])
                             << " gave " << show(to, found) << ", expected " << show(to, expected));
  }
  BOOST_CHECK_MESSAGE(wrong == 0, name(from)
                                      << " to " << name(to) << " x" << lanes << ": " << wrong << " wrong");
}

BOOST_AUTO_TEST_CASE(the_reference_rounds_as_numerics_md_says) {
  auto f64 = [](double value) {
    uint64_t bits;
    std::memcpy(&bits, &value, 8);
    return decode(DType::F64, bits);
  };
  BOOST_CHECK_EQUAL(encode(DType::F16, f64(1 + 0x1p-11 + 0x1p-40)), 0x3c01u); // 1.0009765625
  BOOST_CHECK_EQUAL(encode(DType::F16, f64(65520)), 0x7c00u);
  BOOST_CHECK_EQUAL(encode(DType::F16, f64(65519.99)), 0x7bffu);
  BOOST_CHECK_EQUAL(encode(DType::F8E4M3, f64(1e9)), 0x7eu);
  BOOST_CHECK_EQUAL(encode(DType::F8E4M3, f64(0x1p-10)), 0u);
  BOOST_CHECK_EQUAL(encode(DType::F8E5M2, f64(65536)), 0x7bu);
  BOOST_CHECK_EQUAL(encode(DType::I8, f64(-1e9)), 0x80u);
  BOOST_CHECK_EQUAL(encode(DType::U8, f64(-0.5)), 0u);
  BOOST_CHECK_EQUAL(encode(DType::I32, f64(2147483647.5)), 0x7fffffffu);
}

BOOST_AUTO_TEST_CASE(every_cast_rounds_once_and_saturates_as_specified) {
  for (int from = 0; from <= TOLK_DTYPE_F8E8M0; ++from) {
    std::vector<uint64_t> codes = interesting(static_cast<DType>(from));
    for (int to = 0; to <= TOLK_DTYPE_F8E8M0; ++to) {
      if (from == to) continue;
      for (uint16_t lanes : {uint16_t{1}, uint16_t{8}})
        check_cast(static_cast<DType>(from), static_cast<DType>(to), lanes, codes);
    }
  }
}

BOOST_AUTO_TEST_CASE(bitcasts_keep_bits) {
  DType pairs[][2] = {{DType::F32, DType::I32},  {DType::F64, DType::U64},   {DType::F16, DType::U16},
                      {DType::BF16, DType::F16}, {DType::I8, DType::F8E4M3}, {DType::I32, DType::U32}};
  for (auto [a, b] : pairs) {
    for (uint16_t lanes : {uint16_t{1}, uint16_t{8}}) {
      KernelBuilder k("bits");
      auto out = k.buffer(b, true), back = k.buffer(a, true), in = k.buffer(a, false);
      auto i = k.imul(k.tile(), k.index(lanes));
      auto v = k.bitcast(k.load(in, i, lanes), b);
      k.store(out, i, v);
      k.store(back, i, k.bitcast(v, a));
      std::vector<uint8_t> input = pack(a, interesting(a)), output(input.size()), again(input.size());
      LoadedKernel(k.kernel).run({output, again, input},
                                 static_cast<uint32_t>(input.size() / (bits(a) / 8) / lanes));
      BOOST_CHECK(output == input);
      BOOST_CHECK(again == input);
    }
  }
  KernelBuilder k("bits");
  auto out = k.buffer(DType::U8, true), in = k.buffer(DType::BOOL, false);
  k.store(out, k.index(0), k.bitcast(k.load(in, k.index(0), 8), DType::U8));
  std::vector<uint8_t> input = {0, 1, 1, 0, 1, 0, 0, 1}, output(8);
  LoadedKernel(k.kernel).run({output, input});
  BOOST_CHECK(output == input);
}

} // namespace
} // namespace tolk::test
