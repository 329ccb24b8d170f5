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
std::mutex slots_mutex;      // for who takes a slot
struct sigaction previous;
uintptr_t page_mask;

// In the place of pages that the file no longer has come zeros, and the read is tried again.
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
  if (previous.sa_flags & SA_SIGINFO) return previous.sa_sigaction(signal, info, context);
  if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) return previous.sa_handler(signal);
  ::signal(signal, SIG_DFL); // the read faults again, and the process ends as without this handler
}

void install() {
  static std::once_flag once;
  std::call_once(once, [] {
    page_mask = ~(static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE)) - 1);
    struct sigaction action{};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    ::sigaction(SIGBUS, &action, &previous);
  });
}

} // namespace

TruncationWatch::TruncationWatch(const void* base, size_t size) {
  install();
  std::lock_guard lock(slots_mutex);
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
