// Files made of named sections, each with a checksum, and the encoding of what is in them. Reading trusts
// nothing: whatever was cut off, changed or added is a FormatError, found before a section is looked into.
//
//   std::string file = pack({'T','O','L','K','J','I','T','\0'}, 1, {{"meta", meta.bytes()}, {"graph",
//   text}}); for (const Section& s : unpack(magic, 1, file)) ...
//
// Layout, integers little-endian: magic (8 bytes), version (u32), number of sections (u32), for each section
// name (16 bytes, zero-filled), offset, size, checksum (u64 each), then a checksum of all that precedes
// (u64), then the sections without gaps. The checksum is XXH3 with 64 bits.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tolk/base/api.h"

namespace tolk {

struct Section {
  std::string name; // at most 16 bytes, unique in a file
  std::string bytes;
};
using Magic = std::array<char, 8>;

TOLK_API std::string pack(const Magic& magic, uint32_t version, std::span<const Section> sections);
// Throws FormatError: not such a file, a newer version (older ones are the caller's business, see
// `packed_version`), a wrong checksum, the wrong size. `what` names the kind of file in messages.
TOLK_API std::vector<Section> unpack(const Magic& magic, uint32_t newest, std::string_view file,
                                     std::string_view what);
// The version of a file that unpack accepts.
TOLK_API uint32_t packed_version(std::string_view file);
// The section's bytes; throws FormatError when there is none of the name.
TOLK_API const std::string& section(std::span<const Section> sections, std::string_view name);

// Numbers and texts one after the other.
class TOLK_API PackWriter {
public:
  PackWriter& number(int64_t value);
  PackWriter& real(double value);
  PackWriter& text(std::string_view text); // any bytes
  template <class List, class Each> PackWriter& list(const List& items, Each each) {
    number(int64_t(items.size()));
    for (const auto& item : items) each(*this, item);
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

private:
  std::string bytes_;
};

// Reads what a PackWriter wrote, in the same order. Throws FormatError, which names the section, at the end
// of the bytes and for a number out of the given range.
class TOLK_API PackReader {
public:
  PackReader(std::string_view section, std::string_view bytes) : section_(section), rest_(bytes) {}
  int64_t number(int64_t least = INT64_MIN, int64_t most = INT64_MAX);
  bool flag() { return number(0, 1) != 0; }
  double real();
  std::string text();
  // How many items follow; each takes a byte at least, so a damaged count is found here.
  size_t count();
  template <class Item, class Each> std::vector<Item> list(Each each) {
    std::vector<Item> items;
    for (size_t n = count(); n > 0; --n) items.push_back(each(*this));
    return items;
  }
  // Throws FormatError unless all was read.
  void end() const;
  [[noreturn]] void damaged(std::string_view why) const;

private:
  std::string_view take(size_t bytes);
  std::string_view section_, rest_;
};

} // namespace tolk
