// What ran when: an event for each kernel, copy and graph, for a program that asks and for files.
//
//   engine::Profile profile;                  // from here on, what any thread runs
//   model.run(inputs);
//   for (const engine::ProfileEvent& e : profile.events()) std::puts(e.name.c_str());
//   engine::write_trace("trace.json", profile.events());
//
// The setting PROFILE=FILE writes the same events while the process runs: a Chrome trace, which Perfetto and
// chrome://tracing open. Every device is a track, a graph's launches lie inside of it.
//
// While somebody listens, every launch and copy is waited for, as with DEBUG=2, so host and device do not
// overlap, and graphs time their nodes. Otherwise a run pays for one look at a flag. Runs that count in no
// statistics (tuning, validation, internal copies) give no events.
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
  std::string device;                // that the kernel runs on, that a copy writes; of a graph the first one
  std::string name;                  // the kernel's; as in DEBUG=2 for others
  uint64_t begin_ns = 0, end_ns = 0; // of the steady clock
  std::vector<Range> buffers;        // a kernel's in the order of its parameters; a copy's target and source
  VarVals var_vals;                  // of the variables that the kernel has
  bool in_graph = false;             // part of the graph whose event stands before it
  // The backend does not time nodes: the graph's time divided evenly. Or VALIDATE_WITH_CPU is in the time.
  bool estimated = false;
};
TOLK_API const char* kind_name(ProfileEvent::Kind kind);

// Events of runs that end while it lives. Several may live at once. Any thread may ask for the events while
// others run.
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

// Whether a run of this thread should be recorded: somebody listens, or PROFILE names a file. Throws
// DeviceError when that file cannot be written.
bool profiling();
// Hands events to everybody who listens. Does not throw: what fails is a warning.
void record_events(std::vector<ProfileEvent> events) noexcept;

} // namespace tolk::engine
