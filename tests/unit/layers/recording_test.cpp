// TOLK_LAYERS=trace and record: what they write, and that a recording gives the same bytes again.
#include <cstdlib>

#include "captured_stderr.h"
#include "faulty_plugin.h"
#include "tolk/base/error.h"
#include "tolk/device/device.h"
#include "tolk/device/replay.h"
#include "tolk/layers/recording.h"

using namespace tolk;
using namespace tolk::test;

namespace {

// Work of every kind: copies, a fill, launches, a map that the host writes, imported memory, a graph with
// patches. Gives what the last copies out read.
std::string work(const Faulty& f) {
  const auto& t = *f.plugin;
  std::vector<unsigned char> bytes(256), out(256);
  for (size_t i = 0; i < bytes.size(); i++) bytes[i] = static_cast<unsigned char>(i * 7);
  std::string read;
  auto keep = [&](tolk_buffer* buffer) {
    f.fine(t.stream.copy_out(f.stream, out.data(), {buffer, 0, 256}, 0));
    read.append(reinterpret_cast<const char*>(out.data()), out.size());
  };
  f.fine(t.stream.copy_in(f.stream, {f.a, 0, 256}, bytes.data(), TOLK_COPY_ASYNC));
  f.fine(t.stream.fill(f.stream, {f.b, 0, 256}, 0x0102, 2));
  Launch l = f.args();
  l.slots[0] = 3;
  f.fine(f.launch(l));
  f.fine(t.stream.copy(f.stream, {f.b, 128, 64}, {f.a, 0, 64}));
  keep(f.a);
  keep(f.b);

  // The host writes through a map while the stream is idle; the kernel adds to that.
  void* pointer = nullptr;
  f.fine(t.buffer.map(f.a, 0, 256, TOLK_MAP_READ | TOLK_MAP_WRITE, &pointer));
  for (int round = 0; round < 3; round++) {
    static_cast<unsigned char*>(pointer)[round] = static_cast<unsigned char>(100 + round);
    f.fine(f.launch(f.args()));
    tolk_event* event = nullptr;
    f.fine(t.stream.event_create(f.device, 0, &event));
    f.fine(t.stream.event_record(event, f.stream));
    f.fine(round == 0 ? t.stream.event_query(event) : t.stream.event_sync(event, TOLK_FOREVER));
    t.stream.event_destroy(event);
  }
  f.fine(t.buffer.unmap(f.a, pointer));
  keep(f.a);

  alignas(64) static unsigned char memory[64];
  std::fill(std::begin(memory), std::end(memory), static_cast<unsigned char>(9));
  tolk_buffer_desc desc = Faulty::desc(64);
  desc.usage = TOLK_USAGE_KERNEL_READ;
  tolk_buffer* imported = nullptr;
  f.fine(t.buffer.import_handle(f.device, &desc, TOLK_HANDLE_HOST_POINTER,
                                reinterpret_cast<uintptr_t>(memory), nullptr, nullptr, &imported));
  f.fine(t.stream.copy(f.stream, {f.b, 0, 64}, {imported, 0, 64}));
  f.fine(t.stream.synchronize(f.stream, TOLK_FOREVER));
  memory[5] = 55;
  f.fine(t.stream.copy(f.stream, {f.b, 64, 64}, {imported, 0, 64}));
  f.fine(t.stream.synchronize(f.stream, TOLK_FOREVER));
  t.buffer.destroy(imported);

  tolk_graph* g = f.graph();
  f.fine(f.add(g, f.args()));
  f.fine(t.graph.add_copy(g, 0, {f.b, 32, 16}, {f.a, 0, 16}, std::vector<uint32_t>{0}.data(), 1));
  f.fine(t.graph.commit(g));
  f.fine(t.graph.launch(g, &f.stream, nullptr));
  tolk_patch patches[2];
  uint32_t count = 0;
  tolk_set_val(patches, &count, 0, 0, 5);
  tolk_set_buf(patches, &count, 1, 0, {f.b, 48, 16});
  f.fine(t.graph.update(g, patches, count));
  f.fine(t.graph.launch(g, &f.stream, nullptr));
  f.fine(t.stream.synchronize(f.stream, TOLK_FOREVER));
  t.graph.destroy(g);
  keep(f.a);
  keep(f.b);
  return read;
}

// Makes a recording of `work`; gives what it read.
std::string record(const std::string& file) {
  Faulty f("record=" + file);
  std::string read = work(f);
  f.close();
  f.plugin->table.shutdown(f.plugin->self);
  return read;
}

Device& null_device() {
  Config config = search_in(TOLK_PLUGIN_FOLDER);
  ScopedConfig scoped(config);
  return device("NULL");
}

// A recording by hand.
struct Script {
  std::string bytes{recording::kHead};
  uint64_t records = 0;
  Script& add(recording::Kind kind, const recording::Payload& payload) {
    const auto length = static_cast<uint32_t>(payload.bytes().size());
    const uint32_t check = recording::check_of(kind, payload.bytes());
    bytes.append(reinterpret_cast<const char*>(&length), 4);
    bytes.push_back(static_cast<char>(kind));
    bytes.append(payload.bytes()).append(reinterpret_cast<const char*>(&check), 4);
    records++;
    return *this;
  }
  Script& end() { return add(recording::Kind::End, recording::Payload().number(records)); }
};
// On the plugin NULL: device 1 is open, buffer 2 has 8 zero bytes.
Script null_script() {
  using recording::Kind;
  using recording::Payload;
  Script s;
  s.add(Kind::Plugin, Payload().number(1).text("NULL"));
  s.add(Kind::DeviceOpen, Payload().number(1).number(1).number(0));
  s.add(Kind::BufferCreate, Payload()
                                .number(1)
                                .number(2)
                                .number(1)
                                .number(TOLK_BUFFER_DEVICE)
                                .number(15)
                                .number(TOLK_BUFFER_ZEROED)
                                .number(8)
                                .number(0));
  return s;
}

} // namespace

// The child of the_same_bytes_come_out_of_another_process: replays and compares, in a process that did not
// record.
BOOST_AUTO_TEST_CASE(replay_child, *boost::unit_test::disabled()) {
  const std::string file = environment("TOLK_TEST_RECORDING");
  BOOST_REQUIRE(!file.empty());
  Config config = search_in(plugin_folder("faulty"));
  ScopedConfig scoped(config);
  ReplayOptions options;
  options.keep_bytes = true;
  Replay replay = replay_recording(file, device("FAULTY"), options);
  BOOST_TEST(replay.different == 0u, replay.first_difference);
  BOOST_TEST(replay.compared >= 5u);
  std::string read;
  for (const std::string& bytes : replay.read) read += bytes;
  write_file(file + ".read", read);
  BOOST_TEST(replay.missing.empty());
}

// The child of a_recording_that_breaks_off_anywhere_is_replayed_so_far.
BOOST_AUTO_TEST_CASE(replay_cut_child, *boost::unit_test::disabled()) {
  const std::string file = environment("TOLK_TEST_RECORDING"), cut = file + ".cut";
  BOOST_REQUIRE(!file.empty());
  Config config = search_in(plugin_folder("faulty"));
  ScopedConfig scoped(config);
  Device& d = device("FAULTY");
  const ReplayOptions options{.keep_bytes = true, .incomplete = true};
  const Replay whole = replay_recording(file, d, options);
  BOOST_TEST(whole.missing.empty());
  const std::string good = read_file(file);
  // The first record names the plugin.
  const size_t first = recording::kHead.size() + 4 + 1 + static_cast<unsigned char>(good[8]) + 4;
  uint64_t calls = 0;
  for (size_t size = first; size < good.size(); size += 1 + size / 97) {
    write_file(cut, good.substr(0, size));
    BOOST_CHECK_THROW(replay_recording(cut, d), FormatError);
    const Replay part = replay_recording(cut, d, options);
    BOOST_TEST(contains(part.missing, cut + ", record "), "cut off at " << size);
    BOOST_TEST(part.calls >= calls);
    calls = part.calls;
    BOOST_TEST(part.different == 0u);
    BOOST_TEST_REQUIRE(part.read.size() <= whole.read.size());
    BOOST_TEST(std::equal(part.read.begin(), part.read.end(), whole.read.begin()));
  }
  BOOST_TEST(calls == whole.calls);
}

BOOST_AUTO_TEST_CASE(a_recording_that_breaks_off_anywhere_is_replayed_so_far) {
  TemporaryFolder folder;
  const std::string file = folder / "work.rec";
  record(file);
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string command = "TOLK_LAYERS= TOLK_TEST_RECORDING='" + file + "' '" + self +
                              "' --run_test=replay_cut_child --log_level=error > '" + file + ".log' 2>&1";
  const int status = std::system(command.c_str()); // NOLINT(concurrency-mt-unsafe, cert-env33-c): one thread
  BOOST_TEST(status == 0, read_file(file + ".log"));
}

BOOST_AUTO_TEST_CASE(the_same_bytes_come_out_of_another_process) {
  TemporaryFolder folder;
  const std::string file = folder / "work.rec";
  const std::string read = record(file);
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string command = "TOLK_LAYERS= TOLK_TEST_RECORDING='" + file + "' '" + self +
                              "' --run_test=replay_child --log_level=error > '" + file + ".log' 2>&1";
  const int status = std::system(command.c_str()); // NOLINT(concurrency-mt-unsafe, cert-env33-c): one thread
  BOOST_TEST(status == 0, read_file(file + ".log"));
  // What the test read is among what the replay read, in that order; between are looks at mapped memory.
  const std::string replayed = read_file(file + ".read");
  size_t at = 0;
  for (size_t i = 0; i < read.size(); i += 256) {
    at = replayed.find(read.substr(i, 256), at);
    BOOST_TEST_REQUIRE(at != std::string::npos);
    at += 256;
  }
}

BOOST_AUTO_TEST_CASE(damaged_and_cut_recordings_are_refused) {
  TemporaryFolder folder;
  const std::string file = folder / "work.rec", bad = folder / "bad.rec";
  record(file);
  const std::string good = read_file(file);
  BOOST_TEST_REQUIRE(good.size() > 2000u);
  Device& d = null_device();
  auto refused = [&](const std::string& bytes) {
    write_file(bad, bytes);
    return message_of<FormatError>([&] { replay_recording(bad, d); });
  };
  BOOST_CHECK_THROW(replay_recording(folder / "absent.rec", d), FormatError);
  BOOST_TEST(contains(refused(""), "not a recording"));
  BOOST_TEST(contains(refused("hello, world"), "not a recording"));
  for (size_t size = recording::kHead.size(); size < good.size(); size += 1 + size / 97)
    BOOST_TEST(!refused(good.substr(0, size)).empty(), "cut off at " << size);
  for (size_t at = 0; at < good.size(); at += 1 + at / 61) {
    std::string bytes = good;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
    BOOST_TEST(!refused(bytes).empty(), "damaged at " << at);
  }
  BOOST_TEST(contains(refused(good + "x"), "cut off"));
  // Whole, but of another plugin.
  BOOST_TEST(contains(message_of<InvalidArgument>([&] { replay_recording(file, d); }),
                      "the recording has no call of the plugin NULL; it has FAULTY"));
}

BOOST_AUTO_TEST_CASE(recordings_that_make_no_sense_are_refused) {
  using recording::Kind;
  using recording::Payload;
  TemporaryFolder folder;
  const std::string file = folder / "odd.rec";
  Device& d = null_device();
  auto refused = [&](Script s) {
    write_file(file, s.end().bytes);
    return message_of<FormatError>([&] { replay_recording(file, d); });
  };
  auto call = [] { return Payload().number(1); };
  BOOST_TEST(contains(refused(null_script().add(Kind::BufferDestroy, call().number(9))),
                      "names a buffer that is not there"));
  BOOST_TEST(contains(refused(null_script().add(Kind::BufferDestroy, call())), "it ends too early"));
  BOOST_TEST(contains(refused(null_script().add(Kind::BufferDestroy, call().number(2).number(1))),
                      "1 bytes are left over"));
  BOOST_TEST(contains(refused(null_script().add(static_cast<Kind>(99), call().number(2))), "not known"));
  BOOST_TEST(contains(refused(null_script().add(Kind::CopyIn, call().number(0).ref({2, 0, 8}).number(1))),
                      "block of data"));
  BOOST_TEST(contains(refused(null_script()
                                  .add(Kind::Data, Payload().number(1).text("xy"))
                                  .add(Kind::CopyIn, call().number(0).ref({2, 0, 8}).number(1))),
                      "another size"));
  BOOST_TEST(contains(refused(null_script().add(Kind::Launch, call().number(0).number(7))), "kernel"));
  BOOST_TEST(
      contains(refused(null_script().add(Kind::GraphCreate, call().number(3).number(0).number(UINT64_MAX))),
               "items in fewer bytes"));
}

BOOST_AUTO_TEST_CASE(other_bytes_are_counted_and_placed) {
  using recording::Kind;
  using recording::Payload;
  TemporaryFolder folder;
  const std::string file = folder / "null.rec";
  Script s = null_script();
  const std::string zeros(8, '\0');
  s.add(Kind::CopyOut, Payload().number(1).number(0).ref({2, 0, 8}).key(content_key(zeros)));
  s.add(Kind::CopyOut, Payload().number(1).number(0).ref({2, 4, 4}).key(content_key("none")));
  Script whole = s;
  write_file(file, whole.end().bytes);
  ReplayOptions options;
  options.keep_bytes = true;
  Replay replay = replay_recording(file, null_device(), options);
  BOOST_TEST(replay.compared == 2u);
  BOOST_TEST(replay.different == 1u);
  BOOST_TEST(contains(replay.first_difference, "record 5: buffer 2, bytes 4 to 8"));
  BOOST_TEST_REQUIRE(replay.read.size() == 2u);
  BOOST_TEST(replay.read[0] == zeros);
  // What a crash leaves has no end.
  write_file(file, s.bytes);
  BOOST_CHECK_THROW(replay_recording(file, null_device()), FormatError);
  options.incomplete = true;
  Replay part = replay_recording(file, null_device(), options);
  BOOST_TEST(part.compared == 2u);
  BOOST_TEST(part.missing == file + ", record 6: the recording has no end behind the record before this one");
  // Nor what a killed process leaves, in the middle of a record.
  write_file(file, s.bytes.substr(0, s.bytes.size() - 3));
  part = replay_recording(file, null_device(), options);
  BOOST_TEST(part.compared == 1u);
  BOOST_TEST(part.missing == file + ", record 5: the recording breaks off inside this record");
}

BOOST_AUTO_TEST_CASE(a_recording_with_streams_runs_on_a_device_without) {
  using recording::Kind;
  using recording::Payload;
  TemporaryFolder folder;
  const std::string file = folder / "streams.rec", text = "12345678";
  auto call = [] { return Payload().number(1); };
  Script s = null_script();
  s.add(Kind::StreamCreate, call().number(3).number(1).number(0));
  s.add(Kind::EventCreate, call().number(4).number(1).number(0));
  s.add(Kind::Data, Payload().number(1).text(text));
  s.add(Kind::CopyIn, call().number(3).ref({2, 0, 8}).number(1));
  s.add(Kind::EventRecord, call().number(4).number(3));
  s.add(Kind::StreamWait, call().number(3).number(4));
  s.add(Kind::EventSync, call().number(4));
  s.add(Kind::StreamSynchronize, call().number(3));
  s.add(Kind::CopyOut, call().number(3).ref({2, 0, 8}).key(content_key(text)));
  s.add(Kind::EventDestroy, call().number(4));
  s.add(Kind::StreamDestroy, call().number(3));
  write_file(file, s.end().bytes);
  Replay replay = replay_recording(file, null_device());
  BOOST_TEST(replay.compared == 1u);
  BOOST_TEST(replay.different == 0u);
}

BOOST_AUTO_TEST_CASE(a_trace_has_a_line_per_call) {
  TemporaryFolder folder;
  const std::string file = folder / "trace.txt";
  {
    Faulty f("trace=" + file);
    work(f);
    f.fault("answer", "launch", TOLK_E_LIMIT);
    f.launch(f.args());
    take_error_text(TOLK_E_LIMIT);
  }
  const std::string text = read_file(file);
  for (const char* line : {
           " FAULTY device_open(index=1) -> OK, d2  ",
           " FAULTY buffer.create(device=d1, desc={device, 256 bytes, usage 0}) -> OK, b1  ",
           " FAULTY program.load(device=d1, binary=5 bytes, source={\"k\", 5 bytes of text, 2 buffers, 1 "
           "values, flags 0, "
           "local 0x0x0}) -> OK, p1  ",
           " FAULTY program.get_kernel(program=p1, name=\"k\") -> OK, k1  ",
           " FAULTY stream.copy(stream=s1, dst=b2[128..192], src=b1[0..64]) -> OK  ",
           " FAULTY program.launch(stream=s1, kernel=k1, launch={grid 1x1x1, local 1x1x1, [b1[0..16], "
           "b2[0..16]], [3]}) "
           "-> OK  ",
           " FAULTY program.launch(stream=s1, kernel=k1, launch={grid 1x1x1, local 1x1x1, [b1[0..16], "
           "b2[0..16]], [0]}) "
           "-> E_LIMIT  ",
           " FAULTY stream.event_sync(event=e2, timeout_ns=forever) -> OK  ",
           " FAULTY graph.update(graph=g1, patches=[{node 0: value 0=5}, {node 1: buffer 0=b2[48..64]}]) -> "
           "OK  ",
           " FAULTY buffer.destroy(buffer=b1)  ",
           " FAULTY device.close(device=d1)  ",
       }) {
    const size_t at = text.find(line);
    BOOST_TEST(at != std::string::npos, "no line with " << line);
    if (at == std::string::npos) continue;
    const std::string whole =
        text.substr(text.rfind('\n', at) + 1, text.find('\n', at) - text.rfind('\n', at) - 1);
    BOOST_TEST(whole.front() == '[');
    BOOST_TEST(whole.ends_with(" ns"));
  }
  if (text.find("program.launch") == std::string::npos) BOOST_TEST_MESSAGE(text);
}

BOOST_AUTO_TEST_CASE(a_trace_on_a_full_disk_says_so_once) {
  const std::string text = captured_stderr([] {
    Faulty f("trace=/dev/full");
    work(f);
  });
  const std::string sentence =
      "TOLK_LAYERS=trace=/dev/full: the file cannot be written any further; the trace ends here";
  const size_t at = text.find(sentence);
  BOOST_TEST(at != std::string::npos, text);
  BOOST_TEST(text.find("trace", at + sentence.size()) == std::string::npos, text);
}
