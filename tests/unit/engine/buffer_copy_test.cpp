// Copies and the common dispatch interface: rows.
#include <boost/test/unit_test.hpp>

#include "engine_support.h"
#include "test_backend.h"
#include "test_kernels.h"
#include "tolk/base/error.h"
#include "tolk/engine/run/buffer_copy.h"
#include "tolk/engine/run/profile.h"
#include "tolk/engine/run/run_linear.h"

using namespace tolk;
using namespace tolk::engine;
using namespace tolk::test;

BOOST_AUTO_TEST_CASE(a_runner_has_the_common_dispatch_interface, *boost::unit_test::label("R-01")) {
  bool waited = true;
  Runner runner{.display_name = "mine",
                .device = &device("NULL"),
                .estimates = {1, 2, 3},
                .first_run = true,
                .call = {}};
  runner.call = [&](std::span<const BufferRef> buffers, const VarVals& vars, bool wait,
                    std::optional<int> timeout) -> std::optional<double> {
    waited = wait;
    return timeout ? -1.0 : double(buffers.size()) + double(vars.at("n"));
  };
  BufferRef b = make_buffer(device("NULL"), DType::I32, 1);
  BOOST_TEST(runner.exec(std::vector<BufferRef>{b, b}, {{"n", 5}}).value() == 7.0);
  BOOST_TEST(!waited);
  BOOST_TEST(runner.call(std::vector<BufferRef>{}, {{"n", 5}}, true, 100).value() == -1.0);
  BOOST_TEST(waited);
}

BOOST_AUTO_TEST_CASE(a_copy_within_a_backend_is_native, *boost::unit_test::label("R-09")) {
  TestBackend& x = tb();
  x.reset();
  Device &a = x.open(), &b = x.open();
  BufferRef from = int_buffer(a, {1, 2, 3, 4}), to = make_buffer(b, DType::I32, 4);
  Runner runner = buffer_copy(b, 16, b.name(), a.name());
  tb_counters before = x.counters();
  BOOST_TEST(!runner.exec(std::vector<BufferRef>{to, from}));
  tb_counters now = x.counters();
  BOOST_TEST(now.copy - before.copy == 1U);
  BOOST_TEST((now.copy_in == before.copy_in && now.copy_out == before.copy_out));
  BOOST_TEST((ints(*to) == std::vector<int32_t>{1, 2, 3, 4}));
}

BOOST_AUTO_TEST_CASE(waiting_for_a_copy_synchronises_the_destination, *boost::unit_test::label("R-09")) {
  TestBackend& x = tb();
  x.reset();
  Device &a = x.open_streams(), &b = x.open_streams();
  BufferRef from = int_buffer(a, {1, 2, 3, 4}), to = make_buffer(b, DType::I32, 4);
  Runner runner = buffer_copy(b, 16, b.name(), a.name());
  uint64_t before = x.counters(b).device_synchronize;
  BOOST_TEST(runner.call(std::vector<BufferRef>{to, from}, {}, true, {}).value() >= 0.0);
  BOOST_TEST(x.counters(b).device_synchronize - before == 1U);
  BOOST_TEST((ints(*to) == std::vector<int32_t>{1, 2, 3, 4}));
}

BOOST_AUTO_TEST_CASE(without_the_hook_a_copy_goes_over_the_host, *boost::unit_test::label("R-10")) {
  TestBackend& x = tb();
  x.reset();
  auto plain = [](tb_options& o) { o.copy_hook = 0, o.host_map = 0; };
  Device &a = x.open(plain), &b = x.open(plain);
  BufferRef from = int_buffer(a, {5, 6, 7}), to = make_buffer(b, DType::I32, 3);
  tb_counters before = x.counters();
  buffer_copy(b, 12, b.name(), a.name()).exec(std::vector<BufferRef>{to, from});
  tb_counters now = x.counters();
  BOOST_TEST(
      (now.copy == before.copy && now.copy_out - before.copy_out == 1 && now.copy_in - before.copy_in == 1));
  BOOST_TEST((ints(*to) == std::vector<int32_t>{5, 6, 7}));
}

BOOST_AUTO_TEST_CASE(no_native_copy_between_backends, *boost::unit_test::label("R-11")) {
  TestBackend &x = tb(), &y = tb("YDEV");
  x.reset(), y.reset();
  auto unmapped = [](tb_options& o) { o.host_map = 0; };
  Device &a = y.open(unmapped), &b = x.open(unmapped);
  BufferRef from = int_buffer(a, {5, 6, 7}), to = make_buffer(b, DType::I32, 3);
  uint64_t out = y.counters().copy_out, in = x.counters().copy_in;
  buffer_copy(b, 12, b.name(), a.name()).exec(std::vector<BufferRef>{to, from});
  BOOST_TEST((x.counters().copy == 0 && y.counters().copy == 0));
  BOOST_TEST((y.counters().copy_out - out == 1 && x.counters().copy_in - in == 1));
  BOOST_TEST((ints(*to) == std::vector<int32_t>{5, 6, 7}));
}

BOOST_AUTO_TEST_CASE(a_copys_name, *boost::unit_test::label("R-12")) {
  Device& d = device("NULL");
  BOOST_TEST(buffer_copy(d, 400, "NULL:1", "CPU").display_name == "copy      400,  NULL:1 <- CPU    ");
  BOOST_TEST(buffer_copy(d, 2500000, "NULL:1234567", "LEVELZERO").display_name ==
             "copy    2.50M, NULL:12 <- LEVELZE");
  BOOST_TEST(buffer_copy(d, 999999, "A", "B").display_name == "copy   999999,       A <- B      ");
}

BOOST_AUTO_TEST_CASE(size_or_dtype_mismatch, *boost::unit_test::label("R-13")) {
  Device& d = device("NULL");
  Runner runner = buffer_copy(d, 32, "NULL", "NULL");
  BufferRef four = make_buffer(d, DType::I32, 4), eight = make_buffer(d, DType::I32, 8),
            floats = make_buffer(d, DType::F32, 4);
  for (const BufferRef& other : {eight, floats})
    BOOST_TEST(
        contains(message_of<InvalidArgument>([&] { runner.exec(std::vector<BufferRef>{four, other}); }),
                 "buffer copy: size or dtype mismatch"));
  BOOST_TEST((!four->is_allocated() && !eight->is_allocated() && !floats->is_allocated()));
}

BOOST_AUTO_TEST_CASE(a_copy_has_two_buffers, *boost::unit_test::label("R-14")) {
  Device& d = device("NULL");
  Runner runner = buffer_copy(d, 16, "NULL", "NULL");
  BufferRef b = make_buffer(d, DType::I32, 4);
  for (const std::vector<BufferRef>& wrong : {std::vector{b}, std::vector{b, b, b}})
    BOOST_TEST(
        contains(message_of<InvalidArgument>([&] { runner.exec(wrong); }), "expected exactly two buffers"));
}

BOOST_AUTO_TEST_CASE(overlapping_ranges_copy_as_if_over_the_side) {
  Device& d = tb().open();
  BufferRef base = int_buffer(d, {1, 2, 3, 4, 5});
  BufferRef head = view_buffer(base, DType::I32, 4, 0), tail = view_buffer(base, DType::I32, 4, 4);
  buffer_copy(d, 16, d.name(), d.name()).exec(std::vector<BufferRef>{tail, head});
  BOOST_TEST((ints(*base) == std::vector<int32_t>{1, 1, 2, 3, 4}));
}

BOOST_AUTO_TEST_CASE(a_copy_call_is_a_buffer_copy_of_its_present_source, *boost::unit_test::label("R-12")) {
  TestBackend& x = tb();
  x.reset();
  Device &a = x.open(), &b = x.open();
  BufferRef near = int_buffer(a, {1, 2}), far = int_buffer(b, {3, 4});
  UOp out = internal_ints(2, a.name()), in = param_node(0, DType::I32, 2);
  BufferBinding binding(a);
  Profile profile;
  std::vector<BufferRef> sources = {near, far, far, near};
  for (const BufferRef& from : sources) {
    RunOptions options;
    options.input_overlay = {from};
    run_linear(binding, linear_of({copy_call(out, in)}), options);
    BOOST_TEST((ints(*resolve(binding, {}, out)) == ints(*from)));
  }
  std::vector<ProfileEvent> events = profile.events();
  BOOST_REQUIRE(events.size() == sources.size());
  for (size_t i = 0; i < sources.size(); ++i)
    BOOST_TEST(events[i].name == buffer_copy(a, 8, a.name(), sources[i]->device().name()).display_name);
}
