#include "tolk/io/mapped_file.h"

#include <sys/stat.h>
#include <unistd.h>

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

BOOST_AUTO_TEST_CASE(a_link_stays_and_what_it_leads_to_is_written) {
  namespace fs = std::filesystem;
  test::TempDir dir;
  fs::create_directory(dir.file("far"));
  std::string real = dir.write("far/real", "old"), link = dir.file("link"), second = dir.file("second");
  fs::permissions(real, fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("far/real", link); // relative to the link's folder
  fs::create_symlink(link, second);
  write_file(second, test::bytes_of("new"));
  BOOST_TEST(fs::is_symlink(link));
  BOOST_TEST(fs::is_symlink(second));
  BOOST_TEST(test::slurp(real) == "new");
  BOOST_TEST((fs::status(real).permissions() == (fs::perms::owner_read | fs::perms::owner_write)));
  fs::create_symlink("far/nothing yet", dir.file("dangling"));
  write_file(dir.file("dangling"), test::bytes_of("made"));
  BOOST_TEST(test::slurp(dir.file("far/nothing yet")) == "made");
  fs::create_symlink("circle", dir.file("circle"));
  test::expect_error<InvalidArgument>([&] { write_file(dir.file("circle"), {}); },
                                      {"/circle", "leads to itself"});
}

BOOST_AUTO_TEST_CASE(a_file_that_is_cut_short_reads_as_zeros_and_is_named) {
  test::TempDir dir;
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  std::string path = dir.write("weights", std::string(4 * page, 'w'));
  require_whole_files();
  auto cut = MappedFile::open(path), whole = MappedFile::open(dir.write("whole", std::string(2 * page, 'v')));
  BOOST_REQUIRE(::truncate(path.c_str(), static_cast<off_t>(page + 1)) == 0);
  BOOST_TEST(cut->text()[page] == 'w');
  BOOST_TEST(cut->text()[page + 1] == '\0'); // the rest of a page
  require_whole_files();                     // nothing was read that is not there
  BOOST_TEST(cut->text()[3 * page] == '\0');
  BOOST_TEST(cut->text()[2 * page] == '\0');
  BOOST_TEST(cut->text()[0] == 'w');
  for (int again = 0; again < 2; again++)
    test::expect_error<InvalidArgument>([] { require_whole_files(); },
                                        {"/weights", "was cut short while it was in use"});
  BOOST_TEST(whole->text()[2 * page - 1] == 'v');
  cut.reset();
  test::expect_error<InvalidArgument>([] { require_whole_files(); }, {"/weights"}); // once more
  require_whole_files();
}

BOOST_AUTO_TEST_CASE(the_temporary_file_is_new_and_has_no_special_bits) {
  namespace fs = std::filesystem;
  test::TempDir dir;
  std::string path = dir.write("a", "old"), victim = dir.write("victim", "precious");
  // Somebody who may write the folder guesses a name.
  fs::create_symlink(victim, path + ".part." + std::to_string(::getpid()));
  BOOST_REQUIRE(::chmod(path.c_str(), 06754) == 0);
  write_file(path, test::bytes_of("new"));
  BOOST_TEST(test::slurp(path) == "new");
  BOOST_TEST(test::slurp(victim) == "precious");
  struct stat info{};
  BOOST_REQUIRE(::stat(path.c_str(), &info) == 0);
  BOOST_TEST((info.st_mode & 07777) == 0754u);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_written_leaves_the_old_content) {
  test::TempDir dir;
  test::expect_error<InvalidArgument>([&] { write_file(dir.file(""), {}); }, {"is a folder"});
  if (std::filesystem::exists("/dev/full"))
    test::expect_error<InvalidArgument>([&] { write_file("/dev/full", test::bytes_of("x")); },
                                        {"/dev/full", "cannot write", "No space left"});
  if (::geteuid() == 0) return; // whom no folder refuses
  std::string path = dir.write("a", "old");
  std::filesystem::permissions(dir.file(""),
                               std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  test::expect_error<InvalidArgument>([&] { write_file(path, test::bytes_of("new")); },
                                      {"/a", "cannot write a file beside it"});
  std::filesystem::permissions(dir.file(""), std::filesystem::perms::owner_all);
  BOOST_TEST(test::slurp(path) == "old");
}

BOOST_AUTO_TEST_SUITE_END()
