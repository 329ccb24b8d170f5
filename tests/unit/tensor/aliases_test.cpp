// What shares storage and what does not: a write is seen by copies of a handle and views of it, and by
// nothing else, however a value came to its storage.
#include <memory>
#include <thread>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "device_runs.h"
#include "jit_support.h"
#include "tolk/tensor/jit.h"
#include "tolk/tensor/pending.h"

using namespace tolk;
using namespace jit_test;

namespace {
const char* kTooLate = "was assigned to after";
}

BOOST_AUTO_TEST_SUITE(aliases)

BOOST_AUTO_TEST_CASE(a_host_tensor_and_what_a_device_made_of_it_are_two) {
  on_each_device([](const std::string& device) {
    Tensor h = Tensor::from(ramp(64), {64}, "HOST");
    Tensor c = h.to(device).realize();
    c.assign(c + 100).realize();
    BOOST_TEST((h.values<float>() == ramp(64)));
    BOOST_TEST((h.to(device).values<float>() == ramp(64)));
    BOOST_TEST((c.values<float>() == ramp(64, 100)));
    Tensor d = h.to(device).realize();
    h.assign((Tensor::from(ramp(64), {64}) * 2).to("HOST")).realize();
    BOOST_TEST(h.values<float>()[3] == 6);
    BOOST_TEST(d.values<float>()[3] == 3);
  });
}

BOOST_AUTO_TEST_CASE(two_devices_of_one_host_tensor_are_two) {
  on_each_device([](const std::string& device) {
    Tensor h = Tensor::from(ramp(64), {64}, "HOST");
    Tensor c = h.to(device).realize(), d = h.to(device + ":1").realize();
    c.assign(c + 100).realize();
    BOOST_TEST((d.values<float>() == ramp(64)));
    // Parts that were to come from the host directly, while a device has its memory.
    Tensor x = Tensor::from(ramp(64), {64}), both = x.replicate({device, device + ":1"});
    x.realize();
    x.assign(x + 100).realize();
    BOOST_TEST((both.values<float>() == ramp(64)));
  });
}

BOOST_AUTO_TEST_CASE(borrowed_data_is_not_written_and_its_tensors_are) {
  on_each_device([](const std::string& device) {
    auto owner = std::make_shared<Floats>(ramp(1024));
    auto* at = reinterpret_cast<float*>((reinterpret_cast<uintptr_t>(owner->data()) + 63) / 64 * 64);
    const Floats before(at, at + 64);
    auto borrowed = [&] { return Tensor::from_borrowed(at, 256, DType::F32, {64}, owner, device).realize(); };
    Tensor b = borrowed(), part = b.narrow(0, 3, 1), weight = borrowed();
    Jit reads([&](Tensor x) { return x + weight; });
    Tensor zero = tensor(Floats(64, 0));
    for (int i = 0; i < 3; ++i) BOOST_TEST((reads(zero).values<float>() == before));
    b.assign(b + 1).realize();
    BOOST_TEST(part.item() == before[3] + 1);
    // Storage that a capture knows by its place in memory.
    weight.narrow(0, 0, 2).assign(tensor({-1, -2})).realize();
    BOOST_TEST(reads(zero).values<float>()[1] == -2);
    BOOST_TEST(reads(zero).values<float>()[2] == before[2]);
    Jit writes([](Tensor x) { x.assign(x * 2); });
    Tensor own = tensor(ramp(64)), input = borrowed();
    writes(own), writes(own), writes(input), writes(input);
    BOOST_TEST(input.values<float>()[5] == 4 * before[5]);
    BOOST_TEST((Floats(at, at + 64) == before));
  });
}

BOOST_AUTO_TEST_CASE(host_data_in_a_captured_function_is_the_same_in_every_replay) {
  on_each_device([](const std::string&) {
    Jit f([](Tensor x) { return std::pair<Tensor, Tensor>{x + 1, Tensor::from(ramp(64), {64})}; });
    for (int i = 0; i < 5; ++i) {
      auto [sum, table] = f(tensor({float(i)}));
      BOOST_TEST((table.values<float>() == ramp(64)), "call " << i);
      table.assign(table - 1).realize();
    }
  });
}

BOOST_AUTO_TEST_CASE(operations_that_compute_nothing_give_values) {
  on_each_device([](const std::string&) {
    std::vector<std::pair<const char*, std::function<Tensor(const Tensor&)>>> ops{
        {"x+0", [](const Tensor& x) { return x + 0; }},
        {"x*1", [](const Tensor& x) { return x * 1; }},
        {"sum of one", [](const Tensor& x) { return x.reshape({2, 1}).sum({1}); }},
        {"max of one", [](const Tensor& x) { return x.reshape({2, 1}).max({1}); }},
        {"pad", [](const Tensor& x) { return x.pad({{0, 0}}); }},
        {"where",
         [](const Tensor& x) { return equal(Tensor::ones({2}), Tensor::ones({2})).where(x, x * 2); }},
        {"padded and cut", [](const Tensor& x) { return x.pad({{1, 1}}).narrow(0, 1, 2); }},
        {"neg neg", [](const Tensor& x) { return 0 - (0 - x); }},
        {"cast there", [](const Tensor& x) { return x.cast(DType::F64).cast(DType::F32); }},
        {"stack", [](const Tensor& x) { return Tensor::stack(std::vector<Tensor>{x}, 0).reshape({2}); }},
        {"copies", [](const Tensor& x) { return x.to("INTERP:3").to(x.device()); }},
        {"to host and back", [](const Tensor& x) { return x.to("HOST").to(x.device()); }},
    };
    for (auto& [name, op] : ops) {
      {
        Tensor x = tensor({1, 2}), z = op(x).realize();
        x.assign(x + 10).realize();
        BOOST_TEST((z.values<float>() == Floats{1, 2}), name << " follows");
      }
      {
        Tensor x = tensor({1, 2}), z = op(x).realize();
        z.assign(z + 10).realize();
        BOOST_TEST((x.values<float>() == Floats{1, 2}), name << " writes through");
      }
      {
        Tensor x = tensor({1, 2}), z = op(x);
        z.assign(z + 10).realize();
        BOOST_TEST((x.values<float>() == Floats{1, 2}), name << " writes through lazily");
      }
    }
  });
}
BOOST_AUTO_TEST_CASE(plain_assignment_gives_no_storage_away) {
  on_each_device([](const std::string&) {
    Tensor x = tensor({1, 2}), b = tensor({3, 4}), a = x + 1;
    a.assign(b);
    a.assign(a + 10).realize();
    BOOST_TEST((b.values<float>() == Floats{3, 4}));
    Tensor zero = Tensor::zeros({2});
    zero.assign(b).realize();
    b.assign(b * 2).realize();
    BOOST_TEST((zero.values<float>() == Floats{3, 4}));
  });
}
BOOST_AUTO_TEST_CASE(every_constant_that_is_realized_is_storage_of_its_own) {
  on_each_device([](const std::string&) {
    for (int how = 0; how < 4; ++how) {
      std::vector<Tensor> m;
      for (int i = 0; i < 2; ++i) {
        Tensor z = Tensor::zeros({4});
        m.push_back(how & 1 ? z.contiguous() : z);
      }
      if (how & 2)
        for (Tensor& t : m) t.realize();
      else
        Tensor::realize(m);
      m[0].assign(m[0] + 1);
      m[0].realize();
      BOOST_TEST((m[1].values<float>() == Floats(4, 0)), "how " << how);
      m[1].assign(m[1] + 2).realize();
      BOOST_TEST((m[0].values<float>() == Floats(4, 1)), "how " << how);
    }
    Jit f([](Tensor x) { return std::vector<Tensor>{Tensor::zeros({2}), Tensor::zeros({2}), x + 1}; });
    for (int i = 0; i < 4; ++i) {
      std::vector<Tensor> r = f(tensor({1, 2}));
      r[0].assign(r[0] + 1).realize();
      BOOST_TEST((r[1].values<float>() == Floats{0, 0}), "call " << i);
    }
  });
}

BOOST_AUTO_TEST_CASE(old_expressions_beside_captures_are_refused) {
  on_each_device([](const std::string&) {
    Tensor w = tensor({1}), one = tensor({1});
    Jit step([&](Tensor x) { w.assign(w + x); });
    step(one);
    Tensor before = w * 2;
    step(one); // captures
    BOOST_TEST(has(refusal<InvalidArgument>([&] { before.item(); }), kTooLate));
    // On what the capture only reads.
    Tensor v = tensor({1}), kept = v * 3, also = kept;
    also.realize();
    Jit f([&](Tensor x) { return x + v; });
    f(one), f(one);
    BOOST_TEST((v * 3).item() == 3);
    before = v * 2;
    v.assign(v + 10).realize();
    BOOST_TEST(has(refusal<InvalidArgument>([&] { before.item(); }), kTooLate));
    BOOST_TEST((v * 3).item() == 33);
    BOOST_TEST(kept.item() == 3);
    BOOST_TEST(f(one).item() == 12);
  });
}

BOOST_AUTO_TEST_CASE(what_another_thread_assigned_is_carried_out_before_a_call) {
  for (int when = 0; when < 4; ++when) {
    DeviceScope scope("INTERP");
    Tensor w = tensor({1}), x = tensor({0});
    Jit f([&](Tensor t) { return t + w; });
    float want = 1;
    for (int i = 0; i < 5; ++i) {
      if (i == when) {
        std::thread([mine = w]() mutable {
          DeviceScope scope("INTERP");
          mine.assign(mine + 10);
        }).join();
        want += 10;
      }
      BOOST_TEST(f(x).item() == want, "when " << when << " call " << i);
    }
    BOOST_TEST(w.item() == want);
  }
}
BOOST_AUTO_TEST_CASE(a_clone_that_was_made_before_a_capture_is_no_part_of_it) {
  on_each_device([](const std::string&) {
    Tensor w = tensor({1}), x = tensor({1}), snapshot = w.clone();
    Jit f([&](Tensor t) {
      Tensor out = snapshot + t;
      w.assign(w + t);
      return out;
    });
    f(x);
    snapshot = w.clone(); // 2
    BOOST_TEST(f(x).item() == 3);
    for (int i = 0; i < 3; ++i) BOOST_TEST(f(x).item() == 3, i);
    BOOST_TEST(w.item() == 6);
  });
}
BOOST_AUTO_TEST_CASE(a_write_that_cannot_be_carried_out_is_in_the_way_of_those_who_need_it) {
  on_each_device([](const std::string& device) {
    Tensor h = Tensor::from(ramp(2), {2}, "HOST"), x = tensor({1, 2}), y = tensor({0, 0});
    h.assign(h + 1); // the host computes nothing
    Jit f([&](Tensor t) {
      y.assign(y + t);
      return t + 1;
    });
    for (int i = 0; i < 4; ++i) {
      y.assign(y + 10);
      BOOST_TEST((f(x).values<float>() == Floats{2, 3}));
    }
    BOOST_TEST((y.values<float>() == Floats{44, 48}));
    for (int i = 0; i < 2; ++i)
      BOOST_TEST(has(refusal<InvalidArgument>([&] { h.values<float>(); }), "computes nothing"));
    // Refused where it is said.
    Tensor a = tensor({1, 2}), there = tensor({5, 6}).to(device + ":1").realize();
    std::string message = refusal<InvalidArgument>([&] { a.assign(there); });
    BOOST_TEST(has(message, "assign value.to(\"" + device + "\")"), message);
    BOOST_TEST((a.values<float>() == Floats{1, 2}));
  });
}

BOOST_AUTO_TEST_CASE(a_view_of_what_was_computed_is_an_input_like_others) {
  on_each_device([](const std::string&) {
    Jit f([](Tensor t) { return t + 1; });
    for (int i = 0; i < 4; ++i) {
      Tensor t = tensor({float(i), 2, 3}) * 2, v = t.narrow(0, 0, 2);
      t.realize();
      BOOST_TEST((f(v).values<float>() == Floats{2 * float(i) + 1, 5}));
      v.assign(v + 1).realize();
      BOOST_TEST(t.values<float>()[0] == 2 * float(i) + 1);
    }
  });
}
BOOST_AUTO_TEST_SUITE_END()
