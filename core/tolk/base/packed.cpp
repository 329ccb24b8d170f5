#include "tolk/base/packed.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "tolk/base/check.h"
#include "tolk/base/error.h"
#include "tolk/base/hash.h"

namespace tolk {
namespace {

constexpr size_t kNameBytes = 16, kHeadBytes = 16, kEntryBytes = kNameBytes + 24;

template <class T> T get(std::string_view bytes, size_t at) {
  return PackReader({}, bytes.substr(at)).fixed<T>();
}

std::string kind_of(std::string_view what) { return "the file is no " + std::string(what); }

} // namespace

std::string pack(const Magic& magic, uint32_t version, std::span<const Section> sections) {
  PackWriter out;
  out.raw({magic.data(), magic.size()}).fixed(version).fixed(uint32_t(sections.size()));
  uint64_t offset = kHeadBytes + sections.size() * kEntryBytes + 8;
  for (const Section& s : sections) {
    TOLK_CHECK(s.name.size() <= kNameBytes, "the name of a section has at most 16 bytes");
    out.raw(s.name).raw(std::string(kNameBytes - s.name.size(), '\0'));
    out.fixed(offset).fixed(uint64_t(s.bytes.size())).fixed(hash64(s.bytes));
    offset += s.bytes.size();
  }
  out.fixed(hash64(out.bytes()));
  for (const Section& s : sections) out.raw(s.bytes);
  return out.bytes();
}

std::vector<Section> unpack(const Magic& magic, uint32_t newest, std::string_view file,
                            std::string_view what) {
  if (file.size() < magic.size() || std::memcmp(file.data(), magic.data(), magic.size()) != 0)
    throw FormatError(kind_of(what) + ": it begins differently");
  if (file.size() < kHeadBytes)
    throw FormatError(kind_of(what) + ": it ends after " + std::to_string(file.size()) + " bytes");
  auto version = get<uint32_t>(file, 8);
  uint64_t count = get<uint32_t>(file, 12), head = kHeadBytes + count * kEntryBytes;
  if (version > newest)
    throw FormatError("the " + std::string(what) + " has version " + std::to_string(version) +
                      ", this library reads up to " + std::to_string(newest));
  if (version == 0 || file.size() < head + 8)
    throw FormatError("the " + std::string(what) + " is damaged: its table of sections is cut off");
  if (get<uint64_t>(file, head) != hash64(file.substr(0, head)))
    throw FormatError("the " + std::string(what) + " is damaged: wrong checksum of the table of sections");
  std::vector<Section> out;
  uint64_t next = head + 8;
  for (uint64_t i = 0; i < count; ++i) {
    size_t entry = kHeadBytes + i * kEntryBytes;
    std::string_view padded = file.substr(entry, kNameBytes);
    std::string name(padded.substr(0, std::min(padded.find('\0'), kNameBytes)));
    auto offset = get<uint64_t>(file, entry + kNameBytes), size = get<uint64_t>(file, entry + kNameBytes + 8);
    if (offset != next || size > file.size() || offset > file.size() - size)
      throw FormatError("the " + std::string(what) + " is damaged: section " + name + " is cut off");
    std::string_view bytes = file.substr(offset, size);
    if (get<uint64_t>(file, entry + kNameBytes + 16) != hash64(bytes))
      throw FormatError("the " + std::string(what) + " is damaged: wrong checksum of section " + name);
    out.push_back({std::move(name), std::string(bytes)});
    next += size;
  }
  if (next != file.size())
    throw FormatError("the " + std::string(what) + " is damaged: " + std::to_string(file.size() - next) +
                      " bytes follow its last section");
  return out;
}

uint32_t packed_version(std::string_view file) {
  TOLK_CHECK(file.size() >= kHeadBytes, "only of a file that unpack accepts");
  return get<uint32_t>(file, 8);
}

const std::string& section(std::span<const Section> sections, std::string_view name) {
  for (const Section& s : sections)
    if (s.name == name) return s.bytes;
  throw FormatError("the file has no section " + std::string(name));
}

PackWriter& PackWriter::number(int64_t value) {
  if (numbers_ == PackNumbers::Fixed) return fixed(value);
  auto bits = uint64_t(value);
  for (; bits >= 128; bits >>= 7) bytes_.push_back(char((bits & 127) | 128));
  bytes_.push_back(char(bits));
  return *this;
}

PackWriter& PackWriter::real(double value) { return fixed(std::bit_cast<uint64_t>(value)); }

PackWriter& PackWriter::text(std::string_view text) { return number(int64_t(text.size())).raw(text); }

PackWriter& PackWriter::raw(std::string_view bytes) {
  bytes_ += bytes;
  return *this;
}

void PackReader::damaged(std::string_view why) const {
  throw FormatError(what_ + " is damaged: " + std::string(why));
}

std::string_view PackReader::raw(uint64_t bytes) {
  if (bytes > rest_.size()) damaged("it ends too early");
  std::string_view out = rest_.substr(0, bytes);
  rest_.remove_prefix(bytes);
  return out;
}

int64_t PackReader::number(int64_t min, int64_t max) {
  uint64_t bits = 0;
  if (numbers_ == PackNumbers::Fixed) {
    bits = fixed<uint64_t>();
  } else {
    uint64_t byte = 128;
    for (int shift = 0; byte >= 128; shift += 7) {
      byte = fixed<uint8_t>();
      if (shift == 63 && byte > 1) damaged("a number has more than 64 bits");
      bits |= (byte & 127) << shift;
    }
  }
  auto value = int64_t(bits);
  if (value < min || value > max)
    damaged("it has " + std::to_string(value) + " where " + std::to_string(min) + " to " +
            std::to_string(max) + " may be");
  return value;
}

double PackReader::real() { return std::bit_cast<double>(fixed<uint64_t>()); }

std::string PackReader::text() { return std::string(raw(uint64_t(number()))); }

size_t PackReader::count() {
  auto items = uint64_t(number());
  if (items > rest_.size()) damaged("it lists " + std::to_string(items) + " items in fewer bytes");
  return items;
}

void PackReader::end() const {
  if (!rest_.empty()) damaged(std::to_string(rest_.size()) + " bytes are left over");
}

} // namespace tolk
