// Captured functions as bytes: what a capture compiled, for another process to replay.
//
//   std::string file = save_capture(*f.replay());                    // after the second call
//   LoadedCapture loaded = load_capture(file);                       // elsewhere
//   Function f = Function::create({.captured = std::make_shared<const Capture>(std::move(loaded.parts))});
//
// A file holds the planned LINEAR, the kernels as graphs and as compiled code, and a table of the storage that
// replays use besides their inputs. Loading takes a kernel's code from the compile cache, where its graph
// finds it, or compiles it; `trust_code` takes the code in the file. Settings that change code have the values
// of the save, except those that this process sets to something else than their default (NOOPT=1, another
// TARGET). How work was divided into kernels stays in any case, and a warning says so where a setting asks for
// something else (SPLIT_REDUCE). Device graphs are not in the file: each machine batches for itself.
//
// Contents of storage are kept where replays read what earlier ones left (StorageRole::State), and, when asked
// for, where they only read (Weight). Everything that is loaded has its own slots, so loading twice gives two
// independent captures. A file that is truncated, changed or of a newer version is a FormatError, thrown before
// any device is opened. Checksums find accidents, not attacks; docs/security.md says what is trusted.
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
  bool weights = false; // contents of storage that replays only read, too
  // What the function returned, as nodes over storage of the capture, and bytes of the caller's that say how
  // its value is made of them. Storage of a result that the capture does not touch is saved with contents.
  std::vector<UOp> results = {};
  std::string note = {};
};

// Waits for the devices. Throws FormatError for a capture that calls functions of the host, and what reading
// device memory throws.
TOLK_API std::string save_capture(Replay& replay, const SaveOptions& options = {});

// Storage in a file's table.
struct SavedStorage {
  int64_t slot; // where it was saved
  DType dtype;
  int64_t elements;   // of each shard
  std::string device; // a list for several; as remapped
  StorageRole role;
};

struct LoadOptions {
  // Other devices for those of the file; those not named stay.
  std::map<std::string, std::string> devices = {};
  // For the device where the capture's storage without a device of its own was, unless `devices` has it.
  std::string device = {};
  // Storage for what the file has no contents of and replays only read; of the size and dtype asked for.
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
inline constexpr uint32_t kCaptureVersion = 2; // 2: meta has the settings

} // namespace tolk::engine
