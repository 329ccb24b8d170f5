#include "tolk/base/config.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>

#include <sys/auxv.h>
#include <unistd.h>

#include <xxhash.h>

#include "tolk/base/error.h"
#include "tolk/base/text.h"

namespace tolk {
namespace {

thread_local const Config* scoped = nullptr;

std::string range_text(int64_t low, int64_t high) {
  return std::to_string(low) + ".." + std::to_string(high);
}

int64_t parse(const char* name, const std::string& text, int64_t low, int64_t high) {
  int64_t value = 0;
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size())
    throw InvalidArgument(std::string(name) + "=" + text + " is not a whole number; expected " +
                          range_text(low, high));
  if (value < low || value > high)
    throw InvalidArgument(std::string(name) + "=" + text + " is out of range; expected " +
                          range_text(low, high));
  return value;
}

} // namespace

std::string environment(const char* name) {
  if (getauxval(AT_SECURE) != 0) return {};
  const char* text = std::getenv(name); // NOLINT(concurrency-mt-unsafe): tolk never calls setenv
  return text ? text : "";
}

Config Config::from_environment() {
  Config config;
#define TOLK_INT(field, NAME, fallback, low, high, codegen, help)                                            \
  if (std::string text = environment(#NAME); !text.empty()) config.field = parse(#NAME, text, low, high);
#define TOLK_TEXT(field, NAME, fallback, codegen, help)                                                      \
  if (std::string text = environment(#NAME); !text.empty()) config.field = text;
#include "tolk/base/config_vars.def"
#undef TOLK_INT
#undef TOLK_TEXT
  if (config.device.empty()) config.device = environment("DEV");
  return config;
}

const Config& Config::current() {
  if (scoped) return *scoped;
  static const Config config = from_environment();
  return config;
}

uint64_t Config::codegen_digest() const {
  std::string text;
#define TOLK_INT(field, NAME, fallback, low, high, codegen, help)                                            \
  if (codegen) text += #NAME "=" + std::to_string(field) + "\n";
#define TOLK_TEXT(field, NAME, fallback, codegen, help)                                                      \
  if (codegen) text += #NAME "=" + field + "\n";
#include "tolk/base/config_vars.def"
#undef TOLK_INT
#undef TOLK_TEXT
  return XXH3_64bits(text.data(), text.size());
}

ScopedConfig::ScopedConfig(Config config) : config_(std::move(config)), previous_(scoped) {
  scoped = &config_;
}
ScopedConfig::~ScopedConfig() { scoped = previous_; }

std::vector<ConfigRow> config_rows() {
  const Config& now = Config::current();
  std::vector<ConfigRow> rows;
#define TOLK_INT(field, NAME, fallback, low, high, codegen, help)                                            \
  rows.push_back({#NAME, help, "integer", std::to_string(fallback), range_text(low, high),                   \
                  std::to_string(now.field), codegen});
#define TOLK_TEXT(field, NAME, fallback, codegen, help)                                                      \
  rows.push_back({#NAME, help, "text", fallback, "", now.field, codegen});
#include "tolk/base/config_vars.def"
#undef TOLK_INT
#undef TOLK_TEXT
  return rows;
}

std::vector<std::string> unknown_variables(const std::vector<std::string>& plugins) {
  std::vector<std::string> unknown, known;
  for (const ConfigRow& row : config_rows()) known.emplace_back(row.name);
  std::vector<std::string> prefixes = {"TOLK_TEST_"};
  for (std::string plugin : plugins) {
    for (char& c : plugin)
      c = static_cast<char>(c == '-' ? '_' : std::toupper(static_cast<unsigned char>(c)));
    prefixes.push_back("TOLK_" + plugin + "_");
  }
  for (char** entry = environ; entry && *entry; ++entry) {
    std::string_view text = *entry;
    std::string name(text.substr(0, text.find('=')));
    if (!name.starts_with("TOLK_") || name == "TOLK_SHARED_DIR" || name == "TOLK_UPDATE_GOLDEN") continue;
    if (std::ranges::find(known, name) != known.end()) continue;
    if (std::ranges::any_of(prefixes, [&](const std::string& prefix) { return name.starts_with(prefix); }))
      continue;
    std::string near = nearest_word(name, known);
    unknown.push_back(near.empty() ? name : name + "; did you mean " + near + "?");
  }
  return unknown;
}

} // namespace tolk
