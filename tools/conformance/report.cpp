// Prints results, and writes them as JSON and JUnit XML.
#include "report.h"

#include <fmt/format.h>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace conformance {
namespace {

constexpr const char* kLevels[] = {"basic", "useful", "asynchronous", "full"};

std::string group_of(const Case& c) { return std::string(c.id).substr(0, std::string(c.id).find('.')); }

std::string command(const Options& o, const Case& c) {
  return fmt::format("tolk-conformance {} --seed {} --case '{}'", o.plugin, o.seed, c.id);
}

bool is_bad(const Result& r) { return r.outcome != Outcome::Pass && r.outcome != Outcome::Skip; }

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '&')
      out += "&amp;";
    else if (c == '"')
      out += "&quot;";
    else if (static_cast<unsigned char>(c) >= 32)
      out += c;
  }
  return out;
}

void save(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) throw std::invalid_argument(path + ": cannot be written");
}

void print_groups(const std::vector<Result>& results) {
  std::vector<std::string> order;
  std::map<std::string, std::array<int, 3>> counts;
  for (const Result& r : results) {
    const std::string group = group_of(*r.c);
    if (!counts.contains(group)) order.push_back(group);
    counts[group][r.outcome == Outcome::Pass ? 0 : is_bad(r) ? 1 : 2]++;
  }
  for (const std::string& group : order)
    fmt::print("{:<8}{:>4} passed {:>4} failed {:>4} skipped\n", group, counts[group][0], counts[group][1],
               counts[group][2]);
}

} // namespace

int print_report(const Options& o, const Subject& subject, const std::vector<Result>& results,
                 const Expectations& expected) {
  print_groups(results);
  int passed = 0, failed = 0, skipped = 0, awaited = 0;
  std::map<std::string, int> missing;
  for (const Result& r : results) {
    const auto line = expected.find(r.c->id);
    if (r.outcome == Outcome::Skip)
      skipped++, missing[r.text]++;
    else if (is_bad(r) && line != expected.end())
      awaited++;
    else if (is_bad(r)) {
      failed++;
      fmt::print("FAIL {} [{}, {}]: {}\n  {}\n", r.c->id, tier_name(r.c->tier), outcome_name(r.outcome),
                 r.text, command(o, *r.c));
    } else if (o.verify_expect && line != expected.end()) {
      failed++;
      fmt::print("FAIL {} [{}]: passes, though {} expects a failure: remove its line\n", r.c->id,
                 tier_name(r.c->tier), o.expect);
    } else
      passed++;
  }
  std::string reasons;
  for (const auto& [name, count] : missing)
    reasons += fmt::format("{}{} {}", reasons.empty() ? ": " : ", ", count, name);
  if (skipped) fmt::print("skipped{}\n", reasons);
  fmt::print("{}: level {} ({}){} {}, {} passed, {} failed, {} expected, {} skipped (not offered)\n",
             subject.name, subject.level, kLevels[subject.level], subject.null ? ", null" : "",
             failed ? "FAIL" : "PASS", passed, failed, awaited, skipped);
  return failed ? 1 : 0;
}

void write_json(const Options& o, const Subject& subject, const std::vector<Result>& results) {
  nlohmann::ordered_json out = {{"plugin", subject.name},
                                {"file", o.plugin},
                                {"level", subject.level},
                                {"null", subject.null},
                                {"seed", o.seed}};
  nlohmann::ordered_json cases = nlohmann::ordered_json::array();
  for (const Result& r : results)
    cases.push_back({{"id", r.c->id},
                     {"tier", tier_name(r.c->tier)},
                     {"level", level_of(*r.c)},
                     {"result", outcome_name(r.outcome)},
                     {"ms", r.ms},
                     {"message", r.text}});
  out["cases"] = std::move(cases);
  save(o.json, out.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

void write_junit(const Options& o, const std::vector<Result>& results) {
  std::string out = "<?xml version=\"1.0\"?>\n<testsuite name=\"tolk-conformance\">\n";
  for (const Result& r : results) {
    out += fmt::format("<testcase classname=\"{}\" name=\"{}\" time=\"{:.3f}\">", group_of(*r.c),
                       escaped(r.c->id), r.ms / 1000);
    if (r.outcome == Outcome::Skip)
      out += fmt::format("<skipped message=\"{}\"/>", escaped(r.text));
    else if (is_bad(r))
      out += fmt::format("<failure message=\"{}\"/>", escaped(r.text));
    out += "</testcase>\n";
  }
  save(o.junit, out + "</testsuite>\n");
}

} // namespace conformance
