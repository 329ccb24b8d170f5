// Profiles: which events known programs give, how they lie in time, and the Chrome trace of them.
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include <nlohmann/json.hpp>

#include "graph_support.h"
#include "other_process.h"
#include "tolk/base/error.h"
#include "tolk/engine/run/profile.h"

using namespace tolk;
using namespace tolk::test;
using engine::Profile;
using engine::ProfileEvent;
using Kind = engine::ProfileEvent::Kind;

namespace {

struct Fresh {
  Fresh() { tb().reset(); }
};

uint64_t now_ns() {
  auto time = std::chrono::steady_clock::now().time_since_epoch();
  return uint64_t(std::chrono::duration_cast<std::chrono::nanoseconds>(time).count());
}

struct Folder {
  std::filesystem::path path;
  Folder() {
    std::string text = (std::filesystem::temp_directory_path() / "tolk-profile-XXXXXX").string();
    BOOST_REQUIRE(mkdtemp(text.data()));
    path = text;
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string operator/(const std::string& name) const { return (path / name).string(); }
};

void run(Device& device, const UOp& list, RunOptions options = {}) {
  BufferBinding binding(device);
  engine::run_linear(binding, list, options);
}

void in_order_of_time(const std::vector<ProfileEvent>& events) {
  for (size_t i = 0; i < events.size(); ++i) {
    BOOST_TEST(events[i].begin_ns <= events[i].end_ns);
    if (i > 0 && !events[i].in_graph) BOOST_TEST(events[i].begin_ns >= events[i - 1].end_ns, "event " << i);
  }
}

// b = a + 1, c = b ^ a, on one device.
struct Two {
  std::string name;
  UOp a, b, c;
  std::vector<UOp> calls;
  explicit Two(std::string on)
      : name(std::move(on)), a(stored(name, ramp(3))), b(storage(name)), c(storage(name)),
        calls{call_of(add_body(1), {b, a}), call_of(xor_body(), {c, b, a})} {}
  void right() const { BOOST_TEST(read(c) == exclusive_or(plus(ramp(3), 1), ramp(3))); }
};

std::vector<std::string> names_of(const UOp& list) {
  std::vector<std::string> out;
  for (const UOp& call : list.src())
    if (call.src(0).is(Op::PROGRAM)) out.push_back(engine::program_entry(call.src(0)).info.name);
  return out;
}

uint64_t storage_id(const UOp& node) { return engine::buffer_of(node)->base_id(); }

std::string text_of(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

} // namespace

BOOST_FIXTURE_TEST_SUITE(profile, Fresh)

BOOST_AUTO_TEST_CASE(calls_give_an_event_each_with_what_they_touch) {
  for (const std::string& name : {tb().open_name(), tb().open_name([](tb_options& o) { o.streams = 1; })}) {
    Device& d = device(name);
    Two two(name);
    UOp copied = storage(name);
    two.calls.push_back(copy_call(copied, two.c));
    UOp list = compiled(d, two.calls);
    const uint64_t before = now_ns();
    std::vector<ProfileEvent> events;
    {
      Profile profile;
      run(d, list);
      events = profile.events();
    }
    const uint64_t after = now_ns();
    run(d, list); // nobody listens
    two.right();
    BOOST_TEST(read(copied) == read(two.c));
    BOOST_TEST_REQUIRE(events.size() == 3u);
    const std::vector<std::string> names = names_of(list);
    for (size_t i = 0; i < 3; ++i) {
      BOOST_TEST(events[i].device == name);
      BOOST_TEST((events[i].kind == (i < 2 ? Kind::Kernel : Kind::Copy)));
      if (i < 2) BOOST_TEST(events[i].name == names[i]);
      BOOST_TEST(!events[i].estimated);
      BOOST_TEST(!events[i].in_graph);
      BOOST_TEST(events[i].begin_ns >= before);
      BOOST_TEST(events[i].end_ns <= after);
    }
    BOOST_TEST(events[2].name.starts_with("copy       64, "));
    in_order_of_time(events);
    using Ranges = std::vector<ProfileEvent::Range>;
    const uint64_t a = storage_id(two.a), b = storage_id(two.b), c = storage_id(two.c);
    BOOST_TEST((events[0].buffers == Ranges{{b, 0, 64}, {a, 0, 64}}));
    BOOST_TEST((events[1].buffers == Ranges{{c, 0, 64}, {b, 0, 64}, {a, 0, 64}}));
    BOOST_TEST((events[2].buffers == Ranges{{storage_id(copied), 0, 64}, {c, 0, 64}}));
  }
}

BOOST_AUTO_TEST_CASE(a_kernels_time_is_its_own) {
  const std::string name = tb().open_name([](tb_options& o) { o.streams = 1; });
  Device& d = device(name);
  Two two(name);
  UOp list = compiled(d, two.calls);
  run(d, list);
  tb().delay(d, 20000); // microseconds a kernel
  Profile profile;
  run(d, list);
  const std::vector<ProfileEvent> events = profile.events();
  BOOST_TEST_REQUIRE(events.size() == 2u);
  for (const ProfileEvent& e : events) {
    BOOST_TEST(e.end_ns - e.begin_ns >= 20'000'000u);
    BOOST_TEST(e.end_ns - e.begin_ns < 2'000'000'000u);
  }
  in_order_of_time(events);
}

BOOST_AUTO_TEST_CASE(without_a_listener_nothing_is_timed_or_waited_for) {
  Device& d = tb().open_streams();
  Two two(d.name());
  UOp list = compiled(d, two.calls);
  run(d, list);
  tb().reset();
  {
    BufferBinding binding(d);
    engine::run_linear(binding, list);
    BOOST_TEST(tb().counters(d).timed_launches == 0u);
    BOOST_TEST(tb().counters(d).stream_synchronize == 0u);
    Profile profile;
    engine::run_linear(binding, list);
    BOOST_TEST(tb().counters(d).timed_launches == 2u);
    engine::run_linear(binding, list, {.update_stats = false}); // counts nowhere
    BOOST_TEST(profile.events().size() == 2u);
  }
  two.right();
}

BOOST_AUTO_TEST_CASE(a_graph_has_its_launches_inside) {
  const std::string name = tb().open_name([](tb_options& o) { o.streams = 1; });
  Device& d = device(name);
  Two two(name);
  two.calls.push_back(call_of(add_body(5), {two.b, two.c}));
  UOp list = batched(d, two.calls);
  BOOST_TEST_REQUIRE(sizes_of(list) == std::vector<size_t>{3});
  const std::vector<std::string> names = names_of(engine::graph_linear(list.src(0)));
  BufferBinding binding(d);
  RunOptions options;
  options.jit = true;
  engine::run_linear(binding, list, options); // recorded without times
  tb().delay(d, 3000);
  std::vector<ProfileEvent> events;
  {
    Profile profile;
    for (int replay = 0; replay < 3; ++replay) engine::run_linear(binding, list, options);
    events = profile.events();
  }
  BOOST_TEST_REQUIRE(events.size() == 12u);
  for (size_t i = 0; i < 12; i += 4) {
    const ProfileEvent& graph = events[i];
    BOOST_TEST((graph.kind == Kind::Graph));
    BOOST_TEST(graph.name == "batched 3");
    BOOST_TEST(graph.device == name);
    BOOST_TEST(!graph.in_graph);
    uint64_t at = graph.begin_ns;
    for (size_t k = 1; k <= 3; ++k) {
      const ProfileEvent& e = events[i + k];
      BOOST_TEST((e.kind == Kind::Kernel));
      BOOST_TEST(e.name == names[k - 1]);
      BOOST_TEST(e.in_graph);
      BOOST_TEST(!e.estimated);
      BOOST_TEST(e.begin_ns >= at); // each reads what the one before wrote
      BOOST_TEST(e.end_ns - e.begin_ns >= 3'000'000u);
      at = e.end_ns;
    }
    BOOST_TEST(at <= graph.end_ns);
    if (i > 0) BOOST_TEST(graph.begin_ns >= events[i - 1].end_ns);
  }
  // Afterwards replays are not waited for again.
  tb().delay(d, 0);
  engine::run_linear(binding, list, options);
  const uint64_t waits = tb().counters(d).stream_synchronize;
  engine::run_linear(binding, list, options);
  BOOST_TEST(tb().counters(d).stream_synchronize == waits);
  BOOST_TEST(read(two.b) == plus(read(two.c), 5));
}

BOOST_AUTO_TEST_CASE(launches_that_the_backend_does_not_time_get_equal_parts) {
  const std::string name = tb().open_name([](tb_options& o) { o.graph = 0; });
  ScopedConfig scoped([] {
    Config config = Config::current();
    config.graph = 2; // a graph of the host
    return config;
  }());
  Device& d = device(name);
  Two two(name);
  UOp list = batched(d, two.calls);
  BOOST_TEST_REQUIRE(sizes_of(list) == std::vector<size_t>{2});
  Profile profile;
  RunOptions options;
  options.jit = true;
  run(d, list, options);
  const std::vector<ProfileEvent> events = profile.events();
  BOOST_TEST_REQUIRE(events.size() == 3u);
  BOOST_TEST(!events[0].estimated);
  BOOST_TEST(events[1].estimated);
  BOOST_TEST(events[2].estimated);
  BOOST_TEST(events[1].begin_ns == events[0].begin_ns);
  BOOST_TEST(events[1].end_ns == events[2].begin_ns);
  BOOST_TEST(events[2].end_ns == events[0].end_ns);
}

BOOST_AUTO_TEST_CASE(a_kernel_tells_the_values_of_its_variables) {
  const std::string name = tb().open_name();
  Device& d = device(name);
  UOp a = stored(name, ramp(0)), b = storage(name);
  UOp program = program_of(d, add_value_text("add_n", 100), {0}, {{"n", DType::I32, 0, 100}},
                           constant(DType::Index, kCount));
  UOp list = linear(std::vector<UOp>{call_of(program, {b, a})});
  Profile profile;
  RunOptions options;
  options.var_vals = {{"n", 7}, {"other", 3}};
  run(d, list, options);
  BOOST_TEST(read(b) == plus(ramp(0), 7));
  const std::vector<ProfileEvent> events = profile.events();
  BOOST_TEST_REQUIRE(events.size() == 1u);
  BOOST_TEST(events[0].name == "add_n");
  BOOST_TEST((events[0].var_vals == engine::VarVals{{"n", 7}}));
}

BOOST_AUTO_TEST_CASE(every_device_has_events_of_its_own) {
  const std::string first = tb().open_name(), second = tb().open_name();
  Two one(first), other(second);
  UOp moved = storage(second);
  std::vector<UOp> calls = one.calls;
  calls.push_back(copy_call(moved, one.c));
  calls.push_back(call_of(add_body(9), {other.b, moved}));
  UOp list = compiled(device(first), calls);
  Profile profile, again;
  run(device(first), list);
  const std::vector<ProfileEvent> events = profile.events();
  BOOST_TEST_REQUIRE(events.size() == 4u);
  const std::string on[] = {first, first, second, second};
  for (size_t i = 0; i < 4; ++i) BOOST_TEST(events[i].device == on[i]);
  BOOST_TEST((events[2].kind == Kind::Copy));
  BOOST_TEST(events[2].buffers[1].storage == storage_id(one.c));
  BOOST_TEST(read(other.b) == plus(read(one.c), 9));
  BOOST_TEST(again.events().size() == 4u);
}

BOOST_AUTO_TEST_CASE(threads_share_a_profile) {
  Profile profile;
  std::vector<std::string> devices;
  for (int t = 0; t < 4; ++t) devices.push_back(tb().open_name());
  std::vector<std::thread> threads;
  for (const std::string& name : devices)
    threads.emplace_back([name] {
      Two two(name);
      UOp list = compiled(device(name), two.calls);
      for (int i = 0; i < 20; ++i) run(device(name), list);
    });
  for (std::thread& t : threads) t.join();
  std::map<std::string, int> count;
  for (const ProfileEvent& e : profile.events()) ++count[e.device];
  for (const std::string& name : devices) BOOST_TEST(count[name] == 40);
}

// What a trace has of events, by name and track.
void check_trace(const nlohmann::json& trace, const std::vector<std::string>& names,
                 const std::string& device) {
  std::vector<std::string> found;
  std::map<int, std::string> tracks;
  for (const auto& e : trace) {
    BOOST_TEST(e["pid"].get<int>() > 0);
    if (e["ph"] == "M") {
      if (e["name"] == "thread_name") tracks[e["tid"]] = e["args"]["name"];
      continue;
    }
    BOOST_TEST(e["ph"] == "X");
    BOOST_TEST(tracks[e["tid"]] == device);
    BOOST_TEST(e["ts"].get<double>() > 0);
    BOOST_TEST(e["dur"].get<double>() >= 0);
    BOOST_TEST(!e["args"]["buffers"].empty());
    BOOST_TEST(e["cat"] == "kernel");
    found.push_back(e["name"]);
  }
  BOOST_TEST(found == names, boost::test_tools::per_element());
}

// The child of PROFILE_names_a_file_that_gets_a_trace.
BOOST_AUTO_TEST_CASE(profile_child, *boost::unit_test::disabled()) {
  Two two("INTERP");
  UOp list = compiled(device("INTERP"), two.calls);
  run(device("INTERP"), list);
  run(device("INTERP"), list);
  two.right();
  const std::string file = Config::current().profile;
  std::string text = text_of(file); // in the file at once, so that a crash leaves it
  BOOST_TEST(!nlohmann::json::accept(text));
  check_trace(
      nlohmann::json::parse(text + "]"),
      [&] {
        std::vector<std::string> names = names_of(list);
        for (size_t i = 0; i < 2; ++i) names.push_back(std::string(names[i]));
        return names;
      }(),
      "INTERP");
}

BOOST_AUTO_TEST_CASE(PROFILE_names_a_file_that_gets_a_trace) {
  Folder folder;
  const std::string file = folder / "trace.json";
  BOOST_TEST(passes_in_another_process("profile/profile_child", "PROFILE=" + file));
  const nlohmann::json trace = nlohmann::json::parse(text_of(file)); // whole, since the process ended
  size_t kernels = 0;
  for (const auto& e : trace) kernels += e["ph"] == "X";
  BOOST_TEST(kernels == 4u);
}

BOOST_AUTO_TEST_CASE(events_can_be_written_as_a_trace) {
  Folder folder;
  ProfileEvent e;
  e.device = "D\"1\\\n";
  e.name = "k";
  e.begin_ns = 1'234'567, e.end_ns = 2'000'001;
  e.buffers = {{7, 16, 64}};
  e.var_vals = {{"n", -3}};
  e.estimated = true;
  engine::write_trace(folder / "t.json", std::vector<ProfileEvent>{e});
  const nlohmann::json trace = nlohmann::json::parse(text_of(folder / "t.json"));
  BOOST_TEST_REQUIRE(trace.size() == 3u);
  BOOST_TEST(trace[1]["args"]["name"] == e.device);
  BOOST_TEST(trace[2]["tid"] == trace[1]["tid"]);
  BOOST_TEST(trace[2]["ts"] == 1234.567);
  BOOST_TEST(trace[2]["dur"] == 765.434);
  BOOST_TEST(trace[2]["cat"] == "kernel");
  BOOST_TEST(trace[2]["args"]["buffers"][0]["storage"] == 7);
  BOOST_TEST(trace[2]["args"]["buffers"][0]["offset"] == 16);
  BOOST_TEST(trace[2]["args"]["variables"]["n"] == -3);
  BOOST_TEST(trace[2]["args"]["estimated"] == true);
  BOOST_CHECK_THROW(engine::write_trace("/no/such/folder/t", {}), DeviceError);
  BOOST_CHECK_THROW(engine::write_trace("/dev/full", std::vector<ProfileEvent>{e}), DeviceError);
}

BOOST_AUTO_TEST_CASE(a_file_that_cannot_be_written_is_named_before_anything_runs) {
  Two two(tb().open_name());
  UOp list = compiled(device(two.name), two.calls);
  Config config = Config::current();
  config.profile = "/no/such/folder/trace.json";
  ScopedConfig scoped(config);
  std::string message;
  try {
    run(device(two.name), list);
  } catch (const DeviceError& e) {
    message = e.what();
  }
  BOOST_TEST(message == "PROFILE=/no/such/folder/trace.json: the file cannot be written; name another one");
  BOOST_TEST(tb().counters(device(two.name)).launches == 0u);
}

BOOST_AUTO_TEST_SUITE_END()
