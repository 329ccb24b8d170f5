// The command line of tolk-conformance.
#include "options.h"

#include <boost/program_options.hpp>
#include <filesystem>
#include <sstream>
#include <stdexcept>

#include "session.h"

namespace conformance {
namespace {
namespace po = boost::program_options;

po::options_description table() {
  po::options_description o("tolk-conformance PLUGIN.so | --device NAME [options]");
  o.add_options()("device", po::value<std::string>(), "the plugin of this name among those that Tolk finds");
  o.add_options()("filter", po::value<std::vector<std::string>>(),
                  "only cases that fit, such as 'load.*,buf.*'");
  o.add_options()("level", po::value<std::string>()->default_value("all"),
                  "required, optional, performance or all");
  o.add_options()("jobs", po::value<int>()->default_value(1), "child processes at a time");
  o.add_options()("seed", po::value<uint64_t>()->default_value(1), "of random data");
  o.add_options()("time-limit", po::value<int>()->default_value(60), "seconds of one case");
  o.add_options()("json", po::value<std::string>(), "writes the results to this file");
  o.add_options()("junit", po::value<std::string>(), "the same as JUnit XML");
  o.add_options()("expect", po::value<std::string>(), "a list of cases that may fail, with reasons");
  o.add_options()("verify-expect", "a case on the list that passes is a failure");
  o.add_options()("case", po::value<std::string>(), "runs one case in this process, for a debugger");
  o.add_options()("oracle", po::value<std::string>(),
                  "file of the reference interpreter, when Tolk does not find it");
  o.add_options()("list", "prints the cases");
  o.add_options()("help", "prints this");
  o.add_options()("plugin", po::value<std::string>(), "the file");
  return o;
}

template <class T> void take(const po::variables_map& map, const char* name, T& to) {
  if (map.count(name)) to = map[name].as<T>();
}
} // namespace

std::string help_text() {
  std::ostringstream out;
  out << table();
  return out.str();
}

Options parse_options(int argc, char** argv) {
  po::positional_options_description file;
  file.add("plugin", 1);
  po::variables_map map;
  try {
    po::store(po::command_line_parser(argc, argv).options(table()).positional(file).run(), map);
  } catch (const po::error& error) {
    throw std::invalid_argument(std::string(error.what()) + "; --help lists the options");
  }
  Options o;
  take(map, "plugin", o.plugin), take(map, "device", o.device), take(map, "filter", o.filters),
      take(map, "level", o.level);
  take(map, "jobs", o.jobs), take(map, "seed", o.seed), take(map, "time-limit", o.limit_s),
      take(map, "json", o.json);
  take(map, "junit", o.junit), take(map, "expect", o.expect), take(map, "case", o.one),
      take(map, "oracle", o.oracle);
  o.verify_expect = map.count("verify-expect") != 0;
  o.list = map.count("list") != 0, o.help = map.count("help") != 0;
  if (o.level != "required" && o.level != "optional" && o.level != "performance" && o.level != "all")
    throw std::invalid_argument("--level is " + o.level +
                                "; required, optional, performance or all expected");
  if (o.jobs < 1 || o.limit_s < 1) throw std::invalid_argument("--jobs and --time-limit are at least 1");
  if (o.help || o.list) return o;
  if (o.plugin.empty() == o.device.empty())
    throw std::invalid_argument("one plugin is needed: a file, or --device NAME");
  if (o.verify_expect && o.expect.empty()) throw std::invalid_argument("--verify-expect needs --expect FILE");
  if (!o.device.empty()) {
    o.plugin = find_plugin(o.device);
    if (o.plugin.empty())
      throw std::invalid_argument("no plugin is named " + o.device +
                                  "; tolk-run --list-devices -v says where Tolk looks");
  }
  if (!std::filesystem::exists(o.plugin)) throw std::invalid_argument(o.plugin + ": no such file");
  o.plugin = std::filesystem::absolute(o.plugin).string();
  if (o.oracle.empty()) o.oracle = find_plugin("INTERP");
  return o;
}

bool fits(const std::string& pattern, const std::string& name) {
  std::istringstream parts(pattern);
  for (std::string part; std::getline(parts, part, ',');) {
    size_t p = 0, n = 0, star = std::string::npos, mark = 0;
    while (n < name.size()) {
      if (p < part.size() && part[p] == '*')
        star = p++, mark = n;
      else if (p < part.size() && part[p] == name[n])
        p++, n++;
      else if (star != std::string::npos)
        p = star + 1, n = ++mark;
      else
        break;
    }
    while (p < part.size() && part[p] == '*') p++;
    if (n == name.size() && p == part.size()) return true;
  }
  return false;
}

} // namespace conformance
