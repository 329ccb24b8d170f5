// The table of conformance cases: what each one needs, and how it says that something is wrong.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <tolk/plugin/status.h>

namespace conformance {

class Session;

enum class Tier { Required, Optional, Performance };

// What a case needs of the plugin; a case whose need is not offered is skipped.
enum Need : uint32_t {
  kNothing = 0, // runs before a device is opened
  kDevice = 1,  // an open device
  kValues = 2,  // a device that computes: every kind but null
  kMap = 4,
  kImport = 8,
  kCopy = 16,
  kFill = 32,
  kMemory = 64,
  kStreams = 128,
  kClock = 256,
  kElapsed = 512,
  kGraph = 1024,
  kUpdate = 2048,
  kGraphCopy = 4096,
  kGraphFill = 8192,
  kCompile = 16384,
  kInfo = 32768,
  kPeerCopy = 65536,
  kGroups = 131072, // work-groups of more than one item, with storage of their own
};

struct Case {
  const char* id; // group.name; never reused
  Tier tier;
  uint32_t needs; // bits of Need
  void (*run)(Session&);
};

// Thrown by a case: what was expected and what was found.
struct Failed {
  std::string text;
};
// Thrown by a case whose capability turns out to be missing.
struct Skipped {
  std::string capability;
};

// Every case, in the order in which they run.
std::span<const Case> all_cases();
// The conformance level that a case belongs to: 0 basic, 1 useful, 2 asynchronous, 3 full.
int level_of(const Case& c);
const char* tier_name(Tier tier);

// The groups; each is one file.
std::span<const Case> load_cases();
std::span<const Case> device_cases();
std::span<const Case> buffer_cases();
std::span<const Case> copy_cases();
std::span<const Case> program_cases();
std::span<const Case> number_cases();
std::span<const Case> stream_cases();
std::span<const Case> graph_cases();
std::span<const Case> fault_cases();

[[noreturn]] void fail(const std::string& expected, const std::string& found);
void expect(bool holds, const std::string& expected, const std::string& found);
// The call succeeds.
void ok(tolk_status status, const char* call);
// The call is refused with `code`.
void refused(tolk_status status, tolk_status code, const char* call);

} // namespace conformance
