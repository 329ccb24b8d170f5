// Settings. Each row of config_vars.def defines a field of Config, its environment variable and parser, its line
// in `tolk-run --env` and its row in docs/generated/env.md. Precedence: ScopedConfig, then the environment, which
// is read once at first use. Below the engine's entry points, code takes settings as arguments.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tolk/base/api.h"

namespace tolk {

struct TOLK_API Config {
#define TOLK_INT(field, NAME, fallback, low, high, codegen, help) int64_t field = fallback;
#define TOLK_TEXT(field, NAME, fallback, codegen, help) std::string field = fallback;
#include "tolk/base/config_vars.def"

  // The settings in force for this thread: the innermost ScopedConfig, else the environment.
  // Throws InvalidArgument naming the variable if its value is not a number, is out of range, or is not
  // supported yet.
  static const Config& current();

  // Reads the environment again; current() reads it only once per process. With `problems`, nothing is thrown:
  // an invalid setting keeps its default and its error message is appended.
  static Config from_environment(std::vector<std::string>* problems = nullptr);

  // One line "NAME=value" for each setting that affects generated code.
  std::string codegen_text() const;
  // Digest of that text; part of every cache key.
  uint64_t codegen_digest() const;
};

// Replaces this thread's settings until the end of the scope; scopes nest.
class TOLK_API ScopedConfig {
public:
  explicit ScopedConfig(Config config);
  ~ScopedConfig();
  ScopedConfig(const ScopedConfig&) = delete;
  ScopedConfig& operator=(const ScopedConfig&) = delete;

private:
  Config config_;
  const Config* previous_;
};

// A row of the table with its current value, for --env and the generated page.
struct ConfigRow {
  std::string_view name, help;
  std::string type, fallback, range, value;
  bool affects_codegen;
  std::string problem; // why `value`, read from the environment, is invalid; empty if it is valid
};
TOLK_API std::vector<ConfigRow> config_rows();

// Reserved names of settings that have no effect yet.
struct LaterRow {
  std::string_view name, why;
  bool refused; // setting it is an error; otherwise it is ignored
};
TOLK_API std::vector<LaterRow> later_rows();
// A message for each ignored one that the environment sets to anything but 0.
TOLK_API std::vector<std::string> idle_variables();

// Unknown variables in the environment that begin with TOLK_: neither a row of the table, nor TOLK_<plugin>_*
// for one of `plugins` (any case), nor a variable of the tests (TOLK_TEST_*, TOLK_SHARED_DIR,
// TOLK_UPDATE_GOLDEN). Each is followed by "; did you mean X?" if a known name is close. Callers print them as
// warnings after plugin discovery.
TOLK_API std::vector<std::string> unknown_variables(const std::vector<std::string>& plugins);

// Value of an environment variable, empty if unset; the only caller of getenv. In a process with elevated
// privileges (AT_SECURE) every variable reads as unset.
TOLK_API std::string environment(const char* name);

} // namespace tolk
