// The interpreter's own float formats, against a list of all their values.
#include <cmath>

#include <boost/test/unit_test.hpp>

#include "narrow.h"
#include "reference.h"
#include "tolk/dtype/scalar.h"

using namespace tolk;
using namespace tolk::test;

namespace {

struct Codec {
  DType dtype;
  double (*decode)(uint64_t);
  uint64_t (*encode)(double);
};

template <class Format> Codec codec(DType dtype) {
  return {dtype, [](uint64_t raw) { return Format::decode(static_cast<decltype(Format::encode(0.0))>(raw)); },
          [](double value) -> uint64_t { return Format::encode(value); }};
}

const Codec kCodecs[] = {
    codec<tolk_interp::Half>(DType::F16),          codec<tolk_interp::BFloat>(DType::BF16),
    codec<tolk_interp::F8E4M3>(DType::F8E4M3),     codec<tolk_interp::F8E4M3Fnuz>(DType::F8E4M3FNUZ),
    codec<tolk_interp::F8E5M2>(DType::F8E5M2),     codec<tolk_interp::F8E5M2Fnuz>(DType::F8E5M2FNUZ),
    codec<tolk_interp::ScaleFloat>(DType::F8E8M0), codec<tolk_interp::F4E2M1>(DType::F4E2M1),
};

// Asserts in bulk: one message for the first failure of a loop.
template <class... Parts> bool check(bool ok, const Parts&... parts) {
  if (!ok) {
    std::ostringstream text;
    (text << ... << parts);
    BOOST_ERROR(text.str());
  }
  return ok;
}

} // namespace

BOOST_AUTO_TEST_SUITE(narrow)

BOOST_AUTO_TEST_CASE(every_code_has_the_value_of_its_definition) {
  for (const Codec& c : kCodecs) {
    for (uint64_t raw = 0; raw < uint64_t{1} << bits(c.dtype); raw++) {
      double got = c.decode(raw);
      Quad want = float_value(c.dtype, raw);
      bool ok = is_nan(want) ? std::isnan(got)
                             : static_cast<Quad>(got) == want &&
                                   std::signbit(got) == (want < 0 || (want == 0 && raw != 0));
      if (!check(ok, name(c.dtype), " code ", raw, " gave ", got)) break;
    }
  }
}

BOOST_AUTO_TEST_CASE(every_value_encodes_to_its_own_code) {
  for (const Codec& c : kCodecs) {
    for (uint64_t raw = 0; raw < uint64_t{1} << bits(c.dtype); raw++) {
      uint64_t back = c.encode(c.decode(raw));
      if (!check(same_float(c.dtype, back, raw), name(c.dtype), " code ", raw, " came back as ", back)) break;
    }
  }
}

// Between neighbours the result may change only at the middle; that point and the doubles beside it decide.
BOOST_AUTO_TEST_CASE(rounding_changes_exactly_at_the_middle_between_neighbours) {
  for (const Codec& c : kCodecs) {
    uint64_t codes = uint64_t{1} << (bits(c.dtype) - (c.dtype == DType::F8E8M0 ? 0 : 1));
    for (uint64_t raw = 0; raw + 1 < codes; raw++) {
      double low = c.decode(raw), high = c.decode(raw + 1);
      if (!std::isfinite(low) || !std::isfinite(high)) break;
      double middle = (low + high) / 2; // exact
      uint64_t even = raw % 2 == 0 ? raw : raw + 1;
      bool ok = c.encode(middle) == even && c.encode(std::nextafter(middle, 0.0)) == raw &&
                c.encode(std::nextafter(middle, HUGE_VAL)) == raw + 1 &&
                c.encode(std::nextafter(high, 0.0)) == raw + 1;
      if (!check(ok, name(c.dtype), " between codes ", raw, " and ", raw + 1)) break;
    }
  }
}

BOOST_AUTO_TEST_CASE(the_edges_are_those_of_the_formats) {
  const double inf = HUGE_VAL, nan = std::nan("");
  using namespace tolk_interp;
  BOOST_TEST(Half::encode(65520) == 0x7c00);
  BOOST_TEST(Half::encode(std::nextafter(65520.0, 0.0)) == 0x7bff);
  BOOST_TEST(Half::encode(1 + 0x1p-11 + 0x1p-40) == 0x3c01); // rounded once
  BOOST_TEST(Half::encode(0x1p-25) == 0);
  BOOST_TEST(Half::encode(-0x1.000001p-25) == 0x8001);
  BOOST_TEST(Half::encode(5e-324) == 0);
  BOOST_TEST(Half::encode(-inf) == 0xfc00);
  BOOST_TEST(BFloat::encode(3.4e38) == 0x7f80);
  BOOST_TEST(BFloat::encode(1e308) == 0x7f80);
  BOOST_TEST((BFloat::encode(std::bit_cast<float>(0x7f800001)) & 0x7f) != 0); // a NaN stays one
  BOOST_TEST(F8E4M3::encode(1e9) == 0x7e);
  BOOST_TEST(F8E4M3::encode(-449) == 0xfe);
  BOOST_TEST(F8E4M3::encode(inf) == 0x7f);
  BOOST_TEST(F8E4M3::encode(-inf) == 0xff);
  BOOST_TEST(F8E4M3::encode(0x1p-10) == 0);
  BOOST_TEST(F8E4M3::encode(0x1.001p-10) == 1);
  BOOST_TEST(F8E4M3::encode(-0.0) == 0x80);
  BOOST_TEST(F8E5M2::encode(65536) == 0x7b);
  BOOST_TEST(F8E5M2::encode(inf) == 0x7c);
  BOOST_TEST((F8E5M2::encode(nan) & 0x7f) == 0x7f);
  BOOST_TEST(F8E4M3Fnuz::encode(-0.0) == 0);
  BOOST_TEST(F8E4M3Fnuz::encode(-1e-9) == 0);
  BOOST_TEST(F8E4M3Fnuz::encode(inf) == 0x80);
  BOOST_TEST(F8E4M3Fnuz::encode(nan) == 0x80);
  BOOST_TEST(F8E4M3Fnuz::encode(1e9) == 0x7f);
  BOOST_TEST(F8E5M2Fnuz::encode(-1e9) == 0xff);
  BOOST_TEST(ScaleFloat::encode(0) == 0);
  BOOST_TEST(ScaleFloat::encode(-1) == 255);
  BOOST_TEST(ScaleFloat::encode(1) == 127);
  BOOST_TEST(ScaleFloat::encode(3) == 128);
  BOOST_TEST(ScaleFloat::encode(6) == 130); // ties go to the even code
  BOOST_TEST(ScaleFloat::encode(1e300) == 254);
  BOOST_TEST(F4E2M1::encode(-inf) == 0xf);
  BOOST_TEST(F4E2M1::encode(2.5) == 4);
  BOOST_TEST(F4E2M1::encode(5.0) == 6);
  BOOST_TEST(F4E2M1::encode(0.25) == 0);
}

// Two implementations by different methods; a difference is a fault of one.
BOOST_AUTO_TEST_CASE(the_host_library_rounds_the_same_bits) {
  for (const Codec& c : kCodecs) {
    std::vector<uint64_t> patterns = random_raw(DType::F64, 100000, 7);
    for (uint64_t raw : random_raw(DType::F32, 100000, 8))
      patterns.push_back(
          std::bit_cast<uint64_t>(static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(raw)))));
    for (size_t i = 0; i < 100000; i++) { // in the range of the small formats
      double small = static_cast<double>(patterns[i] >> 11) * 0x1p-40;
      patterns.push_back(std::bit_cast<uint64_t>(patterns[i] & 1 ? small : -small * 0x1p-13));
    }
    for (uint64_t raw : patterns) {
      double value = std::bit_cast<double>(raw);
      uint64_t ours = c.encode(value), theirs = float_to_bits(c.dtype, value);
      if (!check(ours == theirs, name(c.dtype), ": ", value, " gave ", ours, " and ", theirs)) break;
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
