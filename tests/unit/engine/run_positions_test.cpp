// Calls on several devices: rows, MD-18, MD-19.
#include <boost/test/unit_test.hpp>

#include "engine_support.h"
#include "test_backend.h"
#include "test_kernels.h"
#include "tolk/base/config.h"
#include "tolk/base/error.h"
#include "tolk/engine/run/run_linear.h"

using namespace tolk;
using namespace tolk::engine;
using namespace tolk::test;

BOOST_AUTO_TEST_CASE(a_slice_of_a_multi_device_buffer, *boost::unit_test::label("R-39")) {
  TestBackend& x = tb();
  std::string one = x.open_name(), two = x.open_name(), both = one + "," + two;
  UOp base = internal_ints(4, both), out = internal_ints(2, both);
  BufferBinding binding(device(one));
  run_linear(binding, linear_of({view_call(out, base, 8, 2)}));
  MultiBufferRef view = shards_of(binding, out), whole = shards_of(binding, base);
  for (size_t j = 0; j < 2; ++j)
    BOOST_TEST((view->shard(j)->offset() == 8 && view->shard(j)->base_id() == whole->shard(j)->id()));
}

BOOST_AUTO_TEST_CASE(one_launch_for_each_position, *boost::unit_test::label("R-46")) {
  TestBackend& x = tb();
  x.reset();
  clear_caches();
  std::string one = x.open_name(), two = x.open_name(), both = one + "," + two;
  UOp out = internal_ints(1, both);
  UOp program = flat_program(
      device(one), {.text = value_kernel("positions"), .vars = {{"_device_num", DType::I32, 0, 1}}});
  BufferBinding binding(device(one));
  run_linear(binding, linear_of({call_of(program, {out})}));
  std::vector<tb_record> launches = x.launches();
  BOOST_REQUIRE(launches.size() == 2U);
  BOOST_TEST((launches[0].device == device(one).index() && launches[0].values[0] == 0));
  BOOST_TEST((launches[1].device == device(two).index() && launches[1].values[0] == 1));
  MultiBufferRef result = shards_of(binding, out);
  BOOST_TEST((ints_of(result->shard(0)) == std::vector<int32_t>{0}));
  BOOST_TEST((ints_of(result->shard(1)) == std::vector<int32_t>{1}));
  // Also with a single shard, and only for storage on several devices.
  UOp alone = internal_ints(1, one);
  UOp stacked = mstack(std::span(&alone, 1));
  run_linear(binding, linear_of({call_of(program, {stacked})}));
  BOOST_TEST((ints_of(resolve(binding, {}, alone)) == std::vector<int32_t>{0}));
}

BOOST_AUTO_TEST_CASE(multi_device_copies_go_pair_by_pair, *boost::unit_test::label("R-47")) {
  TestBackend &x = tb(), &y = tb("YDEV");
  x.reset(), y.reset();
  auto unmapped = [](tb_options& o) { o.host_map = 0; };
  std::string x1 = x.open_name(unmapped), x2 = x.open_name(unmapped), y1 = y.open_name(unmapped),
              y2 = y.open_name(unmapped);
  UOp from = internal_ints(2, x1 + "," + x2), near = internal_ints(2, x2 + "," + x1),
      far = internal_ints(2, y1 + "," + y2), source = int_storage({9, 8}, x1);
  BufferBinding binding(device(x1));
  MultiBufferRef shards = shards_of(binding, from);
  for (const BufferRef& shard : shards->shards()) shard->allocate();
  std::vector<int32_t> first = {1, 2}, second = {3, 4};
  shards->shard(0)->copy_in(std::as_bytes(std::span(first)));
  shards->shard(1)->copy_in(std::as_bytes(std::span(second)));
  tb_counters before = x.counters();
  run_linear(binding, linear_of({copy_call(near, from)}));
  BOOST_TEST((x.counters().copy - before.copy == 2U && x.counters().copy_out == before.copy_out));
  BOOST_TEST((ints_of(shards_of(binding, near)->shard(0)) == first));
  BOOST_TEST((ints_of(shards_of(binding, near)->shard(1)) == second));
  before = x.counters();
  run_linear(binding, linear_of({copy_call(far, from)}));
  BOOST_TEST((x.counters().copy_out - before.copy_out == 2U && y.counters().copy_in == 2U));
  BOOST_TEST((ints_of(shards_of(binding, far)->shard(1)) == second));
  // One source to every destination.
  run_linear(binding, linear_of({copy_call(far, source)}));
  for (size_t j = 0; j < 2; ++j)
    BOOST_TEST((ints_of(shards_of(binding, far)->shard(j)) == std::vector<int32_t>{9, 8}));
  BOOST_TEST(contains(
      message_of<InvalidArgument>([&] { run_linear(binding, linear_of({copy_call(source, from)})); }),
      "mixed single and multi-device buffers"));
}

BOOST_AUTO_TEST_CASE(shard_counts_must_agree, *boost::unit_test::label("MD-18")) {
  TestBackend& x = tb();
  std::vector<std::string> names;
  for (int i = 0; i < 4; ++i) names.push_back(x.open_name());
  UOp two = internal_ints(2, names[0] + "," + names[1]), four = internal_ints(2, join_devices(names)),
      one = internal_ints(2, names[0]);
  BufferBinding binding(device(names[0]));
  BOOST_TEST(
      contains(message_of<InvalidArgument>([&] { run_linear(binding, linear_of({add_call(two, four, 1)})); }),
               "disagree on device count"));
  BOOST_TEST(
      contains(message_of<InvalidArgument>([&] { run_linear(binding, linear_of({add_call(two, one, 1)})); }),
               "mixed single and multi-device buffers"));
}

BOOST_AUTO_TEST_CASE(a_sharded_program_is_compiled_once, *boost::unit_test::label("MD-19")) {
  TestBackend& x = tb();
  x.reset();
  clear_caches();
  std::string one = x.open_name(), two = x.open_name(), both = one + "," + two;
  UOp a = internal_ints(4, both), out = internal_ints(4, both);
  UOp o = param_node(0, DType::I32, 4), p = param_node(1, DType::I32, 4),
      i = range_node(4, 0, AxisType::Loop);
  UOp effect = store(o, i, alu(Op::ADD, load(p, i), load(p, i))), ended = end(effect, std::span(&i, 1));
  BufferBinding binding(device(one));
  MultiBufferRef in = shards_of(binding, a);
  for (const BufferRef& shard : in->shards()) shard->allocate();
  for (int32_t j = 0; j < 2; ++j) {
    std::vector<int32_t> values(4, 10 * j + 1);
    in->shard(size_t(j))->copy_in(std::as_bytes(std::span(values)));
  }
  CountingCompiler stub;
  run_linear(device(one), stub.function(), binding,
             linear_of({call_of(kernel_sink(std::span(&ended, 1)), {out, a})}));
  BOOST_TEST(stub.calls == 1);
  BOOST_TEST((x.counters().load == 2U && x.counters().launches == 2U));
  for (int32_t j = 0; j < 2; ++j)
    BOOST_TEST((ints_of(shards_of(binding, out)->shard(size_t(j))) == std::vector<int32_t>(4, 20 * j + 2)));
}

BOOST_AUTO_TEST_CASE(positions_that_need_different_targets_are_refused) {
  std::string one = tb().open_name(), other = tb("YDEV").open_name();
  UOp a = internal_ints(2, one + "," + other), b = internal_ints(2, one + "," + other);
  BufferBinding binding(device(one));
  for (int i = 0; i < 2; ++i) // what failed to resolve is not taken for resolved the next time
    BOOST_TEST(
        contains(message_of<InvalidArgument>([&] { run_linear(binding, linear_of({add_call(a, b, 1)})); }),
                 "positions 0 and 1 need different targets"));
}
