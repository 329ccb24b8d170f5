// Captures as files, for another process to replay.
//
//   std::string file = save_capture(*f.replay());  // after the second call
//   LoadedCapture loaded = load_capture(file);     // in another process
//   Replay replay(std::make_shared<const Capture>(std::move(loaded.parts)));
//
// A file holds the planned LINEAR, the kernels as graphs and as compiled code, and a table of the storage that
// replays use besides their inputs. Loading takes a kernel's code from the compile cache, which is keyed by the
// kernel's graph, or compiles it; with `trust_code` it takes the code in the file. Settings that change code have the
// values of the save, except those that this process sets (NOOPT=1, another TARGET). The division of work into
// kernels is fixed, and a setting that asks for another (SPLIT_REDUCE) causes a warning. Device graphs are not in the
// file: each process batches for itself.
//
// A file has the contents of storage that replays update (StorageRole::State) and, on request, of storage that they
// only read (Weight). Loading gives all storage new slots, so loading twice gives two independent captures. A file
// that is truncated, changed or of a newer version is a FormatError, thrown before any device is opened. Checksums
// find accidents, not attacks; docs/security.md says what is trusted.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/base/packed.h"
#include "tolk/engine/capture/replay.h"

namespace tolk::engine {

struct SaveOptions {
  bool weights = false; // also the contents of storage that replays only read
  // The function's results as nodes over storage of the capture. Storage that only a result names is saved with its
  // contents.
  std::vector<UOp> results = {};
  std::string note = {}; // any bytes, for the caller
};

// Waits for the devices. Throws FormatError for a capture that calls functions of the host, and what reading
// device memory throws.
TOLK_API std::string save_capture(Replay& replay, const SaveOptions& options = {});

struct LoadOptions {
  // Other devices for those of the file; those not named stay.
  std::map<std::string, std::string> devices = {};
  // Replaces the capture's default device, unless `devices` has that.
  std::string device = {};
  // Storage that replays only read and the file has no contents of; of the size and dtype that are asked for.
  std::function<std::optional<AnyBuffer>(const SavedStorage&)> storage = {};
  // Whether the file's machine code may run. It can do whatever this process can: say so only for files that
  // you would run as a program.
  bool trust_code = false;
};

struct LoadedCapture {
  CaptureParts parts;
  std::vector<UOp> results; // as saved, over the loaded storage
  std::string note;
  std::map<int64_t, UOp> storage;  // BUFFER nodes by the slot that they were saved with
  size_t reused = 0, compiled = 0; // kernels that a cache or a trusted file had, and those compiled now
  double compile_ms = 0;
};

// Throws FormatError: damage, also behind right checksums; "buffer slot S unresolved" for storage that only
// the caller can have; storage of the caller's that does not fit. What opening devices and compiling throw.
TOLK_API LoadedCapture load_capture(std::string_view file, const LoadOptions& options = {});

// How a file begins; for tools and tests that look into one with `unpack`.
inline constexpr Magic kCaptureMagic = {'T', 'O', 'L', 'K', 'J', 'I', 'T', '\0'};
inline constexpr uint32_t kCaptureVersion = 3;

} // namespace tolk::engine
