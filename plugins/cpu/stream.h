// Streams: a queue each, with a thread that runs what is in it, in order. Only with the option "streams";
// without it the stream table has no `create`, every call is done when it returns, and nothing here is used.
//
// A launch is handed over, so the host goes on while it runs. Who waits for the stream takes what is still in
// the queue and runs it himself, and what the caller waits for anyway, such as a copy that must be done on
// return, runs on his thread, too: that is sooner than waking another one.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <tolk/plugin/tolk_plugin.h>

#include "state.h"

namespace tolk_cpu {

constexpr const char* kNoScratch = "no memory for a kernel's scratch storage";

// How many tasks of a stream are done. Events hold it, so it outlives the stream. Any thread.
class Progress {
public:
  bool is_done(uint64_t position) const { return done_.load() >= position; }
  // Spins a little, then sleeps. False: the time is over.
  bool wait(uint64_t position, uint64_t timeout_ns = TOLK_FOREVER);
  void advance(uint64_t position);

  void fail() { failed_ = true; }
  // The failure of a task, told to the host; `take` forgets it.
  tolk_status failure(bool take);

private:
  std::atomic<uint64_t> done_{0};
  std::atomic<uint32_t> waiting_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
};

// A point of a stream. Without a stream: done.
struct Point {
  std::shared_ptr<Progress> progress;
  uint64_t position = 0;
  bool is_done() const { return !progress || progress->is_done(position); }
  bool wait(uint64_t timeout_ns = TOLK_FOREVER) const {
    return !progress || progress->wait(position, timeout_ns);
  }
};

// False when there was no memory for a kernel's scratch storage.
using Task = std::function<bool()>;

} // namespace tolk_cpu

struct tolk_event {
  tolk_cpu::Point point;
};

struct tolk_stream {
  explicit tolk_stream(tolk_device* on); // throws std::system_error when the thread cannot be made
  ~tolk_stream();

  // One thread at a time.
  void submit(tolk_cpu::Task task);
  // Until everything that was submitted is done; helps. The same thread as `submit`.
  void finish();
  // The end of what was submitted so far.
  tolk_cpu::Point end() const { return {progress_, submitted_.load()}; }
  tolk_status failure(bool take) { return progress_->failure(take); }

  tolk_device* const device;

private:
  void work();
  bool wait_for_tasks();
  void run_queue();

  const std::shared_ptr<tolk_cpu::Progress> progress_ = std::make_shared<tolk_cpu::Progress>();
  std::atomic<uint64_t> submitted_{0};
  std::atomic<bool> some_{false}; // the queue is not empty, or the end is near
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<tolk_cpu::Task> queue_;
  bool sleeping_ = false, stop_ = false;
  // Held by whoever runs tasks: the thread, or the one that waits.
  std::mutex running_;
  std::vector<tolk_cpu::Task> tasks_;
  uint64_t done_ = 0;
  std::thread thread_;
};

namespace tolk_cpu {

// Runs `task` where it belongs: at once without a stream; with one behind the host, or, when the caller waits
// for it, on this thread after all that was submitted.
template <class Work> tolk_status run_on(tolk_stream* stream, bool wait, Work&& task) {
  if (stream && !wait) {
    stream->submit(std::forward<Work>(task));
    return TOLK_OK;
  }
  if (stream) {
    stream->finish();
    if (tolk_status earlier = stream->failure(true)) return earlier;
  }
  return task() ? TOLK_OK : fail(TOLK_E_HOST_OOM, kNoScratch);
}

} // namespace tolk_cpu
