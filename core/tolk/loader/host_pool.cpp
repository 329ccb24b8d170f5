#include "tolk/loader/host_pool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "tolk/base/config.h"

namespace tolk {
namespace {

thread_local bool inside_loop = false;

struct Loop {
  uint64_t count, grain;
  tolk_range_fn fn;
  void* arg;
  std::atomic<uint64_t> next{0};
  int helpers = 0; // workers inside, guarded by the pool's mutex

  void run() {
    inside_loop = true;
    for (uint64_t begin; (begin = next.fetch_add(grain, std::memory_order_relaxed)) < count;)
      fn(arg, begin, std::min(count, begin + grain));
    inside_loop = false;
  }
};

class Pool {
public:
  Pool() {
    const auto wanted = static_cast<uint32_t>(Config::current().cpu_threads);
    width_ = std::max(1u, wanted ? wanted : std::thread::hardware_concurrency());
  }
  uint32_t width() const { return width_; }

  void run(Loop& loop) {
    {
      std::lock_guard lock(mutex_);
      if (stopped_ || current_) { // the workers are taken: this loop has its caller alone
        loop.grain = loop.count;
      } else {
        start();
        current_ = &loop;
        wake_.notify_all();
      }
    }
    loop.run();
    std::unique_lock lock(mutex_);
    if (current_ == &loop) current_ = nullptr;
    done_.wait(lock, [&] { return loop.helpers == 0; });
  }

  void stop() {
    {
      std::lock_guard lock(mutex_);
      stopped_ = true;
      wake_.notify_all();
    }
    for (std::thread& t : threads_) t.join();
    threads_.clear();
  }

private:
  void start() {
    while (threads_.size() + 1 < width_) threads_.emplace_back([this] { work(); });
  }

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [&] { return stopped_ || (current_ && current_->next.load() < current_->count); });
      if (stopped_) return;
      Loop& loop = *current_;
      loop.helpers++;
      lock.unlock();
      loop.run();
      lock.lock();
      if (--loop.helpers == 0) done_.notify_all();
    }
  }

  uint32_t width_;
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::vector<std::thread> threads_;
  Loop* current_ = nullptr;
  bool stopped_ = false;
};

// Never destroyed: a plugin may still run a loop while static objects go away.
Pool& pool() {
  static Pool* instance = new Pool;
  return *instance;
}

} // namespace

uint32_t host_pool_width() { return pool().width(); }

void host_parallel_for(uint64_t count, uint64_t grain, tolk_range_fn fn, void* arg) {
  if (count == 0) return;
  if (inside_loop || count == 1 || pool().width() == 1) {
    fn(arg, 0, count);
    return;
  }
  if (grain == 0) grain = std::max<uint64_t>(1, count / (4ull * pool().width()));
  Loop loop{count, grain, fn, arg};
  pool().run(loop);
}

void stop_host_pool() { pool().stop(); }

} // namespace tolk
