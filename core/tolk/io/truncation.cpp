#include "tolk/io/truncation.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <mutex>

namespace tolk::io {
namespace {

struct Slot {
  std::atomic<uintptr_t> begin{0}, end{0}; // end 0: free
  std::atomic<bool> cut{false};
};
std::array<Slot, 256> slots; // read by the handler, so it takes no lock
std::mutex slots_mutex;      // for who takes a slot or installs the handler
struct sigaction previous;
std::atomic<uintptr_t> page_mask{0};
thread_local volatile sig_atomic_t passing_on = 0;

// Replaces pages that the file no longer has by zeros; the read is then tried again.
void on_bus_error(int signal, siginfo_t* info, void* context) {
  const auto at = reinterpret_cast<uintptr_t>(info->si_addr);
  for (Slot& slot : slots) {
    const uintptr_t begin = slot.begin.load(), end = slot.end.load();
    if (at < begin || at >= end) continue;
    slot.cut.store(true);
    const int before = errno;
    const uintptr_t page = at & page_mask;
    void* zeros = ::mmap(reinterpret_cast<void*>(page), end - page, PROT_READ,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    errno = before;
    if (zeros != MAP_FAILED) return;
  }
  // Not about a watched mapping. A handler that passes signals on may lead back to this one.
  if (!passing_on) {
    passing_on = 1;
    if (previous.sa_flags & SA_SIGINFO)
      previous.sa_sigaction(signal, info, context);
    else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN)
      previous.sa_handler(signal);
    else
      ::signal(signal, SIG_DFL); // the read faults again, and the process ends as without this handler
    passing_on = 0;
  } else {
    ::signal(signal, SIG_DFL);
  }
}

// Also when another handler came since: test frameworks replace handlers all the time.
void install() {
  page_mask = ~(static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE)) - 1);
  struct sigaction now{};
  ::sigaction(SIGBUS, nullptr, &now);
  if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_bus_error) return;
  previous = now;
  struct sigaction action{};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, nullptr);
}

} // namespace

TruncationWatch::TruncationWatch(const void* base, size_t size) {
  std::lock_guard lock(slots_mutex);
  install();
  for (size_t i = 0; i < slots.size(); i++) {
    if (slots[i].end.load() != 0) continue;
    slot_ = static_cast<int>(i);
    slots[i].cut.store(false);
    slots[i].begin.store(reinterpret_cast<uintptr_t>(base));
    slots[i].end.store(reinterpret_cast<uintptr_t>(base) + size);
    return;
  }
}

TruncationWatch::~TruncationWatch() {
  if (slot_ >= 0) slots[static_cast<size_t>(slot_)].end.store(0);
}

bool TruncationWatch::cut_short() const { return slot_ >= 0 && slots[static_cast<size_t>(slot_)].cut.load(); }

} // namespace tolk::io
