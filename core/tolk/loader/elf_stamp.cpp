#include "tolk/loader/elf_stamp.h"

#include <algorithm>
#include <cstring>
#include <elf.h>
#include <unistd.h>
#include <vector>

#include <tolk/plugin/tolk_plugin.h>

namespace tolk {
namespace {

// Whole reads only; false when the range is not in the file.
bool read_at(int fd, uint64_t size, uint64_t offset, void* out, uint64_t bytes) {
  if (offset > size || bytes > size - offset) return false;
  auto* p = static_cast<char*>(out);
  while (bytes > 0) {
    ssize_t n = pread(fd, p, bytes, static_cast<off_t>(offset));
    if (n <= 0) return false;
    p += n, offset += static_cast<uint64_t>(n), bytes -= static_cast<uint64_t>(n);
  }
  return true;
}

#if defined(__x86_64__)
constexpr uint16_t kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t kMachine = EM_AARCH64;
#elif defined(__riscv)
constexpr uint16_t kMachine = EM_RISCV;
#elif defined(__powerpc64__)
constexpr uint16_t kMachine = EM_PPC64;
#else
constexpr uint16_t kMachine = EM_NONE;
#endif

std::string machine_name(uint16_t machine) {
  switch (machine) {
  case EM_X86_64:
    return "x86-64";
  case EM_386:
    return "x86 (32 bits)";
  case EM_AARCH64:
    return "aarch64";
  case EM_ARM:
    return "arm (32 bits)";
  case EM_RISCV:
    return "riscv";
  case EM_PPC64:
    return "ppc64";
  case EM_S390:
    return "s390";
  default:
    return "ELF machine " + std::to_string(machine);
  }
}

// Where in the file something must end for the file to be whole.
std::string bounds_problem(int fd, uint64_t size, const Elf64_Ehdr& header) {
  std::string cut = "the file is cut short";
  if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum == 0) return "it has no program headers";
  std::vector<Elf64_Phdr> segments(header.e_phnum);
  if (!read_at(fd, size, header.e_phoff, segments.data(), segments.size() * sizeof(Elf64_Phdr))) return cut;
  for (const Elf64_Phdr& s : segments)
    if (s.p_filesz > size || s.p_offset > size - s.p_filesz)
      return cut + ": a segment ends at byte " + std::to_string(s.p_offset + s.p_filesz) + " of " +
             std::to_string(size);
  return {};
}

void read_stamp(int fd, uint64_t size, const Elf64_Ehdr& header, LibraryFacts& facts) {
  if (header.e_shnum == 0 || header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shstrndx >= header.e_shnum)
    return;
  std::vector<Elf64_Shdr> sections(header.e_shnum);
  if (!read_at(fd, size, header.e_shoff, sections.data(), sections.size() * sizeof(Elf64_Shdr))) {
    facts.problem = "the file is cut short: its section table is missing";
    return;
  }
  const Elf64_Shdr& names = sections[header.e_shstrndx];
  constexpr char kSection[] = ".note.tolk";
  for (const Elf64_Shdr& s : sections) {
    char name[sizeof kSection];
    if (s.sh_name > names.sh_size || !read_at(fd, size, names.sh_offset + s.sh_name, name, sizeof name))
      continue;
    if (std::memcmp(name, kSection, sizeof kSection) != 0) continue;
    tolk_plugin_stamp stamp;
    if (s.sh_size < sizeof stamp || !read_at(fd, size, s.sh_offset, &stamp, sizeof stamp)) return;
    if (std::memcmp(stamp.owner, "tolk", 5) != 0 || stamp.type != 1) return;
    facts.stamped = true;
    facts.name.assign(stamp.name, strnlen(stamp.name, sizeof stamp.name));
    facts.abi_major = stamp.abi_major;
    facts.abi_minor = stamp.abi_minor;
    facts.default_priority = stamp.default_priority;
    return;
  }
}

} // namespace

LibraryFacts read_library_facts(int fd, uint64_t size) {
  LibraryFacts facts;
  Elf64_Ehdr header;
  if (size < SELFMAG || !read_at(fd, size, 0, &header, std::min<uint64_t>(size, sizeof header)) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
    facts.problem = size == 0 ? "the file is empty" : "not a shared library (no ELF header)";
    return facts;
  }
  if (size < sizeof header) {
    facts.problem = "the file is cut short: its ELF header is incomplete";
    return facts;
  }
  constexpr uint16_t probe = 1;
  unsigned char order = *reinterpret_cast<const unsigned char*>(&probe) == 1 ? ELFDATA2LSB : ELFDATA2MSB;
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != order ||
      header.e_machine != kMachine) {
    facts.wrong_machine = true;
    facts.problem =
        "built for " + machine_name(header.e_machine) + ", this tolk runs on " + machine_name(kMachine);
    return facts;
  }
  if (header.e_type != ET_DYN) {
    facts.problem = "an ELF file, but not a shared library";
    return facts;
  }
  facts.problem = bounds_problem(fd, size, header);
  if (facts.problem.empty()) read_stamp(fd, size, header, facts);
  return facts;
}

} // namespace tolk
