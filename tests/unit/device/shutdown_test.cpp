// The ordered end. One test, since nothing can be opened afterwards.
#include <boost/test/unit_test.hpp>

#include <cstdio>
#include <fcntl.h>
#include <unistd.h>

#include "device_test.h"
#include "tolk/base/error.h"
#include "tolk/device/buffer.h"
#include "tolk/device/graph.h"
#include "tolk/device/program.h"

using namespace tolk;
using namespace tolk::test;

BOOST_AUTO_TEST_CASE(shutdown_frees_everything_and_leaves_harmless_shells) {
  Config config = search_in(std::string(TOLK_PLUGIN_FOLDER) + ":" + plugin_folder("basic") + ":" +
                            plugin_folder("streams"));
  ScopedConfig scoped(config);
  for (const char* name : {"BASIC", "STREAMS", "NULL"}) {
    Device& d = device(name);
    BufferRef live = make_buffer(d, DType::U8, 100), view = view_buffer(live, DType::U8, 10, 10);
    live->allocate();
    make_buffer(d, DType::U8, 50)->allocate(); // in the cache
  }
  Device& d = device("STREAMS");
  auto owner = std::make_shared<int>(1);
  std::weak_ptr<int> alive = owner;
  std::vector<std::byte> bytes(64);
  BufferRef imported =
      import_host_memory(device("NULL"), DType::U8, 64, bytes.data(), std::move(owner), true);
  BOOST_REQUIRE(imported);
  BufferRef live = make_buffer(d, DType::U8, 16), host = make_buffer(host_device(), DType::U8, 16);
  live->allocate();
  host->allocate();
  KernelSource source;
  source.text = "add 1";
  source.entry = "k";
  tolk_param p{};
  p.access = TOLK_ACCESS_WRITE;
  source.params = {p};
  ProgramRef program = d.build(source);
  Buffer* args[] = {live.get()};
  program->launch(args, {}, {1, 1, 1}); // still queued
  DeviceGraph host_graph({&d}), null_graph({&device("NULL")});
  null_graph.add_fill(*imported, 0, 1, {});
  for (DeviceGraph* graph : {&host_graph, &null_graph}) graph->commit();

  set_plugin_option("BASIC.limt", "1");
  set_plugin_option("NOSUCH.x", "1");
  TemporaryFolder folder;
  std::fflush(stderr);
  const int saved = dup(2),
            captured = open((folder / "stderr").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  dup2(captured, 2);
  shutdown_devices();
  shutdown_devices();
  std::fflush(stderr);
  dup2(saved, 2);
  close(saved);
  close(captured);
  const std::string warned = read_file(folder / "stderr");
  BOOST_TEST(contains(
      warned, "tolk: warning: the plugin option BASIC.limt does nothing: BASIC has not asked for it"));
  BOOST_TEST(
      contains(warned, "tolk: warning: the plugin option NOSUCH.x does nothing: there is no plugin NOSUCH"));

  BOOST_TEST(!d.alive());
  BOOST_TEST(alive.expired()); // the import was destroyed
  BOOST_CHECK_THROW(program->launch(args, {}, {1, 1, 1}), DeviceError);
  BOOST_CHECK_THROW(host_graph.launch(), DeviceError);
  BOOST_CHECK_THROW(null_graph.launch(), DeviceError);
  BOOST_CHECK_THROW(live->copy_in(std::vector<std::byte>(16)), DeviceError);
  BOOST_CHECK_THROW(device("NULL"), DeviceError);
  BOOST_CHECK_THROW(device("NULL:1"), DeviceError);
  BOOST_TEST(contains(message_of<DeviceError>([] { device("BASIC:1"); }), "shut down"));
  program.reset();
  live.reset();
  host.reset();
  imported.reset();
}
