#include "environment.h"

#include <nlohmann/json.hpp>

#include "tolk/base/config.h"
#include "tolk/base/text.h"

namespace tolk::run {

std::string environment_text() {
  TextTable table({"setting", "value", "default", "values", "meaning"});
  std::string problems;
  for (const ConfigRow& row : config_rows()) {
    table.add_row({std::string(row.name), row.value, row.fallback, row.range.empty() ? row.type : row.range,
                   std::string(row.help)});
    if (!row.problem.empty()) problems += "problem: " + row.problem + "\n";
  }
  return table.text() + problems;
}

std::string environment_json() {
  nlohmann::ordered_json document = nlohmann::ordered_json::array();
  for (const ConfigRow& row : config_rows())
    document.push_back({{"name", row.name},
                        {"value", row.value},
                        {"default", row.fallback},
                        {"type", row.type},
                        {"range", row.range},
                        {"changes_code", row.affects_codegen},
                        {"problem", row.problem},
                        {"meaning", row.help}});
  return document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

} // namespace tolk::run
