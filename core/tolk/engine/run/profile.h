// Execution profiles: an event for each kernel, copy and graph, in memory or in a file.
//
//   engine::Profile profile;                  // records from here on, on all threads
//   model.run(inputs);
//   for (const engine::ProfileEvent& e : profile.events()) std::puts(e.name.c_str());
//   engine::write_trace("trace.json", profile.events());
//
// The setting PROFILE=FILE writes the same events while the process runs: a Chrome trace, which Perfetto and
// chrome://tracing open. Every device is a track, a graph's launches lie inside of it.
//
// A profile waits for every launch and copy, as DEBUG=2 does, so host and device do not overlap; graphs time their
// nodes. Without a profile a run only tests a flag. Runs that do not count in the statistics (tuning, validation,
// internal copies) have no events.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/engine/run/var_vals.h"

namespace tolk::engine {

struct ProfileEvent {
  enum class Kind : uint8_t { Kernel, Copy, Graph };
  struct Range {
    uint64_t storage; // the same number for all views of a storage
    uint64_t offset, bytes;
    bool operator==(const Range&) const = default;
  };
  Kind kind = Kind::Kernel;
  std::string device;                // runs the kernel, is written by the copy, or is the first of the graph
  std::string name;                  // of the kernel; of others as in DEBUG=2
  uint64_t begin_ns = 0, end_ns = 0; // of the steady clock
  std::vector<Range> buffers;        // a kernel's in the order of its parameters; a copy's target and source
  VarVals var_vals;                  // of the variables that the kernel has
  bool in_graph = false;             // part of the graph whose event precedes it
  // The times are not measured: the backend does not time nodes, and the graph's time is divided evenly; or they
  // include VALIDATE_WITH_CPU.
  bool estimated = false;
};
TOLK_API const char* kind_name(ProfileEvent::Kind kind);

// Collects the events of runs that end during its lifetime. Several may exist at once. `events` may be called
// on any thread while others run.
class TOLK_API Profile {
public:
  Profile();
  ~Profile();
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;
  // In the order of submission; a graph before its launches.
  std::vector<ProfileEvent> events() const;

  struct State; // profile.cpp

private:
  std::unique_ptr<State> state_;
};

// Writes a whole Chrome trace. Throws DeviceError when the file cannot be written.
TOLK_API void write_trace(const std::string& file, std::span<const ProfileEvent> events);

// Whether runs are to be recorded: a Profile exists, or PROFILE names a file. Throws DeviceError when that
// file cannot be written.
bool profiling();
// Adds events to all profiles. Does not throw: failures are warnings.
void record_events(std::vector<ProfileEvent> events) noexcept;

} // namespace tolk::engine
