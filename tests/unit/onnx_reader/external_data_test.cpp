#include <filesystem>

#include "../io/io_fixtures.h"
#include "model_builder.h"
#include "tolk/base/error.h"
#include "tolk/onnx/reader.h"

using namespace tolk;
using namespace tolk::onnx;
using namespace tolk::test;
namespace fs = std::filesystem;

namespace {

// A model with the initializer w f32[2] outside, with these external_data entries.
std::string external(const std::vector<std::pair<std::string, std::string>>& entries) {
  Message w = Message().number(1, 2).number(2, 1).text(8, "w").number(14, 1);
  for (const auto& [key, v] : entries) w.message(13, Message().text(1, key).text(2, v));
  return model(test::graph({{}, {w}, {}, {}, {"w"}})).bytes();
}

const std::string kData("skip\x00\x00\x80\x3f\x00\x00\x00\xc0rest", 16); // 1 and -2 at byte 4

struct Folder : TempDir {
  Folder() {
    fs::create_directories(file("model/weights"));
    fs::create_directories(file("outside"));
    write("model/weights/w.bin", kData);
    write("outside/secret.bin", kData);
  }
  ModelFile load(const std::vector<std::pair<std::string, std::string>>& entries) const {
    return read_model(write("model/m.onnx", external(entries)));
  }
  template <typename E>
  void refused(const std::vector<std::pair<std::string, std::string>>& entries,
               std::initializer_list<const char*> words) const {
    expect_error<E>([&] { load(entries); }, words);
  }
};

} // namespace

BOOST_AUTO_TEST_SUITE(external_data)

BOOST_AUTO_TEST_CASE(a_part_of_a_file_below_the_model_becomes_the_tensor) {
  Folder dir;
  ModelFile m = dir.load({{"location", "weights/w.bin"}, {"offset", "4"}, {"length", "8"}});
  BOOST_TEST(m.graph.initializer("w")->as<float>()[1] == -2.0F);
  // aligned in the file: it stays there, even when the file is replaced
  BOOST_TEST(reinterpret_cast<uintptr_t>(m.graph.initializer("w")->bytes.data()) % 4096 == 4u);
  BOOST_TEST(
      dir.load({{"location", "./weights/w.bin"}, {"offset", "4"}}).graph.initializer("w")->as<float>()[0] ==
      1.0F);
}

BOOST_AUTO_TEST_CASE(a_link_inside_the_folder_is_followed) {
  Folder dir;
  fs::create_symlink("weights/w.bin", dir.file("model/link.bin"));
  BOOST_TEST(dir.load({{"location", "link.bin"}, {"offset", "4"}}).graph.initializer("w")->as<float>()[0] ==
             1.0F);
}

BOOST_AUTO_TEST_CASE(nothing_outside_of_the_models_folder_is_read) {
  Folder dir;
  dir.refused<ImportError>({{"location", "../outside/secret.bin"}},
                           {"m.onnx", "\"w\"", "../outside", "leads out"});
  dir.refused<ImportError>({{"location", "weights/../../outside/secret.bin"}}, {"leads out"});
  dir.refused<ImportError>({{"location", dir.file("outside/secret.bin")}}, {"not relative"});
  fs::create_symlink("../outside/secret.bin", dir.file("model/sly.bin"));
  dir.refused<ImportError>({{"location", "sly.bin"}}, {"link that leads out"});
  fs::create_directory_symlink("../outside", dir.file("model/slydir"));
  dir.refused<ImportError>({{"location", "slydir/secret.bin"}}, {"link that leads out"});
  fs::create_directories(dir.file("model-evil"));
  dir.write("model-evil/w.bin", kData);
  fs::create_symlink("../model-evil/w.bin",
                     dir.file("model/prefix.bin")); // "model" is only a prefix of its folder
  dir.refused<ImportError>({{"location", "prefix.bin"}}, {"link that leads out"});
  dir.refused<ImportError>({{"location", "weights"}}, {"not a regular file"});
  dir.refused<ImportError>({{"location", "none.bin"}}, {"cannot be opened", "No such file"});
}

BOOST_AUTO_TEST_CASE(offsets_and_lengths_are_held_against_the_file) {
  Folder dir;
  auto part = [](const char* offset, const char* length) {
    return std::vector<std::pair<std::string, std::string>>{
        {"location", "weights/w.bin"}, {"offset", offset}, {"length", length}};
  };
  dir.refused<FormatError>(part("12", "8"), {"needs 8 bytes at offset 12", "has 16 bytes"});
  dir.refused<FormatError>(part("18446744073709551615", "8"), {"at offset 18446744073709551615"});
  dir.refused<FormatError>(part("4", "4"), {"needs 8 bytes", "length 4"});
  dir.refused<FormatError>(part("four", "8"), {"offset \"four\"", "number of bytes"});
  dir.refused<FormatError>(part("-4", "8"), {"offset \"-4\""});
  dir.refused<FormatError>(part("99999999999999999999", "8"), {"number of bytes"});
  dir.refused<FormatError>({{"offset", "4"}}, {"no location"});
}

BOOST_AUTO_TEST_SUITE_END()
