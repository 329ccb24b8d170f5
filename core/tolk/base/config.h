// Settings. config_vars.def is the one table: a row gives the field of Config, the environment variable, its
// parser, the line in `tolk-run --env` and the row in docs/env.md. Precedence: ScopedConfig in code, then the
// environment, read once at first use. Code outside the engine's entry points takes what it needs as
// arguments.
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

  // The settings in force for this thread: the innermost ScopedConfig, else the environment's.
  // Throws InvalidArgument that names the variable when its text is not a number, out of range, or asks for
  // something that is not supported yet.
  static const Config& current();

  // Reads the environment anew. current() does so once, at its first call in the process. With `problems`
  // nothing is thrown: a setting that cannot be taken keeps its default, and the sentence goes there.
  static Config from_environment(std::vector<std::string>* problems = nullptr);

  // Every setting whose row says that it changes generated code, a line "NAME=value" each.
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

// One row of the table with its present value, for --env and the generated page.
struct ConfigRow {
  std::string_view name, help;
  std::string type, fallback, range, value;
  bool affects_codegen;
  std::string problem; // why the environment's text, which `value` is then, cannot be taken; else empty
};
TOLK_API std::vector<ConfigRow> config_rows();

// Names that are reserved for settings which do nothing yet.
struct LaterRow {
  std::string_view name, why;
  bool refused; // the others are accepted
};
TOLK_API std::vector<LaterRow> later_rows();
// A sentence for each accepted one that the environment sets to something else than 0.
TOLK_API std::vector<std::string> idle_variables();

// Names of variables in the environment that begin with TOLK_ and mean nothing: neither a row of the table
// nor of the form TOLK_<plugin>_* for one of `plugins` (any case). Each with "; did you mean X?" when a row
// is near. Variables of the tests (TOLK_TEST_*, TOLK_SHARED_DIR, TOLK_UPDATE_GOLDEN) are known. Callers print
// them as warnings once plugins are found.
TOLK_API std::vector<std::string> unknown_variables(const std::vector<std::string>& plugins);

// Text of an environment variable, empty when unset; the only place that calls getenv. In a process with
// elevated rights (AT_SECURE) every variable reads as unset.
TOLK_API std::string environment(const char* name);

} // namespace tolk
