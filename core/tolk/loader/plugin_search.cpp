#include "tolk/loader/plugin_search.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <filesystem>
#include <memory>
#include <sys/stat.h>
#include <unistd.h>

#include <tolk/plugin/tolk_plugin.h>
#include <tolk/plugin/trusted_library.hpp>

#include "tolk/base/config.h"
#include "tolk/base/log.h"
#include "tolk/loader/elf_stamp.h"

namespace tolk {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kPrefix = "libtolk-backend-", kSuffix = ".so";

std::string errno_text(int code) { return std::generic_category().message(code); }

// Owner of the file with tolk's own code. Whoever can replace that file can run any code here.
uid_t library_owner() {
  static const uid_t owner = [] {
    struct stat s;
    return stat(library_path().c_str(), &s) == 0 ? s.st_uid : uid_t(0);
  }();
  return owner;
}

fs::path own_folder() { return fs::path(library_path()).parent_path() / "tolk/plugins"; }

// Who is trusted besides root and the user: only beside libtolk, its owner.
uid_t also_trusted(PluginOrigin origin) { return origin == PluginOrigin::Library ? library_owner() : 0; }
constexpr const char* kLibrary = "libtolk";

std::string name_from_file(const std::string& path) {
  std::string file = fs::path(path).filename().string();
  std::string_view name = file;
  if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
  if (name.ends_with(kSuffix)) name.remove_suffix(kSuffix.size());
  std::string upper(name);
  for (char& c : upper) c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return upper;
}

void reject(PluginCandidate& candidate, CandidateState state, std::string reason) {
  candidate.state = state;
  candidate.reason = std::move(reason);
}

// Directories by device and inode, so that one that is listed twice is read once.
using SeenDirectories = std::vector<std::pair<std::pair<dev_t, ino_t>, std::string>>;

void search_directory(const std::string& path, PluginOrigin origin, PluginSearch& found,
                      SeenDirectories& seen) {
  SearchedDirectory& dir = found.directories.emplace_back(SearchedDirectory{path, origin, 0, {}});
  int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) {
    dir.problem = errno == ENOENT ? "does not exist" : errno_text(errno);
    return;
  }
  struct stat s{};
  std::string untrusted =
      fstat(fd, &s) == 0 ? trust_problem(s, "directory", also_trusted(origin), kLibrary) : errno_text(errno);
  std::pair<dev_t, ino_t> identity{s.st_dev, s.st_ino};
  for (const auto& [other, other_path] : seen)
    if (other == identity) dir.problem = "same directory as " + other_path;
  seen.emplace_back(identity, path);
  if (!dir.problem.empty()) {
    ::close(fd);
    return;
  }
  DIR* handle = fdopendir(fd);
  if (!handle) {
    dir.problem = errno_text(errno);
    ::close(fd);
    return;
  }
  std::vector<std::string> names;
  while (const dirent* entry = readdir(handle)) { // NOLINT(concurrency-mt-unsafe): the stream is our own
    std::string_view name = entry->d_name;
    if (name.starts_with(kPrefix) && name.ends_with(kSuffix) && name.size() > kPrefix.size() + kSuffix.size())
      names.emplace_back(name);
  }
  closedir(handle);
  std::sort(names.begin(), names.end());
  dir.problem = untrusted;
  for (const std::string& name : names) {
    std::string file = path + (path.ends_with('/') ? "" : "/") + name;
    // Sockets, pipes and directories of that name are no candidates at all.
    if (stat(file.c_str(), &s) == 0 && !S_ISREG(s.st_mode)) continue;
    PluginCandidate candidate;
    if (untrusted.empty()) {
      candidate = inspect_plugin_file(file, origin);
    } else {
      candidate.path = file;
      candidate.origin = origin;
      candidate.name = name_from_file(file);
      reject(candidate, CandidateState::Unsafe, untrusted);
    }
    dir.candidates++;
    found.candidates.push_back(std::move(candidate));
  }
}

void search_path_variable(const std::string& variable, PluginSearch& found, SeenDirectories& seen) {
  size_t begin = 0;
  while (begin <= variable.size()) {
    size_t end = std::min(variable.find(':', begin), variable.size());
    std::string entry = variable.substr(begin, end - begin);
    begin = end + 1;
    if (entry.empty()) continue;
    if (entry[0] != '/') {
      std::string problem = "relative entries are refused; write the absolute path";
      found.directories.push_back({entry, PluginOrigin::Path, 0, problem});
      log::warning_once("TOLK_PLUGIN_PATH: entry \"" + entry + "\": " + problem);
    } else {
      search_directory(entry, PluginOrigin::Path, found, seen);
    }
  }
}

std::string user_directory() {
  std::string data = environment("XDG_DATA_HOME");
  if (data.empty() || data[0] != '/') {
    std::string home = environment("HOME");
    if (home.empty() || home[0] != '/') return {};
    data = home + "/.local/share";
  }
  return data + "/tolk/plugins";
}

void mark_same_files(std::vector<PluginCandidate>& candidates) {
  for (size_t i = 0; i < candidates.size(); i++)
    for (size_t j = 0; j < i && candidates[i].inode != 0; j++)
      if (candidates[i].inode == candidates[j].inode && candidates[i].device_id == candidates[j].device_id &&
          candidates[i].state == CandidateState::Found) {
        reject(candidates[i], CandidateState::SameFile, "same file as " + candidates[j].path);
        break;
      }
}

constexpr const char* kStates[][2] = {
#define TOLK_PLUGIN_STATE(Name, text, meaning) {text, meaning},
#include "tolk/loader/plugin_states.def"
#undef TOLK_PLUGIN_STATE
};
} // namespace

const char* state_name(CandidateState state) { return kStates[static_cast<size_t>(state)][0]; }
const char* state_meaning(CandidateState state) { return kStates[static_cast<size_t>(state)][1]; }

const char* origin_name(PluginOrigin origin) {
  switch (origin) {
  case PluginOrigin::File:
    return "named by the user";
  case PluginOrigin::Only:
    return "TOLK_PLUGIN_ONLY";
  case PluginOrigin::Path:
    return "TOLK_PLUGIN_PATH";
  case PluginOrigin::User:
    return "user folder";
  case PluginOrigin::Library:
    return "beside libtolk";
  case PluginOrigin::Distribution:
    return "distribution folder";
  case PluginOrigin::BuiltIn:
    return "built in";
  }
  return "unknown";
}

std::string library_path() {
  static const std::string path = [] {
    Dl_info info{};
    if (dladdr(reinterpret_cast<const void*>(&library_path), &info) == 0 || !info.dli_fname)
      return std::string();
    std::error_code ec;
    fs::path real = fs::canonical(info.dli_fname, ec);
    // The loader keeps the executable's name as it was typed; the kernel knows better.
    if (ec || !fs::is_regular_file(real, ec)) real = fs::read_symlink("/proc/self/exe", ec);
    return real.string();
  }();
  return path;
}

PinnedLibrary pin_plugin(const std::string& path, PluginOrigin origin) {
  return PinnedLibrary(path, origin == PluginOrigin::File ? Trust::Unchecked : Trust::Checked,
                       also_trusted(origin), kLibrary);
}

PluginCandidate inspect_plugin_file(const std::string& path, PluginOrigin origin) {
  PluginCandidate candidate;
  candidate.path = path;
  candidate.origin = origin;
  candidate.name = name_from_file(path);
  PinnedLibrary library = pin_plugin(path, origin);
  candidate.device_id = library.status().st_dev;
  candidate.inode = library.status().st_ino;
  switch (library.kind()) {
  case PinnedLibrary::Problem::None:
    break;
  case PinnedLibrary::Problem::Unreadable:
    reject(candidate, CandidateState::Loader, library.problem());
    return candidate;
  case PinnedLibrary::Problem::NotAFile:
    reject(candidate, CandidateState::Damaged, library.problem());
    return candidate;
  case PinnedLibrary::Problem::Untrusted:
    reject(candidate, CandidateState::Unsafe, library.problem());
    return candidate;
  }
  LibraryFacts facts = read_library_facts(library.file(), static_cast<uint64_t>(library.status().st_size));
  candidate.stamped = facts.stamped;
  if (facts.stamped) {
    candidate.name = facts.name;
    candidate.abi_major = facts.abi_major;
    candidate.abi_minor = facts.abi_minor;
    std::error_code ec;
    if (fs::equivalent(fs::path(library.path()).parent_path(), own_folder(), ec))
      candidate.default_priority = facts.default_priority;
  }
  if (!facts.problem.empty()) {
    reject(candidate, facts.wrong_machine ? CandidateState::Machine : CandidateState::Damaged, facts.problem);
  } else if (facts.stamped && facts.abi_major != TOLK_ABI_MAJOR) {
    reject(candidate, CandidateState::Version,
           "built for ABI " + std::to_string(facts.abi_major) + " (stamp), this tolk speaks " +
               std::to_string(TOLK_ABI_MAJOR) + "; rebuild the plugin or update tolk");
  }
  return candidate;
}

PluginSearch search_plugins(const std::vector<std::string>& files) {
  PluginSearch found;
  SeenDirectories seen;
  const Config& config = Config::current();
  for (const std::string& file : files) {
    std::error_code ec;
    std::string absolute = fs::absolute(file, ec).lexically_normal().string();
    found.candidates.push_back(inspect_plugin_file(ec ? file : absolute, PluginOrigin::File));
  }
  if (!config.plugin_only.empty()) {
    log::warning_once("TOLK_PLUGIN_ONLY: using no other plugin than " + config.plugin_only);
    if (config.plugin_only[0] == '/') {
      found.candidates.push_back(inspect_plugin_file(config.plugin_only, PluginOrigin::Only));
    } else {
      PluginCandidate& candidate = found.candidates.emplace_back();
      candidate.path = config.plugin_only;
      candidate.origin = PluginOrigin::Only;
      candidate.name = name_from_file(config.plugin_only);
      reject(candidate, CandidateState::Unsafe, "TOLK_PLUGIN_ONLY must be an absolute path");
    }
  } else {
    search_path_variable(config.plugin_path, found, seen);
    if (std::string user = user_directory(); !user.empty() && !config.no_user_plugins)
      search_directory(user, PluginOrigin::User, found, seen);
    search_directory(own_folder().string(), PluginOrigin::Library, found, seen);
#ifdef TOLK_DISTRIBUTION_PLUGIN_DIR
    search_directory(TOLK_DISTRIBUTION_PLUGIN_DIR, PluginOrigin::Distribution, found, seen);
#endif
  }
  mark_same_files(found.candidates);
  return found;
}

} // namespace tolk
