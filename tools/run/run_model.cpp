#include "run_model.h"

#include <memory>
#include <utility>

#include "tolk/base/config.h"
#include "tolk/base/error.h"
#include "tolk/base/log.h"
#include "tolk/device/registry.h"
#include "tolk/onnx/model_saved.h"

namespace tolk::run {
namespace {

std::map<std::string, io::Value> by_name(const std::vector<io::NamedValue>& inputs) {
  std::map<std::string, io::Value> values;
  for (const io::NamedValue& input : inputs) values.insert_or_assign(input.name, input.value);
  return values;
}

// What is the same for a model and its saved form.
template <class AnyModel> LoadedModel launched(std::shared_ptr<AnyModel> model, Progress& progress) {
  LoadedModel loaded;
  loaded.inputs = model->inputs();
  loaded.outputs = model->outputs();
  loaded.device = model->device();
  loaded.timings = [model] { return model->timings(); };
  loaded.run = [model, &progress](const std::vector<io::NamedValue>& inputs) {
    std::vector<io::Value> results = model->run(by_name(inputs));
    progress.clear();
    std::vector<io::NamedValue> named;
    for (size_t i = 0; i < results.size(); ++i)
      named.push_back({model->outputs()[i].name, std::move(results[i])});
    return named;
  };
  return loaded;
}

// A model runs on one device. The first of a list in DEVICE= is for programs that name the others themselves.
void require_one_device(const Options& options) {
  const std::string& text = options.device.empty() ? Config::current().device : options.device;
  if (text.empty()) return;
  std::vector<std::string> named = parse_device_list(text);
  if (named.size() > 1)
    throw InvalidArgument(std::string(options.device.empty() ? "DEVICE=" : "--device ") + text + " names " +
                          std::to_string(named.size()) +
                          " devices, and tolk-run runs a model on one: name one, such as --device " +
                          named[0]);
}

// A saved model is one by its name alone: code must not run because of how a file called model.onnx begins.
bool is_named_saved(const std::string& path) { return path.ends_with(kSavedEnding); }

LoadedModel load_saved(const Options& options, Progress& progress, const std::string& path) {
  if (!options.shapes.empty() || !options.dims.empty())
    throw InvalidArgument(path + " is a saved model: it has the shapes that it was saved with, so --shape "
                                 "and --dim have no meaning; save it again with the shapes you need");
  auto code = options.trust_code ? onnx::SavedCode::Trust : onnx::SavedCode::Ignore;
  return launched(std::make_shared<onnx::SavedModel>(onnx::SavedModel::load(path, options.device, code)),
                  progress);
}

} // namespace

void set_up_devices(const Options& options) {
  for (const auto& [key, value] : options.plugin_options) set_plugin_option(key, value);
  for (const std::string& file : options.plugins) load_plugin_file(file);
}

Loader engine_loader(const Options& options, Progress& progress) {
  return [&options, &progress](const std::string& path) {
    require_one_device(options);
    if (is_named_saved(path)) return load_saved(options, progress, path);
    if (options.trust_code)
      throw InvalidArgument(path + ": --trust-code is about the machine code of saved models (.tolk), and "
                                   "this file is read as an ONNX model");
    onnx::LoadOptions load;
    load.device = options.device;
    load.dims = options.dims;
    load.shapes = options.shapes;
    load.progress = [&progress](std::string_view stage, size_t done, size_t total) {
      progress.update(stage, done, total);
    };
    auto model = std::make_shared<onnx::Model>(onnx::Model::load(path, std::move(load)));
    LoadedModel loaded = launched(model, progress);
    loaded.optional_inputs = model->optional_inputs();
    loaded.save = [model](const std::vector<io::NamedValue>& inputs) { return model->save(by_name(inputs)); };
    return loaded;
  };
}

void warn_unknown_variables() {
  std::vector<std::string> plugins;
  for (const PluginCandidate& candidate : search_plugins({}).candidates) plugins.push_back(candidate.name);
  for (const std::string& text : unknown_variables(plugins))
    log::warning("the environment sets something unknown: " + text);
  for (const std::string& text : idle_variables()) log::warning(text);
}

bool computes_nothing(const std::string& device) { return device == "NULL" || device.starts_with("NULL:"); }

void shut_down() { shutdown_devices(); }

} // namespace tolk::run
