#include "tolk/device/report.h"

#include <nlohmann/json.hpp>

#include "tolk/base/text.h"

namespace tolk {
namespace {

const char* kind_name(uint32_t kind) {
  switch (kind) {
  case TOLK_KIND_CPU:
    return "CPU";
  case TOLK_KIND_INTEGRATED_GPU:
    return "integrated GPU";
  case TOLK_KIND_DISCRETE_GPU:
    return "discrete GPU";
  case TOLK_KIND_ACCELERATOR:
    return "accelerator";
  case TOLK_KIND_NULL:
    return "null";
  case TOLK_KIND_EMULATED:
    return "emulated";
  default:
    return "other";
  }
}

std::string device_line(const DeviceEntry& d) {
  std::string line = d.name;
  line.resize(std::max<size_t>(line.size() + 2, 14), ' ');
  line += kind_name(d.info.kind);
  if (*d.info.name) line += std::string(", ") + d.info.name;
  if (*d.info.arch) line += std::string(", ") + d.info.arch;
  if (d.info.memory_bytes != 0) line += ", " + human_bytes(d.info.memory_bytes);
  if (d.info.pci_id) line += std::string(", pci=") + d.info.pci_id;
  return line;
}

std::string verbose_line(const PluginEntry& p) {
  if (p.state != CandidateState::Loaded)
    return p.path + "  skipped (" + state_name(p.state) + "): " + p.reason;
  std::string line =
      p.name + "  ABI " + std::to_string(p.abi_major) + "." + std::to_string(p.abi_minor) + "  ";
  if (!p.device_problem.empty())
    line += "no device: " + p.device_problem;
  else
    line += std::to_string(p.devices.size()) + (p.devices.size() == 1 ? " device" : " devices");
  line += "  " + p.path + " (" + origin_name(p.origin) + ")";
  if (!p.version.empty()) line += "  version " + p.version;
  return line;
}

} // namespace

std::string format_report(const PluginReport& report, bool verbose) {
  std::string text;
  size_t skipped = 0;
  for (const PluginEntry& p : report.plugins) {
    skipped += p.state != CandidateState::Loaded;
    for (const DeviceEntry& d : p.devices) text += device_line(d) + (p.test_only ? " (for tests)\n" : "\n");
    if (!verbose && p.state == CandidateState::Loaded && p.devices.empty())
      text += p.name + "  no device" + (p.device_problem.empty() ? "" : ": " + p.device_problem) + "\n";
  }
  if (text.empty()) text = "no devices\n";
  if (!verbose) {
    if (skipped) text += std::to_string(skipped) + " skipped, see -v\n";
    return text;
  }
  text += "\nSearched directories:\n";
  for (const SearchedDirectory& d : report.directories)
    text +=
        "  " + d.path + " (" + origin_name(d.origin) + "): " +
        (d.problem.empty() ? std::to_string(d.candidates) + (d.candidates == 1 ? " candidate" : " candidates")
                           : d.problem) +
        "\n";
  text += "Plugins:\n";
  for (const PluginEntry& p : report.plugins) text += "  " + verbose_line(p) + "\n";
  if (!report.option_problems.empty()) text += "Plugin options:\n";
  for (const std::string& problem : report.option_problems) text += "  " + problem + "\n";
  return text;
}

std::string format_report_json(const PluginReport& report) {
  using Json = nlohmann::ordered_json;
  Json directories = Json::array(), plugins = Json::array();
  for (const SearchedDirectory& d : report.directories)
    directories.push_back({{"path", d.path},
                           {"origin", origin_name(d.origin)},
                           {"candidates", d.candidates},
                           {"problem", d.problem}});
  for (const PluginEntry& p : report.plugins) {
    Json devices = Json::array();
    for (const DeviceEntry& d : p.devices)
      devices.push_back({{"name", d.name},
                         {"kind", kind_name(d.info.kind)},
                         {"product", d.info.name},
                         {"description", d.info.description},
                         {"arch", d.info.arch},
                         {"memory_bytes", d.info.memory_bytes},
                         {"pci_id", d.info.pci_id ? d.info.pci_id : ""},
                         {"driver_version", d.info.driver_version}});
    plugins.push_back({{"path", p.path},
                       {"origin", origin_name(p.origin)},
                       {"name", p.name},
                       {"state", state_name(p.state)},
                       {"reason", p.reason},
                       {"abi_major", p.abi_major},
                       {"abi_minor", p.abi_minor},
                       {"version", p.version},
                       {"test_only", p.test_only},
                       {"default_priority", p.default_priority},
                       {"device_problem", p.device_problem},
                       {"devices", devices}});
  }
  Json report_json = {
      {"directories", directories}, {"plugins", plugins}, {"option_problems", report.option_problems}};
  // Paths need not be UTF-8.
  return report_json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace tolk
