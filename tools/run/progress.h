// A bar on the terminal while something long happens.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace tolk::run {

// The bar as text: "compile [######----------] 12/40".
std::string bar_text(std::string_view stage, size_t done, size_t total, size_t width = 30);

// Draws to standard error, when that is a terminal and `wanted`; else does nothing. Redraws at most every 50
// ms; the end of its life wipes the line.
class Progress {
public:
  explicit Progress(bool wanted);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(std::string_view stage, size_t done, size_t total);
  void clear();

private:
  bool active_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point last_{};
};

} // namespace tolk::run
