#include "stream.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <chrono>

#include "state.h"

namespace tolk_cpu {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kSpinTime = std::chrono::microseconds(50);

// True when `ready` became so within the time that spinning is worth. One core has nobody to wait for.
template <class Ready> bool spin(Ready ready) {
  if (ready()) return true;
  if (thread_count() < 2) return false;
  const auto give_up = Clock::now() + kSpinTime;
  do {
    for (int i = 0; i < 32; ++i) {
      if (ready()) return true;
      pause_thread();
    }
  } while (Clock::now() < give_up);
  return false;
}

} // namespace

// A waiter first counts itself and then looks at `done_`; the worker first sets `done_` and then looks for
// waiters. In the one total order of these four at least one side sees the other.
bool Progress::wait(uint64_t position, uint64_t timeout_ns) {
  if (timeout_ns == 0) return is_done(position);
  if (spin([&] { return is_done(position); })) return true;
  std::unique_lock lock(mutex_);
  waiting_.fetch_add(1);
  auto done = [&] { return is_done(position); };
  bool came = true;
  if (timeout_ns == TOLK_FOREVER)
    changed_.wait(lock, done);
  else
    came = changed_.wait_for(lock, std::chrono::nanoseconds(std::min<uint64_t>(timeout_ns, INT64_MAX / 4)),
                             done);
  waiting_.fetch_sub(1);
  return came;
}

void Progress::advance(uint64_t position) {
  done_.store(position);
  if (waiting_.load() == 0) return;
  {
    std::lock_guard lock(mutex_);
  } // whoever looked before the store sleeps now
  changed_.notify_all();
}

tolk_status Progress::failure(bool take) {
  if (!failed_.load(std::memory_order_relaxed)) return TOLK_OK;
  if (take) failed_ = false;
  // Not HOST_OOM, which the host takes for the fault of the call that tells it.
  return tolk_cpu::fail(TOLK_E_KERNEL_FAULT, kNoScratch);
}

} // namespace tolk_cpu

using namespace tolk_cpu;

tolk_stream::tolk_stream(tolk_device* on) : device(on) {
  // Signals are the application's; its threads handle them.
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  try {
    thread_ = std::thread([this] { work(); });
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &old, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  pthread_setname_np(thread_.native_handle(), "tolk-cpu-stream");
}

tolk_stream::~tolk_stream() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    some_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void tolk_stream::submit(Task task) {
  bool wake;
  {
    std::lock_guard lock(mutex_);
    queue_.push_back(std::move(task));
    some_.store(true, std::memory_order_relaxed);
    wake = sleeping_;
  }
  submitted_.fetch_add(1);
  if (wake) changed_.notify_one();
}

// False at the end.
bool tolk_stream::wait_for_tasks() {
  spin([this] { return some_.load(std::memory_order_relaxed); });
  std::unique_lock lock(mutex_);
  sleeping_ = true;
  changed_.wait(lock, [this] { return !queue_.empty() || stop_; });
  sleeping_ = false;
  return !queue_.empty();
}

// `running_` is held.
void tolk_stream::run_queue() {
  {
    std::lock_guard lock(mutex_);
    tasks_.swap(queue_);
    some_.store(stop_, std::memory_order_relaxed);
  }
  for (Task& task : tasks_) {
    bool ran = false;
    try {
      ran = task();
    } catch (...) { // only memory can be missing
    }
    task = nullptr;
    if (!ran) progress_->fail();
    progress_->advance(++done_);
  }
  tasks_.clear();
}

void tolk_stream::work() {
  while (wait_for_tasks()) {
    std::lock_guard lock(running_);
    run_queue();
  }
}

void tolk_stream::finish() {
  if (std::unique_lock lock(running_, std::try_to_lock); lock) run_queue();
  end().wait();
}

namespace tolk_cpu {
namespace {

tolk_status create(tolk_device* device, uint32_t, tolk_stream** out) {
  return guarded([&] {
    auto stream = std::make_unique<tolk_stream>(device);
    std::lock_guard lock(device->mutex);
    device->streams.push_back(stream.get());
    *out = stream.release();
    return TOLK_OK;
  });
}

void destroy(tolk_stream* stream) {
  {
    std::lock_guard lock(stream->device->mutex);
    std::erase(stream->device->streams, stream);
  }
  delete stream;
}

tolk_status synchronize(tolk_stream* stream, uint64_t timeout_ns) {
  if (timeout_ns == TOLK_FOREVER)
    stream->finish();
  else if (!stream->end().wait(timeout_ns))
    return TOLK_TIMEOUT;
  return stream->failure(true);
}

tolk_status wait(tolk_stream* stream, tolk_event* event) {
  return guarded([&] {
    if (!event->point.is_done() && event->point.progress != stream->end().progress)
      stream->submit([point = event->point] { return point.wait(); });
    return TOLK_OK;
  });
}

tolk_status event_create(tolk_device*, uint32_t, tolk_event** out) {
  return guarded([&] {
    *out = new tolk_event;
    return TOLK_OK;
  });
}

tolk_status event_record(tolk_event* event, tolk_stream* stream) {
  if (!event->point.is_done()) return fail(TOLK_E_INVALID, "the event is recorded again before it is done");
  event->point = stream->end();
  return TOLK_OK;
}

tolk_status failure_of(const tolk_event* event) {
  return event->point.progress ? event->point.progress->failure(false) : TOLK_OK;
}

tolk_status event_query(tolk_event* event) {
  return event->point.is_done() ? failure_of(event) : TOLK_NOT_READY;
}

tolk_status event_sync(tolk_event* event, uint64_t timeout_ns) {
  return event->point.wait(timeout_ns) ? failure_of(event) : TOLK_TIMEOUT;
}

void event_destroy(tolk_event* event) { delete event; }

} // namespace

void add_streams(tolk_stream_vt& table) {
  table.create = create;
  table.destroy = destroy;
  table.synchronize = synchronize;
  table.wait = wait;
  table.event_create = event_create;
  table.event_record = event_record;
  table.event_query = event_query;
  table.event_sync = event_sync;
  table.event_destroy = event_destroy;
}

} // namespace tolk_cpu
