#include "run_model.h"

#include <memory>
#include <utility>

#include "tolk/base/config.h"
#include "tolk/base/log.h"
#include "tolk/device/registry.h"

namespace tolk::run {

void set_up_devices(const Options& options) {
  for (const auto& [key, value] : options.plugin_options) set_plugin_option(key, value);
  for (const std::string& file : options.plugins) load_plugin_file(file);
}

Loader engine_loader(const Options& options, Progress& progress) {
  return [&options, &progress](const std::string& path) {
    onnx::LoadOptions load;
    load.device = options.device;
    load.dims = options.dims;
    load.shapes = options.shapes;
    load.progress = [&progress](std::string_view stage, size_t done, size_t total) {
      progress.update(stage, done, total);
    };
    auto model = std::make_shared<onnx::Model>(onnx::Model::load(path, std::move(load)));
    LoadedModel loaded;
    loaded.inputs = model->inputs();
    loaded.outputs = model->outputs();
    loaded.device = model->device();
    loaded.timings = [model] { return model->timings(); };
    loaded.run = [model, &progress](const std::vector<io::NamedValue>& inputs) {
      std::map<std::string, io::Value> values;
      for (const io::NamedValue& input : inputs) values.insert_or_assign(input.name, input.value);
      std::vector<io::Value> results = model->run(values);
      progress.clear();
      std::vector<io::NamedValue> named;
      for (size_t i = 0; i < results.size(); ++i)
        named.push_back({model->outputs()[i].name, std::move(results[i])});
      return named;
    };
    return loaded;
  };
}

void warn_unknown_variables() {
  std::vector<std::string> plugins;
  for (const PluginCandidate& candidate : search_plugins({}).candidates) plugins.push_back(candidate.name);
  for (const std::string& text : unknown_variables(plugins))
    log::warning("the environment sets something unknown: " + text);
}

void shut_down() { shutdown_devices(); }

} // namespace tolk::run
