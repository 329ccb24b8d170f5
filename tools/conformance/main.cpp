// tolk-conformance: holds one plugin to the interface, case by case. docs/conformance.md says how to read it.
// Exit status: 0 pass, 1 a failure, 2 the plugin could not be used, 3 a wrong command line or a fault of this program.
#include <exception>
#include <fmt/format.h>
#include <stdexcept>

#include "case.h"
#include "expectations.h"
#include "options.h"
#include "report.h"
#include "runner.h"

namespace {
using namespace conformance;

std::vector<const Case*> chosen(const Options& o) {
  std::vector<const Case*> cases;
  for (const Case& c : all_cases()) {
    bool wanted = o.filters.empty() && o.one.empty();
    for (const std::string& filter : o.filters) wanted = wanted || fits(filter, c.id);
    if (!o.one.empty()) wanted = o.one == c.id;
    if (wanted && (o.level == "all" || o.level == tier_name(c.tier))) cases.push_back(&c);
  }
  if (cases.empty()) throw std::invalid_argument("no case fits; --list prints them");
  return cases;
}

int run(const Options& o) {
  if (o.help) return fmt::print("{}", help_text()), 0;
  const std::vector<const Case*> cases = chosen(o);
  if (o.list) {
    for (const Case* c : cases)
      fmt::print("{:<32} {:<12} level {}\n", c->id, tier_name(c->tier), level_of(*c));
    return 0;
  }
  const Expectations expected = o.expect.empty() ? Expectations{} : read_expectations(o.expect);
  if (!o.one.empty()) {
    const Result r = run_here(o, *cases[0]);
    fmt::print("{} {}{}{}\n", r.c->id, outcome_name(r.outcome), r.text.empty() ? "" : ": ", r.text);
    return r.outcome == Outcome::Pass || r.outcome == Outcome::Skip ? 0 : 1;
  }
  const std::string found = probe(o);
  if (found.starts_with('!')) return fmt::print("{}: cannot be used: {}\n", o.plugin, found.substr(1)), 2;
  const size_t tab = found.find('\t');
  const Subject subject{found.substr(0, tab), found[tab + 1] - '0', found.ends_with("null")};
  const std::vector<Result> results = run_cases(o, cases);
  if (!o.json.empty()) write_json(o, subject, results);
  if (!o.junit.empty()) write_junit(o, results);
  return print_report(o, subject, results, expected);
}
} // namespace

int main(int argc, char** argv) {
  try {
    return run(parse_options(argc, argv));
  } catch (const std::exception& error) {
    fmt::print(stderr, "tolk-conformance: {}\n", error.what());
    return 3;
  }
}
