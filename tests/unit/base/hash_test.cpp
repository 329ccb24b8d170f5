#include <set>

#include <boost/test/unit_test.hpp>

#include "tolk/base/hash.h"

using namespace tolk;

BOOST_AUTO_TEST_CASE(key_of_bytes_is_the_published_xxh3_of_128_bits) {
  // The reference value of the algorithm for empty input with seed 0.
  BOOST_TEST(content_key("").hex() == "99aa06d3014798d86001c324468d497f");
  BOOST_TEST(hash64("") == 0x2d06800538d394c2ULL);
}

BOOST_AUTO_TEST_CASE(streaming_in_pieces_equals_one_run) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += std::to_string(i * i);
  for (size_t step : {1, 7, 64, 1000}) {
    Hasher hasher;
    for (size_t at = 0; at < text.size(); at += step)
      hasher.bytes(text.data() + at, std::min(step, text.size() - at));
    BOOST_TEST(hasher.finish().hex() == content_key(text).hex(), step);
  }
}

BOOST_AUTO_TEST_CASE(pieces_are_delimited_and_typed) {
  auto of = [](auto feed) {
    Hasher hasher;
    feed(hasher);
    return hasher.finish().hex();
  };
  std::set<std::string> seen;
  seen.insert(of([](Hasher& h) { h.text("ab").text("c"); }));
  seen.insert(of([](Hasher& h) { h.text("a").text("bc"); }));
  seen.insert(of([](Hasher& h) { h.text("abc"); }));
  seen.insert(of([](Hasher& h) { h.text("abc").text(""); }));
  seen.insert(of([](Hasher& h) { h.number(1).number(2); }));
  seen.insert(of([](Hasher& h) { h.number(2).number(1); }));
  seen.insert(of([](Hasher& h) { h.real(0.0); }));
  seen.insert(of([](Hasher& h) { h.real(-0.0); }));
  seen.insert(of([](Hasher& h) { h.number(-1); }));
  BOOST_TEST(seen.size() == 9u);
  BOOST_TEST(of([](Hasher& h) { h.number(uint8_t{5}); }) == of([](Hasher& h) { h.number(int64_t{5}); }));
}

BOOST_AUTO_TEST_CASE(finish_may_be_called_between_pieces) {
  Hasher hasher;
  hasher.text("one");
  ContentKey first = hasher.finish();
  BOOST_TEST((first == hasher.finish()));
  hasher.text("two");
  BOOST_TEST((first != hasher.finish()));
}

BOOST_AUTO_TEST_CASE(hex_prints_leading_zeros_in_order) {
  BOOST_TEST((ContentKey{0x0123456789abcdef, 0x00000000000000ff}).hex() ==
             "0123456789abcdef00000000000000ff");
}

BOOST_AUTO_TEST_CASE(mixing_spreads_consecutive_ids_over_the_low_bits) {
  std::set<uint64_t> low;
  for (uint64_t i = 0; i < 4096; ++i) low.insert(mix64(i << 20) & 0xffff);
  BOOST_TEST(low.size() > 3900u); // random: 4096 draws of 65536 give about 3970 distinct
}
