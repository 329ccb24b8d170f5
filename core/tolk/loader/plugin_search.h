// Where plugins are looked for, and why a file was not taken. Nothing is loaded here: a candidate is judged
// by its directory, owner, mode, ELF header and stamp. The reasons are data; --list-devices prints them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tolk/base/api.h"

namespace tolk {

class PinnedLibrary; // tolk/plugin/trusted_library.hpp

// What became of a candidate; plugin_states.def has the meanings.
enum class CandidateState {
#define TOLK_PLUGIN_STATE(Name, text, meaning) Name,
#include "tolk/loader/plugin_states.def"
#undef TOLK_PLUGIN_STATE
};
TOLK_API const char* state_name(CandidateState state);    // "found", "loaded", "same file", ...
TOLK_API const char* state_meaning(CandidateState state); // one line, for the documentation

// How a candidate was found.
enum class PluginOrigin {
  File,         // named by the user: --plugin, load_plugin_file
  Only,         // TOLK_PLUGIN_ONLY
  Path,         // TOLK_PLUGIN_PATH
  User,         // the user's data folder
  Library,      // tolk/plugins beside libtolk
  Distribution, // the folder fixed at build time
  BuiltIn       // part of libtolk: HOST
};
TOLK_API const char* origin_name(PluginOrigin origin); // "TOLK_PLUGIN_PATH", "beside libtolk", ...

struct PluginCandidate {
  std::string path; // absolute
  PluginOrigin origin = PluginOrigin::File;
  std::string name; // the device name: from the stamp, the table once loaded, else from the file's name
  bool stamped = false;
  uint32_t abi_major = 0, abi_minor = 0; // from stamp or table
  // Rank among default devices, from the stamp; 0, never, for files outside of tolk/plugins beside libtolk.
  uint32_t default_priority = 0;
  CandidateState state = CandidateState::Found;
  std::string reason;                // one sentence; empty when found or loaded
  uint64_t device_id = 0, inode = 0; // of the file
};

struct SearchedDirectory {
  std::string path;
  PluginOrigin origin;
  int candidates = 0;
  std::string problem; // why nothing was taken from it: absent, unsafe, relative; empty when all is well
};

struct PluginSearch {
  std::vector<SearchedDirectory> directories; // in search order
  std::vector<PluginCandidate> candidates;    // in search order, names sorted inside a directory
};

// Looks through `files` (named by the user), then TOLK_PLUGIN_PATH, the user's folder, the folder beside
// libtolk, and the build-time folder; or only at TOLK_PLUGIN_ONLY. Settings are those of Config::current().
// Throws nothing but std::bad_alloc: what goes wrong is in the result.
TOLK_API PluginSearch search_plugins(const std::vector<std::string>& files);

// The file, held open and checked by the rules of its origin: root's, the user's, or beside libtolk its owner's, and
// writable by none but its owner. What the user named is taken as it is.
PinnedLibrary pin_plugin(const std::string& path, PluginOrigin origin);

// Judges one file without loading it.
TOLK_API PluginCandidate inspect_plugin_file(const std::string& path, PluginOrigin origin);

// Absolute path of the file that contains this library's code.
TOLK_API std::string library_path();

} // namespace tolk
