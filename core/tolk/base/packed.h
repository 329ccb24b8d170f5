// A container of named sections with checksums, and the encoding of their contents. A file that was truncated,
// changed or extended is a FormatError before any section is decoded.
//
//   std::vector<Section> sections = {{"meta", meta.bytes()}, {"graph", text}};
//   std::string file = pack(magic, 1, sections);
//   for (const Section& s : unpack(magic, 1, file, "capture")) read(s.name, s.bytes);
//
// Layout, integers little-endian: magic (8 bytes), version (u32), number of sections (u32), for each section
// name (16 bytes, zero-filled), offset, size, checksum (u64 each), then a checksum of everything before it
// (u64), then the sections without gaps. Checksums are XXH3-64.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tolk/base/api.h"

namespace tolk {

struct Section {
  std::string name; // at most 16 bytes, unique within the file
  std::string bytes;
};
using Magic = std::array<char, 8>;

TOLK_API std::string pack(const Magic& magic, uint32_t version, std::span<const Section> sections);
// Throws FormatError for a wrong magic, a version above `newest` (the caller handles older ones, see
// `packed_version`), a wrong checksum or a wrong size. `what` names the kind of file in messages.
TOLK_API std::vector<Section> unpack(const Magic& magic, uint32_t newest, std::string_view file,
                                     std::string_view what);
// The version of a file that unpack accepts.
TOLK_API uint32_t packed_version(std::string_view file);
// The bytes of the named section; throws FormatError if there is none.
TOLK_API const std::string& section(std::span<const Section> sections, std::string_view name);

// How numbers, and the lengths of strings and lists, are stored.
enum class PackNumbers : uint8_t {
  Fixed, // 8 bytes, little-endian
  Varint // LEB128 of the two's complement: 7 bits a byte, low bits first
};

// Appends numbers and strings to a byte string.
class TOLK_API PackWriter {
public:
  explicit PackWriter(PackNumbers numbers = PackNumbers::Fixed) : numbers_(numbers) {}
  PackWriter& number(int64_t value);
  PackWriter& real(double value);
  PackWriter& text(std::string_view text); // any bytes
  template <class List, class Each> PackWriter& list(const List& items, Each each) {
    number(int64_t(items.size()));
    for (const auto& item : items) each(*this, item);
    return *this;
  }
  // An integer in sizeof(T) bytes, little-endian, and bytes without a length, for formats with fields of fixed size.
  template <class T> PackWriter& fixed(T value) {
    for (size_t i = 0; i < sizeof(T); ++i) bytes_.push_back(char(uint64_t(value) >> (8 * i)));
    return *this;
  }
  PackWriter& raw(std::string_view bytes);
  const std::string& bytes() const { return bytes_; }

private:
  std::string bytes_;
  PackNumbers numbers_;
};

// Reads what a PackWriter wrote, in the same order. Throws FormatError "<what> is damaged" if the bytes end early or a
// number is out of the given range. Views that it returns point into `bytes`.
class TOLK_API PackReader {
public:
  PackReader(std::string what, std::string_view bytes, PackNumbers numbers = PackNumbers::Fixed)
      : what_(std::move(what)), rest_(bytes), numbers_(numbers) {}
  int64_t number(int64_t min = INT64_MIN, int64_t max = INT64_MAX);
  bool flag() { return number(0, 1) != 0; }
  double real();
  std::string text();
  // The number of items that follow. Each takes at least one byte, which bounds a damaged count.
  size_t count();
  template <class Item, class Each> std::vector<Item> list(Each each) {
    std::vector<Item> items;
    for (size_t n = count(); n > 0; --n) items.push_back(each(*this));
    return items;
  }
  template <class T> T fixed() {
    uint64_t value = 0;
    int shift = 0;
    for (char c : raw(sizeof(T))) value |= uint64_t(uint8_t(c)) << shift, shift += 8;
    return T(value);
  }
  std::string_view raw(uint64_t bytes);
  size_t left() const { return rest_.size(); }
  // Throws FormatError unless all bytes were read.
  void end() const;
  [[noreturn]] void damaged(std::string_view why) const;

private:
  std::string what_;
  std::string_view rest_;
  PackNumbers numbers_;
};

} // namespace tolk
