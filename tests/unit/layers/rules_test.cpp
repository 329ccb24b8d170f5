// TOLK_LAYERS: the setting; and validate, each rule broken once. host rules by calls that break them, plugin
// rules by FAULTY doing one thing wrong.
#include <thread>

#include "faulty_plugin.h"
#include "tolk/base/error.h"
#include "tolk/device/buffer.h"
#include "tolk/device/program.h"

using namespace tolk;
using namespace tolk::test;

BOOST_AUTO_TEST_CASE(the_setting_names_layers_in_order) {
  BOOST_TEST(parse_layers("").empty());
  std::vector<LayerSetting> layers = parse_layers("validate,trace=/x/t.txt,record=r.rec");
  BOOST_TEST_REQUIRE(layers.size() == 3u);
  BOOST_TEST(layers[0].name == "validate");
  BOOST_TEST(layers[1].place == "/x/t.txt");
  BOOST_TEST(layers[2].place == "r.rec");
  for (const char* text :
       {"validat", "validate,", ",", "validate,validate", "record", "record=", "validate=x", "trace="})
    BOOST_CHECK_THROW(parse_layers(text), InvalidArgument);
  std::string unknown = message_of<InvalidArgument>([] { parse_layers("validate,traces"); });
  BOOST_TEST(
      contains(unknown, "there is no layer \"traces\"; there are validate, trace, trace=FILE, record=FILE"));
  BOOST_TEST(contains(message_of<InvalidArgument>([] { parse_layers("trace=x,record=x"); }),
                      "the layers trace and record write to one file, x; name two"));
  BOOST_CHECK_THROW(parse_layers("record=./y/../x,validate,trace=x"), InvalidArgument);
  TemporaryFolder folder;
  write_file(folder / "file", "");
  std::filesystem::create_hard_link(folder / "file", folder / "other");
  BOOST_CHECK_THROW(parse_layers("trace=" + (folder / "file") + ",record=" + (folder / "other")),
                    InvalidArgument);
  BOOST_CHECK_THROW(load_with_layers(plugin_file("faulty"), "nonsense"), InvalidArgument);
  BOOST_CHECK_THROW(load_with_layers(plugin_file("faulty"), "trace=/no/such/folder/t"), DeviceError);
  BOOST_CHECK_THROW(load_with_layers(plugin_file("faulty"), "record=/no/such/folder/r"), DeviceError);
}

BOOST_AUTO_TEST_CASE(without_layers_the_tables_hold_the_plugins_own_functions) {
  std::unique_ptr<Plugin> plain = load_with_layers(plugin_file("faulty"), "");
  BOOST_TEST(!plain->layers);
  auto* launch = plain->program.launch;
  std::unique_ptr<Plugin> wrapped = load_with_layers(plugin_file("faulty"), "validate");
  BOOST_TEST((wrapped->program.launch != launch));
  BOOST_TEST((load_with_layers(plugin_file("faulty"), "")->program.launch == launch));
}

BOOST_AUTO_TEST_CASE(handles_reach_the_plugin_as_they_are_and_work_goes_on) {
  Faulty f("validate,trace=/dev/null");
  std::vector<unsigned char> in(16, 3), out(16);
  f.fine(f.plugin->stream.copy_in(f.stream, {f.a, 16, 16}, in.data(), 0));
  Launch l = f.args();
  l.refs[0].offset = 16;
  l.slots[0] = 4;
  f.fine(f.launch(l));
  f.fine(f.plugin->stream.copy_out(f.stream, out.data(), {f.a, 16, 16}, 0));
  BOOST_TEST((out == std::vector<unsigned char>(16, 8)));
}

BOOST_AUTO_TEST_CASE(a_graph_on_two_devices_is_complete_when_one_stream_is_past_it) {
  Faulty f;
  const auto& t = *f.plugin;
  tolk_device* devices[2] = {f.device, f.second};
  tolk_stream* streams[2] = {f.stream, f.foreign};
  tolk_graph* g = nullptr;
  f.fine(t.graph.create(devices, 2, 0, &g));
  f.fine(f.add(g, f.args()));
  f.fine(t.graph.commit(g));
  f.fine(t.graph.launch(g, streams, nullptr));
  f.fine(t.stream.synchronize(f.foreign, TOLK_FOREVER));
  t.graph.destroy(g);
  t.buffer.destroy(f.a);
  f.a = nullptr;
  BOOST_TEST(take_layer_violations().empty());
}

BOOST_AUTO_TEST_CASE(a_broken_rule_is_an_error_of_its_side) {
  Faulty f;
  Launch l = f.args();
  l.slots.clear();
  std::string text = message_of<InternalError>([&] { check_status(f.launch(l), "FAULTY", "launch of k"); });
  BOOST_TEST(contains(text, "program.launch: tolk broke the rule that as many buffers and values are given"));
  BOOST_TEST(contains(text, "k takes 2 buffers and 1 values, got 2 and 0"));
  f.fault("answer", "launch", TOLK_E_UNSUPPORTED);
  BOOST_CHECK_THROW(check_status(f.launch(f.args()), "FAULTY", "launch of k"), PluginError);
  take_layer_violations();
  f.fault("answer", "launch", TOLK_E_LIMIT); // no rule is broken: the plugin's own sentence stands
  BOOST_TEST(contains(message_of<DeviceError>([&] { check_status(f.launch(f.args()), "FAULTY", "x"); }),
                      "as the test wants it (TOLK_E_LIMIT)"));
  f.fine(TOLK_OK);
}

// --- the host's side ---

BOOST_AUTO_TEST_CASE(a_wrong_handle_is_named) {
  Faulty f;
  char byte = 0;
  const auto& t = *f.plugin;
  f.expect("handle_null", t.stream.copy_out(f.stream, &byte, {nullptr, 0, 4}, 0));
  auto* strange = reinterpret_cast<tolk_buffer*>(&byte);
  f.expect("handle_unknown", t.stream.copy_out(f.stream, &byte, {strange, 0, 4}, 0));
  tolk_buffer* gone = f.buffer(f.device);
  t.buffer.destroy(gone);
  BOOST_TEST(f.control->destroyed == 1u);
  f.expect("handle_destroyed", t.stream.copy_out(f.stream, &byte, {gone, 0, 4}, 0));
  t.buffer.destroy(gone); // must not reach the plugin
  f.expect("handle_destroyed");
  BOOST_TEST(f.control->destroyed == 1u);
  tolk_event* event = nullptr;
  t.stream.event_create(f.device, 0, &event);
  t.stream.event_destroy(event);
  f.expect("handle_destroyed", t.stream.event_query(event));
  f.expect("pointer_null", t.stream.copy_in(f.stream, {f.a, 0, 4}, nullptr, 0));
  tolk_buffer_desc small = Faulty::desc();
  small.struct_size = 8;
  tolk_buffer* made = nullptr;
  f.expect("struct_size", t.buffer.create(f.device, &small, &made));
}

BOOST_AUTO_TEST_CASE(what_is_left_open_or_used_after_shutdown_is_named) {
  std::unique_ptr<Plugin> p = load_with_layers(plugin_file("faulty"), "validate");
  uint32_t count = 0;
  tolk_device* device = nullptr;
  take_layer_violations();
  auto only = [](const char* rule) {
    std::vector<Violation> found = take_layer_violations();
    BOOST_TEST_REQUIRE(found.size() == 1u);
    BOOST_TEST(found[0].rule == rule);
    broken_rules().insert(rule);
  };
  BOOST_TEST(p->table.device_count(p->self, &count) == TOLK_OK);
  BOOST_TEST(p->table.device_open(p->self, count, &device) == TOLK_E_INVALID);
  only("device_index");
  const tolk_device_info* info = nullptr;
  BOOST_TEST(p->table.device_info(p->self, count, &info) == TOLK_E_INVALID);
  only("device_index");
  BOOST_TEST(p->table.device_open(p->self, 0, &device) == TOLK_OK);
  p->table.shutdown(p->self);
  only("shutdown_open");
  tolk_stream* stream = nullptr;
  BOOST_TEST(p->stream.create(device, 0, &stream) == TOLK_OK);
  p->device.close(device);
  only("device_children");
  p->stream.destroy(stream);
  p->device.close(device);
  const void* table = nullptr;
  BOOST_TEST(p->table.get_extension(p->self, "x.faulty.control", 1, &table) == TOLK_OK);
  auto* control = const_cast<faulty_control*>(static_cast<const faulty_control*>(table));
  std::snprintf(control->fault, sizeof control->fault, "leak");
  p->table.shutdown(p->self);
  only("host_memory_left");
  *control = {};
  BOOST_TEST(p->table.device_count(p->self, &count) == TOLK_E_INVALID);
  only("after_shutdown");
}

BOOST_AUTO_TEST_CASE(a_wrong_buffer_description_is_named) {
  Faulty f;
  const auto& t = *f.plugin;
  tolk_buffer* made = nullptr;
  tolk_buffer_desc d = Faulty::desc();
  d.kind = TOLK_BUFFER_UNIFIED;
  f.expect("buffer_kind", t.buffer.create(f.device, &d, &made));
  d = Faulty::desc();
  d.align = 24;
  f.expect("buffer_align", t.buffer.create(f.device, &d, &made));
  d = Faulty::desc((1 << 20) + 1);
  f.expect("buffer_limit", t.buffer.create(f.device, &d, &made));
  void* pointer = nullptr;
  f.expect("map_range", t.buffer.map(f.a, 192, 128, TOLK_MAP_READ, &pointer));
  f.expect("map_range", t.buffer.advise(f.a, UINT64_MAX, 2, 1));
  f.expect("map_access", t.buffer.map(f.a, 0, 64, TOLK_MAP_DISCARD, &pointer));
  f.fine(t.buffer.map(f.a, 64, 64, TOLK_MAP_READ, &pointer));
  f.expect("unmap_pointer", t.buffer.unmap(f.b, pointer));
  f.fine(t.buffer.unmap(f.a, pointer));
  f.expect("unmap_pointer", t.buffer.unmap(f.a, pointer));
  alignas(64) static unsigned char memory[128];
  d = Faulty::desc(64);
  f.expect("import_align",
           t.buffer.import_handle(f.device, &d, TOLK_HANDLE_HOST_POINTER,
                                  reinterpret_cast<uintptr_t>(memory) + 4, nullptr, nullptr, &made));
  f.fine(t.buffer.import_handle(f.device, &d, TOLK_HANDLE_HOST_POINTER, reinterpret_cast<uintptr_t>(memory),
                                nullptr, nullptr, &made));
  f.expect("write_read_only", t.stream.copy_in(f.stream, {made, 0, 4}, memory, 0));
  Launch l = f.args();
  l.refs[0].buffer = made;
  f.expect("write_read_only", f.launch(l));
  t.buffer.destroy(made);
  tolk_buffer* peer = nullptr;
  f.fine(t.buffer.peer_map(f.a, f.second, &peer));
  t.buffer.destroy(f.a);
  f.expect("buffer_peer_order");
  t.buffer.destroy(peer);
  f.fine(TOLK_OK);
}

BOOST_AUTO_TEST_CASE(a_copy_out_of_range_is_named) {
  Faulty f;
  const auto& t = *f.plugin;
  unsigned char bytes[256] = {};
  f.expect("ref_range", t.stream.copy_in(f.stream, {f.a, 200, 100}, bytes, 0));
  f.expect("ref_range", t.stream.copy_out(f.stream, bytes, {f.a, UINT64_MAX - 3, 8}, 0));
  f.expect("copy_align", t.stream.copy_in(f.stream, {f.a, 2, 8}, bytes, 0));
  f.expect("copy_align", t.stream.copy_out(f.stream, bytes, {f.a, 0, 7}, 0));
  f.expect("copy_sizes", t.stream.copy(f.stream, {f.a, 0, 8}, {f.b, 0, 16}));
  f.expect("copy_overlap", t.stream.copy(f.stream, {f.a, 0, 16}, {f.a, 8, 16}));
  f.fine(t.stream.copy(f.stream, {f.a, 0, 16}, {f.a, 16, 16}));
  f.expect("copy_peer", t.stream.copy(f.stream, {f.a, 0, 8}, {f.far, 0, 8}));
  f.control->peer = TOLK_PEER_COPY;
  f.expect("copy_peer", t.stream.copy(f.foreign, {f.a, 0, 8}, {f.far, 0, 8}));
  f.fine(t.stream.copy(f.stream, {f.a, 0, 8}, {f.far, 0, 8}));
  f.expect("fill_pattern", t.stream.fill(f.stream, {f.a, 0, 12}, 1, 8));
  f.expect("fill_pattern", t.stream.fill(f.stream, {f.a, 0, 12}, 1, 3));
  f.expect("stream_missing", t.stream.copy_in(nullptr, {f.a, 0, 8}, bytes, 0));
  f.expect("stream_foreign", t.stream.copy_in(f.foreign, {f.a, 0, 8}, bytes, 0));
  f.fine(t.stream.synchronize(f.stream, TOLK_FOREVER));
}

BOOST_AUTO_TEST_CASE(destroying_what_pending_work_uses_is_named) {
  Faulty f;
  const auto& t = *f.plugin;
  f.fine(f.launch(f.args()));
  tolk_buffer* a = f.a;
  t.buffer.destroy(a);
  f.expect("buffer_pending");
  t.program.unload(f.program);
  f.expect("unload_pending");
  t.stream.destroy(f.stream);
  f.expect("stream_busy");
  // An event, a wait of another stream, and the other stream's end are as good as synchronize.
  tolk_event *event = nullptr, *second = nullptr;
  tolk_stream* other = nullptr;
  f.fine(t.stream.event_create(f.device, 0, &event));
  f.fine(t.stream.event_create(f.device, TOLK_EVENT_TIMING, &second));
  f.fine(t.stream.create(f.device, 0, &other));
  f.fine(t.stream.event_record(event, f.stream));
  f.expect("event_rerecord", t.stream.event_record(event, f.stream));
  uint64_t ns = 0;
  f.expect("event_times", t.stream.event_elapsed(event, second, &ns)); // the first is without TIMING
  f.fine(t.stream.wait(other, event));
  f.fine(t.stream.synchronize(other, TOLK_FOREVER));
  f.fine(t.stream.event_record(event, f.stream)); // it is known to be done
  f.fine(t.stream.event_sync(event, TOLK_FOREVER));
  f.expect("stream_foreign", t.stream.event_record(event, f.foreign));
  t.stream.destroy(other);
  t.stream.event_destroy(event);
  t.stream.event_destroy(second);
  tolk_buffer* late = f.buffer(f.device);
  Launch l = f.args();
  l.refs[0].buffer = late;
  f.fine(f.launch(l));
  f.fine(t.device.synchronize(f.device, TOLK_FOREVER));
  t.buffer.destroy(late);
  f.fine(TOLK_OK);
}

BOOST_AUTO_TEST_CASE(events_are_timed_when_both_can_be) {
  Faulty f;
  const auto& t = *f.plugin;
  tolk_event *first = nullptr, *last = nullptr;
  uint64_t ns = 0;
  f.fine(t.stream.event_create(f.device, TOLK_EVENT_TIMING, &first));
  f.fine(t.stream.event_create(f.device, TOLK_EVENT_TIMING, &last));
  f.expect("event_times", t.stream.event_elapsed(first, last, &ns)); // never recorded
  f.fine(t.stream.event_record(first, f.stream));
  f.fine(t.stream.event_record(last, f.stream));
  f.expect("event_times", t.stream.event_elapsed(first, last, &ns)); // not known to be done
  f.fine(t.stream.event_sync(last, TOLK_FOREVER));
  f.fine(t.stream.event_elapsed(first, last, &ns)); // the earlier one is done when the later one is
  t.stream.event_destroy(first);
  t.stream.event_destroy(last);
}

BOOST_AUTO_TEST_CASE(one_thread_at_a_time) {
  Faulty f;
  f.control->block = 1;
  Launch l = f.args();
  std::thread busy([&] { f.plugin->program.launch(f.stream, f.kernel, l.get()); });
  while (!__atomic_load_n(&f.control->inside, __ATOMIC_SEQ_CST)) std::this_thread::yield();
  tolk_status status = f.plugin->stream.flush(f.stream);
  __atomic_store_n(&f.control->block, 0, __ATOMIC_SEQ_CST);
  busy.join();
  f.expect("stream_threads", status);
  f.fine(f.plugin->stream.synchronize(f.stream, TOLK_FOREVER));
}

BOOST_AUTO_TEST_CASE(one_thread_at_a_time_in_a_graph) {
  Faulty f;
  const auto& t = *f.plugin;
  tolk_graph* g = f.graph();
  f.fine(f.add(g, f.args()));
  f.fine(t.graph.commit(g));
  f.control->block = 1;
  std::thread busy([&] { t.graph.launch(g, &f.stream, nullptr); });
  while (!__atomic_load_n(&f.control->inside, __ATOMIC_SEQ_CST)) std::this_thread::yield();
  tolk_status status = t.graph.update(g, nullptr, 0);
  __atomic_store_n(&f.control->block, 0, __ATOMIC_SEQ_CST);
  busy.join();
  f.expect("graph_threads", status);
  f.fine(t.stream.synchronize(f.stream, TOLK_FOREVER));
  t.graph.destroy(g);
}

BOOST_AUTO_TEST_CASE(wrong_sources_and_programs_are_named) {
  Faulty f;
  const auto& t = *f.plugin;
  tolk_program* made = nullptr;
  tolk_source s = f.source;
  s.target_index = 2;
  f.expect("program_target", t.program.load(f.device, s.text, &s, &made));
  tolk_target strange{};
  strange.struct_size = sizeof strange;
  strange.kind = TOLK_TARGET_SPIRV;
  tolk_blob *binary = nullptr, *log = nullptr;
  f.expect("program_target", t.program.compile(t.self, &strange, &f.source, &binary, &log));
  s = f.source;
  std::swap(f.params[1], f.params[2]);
  f.expect("program_params", t.program.load(f.device, s.text, &s, &made));
  std::swap(f.params[1], f.params[2]);
  s.target_index = 1; // is compiled: the text must be gone
  f.expect("program_text", t.program.load(f.device, {"add 1", 5}, &s, &made));
}

BOOST_AUTO_TEST_CASE(a_launch_with_wrong_arguments_is_named) {
  Faulty f;
  Launch l = f.args();
  l.refs.pop_back();
  f.expect("launch_counts", f.launch(l));
  l = f.args();
  l.grid[1] = 0;
  f.expect("launch_grid", f.launch(l));
  l.grid[1] = 9;
  f.expect("launch_grid", f.launch(l));
  l.grid[0] = 64, l.grid[1] = 4;
  f.expect("launch_grid", f.launch(l));
  l = f.args();
  l.local[0] = 8, l.local[1] = 4;
  f.expect("launch_local", f.launch(l));
  l = f.args();
  l.slots[0] = 10;
  f.expect("launch_value", f.launch(l));
  l.slots[0] = static_cast<uint64_t>(-1);
  f.expect("launch_value", f.launch(l));
  l = f.args();
  l.refs[1].size = 15;
  f.expect("launch_bytes", f.launch(l));
  l = f.args();
  l.refs[1].buffer = f.far;
  f.expect("launch_device", f.launch(l));
  l = f.args();
  l.refs[1] = {f.a, 0, 16};
  f.expect("launch_alias", f.launch(l));
  l.refs[1].offset = 16; // beside each other
  f.fine(f.launch(l));
  l = f.args();
  l.refs[1].offset = 8;
  f.expect("ref_offset", f.launch(l));
  l = f.args();
  f.expect("stream_foreign", f.plugin->program.launch(f.foreign, f.kernel, l.get()));
  // Three buffers are one more than the device takes.
  tolk_param many[3] = {f.params[0], f.params[1], f.params[1]};
  tolk_source s = f.source;
  s.params = many;
  tolk_program* program = nullptr;
  tolk_kernel* kernel = nullptr;
  f.fine(f.plugin->program.load(f.device, s.text, &s, &program));
  f.fine(f.plugin->program.get_kernel(program, "k", &kernel));
  l = f.args();
  l.slots.clear();
  l.refs.push_back({f.b, 32, 16});
  f.expect("launch_limits", f.plugin->program.launch(f.stream, kernel, l.get()));
  f.plugin->program.unload(program);
}

BOOST_AUTO_TEST_CASE(graphs_are_recorded_then_frozen) {
  Faulty f;
  const auto& t = *f.plugin;
  tolk_graph* g = nullptr;
  f.expect("graph_devices", t.graph.create(&f.device, 0, 0, &g));
  g = f.graph();
  f.expect("graph_position", f.add(g, f.args(), 1));
  f.expect("graph_after", f.add(g, f.args(), 0, {0}));
  f.fine(f.add(g, f.args()));
  f.fine(f.add(g, f.args(), 0, {0}));
  tolk_patch patch{};
  f.expect("graph_update_early", t.graph.update(g, &patch, 1));
  f.expect("graph_launch_early", t.graph.launch(g, &f.stream, nullptr));
  f.expect("graph_nodes", t.graph.add_fill(g, 0, {f.a, 0, 16}, 0, 1, nullptr, 0)); // fills are not offered
  f.expect("copy_sizes", t.graph.add_copy(g, 0, {f.a, 0, 16}, {f.b, 0, 32}, nullptr, 0));
  f.fine(t.graph.add_copy(g, 0, {f.a, 0, 16}, {f.b, 0, 16}, nullptr, 0));
  f.expect("graph_nodes", f.add(g, f.args())); // three are the most
  t.buffer.destroy(f.b);
  f.expect("buffer_in_graph");
  t.program.unload(f.program);
  f.expect("unload_in_graph");
  f.fine(t.graph.commit(g));
  f.expect("graph_commit_twice", t.graph.commit(g));
  f.expect("graph_frozen", f.add(g, f.args()));
  f.expect("graph_streams", t.graph.launch(g, &f.foreign, nullptr));
  f.fine(t.graph.launch(g, &f.stream, nullptr));
  uint64_t times[3];
  f.expect("graph_times", t.graph.node_times(g, times, times));
  t.graph.destroy(g);
  f.expect("graph_pending");
  f.fine(t.stream.synchronize(f.stream, TOLK_FOREVER));
  t.graph.destroy(g);
  f.fine(TOLK_OK);
}

BOOST_AUTO_TEST_CASE(a_wrong_patch_of_a_graph_is_named) {
  Faulty f;
  const auto& t = *f.plugin;
  tolk_graph* g = f.graph();
  f.fine(f.add(g, f.args()));
  f.fine(t.graph.add_copy(g, 0, {f.a, 0, 16}, {f.b, 0, 16}, nullptr, 0));
  f.fine(t.graph.commit(g));
  auto patched = [&](void (*set)(tolk_patch*, uint32_t*, tolk_buffer*), tolk_buffer* buffer) {
    tolk_patch patch;
    uint32_t count = 0;
    set(&patch, &count, buffer);
    return t.graph.update(g, &patch, 1);
  };
  f.expect("graph_patch_node",
           patched([](tolk_patch* p, uint32_t* n, tolk_buffer*) { tolk_set_val(p, n, 2, 0, 1); }, nullptr));
  f.expect("graph_patch_index",
           patched([](tolk_patch* p, uint32_t* n, tolk_buffer*) { tolk_set_val(p, n, 0, 1, 1); }, nullptr));
  f.expect(
      "graph_patch_index",
      patched([](tolk_patch* p, uint32_t* n, tolk_buffer* b) { tolk_set_buf(p, n, 1, 2, {b, 0, 16}); }, f.b));
  f.expect("graph_patch_kind",
           patched([](tolk_patch* p, uint32_t* n, tolk_buffer*) { tolk_set_val(p, n, 1, 0, 1); }, nullptr));
  const uint32_t ones[3] = {1, 1, 1};
  tolk_patch sizes;
  uint32_t count = 0;
  tolk_set_dims(&sizes, &count, 0, ones, ones);
  f.expect("graph_patch_kind", t.graph.update(g, &sizes, 1)); // not offered
  f.expect("launch_value",
           patched([](tolk_patch* p, uint32_t* n, tolk_buffer*) { tolk_set_val(p, n, 0, 0, 10); }, nullptr));
  f.expect(
      "launch_bytes",
      patched([](tolk_patch* p, uint32_t* n, tolk_buffer* b) { tolk_set_buf(p, n, 0, 0, {b, 0, 8}); }, f.b));
  // A buffer that was patched out may go once the launches that used it are done.
  tolk_buffer* old = f.buffer(f.device);
  f.fine(
      patched([](tolk_patch* p, uint32_t* n, tolk_buffer* b) { tolk_set_buf(p, n, 0, 0, {b, 0, 16}); }, old));
  f.fine(t.graph.launch(g, &f.stream, nullptr));
  t.buffer.destroy(old);
  f.expect("buffer_pending");
  f.fine(
      patched([](tolk_patch* p, uint32_t* n, tolk_buffer* b) { tolk_set_buf(p, n, 0, 0, {b, 0, 16}); }, f.a));
  f.fine(t.stream.synchronize(f.stream, TOLK_FOREVER));
  t.buffer.destroy(old);
  f.fine(TOLK_OK);
  t.graph.destroy(g);

  g = f.graph(0);
  f.fine(f.add(g, f.args()));
  f.fine(t.graph.commit(g));
  f.expect("graph_not_updatable",
           patched([](tolk_patch* p, uint32_t* n, tolk_buffer*) { tolk_set_val(p, n, 0, 0, 1); }, nullptr));
  t.graph.destroy(g);
}
