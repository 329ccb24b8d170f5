// Captured functions as bytes: what a capture compiled, for another process to replay.
//
//   std::string file = save(jit);                                    // after the second call
//   LoadedCapture loaded = load_capture(file);                       // elsewhere
//   auto jit = TinyJit<R>::create({.captured = captured_from<R>(std::move(loaded), value)});
//
// A file holds the planned LINEAR, the compiled kernels with what they were compiled for, and a table of the
// storage that replays use besides their inputs. Where the same compiler for the same target is at hand, the
// compiled code is used as it is; elsewhere kernels are compiled from their graphs. So they are where a
// setting of this process that changes code is neither at its default nor what it was at the save (NOOPT=1,
// another TARGET): a setting at its default leaves the choice of the save. How work was divided into kernels
// stays in any case, and a warning says so where a setting asks for something else (SPLIT_REDUCE). Batching
// into device graphs is not in the file: each machine does its own.
//
// Of storage, contents are kept where replays read what earlier ones left (StorageRole::State), and where
// they only read (Weight) when asked for. Everything that is loaded has slots of its own, so loading twice
// gives two independent captures. A file that is cut off, changed or of a newer version is a FormatError,
// thrown before any device is opened. The checksums find accidents; who loads a file trusts its author, since
// it holds code.
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
#include "tolk/engine/capture/jit.h"

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
TOLK_API std::string save_capture(CapturedBase& capture, const SaveOptions& options = {});

// The same for the capture of a TinyJit. Throws JitError "can't save an uncaptured JIT".
template <class R> std::string save(const TinyJit<R>& jit, const SaveOptions& options = {}) {
  if (!jit.captured()) throw JitError("can't save an uncaptured JIT: it has a capture after its second call");
  return save_capture(*jit.captured(), options);
}

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
  ToProgram to_program = {}; // for kernels that have to be compiled; empty: the engine's own
};

struct LoadedCapture {
  CaptureParts parts;
  std::vector<UOp> results; // as saved, over the loaded storage
  std::string note;
  std::map<int64_t, UOp> storage;  // BUFFER nodes by the slot that they were saved with
  size_t reused = 0, compiled = 0; // kernels
  double compile_ms = 0;
};

// Throws FormatError: damage, also behind right checksums; "buffer slot S unresolved" for storage that only
// the caller can have; storage of the caller's that does not fit. What opening devices and compiling throw.
TOLK_API LoadedCapture load_capture(std::string_view file, const LoadOptions& options = {});

template <class R> std::shared_ptr<CapturedJit<R>> captured_from(LoadedCapture loaded, R value) {
  return std::make_shared<CapturedJit<R>>(std::move(loaded.parts), std::move(value));
}

// How a file begins; for tools and tests that look into one with `unpack`.
inline constexpr Magic kCaptureMagic = {'T', 'O', 'L', 'K', 'J', 'I', 'T', '\0'};
inline constexpr uint32_t kCaptureVersion = 2; // 2: meta has the settings

} // namespace tolk::engine
