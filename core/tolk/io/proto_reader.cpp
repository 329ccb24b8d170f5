#include "tolk/io/proto_reader.h"

#include <fmt/format.h>

#include <protozero/exception.hpp>
#include <protozero/varint.hpp>

namespace tolk::io {
namespace {

const char* wire_name(protozero::pbf_wire_type type) {
  switch (type) {
  case protozero::pbf_wire_type::varint:
    return "an integer";
  case protozero::pbf_wire_type::fixed64:
    return "a 64-bit value";
  case protozero::pbf_wire_type::length_delimited:
    return "bytes";
  case protozero::pbf_wire_type::fixed32:
    return "a 32-bit value";
  default:
    return "an unknown kind";
  }
}

} // namespace

void ProtoReader::damaged(const char* what, const char* reason) const {
  fail_at(*place_, fmt::format("{} is damaged: {}", what, reason));
}

void ProtoReader::expect(protozero::pbf_wire_type type, const char* what) {
  if (reader_.wire_type() == type) return;
  damaged(what,
          fmt::format("expected {}, found {}", wire_name(type), wire_name(reader_.wire_type())).c_str());
}

bool ProtoReader::next() {
  try {
    return reader_.next();
  } catch (const protozero::exception& e) {
    damaged("the next field", e.what());
  }
}

void ProtoReader::skip() {
  try {
    reader_.skip();
  } catch (const protozero::exception& e) {
    damaged(fmt::format("field {}", reader_.tag()).c_str(), e.what());
  }
}

std::string_view ProtoReader::view(const char* what) {
  expect(protozero::pbf_wire_type::length_delimited, what);
  try {
    protozero::data_view v = reader_.get_view();
    return {v.data(), v.size()};
  } catch (const protozero::exception& e) {
    damaged(what, e.what());
  }
}

int64_t ProtoReader::integer(const char* what) {
  expect(protozero::pbf_wire_type::varint, what);
  try {
    return reader_.get_int64();
  } catch (const protozero::exception& e) {
    damaged(what, e.what());
  }
}

float ProtoReader::float32(const char* what) {
  expect(protozero::pbf_wire_type::fixed32, what);
  try {
    return reader_.get_float();
  } catch (const protozero::exception& e) {
    damaged(what, e.what());
  }
}

template <typename T>
void ProtoReader::append_fixed(std::vector<T>& to, const char* what, protozero::pbf_wire_type single) {
  try {
    if (reader_.wire_type() == single) {
      if constexpr (sizeof(T) == 4)
        to.push_back(reader_.get_float());
      else
        to.push_back(reader_.get_double());
      return;
    }
    std::string_view run = view(what);
    if (run.size() % sizeof(T) != 0)
      damaged(what, "the length of the list is not a multiple of the element's size");
    size_t old = to.size();
    to.resize(old + run.size() / sizeof(T));
    if (!run.empty()) std::memcpy(to.data() + old, run.data(), run.size());
  } catch (const protozero::exception& e) {
    damaged(what, e.what());
  }
}

void ProtoReader::append(std::vector<float>& to, const char* what) {
  append_fixed(to, what, protozero::pbf_wire_type::fixed32);
}

void ProtoReader::append(std::vector<double>& to, const char* what) {
  append_fixed(to, what, protozero::pbf_wire_type::fixed64);
}

void ProtoReader::append(std::vector<int64_t>& to, const char* what) {
  if (reader_.wire_type() == protozero::pbf_wire_type::varint) {
    to.push_back(integer(what));
    return;
  }
  std::string_view run = view(what);
  const char* data = run.data();
  const char* end = data + run.size();
  try {
    while (data != end) to.push_back(static_cast<int64_t>(protozero::decode_varint(&data, end)));
  } catch (const protozero::exception& e) {
    damaged(what, e.what());
  }
}

} // namespace tolk::io
