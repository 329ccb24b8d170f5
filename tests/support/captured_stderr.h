// What a piece of code writes to standard error.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <string>

#include "tolk/base/log.h"

namespace tolk::test {

template <typename F> std::string captured_stderr(F&& run) {
  log::flush();
  std::fflush(stderr);
  std::FILE* file = std::tmpfile();
  int saved = dup(2);
  dup2(fileno(file), 2);
  auto restore = [&] {
    log::flush();
    std::fflush(stderr);
    dup2(saved, 2);
    close(saved);
  };
  try {
    run();
  } catch (...) {
    restore();
    std::fclose(file);
    throw;
  }
  restore();
  std::string text(static_cast<size_t>(std::ftell(file) < 0 ? 0 : lseek(fileno(file), 0, SEEK_END)), '\0');
  std::rewind(file);
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  return text;
}

} // namespace tolk::test
