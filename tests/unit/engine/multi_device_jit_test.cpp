// Captured functions over values on several devices: every call computes what the function says, with new
// inputs each time. On devices that run at once, on such with streams, and across backends.
#include <array>
#include <cstring>
#include <functional>

#include <boost/test/unit_test.hpp>

#include "test_backend.h"
#include "tolk/base/config.h"
#include "tolk/engine/capture/replay.h"
#include "tolk/engine/run/run_linear.h"
#include "tolk/tensor/jit.h"
#include "tolk/tensor/tensor.h"
#include "tolk/uop/build.h"

using namespace tolk;

namespace {

using Floats = std::vector<float>;
using Devices = std::vector<std::string>;

constexpr int kCalls = 5;

Floats ramp(int64_t n, float first = 0) {
  Floats out;
  for (int64_t i = 0; i < n; ++i) out.push_back(first + float(i));
  return out;
}
Floats map(const Floats& a, const std::function<float(float)>& f) {
  Floats out;
  for (float v : a) out.push_back(f(v));
  return out;
}
Floats sum(const Floats& a, const Floats& b) {
  Floats out;
  for (size_t i = 0; i < a.size(); ++i) out.push_back(a[i] + b[i]);
  return out;
}

Tensor host(const Floats& values, const Shape& shape) { return Tensor::from(values, shape, "CPU"); }

// Two devices each: synchronous ones with graphs, ones with streams, ones without graphs, and two backends.
void on_device_pairs(const std::function<void(const Devices&)>& body) {
  static const std::vector<Devices> pairs = [] {
    auto streams = [](tb_options& o) { o.streams = 1; };
    test::TestBackend& x = test::tb("XDEV");
    return std::vector<Devices>{{"CPU", "CPU:1"},
                                {x.open_name(streams), x.open_name(streams)},
                                {x.open_name(), test::tb("YDEV").open_name()},
                                {"INTERP", "INTERP:1"},
                                {"CPU", "CPU"}};
  }();
  for (const Devices& on : pairs) BOOST_TEST_CONTEXT(join_devices(on)) body(on);
}

} // namespace

BOOST_AUTO_TEST_CASE(sharded_inputs_replay_in_parts, *boost::unit_test::label("MD-07")) {
  on_device_pairs([](const Devices& on) {
    Jit add([](Tensor a, Tensor b) { return a + b; });
    Jit list([](std::vector<Tensor> in) { return in[0] * 2 + in[1]; });
    Jit three([](Tensor a, Tensor b, Tensor c) { return a * b + c; });
    Jit mixed([](Tensor parts, Tensor whole) { return (parts * whole + 1).contiguous() * 2; });
    for (int i = 0; i < kCalls; ++i) {
      Floats va = ramp(8, float(i)), vb = ramp(8, float(10 * i)), vc = ramp(8, float(-i));
      auto in = [&](const Floats& v, int64_t axis = 0) { return host(v, {4, 2}).shard(on, axis).realize(); };
      BOOST_TEST(add(in(va), in(vb)).values<float>() == sum(va, vb), boost::test_tools::per_element());
      BOOST_TEST(list({in(va, 1), in(vb, 1)}).values<float>() == sum(sum(va, va), vb),
                 boost::test_tools::per_element());
      Floats expected, scaled;
      for (size_t k = 0; k < 8; ++k)
        expected.push_back(va[k] * vb[k] + vc[k]), scaled.push_back((va[k] * vb[k] + 1) * 2);
      BOOST_TEST(three(in(va), in(vb), in(vc)).values<float>() == expected, boost::test_tools::per_element());
      Tensor whole = host(vb, {4, 2}).replicate(on).realize();
      BOOST_TEST(mixed(in(va), whole).values<float>() == scaled, boost::test_tools::per_element());
    }
  });
}

BOOST_AUTO_TEST_CASE(sharding_inside_of_a_capture_is_replayed, *boost::unit_test::label("MD-08")) {
  on_device_pairs([](const Devices& on) {
    Jit f([&](Tensor x) { return (x.shard(on, 0) + 1).sum(); });
    for (int i = 0; i < kCalls; ++i) {
      BOOST_TEST(f(host(ramp(4), {4}).realize()).item() == 10);
      BOOST_TEST(f(host(ramp(4, float(i)), {4}).realize()).item() == 10 + 4 * i);
    }
  });
}

BOOST_AUTO_TEST_CASE(reduce_over_the_sharded_axis, *boost::unit_test::label("MD-09")) {
  on_device_pairs([](const Devices& on) {
    Jit f([](Tensor x) { return x.sum({0}); });
    for (int i = 0; i < kCalls; ++i) {
      Tensor ones = Tensor::ones({2, 64}).shard(on, 0).realize();
      BOOST_TEST(f(ones).values<float>() == Floats(64, 2), boost::test_tools::per_element());
    }
    Tensor other = host(ramp(128), {2, 64}).shard(on, 0).realize();
    BOOST_TEST(f(other).values<float>() == sum(ramp(64), ramp(64, 64)), boost::test_tools::per_element());
  });
}

BOOST_AUTO_TEST_CASE(a_copy_inside, *boost::unit_test::label("MD-10")) {
  on_device_pairs([](const Devices& on) {
    Jit f([&](Tensor x) { return x.to(on[1]) + 1; });
    for (int i = 0; i < kCalls; ++i) {
      Tensor x = Tensor::from(ramp(6, float(i)), {6}, on[0]).realize(), y = f(x);
      BOOST_TEST(y.device() == on[1]);
      BOOST_TEST(y.values<float>() == ramp(6, float(i + 1)), boost::test_tools::per_element());
    }
  });
}

BOOST_AUTO_TEST_CASE(two_transfers_inside, *boost::unit_test::label("MD-11")) {
  on_device_pairs([](const Devices& on) {
    Jit f([&](Tensor a, Tensor b) { return std::pair((a.to(on[1]) + 0).contiguous(), b.to(on[1]) * 1); });
    for (int i = 0; i < kCalls; ++i) {
      Floats va = ramp(6, float(i)), vb = ramp(6, float(-i));
      auto [a, b] = f(Tensor::from(va, {6}, on[0]).realize(), Tensor::from(vb, {6}, on[0]).realize());
      BOOST_TEST(a.device() == on[1]);
      BOOST_TEST(a.values<float>() == va, boost::test_tools::per_element());
      BOOST_TEST(b.values<float>() == vb, boost::test_tools::per_element());
    }
  });
}

BOOST_AUTO_TEST_CASE(all_reduce_inside, *boost::unit_test::label("MD-12")) {
  test::TestBackend& x = test::tb("XDEV");
  std::vector<Devices> sets = {{"CPU", "CPU:1", "CPU:2", "CPU:3"}, {"CPU", "CPU:1"}};
  sets.push_back({x.open_name([](tb_options& o) { o.streams = 1; }),
                  x.open_name([](tb_options& o) { o.streams = 1; }),
                  x.open_name([](tb_options& o) { o.streams = 1; })});
  sets.push_back({"CPU", "INTERP", "CPU:1"});
  for (const Devices& on : sets) {
    std::array<size_t, 3> calls{}; // of each way
    for (int way = 0; way < 3; ++way) {
      Config config = Config::current();
      config.ring = way == 1 ? 2 : 0, config.all_to_all = way == 2 ? 2 : 0;
      ScopedConfig scope(config);
      auto count = int64_t(on.size());
      Jit reduced([](Tensor t) { return (t * 2).sum({0}); });
      Jit combined([](Tensor t) { return t.allreduce(Op::ADD) + 1; });
      for (int i = 0; i < kCalls; ++i) {
        // Whole numbers: sums are exact in every order.
        Floats values, expected(70, 0.f);
        for (int64_t k = 0; k < 70 * count; ++k) values.push_back(float((k * 7 + i * 13) % 31 - 15));
        for (size_t k = 0; k < values.size(); ++k) expected[k % 70] += 2 * values[k];
        Tensor in = host(values, {count, 70}).shard(on, 0).realize();
        BOOST_TEST(reduced(in).values<float>() == expected, boost::test_tools::per_element());
        Tensor replica = host(ramp(70, float(i)), {70}).replicate(on).realize();
        Floats total = map(ramp(70, float(i)), [&](float v) { return float(count) * v + 1; });
        BOOST_TEST(combined(replica).values<float>() == total, boost::test_tools::per_element());
      }
      calls[size_t(way)] = combined.captured()->planned_linear().nsrc();
    }
    // In parts, more calls than by sending each whole to all, and around a ring the most; with two devices
    // the ring is the other way.
    BOOST_TEST(calls[0] < calls[2]);
    BOOST_TEST((on.size() == 2 ? calls[1] == calls[2] : calls[2] < calls[1]));
  }
}

BOOST_AUTO_TEST_CASE(a_sharded_cache_with_a_variable_start, *boost::unit_test::label("MD-13")) {
  on_device_pairs([](const Devices& on) {
    Variable at("at", 0, 7);
    for (int64_t axis : {0, 1}) { // batch rows in parts; and positions in parts, so that steps change device
      Tensor cache = host(Floats(2 * 8, 0.f), {2, 8}).shard(on, axis).realize();
      auto write = [&](Tensor rows, SInt start) {
        Tensor place = cache.narrow(1, start, 1);
        place.assign(rows);
        place.realize();
      };
      auto ones = [&] { return Tensor::ones({2, 1}).replicate(on).realize(); };
      for (int i = 0; i < 3; ++i) write(ones(), at.bind(i));
      Jit step(write);
      for (int i = 3; i < 6; ++i) step(ones(), at.bind(i));
      Floats row = {1, 1, 1, 1, 1, 1, 0, 0}, expected = row;
      expected.insert(expected.end(), row.begin(), row.end());
      BOOST_TEST(cache.values<float>() == expected, boost::test_tools::per_element());
      // Further replays, elsewhere.
      for (int i : {7, 0, 6}) step(host({5, 6}, {2, 1}).replicate(on).realize(), at.bind(i));
      expected = {5, 1, 1, 1, 1, 1, 5, 5, 6, 1, 1, 1, 1, 1, 6, 6};
      BOOST_TEST(cache.values<float>() == expected, boost::test_tools::per_element());
    }
  });
}

BOOST_AUTO_TEST_CASE(in_place_at_a_variable_offset, *boost::unit_test::label("MD-14")) {
  on_device_pairs([](const Devices& on) {
    for (int axis : {0, -1}) { // -1: on every device the whole
      auto placed = [&](const Tensor& t) { return axis == 0 ? t.shard(on, 0) : t.replicate(on); };
      Tensor out = placed(host(Floats(2 * 6, 0.f), {2, 6})).realize();
      Tensor ones = placed(host(Floats(2, 1.f), {2, 1})).realize();
      Variable v("i", 1, 4);
      Jit step([&](SInt i) {
        Tensor column = out.narrow(1, i, 1), next = ones;
        column.assign(ones).realize();
        next.assign(ones + 1).realize();
      });
      for (int i = 1; i <= 4; ++i) step(v.bind(i));
      Floats row = {0, 1, 2, 3, 4, 0}, expected = row;
      expected.insert(expected.end(), row.begin(), row.end());
      BOOST_TEST(out.values<float>() == expected, boost::test_tools::per_element());
      BOOST_TEST(ones.values<float>() == (Floats{5, 5}), boost::test_tools::per_element());
    }
  });
}

BOOST_AUTO_TEST_CASE(bits_then_a_transfer, *boost::unit_test::label("MD-15")) {
  on_device_pairs([](const Devices& on) {
    Jit f([&](Tensor x) { return (x.sum({0}) + 5).bitcast(DType::I32).to(on[1]).contiguous(); });
    for (int i = 0; i < kCalls; ++i) {
      Floats in = ramp(8, float(i) / 3);
      std::vector<int32_t> got = f(Tensor::from(in, {2, 4}, on[0]).realize()).values<int32_t>();
      for (size_t k = 0; k < 4; ++k) {
        float expected = in[k] + in[4 + k] + 5;
        int32_t bits;
        std::memcpy(&bits, &expected, sizeof bits);
        BOOST_TEST(got[k] == bits);
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(several_devices_mixed, *boost::unit_test::label("MD-16")) {
  on_device_pairs([](const Devices& on) {
    Jit f([&](Tensor a, Tensor b) {
      Tensor there = a.to(on[0]) * 2 + b.to(on[0]);
      return (there.to(on[1]) - 1).to("CPU");
    });
    for (int i = 0; i < kCalls; ++i) {
      Floats va = ramp(5, float(i)), vb = ramp(5, float(3 * i));
      Floats expected = map(sum(sum(va, va), vb), [](float v) { return v - 1; });
      Tensor y = f(host(va, {5}).realize(), host(vb, {5}).realize());
      BOOST_TEST(y.values<float>() == expected, boost::test_tools::per_element());
    }
  });
}

BOOST_AUTO_TEST_CASE(a_sharded_output_is_the_next_input) {
  on_device_pairs([](const Devices& on) {
    Jit f([](Tensor x) { return (x + 1).contiguous() * 2; });
    Tensor x = host(ramp(8), {8}).shard(on, 0).realize();
    Floats expected = ramp(8);
    for (int i = 0; i < kCalls; ++i) {
      x = f(x);
      expected = map(expected, [](float v) { return (v + 1) * 2; });
      BOOST_TEST(x.values<float>() == expected, boost::test_tools::per_element());
    }
  });
}

BOOST_AUTO_TEST_CASE(kernels_on_several_devices_are_replayed_as_one_graph) {
  Devices on = {"CPU", "CPU:1"};
  Jit f([](Tensor x) { return (x + 1).contiguous().sum({0}); });
  for (int i = 0; i < 2; ++i) f(host(ramp(8), {2, 4}).shard(on, 0).realize());
  uint64_t before = engine::graph_launches();
  Tensor y = f(host(ramp(8, 1), {2, 4}).shard(on, 0).realize());
  BOOST_TEST(engine::graph_launches() == before + 1);
  BOOST_TEST(f.captured()->num_calls() == 1U);
  BOOST_TEST(y.values<float>() == (Floats{8, 10, 12, 14}), boost::test_tools::per_element());
}
