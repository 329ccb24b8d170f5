// TOLK_LAYERS over whole runs: programs of the Tensor library break no rule of the plugin interface, give the
// same bytes, and can be replayed from a recording in another process.
//
// The work is done by children of this program, since layers are put in once, when a plugin is loaded.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "tolk/base/config.h"
#include "tolk/device/registry.h"
#include "tolk/device/replay.h"
#include "tolk/layers/layers.h"
#include "tolk/tensor/tensor.h"

using namespace tolk;

namespace {

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Runs the hidden test case `child` with these variables; its output goes to `log`. Gives its exit status.
int run(const std::string& child, const std::string& variables, const std::string& log) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string command =
      variables + " '" + self + "' --run_test=" + child + " --log_level=error > '" + log + "' 2>&1";
  return std::system(command.c_str()); // NOLINT(concurrency-mt-unsafe, cert-env33-c): one thread
}

struct Folder {
  std::string path;
  Folder() {
    path = (std::filesystem::temp_directory_path() / "tolk-layers-XXXXXX").string();
    BOOST_REQUIRE(mkdtemp(path.data()));
  }
  ~Folder() { std::filesystem::remove_all(path); }
};

} // namespace

BOOST_AUTO_TEST_CASE(work_child, *boost::unit_test::disabled()) {
  std::vector<float> a(64 * 48), b(48 * 32);
  for (size_t i = 0; i < a.size(); i++) a[i] = static_cast<float>(static_cast<int>(i * 7 % 23) - 11) / 8;
  for (size_t i = 0; i < b.size(); i++) b[i] = static_cast<float>(static_cast<int>(i * 5 % 19) - 9) / 4;
  Tensor x = Tensor::from(a, {64, 48}), y = Tensor::from(b, {48, 32});
  std::ofstream out(environment("TOLK_TEST_OUT"), std::ios::binary);
  auto write = [&](const Tensor& t) {
    const std::vector<float> values = t.values<float>();
    out.write(reinterpret_cast<const char*>(values.data()),
              static_cast<std::streamsize>(values.size() * sizeof(float)));
  };
  Tensor product = x.matmul(y);
  write(product);
  write(product.softmax());
  for (int round = 0; round < 3; round++) { // storage is used again
    Tensor next = (product * product + Tensor::ones({64, 32})).sqrt().sum({0}, true);
    write(next);
  }
  out.close();
  BOOST_TEST(take_layer_violations().empty());
  shutdown_devices();
  BOOST_TEST(take_layer_violations().empty());
}

BOOST_AUTO_TEST_CASE(replay_child, *boost::unit_test::disabled()) {
  Replay replay = replay_recording(environment("TOLK_TEST_RECORDING"), device(environment("DEVICE")));
  BOOST_TEST(replay.different == 0u, replay.first_difference);
  BOOST_TEST(replay.compared >= 5u);
  BOOST_TEST(replay.calls > 20u);
}

BOOST_DATA_TEST_CASE(runs_keep_the_rules_and_can_be_repeated,
                     boost::unit_test::data::make({std::string("CPU"), std::string("INTERP")}), name) {
  Folder folder;
  const std::string base = "DEVICE=" + name + " TOLK_TEST_OUT='" + folder.path + "/";
  const std::string recording = folder.path + "/run.rec", log = folder.path + "/log";
  BOOST_TEST(run("work_child", base + "plain' TOLK_LAYERS=", log) == 0, read(log));
  BOOST_TEST(
      run("work_child",
          base + "layers' TOLK_LAYERS='validate,trace=" + folder.path + "/trace,record=" + recording + "'",
          log) == 0,
      read(log));
  BOOST_TEST(read(log).find("validate:") == std::string::npos, read(log));
  const std::string plain = read(folder.path + "/plain");
  BOOST_TEST_REQUIRE(plain.size() > 10'000u);
  BOOST_TEST((read(folder.path + "/layers") == plain));
  BOOST_TEST(read(folder.path + "/trace").find(name + " program.launch(") != std::string::npos);
  BOOST_TEST(run("replay_child",
                 "DEVICE=" + name + " TOLK_LAYERS=validate TOLK_TEST_RECORDING='" + recording + "'",
                 log) == 0,
             read(log));
  BOOST_TEST(read(log).find("validate:") == std::string::npos, read(log));
}
