// The message of the exception that a call throws.
#pragma once

#include <string>

namespace tolk::test {

// Empty when the call throws nothing; an exception that is no E passes through.
template <typename E, typename F> std::string message_of(F&& call) {
  try {
    call();
  } catch (const E& e) {
    return e.what();
  }
  return {};
}
inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

} // namespace tolk::test
