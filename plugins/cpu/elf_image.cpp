#include "elf_image.h"

#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

namespace tolk_cpu {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kMachine = EM_AARCH64;
#endif
constexpr uint64_t kMostSections = 4096, kLargestAlign = 4096, kLargestImage = uint64_t{1} << 30;

// Copies out of the object, whose tables need not be aligned.
class Reader {
public:
  explicit Reader(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  uint64_t size() const { return bytes_.size(); }
  bool inside(uint64_t offset, uint64_t size) const {
    return offset <= bytes_.size() && size <= bytes_.size() - offset;
  }
  template <class T> bool read(uint64_t offset, T& out) const {
    if (!inside(offset, sizeof out)) return false;
    std::memcpy(&out, bytes_.data() + offset, sizeof out);
    return true;
  }
  const uint8_t* at(uint64_t offset) const { return bytes_.data() + offset; }
  // Text that ends inside the section; empty when it does not.
  std::string_view text(const Elf64_Shdr& table, uint64_t offset) const {
    if (offset >= table.sh_size) return {};
    auto* begin = reinterpret_cast<const char*>(at(table.sh_offset + offset));
    auto* end = static_cast<const char*>(std::memchr(begin, 0, table.sh_size - offset));
    return end ? std::string_view(begin, static_cast<size_t>(end - begin)) : std::string_view();
  }

private:
  std::span<const uint8_t> bytes_;
};

bool read_sections(const Reader& in, std::vector<Elf64_Shdr>& sections, std::string& error) {
  Elf64_Ehdr header;
  if (!in.read(0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
    error = "not an ELF object";
    return false;
  }
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
      header.e_type != ET_REL || header.e_machine != kMachine || header.e_shentsize != sizeof(Elf64_Shdr)) {
    error = "not a relocatable object for this processor";
    return false;
  }
  if (header.e_shnum == 0 || header.e_shnum > kMostSections) {
    error = "the section table is damaged";
    return false;
  }
  sections.resize(header.e_shnum);
  for (uint64_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr& s = sections[i];
    bool ok = in.inside(header.e_shoff, i * sizeof s) && in.read(header.e_shoff + i * sizeof s, s);
    if (ok && i > 0 && s.sh_type != SHT_NOBITS) ok = in.inside(s.sh_offset, s.sh_size);
    if (!ok) {
      error = "a section lies outside the object";
      return false;
    }
  }
  return true;
}

} // namespace

class ElfLoader {
public:
  ElfLoader(std::span<const uint8_t> object, std::string& error) : in_(object), error_(error) {}

  std::unique_ptr<ElfImage> run() {
    if (!read_sections(in_, sections_, error_) || !lay_out() || !find_symbols() || !map() || !relocate())
      return nullptr;
    if (mprotect(image_->memory_, image_->size_, PROT_READ | PROT_EXEC) != 0) {
      fail("memory cannot be made executable");
      return nullptr;
    }
    auto* begin = reinterpret_cast<char*>(image_->memory_);
    __builtin___clear_cache(begin, begin + image_->size_);
    return std::move(image_);
  }

private:
  bool fail(const char* reason) {
    error_ = reason;
    return false;
  }

  // Sections that are loaded one after the other, then a stub for each outside symbol.
  bool lay_out() {
    place_.assign(sections_.size(), kAbsent);
    for (size_t i = 1; i < sections_.size(); ++i) {
      const Elf64_Shdr& s = sections_[i];
      if (!(s.sh_flags & SHF_ALLOC) || s.sh_size == 0) continue;
      if (s.sh_flags & (SHF_WRITE | SHF_TLS)) return fail("the object has writable data");
      if (s.sh_type == SHT_NOBITS) return fail("the object has storage without contents");
      uint64_t align = s.sh_addralign ? s.sh_addralign : 1;
      if ((align & (align - 1)) != 0 || align > kLargestAlign)
        return fail("a section has a damaged alignment");
      size_ = (size_ + align - 1) & ~(align - 1);
      place_[i] = size_;
      size_ += s.sh_size;
      if (size_ > kLargestImage) return fail("the object is too large");
      if (s.sh_flags & SHF_EXECINSTR) code_bytes_ += s.sh_size;
    }
    return code_bytes_ > 0 || fail("the object has no code");
  }

  bool find_symbols() {
    const Elf64_Shdr* table = nullptr;
    for (size_t i = 1; i < sections_.size(); ++i) {
      if (sections_[i].sh_type != SHT_SYMTAB) continue;
      if (table) return fail("the object has two symbol tables");
      table = &sections_[i];
      symbol_section_ = i;
    }
    if (!table || table->sh_entsize != sizeof(Elf64_Sym) || table->sh_link == 0 ||
        table->sh_link >= sections_.size() || sections_[table->sh_link].sh_type != SHT_STRTAB)
      return fail("the symbol table is damaged");
    const Elf64_Shdr& names = sections_[table->sh_link];
    symbols_.resize(table->sh_size / sizeof(Elf64_Sym));
    size_ = (size_ + kStubBytes - 1) & ~(kStubBytes - 1);
    for (size_t i = 0; i < symbols_.size(); ++i) {
      Elf64_Sym s;
      if (!in_.read(table->sh_offset + i * sizeof s, s)) return fail("the symbol table is damaged");
      SymbolPlace& symbol = symbols_[i];
      symbol.name = in_.text(names, s.st_name);
      if (s.st_shndx == SHN_UNDEF) {
        if (i == 0) continue;
        symbol.outside = runtime_symbol(symbol.name);
        if (!symbol.outside) {
          error_ = "the code refers to \"" + std::string(symbol.name) + "\", which kernels do not have";
          return false;
        }
        symbol.offset = size_;
        size_ += kStubBytes;
        symbol.known = true;
        continue;
      }
      if (s.st_shndx >= sections_.size() || place_[s.st_shndx] == kAbsent) continue; // files, other tables
      if (s.st_value > sections_[s.st_shndx].sh_size) return fail("a symbol lies outside its section");
      symbol.offset = place_[s.st_shndx] + s.st_value;
      symbol.known = true;
      bool callable = ELF64_ST_TYPE(s.st_info) == STT_FUNC && ELF64_ST_BIND(s.st_info) == STB_GLOBAL &&
                      (sections_[s.st_shndx].sh_flags & SHF_EXECINSTR) &&
                      s.st_value < sections_[s.st_shndx].sh_size;
      symbol.callable = callable;
    }
    return true;
  }

  bool map() {
    auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    uint64_t size = (size_ + page - 1) / page * page;
    void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return fail("no memory for the code");
    image_.reset(new ElfImage);
    image_->memory_ = static_cast<uint8_t*>(memory);
    image_->size_ = size;
    image_->code_bytes_ = code_bytes_;
    for (size_t i = 1; i < sections_.size(); ++i)
      if (place_[i] != kAbsent)
        std::memcpy(image_->memory_ + place_[i], in_.at(sections_[i].sh_offset), sections_[i].sh_size);
    for (const SymbolPlace& symbol : symbols_) {
      if (symbol.outside) write_jump_stub(image_->memory_ + symbol.offset, symbol.outside);
      if (symbol.callable) image_->symbols_.push_back({std::string(symbol.name), symbol.offset});
    }
    return true;
  }

  bool relocate() {
    for (const Elf64_Shdr& s : sections_) {
      if (s.sh_type == SHT_REL) return fail("the object has relocations without addends");
      if (s.sh_type != SHT_RELA) continue;
      if (s.sh_info == 0 || s.sh_info >= sections_.size() || s.sh_link != symbol_section_ ||
          s.sh_entsize != sizeof(Elf64_Rela))
        return fail("a relocation table is damaged");
      uint64_t base = place_[s.sh_info];
      if (base == kAbsent) continue; // of notes and the like
      for (uint64_t at = 0; at + sizeof(Elf64_Rela) <= s.sh_size; at += sizeof(Elf64_Rela)) {
        Elf64_Rela r;
        if (!in_.read(s.sh_offset + at, r)) return fail("a relocation table is damaged");
        uint64_t number = ELF64_R_SYM(r.r_info), limit = sections_[s.sh_info].sh_size;
        if (number >= symbols_.size() || !symbols_[number].known || r.r_offset > limit)
          return fail("a relocation refers to nothing");
        uint64_t target = reinterpret_cast<uint64_t>(image_->memory_) + symbols_[number].offset +
                          static_cast<uint64_t>(r.r_addend);
        Relocation relocation{kMachine, static_cast<uint32_t>(ELF64_R_TYPE(r.r_info)),
                              image_->memory_ + base + r.r_offset, limit - r.r_offset, target};
        if (!apply_relocation(relocation)) {
          error_ = "a relocation of type " + std::to_string(relocation.type) + " cannot be applied";
          return false;
        }
      }
    }
    return true;
  }

  static constexpr uint64_t kAbsent = ~uint64_t{0};
  struct SymbolPlace {
    std::string_view name;
    uint64_t offset = 0; // in the image
    const void* outside = nullptr;
    bool known = false, callable = false;
  };

  Reader in_;
  std::string& error_;
  std::vector<Elf64_Shdr> sections_;
  std::vector<uint64_t> place_; // by section: offset in the image
  std::vector<SymbolPlace> symbols_;
  uint64_t size_ = 0, code_bytes_ = 0, symbol_section_ = 0;
  std::unique_ptr<ElfImage> image_;
};

std::unique_ptr<ElfImage> ElfImage::load(std::span<const uint8_t> object, std::string& error) {
  return ElfLoader(object, error).run();
}

ElfImage::~ElfImage() {
  if (memory_) munmap(memory_, size_);
}

const void* ElfImage::symbol(std::string_view name) const {
  for (const Symbol& symbol : symbols_)
    if (symbol.name == name) return memory_ + symbol.offset;
  return nullptr;
}

std::span<const uint8_t> elf_code(std::span<const uint8_t> object) {
  Reader in(object);
  std::vector<Elf64_Shdr> sections;
  std::string error;
  if (!read_sections(in, sections, error)) return {};
  for (const Elf64_Shdr& s : sections)
    if (s.sh_type == SHT_PROGBITS && (s.sh_flags & SHF_EXECINSTR) && s.sh_size > 0)
      return object.subspan(s.sh_offset, s.sh_size);
  return {};
}

} // namespace tolk_cpu
