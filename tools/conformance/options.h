// The command line of tolk-conformance.
#pragma once

#include <string>
#include <vector>

#include "runner.h"

namespace conformance {

struct Options : Settings {
  std::string device; // instead of a file
  std::vector<std::string> filters;
  std::string level = "all"; // required, optional, performance, all
  std::string json, junit, expect, one;
  bool verify_expect = false, list = false, help = false;
};

// Throws std::invalid_argument with what is wrong and what to do.
Options parse_options(int argc, char** argv);
std::string help_text();

// Whether a name fits a pattern in which * stands for any text; a comma separates patterns.
bool fits(const std::string& pattern, const std::string& name);

} // namespace conformance
