// Every way in which a file is refused before or while it is loaded, each with its own reason.
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include <fcntl.h>
#include <ostream>
#include <sys/stat.h>
#include <unistd.h>

#include <tolk/plugin/trusted_library.hpp>

#include "device_test.h"
#include "tolk/base/error.h"
#include "tolk/loader/elf_stamp.h"
#include "tolk/loader/plugin_loader.h"

using namespace tolk;
using namespace tolk::test;
namespace fs = std::filesystem;

namespace tolk {
std::ostream& operator<<(std::ostream& out, CandidateState s) { return out << state_name(s); }
} // namespace tolk

namespace {

struct Refusal {
  const char* plugin;
  CandidateState state;
  const char* reason; // part of it
};
std::ostream& operator<<(std::ostream& out, const Refusal& r) { return out << r.plugin; }

const Refusal kRefusals[] = {
    {"no_entry", CandidateState::Symbol, "no tolk_plugin_entry_v1; is it a tolk plugin?"},
    {"next_entry", CandidateState::Version, "built for ABI 2, this tolk speaks 1"},
    {"undefined_symbol", CandidateState::Loader, "undefined symbol: tolk_test_symbol_that_nobody_has"},
    {"missing_dependency", CandidateState::Loader, "libtolk_test_absent.so: cannot open shared object file"},
    {"major_stamp", CandidateState::Version, "built for ABI 2 (stamp), this tolk speaks 1"},
    {"major", CandidateState::Version, "built for ABI 2, this tolk speaks 1"},
    {"minor", CandidateState::Minor, "needs ABI 1.7, this tolk has 1.0"},
    {"null_launch", CandidateState::Damaged, "program table: launch is NULL (mandatory)"},
    {"null_table", CandidateState::Damaged, "plugin table: buffer is NULL (mandatory)"},
    {"half_streams", CandidateState::Damaged, "stream table: destroy is NULL (required by create)"},
    {"tiny_table", CandidateState::Damaged, "program table: struct_size is 8"},
    {"name", CandidateState::Damaged, "the name \"lower case\" is not of the form"},
    {"system", CandidateState::System, "libfancy.so.3 is not installed"},
    {"no_table", CandidateState::Damaged, "gave no plugin table"},
};

PluginCandidate inspect_and_load(const std::string& path, std::unique_ptr<Plugin>* plugin = nullptr) {
  PluginCandidate candidate = inspect_plugin_file(path, PluginOrigin::Path);
  std::unique_ptr<Plugin> loaded;
  if (candidate.state == CandidateState::Found) loaded = load_plugin(candidate);
  if (plugin) *plugin = std::move(loaded);
  return candidate;
}

} // namespace

BOOST_DATA_TEST_CASE(a_faulty_plugin_is_refused_with_its_reason, boost::unit_test::data::make(kRefusals),
                     refusal) {
  std::unique_ptr<Plugin> plugin;
  PluginCandidate candidate = inspect_and_load(plugin_file(refusal.plugin), &plugin);
  BOOST_TEST(candidate.state == refusal.state);
  BOOST_TEST(contains(candidate.reason, refusal.reason), candidate.reason);
  BOOST_TEST(!plugin);
}

BOOST_AUTO_TEST_CASE(an_entry_that_hangs_is_given_up) {
  PluginCandidate candidate = inspect_plugin_file(plugin_file("slow"), PluginOrigin::Path);
  BOOST_TEST(candidate.state == CandidateState::Found);
  BOOST_TEST(!load_plugin(candidate, {}, std::chrono::milliseconds(50)));
  BOOST_TEST(candidate.state == CandidateState::Slow);
  BOOST_TEST(contains(candidate.reason, "did not return within 50 ms"), candidate.reason);
}

BOOST_AUTO_TEST_CASE(a_table_of_an_older_minor_is_accepted_and_its_missing_tail_reads_as_null) {
  std::unique_ptr<Plugin> plugin;
  PluginCandidate candidate = inspect_and_load(plugin_file("short_table"), &plugin);
  BOOST_TEST(candidate.state == CandidateState::Loaded, candidate.reason);
  BOOST_REQUIRE(plugin);
  BOOST_TEST(plugin->name == "SHORT");
  BOOST_TEST(plugin->synchronous);
  void* pointer = nullptr;
  BOOST_TEST(plugin->buffer.map(nullptr, 0, 0, 0, &pointer) ==
             TOLK_E_UNSUPPORTED); // not the garbage behind the end
}

BOOST_AUTO_TEST_CASE(a_table_of_a_newer_minor_is_accepted_and_its_tail_ignored) {
  std::unique_ptr<Plugin> plugin;
  PluginCandidate candidate = inspect_and_load(plugin_file("long_table"), &plugin);
  BOOST_TEST(candidate.state == CandidateState::Loaded, candidate.reason);
  BOOST_REQUIRE(plugin);
  BOOST_TEST(plugin->name == "LONG");
  BOOST_TEST(plugin->abi_minor == 9u);
}

BOOST_AUTO_TEST_CASE(every_optional_entry_of_a_loaded_plugin_can_be_called) {
  std::unique_ptr<Plugin> plugin;
  inspect_and_load(plugin_file("basic"), &plugin);
  BOOST_REQUIRE(plugin);
  uint32_t flags = 9;
  BOOST_TEST(plugin->device.peer(nullptr, nullptr, &flags) == TOLK_OK);
  BOOST_TEST(flags == 0u);
  BOOST_TEST(plugin->device.trim(nullptr) == TOLK_OK);
  BOOST_TEST(plugin->device.synchronize(nullptr, TOLK_FOREVER) == TOLK_OK);
  BOOST_TEST(plugin->device.flush_caches(nullptr) == TOLK_OK);
  BOOST_TEST(std::string(plugin->device.lost_reason(nullptr)).empty());
  BOOST_TEST(plugin->table.rescan(nullptr) == TOLK_OK);
  const void* table = nullptr;
  BOOST_TEST(plugin->table.get_extension(nullptr, "x", 1, &table) == TOLK_E_NOT_FOUND);
  tolk_event* event = nullptr;
  BOOST_TEST(plugin->stream.event_create(nullptr, 0, &event) == TOLK_OK);
  BOOST_TEST(event != nullptr);
  BOOST_TEST(plugin->stream.event_record(event, nullptr) == TOLK_OK);
  BOOST_TEST(plugin->stream.event_query(event) == TOLK_OK);
  BOOST_TEST(plugin->stream.event_sync(event, 0) == TOLK_OK);
  BOOST_TEST(plugin->stream.wait(nullptr, event) == TOLK_OK);
  plugin->stream.event_destroy(event);
  tolk_graph* graph = nullptr;
  BOOST_TEST(plugin->graph.create(nullptr, 0, 0, &graph) == TOLK_E_UNSUPPORTED);
}

BOOST_AUTO_TEST_CASE(the_stamp_gives_name_and_version_without_loading) {
  PluginCandidate candidate = inspect_plugin_file(null_plugin_file(), PluginOrigin::Path);
  BOOST_TEST(candidate.state == CandidateState::Found);
  BOOST_TEST(candidate.stamped);
  BOOST_TEST(candidate.name == "NULL");
  BOOST_TEST(candidate.abi_major == 1u);
  PluginCandidate unstamped = inspect_plugin_file(plugin_file("unstamped"), PluginOrigin::Path);
  BOOST_TEST(!unstamped.stamped);
  BOOST_TEST(unstamped.name == "UNSTAMPED"); // from the file's name
}

BOOST_AUTO_TEST_CASE(files_that_are_no_libraries_are_refused) {
  TemporaryFolder folder;
  std::string whole = read_file(null_plugin_file());
  auto judge = [&](const std::string& bytes) {
    std::string path = folder / "libtolk-backend-x.so";
    write_file(path, bytes);
    return inspect_plugin_file(path, PluginOrigin::Path);
  };
  PluginCandidate empty = judge("");
  BOOST_TEST(empty.state == CandidateState::Damaged);
  BOOST_TEST(contains(empty.reason, "the file is empty"));
  PluginCandidate text = judge("#!/bin/sh\necho I am not a library\n");
  BOOST_TEST(text.state == CandidateState::Damaged);
  BOOST_TEST(contains(text.reason, "not a shared library (no ELF header)"));
  for (size_t part : {size_t{30}, whole.size() / 4, whole.size() / 2, whole.size() - 100}) {
    PluginCandidate cut = judge(whole.substr(0, part));
    BOOST_TEST(cut.state == CandidateState::Damaged, "cut at " << part);
    BOOST_TEST(contains(cut.reason, "cut short"), cut.reason);
  }
  std::string other = whole;
  other[18] = static_cast<char>(whole[18] == '\xb7' ? 0x3e : 0xb7); // e_machine: aarch64 or x86-64
  PluginCandidate machine = judge(other);
  BOOST_TEST(machine.state == CandidateState::Machine);
  BOOST_TEST(contains(machine.reason, "built for "), machine.reason);
  std::string executable = whole;
  executable[16] = 2; // ET_EXEC
  BOOST_TEST(contains(judge(executable).reason, "not a shared library"));
  BOOST_TEST(inspect_plugin_file(folder / "absent.so", PluginOrigin::Path).state == CandidateState::Loader);
  fs::create_directory(folder / "libtolk-backend-dir.so");
  BOOST_TEST(inspect_plugin_file(folder / "libtolk-backend-dir.so", PluginOrigin::Path).state ==
             CandidateState::Damaged);
}

BOOST_AUTO_TEST_CASE(reading_a_damaged_header_never_leaves_the_file) {
  TemporaryFolder folder;
  std::string whole = read_file(null_plugin_file());
  uint32_t seed = 12345;
  auto next = [&] { return seed = seed * 1664525u + 1013904223u; };
  for (int round = 0; round < 500; round++) {
    std::string bytes = whole;
    for (int i = 0; i < 8; i++) { // headers: the first 1000 bytes and the section table at the end
      size_t at = next() % 2 ? next() % 1000 : bytes.size() - 1 - next() % 3000;
      bytes[at] = static_cast<char>(next() >> 16);
    }
    std::string path = folder / "x.so";
    write_file(path, bytes);
    int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    LibraryFacts facts = read_library_facts(fd, bytes.size());
    BOOST_TEST(facts.name.size() <= 32u);
    close(fd);
  }
}

BOOST_AUTO_TEST_CASE(a_folder_or_file_that_others_can_write_is_refused) {
  TemporaryFolder folder;
  std::string file = folder / "libtolk-backend-null.so";
  fs::copy_file(null_plugin_file(), file);
  chmod(file.c_str(), 0644);
  Config config = search_in(folder.path());
  ScopedConfig scoped(config);
  auto judge = [&] {
    for (const PluginCandidate& c : search_plugins({}).candidates)
      if (c.path == file) return c;
    return PluginCandidate{};
  };
  BOOST_TEST(judge().state == CandidateState::Found);
  chmod(folder.path().c_str(), 0777);
  BOOST_TEST(judge().state == CandidateState::Unsafe);
  BOOST_TEST(contains(judge().reason, "directory is writable by everyone"), judge().reason);
  chmod(folder.path().c_str(), 01777); // as /tmp: nobody can replace another's file
  BOOST_TEST(judge().state == CandidateState::Found);
  chmod(folder.path().c_str(), 0770);
  BOOST_TEST(contains(judge().reason, "directory is writable by its group"));
  chmod(folder.path().c_str(), 0700);
  chmod(file.c_str(), 0666);
  BOOST_TEST(judge().state == CandidateState::Unsafe);
  BOOST_TEST(contains(judge().reason, "file is writable by everyone"));
  // Named by the user: taken as it is.
  BOOST_TEST(search_plugins({file}).candidates.front().state == CandidateState::Found);
}

BOOST_AUTO_TEST_CASE(files_of_another_user_are_refused, *boost::unit_test::precondition([](auto) {
                       return boost::test_tools::assertion_result(geteuid() ==
                                                                  0); // only root can give files away
                     })) {
  TemporaryFolder folder;
  std::string file = folder / "libtolk-backend-null.so";
  fs::copy_file(null_plugin_file(), file);
  chmod(file.c_str(), 0644);
  BOOST_REQUIRE(chown(file.c_str(), 54321, 54321) == 0);
  PluginCandidate candidate = inspect_plugin_file(file, PluginOrigin::Path);
  BOOST_TEST(candidate.state == CandidateState::Unsafe);
  BOOST_TEST(contains(candidate.reason, "belongs to user 54321"), candidate.reason);
}

BOOST_AUTO_TEST_CASE(an_owner_is_trusted_where_he_could_replace_tolk_itself) {
  struct stat s{};
  s.st_uid = 54321;
  s.st_mode = S_IFREG | 0755;
  BOOST_TEST(trust_problem(s, "file", 54321, "libtolk").empty());
  BOOST_TEST(trust_problem(s, "file", 54322, "libtolk") ==
             "file belongs to user 54321, neither to root nor to the user who runs this nor to the owner of "
             "libtolk");
  BOOST_TEST(trust_problem(s, "file") ==
             "file belongs to user 54321, neither to root nor to the user who runs this");
  s.st_uid = 0;
  BOOST_TEST(trust_problem(s, "file").empty());
}

BOOST_AUTO_TEST_CASE(a_file_that_is_replaced_after_it_was_judged_does_not_run) {
  TemporaryFolder folder;
  const std::string file = folder / "libtolk-backend-x.so", other = folder / "other.so";
  fs::copy_file(plugin_file("basic"), file);
  fs::copy_file(plugin_file("constructor"), other);
  chmod(file.c_str(), 0644), chmod(other.c_str(), 0644);
  PluginCandidate candidate = inspect_plugin_file(file, PluginOrigin::Path);
  BOOST_TEST(candidate.state == CandidateState::Found);
  fs::rename(other, file);
  BOOST_TEST(!load_plugin(candidate));
  BOOST_TEST(candidate.state == CandidateState::Unsafe);
  BOOST_TEST(contains(candidate.reason, "was replaced"), candidate.reason);
  BOOST_TEST(environment("TOLK_TEST_CONSTRUCTOR").empty()); // not even its constructors ran
  // The same when its folder stops being safe, whatever was found before.
  candidate = inspect_plugin_file(file, PluginOrigin::Path);
  chmod(folder.path().c_str(), 0777);
  BOOST_TEST(!load_plugin(candidate));
  BOOST_TEST(contains(candidate.reason, "directory is writable by everyone"), candidate.reason);
  BOOST_TEST(environment("TOLK_TEST_CONSTRUCTOR").empty());
  chmod(folder.path().c_str(), 0700);
  candidate = inspect_plugin_file(file, PluginOrigin::Path);
  BOOST_TEST(!!load_plugin(candidate), candidate.reason);
  BOOST_TEST(environment("TOLK_TEST_CONSTRUCTOR") == "ran");
}

BOOST_AUTO_TEST_CASE(a_folder_that_is_exchanged_after_it_was_opened_changes_nothing) {
  TemporaryFolder folder;
  const std::string inside = folder / "plugins", file = inside + "/libtolk-backend-x.so";
  fs::create_directory(inside);
  fs::copy_file(plugin_file("basic"), file);
  PinnedLibrary pinned = pin_plugin(file, PluginOrigin::Path);
  BOOST_REQUIRE(pinned.problem().empty());
  fs::rename(inside, folder / "away");
  fs::create_directory(inside);
  write_file(file, "something else");
  BOOST_TEST(read_file(pinned.loader_path()) == read_file(plugin_file("basic")));
}

BOOST_AUTO_TEST_CASE(directories_are_searched_in_the_documented_order) {
  TemporaryFolder a, b;
  fs::copy_file(null_plugin_file(), b / "libtolk-backend-zz.so");
  fs::copy_file(null_plugin_file(), b / "libtolk-backend-aa.so");
  write_file(b / "other.so", "ignored");
  write_file(b / "libtolk-backend-.so", "ignored");
  for (const char* name : {"aa", "zz"})
    chmod((b / ("libtolk-backend-" + std::string(name) + ".so")).c_str(), 0644);
  Config config = search_in("relative/folder::" + a.path() + ":" + b.path() + ":/does/not/exist:" + b.path());
  ScopedConfig scoped(config);
  PluginSearch found = search_plugins({});
  BOOST_REQUIRE(found.directories.size() >= 6u);
  BOOST_TEST(found.directories[0].path == "relative/folder");
  BOOST_TEST(contains(found.directories[0].problem, "relative entries are refused"));
  BOOST_TEST(found.directories[1].path == a.path());
  BOOST_TEST(found.directories[1].candidates == 0);
  BOOST_TEST(found.directories[2].candidates == 2);
  BOOST_TEST(found.directories[3].problem == "does not exist");
  BOOST_TEST(contains(found.directories[4].problem, "same directory as"));
  BOOST_TEST((found.directories[5].origin == PluginOrigin::Library));
  BOOST_REQUIRE(found.candidates.size() >= 2u);
  BOOST_TEST(found.candidates[0].path == b / "libtolk-backend-aa.so");
  BOOST_TEST(found.candidates[1].path == b / "libtolk-backend-zz.so");
}

BOOST_AUTO_TEST_CASE(a_second_path_to_a_file_is_recorded_as_such) {
  TemporaryFolder folder;
  fs::create_symlink(null_plugin_file(), folder / "libtolk-backend-link.so");
  Config config = search_in(std::string(TOLK_PLUGIN_FOLDER) + ":" + folder.path());
  ScopedConfig scoped(config);
  PluginSearch found = search_plugins({});
  bool seen = false;
  for (const PluginCandidate& c : found.candidates)
    if (c.path == folder / "libtolk-backend-link.so") {
      seen = true;
      BOOST_TEST(c.state == CandidateState::SameFile);
      BOOST_TEST(contains(c.reason, "same file as " + null_plugin_file()));
    }
  BOOST_TEST(seen);
}

BOOST_AUTO_TEST_CASE(a_link_into_an_unsafe_folder_is_refused) {
  TemporaryFolder folder, open_to_all;
  fs::copy_file(null_plugin_file(), open_to_all / "libtolk-backend-null.so");
  chmod((open_to_all / "libtolk-backend-null.so").c_str(), 0644);
  chmod(open_to_all.path().c_str(), 0777);
  fs::create_symlink(open_to_all / "libtolk-backend-null.so", folder / "libtolk-backend-null.so");
  PluginCandidate candidate = inspect_plugin_file(folder / "libtolk-backend-null.so", PluginOrigin::Path);
  BOOST_TEST(candidate.state == CandidateState::Unsafe);
  BOOST_TEST(contains(candidate.reason, "directory is writable by everyone"), candidate.reason);
}

BOOST_AUTO_TEST_CASE(plugin_only_replaces_the_search) {
  Config config = search_in(TOLK_PLUGIN_FOLDER);
  config.plugin_only = plugin_file("basic");
  {
    ScopedConfig scoped(config);
    PluginSearch found = search_plugins({});
    BOOST_TEST(found.directories.empty());
    BOOST_REQUIRE(found.candidates.size() == 1u);
    BOOST_TEST(found.candidates[0].name == "BASIC");
  }
  config.plugin_only = "relative.so";
  ScopedConfig scoped(config);
  BOOST_TEST(contains(search_plugins({}).candidates.at(0).reason, "must be an absolute path"));
}
