// Switches of the test suite. Each makes a class of faults visible that would otherwise pass unnoticed. They
// are read from the environment once, at first use; no user needs them, so they are no settings and appear in
// no list.
#pragma once

#include <atomic>
#include <cstdint>

#include "tolk/base/api.h"

namespace tolk {

struct TestSwitches {
  // TOLK_TEST_POISON=1: after a run, internal arenas are filled with 0xA5. Finds runs that read what an
  // earlier run left behind.
  std::atomic<bool> poison{false};
  // TOLK_TEST_SCATTER=1: every block of device memory starts at a random offset and is never reused. Finds
  // reads through stale references.
  std::atomic<bool> scatter{false};
  // TOLK_TEST_SHUFFLE=SEED: the nodes of a graph are recorded in a random order that their dependencies
  // allow. Finds missing dependencies. 0: off.
  std::atomic<uint64_t> shuffle{0};
};

// The process's switches. Tests may change them at any time; they apply from the next run, allocation or
// graph on.
TOLK_API TestSwitches& test_switches();

} // namespace tolk
