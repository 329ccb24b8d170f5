// Captured functions with state: closures, in-place updates, host code, failures.
#include <stdexcept>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "device_runs.h"
#include "jit_support.h"
#include "tolk/engine/run/statistics.h"
#include "tolk/tensor/jit.h"
#include "tolk/tensor/pending.h"

using namespace tolk;
using namespace jit_test;

BOOST_AUTO_TEST_CASE(a_lazy_weight_of_the_closure, *boost::unit_test::label("JB-23")) {
  on_each_device([](const std::string&) {
    Tensor w = Tensor::eye(5, 5, 0, DType::F32);
    Jit f([&](Tensor x) { return w.matmul(x); });
    Jit realized([&](Tensor x) {
      w.realize();
      return w.matmul(x);
    });
    for (int i = 0; i < 4; ++i) {
      Floats v = random_floats(5);
      BOOST_TEST(near(f(tensor(v)).values<float>(), v));
      BOOST_TEST(near(realized(tensor(v)).values<float>(), v));
    }
  });
}

BOOST_AUTO_TEST_CASE(a_lazy_weight_that_the_capture_call_realizes) {
  on_each_device([](const std::string&) {
    // The second call alone realizes it: its kernel is part of the replay, and its storage is held.
    Tensor w = tensor({1, 2, 3}) * 2, before = w;
    int calls = 0;
    Jit f([&](Tensor x) {
      if (++calls == 2) w.realize();
      return w + x;
    });
    for (int i = 0; i < 4; ++i)
      BOOST_TEST((f(tensor({float(i), 0, 0})).values<float>() == Floats{2 + float(i), 4, 6}));
    BOOST_TEST((w.values<float>() == Floats{2, 4, 6}));
    BOOST_TEST((before.values<float>() == Floats{2, 4, 6}));
  });
}

BOOST_AUTO_TEST_CASE(equal_inputs_at_both_first_calls_and_a_graph_that_is_kept) {
  on_each_device([](const std::string&) {
    std::vector<Tensor> kept;
    Jit f([&](Tensor x) {
      Tensor y = x * 2;
      kept.push_back(y); // the graph of y outlives the call
      y.realize();
      Tensor z = y + 1;
      kept.push_back(z);
      return z;
    });
    Tensor x = tensor({1, 2});
    for (int i = 0; i < 2; ++i) BOOST_TEST((f(x).values<float>() == Floats{3, 5}));
    BOOST_TEST(f.captured()->num_kernels() == 2u);
    for (int i = 0; i < 3; ++i)
      BOOST_TEST((f(tensor({float(i), 7})).values<float>() == Floats{2 * float(i) + 1, 15}));
    BOOST_TEST((kept[0].values<float>() == Floats{2, 4}));
  });
}

BOOST_AUTO_TEST_CASE(constants_are_no_inputs,
                     *boost::unit_test::label("JB-26") * boost::unit_test::label("P-26")) {
  Jit f([](Tensor x) { return x + 1; });
  auto refused = [&](const Tensor& x) {
    return has(refusal<JitError>([&] { f(x); }), "JIT inputs must be real buffers; use .clone()");
  };
  BOOST_TEST(refused(Tensor::constant(DType::F32, 2.0)));
  BOOST_TEST(refused(Tensor::constant(DType::F32, 2.0) + Tensor::constant(DType::F32, 3.0)));
  BOOST_TEST(refused(Tensor::ones({4})));
  BOOST_TEST(f.cnt() == 0);
  for (int i = 0; i < 3; ++i) BOOST_TEST(f(Tensor::constant(DType::F32, i).clone()).item() == i + 1);
}

BOOST_AUTO_TEST_CASE(constants_are_no_inputs_in_containers_either, *boost::unit_test::label("P-26")) {
  Jit f([](std::vector<Tensor> x) { return x[0] + 1; });
  BOOST_TEST(has(refusal<JitError>([&] { f({Tensor::zeros({2})}); }),
                 "JIT inputs must be real buffers; use .clone()"));
}

BOOST_AUTO_TEST_CASE(a_realized_constant, *boost::unit_test::label("JB-26")) {
  // The row expects a refusal, because a constant that stays one would be frozen into the kernels. Here
  // realize() gives the handle storage of its own, and replays read that storage: nothing is frozen, as the
  // values below show, and a refusal would only make users write clone().
  Jit f([](Tensor x) { return x + 1; });
  for (int i = 0; i < 4; ++i) {
    Tensor x = Tensor::constant(DType::F32, i);
    x.realize();
    BOOST_TEST(f(x).item() == i + 1);
  }
}

BOOST_AUTO_TEST_CASE(an_empty_output_argument, *boost::unit_test::label("JB-27")) {
  on_each_device([](const std::string&) {
    Jit f([](Tensor a, Tensor b) { b.assign(a + 1).realize(); });
    for (int i = 0; i <= 3; ++i) {
      Tensor a = tensor({float(i)}), b = Tensor::empty({1});
      f(a, b);
      BOOST_TEST(b.item() == i + 1);
    }
  });
}

BOOST_AUTO_TEST_CASE(in_place_addition_to_an_input, *boost::unit_test::label("JB-28")) {
  on_each_device([](const std::string&) {
    for (DType dtype : {DType::F32, DType::I8}) {
      Tensor a = tensor(Floats(4, 0)).cast(dtype).realize();
      Jit f([](Tensor x) { x.assign(x + 1).realize(); });
      for (int i = 0; i < 5; ++i) f(a);
      BOOST_TEST((a.values<float>() == Floats(4, 5)));
    }
  });
}

BOOST_AUTO_TEST_CASE(a_host_literal_inside, *boost::unit_test::label("JB-29")) {
  on_each_device([](const std::string&) {
    Jit f([](Tensor a) { return a + Tensor::from(Floats{1, 2, 3}, {3}); });
    for (int i = 0; i < 6; ++i) {
      BOOST_TEST((f(tensor({float(i), 0, 0})).values<float>() == Floats{float(i) + 1, 2, 3}));
      if (i == 3) f.replay()->free_intermediates();
    }
  });
}

BOOST_AUTO_TEST_CASE(a_host_literal_that_is_assigned_to_starts_anew_at_each_call) {
  on_each_device([](const std::string&) {
    Jit f([](Tensor a) {
      Tensor sum = Tensor::from(Floats{10, 20}, {2}).realize();
      sum.assign(sum + a).realize();
      return sum;
    });
    for (int i = 0; i < 5; ++i)
      BOOST_TEST((f(tensor({float(i), 1})).values<float>() == Floats{10 + float(i), 21}));
  });
}

BOOST_AUTO_TEST_CASE(a_host_literal_that_nobody_keeps_starts_anew_too) {
  on_each_device([](const std::string&) {
    Jit f([](Tensor a) {
      Tensor sum = Tensor::from(Floats{10, 20}, {2}).realize();
      sum.assign(sum + a).realize();
      return sum * 2;
    });
    for (int i = 0; i < 6; ++i) {
      BOOST_TEST((f(tensor({float(i), 1})).values<float>() == Floats{20 + 2 * float(i), 42}));
      if (i == 3) f.replay()->free_intermediates();
    }
  });
}

BOOST_AUTO_TEST_CASE(a_clone_inside_has_storage_of_its_own, *boost::unit_test::label("JB-30")) {
  on_each_device([](const std::string&) {
    Jit f([](Tensor a) { return a.clone(); });
    for (int i = 0; i < 5; ++i) {
      Floats v = random_floats(7);
      Tensor x = tensor(v), y = f(x);
      BOOST_TEST((y.values<float>() == v));
      x.assign(x + 1).realize();
      BOOST_TEST((y.values<float>() == v));
    }
  });
}

BOOST_AUTO_TEST_CASE(explicit_and_implicit_inputs_and_outputs, *boost::unit_test::label("JB-31")) {
  on_each_device([](const std::string&) {
    auto set = [](Tensor& t, float v) { t.assign(Tensor::constant(DType::F32, v, {1})).realize(); };
    Tensor in = tensor({-1}), out = tensor({-1});
    Jit explicit_both([](Tensor x, Tensor y) { y.assign(x * 2 + 1).realize(); });
    for (int i = 0; i < 5; ++i) {
      set(in, float(i));
      explicit_both(in, out);
      BOOST_TEST(out.item() == 2 * i + 1);
    }
    Jit implicit_in([&](Tensor y) { y.assign(in * 2 + 1).realize(); });
    for (int i = 0; i < 5; ++i) {
      set(in, float(i));
      implicit_in(out);
      BOOST_TEST(out.item() == 2 * i + 1);
    }
    Jit implicit_out([&](Tensor x) { out.assign(x * 2 + 1).realize(); });
    for (int i = 0; i < 5; ++i) {
      implicit_out(tensor({float(i)}));
      BOOST_TEST(out.item() == 2 * i + 1);
    }
    Jit implicit_both([&] { out.assign(in * 2 + 1).realize(); });
    for (int i = 0; i < 5; ++i) {
      set(in, float(i));
      implicit_both();
      BOOST_TEST(out.item() == 2 * i + 1);
    }
  });
}

BOOST_AUTO_TEST_CASE(a_view_with_a_constant_offset, *boost::unit_test::label("JB-32")) {
  on_each_device([](const std::string&) {
    Jit f([](Tensor x) { return x + 1; });
    for (int i = 0; i < 5; ++i) {
      Floats v = random_floats(10);
      BOOST_TEST(near(f(tensor(v).narrow(0, 2, 3)).values<float>(), Floats{v[2] + 1, v[3] + 1, v[4] + 1}));
    }
  });
}

BOOST_AUTO_TEST_CASE(counters_count_replays, *boost::unit_test::label("JB-33")) {
  Jit f([](Tensor x) {
    Tensor a = (x + 1).realize(), b = (a * 2).realize();
    return (b - 1).realize();
  });
  for (int i = 0; i < 4; ++i) {
    Tensor x = tensor(random_floats(16));
    engine::GlobalCounters::reset();
    f(x);
    BOOST_TEST(engine::GlobalCounters::get().global_mem > 0);
    BOOST_TEST(engine::GlobalCounters::get().global_ops > 0);
  }
}

BOOST_AUTO_TEST_CASE(nested_captures_are_refused,
                     *boost::unit_test::label("JB-35") * boost::unit_test::label("J-16")) {
  Jit inner([](Tensor x) { return x + 1; });
  Jit outer([&](Tensor x) { return inner(x) * 2; });
  Tensor x = tensor({3});
  BOOST_TEST(outer(x).item() == 8);
  BOOST_TEST(
      has(refusal<JitError>([&] { outer(x); }), "having TinyJit inside another TinyJit is not supported"));
  BOOST_TEST(engine::capturing().empty());
}

BOOST_AUTO_TEST_CASE(a_jit_that_is_captured_already_is_refused_inside_a_capture_too,
                     *boost::unit_test::label("J-16")) {
  Jit inner([](Tensor x) { return x + 1; });
  for (int i = 0; i < 3; ++i) inner(tensor({float(i)}));
  Jit outer([&](Tensor x) { return inner(x) * 2; });
  Tensor x = tensor({3});
  BOOST_TEST(outer(x).item() == 8); // nothing is captured in the first call
  BOOST_TEST(
      has(refusal<JitError>([&] { outer(x); }), "having TinyJit inside another TinyJit is not supported"));
  BOOST_TEST(engine::capturing().empty());
  // In its first call the inner one is a plain function, and is captured with the outer one.
  Jit fresh([](Tensor t) { return t + 1; });
  int calls = 0;
  Jit once([&](Tensor t) { return ++calls == 2 ? fresh(t) * 2 : (t + 1) * 2; });
  for (int i = 0; i < 4; ++i) BOOST_TEST(once(tensor({float(i)})).item() == 2 * (i + 1));
}

BOOST_AUTO_TEST_CASE(a_refused_inner_call_executes_no_pending_write) {
  Jit inner([](Tensor x) { return x + 1; });
  for (int i = 0; i < 3; ++i) inner(tensor({float(i)}));
  Tensor state = tensor({1}).realize();
  size_t pending = 0;
  Jit outer([&](Tensor x) {
    state.assign(state + x);
    try {
      return inner(x);
    } catch (const JitError&) {
      pending = detail::pending_count();
      return x * 2;
    }
  });
  Tensor x = tensor({3});
  for (int i = 0; i < 3; ++i) outer(x);
  BOOST_TEST(pending == 1u);
  BOOST_TEST(state.item() == 10);
}

BOOST_AUTO_TEST_CASE(a_function_that_calls_its_own_jit_is_refused) {
  std::function<Tensor(Tensor)> again;
  Jit f([&](Tensor x) { return again(x); });
  again = [&](Tensor x) { return f(x); };
  BOOST_TEST(has(refusal<JitError>([&] { f(tensor({1})); }), "having TinyJit inside another TinyJit"));
  again = [](Tensor x) { return x + 1; };
  for (int i = 0; i < 3; ++i) BOOST_TEST(f(tensor({float(i)})).item() == i + 1);
}

BOOST_AUTO_TEST_CASE(data_cannot_be_read_in_a_capture, *boost::unit_test::label("JB-36")) {
  const char* words = "reading tensor data inside a capture would freeze its present value";
  Tensor x = tensor({1, 2});
  Jit item([](Tensor t) { return t + t.sum().item(); });
  item(x);
  BOOST_TEST(has(refusal<JitError>([&] { item(x); }), words));
  Jit values([](Tensor t) { return t + t.values<float>()[0]; });
  values(x);
  BOOST_TEST(has(refusal<JitError>([&] { values(x); }), words));
  // masked_select without a size cannot be written: no operation has a size that depends on data. Whoever needs
  // one reads the data, which is refused above. Of static size: a value times its mask.
  Jit masked(
      [](Tensor t) { return (t > Tensor::constant(DType::F32, 1)).where(t, Tensor::zeros({2})).sum(); });
  for (int i = 0; i < 3; ++i) BOOST_TEST(masked(tensor({1, float(i) + 2})).item() == i + 2);
  Settings unsafe([](Config& c) { c.unsafe_allow_jit_buffer = 1; });
  Jit allowed([](Tensor t) { return t + t.values<float>()[0]; });
  for (int i = 0; i < 3; ++i) BOOST_TEST((allowed(x).values<float>() == Floats{2, 3}));
}

BOOST_AUTO_TEST_CASE(constants_and_branches_are_frozen, *boost::unit_test::label("JB-37")) {
  Jit scaled([](Tensor x, int factor) { return x * factor; });
  std::vector<double> got;
  for (int i = 0; i < 4; ++i) got.push_back(scaled(tensor({1}), i + 1).item());
  BOOST_TEST((got == std::vector<double>{1, 2, 2, 2}));
  Jit branch([](Tensor x, bool flag) { return flag ? x + 1 : x - 1; });
  got.clear();
  for (bool flag : {true, false, true, true}) got.push_back(branch(tensor({1}), flag).item());
  BOOST_TEST((got == std::vector<double>{2, 0, 0, 0}));
}

BOOST_AUTO_TEST_CASE(positional_then_keyword,
                     *boost::unit_test::label("JB-38") * boost::unit_test::label("P-33")) {
  Jit f([](const Arguments& in) { return (in.named().empty() ? in[0] : in["x"]) + 1; });
  for (int i = 0; i < 2; ++i) f(Arguments{tensor({1})});
  std::string message = refusal<JitError>([&] { f(Arguments{}.with("x", tensor({1}))); });
  BOOST_TEST(has(message, "args mismatch in JIT"), message);
  BOOST_TEST(has(message, "expected names [0], got [x]"), message);
}

BOOST_AUTO_TEST_CASE(a_positional_input_that_becomes_a_named_one, *boost::unit_test::label("P-33")) {
  Jit f([](const Arguments& in) { return in.named().empty() ? in[0] + in[1] : in[0] + in["b"]; });
  Tensor a = tensor({1}), b = tensor({2});
  f(Arguments{a, b}), f(Arguments{a, b});
  BOOST_TEST(has(refusal<JitError>([&] { f(Arguments{a}.with("b", b)); }), "args mismatch in JIT"));
  BOOST_TEST(f(Arguments{a, b}).item() == 3);
}

BOOST_AUTO_TEST_CASE(host_side_effects_happen_twice, *boost::unit_test::label("JB-40")) {
  int counter = 0;
  Jit f([&](Tensor x) {
    ++counter;
    return x + 1;
  });
  for (int i = 0; i < 5; ++i) f(tensor({1}));
  BOOST_TEST(counter == 2);
}

BOOST_AUTO_TEST_CASE(a_failed_capture_leaves_a_clean_state,
                     *boost::unit_test::label("JB-43") * boost::unit_test::label("P-32")) {
  on_each_device([](const std::string&) {
    int calls = 0;
    Tensor lazy = tensor({5}) * 2;
    Jit f([&](Tensor x) {
      Tensor y = lazy.realize() + x; // recorded by the call that fails
      if (++calls == 2) throw std::runtime_error("out of luck");
      return y;
    });
    BOOST_TEST(f(tensor({1})).item() == 11);
    BOOST_CHECK_THROW(f(tensor({1})), std::runtime_error);
    BOOST_TEST(engine::capturing().empty());
    BOOST_TEST((f.phase() == engine::Phase::Capture));
    BOOST_TEST(f(tensor({2})).item() == 12);
    BOOST_TEST((f.captured() != nullptr));
    BOOST_TEST(f(tensor({3})).item() == 13);
    BOOST_TEST(calls == 3);
  });
}

BOOST_AUTO_TEST_CASE(a_capture_that_fails_midway_still_computes_what_it_recorded,
                     *boost::unit_test::label("P-32")) {
  Tensor lazy = tensor({5}) * 2;
  int calls = 0;
  Jit f([&](Tensor x) {
    if (++calls == 2) {
      lazy.realize();
      throw std::runtime_error("out of luck");
    }
    return x + 1;
  });
  f(tensor({1}));
  BOOST_CHECK_THROW(f(tensor({1})), std::runtime_error);
  BOOST_TEST(lazy.item() == 10);
}

BOOST_AUTO_TEST_CASE(chained_kernels_through_a_temporary, *boost::unit_test::label("JB-44")) {
  on_each_device([](const std::string&) {
    Jit f([](Tensor x) {
      Tensor doubled = (x * 2).contiguous();
      return (doubled + 10).contiguous();
    });
    for (int i = 0; i < 3; ++i) {
      BOOST_TEST((f(tensor({1, 2, 3, 4})).values<float>() == Floats{12, 14, 16, 18}));
      BOOST_TEST((f(tensor({5, 6, 7, 8})).values<float>() == Floats{20, 22, 24, 26}));
    }
  });
}

BOOST_AUTO_TEST_CASE(a_running_sum_and_a_scalar, *boost::unit_test::label("JB-45")) {
  on_each_device([](const std::string&) {
    Jit running([](Tensor x) {
      Tensor i = Tensor::arange(8).reshape({8, 1}), j = Tensor::arange(8).reshape({1, 8});
      return (x.reshape({1, 8}) * (j <= i).cast(DType::F32)).sum({1});
    });
    Jit total([](Tensor x) { return x.sum(); });
    for (int i = 0; i < 4; ++i) {
      BOOST_TEST((running(tensor(ramp(8, 1))).values<float>() == Floats{1, 3, 6, 10, 15, 21, 28, 36}));
      Tensor sum = total(tensor(ramp(8, i % 2 ? 1 : 6.5f)));
      BOOST_TEST(sum.rank() == 0);
      BOOST_TEST(sum.item() == (i % 2 ? 36 : 80));
    }
  });
}

BOOST_AUTO_TEST_CASE(names_are_positions_then_names_in_order, *boost::unit_test::label("P-24")) {
  Jit f([](Tensor a, int, const Arguments& in) { return a + in[0] + in["z"] + in["b"]; });
  Tensor a = tensor({1}), c = tensor({2}), z = tensor({3}), b = tensor({4});
  for (int i = 0; i < 2; ++i) f(a, 7, Arguments{c}.with("z", z).with("b", b));
  std::vector<engine::JitName> want{0, 2, std::string("b"), std::string("z")};
  BOOST_TEST((f.captured()->names() == want));
  BOOST_TEST(f.captured()->expected().size() == 4u);
}

BOOST_AUTO_TEST_CASE(containers_one_level_deep_hold_inputs, *boost::unit_test::label("P-25")) {
  Jit f([](std::vector<Tensor> list, std::map<std::string, Tensor> map, std::pair<Tensor, int> pair) {
    return list[0] + map.at("m") + pair.first;
  });
  for (int i = 0; i < 4; ++i)
    BOOST_TEST(f({tensor({float(i)})}, {{"m", tensor({10})}}, {tensor({100}), 1}).item() == i + 110);
  BOOST_TEST(f.captured()->expected().size() == 3u);
  // Two levels deep: no input, so another tensor there is refused, and the same one is not.
  Jit deep([](std::vector<std::vector<Tensor>> lists) { return lists[0][0] + 1; });
  Tensor x = tensor({1});
  for (int i = 0; i < 3; ++i) BOOST_TEST(deep({{x}}).item() == 2);
  BOOST_TEST(deep.captured()->expected().empty());
  BOOST_TEST(has(refusal<JitError>([&] { deep({{tensor({2})}}); }), "nested more than one level deep"));
}

namespace {
struct Batch {
  Tensor data, labels;
  template <class V> void visit_tensors(V&& visit) const { visit(data), visit(labels); }
};
} // namespace

BOOST_AUTO_TEST_CASE(a_struct_says_where_its_tensors_are, *boost::unit_test::label("P-25")) {
  Jit f([](const Batch& b) { return b.data - b.labels; });
  for (int i = 0; i < 4; ++i) BOOST_TEST(f(Batch{tensor({float(i)}), tensor({1})}).item() == i - 1);
}

BOOST_AUTO_TEST_CASE(lazy_inputs_are_realized_first, *boost::unit_test::label("P-27")) {
  on_each_device([](const std::string&) {
    Jit f([](Tensor x) { return x + 1; });
    for (int i = 0; i < 4; ++i) BOOST_TEST(f(tensor({float(i)}) * 2).item() == 2 * i + 1);
    BOOST_TEST(f.captured()->num_kernels() == 1u);
  });
}

BOOST_AUTO_TEST_CASE(variables_come_from_views_and_sizes, *boost::unit_test::label("P-29")) {
  Variable n("n", 1, 8);
  Jit f([](Tensor x, SInt) { return x + 1; });
  Tensor x = tensor(ramp(8));
  std::string message = refusal<JitError>([&] { f(x.narrow(0, 0, n.bind(3)), n.bind(4)); });
  BOOST_TEST(has(message, "conflicting values for JIT var n: "), message);
  BOOST_TEST((has(message, "3") && has(message, "4")), message);
  BOOST_TEST(has(refusal<JitError>([&] { f(x, 3); }), "JIT vars must be bound variables"));
  BOOST_TEST(has(refusal<JitError>([&] { f(x, n.bind(3) + 1); }), "JIT vars must be bound variables"));
  for (int i = 1; i < 5; ++i)
    BOOST_TEST((f(x.narrow(0, 0, n.bind(i)), n.bind(i)).values<float>() == ramp(size_t(i), 1)));
}

BOOST_AUTO_TEST_CASE(what_an_input_must_keep, *boost::unit_test::label("P-34")) {
  Variable i("i", 1, 8), j("j", 1, 8);
  Jit f([](Tensor x) { return x + 1; });
  auto part = [](const Tensor& t, const SInt& size) { return t.narrow(0, 0, size); };
  for (int k = 1; k < 3; ++k) f(part(tensor(ramp(8)), i.bind(k)));
  auto refused = [&](const Tensor& x) { return refusal<JitError>([&] { f(x); }); };
  BOOST_TEST(has(refused(tensor(ramp(8)).narrow(0, 1, i.bind(2))), "mismatch"));
  BOOST_TEST(has(refused(part(tensor(ramp(8)), j.bind(2))), "mismatch"));
  BOOST_TEST(has(refused(part(tensor(ramp(8)).cast(DType::I32).realize(), i.bind(2))), "mismatch"));
  BOOST_TEST(has(refused(part(Tensor::from(ramp(8), {8}, "CPU:1").realize(), i.bind(2))), "mismatch"));
  BOOST_TEST((f(part(tensor(ramp(8)), i.bind(4))).values<float>() == ramp(4, 1)));
}

BOOST_AUTO_TEST_CASE(the_capture_is_logged, *boost::unit_test::label("P-35")) {
  Jit f([](Tensor x) {
    Tensor a = (x + 1).realize();
    return a * 2;
  });
  Tensor x = tensor({1});
  f(x);
  Settings verbose([](Config& c) { c.debug = 1; });
  std::string text = captured_stderr([&] { f(x); });
  BOOST_TEST(has(text, "JIT captured 2 linears with 1 inputs"), text);
  text = captured_stderr([&] { f(x); });
  BOOST_TEST(!has(text, "JIT captured"), text);
}

BOOST_AUTO_TEST_CASE(long_replays_are_logged, *boost::unit_test::label("P-36")) {
  Settings plain([](Config& c) { c.jit = 2; });
  for (int kernels : {9, 10}) {
    Jit f([&](Tensor x) {
      for (int i = 0; i < kernels; ++i) x = (x + 1).realize();
      return x;
    });
    Tensor x = tensor({1});
    f(x), f(x);
    BOOST_TEST(!has(captured_stderr([&] { f(x); }), "jit execs"));
    Settings verbose([](Config& c) { c.debug = 1; });
    std::string text = captured_stderr([&] { f(x); });
    BOOST_TEST(has(text, "jit execs 10 calls") == (kernels == 10), text);
  }
}
