// Tensors on several devices, run by the engine: on devices of the CPU plugin, of two instrumented backends,
// and across backends. Expected values come from plain arithmetic or from the same program on one device.
#include <cmath>
#include <cstring>
#include <random>

#include <boost/test/unit_test.hpp>

#include "test_backend.h"
#include "tolk/base/config.h"
#include "tolk/base/error.h"
#include "tolk/device/registry.h"
#include "tolk/engine/capture/capture.h"
#include "tolk/engine/compile/compile_linear.h"
#include "tolk/engine/graph/batch_graphs.h"
#include "tolk/engine/graph/graph_call.h"
#include "tolk/engine/run/node_storage.h"
#include "tolk/engine/run/profile.h"
#include "tolk/engine/run/realize.h"
#include "tolk/engine/run/resolve.h"
#include "tolk/engine/run/run_linear.h"
#include "tolk/engine/run/statistics.h"
#include "tolk/schedule/schedule.h"
#include "tolk/tensor/gradient.h"
#include "tolk/tensor/jit.h"
#include "tolk/tensor/tensor.h"
#include "tolk/uop/build.h"

using namespace tolk;

namespace {

using Floats = std::vector<float>;
using Devices = std::vector<std::string>;

Floats ramp(int64_t n, float first = 0) {
  Floats out;
  for (int64_t i = 0; i < n; ++i) out.push_back(first + float(i));
  return out;
}

Floats noise(int64_t n, uint32_t seed) {
  std::mt19937 random(seed);
  Floats out;
  for (int64_t i = 0; i < n; ++i) out.push_back(float(int(random() % 2001) - 1000) / 500.f);
  return out;
}

Devices cpus(size_t count) {
  Devices out = {"CPU"};
  while (out.size() < count) out.push_back("CPU:" + std::to_string(out.size()));
  return out;
}

// Sets of devices that every program must work on: one backend, another, and several at once.
const std::vector<Devices>& device_sets() {
  static const std::vector<Devices> sets = [] {
    test::tb("XDEV"), test::tb("YDEV");
    auto streams = [](tb_options& o) { o.streams = 1; };
    Devices asynchronous = {test::tb("XDEV").open_name(streams), test::tb("XDEV").open_name(streams)};
    return std::vector<Devices>{asynchronous,           {asynchronous[0], "CPU"}, {"CPU", "CPU:1"},
                                {"INTERP", "INTERP:1"}, {"XDEV:91", "XDEV:92"},   {"CPU", "CPU"},
                                {"CPU", "INTERP"},      {"XDEV:91", "YDEV:91"},   {"INTERP:2", "XDEV:91"}};
  }();
  return sets;
}

// The elements that one position has.
Floats part(const Tensor& t, size_t position) {
  UOp node = t.node().is(Op::MULTI) ? t.node().src(0) : t.node();
  engine::AnyBuffer any = engine::any_buffer_of(engine::contiguous_storage(node));
  BufferRef buffer = std::get<MultiBufferRef>(any)->shard(position);
  Floats out(buffer->count());
  buffer->copy_out(std::as_writable_bytes(std::span(out)));
  return out;
}

bool same_bits(const Floats& a, const Floats& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

} // namespace

BOOST_AUTO_TEST_CASE(shard_and_gather, *boost::unit_test::label("MD-01")) {
  for (const Devices& on : device_sets()) {
    BOOST_TEST_CONTEXT(join_devices(on)) {
      Tensor x = Tensor::from(ramp(8), {8}, "CPU"), s = x.shard(on, 0);
      BOOST_TEST(s.values<float>() == ramp(8), boost::test_tools::per_element());
      s.realize();
      BOOST_TEST(part(s, 0) == ramp(4), boost::test_tools::per_element());
      BOOST_TEST(part(s, 1) == ramp(4, 4), boost::test_tools::per_element());
      BOOST_TEST(s.to("CPU").values<float>() == ramp(8), boost::test_tools::per_element());
      BOOST_TEST(s.to("INTERP:5").values<float>() == ramp(8), boost::test_tools::per_element());
      BOOST_TEST((s.devices() == on));
      BOOST_TEST(s.shard_axis().value() == 0);
      BOOST_TEST(!x.shard_axis());
    }
  }
}

BOOST_AUTO_TEST_CASE(replicate_to_a_tuple, *boost::unit_test::label("MD-02")) {
  for (const Devices& on : device_sets()) {
    BOOST_TEST_CONTEXT(join_devices(on)) {
      Tensor r = Tensor::from(ramp(6, 1), {2, 3}, "CPU").replicate(on).realize();
      BOOST_TEST((r.devices() == on));
      BOOST_TEST(!r.shard_axis());
      for (size_t p : {0u, 1u}) BOOST_TEST(part(r, p) == ramp(6, 1), boost::test_tools::per_element());
      BOOST_TEST(r.values<float>() == ramp(6, 1), boost::test_tools::per_element());
      // Each position holds the buffer of its own device.
      engine::AnyBuffer any = engine::any_buffer_of(engine::contiguous_storage(r.node()));
      for (size_t p : {0u, 1u}) BOOST_TEST(std::get<MultiBufferRef>(any)->shard(p)->device().name() == on[p]);
      BOOST_TEST((Tensor::from(ramp(6), {6}, "CPU").to(join_devices(on)).devices() == on));
    }
  }
}

BOOST_AUTO_TEST_CASE(elementwise_on_shards_with_broadcast, *boost::unit_test::label("MD-03")) {
  for (const Devices& on : device_sets()) {
    BOOST_TEST_CONTEXT(join_devices(on)) {
      Tensor x = Tensor::from(ramp(8), {4, 2}, "CPU"), s = x.shard(on, 0);
      Tensor row = Tensor::from(Floats{10, 20}, {2}, "CPU").replicate(on);
      BOOST_TEST((s + s).values<float>() == (Floats{0, 2, 4, 6, 8, 10, 12, 14}),
                 boost::test_tools::per_element());
      BOOST_TEST((s + 1).values<float>() == ramp(8, 1), boost::test_tools::per_element());
      BOOST_TEST((s + row).values<float>() == (Floats{10, 21, 12, 23, 14, 25, 16, 27}),
                 boost::test_tools::per_element());
      Tensor t = x.shard(on, 1);
      BOOST_TEST((s * 2 + t).values<float>() == (Floats{0, 3, 6, 9, 12, 15, 18, 21}),
                 boost::test_tools::per_element());
    }
  }
}

BOOST_AUTO_TEST_CASE(reduce_the_sharded_axis, *boost::unit_test::label("MD-04")) {
  for (size_t count : {2u, 4u}) {
    Tensor s = Tensor::from(ramp(8, 1), {8}, "CPU").shard(cpus(count), 0);
    BOOST_TEST(s.sum().item() == 36);
    BOOST_TEST(s.max().item() == 8);
    BOOST_TEST((s * -1).max().item() == -1);
    BOOST_TEST(s.mean().item() == 4.5);
  }
  for (const Devices& on : device_sets()) {
    Tensor s = Tensor::from(ramp(8, 1), {8}, "CPU").shard(on, 0), total = s.sum();
    total.realize();
    BOOST_TEST(!total.shard_axis());
    BOOST_TEST(part(total, 0)[0] == 36);
    BOOST_TEST(part(total, 1)[0] == 36);
  }
}

BOOST_AUTO_TEST_CASE(reduce_another_axis, *boost::unit_test::label("MD-05")) {
  for (const Devices& on : device_sets()) {
    Tensor s = Tensor::from(ramp(8, 1), {2, 4}, "CPU").shard(on, 0), rows = s.sum({1});
    BOOST_TEST(rows.shard_axis().value() == 0);
    BOOST_TEST(rows.values<float>() == (Floats{10, 26}), boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(a_device_twice, *boost::unit_test::label("MD-06")) {
  for (const char* device : {"CPU", "INTERP", "CPU:0"}) {
    Tensor s = Tensor::from(ramp(8), {8}, "CPU").shard({device, device}, 0);
    BOOST_TEST((s * 2 + 1).values<float>() == (Floats{1, 3, 5, 7, 9, 11, 13, 15}),
               boost::test_tools::per_element());
    BOOST_TEST(s.sum().item() == 28);
    BOOST_TEST(s.slice(0, 3, 6).values<float>() == ramp(3, 3), boost::test_tools::per_element());
    s.realize();
    engine::AnyBuffer any = engine::any_buffer_of(engine::contiguous_storage(s.node().src(0)));
    auto both = std::get<MultiBufferRef>(any);
    BOOST_TEST(both->shard(0) != both->shard(1));
  }
}

BOOST_AUTO_TEST_CASE(a_selection_from_one_device_is_refused, *boost::unit_test::label("MD-17")) {
  engine::BufferBinding binding(device("CPU"));
  UOp single = buffer_node(fresh_user_slot(), DType::F32, 4, "CPU");
  BOOST_CHECK_EXCEPTION(engine::resolve_buffer(binding, engine::exec_context(), mselect(single, 0)),
                        InvalidArgument, [](const InvalidArgument& e) {
                          return std::string(e.what()).find("MSELECT of a single-device buffer") !=
                                 std::string::npos;
                        });
}

BOOST_AUTO_TEST_CASE(shard_counts_must_agree, *boost::unit_test::label("MD-18")) {
  UOp two = buffer_node(fresh_user_slot(), DType::F32, 4, "CPU,CPU:1"),
      four = buffer_node(fresh_user_slot(), DType::F32, 4, "CPU,CPU:1,CPU:2,CPU:3");
  UOp p0 = param_node(0, DType::F32, 4), p1 = param_node(1, DType::F32, 4),
      i = range_node(4, 0, AxisType::Loop);
  UOp effect = end(store(p0, i, load(p1, i)), std::span(&i, 1));
  UOp arguments[] = {two, four}, item = call(kernel_sink(std::span(&effect, 1)), arguments);
  engine::BufferBinding binding(device("CPU"));
  BOOST_CHECK_EXCEPTION(engine::run_linear(binding, linear(std::span(&item, 1))), InvalidArgument,
                        [](const InvalidArgument& e) {
                          return std::string(e.what()).find("disagree on device count") != std::string::npos;
                        });
}

BOOST_AUTO_TEST_CASE(a_sharded_program_is_compiled_once, *boost::unit_test::label("MD-19")) {
  test::TestBackend& x = test::tb("XDEV");
  Devices on = {x.open_name(), x.open_name()};
  engine::clear_caches();
  Tensor s = Tensor::from(ramp(8), {8}, "CPU").shard(on, 0).realize();
  UOp root = (s + s).node();
  schedule::Options options;
  options.default_device = "CPU";
  schedule::Schedule schedule = schedule::create_schedule(std::span(&root, 1), options);
  x.reset();
  int compiled = 0;
  auto counting = [&](Device& on_device, const UOp& sink, bool may_alias) {
    ++compiled;
    return engine::to_program(on_device, sink, may_alias);
  };
  engine::BufferBinding binding(device("CPU"));
  engine::run_linear(device("CPU"), counting, binding, schedule.linear);
  BOOST_TEST(compiled == 1);
  BOOST_TEST(x.counters().load == 2U);
  BOOST_TEST(x.counters().launches == 2U);
  BOOST_TEST(x.counters(device(on[0])).launches == 1U);
  BOOST_TEST(x.counters(device(on[1])).launches == 1U);
  BOOST_TEST(Tensor(schedule.results[0]).values<float>() == (Floats{0, 2, 4, 6, 8, 10, 12, 14}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(memory_is_counted_on_each_device, *boost::unit_test::label("MD-20")) {
  Devices on = {"INTERP:61", "INTERP:62"};
  auto used = [&](size_t p) { return engine::GlobalCounters::get().mem_used_per_device[on[p]]; };
  {
    Tensor s = Tensor::from(ramp(256), {256}, "INTERP:63").shard(on, 0).realize();
    BOOST_TEST(used(0) == 512);
    BOOST_TEST(used(1) == 512);
    BOOST_TEST(engine::GlobalCounters::get().mem_used_per_device["INTERP:63"] == 0); // the parts travel alone
    Tensor t = (s + 1).realize();
    BOOST_TEST(used(0) == 1024);
    BOOST_TEST(used(1) == 1024);
  }
  BOOST_TEST(used(0) == 0);
  BOOST_TEST(used(1) == 0);
}

BOOST_AUTO_TEST_CASE(a_graph_over_devices_with_a_store_to_each_part, *boost::unit_test::label("GR-25")) {
  test::TestBackend& x = test::tb("XDEV");
  for (const Devices& on : {Devices{"CPU", "CPU:1"}, Devices{x.open_name(), x.open_name()}}) {
    Tensor out = Tensor::from(Floats(4, -1.f), {4}, "CPU").shard(on, 0).realize();
    UOp target = out.node();
    Tensor tmp = (Tensor::arange(4, DType::I32).shard(on, 0).cast(DType::F32) + 1).contiguous();
    out.assign(tmp + 1);
    UOp root = out.node();
    schedule::Options options;
    options.default_device = on[0];
    schedule::Schedule schedule = schedule::create_schedule(std::span(&root, 1), options);
    Device& lead = device(on[0]);
    UOp compiled = engine::compile_linear(lead, {}, schedule.linear);
    UOp batched = engine::batch_graphs(lead, compiled);
    BOOST_REQUIRE(batched.nsrc() == 1);
    BOOST_TEST(engine::is_graph_call(batched.src(0)));
    engine::BufferBinding binding(lead);
    uint64_t before = engine::graph_launches();
    for (int i = 0; i < 5; ++i) {
      engine::AnyBuffer any = engine::any_buffer_of(storage_of(target));
      for (const BufferRef& shard : std::get<MultiBufferRef>(any)->shards()) {
        Floats unset(2, -1.f);
        shard->copy_in(std::as_bytes(std::span(unset)));
      }
      engine::run_linear(binding, batched, {.jit = true});
      BOOST_TEST(Tensor(target).values<float>() == (Floats{2, 3, 4, 5}), boost::test_tools::per_element());
    }
    BOOST_TEST(engine::graph_launches() == before + 5);
  }
}

// ---- the line: data-parallel and tensor-parallel forward passes

namespace {

struct Mlp {
  int64_t batch = 8, in = 12, hidden = 16, out = 4;
  Floats x = noise(batch * in, 1), w1 = noise(in * hidden, 2), b1 = noise(hidden, 3),
         w2 = noise(hidden * out, 4), b2 = noise(out, 5);
  Tensor t(const Floats& values, const Shape& shape) const { return Tensor::from(values, shape, "CPU"); }

  Floats on_one(const std::string& device) const {
    Tensor h =
        (t(x, {batch, in}).to(device).matmul(t(w1, {in, hidden}).to(device)) + t(b1, {hidden}).to(device))
            .relu();
    return (h.matmul(t(w2, {hidden, out}).to(device)) + t(b2, {out}).to(device)).values<float>();
  }
  // The batch in parts, weights everywhere.
  Tensor data_parallel(const Devices& on) const {
    Tensor h = (t(x, {batch, in}).shard(on, 0).matmul(t(w1, {in, hidden}).replicate(on)) +
                t(b1, {hidden}).replicate(on))
                   .relu();
    return h.matmul(t(w2, {hidden, out}).replicate(on)) + t(b2, {out}).replicate(on);
  }
  // Columns of the first weight, rows of the second; one sum over the devices at the end.
  Tensor tensor_parallel(const Devices& on) const {
    Tensor h = (t(x, {batch, in}).replicate(on).matmul(t(w1, {in, hidden}).shard(on, 1)) +
                t(b1, {hidden}).shard(on, 0))
                   .relu();
    return h.matmul(t(w2, {hidden, out}).shard(on, 0)) + t(b2, {out}).replicate(on);
  }
  // The same, by columns only: no sum is split.
  Tensor by_columns(const Devices& on) const {
    Tensor h = (t(x, {batch, in}).replicate(on).matmul(t(w1, {in, hidden}).shard(on, 1)) +
                t(b1, {hidden}).shard(on, 0))
                   .relu();
    return h.replicate(on).matmul(t(w2, {hidden, out}).shard(on, 1)) + t(b2, {out}).shard(on, 0);
  }
  // In float64, by plain loops.
  std::vector<double> reference() const {
    std::vector<double> h(size_t(batch * hidden)), y(size_t(batch * out));
    for (int64_t i = 0; i < batch; ++i) {
      for (int64_t j = 0; j < hidden; ++j) {
        double sum = b1[size_t(j)];
        for (int64_t k = 0; k < in; ++k) sum += double(x[size_t(i * in + k)]) * w1[size_t(k * hidden + j)];
        h[size_t(i * hidden + j)] = std::max(sum, 0.0);
      }
      for (int64_t j = 0; j < out; ++j) {
        double sum = b2[size_t(j)];
        for (int64_t k = 0; k < hidden; ++k) sum += h[size_t(i * hidden + k)] * w2[size_t(k * out + j)];
        y[size_t(i * out + j)] = sum;
      }
    }
    return y;
  }
};

void check_close(const Floats& got, const std::vector<double>& expected) {
  BOOST_REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i)
    BOOST_TEST(std::abs(got[i] - expected[i]) < 1e-4 * (1 + std::abs(expected[i])));
}

} // namespace

BOOST_AUTO_TEST_CASE(an_mlp_in_parallel_equals_one_device) {
  Mlp mlp;
  // Without optimisation every sum runs in the order of its elements, on every device.
  Config plain = Config::current();
  plain.no_opt = 1;
  ScopedConfig scope(plain);
  Floats one = mlp.on_one("CPU");
  check_close(one, mlp.reference());
  for (const Devices& on : device_sets()) {
    BOOST_TEST_CONTEXT(join_devices(on)) {
      BOOST_TEST(same_bits(mlp.data_parallel(on).values<float>(), one));
      BOOST_TEST(same_bits(mlp.by_columns(on).values<float>(), one));
      check_close(mlp.tensor_parallel(on).values<float>(), mlp.reference());
    }
  }
}

BOOST_AUTO_TEST_CASE(an_mlp_in_parallel_with_optimised_kernels) {
  Mlp mlp;
  for (const Devices& on : device_sets()) {
    BOOST_TEST_CONTEXT(join_devices(on)) {
      for (const Tensor& y : {mlp.data_parallel(on), mlp.by_columns(on), mlp.tensor_parallel(on)})
        check_close(y.values<float>(), mlp.reference());
      // The order of a sum over the devices is that of the positions, on every device: replicas are equal.
      Tensor y = mlp.tensor_parallel(on);
      y.realize();
      BOOST_TEST(same_bits(part(y, 0), part(y, 1)));
    }
  }
  check_close(mlp.tensor_parallel(cpus(4)).values<float>(), mlp.reference());
  check_close(mlp.data_parallel(cpus(4)).values<float>(), mlp.reference());
}

BOOST_AUTO_TEST_CASE(training_in_parallel_equals_one_device) {
  Mlp mlp;
  Tensor x = mlp.t(mlp.x, {mlp.batch, mlp.in}), w1 = mlp.t(mlp.w1, {mlp.in, mlp.hidden}),
         w2 = mlp.t(mlp.w2, {mlp.hidden, mlp.out});
  auto loss_of = [](const Tensor& input, const Tensor& a, const Tensor& b) {
    return input.matmul(a).relu().matmul(b).square().mean();
  };
  // Two steps of gradient descent on the weights.
  auto trained = [&](Tensor input, Tensor a, Tensor b) {
    for (int step = 0; step < 2; ++step) {
      std::vector<Tensor> g = gradient(loss_of(input, a, b), std::vector<Tensor>{a, b});
      Tensor next_a = a - g[0] * 0.01, next_b = b - g[1] * 0.01;
      Tensor both[] = {next_a, next_b};
      Tensor::realize(both);
      a.assign(both[0]).realize(), b.assign(both[1]).realize();
    }
    return std::pair(a.values<float>(), b.values<float>());
  };
  auto on_device = [](const Tensor& t) { return (t + 0).contiguous().realize(); };
  auto [one_a, one_b] = trained(x, on_device(w1), on_device(w2));
  std::vector<double> a(one_a.begin(), one_a.end()), b(one_b.begin(), one_b.end());
  BOOST_TEST(!same_bits(one_a, mlp.w1));
  for (const Devices& on : device_sets()) {
    BOOST_TEST_CONTEXT(join_devices(on)) {
      auto [data_a, data_b] = trained(x.shard(on, 0), w1.replicate(on).realize(), w2.replicate(on).realize());
      check_close(data_a, a), check_close(data_b, b);
      auto [tensor_a, tensor_b] =
          trained(x.replicate(on), w1.shard(on, 1).realize(), w2.shard(on, 0).realize());
      check_close(tensor_a, a), check_close(tensor_b, b);
    }
  }
}

BOOST_AUTO_TEST_CASE(the_example_of_the_page_about_devices) {
  Devices on = {"CPU", "CPU:1"};
  Floats data = noise(64 * 12, 1), weights = noise(12 * 10, 2);
  Tensor x = Tensor::from(data, {64, 12}).shard(on, 0);
  Tensor w = Tensor::from(weights, {12, 10}).replicate(on);
  Tensor y = x.matmul(w);
  Tensor total = y.sum({0});
  Floats rows = y.values<float>(), sums = total.values<float>();
  Tensor one = y.to("CPU");
  BOOST_TEST(one.device() == "CPU");
  BOOST_TEST(same_bits(one.values<float>(), rows));
  for (size_t j = 0; j < 10; ++j) {
    double sum = 0;
    for (size_t i = 0; i < 64; ++i) {
      double element = 0;
      for (size_t k = 0; k < 12; ++k) element += double(data[i * 12 + k]) * weights[k * 10 + j];
      BOOST_TEST(std::abs(rows[i * 10 + j] - element) < 1e-4);
      sum += element;
    }
    BOOST_TEST(std::abs(sums[j] - sum) < 1e-3);
  }
}

BOOST_AUTO_TEST_CASE(all_reduce_with_each_setting) {
  for (size_t count : {2u, 3u, 4u})
    for (int ring : {0, 2})
      for (int all_to_all : {0, 2}) {
        Config config = Config::current();
        config.ring = ring, config.all_to_all = all_to_all;
        ScopedConfig scope(config);
        int64_t n = 37 * int64_t(count);
        Floats data = noise(n, 7), expected(37, 0.f);
        for (size_t p = 0; p < count; ++p)
          for (size_t i = 0; i < 37; ++i) expected[i] += data[p * 37 + i];
        Tensor s = Tensor::from(data, {int64_t(count), 37}, "CPU").shard(cpus(count), 0);
        Floats got = s.sum({0}).values<float>();
        for (size_t i = 0; i < 37; ++i) BOOST_TEST(std::abs(got[i] - expected[i]) < 1e-5);
        if (ring == 0) BOOST_TEST(same_bits(got, expected)); // in the order of the positions
      }
}

// ---- reported bugs of other systems

BOOST_AUTO_TEST_CASE(an_axis_shorter_than_the_devices, *boost::unit_test::label("bug-07")) {
  Devices on = cpus(4);
  BOOST_TEST(Tensor::from(ramp(4, 1), {4}, "CPU").shard(on, 0).values<float>() == ramp(4, 1),
             boost::test_tools::per_element());
  for (int64_t n : {1, 2, 3, 5, 7}) {
    int64_t before = engine::GlobalCounters::get().mem_used;
    Tensor x = Tensor::from(ramp(n, 1), {n}, "CPU");
    try {
      x.shard(on, 0);
      BOOST_ERROR("uneven parts were accepted");
    } catch (const InvalidArgument& e) {
      std::string text = e.what();
      BOOST_TEST(text.find("axis 0 has size " + std::to_string(n)) != std::string::npos, text);
      BOOST_TEST(text.find("4 devices") != std::string::npos, text);
    }
    BOOST_TEST(engine::GlobalCounters::get().mem_used == before);
  }
  // Nothing in four equal parts is nothing.
  Tensor none = Tensor::from(Floats{}, {0}, "CPU").shard(on, 0);
  BOOST_TEST(none.values<float>().empty());
  BOOST_TEST((none + 1).values<float>().empty());
  BOOST_TEST(none.sum().item() == 0);
}

BOOST_AUTO_TEST_CASE(a_slice_of_a_realized_sharded_tensor, *boost::unit_test::label("bug-08")) {
  Tensor a = Tensor::from(ramp(4), {4}, "CPU").shard({"CPU:0", "CPU:1"}, 0).realize();
  BOOST_TEST(a.slice(0, 2, 4).values<float>() == (Floats{2, 3}), boost::test_tools::per_element());
  BOOST_TEST(a.slice(0, 1, 3).values<float>() == (Floats{1, 2}), boost::test_tools::per_element());
  BOOST_TEST((a.slice(0, 1, 3) + 1).values<float>() == (Floats{2, 3}), boost::test_tools::per_element());
  Tensor b = Tensor::from(ramp(4), {4}, "CPU").shard({"CPU:1", "CPU:2"}, 0).realize();
  BOOST_TEST(b.slice(0, 0, 2).values<float>() == (Floats{0, 1}), boost::test_tools::per_element());
  BOOST_TEST(b.slice(0, 0, 2).to("CPU:2").values<float>() == (Floats{0, 1}),
             boost::test_tools::per_element());
  for (const Devices& on : device_sets()) {
    Tensor c = Tensor::from(ramp(12), {6, 2}, "CPU").shard(on, 0).realize();
    for (int64_t begin = 0; begin < 6; ++begin)
      for (int64_t end = begin + 1; end <= 6; ++end)
        BOOST_TEST(c.slice(0, begin, end).values<float>() == ramp(2 * (end - begin), float(2 * begin)),
                   boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(a_graph_over_two_devices_computes_every_time, *boost::unit_test::label("bug-15")) {
  for (const Devices& on : device_sets()) {
    if (on[0] == on[1]) continue;
    Tensor x = Tensor::from(Floats{1, 2, 3, 4}, {4}, on[0]).realize(),
           w = Tensor::from(Floats{2, 2, 2, 2}, {4}, on[1]).realize();
    UOp y = ((x.to(on[1]) * w).to(on[0]) + 1).node();
    engine::Prepared program = engine::prepare(std::span(&y, 1));
    auto result = [&] {
      std::vector<std::byte> bytes = engine::read_bytes(program.results[0]);
      Floats out(bytes.size() / 4);
      std::memcpy(out.data(), bytes.data(), bytes.size());
      return out;
    };
    program.run();
    BOOST_TEST(result() == (Floats{3, 5, 7, 9}), boost::test_tools::per_element());
    Floats next = {10, 20, 30, 40};
    engine::buffer_of(engine::contiguous_storage(x.node()))->copy_in(std::as_bytes(std::span(next)));
    program.run();
    BOOST_TEST(result() == (Floats{21, 41, 61, 81}), boost::test_tools::per_element());
    int64_t before = engine::GlobalCounters::get().mem_used;
    for (int i = 0; i < 100; ++i) program.run();
    BOOST_TEST(engine::GlobalCounters::get().mem_used == before);
    BOOST_TEST(result() == (Floats{21, 41, 61, 81}), boost::test_tools::per_element());
    // The same, captured.
    Jit f([&](Tensor in) { return (in.to(on[1]) * w).to(on[0]) + 1; });
    Floats first = {1, 2, 3, 4}, second = {10, 20, 30, 40};
    auto input = [&](const Floats& values) { return Tensor::from(values, {4}, on[0]).realize(); };
    Tensor a = input(first), b = input(second);
    for (int i = 0; i < 2; ++i) // the function itself, and its capture
      BOOST_TEST(f(a).values<float>() == (Floats{3, 5, 7, 9}), boost::test_tools::per_element());
    for (int i = 0; i < 2; ++i) {
      BOOST_TEST(f(b).values<float>() == (Floats{21, 41, 61, 81}), boost::test_tools::per_element());
      BOOST_TEST(f(a).values<float>() == (Floats{3, 5, 7, 9}), boost::test_tools::per_element());
    }
    before = engine::GlobalCounters::get().mem_used;
    // Where one graph can hold both devices, all of it is one launch.
    auto backend = [](const std::string& name) { return name.substr(0, name.find(':')); };
    bool one_graph = backend(on[0]) == backend(on[1]) && backend(on[0]) != "INTERP";
    if (one_graph) BOOST_TEST(f.captured()->num_calls() == 1U);
    for (int i = 0; i < 100; ++i) {
      uint64_t launches = engine::graph_launches();
      f(i % 2 ? a : b);
      if (one_graph) BOOST_TEST(engine::graph_launches() == launches + 1);
    }
    BOOST_TEST(engine::GlobalCounters::get().mem_used == before);
    BOOST_TEST(f(a).values<float>() == (Floats{3, 5, 7, 9}), boost::test_tools::per_element());
    BOOST_TEST(f(b).values<float>() == (Floats{21, 41, 61, 81}), boost::test_tools::per_element());
  }
}

// ---- in place

BOOST_AUTO_TEST_CASE(assigning_to_sharded_storage) {
  for (const Devices& on : device_sets()) {
    BOOST_TEST_CONTEXT(join_devices(on)) {
      for (int64_t axis : {0, 1}) {
        Tensor s = Tensor::from(ramp(16), {4, 4}, "CPU").shard(on, axis).realize();
        UOp storage = storage_of(s.node());
        Tensor now = s;
        now.assign(s + 1).realize();
        BOOST_TEST((storage_of(now.node()) == storage));
        BOOST_TEST(s.values<float>() == ramp(16, 1), boost::test_tools::per_element());
        // Rows 1 and 2, which lie on both devices, and columns likewise.
        for (int64_t cut : {0, 1}) {
          Tensor target = s.slice(cut, 1, 3);
          target.assign(Tensor::constant(DType::F32, -1, target.shape())).realize();
        }
        Floats expected = ramp(16, 1);
        for (size_t i = 0; i < 4; ++i)
          for (size_t j = 0; j < 4; ++j)
            if (i == 1 || i == 2 || j == 1 || j == 2) expected[i * 4 + j] = -1;
        BOOST_TEST(s.values<float>() == expected, boost::test_tools::per_element());
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(kernels_know_their_position) {
  for (const Devices& on : device_sets()) {
    Tensor s = Tensor::arange(8, DType::I32).shard(on, 0).realize();
    BOOST_TEST(s.values<int32_t>() == (std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7}),
               boost::test_tools::per_element());
    Tensor tmp = s.cast(DType::F32) + 1;
    Tensor out = Tensor::from(Floats(8, -1.f), {8}, "CPU").shard(on, 0).realize();
    out.assign(tmp + 1).realize();
    BOOST_TEST(out.values<float>() == ramp(8, 2), boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(a_profile_has_an_event_for_each_position) {
  auto queues = [](test::TestBackend& b) { return b.open_name([](tb_options& o) { o.streams = 1; }); };
  for (const Devices& on : {cpus(2), Devices{queues(test::tb()), queues(test::tb())}}) {
    Tensor x = Tensor::from(ramp(16), {16}).shard(on, 0).realize();
    std::vector<engine::ProfileEvent> events;
    Tensor y = x * 2 + 1;
    {
      engine::Profile profile;
      y.realize();
      events = profile.events();
    }
    BOOST_TEST(y.values<float>()[9] == 19);
    BOOST_TEST_REQUIRE(events.size() == 2u);
    BOOST_TEST(events[0].name == events[1].name);
    for (size_t i = 0; i < 2; ++i) {
      BOOST_TEST((events[i].kind == engine::ProfileEvent::Kind::Kernel));
      BOOST_TEST(events[i].device == on[i]);
      BOOST_TEST(events[i].buffers.size() == 2u);
      BOOST_TEST(events[i].begin_ns < events[i].end_ns);
    }
    BOOST_TEST(events[0].buffers[0].storage != events[1].buffers[0].storage);
  }
}
