#include "tolk/io/npy.h"

#include <cstring>

#include "io_fixtures.h"
#include "tolk/base/error.h"
#include "tolk/io/mapped_file.h"

using namespace tolk;
using namespace tolk::io;
using test::expect_error;
using namespace std::string_literals;

namespace {

// A version 1 file with this dict and these elements, header padded as numpy does.
std::string npy(const std::string& dict, const std::string& elements, char version = 1) {
  std::string header = dict;
  size_t prefix = version == 1 ? 10 : 12;
  while ((prefix + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string file = "\x93NUMPY"s + version + '\0';
  auto length = static_cast<uint32_t>(header.size());
  file.append(reinterpret_cast<const char*>(&length), version == 1 ? 2 : 4);
  return file + header + elements;
}

HostTensor parse(const std::string& file, const NpyOptions& options = {}) {
  return parse_npy(test::bytes_of(file), Place{nullptr, "a.npy"}, nullptr, options);
}

template <typename T> std::string raw(std::initializer_list<T> values) {
  return {reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(T)};
}

template <typename T> void check_values(const HostTensor& tensor, std::initializer_list<T> values) {
  BOOST_TEST(tensor.as<T>() == std::vector<T>(values), boost::test_tools::per_element());
}

} // namespace

BOOST_AUTO_TEST_SUITE(npy_files)

// numpy.save of numpy.array([[1, 2], [3, 4]], dtype=numpy.int16), byte for byte.
const std::string kInt16 = "\x93NUMPY\x01\x00\x76\x00"s
                           "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 2), }"s +
                           std::string(58, ' ') + "\n" + "\x01\x00\x02\x00\x03\x00\x04\x00"s;

BOOST_AUTO_TEST_CASE(numpys_own_bytes_are_read_and_written) {
  HostTensor t = parse(kInt16);
  BOOST_TEST(type_text(t) == "i16[2,2]");
  check_values<int16_t>(t, {1, 2, 3, 4});
  BOOST_TEST(encode_npy(t) == kInt16);
}

BOOST_AUTO_TEST_CASE(scalars_vectors_and_empty_arrays_keep_their_shapes) {
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{3}, Shape{0}, Shape{2, 0, 3}, Shape{1, 2, 3, 4}}) {
    std::vector<float> values(*element_count(shape), 0.5F);
    HostTensor back = parse(encode_npy(tensor_of(DType::F32, shape, values)));
    BOOST_TEST(back.shape == shape, boost::test_tools::per_element());
    BOOST_TEST(back.as<float>() == values, boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(versions_2_and_3_have_long_headers) {
  for (char version : {'\x02', '\x03'})
    check_values<uint8_t>(
        parse(npy("{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }", "\x01\x02\x03", version)),
        {1, 2, 3});
}

BOOST_AUTO_TEST_CASE(a_header_too_long_for_version_1_is_written_as_version_2) {
  // 64 dimensions of 19 digits cannot exist, so the long header is only reachable by reading one.
  std::string padded = "{'descr': '|u1', 'fortran_order': False, 'shape': (1,), }" + std::string(70000, ' ');
  check_values<uint8_t>(parse(npy(padded, "\x07", 2)), {7});
}

BOOST_AUTO_TEST_CASE(fortran_order_and_big_endian_are_put_in_order) {
  // [[1, 2, 3], [4, 5, 6]] stored by columns
  HostTensor f = parse(
      npy("{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3), }", raw<int32_t>({1, 4, 2, 5, 3, 6})));
  check_values<int32_t>(f, {1, 2, 3, 4, 5, 6});
  HostTensor b = parse(npy("{'descr': '>u2', 'fortran_order': False, 'shape': (2,), }", "\x01\x02\x03\x04"));
  check_values<uint16_t>(b, {0x0102, 0x0304});
}

BOOST_AUTO_TEST_CASE(bools_other_than_0_and_1_become_1) {
  check_values<uint8_t>(
      parse(npy("{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }", "\x00\x02\x01"s)), {0, 1, 1});
}

BOOST_AUTO_TEST_CASE(raw_bytes_are_read_when_the_caller_knows_the_type) {
  std::string file =
      npy("{'descr': '<V2', 'fortran_order': False, 'shape': (2,), }", raw<uint16_t>({0x3f80, 0xc000}));
  HostTensor t = parse(file, {.raw_as = DType::BF16});
  BOOST_TEST(type_text(t) == "bf16[2]");
  BOOST_TEST(element_double(t, 1) == -2.0);
  expect_error<FormatError>([&] { parse(file); }, {"a.npy", "'<V2'", "bfloat16", "float32"});
  expect_error<FormatError>([&] { parse(file, {.raw_as = DType::F8E4M3}); }, {"'<V2'"});
}

BOOST_AUTO_TEST_CASE(types_without_a_numpy_name_are_written_as_numbers) {
  HostTensor bf16 = parse(encode_npy(tensor_of<uint16_t>(DType::BF16, {2}, {0x3f80, 0xc000})));
  BOOST_TEST(type_text(bf16) == "f32[2]");
  check_values<float>(bf16, {1.0F, -2.0F});
  HostTensor i4 = parse(encode_npy(tensor_of<uint8_t>(DType::I4, {3}, {0x8f, 0x01})));
  BOOST_TEST(type_text(i4) == "i8[3]");
  check_values<int8_t>(i4, {-1, -8, 1});
  HostTensor u2 = parse(encode_npy(tensor_of<uint8_t>(DType::U2, {2}, {0x0b})));
  check_values<uint8_t>(u2, {3, 2});
  HostTensor f8 = parse(encode_npy(tensor_of<uint8_t>(DType::F8E4M3, {1}, {0x7e})));
  check_values<float>(f8, {448.0F});
  expect_error<InvalidArgument>([] { encode_npy(string_tensor({}, {"x"})); }, {"strings", ".pb"});
}

BOOST_AUTO_TEST_CASE(elements_stay_in_the_mapped_file) {
  test::TempDir dir;
  std::string path = dir.write(
      "x.npy", npy("{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }", raw<double>({1.25, -3})));
  HostTensor t = read_npy(path);
  check_values<double>(t, {1.25, -3});
  BOOST_TEST(reinterpret_cast<uintptr_t>(t.bytes.data()) % 4096 ==
             128u);   // header of 128 bytes, then the elements
  write_npy(path, t); // while mapped: the file is replaced, not overwritten
  check_values<double>(t, {1.25, -3});
  check_values<double>(read_npy(path), {1.25, -3});
}

BOOST_AUTO_TEST_CASE(each_fault_has_its_sentence) {
  auto dict = [](const char* descr, const char* shape) {
    return npy("{'descr': '"s + descr + "', 'fortran_order': False, 'shape': " + shape + ", }", "12345678");
  };
  expect_error<FormatError>([] { parse("PK\x03\x04"); }, {"a.npy", "not a .npy"});
  expect_error<FormatError>([] { parse("\x93NUMPY\x09\x00\x10\x00"s + std::string(16, ' ')); },
                            {"version 9"});
  expect_error<FormatError>([] { parse(kInt16.substr(0, 60)); }, {"ends inside its header", "118"});
  expect_error<FormatError>([] { parse(kInt16.substr(0, kInt16.size() - 1)); }, {"needs 8 bytes", "has 7"});
  expect_error<FormatError>([&] { parse(dict("<f4", "(1000000000000,)")); }, {"needs 4000000000000 bytes"});
  expect_error<FormatError>([&] { parse(dict("<f4", "(9223372036854775807, 9223372036854775807)")); },
                            {"no array can have the shape"});
  expect_error<FormatError>([&] { parse(dict("<f4", "(99999999999999999999,)")); },
                            {"not a number of elements"});
  expect_error<FormatError>([&] { parse(dict("<f4", "(-1,)")); }, {"not a number of elements"});
  expect_error<FormatError>([&] { parse(dict("<c8", "(1,)")); }, {"complex"});
  expect_error<FormatError>([&] { parse(dict("|O", "(1,)")); }, {"Python objects"});
  expect_error<FormatError>([&] { parse(dict("<U4", "(1,)")); }, {"text", ".pb"});
  expect_error<FormatError>([&] { parse(dict("<M8[s]", "(1,)")); }, {"dates"});
  expect_error<FormatError>([&] { parse(dict("<i3", "(1,)")); }, {"unknown element type '<i3'"});
  expect_error<FormatError>(
      [] { parse(npy("{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (1,), }", "1234")); },
      {"records"});
  expect_error<FormatError>([] { parse(npy("{'descr': '<i4', 'shape': (1,), }", "1234")); },
                            {"must all be there"});
  expect_error<FormatError>(
      [] { parse(npy("{'descr': '<i4', 'fortran_order': Maybe, 'shape': (1,), }", "1234")); },
      {"True or False"});
  expect_error<InvalidArgument>([] { read_npy("/nonexistent/x.npy"); },
                                {"/nonexistent/x.npy", "No such file"});
  expect_error<InvalidArgument>([] { read_npy("/"); }, {"is a folder"});
}

BOOST_AUTO_TEST_CASE(damaged_files_parse_or_give_a_format_error) {
  std::string file = encode_npy(tensor_of<float>(DType::F32, {2, 3, 4}, std::vector<float>(24, 1)));
  test::MemoryLimit limit(uint64_t{64} << 20);
  int read = 0, refused = 0;
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    std::string mutant = test::damaged(file, seed);
    try {
      HostTensor t = parse(mutant);
      BOOST_REQUIRE(t.bytes.size() <= mutant.size());
      ++read;
    } catch (const FormatError& error) {
      BOOST_REQUIRE(std::string_view(error.what()).starts_with("a.npy: "));
      ++refused;
    }
  }
  BOOST_TEST(read > 0);
  BOOST_TEST(refused > 500);
}

BOOST_AUTO_TEST_SUITE_END()
