// The list of failures that a plugin's author expects.
#include "expectations.h"

#include <algorithm>
#include <fmt/format.h>
#include <fstream>
#include <stdexcept>

#include "case.h"

namespace conformance {

Expectations read_expectations(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::invalid_argument(path + ": cannot be read");
  Expectations all;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    number++;
    const size_t first = line.find_first_not_of(" \t");
    if (first == std::string::npos || line[first] == '#') continue;
    auto wrong = [&](const std::string& what) {
      throw std::invalid_argument(fmt::format("{}, line {}: {}", path, number, what));
    };
    const size_t space = line.find(' ', first), colon = line.find(": ", first);
    if (space == std::string::npos || colon == std::string::npos || colon < space || colon + 2 >= line.size())
      wrong("expected \"cannot CASE: reason\" or \"not-yet CASE: reason\"");
    const std::string word = line.substr(first, space - first),
                      id = line.substr(space + 1, colon - space - 1);
    if (word != "cannot" && word != "not-yet") wrong("begins with " + word + "; expected cannot or not-yet");
    const auto known = all_cases();
    const auto found = std::find_if(known.begin(), known.end(), [&](const Case& c) { return id == c.id; });
    if (found == known.end()) wrong("no case is named " + id + "; --list prints them");
    if (word == "cannot" && found->tier == Tier::Required)
      wrong(id + " is required: a plugin may be late with it (not-yet), never without it");
    all[id] = {word == "cannot", line.substr(colon + 2)};
  }
  return all;
}

} // namespace conformance
