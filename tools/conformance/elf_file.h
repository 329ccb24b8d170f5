// What an ELF library exports and needs, read from its file with bounds checked.
#pragma once

#include <string>
#include <vector>

namespace conformance {

struct ElfSymbol {
  std::string name;
  unsigned char binding; // STB_*
};

std::vector<ElfSymbol> exported_symbols(const std::string& path);
std::vector<std::string> needed_libraries(const std::string& path);
bool has_executable_stack(const std::string& path);
bool has_text_relocations(const std::string& path);

} // namespace conformance
