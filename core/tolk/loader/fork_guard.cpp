#include "tolk/loader/fork_guard.h"

#include <atomic>
#include <mutex>
#include <pthread.h>

namespace tolk {
namespace {
std::atomic<bool> forked{false};
} // namespace

void watch_for_fork() {
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(nullptr, nullptr, [] { forked.store(true); }); });
}

bool in_forked_child() { return forked.load(std::memory_order_relaxed); }

} // namespace tolk
