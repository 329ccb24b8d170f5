// What tensors leave behind on a device, and tensors on a device whose work runs behind the host.
#include <boost/test/unit_test.hpp>

#include <atomic>
#include <thread>

#include "device_runs.h"
#include "test_backend.h"
#include "tolk/base/error.h"
#include "tolk/device/buffer.h"
#include "tolk/engine/run/node_storage.h"
#include "tolk/engine/run/statistics.h"
#include "tolk/tensor/saved_jit.h"
#include "tolk/tensor/tensor.h"
#include "tolk/uop/build.h"

using namespace tolk;
using namespace tolk::test;

namespace {

struct Fresh {
  Fresh() { tb().reset(); }
};

std::vector<float> floats(size_t n, float start, float step = 1) {
  std::vector<float> values(n);
  for (size_t i = 0; i < n; i++) values[i] = start + step * float(i);
  return values;
}

void check(const Tensor& tensor, const std::vector<float>& expected) {
  BOOST_TEST(tensor.values<float>() == expected, boost::test_tools::per_element());
}

// Runs `body(name)` on a device with streams, if asked for, or without, on INTERP and on CPU, as far as they
// are built.
template <typename Body> void on_each_device(bool streams, Body body) {
  for (const std::string& name : {tb().open_name([&](tb_options& o) { o.streams = streams; }),
                                  std::string("INTERP"), std::string("CPU")}) {
    DeviceScope scope(name);
    try {
      device(name);
    } catch (const DeviceError&) {
      continue; // a build without that plugin
    }
    body(name);
  }
}

// Four threads on the device, each with a model that `make()` gives it, which maps an input's number to
// values. All of them get what `alone` gives.
template <typename Alone, typename Make>
void four_threads_agree(const std::string& name, Alone alone, Make make) {
  std::vector<std::vector<float>> expected;
  for (int i = 0; i < 40; i++) expected.push_back(alone(i));
  BOOST_TEST((expected[0] != expected[1]));
  std::atomic<int> wrong{0}, failed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; t++)
    threads.emplace_back([&, t] {
      DeviceScope mine(name);
      try {
        auto model = make();
        for (int i = 0; i < 200; i++) wrong += model((i * 7 + t) % 40) != expected[size_t((i * 7 + t) % 40)];
      } catch (const Error&) {
        failed++;
      }
    });
  for (std::thread& t : threads) t.join();
  BOOST_TEST(wrong == 0, name << ": " << wrong << " of 800");
  BOOST_TEST(failed == 0, name);
}

} // namespace

BOOST_FIXTURE_TEST_SUITE(buffers, Fresh)

BOOST_AUTO_TEST_CASE(a_buffer_counts_the_nodes_that_name_it, *boost::unit_test::label("BU-15")) {
  Device& d = tb().open();
  BufferRef buffer;
  {
    UOp node = buffer_node(fresh_user_slot(), DType::F32, 4, d.name());
    buffer = engine::buffer_of(node);
    BOOST_TEST(buffer->uop_refcount() == 1);
    UOp again = node; // another handle of the same node
    BOOST_TEST(engine::buffer_of(again) == buffer);
    BOOST_TEST(buffer->uop_refcount() == 1);
    buffer->allocate();
  }
  BOOST_TEST(buffer->uop_refcount() == 0);
  fill_buffer(*buffer, 0x3f800000, 4); // alive all the same
  std::vector<float> values(4);
  buffer->copy_out(std::as_writable_bytes(std::span(values)));
  BOOST_TEST(values == std::vector<float>(4, 1.f), boost::test_tools::per_element());
  BOOST_TEST(d.memory().live_bytes == 16u);
  buffer.reset();
  BOOST_TEST(d.memory().live_bytes == 0u);
}

BOOST_AUTO_TEST_CASE(nothing_is_left_when_all_tensors_are_gone, *boost::unit_test::label("BU-16")) {
  for (uint32_t streams : {0u, 1u}) {
    std::string name = tb().open_name([&](tb_options& o) { o.streams = streams; });
    DeviceScope scope(name);
    Device& d = device(name);
    int64_t objects = Buffer::live_count(), used = engine::GlobalCounters::get().mem_used;
    for (int round = 0; round < 3; round++) {
      Tensor a = Tensor::from(floats(64, 1), {8, 8}), b = Tensor::from(floats(64, 0, 0.5f), {8, 8});
      Tensor c = a.matmul(b), e = (c - c.max({1}, true)).exp();
      Tensor f = e / e.sum({1}, true), g = f.matmul(a);
      std::vector<float> out = g.values<float>();
      BOOST_TEST(out.size() == 64u);
      for (size_t row = 0; row < 8; row++) // rows of f are nearly one-hot at the last column
        BOOST_TEST(out[row * 8] == 57.f, boost::test_tools::tolerance(1e-3f));
      BOOST_TEST(Buffer::live_count() > objects);
    }
    BOOST_TEST(Buffer::live_count() == objects);
    BOOST_TEST(engine::GlobalCounters::get().mem_used == used);
    BOOST_TEST(d.memory().live_bytes == 0u);
    d.trim();
    BOOST_TEST(tb().counters(d).live_buffers == 0u);
    BOOST_TEST(tb().counters(d).live_bytes == 0u);
  }
}

BOOST_AUTO_TEST_CASE(the_same_kernel_is_compiled_once, *boost::unit_test::label("BU-17")) {
  std::string name = tb().open_name();
  Config config = Config::current();
  config.device = name;
  config.compile_cache = 0; // the disk must not help
  ScopedConfig scope(config);
  auto sum = [](float x, float y) {
    Tensor a = Tensor::from(floats(24, x), {4, 6}), b = Tensor::from(floats(24, y), {4, 6});
    return (a + b).values<float>();
  };
  auto nested = [](float x, float y) {
    Tensor a = Tensor::from(floats(24, x), {4, 6}), b = Tensor::from(floats(24, y), {4, 6});
    return ((a + b) + (a + b)).values<float>();
  };
  sum(0, 0);
  nested(0, 0);
  BOOST_TEST(tb().counters().compile >= 1u);
  tb().fail_compile("the compiler is away");
  BOOST_TEST(sum(1, 10)[3] == 17.f);
  BOOST_TEST(nested(2, 20)[3] == 56.f);
  Tensor a = Tensor::from(floats(24, 5), {4, 6}), b = Tensor::from(floats(24, 7), {4, 6});
  BOOST_TEST((b + a).values<float>()[0] == 12.f);
  BOOST_TEST(((b + a) + (b + a)).values<float>()[1] == 28.f);
  BOOST_CHECK_THROW((a * b).values<float>(), CompileError); // the switch works
}

BOOST_AUTO_TEST_CASE(a_tensor_does_not_share_the_callers_memory, *boost::unit_test::label("bug-26")) {
  on_each_device(false, [](const std::string& name) {
    for (size_t n : {size_t{4}, size_t{64}, size_t{100}, size_t{1000}, size_t{1'000'000}}) {
      std::vector<float> x = floats(n, 0);
      Tensor t = Tensor::from(x, {int64_t(n)}), early = Tensor::from(x, {int64_t(n)}).realize();
      x[0] = -1;
      BOOST_TEST(t.shrink({0}, {2}).values<float>()[0] == 0.f, name << " " << n);
      BOOST_TEST(early.shrink({0}, {2}).values<float>()[0] == 0.f, name << " " << n);
      BOOST_TEST((t + 1).shrink({0}, {2}).values<float>()[0] == 1.f, name << " " << n);
    }
  });
}

BOOST_AUTO_TEST_CASE(four_threads_run_one_program_with_inputs_of_their_own,
                     *boost::unit_test::label("bug-19")) {
  on_each_device(true, [](const std::string& name) {
    Tensor first = Tensor::from(floats(64, -4, 0.125f), {8, 8}).realize(),
           second = Tensor::from(floats(64, 2, -0.0625f), {8, 8}).realize();
    auto model = [&](int input) {
      Tensor x = Tensor::from(floats(16, float(input), 0.5f), {2, 8});
      return x.matmul(first).relu().matmul(second).values<float>();
    };
    four_threads_agree(name, model, [&] { return model; });
  });
}

BOOST_AUTO_TEST_CASE(four_threads_load_one_saved_model_and_run_it, *boost::unit_test::label("bug-19")) {
  on_each_device(true, [](const std::string& name) {
    auto input = [](int i) { return Tensor::from(floats(16, float(i), 0.5f), {2, 8}).realize(); };
    std::string file;
    {
      Tensor first = Tensor::from(floats(64, -4, 0.125f), {8, 8}).realize(),
             second = Tensor::from(floats(64, 2, -0.0625f), {8, 8}).realize();
      Jit f([&](Tensor x) { return x.matmul(first).relu().contiguous().matmul(second); });
      for (int i = 0; i < 3; i++) f(input(i));
      file = save_jit(f, {.weights = true});
    }
    auto load = [&] {
      return [&, model = std::make_shared<LoadedJit>(load_jit(file))](int i) {
        return (*model)(input(i))[0].values<float>();
      };
    };
    four_threads_agree(name, load(), load);
  });
}

BOOST_AUTO_TEST_CASE(tensors_run_on_streams_with_slow_kernels) {
  std::string name = tb().open_name([](tb_options& o) { o.streams = 1; });
  DeviceScope scope(name);
  tb().delay(device(name), 2000, 1000);
  Tensor acc = Tensor::zeros({16}).contiguous().realize();
  for (int i = 1; i <= 10; i++) {
    Tensor x = Tensor::from(std::vector<float>(16, float(i)), {16});
    acc.assign(acc + x * 2);
    acc.realize();
  }
  check(acc, std::vector<float>(16, 110));
  Tensor chain = Tensor::from(floats(16, 0), {16});
  for (int i = 0; i < 8; i++) chain = (chain + 1).realize(); // each frees the one before while it runs
  check(chain, floats(16, 8));
}

BOOST_AUTO_TEST_CASE(tensors_move_between_devices_on_streams) {
  auto set = [](tb_options& o) { o.streams = 1; };
  std::string first = tb().open_name(set), second = tb().open_name(set);
  tb().delay(device(first), 3000, 3000);
  tb().delay(device(second), 3000, 3000);
  DeviceScope scope(first);
  Tensor x = Tensor::from(floats(32, 0), {32});
  for (int i = 0; i < 5; i++) {
    x = (x * 2).to(second).realize();
    x = (x + 1).to(first).realize();
  }
  std::vector<float> expected = floats(32, 0);
  for (float& v : expected)
    for (int i = 0; i < 5; i++) v = v * 2 + 1;
  check(x, expected);
}

BOOST_AUTO_TEST_SUITE_END()
