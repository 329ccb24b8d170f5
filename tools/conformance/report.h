// Prints results, and writes them as JSON and JUnit XML.
#pragma once

#include <string>
#include <vector>

#include "expectations.h"
#include "options.h"
#include "runner.h"

namespace conformance {

struct Subject {
  std::string name;
  int level = 0;     // the conformance level whose entries the plugin has
  bool null = false; // computes nothing
};

// Failures with the command that repeats each, a count per group, skips by capability, the verdict. Returns the exit status:
// 0 when nothing failed that was not expected to.
int print_report(const Options& options, const Subject& subject, const std::vector<Result>& results,
                 const Expectations& expected);
void write_json(const Options& options, const Subject& subject, const std::vector<Result>& results);
void write_junit(const Options& options, const std::vector<Result>& results);

} // namespace conformance
