#include <xxhash.h>

#include <boost/test/unit_test.hpp>

#include "sample_kernels.h"
#include "tolk/base/error.h"

using namespace tolk;

namespace {

// Gives damaged bytes a checksum that is right, so that the checks behind it are reached.
std::string with_checksum(std::string bytes) {
  uint64_t sum = XXH3_64bits(bytes.data() + 16, bytes.size() - 16);
  for (int i = 0; i < 8; i++) bytes[8 + static_cast<size_t>(i)] = static_cast<char>(sum >> (8 * i));
  return bytes;
}

// Reads the bytes; whether they were refused with FormatError. What is accepted must be safe to handle.
bool refused(const std::string& bytes) {
  try {
    // A copy of exactly this size, so that a sanitizer sees a read beyond the end.
    std::vector<char> exact(bytes.begin(), bytes.end());
    KernelIR k = deserialize_kernel_ir({exact.data(), exact.size()});
    BOOST_TEST(!print(k).empty());
    try {
      verify(k);
    } catch (const InternalError&) {
    }
    return false;
  } catch (const FormatError&) {
    return true;
  }
}

} // namespace

BOOST_AUTO_TEST_SUITE(binary)

BOOST_AUTO_TEST_CASE(kernels_survive_the_round_trip) {
  for (const KernelIR& k : {test::every_opcode(), test::vector_add(), KernelIR{}})
    BOOST_TEST((deserialize_kernel_ir(serialize(k)) == k));
}

BOOST_AUTO_TEST_CASE(equal_kernels_have_equal_bytes) {
  BOOST_TEST((serialize(test::every_opcode()) == serialize(test::every_opcode())));
  BOOST_TEST((serialize(test::every_opcode()) != serialize(test::vector_add())));
}

BOOST_AUTO_TEST_CASE(only_canonical_layout_is_written) {
  KernelIR k = test::vector_add();
  k.sources.push_back(0);
  BOOST_CHECK_THROW(serialize(k), InternalError);
  k = test::vector_add();
  k.ops[2].opcode = 200;
  BOOST_CHECK_THROW(serialize(k), InternalError);
}

BOOST_AUTO_TEST_CASE(every_truncation_and_every_flipped_bit_is_refused) {
  const std::string good = serialize(test::every_opcode());
  for (size_t size = 0; size < good.size(); size++) BOOST_TEST(refused(good.substr(0, size)));
  BOOST_TEST(refused(good + '\0'));
  for (size_t i = 0; i < good.size(); i++) {
    for (int bit = 0; bit < 8; bit++) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
      BOOST_TEST(refused(bad));
    }
  }
}

BOOST_AUTO_TEST_CASE(damage_behind_a_right_checksum_never_reads_outside) {
  const std::string good = serialize(test::every_opcode());
  int refusals = 0;
  for (size_t i = 16; i < good.size(); i++) {
    for (char value : {'\0', '\1', '\x7f', '\xff'}) {
      std::string bad = good;
      bad[i] = value;
      refusals += refused(with_checksum(bad));
    }
  }
  BOOST_TEST(refusals > 100);
  // Counts that do not match the size, huge ones among them.
  for (size_t field = 0; field < 6; field++) {
    std::string bad = good;
    for (size_t b = 0; b < 4; b++) bad[16 + 4 * field + b] = '\xff';
    BOOST_TEST(refused(with_checksum(bad)));
  }
  for (size_t size = 17; size < good.size(); size++) BOOST_TEST(refused(with_checksum(good.substr(0, size))));
}

BOOST_AUTO_TEST_CASE(other_bytes_are_refused) {
  BOOST_TEST(refused(""));
  BOOST_TEST(refused("tolkKIR\n"));
  BOOST_TEST(refused(std::string(1000, '\0')));
  BOOST_TEST(refused(print(test::vector_add())));
}

BOOST_AUTO_TEST_CASE(a_newer_major_version_is_refused_by_name) {
  std::string bytes = serialize(test::vector_add());
  bytes[18] = 2;
  try {
    deserialize_kernel_ir(with_checksum(bytes));
    BOOST_ERROR("accepted");
  } catch (const FormatError& error) {
    BOOST_TEST(std::string(error.what()).find("found 2.0") != std::string::npos);
  }
}

BOOST_AUTO_TEST_SUITE_END()
