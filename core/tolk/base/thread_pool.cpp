#include "tolk/base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <sched.h>
#include <system_error>
#include <thread>

#include "tolk/base/config.h"

namespace tolk {
namespace {

// One parallel_for. Helpers hold it by shared pointer: a helper may wake after the caller has long returned.
struct Job {
  size_t count;
  const std::function<void(size_t)>* body; // valid while an index is left, since the caller waits for those
  Config config;
  std::atomic<size_t> next = 0;
  std::atomic<bool> failed = false;
  std::mutex mutex;
  std::condition_variable idle;
  unsigned active = 0; // helpers inside run()
  std::exception_ptr error;

  void run() {
    for (size_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) {
      if (failed.load(std::memory_order_relaxed)) continue;
      try {
        (*body)(i);
      } catch (...) {
        std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
        failed = true;
      }
    }
  }

  void help() {
    {
      std::lock_guard lock(mutex);
      if (next.load() >= count) return; // nothing left; the caller may be gone
      ++active;
    }
    {
      ScopedConfig scope(config);
      run();
    }
    std::lock_guard lock(mutex);
    if (--active == 0) idle.notify_all();
  }
};

class Pool {
public:
  void ask_for_help(const std::shared_ptr<Job>& job, unsigned helpers) {
    std::lock_guard lock(mutex_);
    for (unsigned i = 0; i < helpers; ++i) requests_.push_back(job);
    // Requests not yet taken need a thread each, up to a bound that no machine setting passes.
    while (waiting_ < requests_.size() && threads_ < 256) {
      try {
        std::thread([this] { serve(); }).detach();
      } catch (const std::system_error&) {
        break; // fewer threads: the caller does the work itself
      }
      ++threads_;
      ++waiting_;
    }
    wake_.notify_all();
  }

  void forget(const std::shared_ptr<Job>& job) {
    std::lock_guard lock(mutex_);
    std::erase(requests_, job);
  }

private:
  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [this] { return !requests_.empty(); });
      std::shared_ptr<Job> job = std::move(requests_.front());
      requests_.pop_front();
      --waiting_;
      lock.unlock();
      job->help();
      job.reset();
      lock.lock();
      ++waiting_;
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::shared_ptr<Job>> requests_;
  size_t waiting_ = 0; // threads not inside a job
  unsigned threads_ = 0;
};

// Never destroyed: its threads sleep in it until the process ends.
Pool& pool() {
  static Pool* const instance = new Pool; // NOLINT(cppcoreguidelines-owning-memory)
  return *instance;
}

unsigned usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1U, std::thread::hardware_concurrency());
}

} // namespace

unsigned compile_threads() {
  int64_t wanted = Config::current().parallel;
  return wanted > 0 ? static_cast<unsigned>(wanted) : usable_cores();
}

void parallel_for(size_t count, unsigned threads, const std::function<void(size_t)>& body) {
  threads = static_cast<unsigned>(std::min<size_t>(std::max(threads, 1U), count));
  if (threads <= 1) {
    for (size_t i = 0; i < count; ++i) body(i);
    return;
  }
  auto job = std::make_shared<Job>();
  job->count = count;
  job->body = &body;
  job->config = Config::current();
  pool().ask_for_help(job, threads - 1);
  job->run();
  pool().forget(job);
  std::unique_lock lock(job->mutex);
  job->idle.wait(lock, [&] { return job->active == 0; });
  if (job->error) std::rethrow_exception(job->error);
}

} // namespace tolk
