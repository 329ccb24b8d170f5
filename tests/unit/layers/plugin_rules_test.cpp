// TOLK_LAYERS=validate: what it says of a plugin that does one thing wrong.
#include <cfenv>
#include <functional>

#include "faulty_plugin.h"

using namespace tolk;
using namespace tolk::test;

BOOST_AUTO_TEST_CASE(a_status_out_of_place_is_named) {
  Faulty f;
  const auto& t = *f.plugin;
  f.fault("answer", "launch", 77);
  f.expect("status_unknown", f.launch(f.args()));
  f.fault("answer", "launch", -99);
  f.expect("status_unknown", f.launch(f.args()));
  f.fault("answer", "launch", TOLK_NOT_READY);
  f.expect("status_misplaced", f.launch(f.args()));
  f.fault("answer", "synchronize", TOLK_TIMEOUT);
  f.expect("status_misplaced", t.stream.synchronize(f.stream, TOLK_FOREVER));
  f.control->pending = 1;
  BOOST_TEST(t.stream.synchronize(f.stream, 1000) == TOLK_TIMEOUT); // there it belongs
  f.control->pending = 0;
  f.fine(TOLK_OK);
  unsigned char bytes[4] = {};
  for (const char* place : {"copy_in", "copy_out", "launch", "get_kernel", "load", "buffer.create", "caps",
                            "device_open", "device_count"}) {
    f.fault("answer", place, TOLK_E_UNSUPPORTED);
    tolk_kernel* kernel = nullptr;
    tolk_program* program = nullptr;
    tolk_buffer* buffer = nullptr;
    tolk_device* device = nullptr;
    const tolk_caps* caps = nullptr;
    tolk_buffer_desc desc = Faulty::desc();
    uint32_t count = 0;
    const std::string p = place;
    tolk_status status = p == "copy_in"         ? t.stream.copy_in(f.stream, {f.a, 0, 4}, bytes, 0)
                         : p == "copy_out"      ? t.stream.copy_out(f.stream, bytes, {f.a, 0, 4}, 0)
                         : p == "launch"        ? f.launch(f.args())
                         : p == "get_kernel"    ? t.program.get_kernel(f.program, "k", &kernel)
                         : p == "load"          ? t.program.load(f.device, f.source.text, &f.source, &program)
                         : p == "buffer.create" ? t.buffer.create(f.device, &desc, &buffer)
                         : p == "caps"          ? t.device.caps(f.device, &caps)
                         : p == "device_open"   ? t.table.device_open(t.self, 0, &device)
                                                : t.table.device_count(t.self, &count);
    BOOST_TEST_CONTEXT(place) f.expect("mandatory_unsupported", status);
  }
  f.fault("silent");
  tolk_buffer* made = nullptr;
  tolk_buffer_desc desc = Faulty::desc();
  tolk_status status = t.buffer.create(f.device, &desc, &made);
  BOOST_TEST(status == TOLK_E_LIMIT); // a hint changes nothing
  f.expect("error_text", status);
}

BOOST_AUTO_TEST_CASE(a_result_that_breaks_its_rule_is_named) {
  Faulty f;
  const auto& t = *f.plugin;
  tolk_buffer* buffer = nullptr;
  tolk_stream* stream = nullptr;
  tolk_event* event = nullptr;
  tolk_program* program = nullptr;
  tolk_kernel* kernel = nullptr;
  tolk_graph* graph = nullptr;
  tolk_device* device = nullptr;
  const tolk_caps* caps = nullptr;
  const tolk_device_info* info = nullptr;
  const void* table = nullptr;
  tolk_blob* blob = nullptr;
  void* pointer = nullptr;
  tolk_buffer_desc desc = Faulty::desc();
  const std::vector<std::function<tolk_status()>> calls = {
      [&] { return t.buffer.create(f.device, &desc, &buffer); },
      [&] { return t.stream.create(f.device, 0, &stream); },
      [&] { return t.stream.event_create(f.device, 0, &event); },
      [&] { return t.program.load(f.device, f.source.text, &f.source, &program); },
      [&] { return t.graph.create(&f.device, 1, 0, &graph); },
      [&] { return t.table.device_open(t.self, 0, &device); },
      [&] { return t.program.get_kernel(f.program, "k", &kernel); },
      [&] { return t.device.caps(f.device, &caps); },
      [&] { return t.table.device_info(t.self, 0, &info); },
      [&] { return t.buffer.map(f.a, 0, 16, TOLK_MAP_READ, &pointer); },
      [&] { return t.program.disassemble(t.self, {"x", 1}, &blob); },
  };
  for (const auto& call : calls) {
    f.fault("null");
    f.expect("result_null", call());
  }
  f.expect("result_null", t.table.get_extension(t.self, "x.faulty.null", 1, &table));
  // The first of each kind is the one before; give it again.
  for (size_t i = 0; i < 6; i++) {
    if (i == 2 || i == 4) f.fine(calls[i]()); // there is no event and no graph yet
    f.fault("twice");
    BOOST_TEST_CONTEXT(i) f.expect("handle_twice", calls[i]());
  }
  t.stream.event_destroy(event);
  t.graph.destroy(graph);
  f.fault("other kernel");
  f.expect("kernel_changed", t.program.get_kernel(f.program, "k", &kernel));
}

BOOST_AUTO_TEST_CASE(exceptions_and_changed_modes_are_named) {
  Faulty f;
  f.fault("throw", "launch");
  f.expect("exception", f.launch(f.args()));
  f.fault("rounding", "launch");
  f.expect("float_mode", f.launch(f.args()));
  BOOST_TEST(std::fegetround() == FE_TONEAREST); // put back
  const auto& t = *f.plugin;
  uint32_t count = 0;
  f.fault("count");
  f.expect("count_changed", t.table.device_count(t.self, &count));
  f.fine(t.table.rescan(t.self));
  f.fine(t.table.device_count(t.self, &count));
}

BOOST_AUTO_TEST_CASE(capabilities_that_contradict_themselves_are_named) {
  Faulty f;
  const auto& t = *f.plugin;
  for (const char* fault : {"align", "no targets", "dtypes", "kinds", "subgroups", "local", "bytes"}) {
    tolk_device* device = nullptr;
    const tolk_caps* caps = nullptr;
    BOOST_TEST(t.table.device_open(t.self, 0, &device) == TOLK_OK);
    f.fault(fault);
    BOOST_TEST_CONTEXT(fault) f.expect("caps_impossible", t.device.caps(device, &caps));
    t.device.close(device);
  }
  const tolk_caps* caps = nullptr;
  f.fine(t.device.caps(f.device, &caps));
  f.fault("local");
  f.expect("caps_changed", t.device.caps(f.device, &caps));
  // The plugin's record still has the other number when the device is closed.
  tolk_device* device = f.open(0);
  f.fault("local");
  BOOST_TEST(t.device.caps(device, &caps) == TOLK_E_INTERNAL);
  take_layer_violations();
  t.device.close(device);
  f.expect("caps_changed");
  f.fine(t.device.caps(f.device, &caps));
}

BOOST_AUTO_TEST_CASE(a_compiler_that_breaks_its_rules_is_named) {
  Faulty f;
  const auto& t = *f.plugin;
  tolk_blob *binary = nullptr, *log = nullptr;
  const tolk_caps* caps = nullptr;
  f.fine(t.device.caps(f.device, &caps));
  tolk_source s = f.source;
  s.target_index = 1;
  auto compile = [&] { return t.program.compile(t.self, &caps->targets[1], &s, &binary, &log); };
  f.fine(compile());
  BOOST_TEST(take_blob(binary) == "add 1");
  f.fault("no binary");
  f.expect("binary_missing", compile());
  f.fault("failed binary");
  f.expect("binary_missing", compile());
  take_blob(binary);
  f.fault("blob");
  f.expect("blob_foreign", compile());
  BOOST_TEST(binary == nullptr); // nobody may touch it
  f.fault("blob twice");
  f.expect("blob_foreign", compile());
  take_blob(binary);
}

BOOST_AUTO_TEST_CASE(wrong_reports_of_memory_are_named) {
  Faulty f;
  const auto& t = *f.plugin;
  tolk_memory m{};
  m.struct_size = sizeof m;
  f.fine(t.device.memory(f.device, &m));
  f.fault("free");
  f.expect("memory_figures", t.device.memory(f.device, &m));
  f.fault("overrun");
  f.expect("struct_overrun", t.device.memory(f.device, &m));
  f.fault("struct_size");
  f.expect("struct_overrun", t.device.memory(f.device, &m));
  tolk_kernel_info info{};
  info.struct_size = sizeof info;
  f.fault("overrun");
  f.expect("struct_overrun", t.program.kernel_info(f.kernel, &info));
  f.fine(t.program.kernel_info(f.kernel, &info));
  BOOST_TEST(info.code_bytes == 5u);
  void* pointer = nullptr;
  f.fault("pointer");
  f.expect("map_pointer", t.buffer.map(f.a, 0, 16, TOLK_MAP_READ, &pointer));

  alignas(64) static unsigned char bytes[64];
  tolk_buffer_desc d = Faulty::desc(64);
  int released = 0;
  auto release = [](void* arg) { ++*static_cast<int*>(arg); };
  auto import = [&](tolk_buffer** out) {
    return t.buffer.import_handle(f.device, &d, TOLK_HANDLE_HOST_POINTER, reinterpret_cast<uintptr_t>(bytes),
                                  release, &released, out);
  };
  for (const char* fault : {"", "no release", "two releases"}) {
    tolk_buffer* made = nullptr;
    f.fine(import(&made));
    f.fault(fault);
    t.buffer.destroy(made);
    if (*fault) f.expect("release_count");
    BOOST_TEST_CONTEXT(fault) BOOST_TEST(released == 1); // the owner is told once, whatever the plugin does
    released = 0;
  }
  f.fault("early release");
  tolk_buffer* made = nullptr;
  f.expect("release_count", import(&made));
  BOOST_TEST(released == 0);
}

BOOST_AUTO_TEST_CASE(events_and_clocks_that_run_backwards_are_named) {
  Faulty f;
  const auto& t = *f.plugin;
  tolk_event *first = nullptr, *last = nullptr;
  f.fine(t.stream.event_create(f.device, 0, &first));
  f.fine(t.stream.event_create(f.device, 0, &last));
  f.fine(t.stream.event_record(first, f.stream));
  f.fine(t.stream.event_record(last, f.stream));
  f.control->pending = 1;
  BOOST_TEST(t.stream.event_query(first) == TOLK_NOT_READY);
  f.control->pending = 0;
  f.fine(t.stream.event_query(last));
  f.control->pending = 1; // the later one is done, the earlier one says that it is not
  f.expect("event_order", t.stream.event_query(first));
  f.expect("event_order", t.stream.event_sync(last, 0));
  f.control->pending = 0;
  t.stream.event_destroy(first);
  t.stream.event_destroy(last);
  uint64_t device_ns = 0, host_ns = 0;
  f.fine(t.device.clock(f.device, &device_ns, &host_ns));
  f.fault("clock");
  f.expect("clock_backwards", t.device.clock(f.device, &device_ns, &host_ns));
}

BOOST_AUTO_TEST_CASE(a_lost_device_stays_lost) {
  Faulty f;
  f.fault("lose");
  BOOST_TEST(f.launch(f.args()) == TOLK_E_DEVICE_LOST);
  f.fault("forgotten");
  f.expect("lost_forgotten", f.launch(f.args()));
  BOOST_TEST(f.launch(f.args()) == TOLK_E_DEVICE_LOST);
  tolk_buffer* a = f.a;
  f.a = f.buffer(f.device);
  f.plugin->buffer.destroy(a); // nothing is pending on a lost device
  f.fine(TOLK_OK);
}

// Last: the list of rules and the tests belong together.
BOOST_AUTO_TEST_CASE(every_rule_was_broken) {
  for (const LayerRule& rule : layer_rules())
    BOOST_TEST(broken_rules().contains(rule.id), rule.id << " was broken by no test of this program");
  BOOST_TEST(broken_rules().size() == layer_rules().size());
}
