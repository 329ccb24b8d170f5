// Values on several devices: what is scheduled for every operation on parts, computed on the host position by
// position. Every kernel's arguments must be on one device then, so a value that is read on the wrong device
// is an error there.
#include <boost/test/unit_test.hpp>

#include "multi_support.h"
#include "tolk/base/error.h"
#include "tolk/schedule/tensor/allreduce.h"
#include "tolk/schedule/tensor/realized.h"

using namespace mini;
using namespace support;

namespace {

using V = std::vector<double>;

// Storage on CPU with 0, 1, 2 ...
T input(const Shape& shape, host::Memory& memory, double first = 0, DType dtype = DType::F64) {
  T x = buffer(shape, dtype);
  memory.fill(storage(x), ramp(tolk::numel(shape).value(), first));
  return x;
}

// The sharded form gives what the plain form does.
void same(const T& sharded, const T& plain, host::Memory& memory, Calls expected = {~size_t(0), 0}) {
  auto s = run({sharded}, memory);
  Calls made = calls(s.linear);
  if (expected.copies != ~size_t(0)) {
    BOOST_TEST(made.copies == expected.copies, listing(s.linear));
    BOOST_TEST(made.kernels == expected.kernels, listing(s.linear));
  }
  BOOST_TEST((tolk::shape_of(s.results[0]) == plain.shape()));
  BOOST_TEST(whole(s.results[0], memory) == values(plain.u, memory), boost::test_tools::per_element());
}

} // namespace

BOOST_AUTO_TEST_CASE(parts_are_copied_where_they_belong) {
  host::Memory memory;
  T x = input({8, 4}, memory), s = shard(x, devices(2), 0);
  auto run_ = run({s}, memory);
  BOOST_TEST(run_.results[0].is(Op::MULTI));
  BOOST_TEST(tolk::device_of(run_.results[0]) == "CPU,CPU:1");
  BOOST_TEST(part(run_.results[0], 0, memory) == ramp(16), boost::test_tools::per_element());
  BOOST_TEST(part(run_.results[0], 1, memory) == ramp(16, 16), boost::test_tools::per_element());
  // The result has storage of its own, also on the device that had the value.
  BOOST_TEST(calls(run_.linear).copies == 2U);
  BOOST_TEST(calls(run_.linear).kernels == 0U);
  same(shard(x, devices(2), 1), x, memory); // parts with gaps
  same(shard(x, devices(4), 0), x, memory, {4, 0});
}

BOOST_AUTO_TEST_CASE(a_computed_value_is_computed_once_and_distributed) {
  host::Memory memory;
  T x = input({8, 4}, memory);
  same(shard(x + 1, devices(2), 0), x + 1, memory);
}

BOOST_AUTO_TEST_CASE(gathering_gives_the_value_back) {
  host::Memory memory;
  T x = input({8, 4}, memory);
  for (int axis : {0, 1}) {
    T s = shard(x, devices(2), axis);
    same(to(s, "CPU"), x, memory);
    same(to(s, "CPU:1"), x, memory);
    same(to(s, "CPU:7"), x, memory);
    same(replicate(s, devices(2)), x, memory);
    same(replicate(s, devices(4)), x, memory);
    same(shard(s, devices(2), 1 - axis), x, memory);
  }
}

BOOST_AUTO_TEST_CASE(a_replica_is_one_broadcast) {
  host::Memory memory;
  T x = input({6}, memory);
  auto s = run({replicate(x, devices(3))}, memory);
  BOOST_TEST(s.linear.nsrc() == 1U);
  BOOST_TEST(whole(s.results[0], memory) == ramp(6), boost::test_tools::per_element());
  same(to(replicate(x, devices(3)), "CPU:1"), x, memory);
  same(to(replicate(x, devices(3)), "CPU:9"), x, memory);
  same(shard(replicate(x, devices(3)), devices(3), 0), x, memory, {1, 1});
}

BOOST_AUTO_TEST_CASE(one_kernel_serves_all_positions) {
  host::Memory memory;
  T x = input({8, 4}, memory), s = shard(x, devices(2), 0);
  same(s + 1, x + 1, memory, {1, 1}); // the first part is read where it is
  same(s + s, x + x, memory, {1, 1});
  same(exp(s * 0.0) + s, exp(x * 0.0) + x, memory, {1, 1});
  same(sum(s, {1}), sum(x, {1}), memory, {1, 1});
}

BOOST_AUTO_TEST_CASE(operands_meet_in_the_parts_of_the_result) {
  host::Memory memory;
  T x = input({4, 6}, memory), y = input({4, 6}, memory, 100);
  T a = shard(x, devices(2), 0), b = shard(y, devices(2), 1), r = replicate(y, devices(2));
  same(a + r, x + y, memory);
  same(r + a, y + x, memory);
  same(a + b, x + y, memory);
  T row = input({6}, memory, 7), column = input({4, 1}, memory, 3);
  same(a + replicate(row, devices(2)), x + row, memory);
  same(a + replicate(column, devices(2)), x + column, memory);
  same(a + shard(column, devices(2), 0), x + column, memory);
  same(a * arange(6, DType::F64), x * arange(6, DType::F64), memory);
  same(a * mini::reshape(arange(4, DType::F64), {4, 1}), x * mini::reshape(arange(4, DType::F64), {4, 1}),
       memory);
  same(where(less(a, r), a, b), where(less(x, y), x, y), memory);
  BOOST_CHECK_THROW(schedule({a + y}), tolk::InvalidArgument);
  BOOST_CHECK_THROW(schedule({a + shard(y, {"CPU:5", "CPU:6"}, 0)}), tolk::InvalidArgument);
  BOOST_CHECK_THROW(schedule({a + shard(y, {"CPU:5", "CPU:6"}, 1)}), tolk::InvalidArgument);
}

BOOST_AUTO_TEST_CASE(values_without_a_device_know_their_position) {
  host::Memory memory;
  T s = shard(arange(8, DType::I32), devices(4), 0);
  same(s, arange(8, DType::I32), memory, {0, 1});
  same(s + 1, arange(8, DType::I32) + 1, memory);
  same(shard(full({4, 2}, 3), devices(2), 0) + 1, full({4, 2}, 4), memory);
}

BOOST_AUTO_TEST_CASE(views_keep_the_parts) {
  host::Memory memory;
  T x = input({4, 6}, memory), s = shard(x, devices(2), 0), t = shard(x, devices(2), 1);
  same(transpose(s) + 1, transpose(x) + 1, memory, {1, 1});
  same(mini::reshape(s, {24}) + 1, mini::reshape(x, {24}) + 1, memory, {1, 1});
  same(mini::reshape(s, {2, 2, 6}) + 1, mini::reshape(x, {2, 2, 6}) + 1, memory, {1, 1});
  same(mini::reshape(s, {1, 4, 2, 3}) + 1, mini::reshape(x, {1, 4, 2, 3}) + 1, memory, {1, 1});
  same(mini::reshape(t, {4, 2, 3}) + 1, mini::reshape(x, {4, 2, 3}) + 1, memory);
  same(pad(s, {0, 1}, {0, 2}) + 1, pad(x, {0, 1}, {0, 2}) + 1, memory, {1, 1});
  same(shrink(s, {0, 2}, {4, 3}) + 1, shrink(x, {0, 2}, {4, 3}) + 1, memory, {1, 1});
  same(flip(s, {1}) + 1, flip(x, {1}) + 1, memory, {1, 1});
  same(window(s, 1, 3, 2, 2) + 1, window(x, 1, 3, 2, 2) + 1, memory, {1, 1});
  same(window(t, 0, 3, 2) + 1, window(x, 0, 3, 2) + 1, memory);
  T one = input({4, 1}, memory, 5);
  same(expand(shard(one, devices(2), 0), {4, 3}) + 1, expand(one, {4, 3}) + 1, memory, {1, 1});
}

BOOST_AUTO_TEST_CASE(what_mixes_parts_is_computed_from_the_whole) {
  host::Memory memory;
  T x = input({4, 6}, memory), s = shard(x, devices(2), 0), t = shard(x, devices(2), 1);
  same(flip(s, {0, 1}), flip(x, {0, 1}), memory);
  same(pad(s, {1, 0}, {2, 0}), pad(x, {1, 0}, {2, 0}), memory);
  same(window(s, 0, 2, 3), window(x, 0, 2, 3), memory);
  same(mini::reshape(t, {24}), mini::reshape(x, {24}), memory);
  same(mini::reshape(s, {3, 8}), mini::reshape(x, {3, 8}), memory);
  same(mini::reshape(shard(x, devices(4), 0), {2, 12}), mini::reshape(x, {2, 12}), memory);
}

BOOST_AUTO_TEST_CASE(slices_come_from_the_parts_they_cover) {
  host::Memory memory;
  T x = input({8, 3}, memory), s = shard(x, devices(4), 0);
  for (int64_t begin = 0; begin < 8; ++begin)
    for (int64_t size = 1; begin + size <= 8; ++size)
      same(shrink(s, {begin, 1}, {size, 2}), shrink(x, {begin, 1}, {size, 2}), memory);
  // One part on one device takes one copy.
  same(to(shrink(s, {2, 0}, {2, 3}), "CPU"), shrink(x, {2, 0}, {2, 3}), memory, {2, 0});
  SInt n(tolk::bind(tolk::variable("n", 0, 5), 3));
  auto r = run({shrink(s, {n, 0}, {3, 3})}, memory);
  BOOST_TEST(whole(r.results[0], memory) == ramp(9, 9), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(gathers_by_index) {
  host::Memory memory;
  T x = input({6, 4}, memory), i = buffer({2, 2}, DType::I32), y = input({4, 6, 2}, memory);
  memory.fill(storage(i), {5, 0, -1, 3});
  Devices on = devices(2);
  same(gather(shard(x, on, 1), replicate(i, on), 0), gather(x, i, 0), memory);
  same(gather(shard(x, on, 0), replicate(i, on), 0), gather(x, i, 0), memory);
  same(gather(replicate(x, on), shard(i, on, 1), 0), gather(x, i, 0), memory);
  same(gather(shard(x, on, 0), shard(i, on, 0), 0), gather(x, i, 0), memory);
  same(gather(shard(x, on, 1), shard(i, on, 0), 0), gather(x, i, 0), memory);
  same(gather(shard(y, on, 0), replicate(i, on), 1), gather(y, i, 1), memory);
  same(gather(shard(y, on, 2), shard(i, on, 0), 1), gather(y, i, 1), memory);
}

BOOST_AUTO_TEST_CASE(reductions_over_parts_are_combined) {
  host::Memory memory;
  T x = input({8, 4}, memory, 1);
  for (size_t count : {2u, 4u}) {
    T s = shard(x, devices(count), 0);
    same(sum(s, {0}), sum(x, {0}), memory);
    same(sum(s), sum(x), memory);
    same(max(s), max(x), memory);
    same(sum(shard(x, devices(count), 1)), sum(x), memory);
    same(softmax(s, 0), softmax(x, 0), memory);
    same(softmax(s, 1), softmax(x, 1), memory);
    same(s - mean(s, {0}, true), x - mean(x, {0}, true), memory);
    same(reduce(Op::MUL, s * 0.5, {0}), reduce(Op::MUL, x * 0.5, {0}), memory);
  }
  // Every partial sum to every other device, then one kernel.
  T v = buffer({4, 64}, DType::F32);
  memory.fill(storage(v), ramp(256));
  T on_devices{tolk::reshape(
      tolk::buffer_node(tolk::fresh_user_slot(), DType::F32, 64, "CPU,CPU:1,CPU:2,CPU:3"), {1, 64})};
  Calls made = calls(schedule({sum(T{tolk::multi(on_devices.u, 0, 4)}, {0})}).linear);
  BOOST_TEST(made.copies == 12U);
  BOOST_TEST(made.kernels == 1U);
}

BOOST_AUTO_TEST_CASE(products_of_matrices) {
  host::Memory memory;
  T x = input({4, 6}, memory), w = input({6, 8}, memory, 3), v = input({8, 2}, memory, 1);
  Devices on = devices(2);
  same(matmul(shard(x, on, 0), replicate(w, on)), matmul(x, w), memory); // data parallel
  same(matmul(replicate(x, on), shard(w, on, 1)), matmul(x, w), memory); // by columns
  same(matmul(shard(x, on, 1), shard(w, on, 0)), matmul(x, w), memory);  // by the inner axis
  T hidden = relu(matmul(replicate(x, on), shard(w, on, 1)));
  same(matmul(hidden, shard(v, on, 0)), matmul(relu(matmul(x, w)), v), memory);
}

BOOST_AUTO_TEST_CASE(all_reduce_in_three_ways) {
  for (size_t count : {2u, 3u, 4u})
    for (Op op : {Op::ADD, Op::MUL, Op::MAX})
      for (int64_t n : {1, 3, 7, 12, 100, 384})
        for (int way = 0; way < 3; ++way) {
          host::Memory memory;
          tolk::UOp b =
              tolk::buffer_node(tolk::fresh_user_slot(), DType::F64, n, tolk::join_devices(devices(count)));
          V expected(static_cast<size_t>(n), op == Op::MUL ? 1 : 0);
          for (size_t p = 0; p < count; ++p) {
            V mine;
            for (int64_t i = 0; i < n; ++i) mine.push_back(double((i * 7 + int64_t(p) * 5) % 11 + 1));
            memory.fill(tolk::mselect(b, int64_t(p)), mine);
            for (size_t i = 0; i < mine.size(); ++i)
              expected[i] = op == Op::ADD   ? expected[i] + mine[i]
                            : op == Op::MUL ? expected[i] * mine[i]
                                            : std::max(expected[i], mine[i]);
          }
          auto o = options();
          o.ring = way == 1 ? 2 : 0, o.all_to_all = way == 2 ? 2 : 0;
          auto s = run({T{tolk::allreduce(b, op)}}, memory, o);
          BOOST_TEST(whole(s.results[0], memory) == expected, boost::test_tools::per_element());
          if (n != 384) continue;
          // Of C chunks each of C - 1 hops folds, and as many hand out; or all partial chunks to one
          // position.
          size_t copies = way == 0 ? count * (count - 1) : 2 * count * (count - 1);
          BOOST_TEST(calls(s.linear).copies == copies, listing(s.linear));
        }
}

BOOST_AUTO_TEST_CASE(many_elements_on_many_devices_go_around_the_ring) {
  auto call_count = [](size_t count, int64_t n, int ring, int all_to_all) {
    auto o = options();
    o.ring = ring, o.all_to_all = all_to_all;
    tolk::UOp b =
        tolk::buffer_node(tolk::fresh_user_slot(), DType::F32, n, tolk::join_devices(devices(count)));
    return calls(schedule({T{tolk::allreduce(b, Op::ADD)}}, o).linear).copies;
  };
  size_t naive = 4 * 3, chunked = 2 * 4 * 3;
  BOOST_TEST(call_count(4, 256'000, 1, 0) == naive);
  BOOST_TEST(call_count(4, 256'032, 1, 0) == chunked);
  BOOST_TEST(call_count(4, 256'032, 0, 0) == naive);
  BOOST_TEST(call_count(4, 256'032, 0, 1) == chunked);
  BOOST_TEST(call_count(2, 256'032, 1, 1) == 2U);
}

BOOST_AUTO_TEST_CASE(one_device_twice_is_two_positions) {
  host::Memory memory;
  T x = input({8}, memory, 1), s = shard(x, {"CPU", "CPU"}, 0);
  same(s + 1, x + 1, memory);
  same(sum(s), sum(x), memory);
  same(shrink(s, {3}, {2}), shrink(x, {3}, {2}), memory);
  same(to(s, "CPU"), x, memory);
}

BOOST_AUTO_TEST_CASE(kernels_on_several_backends_are_one_for_each) {
  host::Memory memory;
  Devices on = {"CPU", "XDEV", "XDEV:1"};
  T x = input({6, 4}, memory), s = shard(x, on, 0), r = replicate(input({6, 4}, memory, 9), on);
  same(s + s, x + x, memory, {2, 3});
  same(s + r, x + input({6, 4}, memory, 9), memory);
  same(sum(s, {0}), sum(x, {0}), memory);
  same(shard(arange(6, DType::F64), on, 0) * 2.0, arange(6, DType::F64) * 2.0, memory);
  same(matmul(replicate(x, on), shard(input({4, 3}, memory), on, 1)), matmul(x, input({4, 3}, memory)),
       memory);
}

BOOST_AUTO_TEST_CASE(other_axes_may_be_symbolic) {
  host::Memory memory;
  T x = input({4, 6}, memory), s = shard(x, devices(2), 0);
  SInt n(tolk::bind(tolk::variable("n", 1, 6), 3));
  auto bound = [&](const std::vector<T>& roots) {
    auto r = schedule(roots);
    host::run_linear(r.linear, memory, r.vars);
    return r.results;
  };
  T some = shrink(s, {0, 0}, {4, n});
  BOOST_TEST(whole(bound({sum(some, {1})})[0], memory) == (V{3, 21, 39, 57}),
             boost::test_tools::per_element());
  // The sum over the devices has a symbolic size.
  V first = part(bound({sum(some, {0})})[0], 0, memory, {{"n", 3}}),
    second = part(bound({sum(some, {0})})[0], 1, memory, {{"n", 3}});
  first.resize(3), second.resize(3);
  BOOST_TEST(first == (V{36, 40, 44}), boost::test_tools::per_element());
  BOOST_TEST(second == (V{36, 40, 44}), boost::test_tools::per_element());
  BOOST_TEST(whole(bound({sum(some + 1)})[0], memory)[0] == 132);
  BOOST_TEST(values(bound({sum(to(some, "CPU:1") * 2.0)})[0], memory)[0] == 240);
}

BOOST_AUTO_TEST_CASE(equal_sharded_graphs_share_a_schedule) {
  auto o = options();
  o.cache = true;
  auto graph = [&](const Devices& on) { return sum(shard(buffer({8, 4}), on, 0) + 1, {0}); };
  schedule({graph(devices(2))}, o);
  auto before = tolk::schedule::schedule_cache_counters();
  schedule({graph(devices(2))}, o);
  BOOST_TEST(tolk::schedule::schedule_cache_counters().hits == before.hits + 1);
  schedule({graph({"CPU", "CPU:2"})}, o);
  o.all_to_all = 2;
  schedule({graph(devices(2))}, o);
  BOOST_TEST(tolk::schedule::schedule_cache_counters().misses == before.misses + 2);
}

BOOST_AUTO_TEST_CASE(realised_parts_are_read_not_copied_again) {
  host::Memory memory;
  T x = input({8, 4}, memory), s = shard(x, devices(2), 0);
  auto first = run({s}, memory);
  tolk::schedule::set_realized(s.u, first.results[0]);
  same(s + 1, x + 1, memory, {0, 1});
  same(shrink(s, {4, 0}, {4, 4}), shrink(x, {4, 0}, {4, 4}), memory);
  auto again = schedule({s});
  BOOST_TEST(again.linear.nsrc() == 0U);
  BOOST_TEST((again.results[0] == first.results[0]));
}

BOOST_AUTO_TEST_CASE(stores_reach_the_parts) {
  host::Memory memory;
  Devices on = devices(2);
  T x = input({4, 6}, memory);
  auto fresh = [&](int64_t axis) {
    auto s = run({shard(x, on, axis)}, memory);
    return T{s.results[0]};
  };
  for (int64_t axis : {0, 1}) {
    T s = fresh(axis);
    same(assign(s, s + 1), x + 1, memory, {0, 1});
    same(s, x + 1, memory);
    T t = fresh(axis), r = replicate(x, on);
    same(assign(t, r * 2.0), x * 2.0, memory);
    T u = fresh(axis);
    same(assign(u, shard(x * 3.0, on, 1 - axis)), x * 3.0, memory);
    // Every element moves to another part.
    T v = fresh(axis);
    same(assign(v, flip(v, {0, 1})), flip(x, {0, 1}), memory);
    same(v, flip(x, {0, 1}), memory);
    // A slice of all parts, and one across parts.
    for (int cut : {0, 1}) {
      T w = fresh(axis);
      Shape begin{0, 0}, size{4, 6};
      begin[size_t(cut)] = 1, size[size_t(cut)] = 3;
      T value = T{shrink(x, begin, size)} * 10.0;
      T target = shrink(w, begin, size);
      same(assign(target, replicate(value, on)), value, memory);
      V expected = ramp(24);
      for (int64_t i = 0; i < 4; ++i)
        for (int64_t j = 0; j < 6; ++j)
          if (int64_t k = cut ? j : i; k >= 1 && k < 4) expected[size_t(i * 6 + j)] *= 10;
      auto now = run({w + 0.0}, memory);
      BOOST_TEST(whole(now.results[0], memory) == expected, boost::test_tools::per_element());
      // From constants, at a position that is known at run time.
      SInt n(tolk::bind(tolk::variable("n", 0, 3), 2));
      begin[size_t(cut)] = n, size[size_t(cut)] = 1;
      T place = shrink(w, begin, size);
      auto filled = run({assign(place, full(size, -1, DType::F64))}, memory);
      for (int64_t i = 0; i < 4; ++i)
        for (int64_t j = 0; j < 6; ++j)
          if ((cut ? j : i) == 2) expected[size_t(i * 6 + j)] = -1;
      now = run({w + 0.0}, memory);
      BOOST_TEST(whole(now.results[0], memory) == expected, boost::test_tools::per_element());
    }
  }
  T s = fresh(0), replica{run({replicate(x, on)}, memory).results[0]};
  same(assign(replica, s + 1), x + 1, memory);
  BOOST_CHECK_EXCEPTION(
      schedule({assign(flip(s, {0}), replicate(x, on))}), tolk::InvalidArgument,
      [](const auto& e) { return std::string(e.what()).find("axis 0") != std::string::npos; });
}

BOOST_AUTO_TEST_CASE(uneven_parts_are_refused_before_anything_happens) {
  auto message = [](const Shape& shape, size_t count, int64_t axis) -> std::string {
    try {
      shard(buffer(shape), devices(count), axis);
    } catch (const tolk::InvalidArgument& e) {
      return e.what();
    }
    return {};
  };
  std::string text = message({7, 4}, 2, 0);
  BOOST_TEST(text.find("axis 0 has size 7") != std::string::npos, text);
  BOOST_TEST(text.find("2 devices") != std::string::npos, text);
  BOOST_TEST(!message({3}, 4, 0).empty());
  BOOST_TEST(!message({4}, 2, 1).empty());
  BOOST_TEST(message({4}, 4, 0).empty());
}

BOOST_AUTO_TEST_CASE(values_without_elements) {
  host::Memory memory;
  auto s = run({shard(buffer({4, 0}), devices(2), 0), shard(buffer({0}), devices(2), 0)}, memory);
  BOOST_TEST((tolk::shape_of(s.results[0]) == Shape{4, 0}));
  BOOST_TEST(tolk::device_of(s.results[0]) == "CPU,CPU:1");
  BOOST_TEST(s.linear.nsrc() == 0U);
  same(sum(shard(buffer({0, 3}), devices(2), 0), {0}), full({3}, 0, DType::F32), memory);
}
