// Names, the choice of a default, and the message about a device that is not there.
#include <boost/test/unit_test.hpp>

#include <cstdlib>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "device_test.h"
#include "tolk/base/error.h"
#include "tolk/device/buffer.h"
#include "tolk/device/report.h"
#include "tolk/loader/plugin_loader.h"

using namespace tolk;
using namespace tolk::test;
namespace fs = std::filesystem;

BOOST_AUTO_TEST_CASE(names_have_one_spelling) {
  BOOST_TEST(canonical_device_name("cpu") == "CPU");
  BOOST_TEST(canonical_device_name("CPU:0") == "CPU");
  BOOST_TEST(canonical_device_name("cpu:00") == "CPU");
  BOOST_TEST(canonical_device_name("cl:02") == "CL:2");
  BOOST_TEST(canonical_device_name("hip:pci=0000:c1:00.0") == "HIP:pci=0000:c1:00.0");
  BOOST_TEST(canonical_device_name("disk:/a/B:0") == "DISK:/a/B:0");
  BOOST_TEST(canonical_device_name(canonical_device_name("cpu:07")) == "CPU:7");
  for (const char* bad : {"", ":1", "CPU:", "CPU:x", "CPU:1x"})
    BOOST_CHECK_THROW(canonical_device_name(bad), InvalidArgument);
}

BOOST_AUTO_TEST_CASE(device_lists_refuse_what_cannot_compute) {
  std::vector<std::string> two = parse_device_list("cpu,CPU:1");
  BOOST_REQUIRE(two.size() == 2u);
  BOOST_TEST(two[0] == "CPU");
  BOOST_TEST(two[1] == "CPU:1");
  BOOST_CHECK_THROW(parse_device_list("CPU,,CPU:1"), InvalidArgument);
  BOOST_CHECK_THROW(parse_device_list(""), InvalidArgument);
  BOOST_CHECK_THROW(parse_device_list("HOST"), DeviceError);
  BOOST_CHECK_THROW(parse_device_list("CPU,DISK:/x"), DeviceError);
}

BOOST_AUTO_TEST_CASE(a_device_is_opened_once_and_extra_null_devices_are_independent) {
  Config config = search_in(TOLK_PLUGIN_FOLDER);
  ScopedConfig scoped(config);
  BOOST_TEST(find_open_device("NULL") == nullptr);
  Device& null = device("null");
  BOOST_TEST(&device("NULL:0") == &null);
  BOOST_TEST(find_open_device("NULL") == &null);
  Device& seventh = device("NULL:7");
  BOOST_TEST(&seventh != &null);
  BOOST_TEST(seventh.name() == "NULL:7");
  BOOST_TEST(seventh.id() != null.id());
  BufferRef b = make_buffer(seventh, DType::F32, 100);
  b->allocate();
  BOOST_TEST(seventh.memory().live_bytes == 400u);
  BOOST_TEST(null.memory().live_bytes == 0u);
}

BOOST_AUTO_TEST_CASE(threads_that_ask_for_a_device_at_once_get_the_same_one) {
  Config config = search_in(plugin_folder("serial"));
  std::vector<Device*> seen(8);
  std::vector<std::thread> threads;
  for (Device*& slot : seen)
    threads.emplace_back([&] {
      ScopedConfig scoped(config);
      slot = &device("SERIAL");
    });
  for (std::thread& t : threads) t.join();
  for (Device* d : seen) BOOST_TEST(d == seen[0]);
}

BOOST_AUTO_TEST_CASE(indices_out_of_range_and_identities) {
  Config config = search_in(plugin_folder("basic"));
  ScopedConfig scoped(config);
  BOOST_TEST(&device("BASIC:pci=0000:02:00.0") == &device("BASIC:1"));
  BOOST_TEST(&device("BASIC:uuid=a1000000-0000-0000-0000-000000000000") == &device("BASIC:1"));
  BOOST_TEST(&device("BASIC:pci=0000:01:00.0") == &device("BASIC"));
  std::string text = message_of<DeviceError>([] { device("BASIC:2"); });
  BOOST_TEST(contains(text, "the index is out of range, BASIC has 2 devices"), text);
  BOOST_CHECK_THROW(device("BASIC:99999999999999999999"), DeviceError);
  BOOST_CHECK_THROW(device("BASIC:pci=0000:03:00.0"), DeviceError);
}

BOOST_AUTO_TEST_CASE(an_unstamped_plugin_is_found_by_its_table) {
  Config config = search_in(plugin_folder("unstamped"));
  ScopedConfig scoped(config);
  BOOST_TEST(device("PLAIN").plugin().name == "PLAIN");
}

BOOST_AUTO_TEST_CASE(the_message_about_a_missing_device_names_folders_candidates_and_reasons) {
  TemporaryFolder good, open_to_all;
  std::string whole = read_file(null_plugin_file());
  write_file(good / "libtolk-backend-cut.so", whole.substr(0, whole.size() / 2));
  write_file(good / "libtolk-backend-text.so", "hello");
  for (const char* name : {"cut", "text"})
    chmod((good / ("libtolk-backend-" + std::string(name) + ".so")).c_str(), 0644);
  fs::copy_file(null_plugin_file(), open_to_all / "libtolk-backend-cpu.so");
  chmod(open_to_all.path().c_str(), 0777);
  Config config =
      search_in(good.path() + ":" + open_to_all.path() + ":/no/such/folder:" + plugin_folder("no_entry") +
                ":" + plugin_folder("missing_dependency") + ":" + plugin_folder("major_stamp"));
  ScopedConfig scoped(config);
  std::string text = message_of<DeviceError>([] { device("CPU"); });
  for (const std::string& part :
       {std::string("no device CPU"), good.path() + " (TOLK_PLUGIN_PATH): 2 candidates",
        open_to_all.path() + " (TOLK_PLUGIN_PATH): directory is writable by everyone",
        std::string("/no/such/folder (TOLK_PLUGIN_PATH): does not exist"), std::string("(beside libtolk)"),
        good / "libtolk-backend-cut.so: the file is cut short",
        good / "libtolk-backend-text.so: not a shared library",
        open_to_all / "libtolk-backend-cpu.so: directory is writable by everyone",
        plugin_file("no_entry") + ": no tolk_plugin_entry_v1",
        plugin_file("missing_dependency") + ": libtolk_test_absent.so: cannot open shared object file",
        plugin_file("major_stamp") + ": built for ABI 2"})
    BOOST_TEST(contains(text, part), part << "\n is not in\n" << text);
}

BOOST_AUTO_TEST_CASE(a_plugin_that_appears_later_is_found) {
  TemporaryFolder folder;
  Config config = search_in(folder.path());
  ScopedConfig scoped(config);
  BOOST_CHECK_THROW(device("STREAMS"), DeviceError);
  fs::copy_file(plugin_file("streams"), folder / "libtolk-backend-streams.so");
  chmod((folder / "libtolk-backend-streams.so").c_str(), 0644);
  BOOST_TEST(device("STREAMS").name() == "STREAMS");
}

BOOST_AUTO_TEST_CASE(test_only_plugins_are_never_the_default) {
  Config config = search_in(plugin_folder("basic"));
  ScopedConfig scoped(config);
  std::string text = message_of<DeviceError>([] { default_device(); });
  BOOST_TEST(contains(text, "no device is usable by default"), text);
  config.device = "null:3,NULL";
  ScopedConfig named(config);
  BOOST_TEST(default_device() == "NULL:3");
  BOOST_TEST(default_devices().size() == 2u);
}

// The body of the test below, in a program that lies where libtolk would.
BOOST_AUTO_TEST_CASE(print_the_default_device, *boost::unit_test::disabled()) {
  std::ofstream(environment("TOLK_TEST_OUT")) << default_device();
}

BOOST_AUTO_TEST_CASE(the_default_device_is_one_of_the_plugins_beside_libtolk) {
  TemporaryFolder folder, elsewhere;
  const std::string program = folder / "program", beside = folder / "tolk/plugins", out = folder / "out";
  fs::copy_file("/proc/self/exe", program);
  fs::create_directories(beside);
  auto install = [](const std::string& plugin, const std::string& to) {
    const std::string file = to + "/libtolk-backend-" + plugin + ".so";
    fs::copy_file(plugin_file(plugin), file);
    chmod(file.c_str(), 0644);
  };
  // The default device that the program finds with this path for plugins; empty when there is none.
  auto chosen = [&](const std::string& path) {
    fs::remove(out);
    const std::string command = "env -u DEVICE -u TOLK_LAYERS TOLK_NO_USER_PLUGINS=1 TOLK_TEST_OUT=" + out +
                                " TOLK_PLUGIN_PATH=" + path + " " + program +
                                " --run_test=print_the_default_device >/dev/null 2>&1";
    (void)!std::system(command.c_str()); // NOLINT(concurrency-mt-unsafe): no other thread
    return read_file(out);
  };
  BOOST_TEST(chosen("").empty());
  install("basic", beside); // its stamp has no priority
  BOOST_TEST(chosen("").empty());
  install("first", elsewhere.path());
  BOOST_TEST(chosen(elsewhere.path()).empty()); // a priority counts only beside libtolk
  install("second", beside);
  BOOST_TEST(chosen(elsewhere.path()) == "SECOND");
  BOOST_TEST(chosen(beside) == "SECOND"); // the folder counts, not how it was found
  install("first", beside);
  BOOST_TEST(chosen("") == "FIRST");
  // A name that another file takes is not used without being named.
  BOOST_TEST(chosen(elsewhere.path()) == "SECOND");
}

BOOST_AUTO_TEST_CASE(the_report_has_every_candidate_with_its_reason) {
  Config config = search_in(std::string(TOLK_PLUGIN_FOLDER) + ":" + plugin_folder("basic") + ":" +
                            plugin_folder("minor"));
  ScopedConfig scoped(config);
  PluginReport report = discover();
  bool null = false, minor = false;
  for (const PluginEntry& p : report.plugins) {
    if (p.path == null_plugin_file()) {
      null = true;
      BOOST_TEST((p.state == CandidateState::Loaded));
      BOOST_REQUIRE(p.devices.size() == 1u);
      BOOST_TEST(p.devices[0].name == "NULL");
      BOOST_TEST(p.test_only);
    }
    if (p.path == plugin_file("minor")) {
      minor = true;
      BOOST_TEST((p.state == CandidateState::Minor));
    }
  }
  BOOST_TEST(null);
  BOOST_TEST(minor);
  std::string brief = format_report(report, false), verbose = format_report(report, true);
  BOOST_TEST(contains(brief, "skipped, see -v"), brief);
  BOOST_TEST(!contains(brief, "needs ABI 1.7"));
  BOOST_TEST(contains(verbose, plugin_file("minor") + "  skipped (minor): needs ABI 1.7"), verbose);
  auto json = nlohmann::json::parse(format_report_json(report));
  BOOST_TEST(json.at("plugins").size() == report.plugins.size());
  BOOST_TEST(json.at("directories").size() == report.directories.size());
}

BOOST_AUTO_TEST_CASE(a_file_given_by_the_user_is_loaded_or_its_reason_thrown) {
  BOOST_TEST(load_plugin_file(plugin_file("long_table")) == "LONG");
  BOOST_TEST(load_plugin_file(plugin_file("long_table")) == "LONG");
  std::string text = message_of<PluginError>([] { load_plugin_file(plugin_file("null_launch")); });
  BOOST_TEST(contains(text, "launch is NULL (mandatory)"), text);
  text = message_of<PluginError>([] { load_plugin_file("/no/such/file.so"); });
  BOOST_TEST(contains(text, "No such file"), text);
  text = message_of<DeviceError>([] { device("LONG"); });
  BOOST_TEST(contains(text, "finds no device"), text);
}

BOOST_AUTO_TEST_CASE(plugin_options_need_a_name_and_a_key) {
  BOOST_CHECK_THROW(set_plugin_option("threads", "2"), InvalidArgument);
  BOOST_CHECK_THROW(set_plugin_option(".threads", "2"), InvalidArgument);
  BOOST_CHECK_THROW(set_plugin_option("CPU.", "2"), InvalidArgument);
}

BOOST_AUTO_TEST_CASE(host_and_disk) {
  BOOST_TEST(&device("HOST") == &host_device());
  BOOST_TEST(host_device().is_host());
  BOOST_CHECK_THROW(device("DISK:/tmp/x"), DeviceError);
}

BOOST_AUTO_TEST_CASE(a_forked_child_is_refused_and_calls_no_plugin) {
  Config config = search_in(TOLK_PLUGIN_FOLDER);
  ScopedConfig scoped(config);
  BufferRef buffer = make_buffer(device("NULL"), DType::U8, 10);
  buffer->allocate();
  pid_t child = fork();
  if (child == 0) {
    int bad = 0;
    std::string text = message_of<DeviceError>([] { device("NULL"); });
    bad += !contains(text, "initialised before fork");
    text = message_of<DeviceError>([&] { buffer->copy_in(std::vector<std::byte>(10)); });
    bad += !contains(text, "initialised before fork");
    buffer.reset(); // must not reach the plugin
    _exit(bad);
  }
  int status = 0;
  BOOST_REQUIRE(waitpid(child, &status, 0) == child);
  BOOST_TEST(status == 0);
  buffer->copy_in(std::vector<std::byte>(10)); // the parent goes on
}

BOOST_AUTO_TEST_CASE(options_that_nobody_asks_for_are_named) {
  ScopedConfig scoped(search_in(plugin_folder("basic")));
  set_plugin_option("NoSuch.Limit", "1");
  set_plugin_option("basic.limt", "1");
  set_plugin_option("basic.limit", "1000000");
  make_buffer(device("BASIC"), DType::U8, 16)->allocate(); // asks for the limit
  PluginReport report = discover();
  std::string all;
  for (const std::string& problem : report.option_problems) all += problem + "\n";
  BOOST_TEST(report.option_problems.size() == 2u, all);
  BOOST_TEST(
      contains(all, "the plugin option NOSUCH.limit does nothing: there is no plugin NOSUCH; there are "));
  BOOST_TEST(contains(
      all, "the plugin option BASIC.limt does nothing: BASIC has not asked for it; what it asked for is "
           "limit\n"));
  BOOST_TEST(contains(format_report(report, true), "Plugin options:\n  the plugin option BASIC.limt"));
  BOOST_TEST(!contains(format_report(report, false), "limt"));
  BOOST_TEST(contains(format_report_json(report), "BASIC.limt"));
}
