// A switch of the test suite (tolk/base/test_switches.h) set until the end of the scope.
#pragma once

#include "tolk/base/test_switches.h"

namespace tolk::test {

template <typename T> class ScopedSwitch {
public:
  ScopedSwitch(std::atomic<T>& what, T value) : what_(what), before_(what.exchange(value)) {}
  ~ScopedSwitch() { what_ = before_; }
  ScopedSwitch(const ScopedSwitch&) = delete;
  ScopedSwitch& operator=(const ScopedSwitch&) = delete;

private:
  std::atomic<T>& what_;
  T before_;
};

} // namespace tolk::test
