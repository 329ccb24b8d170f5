// The floating-point mode that kernels run in: round to nearest even, subnormal numbers kept, no traps. A
// caller may have other settings (flush-to-zero is common in audio and games), and threads inherit those of
// their maker.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace tolk_cpu {

class DefaultFloatMode {
public:
#if defined(__x86_64__)
  DefaultFloatMode() : saved_(_mm_getcsr()) { _mm_setcsr(0x1f80); }
  ~DefaultFloatMode() { _mm_setcsr(saved_); }

private:
  unsigned saved_;
#elif defined(__aarch64__)
  DefaultFloatMode() {
    __asm__ volatile("mrs %0, fpcr" : "=r"(saved_));
    __asm__ volatile("msr fpcr, %0" ::"r"(uint64_t{0}));
  }
  ~DefaultFloatMode() { __asm__ volatile("msr fpcr, %0" ::"r"(saved_)); }

private:
  uint64_t saved_;
#endif
  DefaultFloatMode(const DefaultFloatMode&) = delete;
  DefaultFloatMode& operator=(const DefaultFloatMode&) = delete;
};

} // namespace tolk_cpu
