// Loads a relocatable ELF object, as LLVM writes it for one kernel, into executable memory. Everything is
// checked against the size of the object: any byte string is either loaded or refused with a reason.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tolk_cpu {

class ElfImage {
public:
  // nullptr, with the reason in `error`: not an object for this processor, damaged, writable data, a
  // relocation that is not known or does not reach, or a symbol outside the object that runtime_symbol() does
  // not have.
  static std::unique_ptr<ElfImage> load(std::span<const uint8_t> object, std::string& error);
  ~ElfImage();
  ElfImage(const ElfImage&) = delete;
  ElfImage& operator=(const ElfImage&) = delete;

  // Address of a global function, or nullptr.
  const void* symbol(std::string_view name) const;
  uint64_t code_bytes() const { return code_bytes_; }

private:
  friend class ElfLoader;
  ElfImage() = default;
  struct Symbol {
    std::string name;
    uint64_t offset;
  };
  uint8_t* memory_ = nullptr;
  uint64_t size_ = 0, code_bytes_ = 0;
  std::vector<Symbol> symbols_;
};

// The bytes of the section with machine code, for a disassembler; empty when the object is damaged.
std::span<const uint8_t> elf_code(std::span<const uint8_t> object);

// One relocation of the two processors. `place` is the address that is patched, with `room` bytes from there
// to the end of its section; `target` the symbol's address plus addend. False when the type is unknown, or
// the value or the place does not fit.
struct Relocation {
  uint32_t machine, type;
  uint8_t* place;
  uint64_t room;
  uint64_t target;
};
bool apply_relocation(const Relocation& relocation);

// A function that compiled code may call on processors that lack an instruction (fused multiply-add, half
// conversion, rounding), or nullptr.
const void* runtime_symbol(std::string_view name);
// Writes a jump to `target`; kStubBytes at `place`.
inline constexpr uint64_t kStubBytes = 16;
void write_jump_stub(uint8_t* place, const void* target);

} // namespace tolk_cpu
