// What an ELF library exports and needs, read from its file with bounds checked.
#include "elf_file.h"

#include <cstring>
#include <elf.h>
#include <fstream>
#include <iterator>

#include "case.h"

namespace conformance {
namespace {

class Elf {
public:
  explicit Elf(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
    header_ = at<Elf64_Ehdr>(0);
    expect(std::memcmp(header_.e_ident, ELFMAG, SELFMAG) == 0 && header_.e_ident[EI_CLASS] == ELFCLASS64,
           "a 64-bit ELF file", path);
  }
  template <class T> T at(uint64_t offset) const {
    T value;
    if (offset > bytes_.size() || bytes_.size() - offset < sizeof value)
      fail("a whole ELF file", "one that ends early");
    std::memcpy(&value, bytes_.data() + offset, sizeof value);
    return value;
  }
  // The contents of the first section of this type, as records.
  template <class T> std::vector<T> records(uint32_t type, uint32_t* link) const {
    std::vector<T> found;
    for (uint32_t i = 0; i < header_.e_shnum; i++) {
      const auto section = at<Elf64_Shdr>(header_.e_shoff + uint64_t{i} * header_.e_shentsize);
      if (section.sh_type != type) continue;
      *link = section.sh_link;
      for (uint64_t k = 0; k + sizeof(T) <= section.sh_size; k += sizeof(T))
        found.push_back(at<T>(section.sh_offset + k));
      break;
    }
    return found;
  }
  std::string text(uint32_t section_index, uint64_t offset) const {
    const auto section = at<Elf64_Shdr>(header_.e_shoff + uint64_t{section_index} * header_.e_shentsize);
    const uint64_t start = section.sh_offset + offset;
    const size_t end = start < bytes_.size() ? bytes_.find('\0', start) : std::string::npos;
    return end == std::string::npos ? std::string() : bytes_.substr(start, end - start);
  }
  const Elf64_Ehdr& header() const { return header_; }

private:
  std::string bytes_;
  Elf64_Ehdr header_{};
};

} // namespace

std::vector<ElfSymbol> exported_symbols(const std::string& path) {
  const Elf elf(path);
  std::vector<ElfSymbol> names;
  uint32_t strings = 0;
  for (const Elf64_Sym& symbol : elf.records<Elf64_Sym>(SHT_DYNSYM, &strings)) {
    const unsigned char binding = ELF64_ST_BIND(symbol.st_info),
                        visibility = ELF64_ST_VISIBILITY(symbol.st_other);
    if (symbol.st_shndx == SHN_UNDEF || symbol.st_shndx == SHN_ABS || binding == STB_LOCAL ||
        visibility == STV_HIDDEN)
      continue;
    names.push_back({elf.text(strings, symbol.st_name), binding});
  }
  return names;
}

std::vector<std::string> needed_libraries(const std::string& path) {
  const Elf elf(path);
  std::vector<std::string> names;
  uint32_t strings = 0;
  for (const Elf64_Dyn& entry : elf.records<Elf64_Dyn>(SHT_DYNAMIC, &strings))
    if (entry.d_tag == DT_NEEDED) names.push_back(elf.text(strings, entry.d_un.d_val));
  return names;
}

bool has_executable_stack(const std::string& path) {
  const Elf elf(path);
  for (uint32_t i = 0; i < elf.header().e_phnum; i++) {
    const auto segment = elf.at<Elf64_Phdr>(elf.header().e_phoff + uint64_t{i} * elf.header().e_phentsize);
    if (segment.p_type == PT_GNU_STACK && (segment.p_flags & PF_X)) return true;
  }
  return false;
}

bool has_text_relocations(const std::string& path) {
  const Elf elf(path);
  uint32_t strings = 0;
  for (const Elf64_Dyn& entry : elf.records<Elf64_Dyn>(SHT_DYNAMIC, &strings))
    if (entry.d_tag == DT_TEXTREL || (entry.d_tag == DT_FLAGS && (entry.d_un.d_val & DF_TEXTREL)))
      return true;
  return false;
}

} // namespace conformance
