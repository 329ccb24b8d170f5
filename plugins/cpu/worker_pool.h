// The threads that run kernels: made once, shared by all CPU devices. A worker that has nothing to do spins
// for about 50 us, because kernels follow each other closely, and then sleeps.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include <tolk/plugin/target.h>

namespace tolk_cpu {

// One launch: tiles 0 .. tiles-1 of `kernel`. Pointers are borrowed until `run` returns.
struct Work {
  tolk_cpu_kernel kernel = nullptr;
  void* const* buffers = nullptr;
  const uint64_t* values = nullptr;
  uint64_t tiles = 0;
  uint64_t scratch_bytes = 0; // for each thread, aligned to 64
};

// For loops that look at something again and again.
void pause_thread();

// On the calling thread alone, in the default floating-point mode. False when there is no memory for scratch,
// and then nothing ran.
bool run_inline(const Work& work);

class WorkerPool {
public:
  // `threads` counts the caller of `run`; workers start here. Throws std::system_error when a thread cannot
  // be made.
  explicit WorkerPool(uint32_t threads);
  ~WorkerPool(); // joins; no `run` is in progress

  // Runs all tiles and returns when they are done. Tiles are handed out in shrinking pieces. When another
  // thread is inside `run` this one does its tiles alone. False as for run_inline.
  bool run(const Work& work);

private:
  void worker();
  bool wait_for_work(uint64_t last_epoch);
  bool enter(uint64_t& last_epoch);
  void take_tiles(void* scratch);

  // Bits 0..15: workers inside the present launch; bit 16: it takes more; above: its number. Workers read
  // `work_` only between entering and leaving, and the launch is over when it is closed and the count is
  // zero, so a worker that wakes late never sees a launch that has gone.
  static constexpr uint64_t kOne = 1, kCount = 0xffff, kOpen = 0x10000;
  static constexpr int kEpochShift = 17;

  std::mutex launching_;
  Work work_;
  uint32_t threads_;
  alignas(64) std::atomic<uint64_t> gate_{0};
  alignas(64) std::atomic<uint64_t> next_tile_{0};
  alignas(64) std::atomic<uint32_t> signal_{0};
  std::atomic<uint32_t> sleepers_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> workers_;
};

} // namespace tolk_cpu
