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

template <class T> void put(std::string& out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) out.push_back(char(uint64_t(value) >> (8 * i)));
}

template <class T> T get(std::string_view bytes, size_t at) {
  uint64_t value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value |= uint64_t(uint8_t(bytes[at + i])) << (8 * i);
  return T(value);
}

std::string kind_of(std::string_view what) { return "the file is no " + std::string(what); }

} // namespace

std::string pack(const Magic& magic, uint32_t version, std::span<const Section> sections) {
  std::string out(magic.begin(), magic.end());
  put(out, version);
  put(out, uint32_t(sections.size()));
  uint64_t offset = kHeadBytes + sections.size() * kEntryBytes + 8;
  for (const Section& s : sections) {
    TOLK_CHECK(s.name.size() <= kNameBytes, "the name of a section has at most 16 bytes");
    out += s.name;
    out.append(kNameBytes - s.name.size(), '\0');
    put(out, offset);
    put(out, uint64_t(s.bytes.size()));
    put(out, hash64(s.bytes));
    offset += s.bytes.size();
  }
  put(out, hash64(out));
  for (const Section& s : sections) out += s.bytes;
  return out;
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
  put(bytes_, value);
  return *this;
}

PackWriter& PackWriter::real(double value) {
  put(bytes_, std::bit_cast<uint64_t>(value));
  return *this;
}

PackWriter& PackWriter::text(std::string_view text) {
  put(bytes_, uint64_t(text.size()));
  bytes_ += text;
  return *this;
}

void PackReader::damaged(std::string_view why) const {
  throw FormatError("section " + std::string(section_) + " is damaged: " + std::string(why));
}

std::string_view PackReader::take(size_t bytes) {
  if (bytes > rest_.size()) damaged("it ends too early");
  std::string_view out = rest_.substr(0, bytes);
  rest_.remove_prefix(bytes);
  return out;
}

int64_t PackReader::number(int64_t min, int64_t max) {
  auto value = get<int64_t>(take(8), 0);
  if (value < min || value > max)
    damaged("it has " + std::to_string(value) + " where " + std::to_string(min) + " to " +
            std::to_string(max) + " may be");
  return value;
}

double PackReader::real() { return std::bit_cast<double>(get<uint64_t>(take(8), 0)); }

std::string PackReader::text() {
  auto size = get<uint64_t>(take(8), 0);
  return std::string(take(size));
}

size_t PackReader::count() {
  auto items = get<uint64_t>(take(8), 0);
  if (items > rest_.size()) damaged("it lists " + std::to_string(items) + " items in fewer bytes");
  return items;
}

void PackReader::end() const {
  if (!rest_.empty()) damaged(std::to_string(rest_.size()) + " bytes are left over");
}

} // namespace tolk
