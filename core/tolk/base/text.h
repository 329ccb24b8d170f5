// Human-readable numbers and text tables. Plain ASCII, independent of the locale.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tolk/base/api.h"

namespace tolk {

// Decimal units: "512 B", "1.50 kB", "97.5 MB", "1.20 GB".
TOLK_API std::string human_bytes(uint64_t bytes);
// "850 ns", "12.3 us", "4.56 ms", "1.20 s", "2 min 5 s". Negative and NaN read "-".
TOLK_API std::string human_seconds(double seconds);

// Text of a file's own making as it may be shown: control characters, with which it could move a terminal's cursor or
// fake a line, are written as escapes ("\\x1b", "\\n").
TOLK_API std::string printable(std::string_view text);

// "1 element", "2 elements": for words whose plural ends in s.
TOLK_API std::string counted(uint64_t count, std::string_view word);

TOLK_API std::string join(const std::vector<std::string>& parts, std::string_view separator);

// The entry of `known` closest to `word` by edit distance, for "did you mean"; empty if none is close.
TOLK_API std::string nearest_word(std::string_view word, const std::vector<std::string>& known);

// Rows of cells. Columns are as wide as their widest cell and separated by two spaces.
class TOLK_API TextTable {
public:
  enum class Align { Left, Right };

  // One heading per column. Shorter rows are padded with empty cells, longer ones throw InvalidArgument.
  explicit TextTable(std::vector<std::string> headings);
  void align(size_t column, Align align);
  void add_row(std::vector<std::string> cells);
  size_t rows() const { return rows_.size(); }

  // Heading, rows; each line ends with a newline and has no trailing spaces.
  std::string text() const;
  // The same as a Markdown table; "|" in cells is escaped.
  std::string markdown() const;

private:
  std::vector<std::string> headings_;
  std::vector<Align> align_;
  std::vector<std::vector<std::string>> rows_;
};

} // namespace tolk
