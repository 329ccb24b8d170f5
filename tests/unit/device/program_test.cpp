// From source to launch: what the host checks, what it makes of a plugin's errors, and that work on a stream
// is waited for.
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include <cstring>

#include "device_test.h"
#include "tolk/base/error.h"
#include "tolk/device/program.h"
#include "tolk/loader/plugin_loader.h"

using namespace tolk;
using namespace tolk::test;

namespace {

Device& open_test_device(const std::string& name) {
  Config config = search_in(std::string(TOLK_PLUGIN_FOLDER) + ":" + plugin_folder("basic") + ":" +
                            plugin_folder("streams") + ":" + plugin_folder("serial"));
  ScopedConfig scoped(config);
  return device(name);
}

tolk_param buffer_param(uint32_t access, uint64_t count) {
  tolk_param p{};
  p.kind = TOLK_PARAM_BUFFER;
  p.access = access;
  p.dtype = TOLK_DTYPE_U8;
  p.count = count;
  return p;
}

tolk_param value_param(int64_t min, int64_t max) {
  tolk_param p{};
  p.kind = TOLK_PARAM_VALUE;
  p.dtype = TOLK_DTYPE_I32;
  p.min = min;
  p.max = max;
  return p;
}

KernelSource source_of(std::string_view text, std::vector<tolk_param> params, uint32_t target = 0) {
  KernelSource s;
  s.target_index = target;
  s.text = text;
  s.entry = "k";
  s.params = std::move(params);
  return s;
}

KernelSource add_source(std::string_view text, uint32_t target = 0) {
  return source_of(text, {buffer_param(TOLK_ACCESS_READ | TOLK_ACCESS_WRITE, 16), value_param(0, 100)},
                   target);
}

BufferRef zeros(Device& d, uint64_t n) {
  BufferRef b = make_buffer(d, DType::U8, n);
  fill_buffer(*b, 0, 1);
  return b;
}

int first_byte(Buffer& b) {
  std::vector<std::byte> bytes(b.bytes());
  b.copy_out(bytes);
  return std::to_integer<int>(bytes[0]);
}

const char* const kDevices[] = {"BASIC", "STREAMS", "SERIAL"};

} // namespace

BOOST_DATA_TEST_CASE(a_kernel_runs_with_its_buffers_and_values, boost::unit_test::data::make(kDevices),
                     name) {
  Device& d = open_test_device(name);
  for (uint32_t target : {0u, 1u}) { // loaded directly, and compiled
    ProgramRef p = d.build(add_source("add 5", target));
    BufferRef b = zeros(d, 16);
    Buffer* args[] = {b.get()};
    int64_t values[] = {7};
    p->launch(args, values, {1, 1, 1});
    BOOST_TEST(first_byte(*b) == 12);
    p->launch(args, values, {1, 0, 1}); // nothing to do
    BOOST_TEST(first_byte(*b) == 12);
    uint64_t ns = 0;
    p->launch(args, values, {4, 1, 1}, {1, 1, 1}, &ns);
    BOOST_TEST(ns > 0u); // the plugin does not measure: the host's clock
    BOOST_TEST(first_byte(*b) == 24);
  }
}

BOOST_DATA_TEST_CASE(order_is_kept_between_launches_copies_and_reuse_of_storage,
                     boost::unit_test::data::make(kDevices), name) {
  Device& d = open_test_device(name);
  ProgramRef add = d.build(add_source("add 1"));
  ProgramRef copy =
      d.build(source_of("copy", {buffer_param(TOLK_ACCESS_WRITE, 16), buffer_param(TOLK_ACCESS_READ, 16)}));
  BufferRef result = zeros(d, 16);
  int64_t none[] = {0};
  for (int i = 0; i < 10; i++) {
    BufferRef temporary = zeros(d, 16);
    Buffer* one[] = {temporary.get()};
    for (int k = 0; k <= i; k++) add->launch(one, none, {1, 1, 1});
    Buffer* two[] = {result.get(), temporary.get()};
    copy->launch(two, {}, {1, 1, 1});
    // `temporary` goes back to the cache while its work may still be queued, and the next round takes it.
  }
  BOOST_TEST(first_byte(*result) == 10);
  Device& other = open_test_device("NULL");
  Buffer* one[] = {result.get()};
  add->launch(one, none, {1, 1, 1});
  BufferRef there = make_buffer(other, DType::U8, 16);
  copy_buffer(*there, *result);
  BOOST_TEST(first_byte(*there) == 11);
}

BOOST_AUTO_TEST_CASE(arguments_are_checked_before_the_plugin_sees_them) {
  Device& d = open_test_device("BASIC");
  ProgramRef p = d.build(add_source("add 1"));
  BufferRef b = zeros(d, 16), small = zeros(d, 15),
            foreign = make_buffer(open_test_device("NULL"), DType::U8, 16);
  int64_t good[] = {1}, bad[] = {101}, negative[] = {-1};
  auto launch = [&](std::vector<Buffer*> buffers, std::span<const int64_t> values) {
    return message_of<InvalidArgument>([&] { p->launch(buffers, values, {1, 1, 1}); });
  };
  BOOST_TEST(launch({b.get()}, good).empty());
  BOOST_TEST(contains(launch({}, good), "kernel k takes 1 buffers and 1 values, got 0 and 1"));
  BOOST_TEST(contains(launch({b.get()}, {}), "got 1 and 0"));
  BOOST_TEST(contains(launch({small.get()}, good), "it has 15 bytes, the kernel needs 16"));
  BOOST_TEST(contains(launch({foreign.get()}, good), "it is on NULL, the kernel on BASIC"));
  BOOST_TEST(contains(launch({b.get()}, bad), "101 is not in 0..100"));
  BOOST_TEST(contains(launch({b.get()}, negative), "-1 is not in 0..100"));
}

BOOST_AUTO_TEST_CASE(a_kernel_cannot_write_read_only_memory) {
  Device& d = open_test_device("NULL");
  std::vector<std::byte> bytes(64);
  BufferRef b = import_host_memory(d, DType::U8, 64, bytes.data(), nullptr, false);
  BOOST_REQUIRE(b);
  ProgramRef writes = d.build(source_of("x", {buffer_param(TOLK_ACCESS_WRITE, 64)}, 2));
  ProgramRef reads = d.build(source_of("x", {buffer_param(TOLK_ACCESS_READ, 64)}, 2));
  Buffer* args[] = {b.get()};
  reads->launch(args, {}, {1, 1, 1});
  BOOST_TEST(contains(message_of<InvalidArgument>([&] { writes->launch(args, {}, {1, 1, 1}); }),
                      "read-only memory"));
}

BOOST_AUTO_TEST_CASE(a_rejected_source_gives_kernel_name_and_log) {
  Device& d = open_test_device("BASIC");
  std::string text = message_of<CompileError>([&] { d.compile(add_source("error", 1)); });
  BOOST_TEST(contains(text, "kernel k was rejected by BASIC's compiler: one error"), text);
  BOOST_TEST(contains(text, "line 1: no such operation"), text);
}

BOOST_AUTO_TEST_CASE(errors_become_their_leaf_with_the_plugins_words) {
  Device& d = open_test_device("BASIC");
  std::string text = message_of<FormatError>([&] { d.load(add_source("", 1), ""); });
  BOOST_TEST(contains(text, "BASIC: loading k: not made by this plugin (TOLK_E_BAD_BINARY)"), text);
  ProgramRef trap = d.build(add_source("trap"));
  BufferRef b = zeros(d, 16);
  Buffer* args[] = {b.get()};
  int64_t values[] = {0};
  text = message_of<DeviceError>([&] { trap->launch(args, values, {1, 1, 1}); });
  BOOST_TEST(contains(text, "BASIC: launch of k: the kernel trapped (TOLK_E_KERNEL_FAULT)"), text);
  BOOST_TEST(first_byte(*b) == 0); // the device survives
}

BOOST_AUTO_TEST_CASE(an_error_on_a_stream_comes_at_the_next_wait_and_stays) {
  Device& d = open_test_device("STREAMS:1");
  ProgramRef trap = d.build(add_source("trap"));
  BufferRef b = zeros(d, 16);
  Buffer* args[] = {b.get()};
  int64_t values[] = {0};
  trap->launch(args, values, {1, 1, 1});
  BOOST_TEST(contains(message_of<DeviceError>([&] { d.synchronize(); }), "the kernel trapped"));
  for (int i = 0; i < 2; i++) {
    BOOST_TEST(contains(message_of<DeviceError>([&] { d.synchronize(); }), "the kernel trapped"));
    BOOST_TEST(contains(message_of<DeviceError>([&] { trap->launch(args, values, {1, 1, 1}); }),
                        "the kernel trapped"));
  }
}

BOOST_AUTO_TEST_CASE(a_lost_device_stays_lost_and_the_other_works) {
  for (const char* name : {"SERIAL:1"}) {
    Device& d = open_test_device(name);
    ProgramRef lose = d.build(add_source("lose"));
    BufferRef b = zeros(d, 16);
    Buffer* args[] = {b.get()};
    int64_t values[] = {0};
    BOOST_TEST(
        contains(message_of<DeviceError>([&] { lose->launch(args, values, {1, 1, 1}); }), "lost the device"));
    BOOST_TEST(contains(message_of<DeviceError>([&] { lose->launch(args, values, {1, 1, 1}); }), "is lost"));
    BOOST_CHECK_THROW(d.synchronize(), DeviceError);
    BOOST_TEST(zeros(open_test_device("SERIAL"), 4)->is_allocated());
  }
}

BOOST_AUTO_TEST_CASE(targets_are_chosen_by_name) {
  Device& d = open_test_device("NULL");
  BOOST_TEST(d.target_index() == 0u);
  BOOST_TEST(Device::target_name(d.targets()[0]) == "kernel-ir");
  Config config;
  config.target = "llvm-ir";
  {
    ScopedConfig scoped(config);
    BOOST_TEST(d.target_index() == 1u);
  }
  config.target = "wgsl";
  ScopedConfig scoped(config);
  std::string text = message_of<DeviceError>([&] { d.target_index(); });
  BOOST_TEST(contains(text, "it has kernel-ir, llvm-ir, c99"), text);
  BOOST_TEST(d.compiler_key(0) != d.compiler_key(1));
}

BOOST_AUTO_TEST_CASE(the_null_device_takes_kernel_ir_and_counts) {
  Device& d = open_test_device("NULL");
  tolk_kernel_ir ir{};
  ir.struct_size = sizeof ir;
  ir.version = TOLK_KERNEL_IR_VERSION;
  ir.name = "k";
  KernelSource s = source_of("", {buffer_param(TOLK_ACCESS_WRITE, 4)});
  s.ir = &ir;
  ProgramRef p = d.build(s);
  BufferRef b = make_buffer(d, DType::U8, 4);
  Buffer* args[] = {b.get()};
  BOOST_TEST(p->info().registers == 0u);
  struct { // what plugins/null/null.c shows as its counters
    uint32_t struct_size, reserved;
    uint64_t launches, groups;
  } const* counters = nullptr;
  const void* table = nullptr;
  BOOST_REQUIRE(d.plugin().table.get_extension(d.plugin().self, "x.null.counters", 1, &table) == TOLK_OK);
  std::memcpy(&counters, &table, sizeof table);
  uint64_t launches = counters->launches, groups = counters->groups;
  for (int i = 0; i < 3; i++) p->launch(args, {}, {10, 1, 1});
  BOOST_TEST(counters->launches == launches + 3);
  BOOST_TEST(counters->groups == groups + 30);
}
