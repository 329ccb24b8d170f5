// What the tests of file IO share: a folder of their own, expectations about error texts, seeded damage.
#pragma once

#include <boost/test/unit_test.hpp>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <random>
#include <span>
#include <string>
#include <string_view>

namespace tolk::test {

// A fresh folder, removed at the end; in memory where there is room, since some tests make thousands of
// files.
class TempDir {
public:
  TempDir() {
    std::error_code none;
    std::filesystem::path parent = "/dev/shm";
    bool roomy =
        ::access(parent.c_str(), W_OK) == 0 && std::filesystem::space(parent, none).available > (1U << 30);
    if (!roomy) parent = std::filesystem::temp_directory_path();
    std::string pattern = (parent / "tolk-test-XXXXXX").string();
    BOOST_REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  std::string file(const std::string& name) const { return (path_ / name).string(); }
  std::string write(const std::string& name, std::string_view content) const {
    std::ofstream(file(name), std::ios::binary)
        .write(content.data(), static_cast<std::streamsize>(content.size()));
    return file(name);
  }

private:
  std::filesystem::path path_;
};

inline std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span<const char>(text.data(), text.size()));
}

// The call must throw exactly this error, with all of these words in its text.
template <typename E>
void expect_error(const std::function<void()>& call, std::initializer_list<const char*> words) {
  try {
    call();
    BOOST_ERROR("no error was thrown");
  } catch (const E& error) {
    std::string text = error.what();
    for (const char* word : words)
      BOOST_CHECK_MESSAGE(text.find(word) != std::string::npos, "\"" << word << "\" is not in: " << text);
  } catch (const std::exception& error) {
    BOOST_ERROR("another kind of error: " << error.what());
  }
}

// One seeded mutation: a truncation, a few flipped bits, a few random bytes, a removed or doubled stretch, or
// a length made large.
inline std::string damaged(const std::string& original, uint32_t seed) {
  std::mt19937 random(seed);
  auto below = [&random](size_t n) { return n ? static_cast<size_t>(random() % n) : 0; };
  std::string s = original;
  switch (seed % 6) {
  case 0:
    s.resize(below(s.size()));
    break;
  case 1:
    for (size_t i = 0, n = 1 + below(8); i < n; ++i) s[below(s.size())] ^= static_cast<char>(1 << below(8));
    break;
  case 2:
    for (size_t i = 0, n = 1 + below(16); i < n; ++i) s[below(s.size())] = static_cast<char>(random());
    break;
  case 3:
    s.erase(below(s.size()), 1 + below(32));
    break;
  case 4: {
    size_t at = below(s.size());
    s.insert(at, s.substr(at, 1 + below(64)));
    break;
  }
  default:
    for (size_t i = 0, n = 1 + below(4); i < n; ++i)
      s[below(s.size())] = static_cast<char>(i % 2 ? 0x7f : 0xff);
  }
  return s;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
#else
inline constexpr bool kSanitized = false;
#endif

// While it lives, the process cannot get more than `extra` bytes of address space beyond what it has.
// Sanitizers map far more than they use, so there it does nothing.
class MemoryLimit {
public:
  explicit MemoryLimit(uint64_t extra) {
    if (kSanitized) return;
    ::getrlimit(RLIMIT_AS, &old_);
    std::ifstream statm("/proc/self/statm");
    uint64_t pages = 0;
    statm >> pages;
    rlimit limit = old_;
    limit.rlim_cur = pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)) + extra;
    ::setrlimit(RLIMIT_AS, &limit);
  }
  ~MemoryLimit() {
    if (!kSanitized) ::setrlimit(RLIMIT_AS, &old_);
  }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

private:
  rlimit old_{};
};

} // namespace tolk::test
