#include "tolk/io/mapped_file.h"

#include <sys/stat.h>

#include <thread>

#include "io_fixtures.h"
#include "tolk/base/error.h"

using namespace tolk;
using namespace tolk::io;

BOOST_AUTO_TEST_SUITE(mapped_file)

BOOST_AUTO_TEST_CASE(files_are_mapped_and_empty_ones_are_empty) {
  test::TempDir dir;
  BOOST_TEST(MappedFile::open(dir.write("a", "hello"))->text() == "hello");
  BOOST_TEST(MappedFile::open(dir.write("e", ""))->text().empty());
}

BOOST_AUTO_TEST_CASE(a_pipe_is_read_whole) {
  test::TempDir dir;
  std::string path = dir.file("pipe");
  BOOST_REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  std::string content(300000, 'x');
  std::thread writer([&] { std::ofstream(path, std::ios::binary) << content; });
  BOOST_TEST((MappedFile::open(path)->text() == content));
  writer.join();
}

BOOST_AUTO_TEST_CASE(what_cannot_be_opened_or_written_is_named) {
  test::TempDir dir;
  test::expect_error<InvalidArgument>([&] { MappedFile::open(dir.file("no")); },
                                      {"/no", "cannot open", "No such file"});
  test::expect_error<InvalidArgument>([&] { write_file(dir.file("no/x"), {}); },
                                      {"no/x", "cannot write", "No such file"});
}

BOOST_AUTO_TEST_CASE(a_written_file_replaces_the_old_one_and_leaves_nothing_beside_it) {
  test::TempDir dir;
  std::string path = dir.write("a", "old content");
  auto old = MappedFile::open(path);
  write_file(path, test::bytes_of("new"));
  BOOST_TEST(test::slurp(path) == "new");
  BOOST_TEST(old->text() == "old content");
  auto entries = std::filesystem::directory_iterator(dir.file(""));
  BOOST_TEST(std::distance(begin(entries), end(entries)) == 1);
}

BOOST_AUTO_TEST_SUITE_END()
