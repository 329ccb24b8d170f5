// The location of a reader within a file, for error messages: a linked list on the stack that is formatted only
// when an error is reported.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tolk/base/api.h"

namespace tolk::io {

// Each reading function has a Place on its stack that points to its caller's; the root names the file.
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
