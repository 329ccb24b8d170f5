// The plugin FAULTY behind the layers of a setting, with a device, a stream, buffers and a kernel, for tests
// that break one rule each.
#pragma once

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "../../plugins/faulty.h"
#include "device_test.h"
#include "tolk/layers/layers.h"
#include "tolk/loader/plugin_host.h"
#include "tolk/loader/plugin_loader.h"
#include "tolk/loader/status.h"

namespace tolk::test {

inline std::unique_ptr<Plugin> load_with_layers(const std::string& file, const std::string& layers) {
  Config config = Config::current();
  config.layers = layers;
  ScopedConfig scoped(config);
  PluginSearch search = search_plugins({file});
  std::unique_ptr<Plugin> plugin =
      load_plugin(search.candidates.front(), interposer_of(parse_layers(Config::current().layers)));
  BOOST_REQUIRE_MESSAGE(plugin, search.candidates.front().reason);
  return plugin;
}

// Rules that some test of this program broke.
inline std::set<std::string>& broken_rules() {
  static std::set<std::string> rules;
  return rules;
}

struct Launch : tolk_launch {
  std::vector<tolk_ref> refs;
  std::vector<uint64_t> slots;
  const tolk_launch* get() {
    buffers = refs.data();
    values = slots.data();
    buffer_count = static_cast<uint32_t>(refs.size());
    value_count = static_cast<uint32_t>(slots.size());
    return this;
  }
};

struct Faulty {
  std::unique_ptr<Plugin> plugin;
  faulty_control* control = nullptr;
  tolk_device *device = nullptr, *second = nullptr;
  tolk_stream *stream = nullptr, *foreign = nullptr;      // of the second device
  tolk_buffer *a = nullptr, *b = nullptr, *far = nullptr; // 256 bytes; far is on the second device
  tolk_program* program = nullptr;
  tolk_kernel* kernel = nullptr;
  tolk_param params[3] = {};
  tolk_source source{};

  explicit Faulty(const std::string& layers = "validate") {
    plugin = load_with_layers(plugin_file("faulty"), layers);
    const void* table = nullptr;
    BOOST_REQUIRE(plugin->table.get_extension(plugin->self, "x.faulty.control", 1, &table) == TOLK_OK);
    control = const_cast<faulty_control*>(static_cast<const faulty_control*>(table));
    *control = {};
    take_layer_violations();
    uint32_t count = 0;
    plugin->table.device_count(plugin->self, &count);
    device = open(0);
    second = open(1);
    BOOST_REQUIRE(plugin->stream.create(device, 0, &stream) == TOLK_OK);
    BOOST_REQUIRE(plugin->stream.create(second, 0, &foreign) == TOLK_OK);
    a = buffer(device);
    b = buffer(device);
    far = buffer(second);
    // add(out u8[16] written, in u8[16], n in 0..9)
    params[0].kind = params[1].kind = TOLK_PARAM_BUFFER;
    params[0].access = TOLK_ACCESS_READ | TOLK_ACCESS_WRITE;
    params[1].access = TOLK_ACCESS_READ;
    params[0].dtype = params[1].dtype = TOLK_DTYPE_U8;
    params[0].count = params[1].count = 16;
    params[2].kind = TOLK_PARAM_VALUE;
    params[2].max = 9;
    source.struct_size = sizeof source;
    source.text = {"add 1", 5};
    source.entry = "k";
    source.options = "";
    source.params = params;
    source.param_count = 3;
    BOOST_REQUIRE(plugin->program.load(device, source.text, &source, &program) == TOLK_OK);
    BOOST_REQUIRE(plugin->program.get_kernel(program, "k", &kernel) == TOLK_OK);
    BOOST_REQUIRE(take_layer_violations().empty());
  }

  ~Faulty() {
    *control = {};
    close();
    take_layer_violations();
  }
  // Destroys everything in the order that the interface wants. What a test left alive stays: the layers
  // refuse to destroy in another one.
  void close() {
    if (!device) return;
    plugin->stream.synchronize(stream, TOLK_FOREVER);
    plugin->stream.synchronize(foreign, TOLK_FOREVER);
    plugin->program.unload(program);
    for (tolk_buffer* one : {a, b, far}) plugin->buffer.destroy(one);
    plugin->stream.destroy(stream);
    plugin->stream.destroy(foreign);
    plugin->device.close(device);
    plugin->device.close(second);
    device = nullptr;
  }
  Faulty(const Faulty&) = delete;
  Faulty& operator=(const Faulty&) = delete;

  void fault(const char* name, const char* place = "", tolk_status answer = TOLK_OK) const {
    std::snprintf(control->fault, sizeof control->fault, "%s", name);
    std::snprintf(control->place, sizeof control->place, "%s", place);
    control->answer = answer;
  }

  // Exactly this rule was broken since the last time; the side of its row is at fault.
  void expect(const std::string& rule) const {
    std::vector<Violation> found = take_layer_violations();
    std::string all;
    for (const Violation& v : found) all += v.text + "\n";
    BOOST_TEST_INFO(all);
    BOOST_TEST_REQUIRE(found.size() == 1u);
    BOOST_TEST(found[0].rule == rule);
    BOOST_TEST(contains(found[0].text, "(validate: " + rule + ")"));
    broken_rules().insert(found[0].rule);
    fault("");
  }
  // The same, of a call that answered `status`.
  void expect(const std::string& rule, tolk_status status) const {
    const auto& rules = layer_rules();
    auto row = std::find_if(rules.begin(), rules.end(), [&](const LayerRule& r) { return r.id == rule; });
    BOOST_REQUIRE(row != rules.end());
    if (row->side != LayerSide::Hint)
      BOOST_TEST(status == (row->side == LayerSide::Host ? TOLK_E_INVALID : TOLK_E_INTERNAL));
    take_error_text(status);
    expect(rule);
  }
  void fine(tolk_status status) const {
    BOOST_TEST(status == TOLK_OK);
    BOOST_TEST(take_layer_violations().empty());
  }

  tolk_device* open(uint32_t index) const {
    tolk_device* made = nullptr;
    BOOST_REQUIRE(plugin->table.device_open(plugin->self, index, &made) == TOLK_OK);
    const tolk_caps* caps = nullptr;
    BOOST_REQUIRE(plugin->device.caps(made, &caps) == TOLK_OK);
    return made;
  }
  static tolk_buffer_desc desc(uint64_t size = 256) {
    tolk_buffer_desc d{};
    d.struct_size = sizeof d;
    d.kind = TOLK_BUFFER_DEVICE;
    d.size = size;
    return d;
  }
  tolk_buffer* buffer(tolk_device* of) const {
    tolk_buffer_desc d = desc();
    tolk_buffer* made = nullptr;
    BOOST_REQUIRE(plugin->buffer.create(of, &d, &made) == TOLK_OK);
    return made;
  }
  Launch args() const {
    Launch l{};
    l.struct_size = sizeof(tolk_launch);
    for (int i = 0; i < 3; i++) l.grid[i] = l.local[i] = 1;
    l.refs = {{a, 0, 16}, {b, 0, 16}};
    l.slots = {0};
    return l;
  }
  tolk_status launch(Launch l) const { return plugin->program.launch(stream, kernel, l.get()); }
  tolk_graph* graph(uint32_t flags = TOLK_GRAPH_UPDATABLE) const {
    tolk_graph* made = nullptr;
    BOOST_REQUIRE(plugin->graph.create(&device, 1, flags, &made) == TOLK_OK);
    return made;
  }
  tolk_status add(tolk_graph* g, Launch l, uint32_t position = 0, std::vector<uint32_t> after = {}) const {
    return plugin->graph.add_kernel(g, position, kernel, l.get(), after.data(),
                                    static_cast<uint32_t>(after.size()));
  }
};

} // namespace tolk::test
