#include "progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace tolk::run {

std::string bar_text(std::string_view stage, size_t done, size_t total, size_t width) {
  if (total == 0) return fmt::format("{} ...", stage);
  done = std::min(done, total);
  size_t full = done * width / total;
  return fmt::format("{} [{:#>{}}{:->{}}] {}/{}", stage, "", full, "", width - full, done, total);
}

Progress::Progress(bool wanted) : active_(wanted && ::isatty(STDERR_FILENO) == 1) {}

void Progress::update(std::string_view stage, size_t done, size_t total) {
  if (!active_) return;
  auto now = std::chrono::steady_clock::now();
  if (drawn_ && done < total && now - last_ < std::chrono::milliseconds(50)) return;
  last_ = now;
  drawn_ = true;
  std::fputs(("\r\x1b[K" + bar_text(stage, done, total)).c_str(), stderr);
  std::fflush(stderr);
}

void Progress::clear() {
  if (!drawn_) return;
  drawn_ = false;
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
}

} // namespace tolk::run
