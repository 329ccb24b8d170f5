// Every model and tensor file of the ONNX cases and of the real models is read, and survives damage. The data
// are not part of the project: the tests that lack them are skipped.
#include <cstdlib>
#include <filesystem>

#include "../io/io_fixtures.h"
#include "tolk/base/error.h"
#include "tolk/io/npy.h"
#include "tolk/io/tensor_proto.h"
#include "tolk/onnx/reader.h"

using namespace tolk;
using namespace tolk::onnx;
using namespace tolk::test;
namespace fs = std::filesystem;
namespace utf = boost::unit_test;

namespace {

std::string shared(const std::string& name) {
  const char* root = std::getenv("TOLK_SHARED_DIR");
  return root ? std::string(root) + "/" + name : std::string();
}

const std::string kDebianCases = "/usr/include/onnx/backend/test/data";

boost::test_tools::assertion_result present(const std::string& path) {
  boost::test_tools::assertion_result result(!path.empty() && fs::exists(path));
  if (!result) result.message() << "the data are not here: " << path;
  return result;
}
boost::test_tools::assertion_result has_cases(utf::test_unit_id) {
  return present(shared("onnx/cases.tar.xz"));
}
boost::test_tools::assertion_result has_models(utf::test_unit_id) {
  return present(shared("models/models.tar.xz"));
}
boost::test_tools::assertion_result has_debian(utf::test_unit_id) { return present(kDebianCases); }

void unpack(const std::string& archive, const TempDir& to) {
  BOOST_REQUIRE(std::system(("tar -xf '" + archive + "' -C '" + to.file("") + "'").c_str()) == 0);
}

std::vector<fs::path> files_below(const fs::path& root, const std::string& extension) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::recursive_directory_iterator(root))
    if (entry.path().extension() == extension) found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

io::ValueKind kind_of(const Type& type) {
  if (type.kind == Type::Kind::Sequence) return io::ValueKind::Sequence;
  return type.kind == Type::Kind::Optional ? io::ValueKind::Optional : io::ValueKind::Tensor;
}

// Reads a case's model and the values of its sets; gives the number of values.
int read_case(const fs::path& model_path) {
  ModelFile m = read_model(model_path.string());
  BOOST_TEST(!m.graph.nodes.empty());
  int values = 0;
  for (const auto& set : fs::directory_iterator(model_path.parent_path())) {
    if (!set.is_directory()) continue;
    for (const auto& file : fs::directory_iterator(set.path())) {
      std::string name = file.path().stem();
      size_t index = std::stoul(name.substr(name.find('_') + 1));
      const auto& list = name.starts_with("input") ? m.graph.inputs : m.graph.outputs;
      BOOST_REQUIRE(index < list.size());
      const Type& type = list[index].type;
      io::NamedValue v = io::read_value_pb(file.path(), kind_of(type));
      bool plain = type.kind == Type::Kind::Tensor && type.dtype;
      // The suite node-1.12 stores bf16 as its bits.
      if (plain && !(type.dtype == DType::BF16 && v.value.tensor.dtype == DType::U16))
        BOOST_TEST(io::type_name(v.value.tensor) == std::string(tolk::name(*type.dtype)), file.path());
      ++values;
    }
  }
  return values;
}

// Damages a model in seeded ways; each mutant must be read or refused with file and place, in bounded
// memory; ctest's timeout ends a reader that hangs.
void damage(const std::string& original, uint32_t seeds) {
  TempDir dir;
  MemoryLimit limit(uint64_t{512} << 20);
  for (uint32_t seed = 0; seed < seeds; ++seed) {
    std::string mutant = damaged(original, seed);
    BOOST_TEST_CONTEXT("seed " << seed) {
      try {
        parse_model(bytes_of(mutant), dir.file("d.onnx"), nullptr);
      } catch (const FormatError& error) {
        BOOST_REQUIRE(std::string(error.what()).find("d.onnx") != std::string::npos);
      } catch (const ImportError& error) {
        BOOST_REQUIRE(std::string(error.what()).find("d.onnx") != std::string::npos);
      }
    }
  }
}

} // namespace

BOOST_AUTO_TEST_SUITE(corpus)

BOOST_AUTO_TEST_CASE(all_onnx_cases_are_read, *utf::precondition(has_cases)) {
  TempDir dir;
  unpack(shared("onnx/cases.tar.xz"), dir);
  int models = 0, values = 0;
  for (const fs::path& path : files_below(dir.file(""), ".onnx")) {
    BOOST_TEST_CONTEXT(path) values += read_case(path);
    ++models;
  }
  BOOST_TEST(models == 1648);
  BOOST_TEST(values == 5380);
}

BOOST_AUTO_TEST_CASE(debians_onnx_cases_are_read, *utf::precondition(has_debian)) {
  int models = 0;
  for (const fs::path& path : files_below(kDebianCases + "/simple", ".onnx")) {
    BOOST_TEST_CONTEXT(path) read_case(path);
    ++models;
  }
  BOOST_TEST(models > 10);
}

BOOST_AUTO_TEST_CASE(the_real_models_are_read_and_survive_damage, *utf::precondition(has_models)) {
  TempDir dir;
  unpack(shared("models/models.tar.xz"), dir);
  std::vector<fs::path> models = files_below(dir.file(""), ".onnx");
  BOOST_TEST(models.size() == 5u);
  for (const fs::path& path : files_below(dir.file(""), ".npy"))
    BOOST_TEST_CONTEXT(path) BOOST_TEST(io::read_npy(path).count() > 0u);
  for (const fs::path& path : models) {
    ModelFile m = read_model(path);
    BOOST_TEST(m.graph.nodes.size() > 1u, path);
    BOOST_TEST(!m.graph.free_inputs().empty(), path);
    damage(slurp(path), kSanitized ? 60 : 400);
  }
}

BOOST_AUTO_TEST_SUITE_END()
