// Captured functions over symbolic sizes: one capture serves every value.
#include <cmath>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "device_runs.h"
#include "jit_support.h"
#include "other_process.h"
#include "tolk/tensor/jit.h"
#include "tolk/uop/build.h"

using namespace tolk;
using namespace jit_test;

namespace {

// f at every value of `i` in [from, to]: symbolic through a Jit, and concrete, which must agree.
void same_as_concrete(const std::function<Tensor(const SInt&)>& value, int64_t from, int64_t to,
                      size_t kernels) {
  Variable i("i", 1, 10);
  Jit f([&](const SInt& n) { return value(n); });
  for (int64_t n = from; n <= to; ++n) {
    Tensor got = f(i.bind(n)), want = value(n);
    BOOST_TEST_INFO("i = " << n);
    BOOST_TEST(near(got.values<float>(), want.values<float>()));
  }
  BOOST_TEST(f.captured()->num_kernels() == kernels);
}

} // namespace

BOOST_AUTO_TEST_CASE(a_symbolic_slice_plus_one_is_right_for_every_size, *boost::unit_test::label("SY-01")) {
  on_each_device([](const std::string&) {
    Tensor a = tensor(random_floats(30), {3, 10});
    same_as_concrete([&](const SInt& i) { return a.narrow(1, 0, i) + 1; }, 1, 4, 1);
  });
}

BOOST_AUTO_TEST_CASE(a_pad_by_a_symbolic_amount,
                     *boost::unit_test::label("SY-02") * boost::unit_test::label("JB-41")) {
  on_each_device([](const std::string&) {
    Tensor a = tensor(random_floats(30), {3, 10});
    // What is padded is computed, so the pad is part of a kernel with and without contiguous.
    for (bool stored : {true, false})
      same_as_concrete(
          [&](const SInt& i) {
            Tensor part = (a.narrow(1, 0, i) + 1);
            Tensor padded(tolk::pad(part.node(), {0, 0}, {0, SInt(10) - i}));
            return stored ? padded.contiguous() : padded;
          },
          1, 4, 1);
  });
}

BOOST_AUTO_TEST_CASE(a_pad_view_outside_of_kernels_has_the_size_of_its_call,
                     *boost::unit_test::label("JB-41")) {
  on_each_device([](const std::string&) {
    Variable i("i", 1, 10);
    Tensor a = tensor(random_floats(30), {3, 10});
    Jit f([](Tensor x) { return x + 1; });
    for (int64_t n = 1; n <= 4; ++n) {
      // The row allows the size of the capture here. A replay binds the sizes of its result to the values of
      // its call, so a view of the result has the right size, which is the stronger claim.
      Tensor part = f(a.narrow(1, 0, i.bind(n)));
      Tensor padded(tolk::pad(part.node(), {0, 0}, {0, SInt(10) - part.size(1)}));
      Floats got = padded.contiguous().values<float>(), all = a.values<float>();
      BOOST_REQUIRE(got.size() == 30u);
      for (size_t r = 0; r < 3; ++r)
        for (size_t c = 0; c < 10; ++c)
          BOOST_TEST(got[r * 10 + c] == (int64_t(c) < n ? all[r * 10 + c] + 1 : 0));
    }
  });
}

BOOST_AUTO_TEST_CASE(a_pad_fused_by_contiguous, *boost::unit_test::label("SY-02")) {
  Variable i("i", 1, 10);
  Tensor a = tensor(random_floats(30), {3, 10});
  Jit f([&](const SInt& n) {
    Tensor part = a.narrow(1, 0, n) + 1;
    return Tensor(tolk::pad(part.node(), {0, 0}, {0, SInt(10) - n})).contiguous();
  });
  for (int64_t n = 1; n <= 4; ++n) {
    Floats got = f(i.bind(n)).values<float>(), all = a.values<float>();
    for (size_t k = 0; k < 30; ++k) BOOST_TEST(got[k] == (int64_t(k % 10) < n ? all[k] + 1 : 0));
  }
  BOOST_TEST(f.captured()->num_kernels() == 1u);
}

BOOST_AUTO_TEST_CASE(one_variable_through_add_matmul_and_concat, *boost::unit_test::label("SY-03")) {
  on_each_device([](const std::string&) {
    Tensor a = tensor(random_floats(30), {3, 10}), b = tensor(random_floats(30), {3, 10}),
           m = tensor(random_floats(50), {10, 5});
    same_as_concrete([&](const SInt& i) { return a.narrow(1, 0, i) + b.narrow(1, 0, i); }, 1, 4, 1);
    same_as_concrete([&](const SInt& i) { return a.narrow(1, 0, i).matmul(m.narrow(0, 0, i)); }, 1, 4, 1);
    same_as_concrete(
        [&](const SInt& i) {
          return Tensor::concat({a.transpose(0, 1).narrow(0, 0, i), b.transpose(0, 1)}, 0);
        },
        1, 4, 1);
    same_as_concrete([&](const SInt& i) { return Tensor::concat({a.narrow(1, 0, i), b}, 1); }, 1, 4, 1);
  });
}

BOOST_AUTO_TEST_CASE(a_symbolic_kernel_and_a_plain_one, *boost::unit_test::label("SY-04")) {
  on_each_device([](const std::string&) {
    Tensor a = tensor(random_floats(30), {3, 10}), b = tensor(random_floats(50), {10, 5});
    same_as_concrete(
        [&](const SInt& i) {
          Tensor s = a.narrow(1, 0, i).matmul(b.narrow(0, 0, i)).realize();
          return s + s;
        },
        1, 4, 2);
  });
}

BOOST_AUTO_TEST_CASE(attention_follows_growing_keys, *boost::unit_test::label("SY-05")) {
  on_each_device([](const std::string&) {
    Tensor q = tensor(random_floats(8), {2, 1, 4}), k = tensor(random_floats(80), {2, 10, 4}),
           v = tensor(random_floats(80), {2, 10, 4});
    auto attention = [&](const SInt& i) {
      Tensor scores = q.matmul(k.narrow(1, 0, i).transpose(1, 2)) * 0.5;
      return scores.softmax().matmul(v.narrow(1, 0, i));
    };
    Variable i("i", 1, 10);
    Jit f([&](const SInt& n) { return attention(n); });
    // However many keys there are when it is captured, the kernels are as many.
    std::vector<size_t> kernels;
    for (int64_t first : {1, 2, 5, 9}) {
      f.reset();
      for (int64_t n : {first, first, first % 10 + 1, int64_t(4)}) {
        BOOST_TEST_INFO("captured at " << first << ", run at " << n);
        BOOST_TEST(near(f(i.bind(n)).values<float>(), attention(n).values<float>()));
      }
      kernels.push_back(f.captured()->num_kernels());
    }
    BOOST_TEST((kernels == std::vector<size_t>(4, 4))); // scores, their maxima, the sums, the values
  });
}

BOOST_AUTO_TEST_CASE(two_variables_of_one_function_follow_their_calls, *boost::unit_test::label("SY-06")) {
  on_each_device([](const std::string&) {
    Tensor a = tensor(random_floats(100), {10, 10}), b = tensor(random_floats(100), {10, 10});
    using Two = std::function<Tensor(const SInt&, const SInt&)>;
    std::vector<Two> functions{
        [&](const SInt& i, const SInt& j) {
          return Tensor::concat({a.narrow(0, 0, i).narrow(1, 0, 3), b.narrow(0, 0, j).narrow(1, 0, 3)}, 0);
        },
        [&](const SInt& i, const SInt& j) {
          return Tensor::concat({a.narrow(1, 0, i).narrow(0, 0, 3), b.narrow(1, 0, j).narrow(0, 0, 3)}, 1);
        },
        [&](const SInt& i, const SInt& j) { return a.narrow(0, 0, i).matmul(b.narrow(1, 0, j)) + 1; },
        [&](const SInt& i, const SInt& j) { return a.narrow(0, 0, j).matmul(b.narrow(1, 0, i)) + 1; },
        [&](const SInt& i, const SInt& j) {
          return a.narrow(0, 0, i).narrow(1, 0, j).matmul(b.narrow(0, 0, j).narrow(1, 0, i)) + 1;
        },
    };
    Variable i("i", 1, 10), j("j", 1, 10);
    for (size_t k = 0; k < functions.size(); ++k) {
      Jit f([&](const SInt& m, const SInt& n) { return functions[k](m, n); });
      for (int64_t m = 2; m <= 4; ++m)
        for (int64_t n = 2; n <= 4; ++n) {
          BOOST_TEST_INFO("function " << k << ", i = " << m << ", j = " << n);
          BOOST_TEST(near(f(i.bind(m), j.bind(n)).values<float>(), functions[k](m, n).values<float>()));
        }
      BOOST_TEST(f.captured()->num_kernels() == 1u);
    }
  });
}

BOOST_AUTO_TEST_CASE(another_static_size, *boost::unit_test::label("SY-07")) {
  Variable i("i", 1, 10);
  Jit f([](Tensor x) { return x + 1; });
  auto part = [&](int64_t rows, int64_t n) {
    return tensor(random_floats(size_t(rows) * 10), {rows, 10}).narrow(1, 0, i.bind(n));
  };
  f(part(3, 2)), f(part(3, 3));
  BOOST_TEST(has(refusal<JitError>([&] { f(part(4, 3)); }), "input 0 mismatch"));
  f(part(3, 4));
}

BOOST_AUTO_TEST_CASE(a_symbolic_offset_follows_its_calls, *boost::unit_test::label("SY-08")) {
  on_each_device([](const std::string&) {
    Tensor a = tensor(random_floats(100), {10, 10});
    same_as_concrete([&](const SInt& i) { return a.narrow(0, 3, 2).narrow(1, i, 2) + 1; }, 1, 4, 1);
    // The same view as an input.
    Variable i("i", 0, 8);
    Jit f([](Tensor x) { return x + 1; });
    for (int64_t n = 1; n <= 4; ++n) {
      Floats all = random_floats(100);
      Tensor got = f(tensor(all, {10, 10}).narrow(0, 3, 2).narrow(1, i.bind(n), 2));
      size_t at = size_t(30 + n);
      BOOST_TEST(
          near(got.values<float>(), {all[at] + 1, all[at + 1] + 1, all[at + 10] + 1, all[at + 11] + 1}));
    }
  });
}

BOOST_AUTO_TEST_CASE(reductions_over_symbolic_sizes, *boost::unit_test::label("SY-09")) {
  on_each_device([](const std::string&) {
    Variable i("i", 1, 10), j("j", 1, 10);
    Tensor a = tensor(random_floats(100), {10, 10});
    for (const Axes& axes : std::vector<Axes>{{}, {0}, {1}}) {
      using Reduction = std::function<Tensor(const Tensor&)>;
      for (const Reduction& reduce : std::vector<Reduction>{
               [&](const Tensor& t) { return t.sum(axes); }, [&](const Tensor& t) { return t.mean(axes); },
               [&](const Tensor& t) { return t.var(axes, 1); }}) {
        Jit one([&](const SInt& m) { return reduce(a.narrow(0, 0, m)); });
        Jit two([&](const SInt& m, const SInt& n) { return reduce(a.narrow(0, 0, m).narrow(1, 0, n)); });
        for (int64_t m = 2; m <= 5; ++m) {
          BOOST_TEST(near(one(i.bind(m)).values<float>(), reduce(a.narrow(0, 0, m)).values<float>()));
          BOOST_TEST(near(two(i.bind(m), j.bind(7 - m)).values<float>(),
                          reduce(a.narrow(0, 0, m).narrow(1, 0, 7 - m)).values<float>()));
        }
      }
    }
    Jit ones([](const SInt& n) { return Tensor::ones({n}).sum(); });
    for (int64_t n = 1; n <= 4; ++n) BOOST_TEST(ones(i.bind(n)).item() == n);
  });
}

BOOST_AUTO_TEST_CASE(ones_of_two_variables, *boost::unit_test::label("SY-09")) {
  on_each_device([](const std::string&) {
    Variable i("i", 1, 10), j("j", 1, 10);
    const std::vector<std::pair<int64_t, int64_t>> sizes{{2, 3}, {2, 5}, {4, 3}, {3, 2}, {5, 7}, {10, 10}};
    Jit stored([](const SInt& m, const SInt& n) { return Tensor::ones({m, n}).contiguous(); });
    for (auto [m, n] : sizes)
      BOOST_TEST((stored(i.bind(m), j.bind(n)).values<float>() == Floats(size_t(m * n), 1)),
                 m << " by " << n);
    for (const Axes& axes : std::vector<Axes>{{}, {0}, {1}}) {
      Jit sum([&](const SInt& m, const SInt& n) { return Tensor::ones({m, n}).sum(axes).contiguous(); });
      Jit mean([&](const SInt& m, const SInt& n) { return Tensor::ones({m, n}).mean(axes).contiguous(); });
      Jit var([&](const SInt& m, const SInt& n) { return Tensor::ones({m, n}).var(axes, 1).contiguous(); });
      for (auto [m, n] : sizes) {
        int64_t reduced = axes.empty() ? m * n : axes[0] == 0 ? m : n;
        size_t left = size_t(m * n / reduced);
        BOOST_TEST_INFO(m << " by " << n << ", " << (axes.empty() ? "all" : axes[0] ? "axis 1" : "axis 0"));
        BOOST_TEST((sum(i.bind(m), j.bind(n)).values<float>() == Floats(left, float(reduced))));
        BOOST_TEST(near(mean(i.bind(m), j.bind(n)).values<float>(), Floats(left, 1)));
        BOOST_TEST(near(var(i.bind(m), j.bind(n)).values<float>(), Floats(left, 0)));
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(symbolic_launch_sizes, *boost::unit_test::label("SY-10")) {
  // More and fewer elements than vectors and threads divide evenly.
  on_each_device([](const std::string& device) {
    int64_t most = device == "CPU" ? 100000 : 2000;
    Variable n("n", 1, most);
    Floats all = random_floats(size_t(most));
    Tensor a = tensor(all);
    Jit f([&](const SInt& size) { return a.narrow(0, 0, size) * 2; });
    for (int64_t size : {int64_t(1), int64_t(7), int64_t(33), most / 2 + 1, most - 1, most}) {
      Floats got = f(n.bind(size)).values<float>();
      BOOST_REQUIRE(got.size() == size_t(size));
      bool right = true;
      for (size_t k = 0; k < got.size(); ++k) right &= got[k] == all[k] * 2;
      BOOST_TEST(right, "size " << size);
    }
  });
}

BOOST_AUTO_TEST_CASE(a_decode_loop_keeps_its_cache, *boost::unit_test::label("SY-13")) {
  on_each_device([](const std::string&) {
    Variable start("start", 0, 7);
    Tensor cache = tensor(Floats(8 * 3, 0), {8, 3});
    int runs = 0;
    Jit step([&](Tensor x, const SInt& at) {
      ++runs;
      cache.narrow(0, at, 1).assign(x.reshape({1, 3})).realize();
      return cache.narrow(0, 0, at + 1).sum({0});
    });
    Floats sum(3, 0);
    for (int64_t position = 0; position < 6; ++position) {
      Floats v = random_floats(3);
      sum = plus(sum, v);
      BOOST_TEST(near(step(tensor(v), start.bind(position)).values<float>(), sum));
    }
    BOOST_TEST(runs == 2);
  });
}

BOOST_AUTO_TEST_CASE(a_slice_assigned_at_a_bound_position_then_reduced, *boost::unit_test::label("JB-42")) {
  on_each_device([](const std::string&) {
    Variable pos("pos", 0, 3);
    Tensor cache = tensor(Floats(16, 0), {4, 4});
    Jit f([&](const SInt& at) {
      cache.narrow(0, at, 1).assign(Tensor::ones({1, 4})).realize();
      return cache.sum();
    });
    for (int64_t p = 0; p <= 3; ++p) {
      cache.assign(Tensor::zeros({4, 4})).realize();
      BOOST_TEST(f(pos.bind(p)).item() == 4);
      for (size_t k = 0; k < 16; ++k) BOOST_TEST(cache.values<float>()[k] == (k / 4 == size_t(p) ? 1 : 0));
    }
  });
}

BOOST_AUTO_TEST_CASE(in_the_child_threads_share_a_symbolic_kernel, *boost::unit_test::disabled()) {
  DeviceScope scope("CPU");
  Variable n("n", 1, 64);
  Floats all = random_floats(64 * 4096);
  Tensor a = tensor(all, {64, 4096});
  Jit f([&](const SInt& rows) {
    Tensor large = (a * 2 + 1).realize();
    return large.narrow(0, 0, rows) + 1;
  });
  for (int64_t rows : {5, 17, 64, 3}) {
    Tensor y = f(n.bind(rows));
    BOOST_TEST((y.size(0).max() == 64));
    Floats got = y.values<float>();
    BOOST_REQUIRE(got.size() == size_t(rows) * 4096);
    bool right = true;
    for (size_t k = 0; k < got.size(); ++k) right &= std::abs(got[k] - (all[k] * 2 + 2)) < 1e-5f;
    BOOST_TEST(right);
  }
  BOOST_TEST(int64_t(test::threads_of_this_process()) >= Config::current().cpu_threads);
}

// The threads of the CPU device are those that its plugin was loaded with, so each number has a process.
BOOST_AUTO_TEST_CASE(threads_and_a_symbolic_kernel, *boost::unit_test::label("JB-46")) {
  for (const char* threads : {"1", "4"})
    BOOST_TEST(test::passes_in_another_process("in_the_child_threads_share_a_symbolic_kernel",
                                               std::string("TOLK_CPU_THREADS=") + threads),
               threads << " threads");
}

BOOST_AUTO_TEST_CASE(a_value_out_of_range, *boost::unit_test::label("SY-11")) {
  // The wider variable passes its own bounds; the kernels were captured for the narrower one.
  Variable narrow("n", 1, 8), wide("n", 1, 20);
  Tensor a = tensor(random_floats(20));
  Jit f([&](const SInt& size) { return a.narrow(0, 0, size) + 1; });
  f(narrow.bind(3)), f(narrow.bind(4));
  BOOST_CHECK_THROW(narrow.bind(9), InvalidArgument);
  std::string message = refusal<JitError>([&] { f(wide.bind(9)); });
  BOOST_TEST(has(message, "variable \"n\" is 9, outside 1 .. 8"), message);
  BOOST_TEST(f(narrow.bind(8)).values<float>().size() == 8u);
}

BOOST_AUTO_TEST_CASE(a_variable_that_the_function_binds_itself, *boost::unit_test::label("RG-13")) {
  Variable n("n", 1, 8);
  Tensor a = tensor(random_floats(8));
  Jit f([&](Tensor x) { return a.narrow(0, 0, n.bind(3)).sum() + x; });
  Tensor x = tensor({1});
  f(x);
  std::string message = refusal<JitError>([&] { f(x); });
  BOOST_TEST(has(message, "variable \"n\" is bound inside the jitted function but is not an input"), message);
  BOOST_TEST(engine::capturing().empty());
}

BOOST_AUTO_TEST_CASE(a_result_has_the_size_of_its_call, *boost::unit_test::label("bug-05")) {
  on_each_device([](const std::string&) {
    Variable i("i", 1, 10);
    Jit f([](Tensor t) { return t + 1; });
    Tensor ones = tensor(Floats(10, 1));
    for (int64_t n = 1; n <= 4; ++n) {
      Tensor y = f(ones.narrow(0, 0, i.bind(n)));
      BOOST_TEST((y.values<float>() == Floats(size_t(n), 2)));
      BOOST_TEST((y.shape()[0].uop() == i.bind(n).uop()));
    }
  });
}
