#include "tolk/io/npz.h"

#include <zip.h>

#include "io_fixtures.h"
#include "tolk/base/error.h"

using namespace tolk;
using namespace tolk::io;
using test::expect_error;

namespace {

void make_zip(const std::string& path, const std::string& member, const std::string& content) {
  int error = 0;
  zip_t* archive = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &error);
  BOOST_REQUIRE(archive);
  zip_source_t* source = zip_source_buffer(archive, content.data(), content.size(), 0);
  BOOST_REQUIRE(zip_file_add(archive, member.c_str(), source, 0) >= 0);
  BOOST_REQUIRE(zip_close(archive) == 0);
}

std::vector<NamedTensor> two() {
  return {{"a", tensor_of<float>(DType::F32, {2, 2}, {1, 2, 3, 4})},
          {"b", tensor_of<int64_t>(DType::I64, {}, {-9})}};
}

} // namespace

BOOST_AUTO_TEST_SUITE(npz_files)

BOOST_AUTO_TEST_CASE(an_archive_keeps_names_types_and_values) {
  test::TempDir dir;
  write_npz(dir.file("x.npz"), two());
  std::vector<NamedTensor> back = read_npz(dir.file("x.npz"));
  BOOST_REQUIRE(back.size() == 2u);
  BOOST_TEST(back[0].name == "a");
  BOOST_TEST(type_text(back[0].tensor) == "f32[2,2]");
  BOOST_TEST(back[0].tensor.as<float>()[3] == 4.0F);
  BOOST_TEST(back[1].name == "b");
  BOOST_TEST(element_text(back[1].tensor, 0) == "-9");
  // Equal arrays give equal files: no time of writing inside.
  write_npz(dir.file("y.npz"), two());
  BOOST_TEST(test::slurp(dir.file("x.npz")) == test::slurp(dir.file("y.npz")));
}

BOOST_AUTO_TEST_CASE(faults_name_file_and_member) {
  test::TempDir dir;
  expect_error<FormatError>([&] { read_npz(dir.write("t.npz", "no archive at all")); },
                            {"t.npz", "not a .npz"});
  expect_error<FormatError>([&] { read_npz(dir.write("e.npz", "")); }, {"e.npz"});
  make_zip(dir.file("m.npz"), "readme.txt", "hello");
  expect_error<FormatError>([&] { read_npz(dir.file("m.npz")); }, {"m.npz: readme.txt", "must be a .npy"});
  make_zip(dir.file("n.npz"), "x.npy", "not an array");
  expect_error<FormatError>([&] { read_npz(dir.file("n.npz")); }, {"n.npz: x.npy", "not a .npy"});
  expect_error<InvalidArgument>([&] { write_npz(dir.file("d.npz"), {two()[0], two()[0]}); },
                                {"two arrays", "\"a\""});
}

BOOST_AUTO_TEST_CASE(an_archive_that_unpacks_to_far_more_than_its_size_is_refused) {
  test::TempDir dir;
  // 300 MiB of zeros pack to about 300 KiB: above both 64 times the file and 256 MiB.
  std::string header = encode_npy(tensor_of<uint8_t>(DType::U8, {0}, {}));
  make_zip(dir.file("bomb.npz"), "x.npy", header + std::string(size_t{300} << 20, '\0'));
  expect_error<FormatError>([&] { read_npz(dir.file("bomb.npz")); }, {"bomb.npz: x.npy", "zip bomb"});
}

BOOST_AUTO_TEST_CASE(damaged_archives_are_read_or_refused) {
  test::TempDir dir;
  write_npz(dir.file("x.npz"), two());
  std::string file = test::slurp(dir.file("x.npz"));
  test::MemoryLimit limit(uint64_t{512} << 20);
  int refused = 0;
  for (uint32_t seed = 0; seed < 600; ++seed) {
    try {
      read_npz(dir.write("d.npz", test::damaged(file, seed)));
    } catch (const FormatError& error) {
      BOOST_REQUIRE(std::string(error.what()).find("d.npz") != std::string::npos);
      ++refused;
    }
  }
  BOOST_TEST(refused > 200);
}

BOOST_AUTO_TEST_SUITE_END()
