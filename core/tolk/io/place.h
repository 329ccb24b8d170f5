// Where in a file a reader is, for its errors: links on the stack that become text only when an error is
// reported.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tolk/base/api.h"

namespace tolk::io {

// Links stand on the stack of the functions that read the parts, each pointing at its parent; the root holds
// the file.
struct Place {
  const Place* parent = nullptr;
  std::string_view name; // "graph", "node"; the file's path in the root
  int64_t index = -1;    // -1: no index

  Place at(std::string_view part, int64_t i = -1) const { return {this, part, i}; }
};

// "model.onnx: graph.node[12].attribute[0]"; only the file for the root.
TOLK_API std::string place_text(const Place& place);
// The same without the file: "graph.node[12]".
TOLK_API std::string inner_text(const Place& place);
// Throws FormatError "FILE: graph.node[12]: MESSAGE".
[[noreturn]] TOLK_API void fail_at(const Place& place, std::string_view message);

} // namespace tolk::io
