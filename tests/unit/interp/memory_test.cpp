// LOAD and STORE: consecutive, gathered, gated, packed; the three kinds of storage; faults.
#include <boost/test/unit_test.hpp>

#include "harness.h"

using namespace tolk;
using namespace tolk::test;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// The text of a fault, or a remark that makes the test fail.
std::string fault(const KernelIR& k, std::vector<Bytes> buffers, const std::vector<uint64_t>& values = {}) {
  tolk_interp::Error error = run_error(k, buffers, values);
  return error.code == TOLK_E_KERNEL_FAULT ? error.text
                                           : "code " + std::to_string(error.code) + " " + error.text;
}

} // namespace

BOOST_AUTO_TEST_SUITE(memory)

BOOST_AUTO_TEST_CASE(a_scalar_index_with_lanes_touches_consecutive_elements) {
  KernelIR k = kernel("param buffer i16 rw 0\n%0 = PARAM i16 [0]\n%1 = CONST i32 1\n%2 = CONST i64 5\n"
                      "%3 = LOAD i16x3 %0 %1\n%4 = STORE i16x3 %0 %2 %3\n");
  std::vector<Bytes> buffers = {bytes_of<int16_t>({0, 1, 2, 3, 4, 5, 6, 7, 8})};
  run(k, buffers);
  BOOST_TEST(values_of<int16_t>(buffers[0]) == (std::vector<int16_t>{0, 1, 2, 3, 4, 1, 2, 3, 8}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_vector_index_gathers_and_scatters) {
  for (const char* width : {"i32", "i64"}) {
    std::string w = width;
    KernelIR k = kernel(
        "param buffer f32 r 0\nparam buffer " + w + " r 0\nparam buffer f32 w 0\n%0 = PARAM f32 [0]\n" +
        "%1 = PARAM " + w + " [1]\n%2 = PARAM f32 [2]\n%3 = CONST i32 0\n%4 = LOAD " + w +
        "x4 %1 %3\n%5 = LOAD f32x4 %0 %4\n%6 = CONST f32x4 0x3f800000\n%7 = ADD f32x4 %5 %6\n" +
        "%8 = STORE f32x4 %2 %4 %7\n");
    Bytes index = w == "i32" ? bytes_of<int32_t>({3, 0, 5, 1}) : bytes_of<int64_t>({3, 0, 5, 1});
    std::vector<Bytes> buffers = {bytes_of<float>({10, 11, 12, 13, 14, 15}), index,
                                  bytes_of<float>({0, 0, 0, 0, 0, 0})};
    run(k, buffers);
    BOOST_TEST(values_of<float>(buffers[2]) == (std::vector<float>{11, 12, 0, 14, 0, 16}),
               boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(where_a_gate_is_false_memory_is_not_touched) {
  // Index 100 is outside; its lane is closed.
  KernelIR k = kernel("param buffer f32 rw 0\nparam buffer bool r 0\nparam buffer i32 r 0\n"
                      "%0 = PARAM f32 [0]\n%1 = PARAM bool [1]\n%2 = PARAM i32 [2]\n%3 = CONST i32 0\n"
                      "%4 = LOAD boolx4 %1 %3\n%5 = LOAD i32x4 %2 %3\n%6 = CONST f32x4 0x42c80000\n"
                      "%7 = LOAD f32x4 %0 %5 %4 %6\n%8 = CONST f32x4 0x3f800000\n%9 = ADD f32x4 %7 %8\n"
                      "%10 = CONST i32 4\n%11 = STORE f32x4 %0 %10 %9\n%12 = STORE f32x4 %0 %5 %8 %4\n");
  std::vector<Bytes> buffers = {bytes_of<float>({5, 6, 7, 8, 0, 0, 0, 0}), bytes_of<uint8_t>({1, 0, 7, 0}),
                                bytes_of<int32_t>({2, 100, 0, -1})};
  run(k, buffers);
  BOOST_TEST(values_of<float>(buffers[0]) == (std::vector<float>{1, 6, 1, 8, 8, 101, 6, 101}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_scalar_gate_closes_all_lanes_and_a_lane_gate_spares_the_tail) {
  const std::string head =
      "param buffer i32 rw 0\nparam buffer bool r 0\n%0 = PARAM i32 [0]\n%1 = PARAM bool [1]\n"
      "%2 = CONST i32 0\n%3 = CONST i32 2\n%4 = CONST i32x4 9\n";
  KernelIR scalar =
      kernel(head + "%5 = LOAD bool %1 %2\n%6 = LOAD i32x4 %0 %3 %5 %4\n%7 = CONST bool 1\n"
                    "%8 = EXTRACT i32 %6 [3]\n%9 = STORE i32 %0 %2 %8 %7\n%10 = STORE i32x4 %0 %3 %4 %5\n");
  std::vector<Bytes> buffers = {bytes_of<int32_t>({1, 2, 3}), bytes_of<uint8_t>({0})};
  run(scalar, buffers); // elements 2 to 5 of 3 would be a fault
  BOOST_TEST(values_of<int32_t>(buffers[0]) == (std::vector<int32_t>{9, 2, 3}),
             boost::test_tools::per_element());

  KernelIR lanes = kernel(head + "%5 = LOAD boolx4 %1 %2\n%6 = STORE i32x4 %0 %3 %4 %5\n");
  buffers = {bytes_of<int32_t>({1, 2, 3}), bytes_of<uint8_t>({1, 0, 0, 0})};
  run(lanes, buffers);
  BOOST_TEST(values_of<int32_t>(buffers[0]) == (std::vector<int32_t>{1, 2, 9}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_row_that_starts_before_the_storage_is_padded_by_its_gate) {
  KernelIR k =
      kernel("param buffer i32 rw 0\nparam buffer bool r 0\nparam value i32 -9 9\n%0 = PARAM i32 [0]\n"
             "%1 = PARAM bool [1]\n%2 = PARAM i32 [2]\n%3 = CONST i32 0\n%4 = LOAD boolx4 %1 %3\n"
             "%5 = CONST i32x4 0\n%6 = LOAD i32x4 %0 %2 %4 %5\n%7 = STORE i32x4 %0 %3 %6\n");
  std::vector<Bytes> buffers = {bytes_of<int32_t>({1, 2, 3, 4}), bytes_of<uint8_t>({0, 0, 1, 1})};
  run(k, buffers, {static_cast<uint32_t>(-2)});
  BOOST_TEST(values_of<int32_t>(buffers[0]) == (std::vector<int32_t>{0, 0, 1, 2}),
             boost::test_tools::per_element());
  BOOST_TEST(has(fault(k, buffers, {static_cast<uint32_t>(-3)}), "index -1"));
}

BOOST_AUTO_TEST_CASE(packed_elements_leave_their_neighbours_alone) {
  for (DType dtype : {DType::I4, DType::U4, DType::I2, DType::U2, DType::F4E2M1}) {
    std::string d = name(dtype);
    KernelIR k =
        kernel("param buffer " + d + " rw 0\n%0 = PARAM " + d + " [0]\n%1 = CONST i32 1\n%2 = CONST i32 4\n" +
               "%3 = LOAD " + d + "x2 %0 %1\n%4 = STORE " + d + "x2 %0 %2 %3\n");
    std::vector<Bytes> buffers = {to_bytes(dtype, {3, 2, 1, 3, 3, 3, 3, 0})};
    run(k, buffers);
    std::vector<uint64_t> want = {3, 2, 1, 3, 2, 1, 3, 0};
    BOOST_TEST(from_bytes(dtype, buffers[0], 8) == want, boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(bytes_of_a_bool_buffer_other_than_0_are_true) {
  KernelIR k =
      kernel("param buffer bool rw 0\n%0 = PARAM bool [0]\n%1 = CONST i32 0\n%2 = LOAD boolx3 %0 %1\n"
             "%3 = STORE boolx3 %0 %1 %2\n");
  std::vector<Bytes> buffers = {bytes_of<uint8_t>({0, 2, 255})};
  run(k, buffers);
  BOOST_TEST(values_of<uint8_t>(buffers[0]) == (std::vector<uint8_t>{0, 1, 1}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(any_alignment_of_a_buffer_works) {
  KernelIR k = kernel(
      "param buffer f64 rw 2\n%0 = PARAM f64 [0]\n%1 = CONST i32 0\n%2 = CONST i32 1\n%3 = LOAD f64 %0 %1\n"
      "%4 = STORE f64 %0 %2 %3\n");
  Bytes memory(40);
  double value = 1.25;
  std::memcpy(memory.data() + 3, &value, 8);
  auto program = tolk_interp::decode(tolk_interp::copy_kernel(k.view()));
  tolk_interp::BufferArg argument{memory.data() + 3, 16};
  tolk_interp::LaunchArgs launch;
  launch.buffers = {&argument, 1};
  tolk_interp::run(*program, launch);
  double got = 0;
  std::memcpy(&got, memory.data() + 11, 8);
  BOOST_TEST(got == 1.25);
}

BOOST_AUTO_TEST_CASE(private_storage_holds_scalars_and_whole_vectors) {
  KernelIR k = kernel(
      "param buffer f32 rw 0\n%0 = PARAM f32 [0]\n%1 = CONST i32 0\n%2 = CONST i32 1\n%3 = CONST i32 4\n"
      "%4 = DEFINE_REG f32x4 [2]\n%5 = DEFINE_REG f32 [8]\n%6 = LOAD f32x4 %0 %1\n"
      "%7 = STORE f32x4 %4 %2 %6\n%8 = LOAD f32x4 %4 %2\n%9 = STORE f32x4 %5 %2 %8\n"
      "%10 = LOAD f32 %5 %3\n%11 = STORE f32 %0 %1 %10\n");
  std::vector<Bytes> buffers = {bytes_of<float>({1, 2, 3, 4})};
  run(k, buffers);
  BOOST_TEST(values_of<float>(buffers[0])[0] == 4.0f);
}

BOOST_AUTO_TEST_CASE(a_fault_names_the_operation_the_index_and_the_bound) {
  KernelIR load =
      kernel("param buffer f32 r 0\nparam value i32 -5 1000\n%0 = PARAM f32 [0]\n%1 = PARAM i32 [1]\n"
             "%2 = LOAD f32 %0 %1\n");
  std::vector<Bytes> four = {bytes_of<float>({1, 2, 3, 4})};
  BOOST_TEST(run_error(load, four, {3}).code == 0);
  std::string text = fault(load, four, {4});
  for (const char* part : {"kernel t", "LOAD %2", "index 4", "buffer parameter 0", "4 elements of f32"})
    BOOST_TEST(has(text, part), text);
  BOOST_TEST(has(fault(load, four, {static_cast<uint32_t>(-1)}), "index -1"));

  KernelIR wide = kernel(
      "param buffer f32 w 0\nparam value i64 -9223372036854775808 9223372036854775807\n%0 = PARAM f32 [0]\n"
      "%1 = PARAM i64 [1]\n%2 = CONST f32x4 0\n%3 = STORE f32x4 %0 %1 %2\n");
  BOOST_TEST(run_error(wide, four, {0}).code == 0);
  BOOST_TEST(has(fault(wide, four, {1}), "STORE %3: index 4"));
  BOOST_TEST(has(fault(wide, four, {INT64_MAX}), "index 9223372036854775807"));
  BOOST_TEST(has(fault(wide, four, {uint64_t{1} << 63}), "index -9223372036854775808"));
}

BOOST_AUTO_TEST_CASE(every_kind_of_access_is_checked) {
  const std::string head =
      "param buffer i4 rw 0\nparam value i32 -5 1000\n%0 = PARAM i4 [0]\n%1 = PARAM i32 [1]\n";
  KernelIR packed = kernel(head + "%2 = LOAD i4 %0 %1\n");
  std::vector<Bytes> buffers = {Bytes(2)}; // four elements
  BOOST_TEST(run_error(packed, buffers, {3}).code == 0);
  BOOST_TEST(has(fault(packed, buffers, {4}), "4 elements of i4"));

  KernelIR local =
      kernel(head + "%2 = DEFINE_LOCAL f32 [3]\n%3 = CONST f32x2 0\n%4 = STORE f32x2 %2 %1 %3\n");
  BOOST_TEST(run_error(local, buffers, {1}).code == 0);
  BOOST_TEST(has(fault(local, buffers, {2}), "index 3 is outside of DEFINE_LOCAL %2, which has 3"));

  KernelIR reg = kernel(head + "%2 = DEFINE_REG f32x4 [2]\n%3 = LOAD f32x4 %2 %1\n");
  BOOST_TEST(run_error(reg, buffers, {1}).code == 0);
  BOOST_TEST(has(fault(reg, buffers, {2}), "index 2 is outside of DEFINE_REG %2, which has 2 vectors"));
  BOOST_TEST(has(fault(reg, buffers, {static_cast<uint32_t>(-1)}), "index -1"));

  KernelIR gather = kernel(
      head + "%2 = DEFINE_REG i8 [4]\n%3 = CONST i32 0\n%4 = BUILD i32x2 %3 %1\n%5 = LOAD i8x2 %2 %4\n");
  BOOST_TEST(has(fault(gather, buffers, {4}), "index 4"));
  KernelIR gated = kernel(
      head + "%2 = DEFINE_REG i8 [4]\n%3 = CONST bool 1\n%4 = CONST i8x2 0\n%5 = LOAD i8x2 %2 %1 %3 %4\n");
  BOOST_TEST(has(fault(gated, buffers, {3}), "index 4"));
}

BOOST_AUTO_TEST_CASE(the_count_that_the_kernel_states_is_a_bound_too) {
  KernelIR k = kernel("param buffer f32 r 2\nparam value i32 0 9\n%0 = PARAM f32 [0]\n%1 = PARAM i32 [1]\n%2 "
                      "= LOAD f32 %0 %1\n");
  std::vector<Bytes> buffers = {Bytes(16)};
  BOOST_TEST(run_error(k, buffers, {1}).code == 0);
  BOOST_TEST(has(fault(k, buffers, {2}), "2 elements"));
}

BOOST_AUTO_TEST_CASE(a_partial_element_at_the_end_does_not_count) {
  KernelIR k = kernel("param buffer f32 r 0\n%0 = PARAM f32 [0]\n%1 = CONST i32 1\n%2 = LOAD f32 %0 %1\n");
  BOOST_TEST(has(fault(k, {Bytes(7)}), "1 elements"));
  BOOST_TEST(has(fault(k, {Bytes()}), "0 elements"));
}

BOOST_AUTO_TEST_CASE(fresh_storage_has_no_zeros_to_rely_on) {
  KernelIR k = kernel("param buffer f32 w 0\n%0 = PARAM f32 [0]\n%1 = CONST i32 0\n%2 = DEFINE_REG f32 [1]\n"
                      "%3 = LOAD f32 %2 %1\n%4 = STORE f32 %0 %1 %3\n");
  std::vector<Bytes> buffers = {Bytes(4)};
  run(k, buffers);
  float got = values_of<float>(buffers[0])[0];
  BOOST_TEST(got != got);
}

BOOST_AUTO_TEST_SUITE_END()
