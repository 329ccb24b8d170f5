#include <algorithm>
#include <cstdlib>
#include <functional>
#include <set>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include "tolk/base/config.h"
#include "tolk/base/error.h"

using namespace tolk;

namespace {

// Runs `body` in a child, whose environment dies with it; gives its exit status.
int in_child(const std::function<int()>& body) {
  pid_t child = ::fork();
  if (child == 0) {
    int status = 99;
    try {
      status = body();
    } catch (...) {
    }
    ::_exit(status);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool rejects(const char* name, const char* text, std::initializer_list<const char*> words) {
  ::setenv(name, text, 1);
  try {
    Config::from_environment();
  } catch (const InvalidArgument& error) {
    return std::all_of(words.begin(), words.end(), [&](const char* word) {
      return std::string(error.what()).find(word) != std::string::npos;
    });
  }
  return false;
}

} // namespace

BOOST_AUTO_TEST_CASE(the_environment_sets_fields_and_dev_is_an_alias) {
  BOOST_TEST(in_child([] {
               ::setenv("DEBUG", "3", 1);
               ::setenv("TARGET", "kernel-ir", 1);
               ::unsetenv("DEVICE");
               ::setenv("DEV", "CPU:2", 1);
               Config config = Config::from_environment();
               return config.debug == 3 && config.target == "kernel-ir" && config.device == "CPU:2" ? 0 : 1;
             }) == 0);
  BOOST_TEST(in_child([] {
               ::setenv("DEVICE", "NULL", 1);
               ::setenv("DEV", "CPU", 1);
               return Config::from_environment().device == "NULL" ? 0 : 1;
             }) == 0);
}

BOOST_AUTO_TEST_CASE(bad_values_are_refused_by_name_and_range) {
  BOOST_TEST(in_child([] { return rejects("DEBUG", "8", {"DEBUG=8", "0..7"}) ? 0 : 1; }) == 0);
  BOOST_TEST(in_child([] { return rejects("DEBUG", "two", {"DEBUG=two", "whole number"}) ? 0 : 1; }) == 0);
  BOOST_TEST(in_child([] { return rejects("PARALLEL", "3x", {"PARALLEL=3x"}) ? 0 : 1; }) == 0);
  BOOST_TEST(in_child([] { return rejects("PARALLEL", "99999999999999999999", {"PARALLEL="}) ? 0 : 1; }) ==
             0);
}

BOOST_AUTO_TEST_CASE(what_is_not_supported_yet_is_refused_or_told) {
  BOOST_TEST(
      in_child([] { return rejects("FAST_MATH", "1", {"FAST_MATH=1", "not supported yet"}) ? 0 : 1; }) == 0);
  BOOST_TEST(
      in_child([] { return rejects("PARTIAL_CONTIG", "2", {"PARTIAL_CONTIG=2", "unset it"}) ? 0 : 1; }) == 0);
  BOOST_TEST(in_child([] {
               ::setenv("FAST_MATH", "0", 1);
               ::setenv("VIZ", "1", 1);
               ::setenv("BEAM", "4", 1);
               Config config = Config::from_environment();
               std::vector<std::string> idle = idle_variables();
               bool told = idle.size() == 2 && idle[0].starts_with("VIZ=1 is not supported yet") &&
                           idle[1].starts_with("BEAM=4 is not supported yet");
               return told && config.beam == 4 ? 0 : 1;
             }) == 0);
}

BOOST_AUTO_TEST_CASE(with_a_list_for_problems_bad_values_keep_their_defaults) {
  BOOST_TEST(in_child([] {
               ::setenv("JIT", "9", 1);
               ::setenv("DEBUG", "2", 1);
               std::vector<std::string> problems;
               Config config = Config::from_environment(&problems);
               if (problems.size() != 1 || config.jit != 1 || config.debug != 2) return 1;
               for (const ConfigRow& row : config_rows())
                 if ((row.name == "JIT") != (row.problem.find("JIT=9 is out of range") == 0)) return 2;
               return 0;
             }) == 0);
}

BOOST_AUTO_TEST_CASE(scopes_nest_and_belong_to_their_thread) {
  int64_t before = Config::current().split_reduce;
  Config config = Config::current();
  config.split_reduce = 1 - before;
  {
    ScopedConfig scope(config);
    BOOST_TEST(Config::current().split_reduce == 1 - before);
    int64_t elsewhere = -1;
    std::thread([&] { elsewhere = Config::current().split_reduce; }).join();
    BOOST_TEST(elsewhere == before);
    {
      Config inner = Config::current();
      inner.split_reduce = before;
      ScopedConfig nested(inner);
      BOOST_TEST(Config::current().split_reduce == before);
    }
    BOOST_TEST(Config::current().split_reduce == 1 - before);
  }
  BOOST_TEST(Config::current().split_reduce == before);
}

BOOST_AUTO_TEST_CASE(the_digest_changes_with_settings_that_change_code_and_with_no_other) {
  Config config = Config::current();
  uint64_t digest = config.codegen_digest();
  Config other = config;
  other.debug = 7 - other.debug;
  other.parallel += 1;
  BOOST_TEST(other.codegen_digest() == digest);
  other.no_opt = 1 - other.no_opt;
  BOOST_TEST(other.codegen_digest() != digest);
}

BOOST_AUTO_TEST_CASE(rows_are_unique_documented_and_within_their_range) {
  std::set<std::string> names;
  for (const ConfigRow& row : config_rows()) {
    BOOST_TEST(names.emplace(row.name).second, row.name);
    BOOST_TEST(row.help.size() > 20u, row.name);
    BOOST_TEST(row.help.back() == '.', row.name);
    BOOST_TEST((row.type == "integer") == !row.range.empty(), row.name);
  }
}

BOOST_AUTO_TEST_CASE(unknown_tolk_variables_are_named_with_a_suggestion) {
  BOOST_TEST(in_child([] {
               ::setenv("TOLK_CACHEDIR", "/x", 1);
               ::setenv("TOLK_CPU_MODE", "1", 1);
               ::setenv("TOLK_TEST_ANYTHING", "1", 1);
               ::setenv("TOLK_CACHE_DIR", "/y", 1);
               auto with = [](std::vector<std::string> plugins, const std::string& name) {
                 auto unknown = unknown_variables(plugins);
                 return std::any_of(unknown.begin(), unknown.end(),
                                    [&](const std::string& text) { return text.starts_with(name); });
               };
               if (!with({}, "TOLK_CACHEDIR; did you mean TOLK_CACHE_DIR?")) return 1;
               if (!with({}, "TOLK_CPU_MODE")) return 2;
               if (with({"cpu"}, "TOLK_CPU_MODE")) return 3;
               if (with({}, "TOLK_TEST_ANYTHING") || with({}, "TOLK_CACHE_DIR;")) return 4;
               return 0;
             }) == 0);
}
