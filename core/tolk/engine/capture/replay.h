// The state of one replay: the storage that a capture's kernels run on, and copies of inputs that overlap it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/engine/capture/capture.h"
#include "tolk/engine/run/binding.h"
#include "tolk/engine/run/storage_range.h"

namespace tolk::engine {

// One thread at a time may use one object. Several replays of one capture have arenas of their own; outputs
// and state are storage of the capture and shared.
class TOLK_API Replay {
public:
  explicit Replay(std::shared_ptr<const Capture> capture);
  ~Replay(); // waits for the devices
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  const Capture& capture() const { return *capture_; }
  const std::shared_ptr<const Capture>& shared_capture() const { return capture_; }
  BufferBinding& binding() { return binding_; }
  // How often an input was copied because the replay would have overwritten it while reading it.
  uint64_t input_copies() const { return input_copies_; }

  // Checks the inputs, then runs; `wait` returns when the work is done. Throws JitError for inputs that are not
  // as expected: "args mismatch in JIT", "input count mismatch", "input I mismatch", "input I has no backing
  // buffer", "duplicate inputs to JIT", `variable "n"`; nothing has run then. All storage that is written has
  // a new version afterwards.
  void run(const JitInputs& inputs, const Resolver& buffers, bool wait = false);

  // Gives back the memory of arenas, of copies of inputs and of everything that replays overwrite before they
  // read it, outputs included: their contents are lost. The next replay allocates again.
  void free_intermediates();

private:
  void find_static_uses();
  std::vector<AnyBuffer> resolved(const JitInputs& inputs, const Resolver& buffers) const;
  void copy_aliased_inputs(std::vector<AnyBuffer>& buffers);
  void synchronize() noexcept;

  std::shared_ptr<const Capture> capture_;
  Device& ambient_;
  std::vector<std::string> devices_;
  // Of storage that is neither input nor arena, by Buffer::base_id.
  std::unordered_map<uint64_t, std::vector<StorageUse>> static_uses_;
  std::vector<AnyBuffer> staging_;
  uint64_t input_copies_ = 0;
  BufferBinding binding_; // last: destroyed first, with its graphs
};

} // namespace tolk::engine
