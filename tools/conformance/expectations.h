// The list of failures that a plugin's author expects.
#pragma once

#include <map>
#include <string>

namespace conformance {

struct Expectation {
  bool permanent; // cannot, as opposed to not-yet
  std::string reason;
};
// By case.
using Expectations = std::map<std::string, Expectation>;

// Lines of the form "cannot CASE: reason" and "not-yet CASE: reason"; # begins a comment. Throws std::invalid_argument with
// file and line for an unknown case, a missing reason, and a required case that "cannot".
Expectations read_expectations(const std::string& path);

} // namespace conformance
