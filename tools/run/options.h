// What the user asked for, parsed and checked.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tolk/io/host_tensor.h"

namespace tolk::run {

enum class Command : uint8_t { Run, Check, CheckMany, Replay, ListDevices, Env, Help, Version };

// NAME=FILE; the name is empty when only a file was given.
struct NamedFile {
  std::string name, file;
};

// LO..HI
struct Range {
  double low = -1, high = 1;
};

struct Options {
  Command command = Command::Run;
  std::string model; // MODEL, the folder of --check, or the file of --replay
  std::vector<NamedFile> inputs, outputs;
  std::map<std::string, io::Shape> shapes;
  std::map<std::string, int64_t> dims;
  std::map<std::string, Range> fills;
  uint64_t seed = 0;
  uint64_t runs = 1;
  std::string save;   // file for the compiled model; empty: none
  std::string device; // empty: not given
  std::vector<std::string> plugins;
  std::vector<std::pair<std::string, std::string>> plugin_options;
  bool json = false, verbose = false, types_only = false;
  bool trust_code = false; // run the machine code in a saved model
};

// How names of saved models end.
inline constexpr const char* kSavedEnding = ".tolk";

// `arguments` without the program's name. Throws InvalidArgument: unknown or repeated options, values that do
// not parse, combinations without a meaning. The text says what was expected and names a near option.
Options parse_options(const std::vector<std::string>& arguments);

} // namespace tolk::run
