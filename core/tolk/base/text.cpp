#include "tolk/base/text.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "tolk/base/error.h"

namespace tolk {
namespace {

// Three significant digits.
std::string three(double value) {
  if (value < 9.995) return fmt::format("{:.2f}", value);
  if (value < 99.95) return fmt::format("{:.1f}", value);
  return fmt::format("{:.0f}", value);
}

std::string scaled(double value, std::initializer_list<std::string_view> units) {
  auto unit = units.begin();
  // 999.5 would print as 1000 of the smaller unit.
  while (value >= 999.5 && unit + 1 != units.end()) {
    value /= 1000;
    ++unit;
  }
  std::string number = unit == units.begin() ? fmt::format("{:.0f}", value) : three(value);
  return unit->empty() ? number : number + " " + std::string(*unit);
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      size_t change = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({change, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

} // namespace

std::string printable(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    auto c = static_cast<unsigned char>(text[i]);
    // U+0080 to U+009F are controls too; UTF-8 has them as C2 80 to C2 9F.
    bool wide = c == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0;
    if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (c < 0x20 || c == 0x7f)
      out += fmt::format("\\x{:02x}", c);
    else if (wide)
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[++i]));
    else
      out += text[i];
  }
  return out;
}

std::string counted(uint64_t count, std::string_view word) {
  return fmt::format("{} {}{}", count, word, count == 1 ? "" : "s");
}

std::string human_bytes(uint64_t bytes) {
  return scaled(static_cast<double>(bytes), {"B", "kB", "MB", "GB", "TB", "PB", "EB"});
}

std::string human_seconds(double seconds) {
  if (!(seconds >= 0)) return "-";
  if (std::isinf(seconds)) return "forever";
  if (seconds >= 119.5) {
    double whole = std::round(seconds);
    double minutes = std::floor(whole / 60);
    return fmt::format("{:.0f} min {:.0f} s", minutes, whole - 60 * minutes);
  }
  if (seconds >= 0.9995) return three(seconds) + " s";
  return scaled(seconds * 1e9, {"ns", "us", "ms"});
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string out;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i != 0) out += separator;
    out += parts[i];
  }
  return out;
}

std::string nearest_word(std::string_view word, const std::vector<std::string>& known) {
  std::string best;
  size_t best_distance = std::max<size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : known) {
    size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) best_distance = distance, best = candidate;
  }
  return best;
}

TextTable::TextTable(std::vector<std::string> headings)
    : headings_(std::move(headings)), align_(headings_.size(), Align::Left) {}

void TextTable::align(size_t column, Align align) { align_.at(column) = align; }

void TextTable::add_row(std::vector<std::string> cells) {
  if (cells.size() > headings_.size())
    throw InvalidArgument(
        fmt::format("a row of {} cells does not fit a table of {} columns", cells.size(), headings_.size()));
  cells.resize(headings_.size());
  rows_.push_back(std::move(cells));
}

std::string TextTable::text() const {
  std::vector<size_t> width;
  for (const std::string& heading : headings_) width.push_back(heading.size());
  for (const auto& row : rows_)
    for (size_t i = 0; i < row.size(); ++i) width[i] = std::max(width[i], row[i].size());
  std::string out;
  auto line = [&](const std::vector<std::string>& cells) {
    std::string text;
    for (size_t i = 0; i < cells.size(); ++i) {
      if (i != 0) text += "  ";
      std::string pad(width[i] - cells[i].size(), ' ');
      text += align_[i] == Align::Right ? pad + cells[i] : cells[i] + pad;
    }
    while (!text.empty() && text.back() == ' ') text.pop_back();
    out += text + "\n";
  };
  line(headings_);
  for (const auto& row : rows_) line(row);
  return out;
}

std::string TextTable::markdown() const {
  std::string out;
  auto line = [&](const std::vector<std::string>& cells) {
    out += "|";
    for (const std::string& cell : cells) {
      out += " ";
      for (char c : cell) {
        if (c == '|') out += '\\';
        out += c == '\n' ? ' ' : c;
      }
      out += " |";
    }
    out += "\n";
  };
  line(headings_);
  out += "|";
  for (Align align : align_) out += align == Align::Right ? "---:|" : "---|";
  out += "\n";
  for (const auto& row : rows_) line(row);
  return out;
}

} // namespace tolk
