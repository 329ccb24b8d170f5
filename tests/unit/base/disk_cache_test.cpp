#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <sqlite3.h>

#include "tolk/base/disk_cache.h"
#include "tolk/base/private_file.h"

using namespace tolk;
namespace fs = std::filesystem;

namespace {

constexpr uint64_t kLarge = uint64_t{1} << 30;

struct Folder {
  fs::path path;
  Folder() {
    std::string text = (fs::temp_directory_path() / "tolk-cache-XXXXXX").string();
    BOOST_REQUIRE(::mkdtemp(text.data()) != nullptr);
    path = text;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  std::string cache() const { return (path / "cache").string(); }
};

ContentKey key(int n) { return content_key("key " + std::to_string(n)); }

// Bytes that do not compress.
std::string noise(int seed, size_t size) {
  std::mt19937 random(static_cast<unsigned>(seed));
  std::string out(size, '\0');
  for (char& c : out) c = static_cast<char>(random());
  return out;
}

fs::path blob(const Folder& folder, const ContentKey& k) {
  std::string hex = k.hex();
  return fs::path(folder.cache()) / hex.substr(0, 2) / hex.substr(2);
}

std::string slurp(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void spill(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

int status_of(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

} // namespace

BOOST_AUTO_TEST_CASE(what_was_put_comes_back_in_this_and_in_the_next_process) {
  Folder folder;
  std::string large = noise(1, 300000), empty, text(100000, 'a');
  {
    DiskCache cache(folder.cache(), kLarge);
    BOOST_TEST(cache.usable());
    BOOST_TEST(!cache.get(key(1)).has_value());
    cache.put(key(1), large);
    cache.put(key(2), empty);
    cache.put(key(3), text);
    BOOST_TEST((cache.get(key(1)) == large));
  }
  BOOST_TEST(fs::file_size(blob(folder, key(3))) < 1000u); // compressed
  DiskCache again(folder.cache(), kLarge);
  BOOST_TEST((again.get(key(1)) == large));
  BOOST_TEST((again.get(key(2)) == empty));
  BOOST_TEST((again.get(key(3)) == text));
  BOOST_TEST(!again.get(key(4)).has_value());
  BOOST_TEST(again.stats().hits == 3u);
  BOOST_TEST(again.stats().misses == 1u);
}

BOOST_AUTO_TEST_CASE(a_second_put_replaces_the_first) {
  Folder folder;
  DiskCache cache(folder.cache(), kLarge);
  cache.put(key(1), "old");
  cache.put(key(1), "new");
  BOOST_TEST((cache.get(key(1)) == std::string("new")));
}

BOOST_AUTO_TEST_CASE(folder_and_blobs_belong_to_their_owner_alone) {
  Folder folder;
  mode_t before = ::umask(0);
  DiskCache cache(folder.cache(), kLarge);
  cache.put(key(1), "x");
  ::umask(before);
  struct stat info;
  BOOST_REQUIRE(::stat(folder.cache().c_str(), &info) == 0);
  BOOST_TEST((info.st_mode & 0777) == 0700u);
  BOOST_REQUIRE(::stat(blob(folder, key(1)).c_str(), &info) == 0);
  BOOST_TEST((info.st_mode & 0777) == 0600u);
}

BOOST_AUTO_TEST_CASE(every_damage_to_a_blob_is_a_miss_and_removes_it) {
  Folder folder;
  DiskCache cache(folder.cache(), kLarge);
  std::string value = noise(2, 200);
  cache.put(key(1), value);
  const std::string good = slurp(blob(folder, key(1)));
  BOOST_REQUIRE(good.size() > 200u);
  int served = 0, left = 0;
  auto try_bytes = [&](const std::string& bytes) {
    spill(blob(folder, key(1)), bytes);
    if (cache.get(key(1)).has_value()) ++served;
    if (fs::exists(blob(folder, key(1)))) ++left;
  };
  for (size_t size = 0; size < good.size(); ++size) try_bytes(good.substr(0, size));
  BOOST_TEST(served == 0);
  BOOST_TEST(left == 0);
  try_bytes(good + "x");
  for (size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    spill(blob(folder, key(1)), bad);
    auto got = cache.get(key(1));
    // A flip may hit a bit that the frame does not use; then the value is still the right one.
    if (got.has_value() && *got != value) ++served;
  }
  BOOST_TEST(served == 0);
  spill(blob(folder, key(1)), good);
  BOOST_TEST((cache.get(key(1)) == value));
  BOOST_TEST(cache.stats().damaged > good.size());
}

BOOST_AUTO_TEST_CASE(a_blob_under_the_name_of_another_key_is_a_miss) {
  Folder folder;
  DiskCache cache(folder.cache(), kLarge);
  cache.put(key(1), "one");
  fs::create_directories(blob(folder, key(2)).parent_path());
  fs::copy_file(blob(folder, key(1)), blob(folder, key(2)));
  BOOST_TEST(!cache.get(key(2)).has_value());
}

BOOST_AUTO_TEST_CASE(links_are_not_followed) {
  Folder folder;
  DiskCache cache(folder.cache(), kLarge);
  cache.put(key(1), "one");
  fs::rename(blob(folder, key(1)), folder.path / "elsewhere");
  fs::create_symlink(folder.path / "elsewhere", blob(folder, key(1)));
  BOOST_TEST(!cache.get(key(1)).has_value());
}

BOOST_AUTO_TEST_CASE(the_least_recently_used_go_first_when_the_limit_is_passed) {
  Folder folder;
  {
    DiskCache cache(folder.cache(), 100000);
    for (int i = 0; i < 9; ++i) cache.put(key(i), noise(i, 10000));
  }
  {
    DiskCache cache(folder.cache(), 100000);
    BOOST_TEST(cache.get(key(0)).has_value()); // now used later than 1..8
    for (int i = 9; i < 12; ++i) cache.put(key(i), noise(i, 10000));
    BOOST_TEST(cache.stats().evicted > 0u);
    BOOST_TEST(cache.get(key(0)).has_value());
    for (int i = 9; i < 12; ++i) BOOST_TEST(cache.get(key(i)).has_value(), i);
    int old = 0;
    for (int i = 1; i < 9; ++i) old += cache.get(key(i)).has_value();
    BOOST_TEST(old < 7);
    BOOST_TEST(old > 2); // not more than needed
  }
  uint64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder.cache()))
    if (entry.is_regular_file() && entry.path().filename().string().size() == 30) bytes += entry.file_size();
  BOOST_TEST(bytes <= 100000u);
}

BOOST_AUTO_TEST_CASE(a_value_larger_than_the_limit_is_not_kept) {
  Folder folder;
  DiskCache cache(folder.cache(), 1000);
  cache.put(key(1), noise(1, 5000));
  BOOST_TEST(!cache.get(key(1)).has_value());
}

BOOST_AUTO_TEST_CASE(a_damaged_or_lost_index_is_rebuilt_from_the_blobs) {
  for (bool lost : {false, true}) {
    Folder folder;
    {
      DiskCache cache(folder.cache(), kLarge);
      for (int i = 0; i < 8; ++i) cache.put(key(i), noise(i, 10000));
    }
    fs::path index = fs::path(folder.cache()) / "index.sqlite";
    BOOST_REQUIRE(fs::exists(index));
    if (lost)
      fs::remove(index);
    else
      spill(index, noise(77, 20000));
    DiskCache cache(folder.cache(), 50000);
    cache.put(key(9), noise(9, 10000)); // the bound holds only if the old blobs are known
    BOOST_TEST(cache.stats().evicted >= 5u, "lost " << lost);
    BOOST_TEST(cache.get(key(9)).has_value());
  }
}

BOOST_AUTO_TEST_CASE(what_the_index_names_is_removed_inside_the_folder_only) {
  Folder folder;
  const fs::path victim = folder.path / "victim", index = fs::path(folder.cache()) / "index.sqlite";
  spill(victim, "precious");
  {
    DiskCache cache(folder.cache(), kLarge);
    for (int i = 0; i < 4; ++i) cache.put(key(i), noise(i, 10000));
  }
  sqlite3* database = nullptr;
  BOOST_REQUIRE(sqlite3_open(index.c_str(), &database) == SQLITE_OK);
  // Its path would be cache/../victim; used longest ago.
  BOOST_REQUIRE(sqlite3_exec(database,
                             "INSERT INTO blobs VALUES('..victim', 5000, 0), ('', 1, 0), ('x', 1, 0)",
                             nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(database);
  DiskCache cache(folder.cache(), 30000);
  cache.put(key(9), noise(9, 10000));
  BOOST_TEST(cache.stats().evicted >= 4u);
  BOOST_TEST(slurp(victim) == "precious");
  BOOST_TEST(cache.get(key(9)).has_value());
}

BOOST_AUTO_TEST_CASE(a_blob_that_others_can_write_is_not_read) {
  Folder folder;
  DiskCache cache(folder.cache(), kLarge);
  cache.put(key(1), "code");
  ::chmod(blob(folder, key(1)).c_str(), 0622);
  BOOST_TEST(!cache.get(key(1)).has_value());
}

BOOST_AUTO_TEST_CASE(files_with_the_data_of_a_program_are_for_its_user_alone) {
  Folder folder;
  const mode_t before = ::umask(0);
  const std::string path = folder.path / "data";
  private_file(path) << "secret";
  struct stat info{};
  BOOST_REQUIRE(::stat(path.c_str(), &info) == 0);
  BOOST_TEST((info.st_mode & 07777) == 0600u);
  BOOST_TEST(slurp(path) == "secret");
  ::chmod(path.c_str(), 0640);
  private_file(path) << "new";
  BOOST_REQUIRE(::stat(path.c_str(), &info) == 0);
  BOOST_TEST((info.st_mode & 07777) == 0640u); // somebody chose it
  BOOST_TEST(slurp(path) == "new");
  BOOST_TEST(!private_file(folder.path / "no" / "data").good());
  ::umask(before);
}

BOOST_AUTO_TEST_CASE(leftovers_of_a_dead_writer_are_swept_at_a_rescan) {
  Folder folder;
  {
    DiskCache cache(folder.cache(), kLarge);
    cache.put(key(1), "x");
  }
  fs::path leftover = blob(folder, key(1)).string() + ".new.1.1";
  spill(leftover, "half");
  fs::last_write_time(leftover, fs::file_time_type::clock::now() - std::chrono::hours(2));
  fs::remove(fs::path(folder.cache()) / "index.sqlite");
  DiskCache cache(folder.cache(), kLarge);
  cache.put(key(2), "y");
  BOOST_TEST(!fs::exists(leftover));
  BOOST_TEST(cache.get(key(1)).has_value());
}

BOOST_AUTO_TEST_CASE(two_processes_writing_one_key_never_show_a_mixture) {
  Folder folder;
  const std::string a = noise(1, 50000), b = noise(2, 50000);
  pid_t children[2];
  for (int c = 0; c < 2; ++c)
    if ((children[c] = ::fork()) == 0) {
      int wrong = 0;
      {
        DiskCache cache(folder.cache(), kLarge);
        for (int i = 0; i < 150; ++i) {
          cache.put(key(1), c == 0 ? a : b);
          auto got = cache.get(key(1));
          if (!got.has_value() || (*got != a && *got != b)) ++wrong;
        }
        if (cache.stats().damaged != 0) wrong += 100;
      }
      ::_exit(wrong != 0);
    }
  BOOST_TEST(status_of(children[0]) == 0);
  BOOST_TEST(status_of(children[1]) == 0);
  DiskCache cache(folder.cache(), kLarge);
  BOOST_TEST(cache.get(key(1)).has_value());
}

BOOST_AUTO_TEST_CASE(two_processes_under_one_limit_agree_on_it) {
  Folder folder;
  pid_t children[2];
  for (int c = 0; c < 2; ++c)
    if ((children[c] = ::fork()) == 0) {
      {
        DiskCache cache(folder.cache(), 200000);
        for (int i = 0; i < 100; ++i) cache.put(key(1000 * c + i), noise(1000 * c + i, 5000));
      }
      ::_exit(0);
    }
  for (pid_t child : children) BOOST_TEST(status_of(child) == 0);
  uint64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder.cache()))
    if (entry.is_regular_file() && entry.path().filename().string().size() == 30) bytes += entry.file_size();
  // Each process looks at the true sum when its own estimate passes the limit.
  BOOST_TEST(bytes <= 2 * 200000u);
}

BOOST_AUTO_TEST_CASE(threads_share_one_cache) {
  Folder folder;
  DiskCache cache(folder.cache(), kLarge);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 40; ++i) {
        std::string value = noise(i, 2000);
        cache.put(key(i), value);
        auto got = cache.get(key((i + t) % 40));
        if (got.has_value() && *got != noise((i + t) % 40, 2000)) ++wrong;
      }
    });
  for (auto& thread : threads) thread.join();
  BOOST_TEST(wrong == 0);
  BOOST_TEST(cache.stats().stored == 160u);
}

BOOST_AUTO_TEST_CASE(a_folder_that_others_may_write_to_is_refused) {
  Folder folder;
  fs::create_directory(folder.cache());
  BOOST_REQUIRE(::chmod(folder.cache().c_str(), 0777) == 0);
  DiskCache cache(folder.cache(), kLarge);
  BOOST_TEST(!cache.usable());
  cache.put(key(1), "x");
  BOOST_TEST(!cache.get(key(1)).has_value());
  BOOST_TEST(fs::is_empty(folder.cache()));
}

BOOST_AUTO_TEST_CASE(a_path_that_cannot_be_a_folder_is_refused_without_an_exception) {
  Folder folder;
  spill(folder.path / "file", "x");
  for (std::string path : {(folder.path / "file").string(), (folder.path / "file" / "below").string(),
                           std::string("relative"), std::string()}) {
    DiskCache cache(path, kLarge);
    BOOST_TEST(!cache.usable(), path);
    cache.put(key(1), "x");
    BOOST_TEST(!cache.get(key(1)).has_value());
    cache.flush();
  }
}

BOOST_AUTO_TEST_CASE(a_read_only_folder_serves_what_it_has_and_drops_the_rest) {
  Folder folder;
  {
    DiskCache cache(folder.cache(), kLarge);
    cache.put(key(1), "kept");
  }
  // Rights do not bind root, so the work is done by a child without them.
  const uid_t nobody = 65534;
  bool root = ::geteuid() == 0;
  if (root) {
    ::chmod(folder.path.c_str(), 0755);
    for (const auto& entry : fs::recursive_directory_iterator(folder.path))
      BOOST_REQUIRE(::chown(entry.path().c_str(), nobody, nobody) == 0);
  }
  for (const auto& entry : fs::recursive_directory_iterator(folder.path))
    if (entry.is_directory()) ::chmod(entry.path().c_str(), 0500);
  pid_t child = ::fork();
  if (child == 0) {
    if (root && ::setuid(nobody) != 0) ::_exit(9);
    int status = 0;
    {
      DiskCache cache(folder.cache(), kLarge);
      if (!cache.usable()) status |= 1;
      if (cache.get(key(1)) != std::string("kept")) status |= 2;
      cache.put(key(2), "dropped");
      if (cache.get(key(2)).has_value()) status |= 4;
      cache.flush();
    }
    ::_exit(status);
  }
  BOOST_TEST(status_of(child) == 0);
  for (const auto& entry : fs::recursive_directory_iterator(folder.path))
    if (entry.is_directory()) ::chmod(entry.path().c_str(), 0700);
}
