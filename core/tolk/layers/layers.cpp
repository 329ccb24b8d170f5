#include "tolk/layers/layers.h"

#include <algorithm>
#include <array>
#include <exception>
#include <filesystem>
#include <mutex>

#include "tolk/base/error.h"
#include "tolk/base/log.h"
#include "tolk/layers/layer.h"
#include "tolk/layers/watched_host.h"
#include "tolk/loader/clamp.h"
#include "tolk/loader/plugin_loader.h"

namespace tolk {
namespace {

// The functions of the interface have no argument that says which plugin is meant, and a handle is the
// plugin's secret. So every wrapped plugin has a set of functions of its own, made by the compiler.
constexpr size_t kSlots = 16;
std::array<Layer*, kSlots> slots{};
std::array<bool, kSlots> taken{};
std::mutex slots_mutex;

// The innermost layer: the plugin as it was loaded, missing entries filled in by the host.
class PluginCalls : public Layer {
public:
  explicit PluginCalls(const PluginTables& tables) : t_(tables) { t_.relink_tables(); }

#define TOLK_ENTRY(table, slot, entry, need, since, otherwise, result, parameters, arguments)                \
  result table##_##entry parameters override { return t_.TOLK_TABLE_##table.entry arguments; }
#include <tolk/plugin/entries.def>
#undef TOLK_ENTRY

private:
  PluginTables t_;
};

template <size_t S> struct Entrance {
#define TOLK_ENTRY(table, slot, entry, need, since, otherwise, result, parameters, arguments)                \
  static result table##_##entry parameters { return slots[S]->table##_##entry arguments; }
#include <tolk/plugin/entries.def>
#undef TOLK_ENTRY

  static void put(PluginTables& t) {
#define TOLK_ENTRY(table, slot, entry, need, since, otherwise, result, parameters, arguments)                \
  t.TOLK_TABLE_##table.entry = &Entrance::table##_##entry;
#include <tolk/plugin/entries.def>
#undef TOLK_ENTRY
  }
};

template <size_t... S> void put_entrance(size_t slot, PluginTables& t, std::index_sequence<S...>) {
  using Put = void (*)(PluginTables&);
  static constexpr Put all[] = {&Entrance<S>::put...};
  all[slot](t);
}

// Frees the slot and its layers; the plugin's tables are gone by then.
struct SlotOwner {
  size_t slot;
  std::unique_ptr<Layer> outermost;
  ~SlotOwner() {
    std::lock_guard lock(slots_mutex);
    slots[slot] = nullptr;
    taken[slot] = false;
  }
};

size_t take_slot() {
  std::lock_guard lock(slots_mutex);
  for (size_t i = 0; i < kSlots; i++)
    if (!taken[i]) {
      taken[i] = true;
      return i;
    }
  return kSlots;
}

struct Known {
  std::string_view name;
  enum { None, Optional, Required } file;
};
constexpr Known kLayers[] = {
    {"validate", Known::None}, {"trace", Known::Optional}, {"record", Known::Required}};
constexpr std::string_view kLayerList = "validate, trace, trace=FILE, record=FILE";

bool has_layer(const std::vector<LayerSetting>& layers, std::string_view name) {
  return std::any_of(layers.begin(), layers.end(), [&](const LayerSetting& l) { return l.name == name; });
}

// Also by other paths: relative ones, links.
bool same_file(const std::string& a, const std::string& b) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  return fs::weakly_canonical(fs::absolute(a, ignored), ignored) ==
             fs::weakly_canonical(fs::absolute(b, ignored), ignored) ||
         fs::equivalent(a, b, ignored);
}

void prepare_host(HostContext& host, const std::vector<LayerSetting>& layers) {
  for (const LayerSetting& layer : layers) {
    if (layer.name == "validate") watch_blobs(host);
    if (layer.name == "trace") open_trace(layer.place);
    if (layer.name == "record") open_recording(layer.place);
  }
}

void wrap(Plugin& plugin, const tolk_plugin* original, const std::vector<LayerSetting>& layers) {
  size_t slot = take_slot();
  if (slot == kSlots) {
    log::warning("TOLK_LAYERS: " + std::to_string(kSlots) + " plugins are wrapped already; " + plugin.name +
                 " stays without layers");
    return;
  }
  auto owner = std::make_shared<SlotOwner>();
  owner->slot = slot;
  LayerSubject subject;
  subject.name = plugin.name;
  subject.host = plugin.host.get();
  subject.has_streams = !plugin.synchronous;
  subject.has_graph = plugin.has_graph;
  subject.device_synchronizes = clamp_copy(original->device).synchronize != nullptr;
  std::unique_ptr<Layer> stack = std::make_unique<PluginCalls>(plugin);
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
    std::unique_ptr<Layer> outer = layer->name == "validate" ? make_validate_layer(subject)
                                   : layer->name == "trace"  ? make_trace_layer(subject, layer->place)
                                                             : make_record_layer(subject, layer->place);
    outer->next = std::move(stack);
    stack = std::move(outer);
  }
  owner->outermost = std::move(stack);
  slots[slot] = owner->outermost.get();
  put_entrance(slot, plugin, std::make_index_sequence<kSlots>());
  plugin.relink_tables();
  plugin.layers = std::move(owner);
}

} // namespace

std::vector<LayerSetting> parse_layers(std::string_view text) {
  std::vector<LayerSetting> layers;
  if (text.empty()) return layers;
  const std::string whole = "TOLK_LAYERS=" + std::string(text) + ": ";
  while (true) {
    size_t comma = text.find(',');
    std::string_view piece = text.substr(0, comma);
    size_t equals = piece.find('=');
    LayerSetting layer{std::string(piece.substr(0, equals)),
                       equals == piece.npos ? "" : std::string(piece.substr(equals + 1))};
    const auto* known = std::find_if(std::begin(kLayers), std::end(kLayers),
                                     [&](const Known& k) { return k.name == layer.name; });
    if (known == std::end(kLayers))
      throw InvalidArgument(whole + "there is no layer \"" + layer.name + "\"; there are " +
                            std::string(kLayerList));
    if (has_layer(layers, layer.name))
      throw InvalidArgument(whole + "the layer " + layer.name + " is named twice");
    if (known->file == Known::None && equals != piece.npos)
      throw InvalidArgument(whole + "the layer " + layer.name + " takes no file; there are " +
                            std::string(kLayerList));
    if (known->file == Known::Required && layer.place.empty())
      throw InvalidArgument(whole + "the layer " + layer.name + " needs a file, as in " + layer.name +
                            "=FILE");
    if (known->file == Known::Optional && equals != piece.npos && layer.place.empty())
      throw InvalidArgument(whole + "the file of the layer " + layer.name + " has no name");
    for (const LayerSetting& other : layers)
      if (!layer.place.empty() && !other.place.empty() && same_file(layer.place, other.place))
        throw InvalidArgument(whole + "the layers " + other.name + " and " + layer.name +
                              " write to one file, " + layer.place + "; name two");
    layers.push_back(std::move(layer));
    if (comma == text.npos) return layers;
    text.remove_prefix(comma + 1);
  }
}

Interposer interposer_of(std::vector<LayerSetting> layers) {
  if (layers.empty()) return {};
  return {[layers](HostContext& host) { prepare_host(host, layers); },
          [layers](Plugin& plugin, const tolk_plugin* original) { wrap(plugin, original, layers); }};
}

const std::vector<LayerRule>& layer_rules() {
  constexpr LayerSide HOST = LayerSide::Host, PLUGIN = LayerSide::Plugin, HINT = LayerSide::Hint;
  static const std::vector<LayerRule> rules = {
#define TOLK_LAYER_RULE(id, side, calls, sentence) {#id, side, calls, sentence},
#include "tolk/layers/rules.def"
#undef TOLK_LAYER_RULE
  };
  return rules;
}

} // namespace tolk
