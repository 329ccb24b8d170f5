#include <limits>

#include <boost/test/unit_test.hpp>

#include "tolk/base/error.h"
#include "tolk/base/text.h"

using namespace tolk;

BOOST_AUTO_TEST_CASE(sizes_keep_three_digits_and_never_print_1000_of_a_unit) {
  BOOST_TEST(human_bytes(0) == "0 B");
  BOOST_TEST(human_bytes(999) == "999 B");
  BOOST_TEST(human_bytes(1000) == "1.00 kB");
  BOOST_TEST(human_bytes(97500000) == "97.5 MB");
  BOOST_TEST(human_bytes(999600) == "1.00 MB");
  BOOST_TEST(human_bytes(~uint64_t{0}) == "18.4 EB");
}

BOOST_AUTO_TEST_CASE(times_choose_their_unit) {
  BOOST_TEST(human_seconds(850e-9) == "850 ns");
  BOOST_TEST(human_seconds(12.34e-6) == "12.3 us");
  BOOST_TEST(human_seconds(4.561e-3) == "4.56 ms");
  BOOST_TEST(human_seconds(0.9996) == "1.00 s");
  BOOST_TEST(human_seconds(61.25) == "61.2 s");
  BOOST_TEST(human_seconds(125) == "2 min 5 s");
  BOOST_TEST(human_seconds(119.9) == "2 min 0 s");
  BOOST_TEST(human_seconds(-1) == "-");
  BOOST_TEST(human_seconds(std::numeric_limits<double>::quiet_NaN()) == "-");
}

BOOST_AUTO_TEST_CASE(control_characters_are_shown_as_escapes) {
  BOOST_TEST(printable("plain \"text\" \xc3\xa4") == "plain \"text\" \xc3\xa4");
  BOOST_TEST(printable("a\x1b[31mb\nc\td\x7f") == "a\\x1b[31mb\\nc\\td\\x7f");
  BOOST_TEST(printable("\xc2\x9b"
                       "2J \xc2\xa9") == "\\x9b"
                                         "2J \xc2\xa9");
}

BOOST_AUTO_TEST_CASE(nearest_word_finds_typing_errors_and_nothing_else) {
  std::vector<std::string> known = {"DEVICE", "DEBUG", "TOLK_CACHE_DIR"};
  BOOST_TEST(nearest_word("DEVCE", known) == "DEVICE");
  BOOST_TEST(nearest_word("TOLK_CACHEDIR", known) == "TOLK_CACHE_DIR");
  BOOST_TEST(nearest_word("ELEPHANT", known).empty());
}

BOOST_AUTO_TEST_CASE(tables_align_columns_without_trailing_spaces) {
  TextTable table({"name", "time", ""});
  table.align(1, TextTable::Align::Right);
  table.add_row({"a", "1 ms", "x"});
  table.add_row({"longer"});
  BOOST_TEST(table.text() == "name    time\n"
                             "a       1 ms  x\n"
                             "longer\n");
  BOOST_CHECK_THROW(table.add_row({"1", "2", "3", "4"}), InvalidArgument);
}

BOOST_AUTO_TEST_CASE(markdown_escapes_bars) {
  TextTable table({"a", "b"});
  table.align(1, TextTable::Align::Right);
  table.add_row({"x|y", "1\n2"});
  BOOST_TEST(table.markdown() == "| a | b |\n|---|---:|\n| x\\|y | 1 2 |\n");
}

BOOST_AUTO_TEST_CASE(join_puts_separators_between_only) {
  BOOST_TEST(join({}, ", ").empty());
  BOOST_TEST(join({"a"}, ", ") == "a");
  BOOST_TEST(join({"a", "b", "c"}, ", ") == "a, b, c");
}
