// Runs cases, each in a child process of its own under a time limit.
#pragma once

#include <string>
#include <vector>

#include "case.h"

namespace conformance {

enum class Outcome { Pass, Fail, Skip, Crash, Timeout, Refused };

struct Result {
  const Case* c = nullptr;
  Outcome outcome = Outcome::Fail;
  std::string text; // why: what was expected and found, the missing capability, the signal
  double ms = 0;
};

struct Settings {
  std::string plugin, oracle;
  uint64_t seed = 1;
  int jobs = 1;
  int limit_s = 60;
};

std::vector<Result> run_cases(const Settings& settings, const std::vector<const Case*>& cases);
// Runs one in this process, for a debugger.
Result run_here(const Settings& settings, const Case& c);

// Name, levels offered and so on, found out in a child: "NAME\tLEVEL\tnull", or the reason of a refusal after '!'.
std::string probe(const Settings& settings);

const char* outcome_name(Outcome outcome);

} // namespace conformance
