// --check: runs a case and holds its outputs against the expected ones.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "case_folder.h"
#include "loaded_model.h"
#include "tolk/io/compare.h"

namespace tolk::run {

struct OutputResult {
  std::string name;
  std::string type; // of the value that the model gave
  io::Comparison comparison;
  io::Tolerance tolerance;
};

struct SetResult {
  std::string name;
  std::vector<std::string> chained; // inputs that took the state which the set before gave
  std::vector<OutputResult> outputs;
  bool passed() const;
};

struct CaseResult {
  std::vector<SetResult> sets;
  bool passed() const;
  // The first output that differs, as one line; empty when all passed.
  std::string reason() const;
};

// Runs every set in order on the one loaded model. `types_only`: values are not compared. Throws what reading
// and running throw.
CaseResult check_case(const CaseFolder& folder, const LoadedModel& model, bool types_only);

// Lines per set and output, then PASS or FAIL.
std::string case_text(const CaseResult& result);
// One JSON object on one line.
std::string case_json(const std::string& folder, const LoadedModel& model, const CaseResult& result);

// --check-many: reads folders from `in`, writes one JSON line a case to `out`: case, status (pass, fail or
// error), reason, operators, seconds. A fault of one case does not end the others.
void check_many(std::FILE* in, std::FILE* out, const Loader& load);

} // namespace tolk::run
