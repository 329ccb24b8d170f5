#include "tolk/io/tensor_proto.h"

#include <protozero/pbf_writer.hpp>

#include "io_fixtures.h"
#include "tolk/base/error.h"

using namespace tolk;
using namespace tolk::io;
using test::expect_error;
using namespace std::string_literals;

namespace {

HostTensor parse(const std::string& message) {
  return parse_tensor(message, Place{nullptr, "t.pb"}, {}).tensor;
}

// A TensorProto with dims, a type, and what `fill` adds.
std::string proto(const Shape& dims, int32_t type,
                  const std::function<void(protozero::pbf_writer&)>& fill = {}) {
  std::string message;
  protozero::pbf_writer w(message);
  for (int64_t dim : dims) w.add_int64(1, dim);
  w.add_int32(2, type);
  if (fill) fill(w);
  return message;
}

std::string ints(const Shape& dims, int32_t type, const std::vector<int32_t>& values) {
  return proto(dims, type, [&](auto& w) { w.add_packed_int32(5, values.begin(), values.end()); });
}

std::string texts(const HostTensor& t) {
  std::string all;
  for (uint64_t i = 0; i < t.count(); ++i) all += (i ? " " : "") + element_text(t, i);
  return all;
}

} // namespace

BOOST_AUTO_TEST_SUITE(tensor_proto)

// onnx.helper.make_tensor("x", FLOAT, [2], [1.0, -2.0]).SerializeToString(), and with raw=True.
const std::string kTyped = "\x08\x02\x10\x01\x22\x08\x00\x00\x80\x3f\x00\x00\x00\xc0\x42\x01x"s;
const std::string kRaw = "\x08\x02\x10\x01\x42\x01x\x4a\x08\x00\x00\x80\x3f\x00\x00\x00\xc0"s;

BOOST_AUTO_TEST_CASE(the_onnx_packages_own_bytes_are_read) {
  for (const std::string& message : {kTyped, kRaw}) {
    NamedTensor t = parse_tensor(message, Place{nullptr, "t.pb"}, {});
    BOOST_TEST(t.name == "x");
    BOOST_TEST(type_text(t.tensor) == "f32[2]");
    BOOST_TEST(texts(t.tensor) == "1 -2");
  }
}

BOOST_AUTO_TEST_CASE(every_type_survives_encoding) {
  for (int code = 0; code < kDTypeCount; ++code) {
    auto dtype = static_cast<DType>(code);
    std::vector<uint8_t> bytes(storage_bytes(dtype, 6));
    for (size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<uint8_t>(dtype == DType::BOOL ? i & 1 : 17 * i + 3);
    NamedTensor back =
        parse_tensor(encode_tensor(tensor_of(dtype, {3, 2}, bytes), "n"), Place{nullptr, "t.pb"}, {});
    BOOST_TEST(back.name == "n");
    BOOST_TEST((back.tensor.dtype == dtype), name(dtype));
    BOOST_TEST(back.tensor.as<uint8_t>() == bytes, boost::test_tools::per_element());
    BOOST_TEST((dtype_from_onnx(onnx_code(dtype)) == dtype));
  }
  HostTensor strings = parse(encode_tensor(string_tensor({2}, {"a", ""}), ""));
  BOOST_TEST(strings.is_string());
  BOOST_TEST(texts(strings) == "\"a\" \"\"");
}

BOOST_AUTO_TEST_CASE(typed_lists_hold_every_type_as_onnx_defines) {
  BOOST_TEST(texts(parse(ints({3}, 2, {0, 128, 255}))) == "0 128 255");       // UINT8
  BOOST_TEST(texts(parse(ints({2}, 3, {-128, 127}))) == "-128 127");          // INT8
  BOOST_TEST(texts(parse(ints({2}, 4, {1, 65535}))) == "1 65535");            // UINT16
  BOOST_TEST(texts(parse(ints({2}, 5, {-32768, 5}))) == "-32768 5");          // INT16
  BOOST_TEST(texts(parse(ints({2}, 6, {INT32_MIN, 7}))) == "-2147483648 7");  // INT32
  BOOST_TEST(texts(parse(ints({3}, 9, {0, 1, 5}))) == "false true true");     // BOOL
  BOOST_TEST(texts(parse(ints({2}, 10, {0x3c00, 0xc000}))) == "1 -2");        // FLOAT16 as bits
  BOOST_TEST(texts(parse(ints({2}, 16, {0x3f80, 0xc000}))) == "1 -2");        // BFLOAT16 as bits
  BOOST_TEST(texts(parse(ints({2}, 17, {0x38, 0xb8}))) == "1 -1");            // FLOAT8E4M3FN
  BOOST_TEST(texts(parse(ints({2}, 18, {0x40, 0xc0}))) == "1 -1");            // FLOAT8E4M3FNUZ
  BOOST_TEST(texts(parse(ints({2}, 19, {0x3c, 0xbc}))) == "1 -1");            // FLOAT8E5M2
  BOOST_TEST(texts(parse(ints({2}, 20, {0x40, 0xc0}))) == "1 -1");            // FLOAT8E5M2FNUZ
  BOOST_TEST(texts(parse(ints({3}, 21, {0xf1, 0x02}))) == "1 15 2");          // UINT4, two to a value
  BOOST_TEST(texts(parse(ints({3}, 22, {0x87, 0x0f}))) == "7 -8 -1");         // INT4
  BOOST_TEST(texts(parse(ints({2}, 23, {0xa2}))) == "1 -1");                  // FLOAT4E2M1
  BOOST_TEST(texts(parse(ints({2}, 24, {127, 128}))) == "1 2");               // FLOAT8E8M0
  BOOST_TEST(texts(parse(ints({5}, 25, {0b11100100, 0b01}))) == "0 1 2 3 1"); // UINT2, four to a value
  BOOST_TEST(texts(parse(ints({4}, 26, {0b10110100}))) == "0 1 -1 -2");       // INT2
  std::vector<int64_t> longs{INT64_MIN, 1};
  BOOST_TEST(texts(parse(proto({2}, 7, [&](auto& w) {
               w.add_packed_int64(7, longs.begin(), longs.end());
             }))) == "-9223372036854775808 1");
  std::vector<uint64_t> u{UINT64_MAX, 1};
  BOOST_TEST(texts(parse(proto({2}, 13, [&](auto& w) { w.add_packed_uint64(11, u.begin(), u.end()); }))) ==
             "18446744073709551615 1");
  std::vector<uint64_t> u32{4294967295U, 1};
  BOOST_TEST(texts(parse(proto({2}, 12, [&](auto& w) {
               w.add_packed_uint64(11, u32.begin(), u32.end());
             }))) == "4294967295 1");
  std::vector<double> d{0.1, -1e300};
  BOOST_TEST(texts(parse(proto({2}, 11, [&](auto& w) { w.add_packed_double(10, d.begin(), d.end()); }))) ==
             "0.1 -1e+300");
}

BOOST_AUTO_TEST_CASE(lists_may_be_unpacked) {
  std::string message = proto({2}, 1, [](auto& w) {
    w.add_float(4, 1.5F);
    w.add_float(4, 2.5F);
  });
  BOOST_TEST(texts(parse(message)) == "1.5 2.5");
  BOOST_TEST(texts(parse(proto({2}, 6, [](auto& w) {
               w.add_int32(5, -3);
               w.add_int32(5, 4);
             }))) == "-3 4");
}

BOOST_AUTO_TEST_CASE(scalars_and_empty_tensors_are_tensors) {
  BOOST_TEST(texts(parse(ints({}, 6, {42}))) == "42");
  HostTensor empty = parse(proto({0, 3}, 1));
  BOOST_TEST(type_text(empty) == "f32[0,3]");
  BOOST_TEST(empty.bytes.empty());
}

BOOST_AUTO_TEST_CASE(aligned_raw_data_are_shared_and_others_copied) {
  alignas(8) char buffer[64] = {};
  std::string message = proto({1}, 1, [](auto& w) { w.add_bytes(9, "\x00\x00\x80\x3f", 4); });
  size_t data_at = message.size() - 4;
  auto owner = std::make_shared<int>(0);
  for (size_t shift = 0; shift < 8; ++shift) {
    std::memcpy(buffer + shift, message.data(), message.size());
    std::string_view view(buffer + shift, message.size());
    HostTensor t = parse_tensor(view, Place{nullptr, "t.pb"}, {owner, nullptr}).tensor;
    bool shared = t.bytes.data() == reinterpret_cast<const std::byte*>(buffer + shift + data_at);
    BOOST_TEST(shared == ((shift + data_at) % 4 == 0));
    BOOST_TEST(texts(t) == "1");
    HostTensor copied = parse_tensor(view, Place{nullptr, "t.pb"}, {}).tensor;
    BOOST_TEST((copied.bytes.data() != reinterpret_cast<const std::byte*>(buffer + shift + data_at)));
  }
}

BOOST_AUTO_TEST_CASE(each_fault_has_its_sentence) {
  auto raw = [](const Shape& dims, int32_t type, const std::string& bytes) {
    return proto(dims, type, [&](auto& w) { w.add_bytes(9, bytes); });
  };
  expect_error<FormatError>([&] { parse(raw({3}, 1, "12345678")); },
                            {"t.pb", "FLOAT[3]", "12 bytes", "found 8"});
  expect_error<FormatError>([&] { parse(raw({1000000, 1000000}, 1, "1234")); },
                            {"4000000000000 bytes", "found 4"});
  expect_error<FormatError>([&] { parse(raw({int64_t{1} << 62, 4}, 1, "1234")); },
                            {"no tensor can have the shape"});
  expect_error<FormatError>([&] { parse(raw({-1}, 1, "1234")); }, {"no tensor can have the shape", "[-1]"});
  expect_error<FormatError>([&] { parse(raw(Shape(65, 1), 1, "1234")); }, {"more than 64 dimensions"});
  expect_error<FormatError>([&] { parse(ints({3}, 6, {1, 2})); },
                            {"INT32[3]", "3 values in int32_data", "found 2"});
  expect_error<FormatError>([&] { parse(proto({2}, 8)); }, {"STRING[2]", "string_data", "found 0"});
  expect_error<FormatError>([&] { parse(proto({1}, 0)); }, {"no known element type", "data_type 0"});
  expect_error<FormatError>([&] { parse(proto({1}, 99)); }, {"data_type 99"});
  expect_error<ImportError>([&] { parse(raw({1}, 14, "12345678")); }, {"COMPLEX64", "not supported"});
  expect_error<ImportError>(
      [&] {
        parse(proto({1}, 1, [](auto& w) {
          w.add_int32(14, 1);
          w.add_message(13, "\x0a\x08location\x12\x01x"s);
        }));
      },
      {"another file"});
  expect_error<FormatError>([&] { parse(kRaw.substr(0, kRaw.size() - 1)); }, {"t.pb", "damaged"});
  expect_error<FormatError>([] { parse("\x0d\x00\x00\x00\x00"s); },
                            {"dims is damaged", "expected bytes, found a 32-bit value"});
  std::string named = proto({3}, 1, [](auto& w) { w.add_string(8, "conv.w"); });
  expect_error<FormatError>([&] { parse(named); }, {"\"conv.w\""});
  test::TempDir dir;
  expect_error<FormatError>([&] { read_tensor_pb(dir.write("e.pb", "")); }, {"e.pb", "empty"});
  expect_error<InvalidArgument>([&] { read_tensor_pb(dir.file("none.pb")); }, {"none.pb", "No such file"});
}

BOOST_AUTO_TEST_CASE(sequences_and_optionals_are_read) {
  std::string item = ints({1}, 6, {5}), sequence, optional, none;
  {
    protozero::pbf_writer w(sequence);
    w.add_string(1, "seq");
    w.add_int32(2, 1);
    w.add_message(3, item);
    w.add_message(3, item);
  }
  {
    protozero::pbf_writer w(optional);
    w.add_int32(2, 3);
    w.add_message(5, sequence);
  }
  protozero::pbf_writer(none).add_int32(2, 0);
  test::TempDir dir;
  NamedValue s = read_value_pb(dir.write("s.pb", sequence), ValueKind::Sequence);
  BOOST_TEST(s.name == "seq");
  BOOST_REQUIRE(s.value.items.size() == 2u);
  BOOST_TEST(texts(s.value.items[1].tensor) == "5");
  NamedValue o = read_value_pb(dir.write("o.pb", optional), ValueKind::Optional);
  BOOST_TEST(type_text(o.value) == "optional sequence of 2");
  BOOST_TEST(type_text(read_value_pb(dir.write("n.pb", none), ValueKind::Optional).value) == "nothing");
  BOOST_TEST(type_text(read_value_pb(dir.write("z.pb", ""), ValueKind::Sequence).value) == "sequence of 0");
  BOOST_TEST(type_text(read_value_pb(dir.write("t.pb", item), ValueKind::Tensor).value) == "i32[1]");

  std::string map;
  protozero::pbf_writer(map).add_message(6, ""s);
  expect_error<ImportError>([&] { read_value_pb(dir.write("m.pb", map), ValueKind::Sequence); },
                            {"m.pb", "maps"});
  std::string deep;
  for (int i = 0; i < 100; ++i) {
    std::string outer;
    protozero::pbf_writer(outer).add_message(5, deep);
    deep = outer;
  }
  expect_error<FormatError>([&] { read_value_pb(dir.write("d.pb", deep), ValueKind::Sequence); },
                            {"nested more than"});
}

BOOST_AUTO_TEST_CASE(damaged_messages_parse_or_give_an_error_with_the_file) {
  std::string file =
      ints({2, 3}, 6, {1, -2, 3, -4, 5, -6}) + kRaw + encode_tensor(string_tensor({2}, {"a", "bc"}), "n");
  test::MemoryLimit limit(uint64_t{64} << 20);
  int refused = 0;
  for (uint32_t seed = 0; seed < 5000; ++seed) {
    try {
      parse(test::damaged(seed % 2 ? file : kRaw, seed));
    } catch (const FormatError& error) {
      BOOST_REQUIRE(std::string(error.what()).find("t.pb") != std::string::npos);
      ++refused;
    } catch (const ImportError& error) {
      BOOST_REQUIRE(std::string(error.what()).find("t.pb") != std::string::npos);
    }
  }
  BOOST_TEST(refused > 1000);
}

BOOST_AUTO_TEST_SUITE_END()
