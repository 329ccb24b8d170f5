// Writes the generated pages of docs/ to standard output: tolk_docgen PAGE. Tables come from the code's own
// tables.
#include <cstdio>
#include <cstring>
#include <string>

#include "tolk/base/config.h"
#include "tolk/base/text.h"

namespace {

std::string environment_page() {
  tolk::TextTable table({"name", "meaning", "values", "default", "changes code"});
  for (const tolk::ConfigRow& row : tolk::config_rows())
    table.add_row({"`" + std::string(row.name) + "`", std::string(row.help),
                   row.range.empty() ? row.type : row.range,
                   row.fallback.empty() ? "" : "`" + row.fallback + "`", row.affects_codegen ? "yes" : ""});
  return "# Settings\n"
         "\n"
         "Generated from `core/tolk/base/config_vars.def`; a test fails when this page is stale.\n"
         "\n"
         "Each is read from the environment once, at first use; code overrides it with `ScopedConfig`. "
         "`tolk-run --env` prints the values in force. A value that is not a number or out of range is an "
         "error that names "
         "the variable. In a process with elevated rights all of them read as unset. A setting that changes "
         "generated code is "
         "part of the key of every compiled kernel.\n"
         "\n" +
         table.markdown() +
         "\n"
         "Also read: `DEV`, an alias of `DEVICE`; `XDG_CACHE_HOME` and `HOME`, for the default of "
         "`TOLK_CACHE_DIR`. "
         "A plugin may have settings of the form `TOLK_<PLUGIN>_*`. Any other variable that begins with "
         "`TOLK_` gives a "
         "warning, with the nearest known name.\n";
}

} // namespace

int main(int count, char** arguments) {
  if (count == 2 && std::strcmp(arguments[1], "env") == 0) {
    std::fputs(environment_page().c_str(), stdout);
    return 0;
  }
  std::fputs("usage: tolk_docgen env\n", stderr);
  return 2;
}
