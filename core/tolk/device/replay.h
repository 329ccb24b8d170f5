// Repeats what TOLK_LAYERS=record=FILE wrote.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tolk/base/api.h"

namespace tolk {

class Device;

// The result of a replay.
struct Replay {
  uint64_t calls = 0;            // executed
  uint64_t compared = 0;         // reads whose bytes were compared with the recorded ones
  uint64_t different = 0;        // of these, with other bytes
  std::string first_difference;  // where the first of them was
  std::vector<std::string> read; // the bytes, one element per comparison, when asked for
  std::string missing;           // with ReplayOptions::incomplete: where the recording breaks off, else empty
};
struct ReplayOptions {
  bool keep_bytes = false; // fill Replay::read
  bool incomplete = false; // take what is there of a recording that breaks off, as a crash leaves it
};
// Carries out the recorded calls of the plugin that `device` belongs to, on `device` and, where the recording
// used several, on the devices of the same plugin with the recorded indices. Throws FormatError for a file
// that is damaged, cut off or no recording, InvalidArgument when it has no call of that plugin, DeviceError
// when a call fails that had succeeded.
TOLK_API Replay replay_recording(const std::string& file, Device& device, ReplayOptions options = {});

} // namespace tolk
