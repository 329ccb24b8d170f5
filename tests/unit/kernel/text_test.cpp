#include <fmt/format.h>

#include <boost/test/unit_test.hpp>

#include "parse_kernel.h"
#include "sample_kernels.h"
#include "tolk/base/error.h"

using namespace tolk;

namespace {

// The message of the FormatError that the text must cause.
std::string parse_error(std::string_view text) {
  try {
    test::parse_kernel_ir(text);
  } catch (const FormatError& error) {
    return error.what();
  }
  return "no error";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

} // namespace

BOOST_AUTO_TEST_SUITE(text)

BOOST_AUTO_TEST_CASE(a_kernel_reads_as_expected) {
  BOOST_TEST(print(test::vector_add()) == "kernel e_64_8\n"
                                          "param buffer f32 w 512\n"
                                          "param buffer f32 r 512\n"
                                          "%0 = PARAM f32 [0]\n"
                                          "%1 = PARAM f32 [1]\n"
                                          "%2 = SPECIAL i32 [0, 64]\n"
                                          "%3 = CONST i32 8\n"
                                          "%4 = MUL.nw i32 %2 %3\n"
                                          "%5 = LOAD f32x8 %1 %4\n"
                                          "%6 = ADD f32x8 %5 %5\n"
                                          "%7 = STORE f32x8 %0 %4 %6\n");
}

BOOST_AUTO_TEST_CASE(every_opcode_survives_the_round_trip) {
  KernelIR k = test::every_opcode();
  std::string printed = print(k);
  KernelIR back = test::parse_kernel_ir(printed);
  BOOST_TEST((back == k));
  BOOST_TEST(print(back) == printed);
  BOOST_CHECK_NO_THROW(verify(back));
}

BOOST_AUTO_TEST_CASE(equality_sees_every_part) {
  const KernelIR k = test::every_opcode();
  auto differs = [&](auto change) {
    KernelIR other = k;
    change(other);
    return !(other == k);
  };
  BOOST_TEST(differs([](KernelIR& o) { o.name += "x"; }));
  BOOST_TEST(differs([](KernelIR& o) { o.ops.pop_back(); }));
  BOOST_TEST(differs([](KernelIR& o) { o.ops[3].flags ^= 1; }));
  BOOST_TEST(differs([](KernelIR& o) { o.sources[0]++; }));
  BOOST_TEST(differs([](KernelIR& o) { o.attrs.back()++; }));
  BOOST_TEST(differs([](KernelIR& o) { o.params[2].max--; }));
}

BOOST_AUTO_TEST_CASE(all_bits_of_constants_survive_in_every_dtype) {
  KernelIR k;
  k.name = "constants";
  const uint64_t patterns[] = {0,
                               1,
                               0x80,
                               0x7f,
                               0x8000,
                               0x7c01,
                               0xfe00,
                               0x7fc0,
                               0x80000000,
                               0x7f800001, // signalling NaN
                               0xffc12345, // NaN with a payload
                               0x00000001, // denormal
                               0x807fffff,
                               0x7ff0000000000001,
                               0xfff8deadbeef0001,
                               0x8000000000000000,
                               0x000fffffffffffff,
                               UINT64_MAX,
                               INT64_MAX};
  for (int d = 0; d < kDTypeCount; d++)
    for (uint64_t bits : patterns)
      k.add(TOLK_IR_CONST, static_cast<DType>(d), 1, {}, {d == TOLK_DTYPE_BOOL ? bits & 1 : bits});
  BOOST_TEST((test::parse_kernel_ir(print(k)) == k));
}

BOOST_AUTO_TEST_CASE(constants_are_readable) {
  KernelIR k;
  k.name = "k";
  k.add(TOLK_IR_CONST, DType::F32, 4, {}, {0x3fc00000});
  k.add(TOLK_IR_CONST, DType::I8, 1, {}, {0xff});
  k.add(TOLK_IR_CONST, DType::U8, 1, {}, {0xff});
  k.add(TOLK_IR_CONST, DType::I64, 1, {}, {uint64_t{1} << 63});
  k.add(TOLK_IR_CONST, DType::F16, 1, {}, {0x8000});
  BOOST_TEST(print(k) == "kernel k\n"
                         "%0 = CONST f32x4 0x3fc00000 # 1.5\n"
                         "%1 = CONST i8 -1\n"
                         "%2 = CONST u8 255\n"
                         "%3 = CONST i64 -9223372036854775808\n"
                         "%4 = CONST f16 0x8000 # -0\n");
}

BOOST_AUTO_TEST_CASE(blanks_comments_and_line_ends_are_free) {
  KernelIR k = test::parse_kernel_ir("# a bug report\r\n\n  kernel\tk_1 # name\r\n"
                                     "  param  buffer  u8 rw 0\r\n\t%0=PARAM u8[0]#x\n"
                                     "%1 = CONST f32 0xff\n%2 = BARRIER");
  BOOST_TEST(k.name == "k_1");
  BOOST_TEST(k.ops.size() == 3u);
  BOOST_TEST(k.attrs[1] == 255u);
  BOOST_TEST(k.params[0].access == 3u);
}

BOOST_AUTO_TEST_CASE(errors_name_line_column_and_what_was_expected) {
  struct Case {
    const char *text, *where, *expected;
  };
  const Case cases[] = {
      {"", "line 1, column 1", "'kernel'"},
      {"# nothing\n", "line 1, column 1", "'kernel'"},
      {"%0 = BARRIER", "line 1, column 1", "'kernel'"},
      {"kernel", "line 1, column 7", "function name"},
      {"kernel a-b", "line 1, column 9", "end of the line"},
      {"kernel a\nkernel b", "line 2, column 1", "'param' or an operation"},
      {"kernel a\nparam thing", "line 2, column 7", "'buffer' or 'value'"},
      {"kernel a\nparam buffer f33 r 1", "line 2, column 14", "dtype"},
      {"kernel a\nparam buffer f32 x 1", "line 2, column 18", "r, w or rw"},
      {"kernel a\nparam buffer f32 r -1", "line 2, column 20", "element count"},
      {"kernel a\nparam value i32 0 9223372036854775808", "line 2, column 19", "largest value"},
      {"kernel a\n%1 = BARRIER", "line 2, column 3", "operation %0"},
      {"kernel a\n%0 BARRIER", "line 2, column 4", "'='"},
      {"kernel a\n%0 = FLY", "line 2, column 6", "opcode"},
      {"kernel a\n%0 = BARRIER.up", "line 2, column 14", "flag nw"},
      {"kernel a\n%0 = PARAM f32", "line 2, column 15", "attributes"},
      {"kernel a\n%0 = PARAM f32 [x]", "line 2, column 17", "attribute"},
      {"kernel a\n%0 = SPECIAL i32 [1 2]", "line 2, column 21", "','"},
      {"kernel a\n%0 = SPECIAL i32 [1, 2", "line 2, column 23", "']'"},
      {"kernel a\n%0 = PARAM f32 [18446744073709551616]", "line 2, column 17", "attribute"},
      {"kernel a\n%0 = CONST f32x65536 0", "line 2, column 12", "lanes"},
      {"kernel a\n%0 = CONST f32x 0", "line 2, column 12", "lanes"},
      {"kernel a\n%0 = CONST i8 128", "line 2, column 15", "-128 to 127"},
      {"kernel a\n%0 = CONST u8 -1", "line 2, column 15", "0 to 255"},
      {"kernel a\n%0 = CONST f16 0x10000", "line 2, column 16", "0 to 65535"},
      {"kernel a\n%0 = NEG f32 %0", "line 2, column 15", "no source"},
      {"kernel a\n%0 = CONST i32 1\n%1 = NEG i32 %1", "line 3, column 15", "earlier operation"},
      {"kernel a\n%0 = BARRIER\nparam value i32 0 1", "line 3, column 1", "an operation"},
      {"kernel a\n%0 = BARRIER ]", "line 2, column 14", "end of the line"},
  };
  for (const Case& c : cases) {
    std::string message = parse_error(c.text);
    BOOST_TEST(has(message, c.where), fmt::format("{}: {} is not in: {}", c.text, c.where, message));
    BOOST_TEST(has(message, c.expected), fmt::format("{}: {} is not in: {}", c.text, c.expected, message));
  }
}

BOOST_AUTO_TEST_CASE(damaged_text_gives_FormatError_or_a_kernel_that_can_be_handled) {
  const std::string good = print(test::every_opcode());
  const char junk[] = "%[],.x-0 9\n#\0\xff"
                      "A=";
  uint64_t state = 12345;
  auto random = [&](size_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<size_t>(state >> 33) % below;
  };
  int rejected = 0;
  for (int round = 0; round < 4000; round++) {
    std::string bad = good;
    for (size_t n = 1 + random(3); n > 0; n--) {
      size_t at = random(bad.size());
      if (random(2))
        bad[at] = junk[random(sizeof junk - 1)];
      else
        bad.erase(at, 1 + random(5));
    }
    try {
      KernelIR k = test::parse_kernel_ir(bad);
      BOOST_TEST((test::parse_kernel_ir(print(k)) == k));
      try {
        verify(k);
      } catch (const InternalError&) {
      }
    } catch (const FormatError&) {
      rejected++;
    }
  }
  BOOST_TEST(rejected > 2000);
}

BOOST_AUTO_TEST_SUITE_END()
