// Captured functions: the phases, what is captured, what replays do.
#include <any>
#include <map>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "device_runs.h"
#include "jit_support.h"
#include "tolk/engine/run/statistics.h"
#include "tolk/tensor/jit.h"
#include "tolk/uop/state.h"

using namespace tolk;
using namespace jit_test;

namespace {

// Calls the function of two 10x10 tensors five times with fresh random values.
template <class F> void five_sums(F&& call) {
  for (int i = 0; i < 5; ++i) {
    Floats a = random_floats(100), b = random_floats(100);
    BOOST_TEST_INFO("call " << i + 1);
    BOOST_TEST(near(call(tensor(a, {10, 10}), tensor(b, {10, 10})).template values<float>(), plus(a, b)));
  }
}

} // namespace

BOOST_AUTO_TEST_CASE(two_calls_run_the_function_and_the_others_replay, *boost::unit_test::label("J-01")) {
  on_each_device([](const std::string&) {
    int runs = 0;
    Jit f([&](Tensor x) {
      ++runs;
      return x + 1;
    });
    std::vector<engine::Phase> phases;
    for (int i = 1; i <= 6; ++i) {
      phases.push_back(f.phase());
      BOOST_TEST((f(tensor({float(i)})).values<float>() == Floats{float(i) + 1}));
      BOOST_TEST(runs == std::min(i, 2));
    }
    using enum engine::Phase;
    BOOST_TEST((phases == std::vector{Warmup, Capture, Exec, Exec, Exec, Exec}));
    BOOST_TEST(f.cnt() == 2);
  });
}

BOOST_AUTO_TEST_CASE(the_first_call_runs_at_once, *boost::unit_test::label("J-02")) {
  on_each_device([](const std::string&) {
    Jit f([](Tensor x) { return x * 3; });
    Tensor y = f(tensor({1, 2, 3}));
    BOOST_TEST((y.values<float>() == Floats{3, 6, 9}));
    BOOST_TEST((f.captured() == nullptr));
    BOOST_TEST(engine::capturing().empty());
    BOOST_TEST(f.cnt() == 1);
  });
}

BOOST_AUTO_TEST_CASE(a_capturer_is_installed_while_the_function_runs, *boost::unit_test::label("J-03")) {
  std::vector<size_t> sizes;
  Jit f([&](Tensor x) {
    sizes.push_back(engine::capturing().size());
    return x + 1;
  });
  Tensor x = tensor({1});
  f(x), f(x);
  BOOST_TEST((sizes == std::vector<size_t>{0, 1}));
  BOOST_TEST(engine::capturing().empty());
}

BOOST_AUTO_TEST_CASE(the_capture_is_there_after_the_second_call_and_gone_after_reset,
                     *boost::unit_test::label("J-26")) {
  Jit f([](Tensor x) { return x + 1; });
  Tensor x = tensor({1});
  f(x);
  BOOST_TEST((f.captured() == nullptr));
  f(x);
  BOOST_TEST((f.captured() != nullptr));
  f(x);
  f.reset();
  BOOST_TEST((f.captured() == nullptr));
}

BOOST_AUTO_TEST_CASE(reset_captures_anew_also_other_shapes, *boost::unit_test::label("J-31")) {
  on_each_device([](const std::string&) {
    int runs = 0;
    Jit f([&](Tensor x) {
      ++runs;
      return x + 1;
    });
    for (int i = 0; i < 5; ++i) f(tensor({1, 2}));
    BOOST_TEST(runs == 2);
    f.reset();
    for (int i = 0; i < 5; ++i)
      BOOST_TEST((f(tensor({1, 2, float(i)})).values<float>() == Floats{2, 3, float(i) + 1}));
    BOOST_TEST(runs == 4);
  });
}

BOOST_AUTO_TEST_CASE(a_function_that_computes_nothing_is_no_capture, *boost::unit_test::label("J-17")) {
  Jit f([](Tensor) {});
  Tensor x = tensor({1});
  f(x);
  for (int call = 2; call <= 3; ++call) {
    BOOST_TEST(has(refusal<JitError>([&] { f(x); }), "didn't JIT anything!"));
    BOOST_TEST(engine::capturing().empty());
    BOOST_TEST((f.phase() == engine::Phase::Capture));
  }
}

BOOST_AUTO_TEST_CASE(other_inputs_are_refused_and_named, *boost::unit_test::label("J-18")) {
  on_each_device([](const std::string& device) {
    Jit f([](Tensor a, Tensor b) { return a + b; });
    auto b = [] { return tensor({1, 2, 3, 4}, {2, 2}); };
    Tensor a = tensor({1, 2, 3, 4}, {2, 2});
    f(a, b()), f(a, b());
    auto refused = [&](const Tensor& other) { return refusal<JitError>([&] { f(a, other); }); };
    BOOST_TEST(has(refused(tensor({1, 2}, {1, 2})), "input 1 mismatch: expected"));
    BOOST_TEST(has(refused(tensor({1, 2, 3, 4}, {4, 1})), "input 1 mismatch: expected"));
    std::string message = refused(Tensor::from(std::vector<int32_t>{1, 2, 3, 4}, {2, 2}).realize());
    BOOST_TEST(has(message, "input 1 mismatch: expected"), message);
    BOOST_TEST(has(message, "the dtype differs"), message);
    message = refused(Tensor::from(Floats{1, 2, 3, 4}, {2, 2}, device + ":1").realize());
    BOOST_TEST(has(message, "input 1 mismatch: expected"), message);
    BOOST_TEST(has(message, "the device differs"), message);
    BOOST_TEST((f(a, b()).values<float>() == Floats{2, 4, 6, 8}));
  });
}

BOOST_AUTO_TEST_CASE(more_or_fewer_inputs_are_refused, *boost::unit_test::label("J-18")) {
  on_each_device([](const std::string&) {
    Jit f([](std::vector<Tensor> all) {
      Tensor sum = all[0];
      for (size_t i = 1; i < all.size(); ++i) sum = sum + all[i];
      return sum;
    });
    auto some = [](size_t n) {
      std::vector<Tensor> all;
      for (size_t i = 0; i < n; ++i) all.push_back(tensor({float(i + 1), 10}));
      return all;
    };
    for (int i = 0; i < 2; ++i) BOOST_TEST((f(some(3)).values<float>() == Floats{6, 30}));
    for (size_t n : {2u, 4u}) {
      std::string message = refusal<JitError>([&] { f(some(n)); });
      BOOST_TEST(has(message, "input count mismatch: expected 3, got " + std::to_string(n)), message);
      BOOST_TEST((f(some(3)).values<float>() == Floats{6, 30}));
    }
  });
}

BOOST_AUTO_TEST_CASE(replays_take_the_inputs_of_their_call, *boost::unit_test::label("J-11")) {
  on_each_device([](const std::string&) {
    Jit f([](Tensor x) { return x * 2 + 1; });
    for (int k = 1; k <= 6; ++k) {
      Floats v = ramp(5, float(10 * k)), want;
      for (float e : v) want.push_back(e * 2 + 1);
      BOOST_TEST((f(tensor(v)).values<float>() == want));
    }
  });
}

BOOST_AUTO_TEST_CASE(a_cache_is_updated_across_calls, *boost::unit_test::label("J-40")) {
  on_each_device([](const std::string&) {
    Tensor cache = tensor(Floats(12, 0), {4, 3});
    Variable pos("pos", 0, 3);
    Jit f([&](Tensor x, SInt at) {
      Tensor row = cache.narrow(0, at, 1);
      row.assign(x.reshape({1, 3})).realize();
      return cache.sum();
    });
    float total = 0;
    for (int i = 0; i < 4; ++i) {
      Floats v{float(i + 1), float(i + 2), float(i + 3)};
      total += v[0] + v[1] + v[2];
      BOOST_TEST(f(tensor(v), pos.bind(i)).item() == total);
    }
    BOOST_TEST((cache.values<float>() == Floats{1, 2, 3, 2, 3, 4, 3, 4, 5, 4, 5, 6}));
  });
}

BOOST_AUTO_TEST_CASE(another_view_of_an_input_is_refused, *boost::unit_test::label("J-41")) {
  on_each_device([](const std::string&) {
    Tensor base = tensor(ramp(10));
    Jit f([](Tensor x) { return x + 1; });
    auto part = [&](int64_t from) { return tensor(ramp(10)).narrow(0, from, 3); };
    f(part(2)), f(part(2));
    std::string message = refusal<JitError>([&] { f(part(3)); });
    BOOST_TEST(has(message, "input 0 mismatch"), message);
    BOOST_TEST(has(message, "view"), message);
    BOOST_TEST((f(part(2)).values<float>() == Floats{3, 4, 5}));
  });
}

BOOST_AUTO_TEST_CASE(other_bound_variables_of_an_input_are_refused, *boost::unit_test::label("J-42")) {
  Variable i("i", 1, 8), j("j", 1, 8);
  Jit f([](Tensor x) { return x + 1; });
  auto part = [&](const SInt& size) { return tensor(ramp(8)).narrow(0, 0, size); };
  f(part(i.bind(3))), f(part(i.bind(4)));
  BOOST_TEST(has(refusal<JitError>([&] { f(part(j.bind(4))); }), "the set of bound variables differs"));
  BOOST_TEST(has(refusal<JitError>([&] { f(part(4)); }), "the set of bound variables differs"));
  Tensor y = f(part(i.bind(5)));
  BOOST_TEST((y.values<float>() == Floats{1, 2, 3, 4, 5}));
}

BOOST_AUTO_TEST_CASE(an_addition_is_one_kernel_and_right_in_every_call, *boost::unit_test::label("JB-01")) {
  on_each_device([](const std::string&) {
    Jit f([](Tensor a, Tensor b) { return (a + b).realize(); });
    five_sums(f);
    BOOST_TEST(f.captured()->num_kernels() == 1u);
  });
}

BOOST_AUTO_TEST_CASE(reset_then_another_shape, *boost::unit_test::label("JB-02")) {
  on_each_device([](const std::string&) {
    Jit f([](Tensor a, Tensor b) { return (a + b).realize(); });
    five_sums(f);
    f.reset();
    for (int i = 0; i < 5; ++i) {
      Floats a = random_floats(400), b = random_floats(400);
      BOOST_TEST(near(f(tensor(a, {20, 20}), tensor(b, {20, 20})).values<float>(), plus(a, b)));
    }
    BOOST_TEST(f.captured()->num_kernels() == 1u);
  });
}

BOOST_AUTO_TEST_CASE(results_that_are_not_realized_are, *boost::unit_test::label("JB-03")) {
  on_each_device([](const std::string&) {
    Jit f([](Tensor a, Tensor b) { return a + b; });
    five_sums(f);
    BOOST_TEST(f.captured()->num_kernels() == 1u);
  });
}

BOOST_AUTO_TEST_CASE(lists_and_maps_are_results, *boost::unit_test::label("JB-04")) {
  Jit list([](Tensor a, Tensor b) { return std::vector<Tensor>{a + b}; });
  five_sums([&](Tensor a, Tensor b) { return list(a, b)[0]; });
  BOOST_TEST(list.captured()->num_kernels() == 1u);
  Jit map([](Tensor a, Tensor b) { return std::map<std::string, Tensor>{{"k", a + b}}; });
  five_sums([&](Tensor a, Tensor b) { return map(a, b).at("k"); });
  BOOST_TEST(map.captured()->num_kernels() == 1u);
}

BOOST_AUTO_TEST_CASE(several_outputs_are_all_right, *boost::unit_test::label("JB-05")) {
  on_each_device([](const std::string&) {
    Jit f([](Tensor a, Tensor b) { return std::tuple<Tensor, Tensor, Tensor>{a + b, a - b, a * b}; });
    for (int i = 0; i < 5; ++i) {
      Floats a = random_floats(100), b = random_floats(100);
      auto [sum, difference, product] = f(tensor(a, {10, 10}), tensor(b, {10, 10}));
      BOOST_TEST(near(sum.values<float>(), plus(a, b)));
      BOOST_TEST(near(difference.values<float>(), mapped(a, b, [](float x, float y) { return x - y; })));
      BOOST_TEST(near(product.values<float>(), mapped(a, b, [](float x, float y) { return x * y; })));
    }
    BOOST_TEST(f.captured()->num_kernels() == 3u);
  });
}

BOOST_AUTO_TEST_CASE(a_function_without_tensors_is_refused, *boost::unit_test::label("JB-06")) {
  Jit f([](Tensor a, Tensor b) { Tensor unused = a + b; });
  int refused = 0;
  for (int i = 0; i < 5; ++i) refused += !refusal<JitError>([&] { f(tensor({1}), tensor({2})); }).empty();
  BOOST_TEST(refused == 4);
}

BOOST_AUTO_TEST_CASE(JIT_0_captures_nothing, *boost::unit_test::label("JB-07")) {
  Settings off([](Config& c) { c.jit = 0; });
  Jit f([](Tensor a, Tensor b) { return a + b; });
  five_sums(f);
  BOOST_TEST((f.captured() == nullptr));
}

BOOST_AUTO_TEST_CASE(JIT_0_calls_leave_the_phase_alone, *boost::unit_test::label("P-30")) {
  int runs = 0;
  Jit f([&](Tensor x) {
    ++runs;
    return x + 1;
  });
  Tensor x = tensor({1});
  {
    Settings off([](Config& c) { c.jit = 0; });
    for (int i = 0; i < 5; ++i) BOOST_TEST(f(x).item() == 2);
    BOOST_TEST((f.captured() == nullptr));
    BOOST_TEST((f.phase() == engine::Phase::Warmup));
  }
  f(x), f(x);
  BOOST_TEST((f.captured() != nullptr));
  BOOST_TEST(runs == 7);
  f(x);
  BOOST_TEST(runs == 7);
  // Also in Exec: the function runs, the capture is kept for later.
  Settings off([](Config& c) { c.jit = 0; });
  f(x);
  BOOST_TEST(runs == 8);
  BOOST_TEST((f.captured() != nullptr));
}

BOOST_AUTO_TEST_CASE(a_constant_kernel_is_captured_too, *boost::unit_test::label("JB-08")) {
  Jit f([](Tensor a, Tensor b) {
    Tensor zeros = Tensor::zeros({4, 4}).clone().realize();
    return a + b;
  });
  five_sums(f);
  BOOST_TEST(f.captured()->num_kernels() == 2u);
}

BOOST_AUTO_TEST_CASE(a_CAPTURING_0_region_is_no_part_of_the_capture, *boost::unit_test::label("JB-09")) {
  Jit f([](Tensor a, Tensor b) {
    {
      Settings quiet([](Config& c) { c.capturing = 0; });
      Tensor zeros = Tensor::zeros({4, 4}).clone().realize();
    }
    return a + b;
  });
  five_sums(f);
  BOOST_TEST(f.captured()->num_kernels() == 1u);
}

BOOST_AUTO_TEST_CASE(another_shape_after_the_capture, *boost::unit_test::label("JB-10")) {
  Jit f([](Tensor a, Tensor b) { return a + b; });
  five_sums(f);
  Tensor a = tensor(random_floats(100), {10, 10}), b = tensor(random_floats(400), {20, 20});
  BOOST_TEST(has(refusal<JitError>([&] { f(a, b); }), "input 1 mismatch"));
}

BOOST_AUTO_TEST_CASE(another_view_offset, *boost::unit_test::label("JB-11")) {
  Jit f([](Tensor x) { return x + 1; });
  int refused_at = 0;
  for (int i = 1; i <= 4 && refused_at == 0; ++i) {
    Tensor view = tensor(random_floats(100), {10, 10}).narrow(1, i, 2);
    if (!refusal<JitError>([&] { f(view); }).empty()) refused_at = i;
  }
  BOOST_TEST(refused_at == 3);
}

BOOST_AUTO_TEST_CASE(duplicate_inputs_are_refused_at_once,
                     *boost::unit_test::label("JB-12") * boost::unit_test::label("P-28")) {
  Jit f([](Tensor a, Tensor b) { return a + b; });
  Tensor x = tensor({1, 2});
  BOOST_TEST(has(refusal<JitError>([&] { f(x, x); }), "duplicate inputs to JIT"));
  // Two views of one buffer are duplicates as well.
  BOOST_TEST(
      has(refusal<JitError>([&] { f(x.narrow(0, 0, 1), x.narrow(0, 1, 1)); }), "duplicate inputs to JIT"));
  BOOST_TEST(f.cnt() == 0);
}

BOOST_AUTO_TEST_CASE(the_same_input_twice_is_refused, *boost::unit_test::label("P-28")) {
  Jit f([](std::vector<Tensor> all) { return all[0] + all[1]; });
  Tensor x = tensor({1, 2});
  Tensor again = x.reshape({2, 1});
  BOOST_TEST(has(refusal<JitError>([&] { f({x.reshape({1, 2}), again}); }), "duplicate inputs to JIT"));
}

BOOST_AUTO_TEST_CASE(keyword_inputs_in_any_order, *boost::unit_test::label("JB-13")) {
  Jit f([](const Arguments& in) { return in["first"] * 2 + in["second"]; });
  for (int i = 0; i < 5; ++i) {
    Floats a = random_floats(100), b = random_floats(100);
    Tensor x = tensor(a, {10, 10}), y = tensor(b, {10, 10});
    Arguments in;
    if (i % 2)
      in.with("second", y).with("first", x);
    else
      in.with("first", x).with("second", y);
    BOOST_TEST(near(f(in).values<float>(), mapped(a, b, [](float p, float q) { return p * 2 + q; })));
  }
  BOOST_TEST(f.captured()->num_kernels() == 1u);
}

BOOST_AUTO_TEST_CASE(a_tensor_in_a_list, *boost::unit_test::label("JB-15")) {
  Jit f([](Tensor a, std::vector<Tensor> list) { return a + list[0]; });
  five_sums([&](Tensor a, Tensor b) { return f(a, {b}); });
  BOOST_TEST(f.captured()->num_kernels() == 1u);
}

namespace {
struct Model {
  Tensor a;
  int runs = 0;
  Tensor add(Tensor b) {
    ++runs;
    return a + b;
  }
};
} // namespace

BOOST_AUTO_TEST_CASE(a_method_with_a_member_tensor, *boost::unit_test::label("JB-16")) {
  Floats a = random_floats(100);
  Model model{tensor(a, {10, 10})};
  Jit f(&Model::add);
  for (int i = 0; i < 5; ++i) {
    Floats b = random_floats(100);
    BOOST_TEST(near(f(model, tensor(b, {10, 10})).values<float>(), plus(a, b)));
  }
  BOOST_TEST(f.captured()->num_kernels() == 1u);
}

BOOST_AUTO_TEST_CASE(one_Jit_for_two_instances_replays_the_first,
                     *boost::unit_test::label("P-38") * boost::unit_test::label("JB-39")) {
  Model one{tensor({1})}, two{tensor({2})};
  Jit f(&Model::add);
  for (int i = 0; i < 3; ++i) BOOST_TEST(f(one, tensor({float(i)})).item() == 1 + i);
  BOOST_TEST(one.runs == 2);
  // As documented: the second instance's tensors were never captured.
  BOOST_TEST(f(two, tensor({10})).item() == 11);
  Jit own(&Model::add);
  for (int i = 0; i < 3; ++i) BOOST_TEST(own(two, tensor({float(i)})).item() == 2 + i);
}

BOOST_AUTO_TEST_CASE(a_shared_jit_answers_with_the_scale_of_the_first_instance,
                     *boost::unit_test::label("JB-39")) {
  struct Scaled {
    float scale;
  };
  Scaled first{2}, second{3};
  Jit f([](Scaled* self, Tensor x) { return x * self->scale; });
  for (int i = 0; i < 3; ++i) BOOST_TEST(f(&first, tensor({1})).item() == 2);
  BOOST_TEST(f(&second, tensor({1})).item() == 2);
}

BOOST_AUTO_TEST_CASE(an_input_of_one_element, *boost::unit_test::label("JB-17")) {
  on_each_device([](const std::string&) {
    Jit f([](Tensor a, Tensor b) { return a + b; });
    for (int i = 0; i < 5; ++i)
      BOOST_TEST((f(tensor({1, 2, 3}), tensor({float(i)})).values<float>() ==
                  Floats{1 + float(i), 2 + float(i), 3 + float(i)}));
  });
}

BOOST_AUTO_TEST_CASE(a_result_that_is_no_tensor, *boost::unit_test::label("JB-18")) {
  Jit f([](Tensor a, Tensor b) -> std::any { return std::vector<std::any>{std::any(a + b), std::any(1)}; });
  Tensor a = tensor({1}), b = tensor({2});
  BOOST_TEST(has(refusal<JitError>([&] { f(a, b); }), "JIT return contains non-Tensor value of type int"));
  BOOST_TEST(engine::capturing().empty());
}

BOOST_AUTO_TEST_CASE(results_are_tensors_and_containers_of_them, *boost::unit_test::label("P-12")) {
  Tensor x = tensor({1, 2});
  auto returns = [&](const std::function<std::any(const Tensor&)>& value) {
    return refusal<JitError>([&] {
      Jit f([&](Tensor in) -> std::any { return value(in + 1); });
      for (int i = 0; i < 3; ++i) f(x);
    });
  };
  BOOST_TEST(returns([](const Tensor& t) { return std::any(t); }).empty());
  BOOST_TEST(returns([](const Tensor& t) { return std::any(std::vector<Tensor>{t}); }).empty());
  BOOST_TEST(
      returns([](const Tensor& t) { return std::any(std::map<std::string, Tensor>{{"k", t}}); }).empty());
  BOOST_TEST(returns([](const Tensor& t) { return std::any(std::vector<std::any>{t, {}}); }).empty());
  std::string message = returns([](const Tensor& t) { return std::any(std::vector<std::any>{t, 5}); });
  BOOST_TEST(has(message, "non-Tensor value of type int"), message);
  message = returns([](const Tensor&) { return std::any(std::string("done")); });
  BOOST_TEST(has(message, "non-Tensor value of type std::"), message);
  // Nothing at all is fine when the function did something.
  Jit nothing([&](Tensor in) -> std::any {
    in.assign(in + 1).realize();
    return {};
  });
  for (int i = 0; i < 3; ++i) nothing(x);
  BOOST_TEST((x.values<float>() == Floats{4, 5}));
  // Types that cannot hold anything else are told by the compiler.
  static_assert(tolk::detail::is_jit_result<std::pair<Tensor, std::vector<Tensor>>>);
  static_assert(tolk::detail::is_jit_result<std::optional<Tensor>>);
  static_assert(!tolk::detail::is_jit_result<std::pair<Tensor, int>>);
  static_assert(!tolk::detail::is_jit_result<std::string>);
  static_assert(!tolk::detail::is_jit_argument<Model>);
}

BOOST_AUTO_TEST_CASE(outputs_share_storage_after_the_capture, *boost::unit_test::label("JB-24")) {
  on_each_device([](const std::string&) {
    Jit f([](Tensor x) { return x.sum(); });
    Tensor r1 = f(tensor({1, 1})), r2 = f(tensor({2, 2})), r3 = f(tensor({3, 3}));
    BOOST_TEST(r1.item() == 2);
    BOOST_TEST(r2.item() == 6);
    BOOST_TEST(r3.item() == 6);
    BOOST_TEST((without_states(r2.node()) == without_states(r3.node())));
  });
}

BOOST_AUTO_TEST_CASE(clones_are_independent, *boost::unit_test::label("JB-25")) {
  on_each_device([](const std::string&) {
    Jit f([](Tensor x) { return x.sum(); });
    std::vector<Tensor> kept;
    for (int i = 1; i <= 3; ++i) kept.push_back(f(tensor({float(i), float(i)})).clone().realize());
    for (int i = 1; i <= 3; ++i) BOOST_TEST(kept[size_t(i - 1)].item() == 2 * i);
  });
}

BOOST_AUTO_TEST_CASE(the_captured_result_is_the_same_from_the_second_call_on,
                     *boost::unit_test::label("P-40")) {
  Jit f([](Tensor x) { return std::vector<Tensor>{x + 1, x * 2}; });
  std::vector<std::vector<Tensor>> results;
  for (int i = 0; i < 5; ++i) results.push_back(f(tensor({float(i)})));
  auto storage = [&](size_t call, size_t k) { return without_states(results[call][k].node()); };
  BOOST_TEST((storage(0, 0) != storage(1, 0)));
  for (size_t i = 2; i < 5; ++i)
    for (size_t k = 0; k < 2; ++k) BOOST_TEST((storage(i, k) == storage(1, k)));
  using Kept = detail::Boxed<std::vector<Tensor>>;
  BOOST_TEST(
      (without_states(std::any_cast<const Kept&>(f.captured()->value()).value[0].node()) == storage(1, 0)));
}

BOOST_AUTO_TEST_CASE(what_was_computed_from_an_earlier_result_is_not_taken_for_a_later_one) {
  on_each_device([](const std::string&) {
    Jit f([](Tensor x) { return x * 2; });
    std::vector<Tensor> kept;
    for (int i = 0; i < 5; ++i) {
      Tensor y = f(tensor({float(i)})), z = y + 1;
      kept.push_back(z); // its graph outlives the next calls
      BOOST_TEST(z.realize().item() == 2 * i + 1);
    }
  });
}
