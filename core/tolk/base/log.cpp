#include "tolk/base/log.h"

#include <unistd.h>

#include <cstdio>
#include <mutex>
#include <set>
#include <string>

#include "tolk/base/config.h"

namespace tolk::log {
namespace {

std::mutex mutex;

// Colours are for terminals: elsewhere the escapes that set them are left out.
std::string without_colours(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    size_t end =
        text.substr(i, 2) == "\x1b[" ? text.find_first_not_of("0123456789;", i + 2) : std::string_view::npos;
    if (end != std::string_view::npos && text[end] == 'm')
      i = end;
    else
      out += text[i];
  }
  return out;
}

void line(std::string_view prefix, std::string_view text) {
  static const bool terminal = ::isatty(STDERR_FILENO) == 1;
  std::string all(prefix);
  all.append(terminal ? std::string(text) : without_colours(text));
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
