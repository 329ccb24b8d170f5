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

// Whether a variable is set to something.
bool asks(const std::string& text) { return !text.empty() && text != "0" && text != "-1"; }

std::string not_yet(const LaterRow& row, const std::string& text) {
  return std::string(row.name) + "=" + text + " is not supported yet: " + std::string(row.why);
}

} // namespace

std::string environment(const char* name) {
  if (getauxval(AT_SECURE) != 0) return {};
  const char* text = std::getenv(name); // NOLINT(concurrency-mt-unsafe): tolk never calls setenv
  return text ? text : "";
}

Config Config::from_environment(std::vector<std::string>* problems) {
  Config config;
  auto take = [&](const auto& set) {
    try {
      set();
    } catch (const InvalidArgument& e) {
      if (!problems) throw;
      problems->emplace_back(e.what());
    }
  };
#define TOLK_INT(field, NAME, fallback, low, high, codegen, help)                                            \
  if (std::string text = environment(#NAME); !text.empty())                                                  \
    take([&] { config.field = parse(#NAME, text, low, high); });
#define TOLK_TEXT(field, NAME, fallback, codegen, help)                                                      \
  if (std::string text = environment(#NAME); !text.empty()) config.field = text;
#include "tolk/base/config_vars.def"
  for (const LaterRow& row : later_rows())
    if (std::string text = environment(std::string(row.name).c_str()); row.refused && asks(text))
      take([&] { throw InvalidArgument(not_yet(row, text) + "; unset it"); });
  if (config.device.empty()) config.device = environment("DEV");
  return config;
}

const Config& Config::current() {
  if (scoped) return *scoped;
  static const Config config = from_environment();
  return config;
}

std::string Config::codegen_text() const {
  std::string text;
#define TOLK_INT(field, NAME, fallback, low, high, codegen, help)                                            \
  if (codegen) text += #NAME "=" + std::to_string(field) + "\n";
#define TOLK_TEXT(field, NAME, fallback, codegen, help)                                                      \
  if (codegen) text += #NAME "=" + field + "\n";
#include "tolk/base/config_vars.def"
  return text;
}

uint64_t Config::codegen_digest() const {
  std::string text = codegen_text();
  return XXH3_64bits(text.data(), text.size());
}

ScopedConfig::ScopedConfig(Config config) : config_(std::move(config)), previous_(scoped) {
  scoped = &config_;
}
ScopedConfig::~ScopedConfig() { scoped = previous_; }

std::vector<ConfigRow> config_rows() {
  std::vector<std::string> ignored;
  const Config now = scoped ? *scoped : Config::from_environment(&ignored);
  std::vector<ConfigRow> rows;
  // Invalid values from the environment, which take the place of the default in the table.
  auto judge = [&rows](int64_t low, int64_t high) {
    ConfigRow& row = rows.back();
    std::string text = environment(std::string(row.name).c_str());
    if (text.empty()) return;
    try {
      parse(std::string(row.name).c_str(), text, low, high);
    } catch (const InvalidArgument& e) {
      row.value = text, row.problem = e.what();
    }
  };
#define TOLK_INT(field, NAME, fallback, low, high, codegen, help)                                            \
  rows.push_back({#NAME, help, "integer", std::to_string(fallback), range_text(low, high),                   \
                  std::to_string(now.field), codegen, ""});                                                  \
  judge(low, high);
#define TOLK_TEXT(field, NAME, fallback, codegen, help)                                                      \
  rows.push_back({#NAME, help, "text", fallback, "", now.field, codegen, ""});
#include "tolk/base/config_vars.def"
  return rows;
}

std::vector<LaterRow> later_rows() {
  return {
#define TOLK_LATER(NAME, refused, why) {#NAME, why, refused},
#include "tolk/base/config_vars.def"
  };
}

std::vector<std::string> idle_variables() {
  std::vector<std::string> out;
  for (const LaterRow& row : later_rows())
    if (std::string text = environment(std::string(row.name).c_str()); !row.refused && asks(text))
      out.push_back(not_yet(row, text));
  return out;
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
