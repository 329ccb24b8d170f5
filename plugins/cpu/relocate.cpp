// The relocations that position-independent code of the small code model contains. Sections of one object and
// the stubs lie within one image, so every reference reaches.
#include <elf.h>

#include <cstring>

#include "elf_image.h"

namespace tolk_cpu {
namespace {

template <class T> bool put(const Relocation& r, T value) {
  if (r.room < sizeof value) return false;
  std::memcpy(r.place, &value, sizeof value);
  return true;
}

bool put_signed_32(const Relocation& r, int64_t value) {
  if (value != static_cast<int32_t>(value)) return false;
  return put(r, static_cast<int32_t>(value));
}

bool apply_x86(const Relocation& r) {
  int64_t distance = static_cast<int64_t>(r.target - reinterpret_cast<uint64_t>(r.place));
  switch (r.type) {
  case R_X86_64_NONE:
    return true;
  case R_X86_64_64:
    return put(r, r.target);
  case R_X86_64_PC32:
  case R_X86_64_PLT32:
    return put_signed_32(r, distance);
  case R_X86_64_PC64:
    return put(r, distance);
  default:
    return false;
  }
}

// Replaces the bits of `mask` in the instruction at the place.
bool put_field(const Relocation& r, uint32_t mask, uint32_t bits) {
  uint32_t word;
  if (r.room < sizeof word) return false;
  std::memcpy(&word, r.place, sizeof word);
  return put(r, (word & ~mask) | (bits & mask));
}

bool apply_aarch64(const Relocation& r) {
  auto place = reinterpret_cast<uint64_t>(r.place);
  auto distance = static_cast<int64_t>(r.target - place);
  // The low 12 bits of the address, in units of the access size.
  auto low12 = [&](int scale) {
    return (r.target & ((uint64_t{1} << scale) - 1)) == 0 &&
           put_field(r, 0xfffu << 10, static_cast<uint32_t>(r.target & 0xfff) >> scale << 10);
  };
  switch (r.type) {
  case R_AARCH64_NONE:
    return true;
  case R_AARCH64_ABS64:
    return put(r, r.target);
  case R_AARCH64_PREL64:
    return put(r, distance);
  case R_AARCH64_PREL32:
    return put_signed_32(r, distance);
  case R_AARCH64_CALL26:
  case R_AARCH64_JUMP26:
    if ((distance & 3) != 0 || distance < -(int64_t{1} << 27) || distance >= int64_t{1} << 27) return false;
    return put_field(r, 0x3ffffff, static_cast<uint32_t>(distance >> 2));
  case R_AARCH64_ADR_PREL_PG_HI21: {
    int64_t pages = static_cast<int64_t>((r.target >> 12) - (place >> 12));
    if (pages < -(int64_t{1} << 20) || pages >= int64_t{1} << 20) return false;
    auto bits = static_cast<uint32_t>(pages);
    return put_field(r, 3u << 29 | 0x7ffffu << 5, (bits & 3) << 29 | (bits >> 2 & 0x7ffff) << 5);
  }
  case R_AARCH64_ADD_ABS_LO12_NC:
  case R_AARCH64_LDST8_ABS_LO12_NC:
    return low12(0);
  case R_AARCH64_LDST16_ABS_LO12_NC:
    return low12(1);
  case R_AARCH64_LDST32_ABS_LO12_NC:
    return low12(2);
  case R_AARCH64_LDST64_ABS_LO12_NC:
    return low12(3);
  case R_AARCH64_LDST128_ABS_LO12_NC:
    return low12(4);
  default:
    return false;
  }
}

} // namespace

bool apply_relocation(const Relocation& r) {
  if (r.machine == EM_X86_64) return apply_x86(r);
  if (r.machine == EM_AARCH64) return apply_aarch64(r);
  return false;
}

void write_jump_stub(uint8_t* place, const void* target) {
  auto address = reinterpret_cast<uint64_t>(target);
#if defined(__x86_64__)
  constexpr uint8_t code[6] = {0xff, 0x25, 0, 0, 0, 0}; // jmp *[rip]
  std::memcpy(place, code, sizeof code);
  std::memcpy(place + sizeof code, &address, sizeof address);
#elif defined(__aarch64__)
  constexpr uint32_t code[2] = {0x58000050, 0xd61f0200}; // ldr x16, #8; br x16
  std::memcpy(place, code, sizeof code);
  std::memcpy(place + sizeof code, &address, sizeof address);
#endif
}

} // namespace tolk_cpu
