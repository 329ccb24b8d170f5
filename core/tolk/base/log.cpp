#include "tolk/base/log.h"

#include <cstdio>
#include <mutex>
#include <set>
#include <string>

#include "tolk/base/config.h"

namespace tolk::log {
namespace {

std::mutex mutex;

void line(std::string_view prefix, std::string_view text) {
  std::string all;
  all.reserve(prefix.size() + text.size() + 1);
  all.append(prefix).append(text);
  if (all.empty() || all.back() != '\n') all.push_back('\n');
  std::lock_guard lock(mutex);
  std::fwrite(all.data(), 1, all.size(), stderr);
}

} // namespace

void error(std::string_view text) { line("tolk: error: ", text); }
void warning(std::string_view text) { line("tolk: warning: ", text); }

void trace(std::string_view text) { line("tolk: trace: ", text); }

void warning_once(std::string_view text) {
  static std::set<std::string, std::less<>> seen;
  {
    std::lock_guard lock(mutex);
    if (!seen.emplace(text).second) return;
  }
  warning(text);
}

bool enabled(int level) { return Config::current().debug >= level; }

void debug(int level, std::string_view text) {
  if (enabled(level)) line("tolk: ", text);
}

void flush() { std::fflush(stderr); }

} // namespace tolk::log
