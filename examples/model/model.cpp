// Runs an ONNX model that classifies an image, and keeps the compiled model for later processes.
//
//   example_model MODEL.onnx IMAGE.npy [expected class]
#include <cstdio>
#include <cstdlib>

#include "tolk/engine/run/profile.h"
#include "tolk/io/npy.h"
#include "tolk/io/summary.h"
#include "tolk/onnx/model.h"
#include "tolk/onnx/model_saved.h"

using namespace tolk;

static size_t best(const io::HostTensor& scores) {
  size_t at = 0;
  for (size_t i = 1; i < scores.count(); ++i)
    if (io::element_double(scores, i) > io::element_double(scores, at)) at = i;
  return at;
}

int main(int argc, char** argv) {
  if (argc < 3) return std::fprintf(stderr, "usage: example_model MODEL.onnx IMAGE.npy [class]\n"), 2;
  onnx::Model model = onnx::Model::load(argv[1]);
  io::HostTensor image = io::read_npy(argv[2]);
  std::map<std::string, io::Value> inputs = {{model.inputs().at(0).name, image}};
  io::HostTensor scores = model.run(inputs).at(0).tensor;
  std::printf("class %zu: %s\n", best(scores), io::summary_text(scores).c_str());

  engine::Profile profile; // records what any thread runs from here on
  model.run(inputs);
  for (const engine::ProfileEvent& e : profile.events())
    std::printf("%-6s %8.1f us  %s\n", engine::kind_name(e.kind), double(e.end_ns - e.begin_ns) / 1e3,
                e.name.c_str());

  std::string file = model.save(inputs); // no import and no scheduling in the next process
  std::printf("compiled for %s in %zu bytes\n", model.device().c_str(), file.size());
  return argc > 3 && best(scores) != size_t(std::atoi(argv[3])) ? 1 : 0;
}
