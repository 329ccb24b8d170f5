// Handles on one storage: all see an assignment at once, whoever realizes it, and nothing that was computed
// before it is taken for what comes after.
#include <thread>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "device_runs.h"
#include "jit_support.h"
#include "tolk/device/buffer.h"
#include "tolk/engine/run/statistics.h"
#include "tolk/tensor/gradient.h"
#include "tolk/tensor/jit.h"
#include "tolk/tensor/pending.h"

using namespace tolk;
using namespace jit_test;

namespace {
int64_t memory() { return engine::GlobalCounters::get().mem_used; }
int64_t kernels() { return engine::GlobalCounters::get().kernel_count; }
// In memory of the device's own, which is counted.
Tensor filled(float value) { return Tensor::constant(DType::F32, value, {1000}).clone().realize(); }
const char* kTooLate = "was assigned to after";
} // namespace

BOOST_AUTO_TEST_SUITE(pending_writes)

BOOST_AUTO_TEST_CASE(every_handle_sees_a_write_before_it_is_realized) {
  on_each_device([](const std::string&) {
    Tensor a = tensor({1, 2, 3, 4, 5, 6}), copy = a, matrix = a.reshape({2, 3}),
           turned = matrix.permute({1, 0}), part = a.narrow(0, 2, 3), back = a.flip({0}),
           bits = a.bitcast(DType::I32), cut = a.detach();
    a.assign(a * 10);
    BOOST_TEST((copy.values<float>() == Floats{10, 20, 30, 40, 50, 60}));
    a.assign(a + 1);
    BOOST_TEST((turned.values<float>() == Floats{11, 41, 21, 51, 31, 61}));
    a.assign(a + 1);
    BOOST_TEST(((part + 0.5).values<float>() == Floats{32.5, 42.5, 52.5}));
    BOOST_TEST((back.values<float>() == Floats{62, 52, 42, 32, 22, 12}));
    BOOST_TEST((bits.bitcast(DType::F32).values<float>() == Floats{12, 22, 32, 42, 52, 62}));
    BOOST_TEST((cut.values<float>() == Floats{12, 22, 32, 42, 52, 62}));
  });
}

BOOST_AUTO_TEST_CASE(a_write_through_a_view_is_seen_by_all) {
  on_each_device([](const std::string&) {
    Tensor a = tensor({1, 2, 3, 4, 5, 6}, {2, 3}), whole = a, column = a.narrow(1, 1, 1);
    column.assign(Tensor::constant(DType::F32, 9, {2, 1}));
    a.permute({1, 0}).narrow(0, 2, 1).assign(tensor({7, 8}, {1, 2})); // through a handle that is gone
    BOOST_TEST((whole.values<float>() == Floats{1, 9, 7, 4, 9, 8}));
    BOOST_TEST((column.values<float>() == Floats{9, 9}));
    a.flip({1}).assign(a + 0.5); // each row from the other end
    BOOST_TEST((whole.values<float>() == Floats{7.5, 9.5, 1.5, 8.5, 9.5, 4.5}));
    // A dense part that contiguous() gives as it lies in the storage.
    Tensor row = a.narrow(0, 1, 1).contiguous().realize();
    row.assign(row * 2);
    BOOST_TEST((whole.values<float>() == Floats{7.5, 9.5, 1.5, 17, 19, 9}));
    whole.assign(whole - 1);
    BOOST_TEST((row.values<float>() == Floats{16, 18, 8}));
    whole.assign(whole - 1).realize();
    BOOST_TEST((row.values<float>() == Floats{15, 17, 7}));
  });
}

BOOST_AUTO_TEST_CASE(data_from_the_host_is_written_without_a_realize) {
  on_each_device([](const std::string&) {
    Tensor a = Tensor::from(Floats{1, 2, 3, 4}, {2, 2}), copy = a, row = a.narrow(0, 1, 1);
    row.assign(row * 10);
    BOOST_TEST((a.values<float>() == Floats{1, 2, 30, 40}));
    a.assign(a + 1);
    BOOST_TEST((copy.values<float>() == Floats{2, 3, 31, 41}));
    BOOST_TEST((row.values<float>() == Floats{31, 41}));

    Tensor weight = Tensor::from(Floats{1, 2}, {2});
    std::vector<Tensor> parameters{weight}; // as an optimiser has them
    Jit step([&](Tensor x) {
      Tensor loss = (weight * x).sum();
      parameters[0].assign(parameters[0] - x);
      return loss;
    });
    for (int i = 0; i < 5; ++i) BOOST_TEST(step(Tensor::from(Floats{1, 1}, {2})).item() == 3 - 2 * i);
    BOOST_TEST((weight.values<float>() == Floats{-4, -3}));
    Tensor inside;
    Jit fresh([&](Tensor x) {
      inside = Tensor::from(Floats{5, 6}, {2});
      inside.narrow(0, 0, 1).assign(x.narrow(0, 1, 1));
      return inside + x;
    });
    for (float i = 0; i < 4; ++i)
      BOOST_TEST((fresh(Tensor::from(Floats{i, 2 * i}, {2})).values<float>() == Floats{3 * i, 6 + 2 * i}));
  });
}

BOOST_AUTO_TEST_CASE(a_captured_function_assigns_to_storage_only) {
  on_each_device([](const std::string&) {
    auto says = [](Tensor state) {
      Jit step([&](Tensor x) {
        state.assign(state + x);
        return state * 2;
      });
      step(tensor({1, 1}));
      return refusal<InvalidArgument>([&] { step(tensor({1, 1})); });
    };
    BOOST_TEST(has(says(Tensor::zeros({2})), "an expression that was not realized and has no storage"));
    BOOST_TEST(has(says(tensor({1, 2}) * 2), "clone() it before the first call"));
    Jit constant([](Tensor x) {
      Tensor state = Tensor::zeros({2});
      state.assign(Tensor::ones({2}));
      return state + x;
    });
    constant(tensor({1, 1}));
    BOOST_TEST(has(refusal<InvalidArgument>([&] { constant(tensor({1, 1})); }), "which is a constant"));
    Tensor state = Tensor::zeros({2}).clone();
    Jit step([&](Tensor x) {
      state.assign(state + x);
      return state * 2;
    });
    for (float i = 1; i < 5; ++i) BOOST_TEST((step(tensor({1, 2})).values<float>() == Floats{2 * i, 4 * i}));
  });
}

BOOST_AUTO_TEST_CASE(a_write_outlives_the_handle_it_went_through) {
  on_each_device([](const std::string&) {
    Tensor a = tensor({1, 2}), b = a;
    {
      Tensor gone = a;
      gone.assign(gone + 5);
    }
    BOOST_TEST((b.values<float>() == Floats{6, 7}));
    auto set = [&](float v) { a.narrow(0, 0, 1).assign(tensor({v})); };
    set(1), set(2), set(3);
    BOOST_TEST((b.values<float>() == Floats{3, 7}));
  });
}

BOOST_AUTO_TEST_CASE(an_interned_value_of_the_old_contents_is_not_found) {
  on_each_device([](const std::string&) {
    Tensor a = tensor({1, 2}), b = a;
    Tensor old = b + 1, kept = old;
    old.realize();
    a.assign(tensor({10, 20})).realize();
    BOOST_TEST(((b + 1).values<float>() == Floats{11, 21}));
    BOOST_TEST((kept.values<float>() == Floats{2, 3}));
    // The storage of a computed value, written: the handles of the value follow, the expression does not.
    old.assign(tensor({-1, -2})).realize();
    BOOST_TEST((kept.values<float>() == Floats{-1, -2}));
    Tensor x = tensor({1, 2}), y = x + 1, again = y, twice = y * 2;
    y.realize();
    y.assign(tensor({0, 0})).realize();
    BOOST_TEST((again.values<float>() == Floats{0, 0}));
    BOOST_TEST(((x + 1).values<float>() == Floats{2, 3}));
    BOOST_TEST((twice.values<float>() == Floats{4, 6}));
  });
}

BOOST_AUTO_TEST_CASE(what_was_built_before_a_write_means_the_old_contents_or_is_refused) {
  on_each_device([](const std::string&) {
    Tensor a = tensor({1, 2}), before = a * 3, also = a * 5;
    a.assign(a + 10);
    std::vector<Tensor> both{before, a};
    Tensor::realize(both);
    BOOST_TEST((both[0].values<float>() == Floats{3, 6}));
    BOOST_TEST((a.values<float>() == Floats{11, 12}));
    BOOST_TEST(has(refusal<InvalidArgument>([&] { also.values<float>(); }), kTooLate));
    BOOST_TEST(has(refusal<InvalidArgument>([&] { (also + a).realize(); }), kTooLate));
    BOOST_TEST(((a * 5).values<float>() == Floats{55, 60}));
  });
}

BOOST_AUTO_TEST_CASE(host_data_that_a_device_took_over_is_not_read_again) {
  on_each_device([](const std::string&) {
    Tensor x = Tensor::from(Floats{1, 2}, {2}), copy = x, twice = x * 2;
    x.realize();
    x.assign(tensor({10, 20})).realize();
    BOOST_TEST((copy.values<float>() == Floats{10, 20}));
    BOOST_TEST(has(refusal<InvalidArgument>([&] { twice.values<float>(); }), kTooLate));
  });
}

BOOST_AUTO_TEST_CASE(writes_that_need_what_another_overwrites_go_with_it) {
  on_each_device([](const std::string&) {
    // Each realized by itself, as an optimiser may: d uses the old c, e the old d.
    Tensor c = tensor({1, 2}), d = tensor({10, 20}), e = tensor({100, 200}), other = tensor({5});
    Tensor new_d = d + c.flip({0}), new_e = e + d;
    c.assign(c * 2);
    d.assign(new_d);
    e.assign(new_e);
    other.assign(other + 1);
    int64_t launched = kernels();
    c.realize();
    BOOST_TEST(kernels() - launched == 3);
    BOOST_TEST(detail::pending_count() == 1u);
    d.realize(), e.realize();
    BOOST_TEST(kernels() - launched == 3);
    BOOST_TEST((c.values<float>() == Floats{2, 4}));
    BOOST_TEST((d.values<float>() == Floats{12, 21}));
    BOOST_TEST((e.values<float>() == Floats{110, 220}));
    BOOST_TEST(other.item() == 6);
    BOOST_TEST(detail::pending_count() == 0u);
  });
}

BOOST_AUTO_TEST_CASE(an_optimiser_step_with_two_parameters) {
  on_each_device([](const std::string&) {
    double slope = 0.5, offset = -0.25;
    std::vector<double> xs{1, 2, 3}, ys{2, 5, 4};
    Tensor w = tensor({0.5}), b = tensor({-0.25}), x = tensor({1, 2, 3}), y = tensor({2, 5, 4});
    std::vector<Tensor> parameters{w, b}; // the optimiser's handles
    for (int step = 0; step < 4; ++step) {
      Tensor loss = (x * w + b - y).square().mean();
      std::vector<Tensor> g = gradient(loss, parameters);
      g[0].realize(), g[1].realize(), loss.realize();
      for (size_t i = 0; i < 2; ++i) parameters[i].assign(parameters[i] - g[i] * 0.1);
      double error = 0, by_slope = 0, by_offset = 0;
      for (size_t k = 0; k < 3; ++k) {
        double difference = xs[k] * slope + offset - ys[k];
        error += difference * difference / 3;
        by_slope += 2 * difference * xs[k] / 3, by_offset += 2 * difference / 3;
      }
      BOOST_TEST(loss.item() == error, boost::test_tools::tolerance(1e-5));
      slope -= 0.1 * by_slope, offset -= 0.1 * by_offset;
      BOOST_TEST(w.item() == slope, boost::test_tools::tolerance(1e-5));
      BOOST_TEST(b.item() == offset, boost::test_tools::tolerance(1e-5));
    }
  });
}

BOOST_AUTO_TEST_CASE(shards_and_replicas_see_writes) {
  on_each_device([](const std::string& device) {
    std::vector<std::string> on{device, device + ":1"};
    for (int axis : {0, 1, -1}) {
      Tensor start = tensor(ramp(8), {2, 4});
      Tensor a = (axis < 0 ? start.replicate(on) : start.shard(on, axis)).realize(), copy = a,
             turned = a.permute({1, 0}), part = a.narrow(1, 2, 1);
      a.assign(a + 1);
      BOOST_TEST((copy.values<float>() == ramp(8, 1)));
      part.assign(Tensor::constant(DType::F32, 50, {2, 1}).replicate(on));
      BOOST_TEST((turned.values<float>() == Floats{1, 5, 2, 6, 50, 50, 4, 8}));
      copy.assign(copy * 2).realize();
      BOOST_TEST((part.values<float>() == Floats{100, 100}));
      BOOST_TEST((a.values<float>() == Floats{2, 4, 100, 8, 10, 12, 100, 16}));
    }
  });
}

BOOST_AUTO_TEST_CASE(memory_of_writes_that_nobody_sees_is_given_back) {
  on_each_device([](const std::string&) {
    tensor({1}).item();
    int64_t used = memory();
    {
      // Each needs the old contents of the other.
      Tensor a = filled(1), b = filled(2), u = a * 2, v = b * 3;
      a.assign(v), b.assign(u);
      Tensor c = filled(1), view = c.narrow(0, 0, 500);
      view.assign(view + 1);
      BOOST_TEST(memory() > used);
    }
    BOOST_TEST(detail::pending_count() == 3u);
    int64_t launched = kernels();
    detail::realize_pending(); // nothing is due any more
    BOOST_TEST(kernels() == launched);
    BOOST_TEST(detail::pending_count() == 0u);
    BOOST_TEST(memory() == used);
    // What an expression or a view reaches stays.
    Tensor sum, part;
    {
      Tensor a = tensor({1, 2}), b = tensor({3, 4});
      a.assign(a + 1), b.assign(b * 2);
      sum = a.sum(), part = b.narrow(0, 1, 1);
    }
    detail::realize_pending(UINT64_MAX); // executes none of them, drops what no handle sees
    BOOST_TEST(sum.item() == 5);
    BOOST_TEST(part.item() == 8);
    sum = part = Tensor();
    BOOST_TEST(memory() == used);
    // Swept while more are assigned, without a realize.
    for (int i = 0; i < 200; ++i) {
      Tensor t = filled(1);
      t.assign(t + 1);
    }
    BOOST_TEST(memory() - used < 50 * 4096);
  });
}

BOOST_AUTO_TEST_CASE(clones_of_storage_are_pending_writes_and_those_of_expressions_are_not) {
  on_each_device([](const std::string& device) {
    Tensor a = tensor({1, 2, 3, 4}), sum = (a + 1).clone();
    BOOST_TEST(detail::pending_count() == 0u);
    Tensor c = a.clone(), view = c.reshape({2, 2});
    BOOST_TEST(detail::pending_count() == 1u);
    c.assign(c * 10);
    BOOST_TEST((view.values<float>() == Floats{10, 20, 30, 40}));
    BOOST_TEST((a.values<float>() == Floats{1, 2, 3, 4}));
    Tensor lazy = a.clone();
    lazy.narrow(0, 0, 2).assign(tensor({7, 8}));
    BOOST_TEST((lazy.values<float>() == Floats{7, 8, 3, 4}));
    Tensor parts = a.shard({device, device + ":1"}, 0).clone(), other = parts;
    parts.assign(parts + 1);
    other.narrow(0, 1, 2).assign(other.narrow(0, 0, 2));
    BOOST_TEST((parts.values<float>() == Floats{2, 2, 3, 5}));
  });
}

BOOST_AUTO_TEST_CASE(views_that_repeat_elements_are_refused_at_once) {
  Tensor a = tensor({1, 2});
  std::string words = "would write elements more than once";
  Tensor wide = a.reshape({1, 2}).expand({3, 2}), windows = a.window(0, 1, 2, 1, 1);
  BOOST_TEST(has(refusal<InvalidArgument>([&] { wide.assign(Tensor::zeros({3, 2})); }), words));
  BOOST_TEST((a.values<float>() == Floats{1, 2}));
  BOOST_TEST(detail::pending_count() == 0u);
}

BOOST_AUTO_TEST_CASE(one_thread_assigns_and_another_reads) {
  Tensor a = tensor({1, 2}), b = a;
  std::thread([mine = a]() mutable { mine.assign(mine + 1); }).join();
  BOOST_TEST((b.values<float>() == Floats{2, 3})); // a thread that is gone: carried out by who reads
  std::thread([mine = a]() mutable { mine.assign(mine + 1).realize(); }).join();
  BOOST_TEST(((b + 1).values<float>() == Floats{4, 5}));
  // Threads on storage of their own.
  std::vector<std::thread> threads;
  std::vector<double> sums(4);
  for (size_t t = 0; t < 4; ++t)
    threads.emplace_back([t, &sums] {
      DeviceScope scope("INTERP");
      Tensor x = tensor({0, float(t)}), view = x.narrow(0, 1, 1);
      for (int i = 0; i < 20; ++i) {
        view.assign(view + 1);
        if (i % 3 == 0) sums[t] = x.sum().item();
      }
      sums[t] = x.sum().item();
    });
  for (std::thread& t : threads) t.join();
  for (size_t t = 0; t < 4; ++t) BOOST_TEST(sums[t] == 20 + double(t));
}

BOOST_AUTO_TEST_SUITE_END()
