// Models in their compiled form: what a file may say, which settings reach it.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <boost/test/unit_test.hpp>

#include "captured_stderr.h"
#include "saved_mutations.h"
#include "tolk/base/config.h"
#include "tolk/base/error.h"
#include "tolk/device/registry.h"
#include "tolk/device/report.h"
#include "tolk/engine/compile/compile_linear.h"
#include "tolk/io/mapped_file.h"
#include "tolk/io/npy.h"
#include "tolk/onnx/model_saved.h"

using namespace tolk;

namespace {

std::string source(const std::string& name) { return std::string(TOLK_SOURCE_DIR "/examples/demo/") + name; }

using Values = std::map<std::string, io::Value>;
Values image() { return {{"image", io::read_npy(source("samples/7.npy"))}}; }

std::string saved_on(const std::string& device) {
  onnx::LoadOptions options;
  options.device = device;
  return onnx::Model::load(source("digits.onnx"), options).save(image());
}

struct File {
  explicit File(const std::string& bytes)
      : path((std::filesystem::temp_directory_path() / ("tolk-saved-model-" + std::to_string(getpid())))
                 .string()) {
    std::ofstream(path, std::ios::binary) << bytes;
  }
  ~File() { std::filesystem::remove(path); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  std::string path;
};

io::HostTensor probabilities(onnx::SavedModel& model) { return model.run(image())[0].tensor; }

Config with(void (*change)(Config&)) {
  Config config = Config::current();
  change(config);
  return config;
}

// As the first process of a user who never compiled these kernels.
Config without_cache(void (*change)(Config&) = [](Config&) {}) {
  engine::clear_caches();
  Config config = with(change);
  config.compile_cache = 0;
  return config;
}

bool has_cpu() { return format_report(discover(), false).find("CPU") != std::string::npos; }

// Memory that a damaged size could ask for fails here instead of bringing the machine down.
void limit_memory() {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  rlimit limit{};
  ::getrlimit(RLIMIT_AS, &limit);
  std::ifstream statm("/proc/self/statm");
  uint64_t pages = 0;
  statm >> pages;
  limit.rlim_cur = pages * uint64_t(::sysconf(_SC_PAGESIZE)) + (uint64_t{1} << 30);
  ::setrlimit(RLIMIT_AS, &limit);
#endif
}

} // namespace

BOOST_AUTO_TEST_CASE(a_setting_that_changes_code_reaches_a_saved_model) {
  for (const char* device : {"INTERP", "CPU"}) {
    if (std::string(device) == "CPU" && !has_cpu()) continue;
    File file(saved_on(device));
    onnx::SavedModel plain = onnx::SavedModel::load(file.path, device);
    BOOST_TEST(plain.compiled() == 0U);
    BOOST_TEST(plain.timings().compile == 0);
    ScopedConfig scope(without_cache([](Config& c) { c.no_opt = 1; }));
    onnx::SavedModel slow = onnx::SavedModel::load(file.path, device);
    BOOST_TEST(slow.compiled() > 0U);
    BOOST_TEST(slow.timings().compile > 0);
    io::HostTensor a = probabilities(plain), b = probabilities(slow);
    BOOST_REQUIRE(a.bytes.size() == b.bytes.size());
    const auto *x = reinterpret_cast<const float*>(a.bytes.data()),
               *y = reinterpret_cast<const float*>(b.bytes.data());
    for (size_t i = 0; i < 10; ++i) BOOST_TEST(std::abs(x[i] - y[i]) < 1e-5);
    // What was saved so needs no compiler for it.
    File unoptimised(saved_on(device));
    BOOST_TEST(onnx::SavedModel::load(unoptimised.path, device).compiled() == 0U);
  }
}

BOOST_AUTO_TEST_CASE(the_code_in_a_file_serves_who_trusts_it) {
  File file(saved_on("INTERP"));
  ScopedConfig scope(without_cache());
  BOOST_TEST(onnx::SavedModel::load(file.path, "INTERP").compiled() > 0U);
  engine::clear_caches();
  onnx::SavedModel trusted = onnx::SavedModel::load(file.path, "INTERP", onnx::SavedCode::Trust);
  BOOST_TEST(trusted.compiled() == 0U);
  BOOST_TEST(probabilities(trusted).bytes.size() == 40U);
}

BOOST_AUTO_TEST_CASE(a_capture_is_no_onnx_model_whatever_its_name) {
  File file(saved_on("INTERP"));
  std::string named = file.path + ".onnx";
  std::filesystem::copy(file.path, named);
  for (const std::string& path : {file.path, named}) try {
      onnx::Model::load(path);
      BOOST_ERROR("it was read");
    } catch (const FormatError& e) {
      BOOST_TEST(std::string(e.what()).find(path + ": this is no ONNX model") == 0, e.what());
    }
  std::filesystem::remove(named);
}

BOOST_AUTO_TEST_CASE(the_choice_of_the_save_stays_where_nothing_asks_for_another) {
  std::string bytes;
  {
    ScopedConfig scope(with([](Config& c) { c.no_opt = 1; }));
    bytes = saved_on("INTERP");
  }
  File file(bytes);
  BOOST_TEST(onnx::SavedModel::load(file.path, "INTERP").compiled() == 0U);
}

BOOST_AUTO_TEST_CASE(another_target_is_compiled_for_or_refused) {
  File file(saved_on("NULL"));
  onnx::SavedModel plain = onnx::SavedModel::load(file.path, "NULL");
  BOOST_TEST(plain.compiled() == 0U);
  std::string other;
  for (const tolk_target& t : device("NULL").targets())
    if (Device::target_name(t) == "kernel-ir") other = Device::target_name(t);
  BOOST_REQUIRE(!other.empty());
  {
    Config config = without_cache();
    config.target = other;
    ScopedConfig scope(config);
    bool first = device("NULL").target_index() == 0;
    onnx::SavedModel model = onnx::SavedModel::load(file.path, "NULL", onnx::SavedCode::Trust);
    BOOST_TEST((model.compiled() == 0U) == first);
  }
  ScopedConfig scope(with([](Config& c) { c.target = "no-such-target"; }));
  try {
    onnx::SavedModel::load(file.path, "NULL");
    BOOST_ERROR("a target that does not exist was ignored");
  } catch (const DeviceError& e) {
    BOOST_TEST(std::string(e.what()).starts_with(file.path + ": TARGET=no-such-target"), e.what());
  }
}

BOOST_AUTO_TEST_CASE(a_setting_of_the_schedule_gives_a_warning) {
  File file(saved_on("INTERP"));
  ScopedConfig scope(with([](Config& c) { c.split_reduce = 0; }));
  std::string text = test::captured_stderr(
      [&] { BOOST_TEST(onnx::SavedModel::load(file.path, "INTERP").compiled() == 0U); });
  BOOST_TEST(text.find("SPLIT_REDUCE=0 does not reach") != std::string::npos, text);
}

BOOST_AUTO_TEST_CASE(validation_checks_every_kernel_of_a_saved_model) {
  File file(saved_on("NULL"));
  ScopedConfig scope(with([](Config& c) { c.validate_with_cpu = 1; }));
  onnx::SavedModel model = onnx::SavedModel::load(file.path, "NULL");
  try {
    model.run(image());
    BOOST_ERROR("a wrong kernel went unnoticed");
  } catch (const DeviceError& e) {
    BOOST_TEST(std::string(e.what()).find("differs from the interpreter") != std::string::npos, e.what());
  }
  if (!has_cpu()) return;
  File right(saved_on("CPU"));
  onnx::SavedModel on_cpu = onnx::SavedModel::load(right.path, "CPU");
  for (int i = 0; i < 2; ++i) BOOST_CHECK_NO_THROW(on_cpu.run(image()));
}

BOOST_AUTO_TEST_CASE(on_another_device_compiling_counts_as_compiling) {
  File file(saved_on("NULL"));
  ScopedConfig scope(without_cache());
  onnx::SavedModel model = onnx::SavedModel::load(file.path, "INTERP");
  BOOST_TEST(model.compiled() > 0U);
  BOOST_TEST(model.timings().compile > 0);
  BOOST_TEST(model.timings().import > 0);
}

BOOST_AUTO_TEST_CASE(what_does_not_agree_with_itself_is_an_error_that_names_the_file) {
  std::string file = saved_on("INTERP");
  (void)onnx::SavedModel::load(File(file).path, "INTERP");
  ScopedConfig scope(without_cache());
  limit_memory();
  test::SavedMutations mutations(file, 20);
  size_t refused = 0, total = 2000;
  for (size_t i = 0; i < total; ++i) {
    test::SavedMutations::Mutation m = mutations.next();
    File damaged(m.file);
    std::string where = std::to_string(i) + ", " + m.what;
    BOOST_TEST_CONTEXT(where) {
      try {
        onnx::SavedModel model = onnx::SavedModel::load(damaged.path, "INTERP");
        if (m.of_code) continue;
        Values values;
        for (const onnx::ValueInfo& input : model.inputs())
          if (input.name == "image") values = image();
        model.run(values);
      } catch (const InternalError& e) {
        BOOST_ERROR("an error of ours: " << e.what());
      } catch (const Error& e) {
        ++refused;
        std::string text = e.what();
        BOOST_TEST(text.find(damaged.path) != std::string::npos, text);
      } catch (const std::exception& e) {
        BOOST_ERROR("no error of tolk: " << e.what());
      }
    }
  }
  BOOST_TEST(refused > total / 3);
}
