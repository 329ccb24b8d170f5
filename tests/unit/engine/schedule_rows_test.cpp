// Scheduling and memory planning where they meet captures and devices: rows of the checklist, and a reported
// fault of planners.
#include <cstring>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "mini_tensor.h"
#include "one_buffer.h"
#include "scoped_switch.h"
#include "test_backend.h"
#include "tolk/base/config.h"
#include "tolk/engine/capture/capture_scope.h"
#include "tolk/engine/compile/view_limits.h"
#include "tolk/engine/run/binding.h"
#include "tolk/engine/run/node_storage.h"
#include "tolk/engine/run/realize.h"
#include "tolk/engine/run/run_linear.h"
#include "tolk/uop/traverse.h"

using namespace mini;

namespace {

mini::T stored(const Shape& shape, const std::vector<float>& values, const std::string& device) {
  mini::T t = buffer(shape, DType::F32, device);
  tolk::BufferRef storage = tolk::engine::buffer_of(tolk::storage_of(t.u));
  storage->allocate();
  storage->copy_in(std::as_bytes(std::span(values)));
  return t;
}

std::vector<float> floats(const std::vector<std::byte>& bytes) {
  std::vector<float> out(bytes.size() / 4);
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

// Not random, and not round.
std::vector<float> wave(size_t n, int seed) {
  std::vector<float> out;
  for (size_t i = 0; i < n; ++i) out.push_back(float((int(i) * 37 + seed * 11) % 101 - 50) / 32.0F);
  return out;
}

template <typename F> auto with_setting(int64_t tolk::Config::* field, int64_t value, F f) {
  tolk::Config c = tolk::Config::current();
  c.*field = value;
  tolk::ScopedConfig scope(c);
  return f();
}

bool has_arena(const UOp& linear) {
  for (const UOp& u : tolk::toposort(linear))
    if (u.is(Op::SLICE) && u.src(0).is(Op::BUFFER) && tolk::slot_of(u.src(0)) < 0) return true;
  return false;
}

// out (PARAM 0) = t + 1, t = in (PARAM 1) + 1, with a temporary between.
UOp body() {
  constexpr int64_t n = 4;
  auto kernel = [](const UOp& to, const UOp& from) {
    UOp loop = tolk::range_node(n, 0, tolk::AxisType::Loop);
    UOp value = tolk::alu(Op::ADD, tolk::load(tolk::param_node(1, DType::F32, n), loop),
                          tolk::constant(DType::F32, 1.0));
    UOp effect = tolk::end(tolk::store(tolk::param_node(0, DType::F32, n), loop, value), std::span(&loop, 1));
    return tolk::call(tolk::kernel_sink(std::span(&effect, 1)), std::vector<UOp>{to, from});
  };
  UOp t = tolk::buffer_node(tolk::fresh_internal_slot(), DType::F32, n, "INTERP");
  UOp first = kernel(t, tolk::param_node(1, DType::F32, n, "INTERP"));
  UOp out = tolk::param_node(0, DType::F32, n, "INTERP");
  UOp second = kernel(out, tolk::after(t, std::span(&first, 1)));
  UOp state = tolk::after(out, std::span(&second, 1));
  return tolk::sink(std::span(&state, 1));
}

// The state of `out` once the function's kernels ran.
UOp called(const mini::T& out, const mini::T& x) {
  UOp storage = tolk::storage_of(out.u);
  UOp call = tolk::call(body(), std::vector<UOp>{storage, tolk::storage_of(x.u)});
  return tolk::after(storage, std::span(&call, 1));
}

std::vector<std::string> devices_here() {
  std::vector<std::string> names{"INTERP"};
  try {
    tolk::device("CPU");
    names.emplace_back("CPU");
  } catch (const tolk::DeviceError& e) {
    BOOST_TEST_MESSAGE("without the CPU plugin: " << e.what());
  }
  return names;
}

} // namespace

BOOST_AUTO_TEST_CASE(a_capture_takes_the_unplanned_list_unless_CAPTURING_is_0,
                     *boost::unit_test::label("S-23") * boost::unit_test::label("S-24")) {
  mini::T x = stored({4}, {1, 2, 3, 4}, "INTERP"), out = stored({4}, {0, 0, 0, 0}, "INTERP");
  UOp root = called(out, x);
  auto schedule = [&] { return tolk::engine::create_schedule(std::span(&root, 1), "INTERP"); };
  std::vector<UOp> taken;
  tolk::engine::CaptureScope scope(
      [&](const UOp& linear, const tolk::engine::VarVals&) { taken.push_back(linear); });
  auto captured = schedule();
  BOOST_TEST(captured.linear.nsrc() == 0U);
  BOOST_REQUIRE_EQUAL(taken.size(), 1U);
  BOOST_TEST(taken[0].src(0).src(1).is(Op::BUFFER));
  with_setting(&tolk::Config::capturing, 0, [&] {
    auto made = schedule();
    BOOST_TEST(taken.size() == 1U);
    BOOST_TEST(has_arena(made.linear));
    // And runs.
    tolk::engine::BufferBinding binding(tolk::device("INTERP"));
    tolk::engine::run_linear(binding, made.linear, {.var_vals = made.vars});
    BOOST_TEST(floats(tolk::engine::read_bytes(tolk::storage_of(out.u))) == (std::vector<float>{3, 4, 5, 6}),
               boost::test_tools::per_element());
    return 0;
  });
}

BOOST_AUTO_TEST_CASE(temporaries_of_two_runs_of_one_schedule_are_apart, *boost::unit_test::label("RG-09")) {
  tolk::test::ScopedSwitch whole(tolk::test_switches().poison, false); // what a run leaves is looked at here
  mini::T x = stored({4}, {1, 2, 3, 4}, "INTERP"), y = stored({4}, {10, 20, 30, 40}, "INTERP");
  std::vector<std::vector<float>> temporaries;
  tolk::engine::BufferBinding binding(tolk::device("INTERP"));
  std::vector<UOp> lists;
  for (const mini::T& in : {x, y}) {
    mini::T out = stored({4}, {0, 0, 0, 0}, "INTERP");
    UOp root = called(out, in);
    lists.push_back(tolk::engine::create_schedule(std::span(&root, 1), "INTERP").linear);
  }
  for (const UOp& list : lists) tolk::engine::run_linear(binding, list); // one after the other, both alive
  for (const UOp& list : lists) {
    tolk::BufferRef t = tolk::test::resolve(binding, {}, list.src(0).src(1));
    std::vector<float> values(4);
    t->copy_out(std::as_writable_bytes(std::span(values)));
    temporaries.push_back(values);
  }
  BOOST_TEST(temporaries[0] == (std::vector<float>{2, 3, 4, 5}), boost::test_tools::per_element());
  BOOST_TEST(temporaries[1] == (std::vector<float>{11, 21, 31, 41}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_device_that_states_no_views_gets_no_arenas, *boost::unit_test::label("MP-12")) {
  tolk::test::TestBackend x("XDEV");
  auto planned_on = [](const std::string& device) {
    UOp root = softmax(stored({4, 8}, wave(32, 1), device)).u;
    tolk::engine::Prepared p = tolk::engine::prepare(std::span(&root, 1), device);
    bool arena = has_arena(p.linear);
    p.run();
    // The values are right either way.
    std::vector<float> got = floats(tolk::engine::read_bytes(p.results[0]));
    float sum = 0;
    for (size_t i = 0; i < 8; ++i) sum += got[i];
    BOOST_TEST(sum == 1.0F, boost::test_tools::tolerance(1e-5F));
    return arena;
  };
  BOOST_TEST(planned_on(x.open_name()));
  BOOST_TEST(!planned_on(x.open_name([](tb_options& o) { o.offset_views = 0; })));
  std::string coarse = x.open_name([](tb_options& o) { o.offset_align = 1024; });
  BOOST_TEST(tolk::engine::view_limits({coarse}).at(coarse).alignment == 1024);
  BOOST_TEST(planned_on(coarse));
  std::string near = x.open_name([](tb_options& o) { o.offset_max = 4096; });
  BOOST_TEST(tolk::engine::view_limits({near}).at(near).largest_offset == 4096);
}

// An assignment of "itself shifted by a row, and a new row" beside a network that keeps the arena busy: the
// same bits with and without the planner, and the right ones.
BOOST_AUTO_TEST_CASE(a_rolling_buffer_beside_a_busy_arena, *boost::unit_test::label("bug-06")) {
  constexpr int64_t kRows = 4, kColumns = 256, kSteps = 6;
  for (const std::string& device : devices_here()) {
    std::vector<std::vector<std::byte>> by_plan[2];
    for (int off : {0, 1})
      with_setting(&tolk::Config::no_memory_planner, off, [&] {
        mini::T image = stored({kRows, kColumns}, std::vector<float>(kRows * kColumns, 0.0F), device);
        mini::T x = stored({1, 2, 10, 10}, wave(200, 1), device);
        std::vector<mini::T> weights;
        for (int layer = 0; layer < 4; ++layer)
          weights.push_back(stored({layer == 3 ? 1 : 3, layer == 0 ? 2 : 3, 3, 3},
                                   wave(size_t((layer == 3 ? 1 : 3) * (layer == 0 ? 2 : 3) * 9), layer + 2),
                                   device));
        for (int64_t k = 1; k <= kSteps; ++k) {
          mini::T y = x * double(k);
          for (const mini::T& w : weights) y = relu(conv2d(y, w, 1));
          mini::T rows =
              concat({shrink(image, {1, 0}, {kRows - 1, kColumns}), full({1, kColumns}, double(k))}, 0);
          std::vector<UOp> roots{assign(image, rows).u, y.u};
          tolk::engine::Prepared p = tolk::engine::prepare(roots, device);
          BOOST_TEST(has_arena(p.linear) == (off == 0));
          p.run();
          by_plan[off].push_back(tolk::engine::read_bytes(tolk::storage_of(image.u)));
          by_plan[off].push_back(tolk::engine::read_bytes(p.results[1]));
          std::vector<float> got = floats(by_plan[off][by_plan[off].size() - 2]);
          for (int64_t row = 0; row < kRows; ++row)
            for (int64_t column = 0; column < kColumns; column += 51)
              BOOST_TEST(got[size_t(row * kColumns + column)] ==
                         float(std::max<int64_t>(0, k - (kRows - 1) + row)));
        }
        return 0;
      });
    BOOST_TEST((by_plan[0] == by_plan[1]));
  }
}

// A sum of 12 buffers on a device whose kernels take 5, while the default device takes any number.
BOOST_AUTO_TEST_CASE(kernels_take_as_many_buffers_as_the_device_says) {
  tolk::test::TestBackend y("YDEV");
  auto most_arguments = [](const std::string& device) {
    std::vector<float> want(4, 0.0F);
    mini::T total = stored({4}, want, device);
    for (int i = 1; i < 12; ++i) {
      std::vector<float> values = wave(4, i);
      for (size_t k = 0; k < want.size(); ++k) want[k] += values[k];
      total = total + stored({4}, values, device);
    }
    tolk::engine::Prepared p = tolk::engine::prepare(std::span(&total.u, 1), "INTERP");
    p.run();
    BOOST_TEST(floats(tolk::engine::read_bytes(p.results[0])) == want, boost::test_tools::per_element());
    size_t most = 0;
    for (const UOp& call : p.linear.src()) most = std::max(most, call.nsrc() - 1);
    return most;
  };
  BOOST_TEST(most_arguments(y.open_name()) == 13U);
  BOOST_TEST(most_arguments(y.open_name([](tb_options& o) { o.buffer_args = 5; })) <= 5U);
}
