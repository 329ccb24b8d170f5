#include "worker_pool.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "float_env.h"

namespace tolk_cpu {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kSpinTime = std::chrono::microseconds(50);

// Grows, is kept for the thread's life.
class Scratch {
public:
  ~Scratch() { std::free(data_); }
  // Sets *out to nullptr when size is 0.
  bool get(uint64_t size, void** out) {
    if (size > size_) {
      std::free(data_);
      size_ = 0;
      uint64_t rounded = (size + 4095) & ~uint64_t{4095};
      data_ = rounded < size ? nullptr : std::aligned_alloc(64, rounded);
      if (!data_) return false;
      size_ = rounded;
    }
    *out = size ? data_ : nullptr;
    return true;
  }

private:
  void* data_ = nullptr;
  uint64_t size_ = 0;
};
thread_local Scratch scratch_of_thread;

} // namespace

void pause_thread() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

bool run_inline(const Work& work) {
  void* scratch = nullptr;
  if (!scratch_of_thread.get(work.scratch_bytes, &scratch)) return false;
  DefaultFloatMode mode;
  work.kernel(work.buffers, work.values, 0, work.tiles, scratch);
  return true;
}

WorkerPool::WorkerPool(uint32_t threads) : threads_(std::clamp<uint32_t>(threads, 1, 1024)) {
  // Signals are the application's; its threads handle them.
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  workers_.reserve(threads_ - 1);
  try {
    for (uint32_t i = 1; i < threads_; ++i) {
      workers_.emplace_back([this] { worker(); });
      pthread_setname_np(workers_.back().native_handle(), "tolk-cpu");
    }
  } catch (...) { // fewer threads than asked for still do all the work
    threads_ = static_cast<uint32_t>(workers_.size()) + 1;
  }
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
}

WorkerPool::~WorkerPool() {
  stop_ = true;
  signal_.fetch_add(1);
  signal_.notify_all();
  for (std::thread& thread : workers_) thread.join();
}

bool WorkerPool::run(const Work& work) {
  if (work.tiles <= 1 || workers_.empty()) return run_inline(work);
  std::unique_lock<std::mutex> lock(launching_, std::try_to_lock);
  if (!lock) return run_inline(work);
  void* scratch = nullptr;
  if (!scratch_of_thread.get(work.scratch_bytes, &scratch)) return false;

  work_ = work;
  next_tile_.store(0, std::memory_order_relaxed);
  uint64_t epoch = (gate_.load(std::memory_order_relaxed) >> kEpochShift) + 1;
  // A worker first counts itself as asleep and then looks at the gate; here the gate opens first and then
  // sleepers are looked for. In the one total order of these four at least one side sees the other.
  gate_.store(epoch << kEpochShift | kOpen);
  if (uint64_t asleep = sleepers_.load(); asleep > 0) {
    signal_.fetch_add(1);
    if (work.tiles > asleep)
      signal_.notify_all();
    else
      for (uint64_t i = 1; i < work.tiles; ++i) signal_.notify_one();
  }
  {
    DefaultFloatMode mode;
    take_tiles(scratch);
  }
  gate_.fetch_and(~kOpen, std::memory_order_acq_rel);
  for (uint32_t spins = 0; (gate_.load(std::memory_order_acquire) & kCount) != 0; ++spins) {
    if (spins < 4096)
      pause_thread();
    else
      std::this_thread::yield();
  }
  return true;
}

void WorkerPool::take_tiles(void* scratch) {
  const uint64_t total = work_.tiles;
  uint64_t begin = next_tile_.load(std::memory_order_relaxed);
  while (begin < total) {
    uint64_t count = std::max<uint64_t>(1, (total - begin) / (2 * threads_));
    if (!next_tile_.compare_exchange_weak(begin, begin + count, std::memory_order_relaxed)) continue;
    work_.kernel(work_.buffers, work_.values, begin, begin + count, scratch);
    begin = next_tile_.load(std::memory_order_relaxed);
  }
}

// Returns when a launch is open that this worker has not seen, or, with false, when the pool ends.
bool WorkerPool::wait_for_work(uint64_t last_epoch) {
  auto ready = [&] {
    uint64_t gate = gate_.load();
    return (gate & kOpen) != 0 && gate >> kEpochShift != last_epoch;
  };
  while (true) {
    auto give_up = Clock::now() + kSpinTime;
    do {
      for (int i = 0; i < 32; ++i) {
        if (ready()) return true;
        pause_thread();
      }
      if (stop_.load(std::memory_order_relaxed)) return false;
    } while (Clock::now() < give_up);
    sleepers_.fetch_add(1);
    uint32_t ticket = signal_.load();
    if (!ready() && !stop_) signal_.wait(ticket);
    sleepers_.fetch_sub(1);
  }
}

bool WorkerPool::enter(uint64_t& last_epoch) {
  uint64_t gate = gate_.load(std::memory_order_relaxed);
  while ((gate & kOpen) != 0 && gate >> kEpochShift != last_epoch) {
    if (gate_.compare_exchange_weak(gate, gate + kOne, std::memory_order_acq_rel)) {
      last_epoch = gate >> kEpochShift;
      return true;
    }
  }
  return false;
}

void WorkerPool::worker() {
  DefaultFloatMode mode; // not what the thread inherited
  uint64_t last_epoch = 0;
  while (wait_for_work(last_epoch)) {
    if (!enter(last_epoch)) continue;
    void* scratch = nullptr;
    // Without memory for scratch the others do the tiles.
    if (scratch_of_thread.get(work_.scratch_bytes, &scratch)) take_tiles(scratch);
    gate_.fetch_sub(kOne, std::memory_order_release);
  }
}

} // namespace tolk_cpu
