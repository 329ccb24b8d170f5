#include "inputs.h"

#include <cmath>

#include "../io/io_fixtures.h"
#include "random_input.h"
#include "tolk/base/error.h"
#include "tolk/io/npy.h"
#include "tolk/io/npz.h"
#include "tolk/io/tensor_proto.h"

using namespace tolk;
using namespace tolk::run;
using onnx::Dim;
using onnx::Type;
using onnx::ValueInfo;
using test::expect_error;

namespace {

Dim dim(int64_t n) { return {n, ""}; }
Dim dim(const char* symbol) { return {std::nullopt, symbol}; }

ValueInfo input(const char* name, DType dtype, std::optional<std::vector<Dim>> dims) {
  ValueInfo info;
  info.name = name;
  info.type.kind = Type::Kind::Tensor;
  info.type.dtype = dtype;
  info.type.onnx_type = io::onnx_code(dtype);
  info.type.dims = std::move(dims);
  return info;
}

const std::vector<ValueInfo> kInputs = {input("x:0", DType::F32, {{dim("N"), dim(2)}}),
                                        input("ids", DType::I64, {{dim("N"), dim("S")}})};

io::HostTensor f32(const io::Shape& shape) {
  return io::tensor_of(DType::F32, shape, std::vector<float>(*io::element_count(shape), 1));
}
io::HostTensor i64(const io::Shape& shape) {
  return io::tensor_of(DType::I64, shape, std::vector<int64_t>(*io::element_count(shape), 1));
}

const io::HostTensor& tensor(const PreparedInputs& prepared, size_t i) {
  return prepared.values[i].value.tensor;
}

} // namespace

BOOST_AUTO_TEST_SUITE(inputs)

BOOST_AUTO_TEST_CASE(files_go_to_inputs_by_name_and_else_in_order) {
  test::TempDir dir;
  io::write_npy(dir.file("x.npy"), f32({3, 2}));
  io::write_tensor_pb(dir.file("i.pb"), i64({3, 5}), "any");
  Options o;
  o.inputs = {{"ids", dir.file("i.pb")}, {"", dir.file("x.npy")}};
  PreparedInputs p = prepare_inputs(kInputs, o);
  BOOST_TEST(p.values[0].name == "x:0");
  BOOST_TEST(p.values[0].source == dir.file("x.npy"));
  BOOST_TEST(io::type_text(tensor(p, 1)) == "i64[3,5]");
  BOOST_TEST(p.notes.empty());

  io::write_npz(dir.file("all.npz"), {{"ids", i64({1, 1})}, {"x:0", f32({1, 2})}});
  Options archive;
  archive.inputs = {{"", dir.file("all.npz")}};
  BOOST_TEST(io::type_text(tensor(prepare_inputs(kInputs, archive), 0)) == "f32[1,2]");
  Options named;
  named.inputs = {{"ids", dir.file("all.npz")}};
  BOOST_TEST(io::type_text(tensor(prepare_inputs(kInputs, named), 1)) == "i64[1,1]");
}

BOOST_AUTO_TEST_CASE(a_random_input_takes_its_sizes_from_files_and_flags_in_turn) {
  test::TempDir dir;
  io::write_npy(dir.file("i.npy"), i64({3, 5}));
  Options o;
  o.inputs = {{"ids", dir.file("i.npy")}};
  BOOST_TEST(io::type_text(tensor(prepare_inputs(kInputs, o), 0)) == "f32[3,2]"); // N from the file
  Options dims;
  dims.dims = {{"N", 4}};
  PreparedInputs p = prepare_inputs(kInputs, dims);
  BOOST_TEST(io::type_text(tensor(p, 0)) == "f32[4,2]");
  BOOST_TEST(io::type_text(tensor(p, 1)) == "i64[4,1]");
  BOOST_REQUIRE(p.notes.size() == 1u); // S is assumed
  BOOST_TEST(p.notes[0] == "dimension \"S\" of input \"ids\" is open, 1 is used; --dim \"S=N\" sets it");
  Options shape;
  shape.shapes = {{"ids", {6, 7}}};
  BOOST_TEST(io::type_text(tensor(prepare_inputs(kInputs, shape), 0)) ==
             "f32[6,2]"); // N from the other's shape
}

BOOST_AUTO_TEST_CASE(each_wrong_value_is_refused_with_what_was_expected) {
  test::TempDir dir;
  auto refused = [&](const Options& o, std::initializer_list<const char*> words) {
    expect_error<InvalidArgument>([&] { prepare_inputs(kInputs, o); }, words);
  };
  auto with_file = [&](const char* name, const io::HostTensor& t) {
    Options o;
    io::write_npy(dir.file("v.npy"), t);
    o.inputs = {{name, dir.file("v.npy")}};
    return o;
  };
  refused(with_file("idx", i64({1, 1})),
          {"no input \"idx\"", "did you mean \"ids\"?", "\"x:0\" f32[N,2]", "\"ids\" i64[N,S]"});
  refused(with_file("x:0", i64({1, 2})), {"v.npy", "input \"x:0\" f32[N,2]", "found i64[1,2]"});
  refused(with_file("x:0", f32({1, 2, 1})), {"f32[N,2]", "f32[1,2,1]", "number of dimensions"});
  refused(with_file("x:0", f32({1, 3})), {"v.npy", "cannot have the shape [1,3]", "dimension 1 is 2"});
  Options two = with_file("x:0", f32({1, 2}));
  two.inputs.push_back(two.inputs[0]);
  refused(two, {"\"x:0\" is given twice"});
  Options clash = with_file("x:0", f32({2, 2}));
  io::write_npy(dir.file("i.npy"), i64({3, 1}));
  clash.inputs.push_back({"ids", dir.file("i.npy")});
  refused(clash, {"i.npy", "has 3 for \"N\"", "2 in \"x:0\""});
  Options ending;
  ending.inputs = {{"x:0", dir.write("v.txt", "1")}};
  refused(ending, {"v.txt", ".npy, .npz and .pb"});
  Options shape;
  shape.shapes = {{"x:0", {1}}};
  refused(shape, {"--shape x:0=1", "has 2 dimensions"});
  shape.shapes = {{"x:0", {1, 3}}};
  refused(shape, {"[1,3]", "dimension 1 is 2"});
  shape.shapes = {{"y", {1}}};
  refused(shape, {"--shape", "no input \"y\""});
  Options both = with_file("x:0", f32({1, 2}));
  both.fills = {{"x:0", {0, 1}}};
  refused(both, {"--fill x:0", "has its values from"});
  Options mismatch = with_file("x:0", f32({1, 2}));
  mismatch.shapes = {{"x:0", {2, 2}}};
  refused(mismatch, {"--shape x:0=2x2", "[1,2]"});
  Options many;
  io::write_npy(dir.file("a.npy"), f32({1, 2}));
  io::write_npy(dir.file("b.npy"), i64({1, 1}));
  many.inputs = {{"", dir.file("a.npy")}, {"", dir.file("b.npy")}, {"", dir.file("a.npy")}};
  refused(many, {"every input has a value already"});
  Options missing;
  io::write_npz(dir.file("z.npz"), {{"a", f32({1})}, {"b", f32({1})}});
  missing.inputs = {{"ids", dir.file("z.npz")}};
  refused(missing, {"z.npz", "no array \"ids\"", "a, b"});
}

BOOST_AUTO_TEST_CASE(values_that_cannot_be_made_up_are_asked_for) {
  ValueInfo strings = input("s", DType::F32, {{dim(1)}});
  strings.type.dtype.reset();
  strings.type.onnx_type = io::kOnnxString;
  expect_error<InvalidArgument>([&] { prepare_inputs({strings}, {}); },
                                {"\"s\" string[1]", "--input \"s=FILE\""});
  expect_error<InvalidArgument>([&] { prepare_inputs({input("r", DType::F32, std::nullopt)}, {}); },
                                {"\"r\" f32[..]", "--shape r="});
  Options huge;
  huge.dims = {{"N", int64_t{1} << 40}};
  expect_error<InvalidArgument>([&] { prepare_inputs(kInputs, huge); }, {"would fill the memory"});
}

BOOST_AUTO_TEST_CASE(types_that_a_file_cannot_name_are_converted_exactly_or_refused) {
  test::TempDir dir;
  auto read = [&](DType dtype, const io::HostTensor& t) {
    io::write_npy(dir.file("v.npy"), t);
    return io::type_text(read_input(input("x", dtype, std::nullopt), dir.file("v.npy")));
  };
  io::HostTensor bits16 = io::tensor_of<uint16_t>(DType::U16, {1}, {0x3f80});
  BOOST_TEST(read(DType::BF16, bits16) == "bf16[1]");
  BOOST_TEST(read(DType::BF16, f32({2})) == "bf16[2]");
  BOOST_TEST(read(DType::F8E4M3, f32({2})) == "f8e4m3[2]");
  BOOST_TEST(read(DType::I4, io::tensor_of<int8_t>(DType::I8, {2}, {-8, 7})) == "i4[2]");
  expect_error<InvalidArgument>([&] { read(DType::I4, io::tensor_of<int8_t>(DType::I8, {1}, {8})); },
                                {"i4[..]", "found i8[1]"});
  expect_error<InvalidArgument>([&] { read(DType::F16, f32({1})); },
                                {"f16[..]", "found f32[1]"}); // .npy can name f16
  expect_error<InvalidArgument>([&] { read(DType::BF16, io::tensor_of<float>(DType::F32, {1}, {1.001F})); },
                                {"found f32[1]"});
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(random_values)

BOOST_AUTO_TEST_CASE(values_depend_on_seed_name_and_place_alone) {
  auto make = [](uint64_t seed, const char* name, int64_t n) {
    return random_tensor(DType::F32, {n}, seed, name, {});
  };
  auto same = [](const io::HostTensor& a, const io::HostTensor& b) {
    return std::ranges::equal(a.as<float>(), b.as<float>());
  };
  BOOST_TEST(same(make(1, "x", 100), make(1, "x", 100)));
  BOOST_TEST(!same(make(1, "x", 100), make(2, "x", 100)));
  BOOST_TEST(!same(make(1, "x", 100), make(1, "y", 100)));
  BOOST_TEST(std::ranges::equal(make(1, "x", 100).as<float>().first(50), make(1, "x", 50).as<float>()));
  // The sequence is part of what users compare across machines and versions.
  std::span<const float> first = make(0, "x", 3).as<float>();
  BOOST_TEST(first.size() == 3u);
}

BOOST_AUTO_TEST_CASE(floats_are_uniform_and_below_the_upper_end) {
  for (DType dtype : {DType::F32, DType::F64, DType::F16, DType::BF16}) {
    io::HostTensor t = random_tensor(dtype, {20000}, 3, "x", {});
    double sum = 0, squares = 0;
    for (uint64_t i = 0; i < t.count(); ++i) {
      double v = io::element_double(t, i);
      BOOST_REQUIRE(v >= -1);
      BOOST_REQUIRE(v < 1);
      sum += v;
      squares += v * v;
    }
    BOOST_TEST(std::fabs(sum / 20000) < 0.02);                // 5 sigma: 0.0204
    BOOST_TEST(std::fabs(squares / 20000 - 1.0 / 3) < 0.012); // 5 sigma: 0.0105, and rounding
  }
}

BOOST_AUTO_TEST_CASE(integers_are_0_or_1_or_fill_the_range_to_both_ends) {
  auto histogram = [](const io::HostTensor& t) {
    std::map<int64_t, int> counts;
    for (uint64_t i = 0; i < t.count(); ++i) ++counts[static_cast<int64_t>(io::element_int(t, i))];
    return counts;
  };
  for (DType dtype : {DType::I64, DType::U8, DType::I4, DType::I2, DType::BOOL}) {
    auto counts = histogram(random_tensor(dtype, {1000}, 0, "x", {}));
    BOOST_TEST(counts.size() == 2u, name(dtype));
    BOOST_TEST(counts[0] > 400);
    BOOST_TEST(counts[1] > 400);
  }
  auto dice = histogram(random_tensor(DType::I32, {6000}, 0, "x", Range{1, 6}));
  BOOST_TEST(dice.size() == 6u);
  BOOST_TEST(dice.begin()->first == 1);
  BOOST_TEST(dice.rbegin()->first == 6);
  for (auto [face, n] : dice) BOOST_TEST(std::abs(n - 1000) < 150, face);
  BOOST_TEST(histogram(random_tensor(DType::I8, {1000}, 0, "x", Range{-2.5, -0.5})).size() ==
             2u); // -2 and -1
  auto wide = random_tensor(DType::U64, {1000}, 0, "x", Range{0, 1.8446744073709552e19});
  BOOST_TEST(histogram(wide).size() > 990u);
  expect_error<InvalidArgument>([] { random_tensor(DType::U8, {1}, 0, "x", Range{0, 256}); },
                                {"--fill x=0..256", "u8"});
  expect_error<InvalidArgument>([] { random_tensor(DType::I8, {1}, 0, "x", Range{0.2, 0.8}); },
                                {"no such values"});
}

BOOST_AUTO_TEST_CASE(a_single_value_can_be_asked_for) {
  BOOST_TEST(io::element_double(random_tensor(DType::F32, {3}, 0, "x", Range{2, 2}), 1) == 2.0);
  BOOST_TEST(io::element_text(random_tensor(DType::I64, {3}, 0, "x", Range{7, 7}), 2) == "7");
}

BOOST_AUTO_TEST_SUITE_END()
