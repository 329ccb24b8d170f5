// Files of sections: what is written comes back, and no damage goes unnoticed.
#include <cmath>
#include <limits>
#include <random>
#include <string>

#include <boost/test/unit_test.hpp>

#include "tolk/base/error.h"
#include "tolk/base/packed.h"

using namespace tolk;

namespace {

constexpr Magic kMagic = {'T', 'E', 'S', 'T', 'F', 'I', 'L', 'E'};

std::string sample() {
  std::vector<Section> sections{{"meta", "abc"}, {"empty", ""}, {"sixteen bytes ok", std::string(1000, 'x')}};
  return pack(kMagic, 3, sections);
}

constexpr PackNumbers kModes[] = {PackNumbers::Fixed, PackNumbers::Varint};

std::string refusal(const std::string& file, uint32_t newest = 3) {
  try {
    unpack(kMagic, newest, file, "test file");
  } catch (const FormatError& e) {
    return e.what();
  }
  return "accepted";
}

} // namespace

BOOST_AUTO_TEST_SUITE(packed_files)

BOOST_AUTO_TEST_CASE(sections_come_back) {
  auto sections = unpack(kMagic, 3, sample(), "test file");
  BOOST_REQUIRE(sections.size() == 3U);
  BOOST_TEST(section(sections, "meta") == "abc");
  BOOST_TEST(section(sections, "empty") == "");
  BOOST_TEST(section(sections, "sixteen bytes ok") == std::string(1000, 'x'));
  BOOST_CHECK_THROW(section(sections, "other"), FormatError);
  BOOST_TEST(packed_version(sample()) == 3U);
  BOOST_TEST(unpack(kMagic, 9, pack(kMagic, 1, {}), "test file").empty());
}

BOOST_AUTO_TEST_CASE(every_flipped_byte_cut_and_addition_is_found) {
  std::string file = sample();
  for (size_t i = 0; i < file.size(); ++i) {
    std::string changed = file;
    changed[i] = char(changed[i] ^ 0x20);
    BOOST_TEST(refusal(changed) != "accepted", i);
    BOOST_TEST(refusal(file.substr(0, i)) != "accepted", i);
  }
  BOOST_TEST(refusal(file + "x") == "the test file is damaged: 1 bytes follow its last section");
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::string noise(random() % 300, '\0');
    for (char& c : noise) c = char(random());
    BOOST_TEST(refusal(noise) != "accepted");
    BOOST_TEST(refusal(file.substr(0, 8) + noise) != "accepted");
  }
}

BOOST_AUTO_TEST_CASE(messages_say_what_it_is) {
  BOOST_TEST(refusal("") == "the file is no test file: it begins differently");
  BOOST_TEST(refusal(sample(), 2) == "the test file has version 3, this library reads up to 2");
  std::string file = sample();
  file.back() = 'y';
  BOOST_TEST(refusal(file) == "the test file is damaged: wrong checksum of section sixteen bytes ok");
  BOOST_TEST(refusal(file.substr(0, file.size() - 1)) ==
             "the test file is damaged: section sixteen bytes ok is cut off");
}

BOOST_AUTO_TEST_CASE(numbers_and_texts_come_back) {
  for (PackNumbers mode : kModes) {
    PackWriter w(mode);
    std::vector<int64_t> numbers{0, -1, std::numeric_limits<int64_t>::min(),
                                 std::numeric_limits<int64_t>::max()};
    w.list(numbers, [](PackWriter& out, int64_t n) { out.number(n); });
    w.text("").text(std::string("a\0b", 3)).real(-0.0).real(std::nan("")).number(1);
    w.fixed(uint16_t{0xFEDC}).raw("xyz").fixed(int32_t{-2});
    PackReader r("part", w.bytes(), mode);
    BOOST_TEST((r.list<int64_t>([](PackReader& in) { return in.number(); }) == numbers));
    BOOST_TEST(r.text() == "");
    BOOST_TEST(r.text() == std::string("a\0b", 3));
    BOOST_TEST(std::signbit(r.real()));
    BOOST_TEST(std::isnan(r.real()));
    BOOST_CHECK_THROW(r.end(), FormatError);
    BOOST_TEST(r.flag());
    BOOST_TEST(r.fixed<uint16_t>() == 0xFEDC);
    BOOST_TEST(r.raw(3) == "xyz");
    BOOST_TEST(r.fixed<int32_t>() == -2);
    BOOST_CHECK_NO_THROW(r.end());
    BOOST_CHECK_THROW(r.number(), FormatError);
  }
}

// The bytes of LEB128 as DWARF 5, section 7.6, gives them.
BOOST_AUTO_TEST_CASE(varints_are_leb128) {
  auto bytes = [](int64_t n) { return PackWriter(PackNumbers::Varint).number(n).bytes(); };
  BOOST_TEST(bytes(2) == "\x02");
  BOOST_TEST(bytes(127) == "\x7f");
  BOOST_TEST(bytes(128) == "\x80\x01");
  BOOST_TEST(bytes(12857) == "\xb9\x64");
  BOOST_TEST(bytes(-1) == std::string(9, '\xff') + '\x01');
  auto read = [](std::string_view b) { return PackReader("part", b, PackNumbers::Varint).number(); };
  BOOST_TEST(read("\xb9\x64") == 12857);
  BOOST_CHECK_THROW(read("\xb9"), FormatError);
  BOOST_CHECK_THROW(read(std::string(9, '\xff') + '\x02'), FormatError);
  BOOST_CHECK_THROW(read(std::string(12, '\x80')), FormatError);
}

BOOST_AUTO_TEST_CASE(damaged_counts_and_ranges_are_found) {
  for (PackNumbers mode : kModes) {
    PackWriter w(mode);
    w.number(1000);
    BOOST_CHECK_THROW(PackReader("part", w.bytes(), mode).count(), FormatError);
    BOOST_CHECK_THROW(PackReader("part", w.bytes(), mode).text(), FormatError);
    BOOST_CHECK_THROW(PackReader("part", w.bytes(), mode).number(0, 999), FormatError);
    BOOST_CHECK_THROW(PackReader("part", w.bytes(), mode).flag(), FormatError);
    PackWriter huge(mode);
    huge.number(-1);
    BOOST_CHECK_THROW(PackReader("part", huge.bytes(), mode).count(), FormatError);
    try {
      PackReader("part", w.bytes(), mode).number(0, 999);
    } catch (const FormatError& e) {
      BOOST_TEST(std::string(e.what()) == "part is damaged: it has 1000 where 0 to 999 may be");
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
