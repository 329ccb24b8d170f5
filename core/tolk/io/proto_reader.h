// Reads a protocol buffer message field by field, in place (protozero). A truncated field, a wrong wire type or an
// over-long varint is a FormatError that names the file and the location.
#pragma once

#include <protozero/pbf_reader.hpp>

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/io/place.h"

namespace tolk::io {

// Each iteration must read or skip the field. Views point into the message.
//
//   for (ProtoReader r(bytes, place); r.next();) {
//     switch (r.field()) {
//     case 1: name = r.text("name"); break;
//     default: r.skip();
//     }
//   }
class TOLK_API ProtoReader {
public:
  // `place` must outlive the reader.
  ProtoReader(std::string_view message, const Place& place)
      : reader_(message.data(), message.size()), place_(&place) {}

  bool next();
  uint32_t field() const { return reader_.tag(); }
  void skip();

  // `what` names the field in errors.
  std::string_view view(const char* what); // string, bytes or message
  std::string text(const char* what) { return std::string(view(what)); }
  int64_t integer(const char* what);
  float float32(const char* what);
  // Appends one element or a packed run of them. Fields of int32 and uint64 append their 64 bits.
  void append(std::vector<float>& to, const char* what);
  void append(std::vector<double>& to, const char* what);
  void append(std::vector<int64_t>& to, const char* what);

private:
  void expect(protozero::pbf_wire_type type, const char* what);
  [[noreturn]] void damaged(const char* what, const char* reason) const;
  template <typename T>
  void append_fixed(std::vector<T>& to, const char* what, protozero::pbf_wire_type single);

  protozero::pbf_reader reader_;
  const Place* place_;
};

} // namespace tolk::io
