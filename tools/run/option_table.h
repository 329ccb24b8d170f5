// The command line of tolk-run as one table: the parser, --help and the page in docs/ are made from it.
#pragma once

#include <span>
#include <string>

namespace tolk::run {

struct OptionRow {
  const char* name;     // without the dashes
  char letter;          // one-letter form, 0: none
  const char* argument; // what stands after it, null: nothing
  bool repeats;         // may be given several times
  const char* group;    // heading in --help
  const char* help;     // one or more sentences
};

std::span<const OptionRow> option_rows();
// The text of --help.
std::string help_text();
// The flags as a page of Markdown.
std::string flags_page();

} // namespace tolk::run
