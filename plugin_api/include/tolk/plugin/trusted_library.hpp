// trusted_library.hpp - opening a shared library that nobody but its owner can have replaced. Optional, POSIX, C++17: for
// plugins that open libraries of their own, as the CPU plugin does with its compiler. The host opens plugins the same way.
//
//   tolk::PinnedLibrary library(path, tolk::Trust::Checked, owner_of_this_plugin);
//   if (!library.problem().empty()) ...                        // a sentence: what is wrong and what to do
//   void* handle = dlopen(library.loader_path().c_str(), RTLD_NOW | RTLD_LOCAL);
//
// The folder is held open, and the loader gets the file through that descriptor: what was checked is what is loaded, even
// when somebody moves the folder in between. Keep the object as long as the library is loaded: the loader remembers
// libraries by this path, and $ORIGIN in them stands for it.
#ifndef TOLK_PLUGIN_TRUSTED_LIBRARY_HPP
#define TOLK_PLUGIN_TRUSTED_LIBRARY_HPP

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <memory>
#include <string>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace tolk {

// Why a file or folder is not trusted, as a sentence; empty when it is. Trusted are root, the user who runs this, and the
// owner `also` (0: nobody else), called `also_name` in the sentence. `what` is "file" or "directory".
inline std::string trust_problem(const struct stat& s, const char* what, uid_t also = 0,
                                 const char* also_name = "") {
  if (s.st_uid != 0 && s.st_uid != geteuid() && s.st_uid != also)
    return std::string(what) + " belongs to user " + std::to_string(s.st_uid) +
           ", neither to root nor to the user who runs this" +
           (also != 0 ? std::string(" nor to the owner of ") + also_name : std::string());
  const bool sticky = S_ISDIR(s.st_mode) && (s.st_mode & S_ISVTX); // others cannot replace files in it
  if ((s.st_mode & S_IWOTH) && !sticky)
    return std::string(what) + " is writable by everyone; chmod o-w would make it acceptable";
  if ((s.st_mode & S_IWGRP) && !sticky)
    return std::string(what) + " is writable by its group; chmod g-w would make it acceptable";
  return {};
}

enum class Trust { Unchecked, Checked };

class PinnedLibrary {
public:
  enum class Problem { None, Unreadable, NotAFile, Untrusted };

  PinnedLibrary() = default;
  // Follows links. With Trust::Checked, owner and mode of the file and of the folder that really holds it are checked;
  // `also` and `also_name` as in trust_problem.
  explicit PinnedLibrary(const std::string& path, Trust trust, uid_t also = 0, const char* also_name = "") {
    pin(path, trust, also, also_name);
  }
  PinnedLibrary(PinnedLibrary&& other) noexcept { swap(other); }
  PinnedLibrary& operator=(PinnedLibrary&& other) noexcept {
    swap(other);
    return *this;
  }
  ~PinnedLibrary() {
    if (file_ >= 0) ::close(file_);
    if (folder_ >= 0) ::close(folder_);
  }

  Problem kind() const { return kind_; }
  const std::string& problem() const { return problem_; }
  const std::string& path() const { return path_; } // without links; empty when there is no such file
  int file() const { return file_; }                // open for reading, at its start
  const struct stat& status() const { return status_; }
  // What dlopen gets. Needs /proc.
  std::string loader_path() const { return "/proc/self/fd/" + std::to_string(folder_) + "/" + name_; }

private:
  void pin(const std::string& path, Trust trust, uid_t also, const char* also_name) {
    std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr), &std::free);
    if (!real) return fail(Problem::Unreadable, errno_text());
    path_ = real.get();
    const size_t slash = path_.rfind('/');
    name_ = path_.substr(slash + 1);
    const std::string folder = path_.substr(0, slash + 1);
    folder_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder_ < 0) return fail(Problem::Unreadable, errno_text());
    // O_NONBLOCK: a pipe of that name must not wait for its writer.
    file_ = ::openat(folder_, name_.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (file_ < 0) return fail(Problem::Unreadable, errno_text());
    struct stat of_folder{};
    if (::fstat(file_, &status_) != 0 || !S_ISREG(status_.st_mode))
      return fail(Problem::NotAFile, "not a regular file");
    if (trust == Trust::Unchecked) return;
    std::string why = trust_problem(status_, "file", also, also_name);
    if (why.empty())
      why = ::fstat(folder_, &of_folder) == 0 ? trust_problem(of_folder, "directory", also, also_name)
                                              : errno_text();
    if (!why.empty()) fail(Problem::Untrusted, std::move(why));
  }
  static std::string errno_text() { return std::generic_category().message(errno); }
  void fail(Problem kind, std::string why) {
    kind_ = kind;
    problem_ = std::move(why);
  }
  void swap(PinnedLibrary& other) noexcept {
    std::swap(kind_, other.kind_), std::swap(folder_, other.folder_), std::swap(file_, other.file_);
    std::swap(status_, other.status_);
    path_.swap(other.path_), name_.swap(other.name_), problem_.swap(other.problem_);
  }

  Problem kind_ = Problem::None;
  int folder_ = -1, file_ = -1;
  struct stat status_{};
  std::string path_, name_, problem_;
};

} // namespace tolk

#endif
