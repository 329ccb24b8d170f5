// The table of conformance cases: what each one needs, and how it says that something is wrong.
#include "case.h"

#include <fmt/format.h>
#include <vector>

#include "tolk/loader/status.h"

namespace conformance {

std::span<const Case> all_cases() {
  static const std::vector<Case> all = [] {
    std::vector<Case> list;
    for (auto group : {load_cases, device_cases, buffer_cases, copy_cases, program_cases, number_cases,
                       stream_cases, graph_cases, fault_cases})
      list.insert(list.end(), group().begin(), group().end());
    return list;
  }();
  return all;
}

int level_of(const Case& c) {
  if (c.needs & (kGraph | kUpdate | kGraphCopy | kGraphFill | kPeerCopy)) return 3;
  if (c.needs & (kStreams | kCopy | kClock | kElapsed)) return 2;
  return c.needs & (kMap | kImport | kFill | kMemory | kInfo) ? 1 : 0;
}

const char* tier_name(Tier tier) {
  return tier == Tier::Required ? "required" : tier == Tier::Optional ? "optional" : "performance";
}

void fail(const std::string& expected, const std::string& found) {
  throw Failed{fmt::format("expected {}, found {}", expected, found)};
}

void expect(bool holds, const std::string& expected, const std::string& found) {
  if (!holds) fail(expected, found);
}

namespace {
bool is_known(tolk_status status) {
#define TOLK_STATUS(name, value, meaning)                                                                    \
  if (status == (value)) return true;
#include <tolk/plugin/status.def>
#undef TOLK_STATUS
  return false;
}

std::string described(tolk_status status) {
  if (!is_known(status)) return fmt::format("{}, which is no status of status.def", status);
  if (status >= 0) return tolk::status_name(status);
  return fmt::format("{} ({})", tolk::status_name(status), tolk::take_error_text(status));
}
} // namespace

void ok(tolk_status status, const char* call) {
  if (status != TOLK_OK) fail(fmt::format("TOLK_OK from {}", call), described(status));
}

void refused(tolk_status status, tolk_status code, const char* call) {
  const bool explained = status >= 0 || tolk::has_error_text(status);
  if (status != code) fail(fmt::format("{} from {}", tolk::status_name(code), call), described(status));
  expect(explained, fmt::format("a sentence through set_error when {} fails", call), "none");
  tolk::take_error_text(status);
}

} // namespace conformance
