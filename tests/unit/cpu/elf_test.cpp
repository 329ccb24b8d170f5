// The plugin's object loader by itself, without the checksum in front of it: no damage may make it read or
// write outside the object or the image.
#include <elf.h>

#include <cstring>

#include <boost/test/unit_test.hpp>

#include "cpu_plugin.h"
#include "elf_image.h"
#include "exact.h"
#include "sample_kernels.h"

namespace tolk::test {
namespace {

using tolk_cpu::ElfImage;

// The object inside a binary: what follows the 32 bytes of header.
std::vector<uint8_t> object_of(const KernelIR& kernel) {
  std::string binary = compile_kernel(kernel);
  return {binary.begin() + 32, binary.end()};
}

BOOST_AUTO_TEST_CASE(an_object_is_loaded_with_its_function) {
  std::string error;
  auto image = ElfImage::load(object_of(cast_kernel(DType::F32, DType::F8E4M3, 8)), error);
  BOOST_REQUIRE_MESSAGE(image, error);
  BOOST_CHECK(image->symbol("cast_f32_f8e4m3_8"));
  BOOST_CHECK(!image->symbol("cast_f32"));
  BOOST_CHECK(!image->symbol(""));
}

BOOST_AUTO_TEST_CASE(damaged_objects_are_loaded_or_refused_but_never_crash) {
  // A kernel with a pool of constants, so that there are relocations.
  std::vector<uint8_t> good = object_of(cast_kernel(DType::F32, DType::F8E4M3, 8));
  std::string error;
  size_t loaded = 0, refused = 0;
  auto attempt = [&](const std::vector<uint8_t>& bytes) {
    // Exactly as long as the object, so that address sanitizers and valgrind see an overrun.
    std::vector<uint8_t> copy(bytes.begin(), bytes.end());
    copy.shrink_to_fit();
    error.clear();
    bool ok = ElfImage::load(copy, error) != nullptr;
    if (!ok) BOOST_CHECK(!error.empty());
    (void)tolk_cpu::elf_code(copy);
    ++(ok ? loaded : refused);
  };
  attempt(good);
  BOOST_REQUIRE_EQUAL(loaded, 1u);
  for (size_t size = 0; size < good.size(); size += 3)
    attempt(std::vector<uint8_t>(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)));
  BOOST_CHECK_EQUAL(loaded, 1u); // the section table is at the end: nothing shorter is an object
  constexpr uint64_t evil[] = {0,      1,          0x7f,       0x80,         0xff,
                               0xffff, 0x7fffffff, 0xffffffff, ~uint64_t{0}, uint64_t{1} << 63};
  for (int i = 0; i < 30000; ++i) {
    std::vector<uint8_t> bytes = good;
    for (int n = 1 + i % 3; n > 0; --n) {
      size_t width = size_t{1} << (random_bits() % 4), at = random_bits() % (bytes.size() - 8);
      uint64_t value = random_bits() % 2 ? evil[random_bits() % std::size(evil)] : random_bits();
      std::memcpy(bytes.data() + at, &value, width);
    }
    attempt(bytes);
  }
  BOOST_TEST_MESSAGE(loaded << " loaded, " << refused << " refused");
  BOOST_CHECK_GT(refused, 1000u);
}

BOOST_AUTO_TEST_CASE(objects_for_other_processors_or_with_data_are_refused) {
  std::vector<uint8_t> object = object_of(vector_add());
  std::string error;
  auto* header = reinterpret_cast<Elf64_Ehdr*>(object.data());
  header->e_machine = EM_RISCV;
  BOOST_CHECK(!ElfImage::load(object, error));
  BOOST_CHECK_MESSAGE(error.find("processor") != std::string::npos, error);
}

BOOST_AUTO_TEST_CASE(relocations_patch_the_bits_of_their_instruction) {
  alignas(8) uint8_t place[16];
  auto base = reinterpret_cast<uint64_t>(place);
  auto apply = [&](uint32_t machine, uint32_t type, uint32_t word, uint64_t target, uint64_t room = 16) {
    std::memset(place, 0, sizeof place);
    std::memcpy(place, &word, 4);
    return tolk_cpu::apply_relocation({machine, type, place, room, target});
  };
  auto word = [&] {
    uint32_t value;
    std::memcpy(&value, place, 4);
    return value;
  };
  BOOST_CHECK(apply(EM_X86_64, R_X86_64_PC32, 0, base - 20));
  BOOST_CHECK_EQUAL(word(), static_cast<uint32_t>(-20));
  BOOST_CHECK(apply(EM_X86_64, R_X86_64_PLT32, 0, base + 0x1234));
  BOOST_CHECK_EQUAL(word(), 0x1234u);
  BOOST_CHECK(!apply(EM_X86_64, R_X86_64_PC32, 0, base + (uint64_t{1} << 31)));
  BOOST_CHECK(!apply(EM_X86_64, R_X86_64_PC32, 0, base, 3)); // does not fit its section
  BOOST_CHECK(!apply(EM_X86_64, R_X86_64_GOTPCREL, 0, base));

  BOOST_CHECK(apply(EM_AARCH64, R_AARCH64_CALL26, 0x94000000, base + 0x1000)); // bl
  BOOST_CHECK_EQUAL(word(), 0x94000400u);
  BOOST_CHECK(apply(EM_AARCH64, R_AARCH64_CALL26, 0x94000000, base - 4));
  BOOST_CHECK_EQUAL(word(), 0x97ffffffu);
  BOOST_CHECK(!apply(EM_AARCH64, R_AARCH64_CALL26, 0x94000000, base + (uint64_t{1} << 27)));
  uint64_t page = base & ~uint64_t{0xfff};
  BOOST_CHECK(apply(EM_AARCH64, R_AARCH64_ADR_PREL_PG_HI21, 0x90000003,
                    page + 5 * 4096 + 123)); // adrp x3, 5 pages on
  BOOST_CHECK_EQUAL(word(), 0xb0000023u);
  BOOST_CHECK(apply(EM_AARCH64, R_AARCH64_ADD_ABS_LO12_NC, 0x91000063, page + 0x123)); // add x3, x3, #0x123
  BOOST_CHECK_EQUAL(word(), 0x91048c63u);
  BOOST_CHECK(
      apply(EM_AARCH64, R_AARCH64_LDST128_ABS_LO12_NC, 0x3dc00060, page + 0x120)); // ldr q0, [x3, #0x120]
  BOOST_CHECK_EQUAL(word(), 0x3dc04860u);
  BOOST_CHECK(!apply(EM_AARCH64, R_AARCH64_LDST128_ABS_LO12_NC, 0x3dc00060, page + 0x128));
}

} // namespace
} // namespace tolk::test
