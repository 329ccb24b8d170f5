#include "tolk/render/llvm/llvm_types.h"

#include <charconv>
#include <string_view>

namespace tolk::llvm_text {
namespace {

struct KindRow {
  std::string_view name, suffix;
};
constexpr KindRow kKinds[] = {
    {"i1", "i1"},    {"i8", "i8"},     {"i16", "i16"},    {"i32", "i32"}, {"i64", "i64"},
    {"half", "f16"}, {"float", "f32"}, {"double", "f64"}, {"ptr", "p0"},
};
const KindRow& row(Kind kind) { return kKinds[static_cast<int>(kind)]; }

void append_hex(std::string& text, uint64_t value, int digits) {
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) text += "0123456789ABCDEF"[value >> shift & 15];
}

void append_int(std::string& text, Kind kind, uint64_t bits) {
  char buffer[24];
  int shift = 64 - emit::bits(kind);
  auto value = static_cast<int64_t>(bits << shift) >> shift;
  text.append(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr);
}

} // namespace

void append_type(std::string& text, Type type) {
  if (type.lanes == 1) {
    text += row(type.kind).name;
    return;
  }
  text += '<';
  append_number(text, type.lanes);
  text += " x ";
  text += row(type.kind).name;
  text += '>';
}

void append_suffix(std::string& text, Type type) {
  if (type.lanes != 1) {
    text += 'v';
    append_number(text, type.lanes);
  }
  text += row(type.kind).suffix;
}

void append_number(std::string& text, uint64_t number) {
  char buffer[24];
  text.append(buffer, std::to_chars(buffer, buffer + sizeof buffer, number).ptr);
}

void append_constant(std::string& text, Kind kind, uint64_t bits) {
  switch (kind) {
  case Kind::I1:
    text += bits & 1 ? "true" : "false";
    return;
  case Kind::F64:
    text += "0x";
    append_hex(text, bits, 16);
    return;
  case Kind::F32: {
    // The text form of a float is the double of the same value. Subnormals, infinities and NaNs go by their
    // bits, so that neither the thread's flush-to-zero mode nor quieting can change them.
    auto word = static_cast<uint32_t>(bits);
    uint32_t field = word >> 23 & 0xff;
    if ((word & 0x7fffffff) == 0 || (field != 0 && field != 0xff)) {
      uint64_t wide = static_cast<uint64_t>(word >> 31) << 63;
      if (field != 0) wide |= static_cast<uint64_t>(field - 127 + 1023) << 52;
      wide |= static_cast<uint64_t>(word & 0x7fffff) << 29;
      text += "0x";
      append_hex(text, wide, 16);
      return;
    }
    text += "bitcast (i32 ";
    append_int(text, Kind::I32, word);
    text += " to float)";
    return;
  }
  case Kind::F16:
    text += "0xH";
    append_hex(text, bits & 0xffff, 4);
    return;
  case Kind::Ptr:
    text += "null";
    return;
  default:
    append_int(text, kind, bits);
  }
}

} // namespace tolk::llvm_text
