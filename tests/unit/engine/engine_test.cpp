// Prepared schedules, the program cache and storage, on the interpreter and the null device.
#include <cstring>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "device_runs.h"
#include "tolk/base/error.h"
#include "tolk/device/registry.h"
#include "tolk/engine/run/node_storage.h"
#include "tolk/engine/run/realize.h"
#include "tolk/engine/run/statistics.h"
#include "tolk/schedule/tensor/realized.h"
#include "tolk/uop/build.h"

using namespace tolk;

namespace {

// Storage on a device with these values.
UOp stored(const std::vector<float>& values, const std::string& device) {
  UOp node = buffer_node(fresh_user_slot(), DType::F32, int64_t(values.size()), device);
  BufferRef buffer = engine::buffer_of(node);
  buffer->allocate();
  buffer->copy_in(std::as_bytes(std::span(values)));
  return node;
}

std::vector<float> read(const UOp& node) {
  std::vector<std::byte> bytes = engine::read_bytes(node);
  std::vector<float> out(bytes.size() / 4);
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

UOp plus(const UOp& a, double v) { return alu(Op::ADD, a, constant(DType::F32, v)); }

// The loaded program of the first kernel.
ProgramRef program_of(const engine::Prepared& p) {
  UOp compiled = engine::compile_linear(p.binding->ambient(), {}, p.linear);
  return engine::get_runtime(p.binding->ambient(), compiled.src(0).src(0));
}
std::string kernel_name(const engine::Prepared& p) {
  UOp compiled = engine::compile_linear(p.binding->ambient(), {}, p.linear);
  return engine::program_entry(compiled.src(0).src(0)).info.name;
}

} // namespace

BOOST_AUTO_TEST_CASE(a_plan_runs_again_on_new_contents) {
  UOp x = stored({1, 2, 3}, "INTERP"), y = plus(x, 1);
  engine::Prepared p = engine::prepare(std::span(&y, 1), "INTERP");
  BOOST_TEST(p.kernel_count() == 1U);
  p.run();
  BOOST_TEST((read(p.results[0]) == std::vector<float>{2, 3, 4}));
  std::vector<float> next = {10, 20, 30};
  engine::buffer_of(x)->copy_in(std::as_bytes(std::span(next)));
  p.run();
  BOOST_TEST((read(p.results[0]) == std::vector<float>{11, 21, 31}));
}

BOOST_AUTO_TEST_CASE(equal_kernels_share_one_program) {
  UOp a = stored({1, 2}, "INTERP"), b = stored({3, 4}, "INTERP"), ya = plus(a, 5), yb = plus(b, 5);
  engine::Prepared pa = engine::prepare(std::span(&ya, 1), "INTERP"),
                   pb = engine::prepare(std::span(&yb, 1), "INTERP");
  ProgramRef first = program_of(pa);
  BOOST_TEST(first == program_of(pb));
  engine::clear_caches();
  engine::Prepared pc = engine::prepare(std::span(&yb, 1), "INTERP");
  BOOST_TEST(program_of(pc) != first);
  BOOST_TEST(engine::cache_stats().program_misses == 1U);
  // Settings that change code are part of the key.
  Config plain = Config::current();
  plain.no_opt = 1;
  ScopedConfig scope(plain);
  engine::Prepared pd = engine::prepare(std::span(&yb, 1), "INTERP");
  BOOST_TEST(engine::cache_stats().program_misses == 2U);
}

BOOST_AUTO_TEST_CASE(a_realised_value_is_not_computed_again) {
  UOp x = stored({1, 2}, "INTERP"), y = plus(x, 1);
  engine::realize(std::span(&y, 1), "INTERP");
  UOp z = alu(Op::MUL, y, y);
  int64_t before = engine::GlobalCounters::get().kernel_count;
  std::vector<UOp> r = engine::realize(std::span(&z, 1), "INTERP");
  BOOST_TEST(engine::GlobalCounters::get().kernel_count == before + 1);
  BOOST_TEST((read(r[0]) == std::vector<float>{4, 9}));
  // Its storage and the chain that denotes it are the same node for everybody.
  BOOST_TEST((schedule::realized_form(y) != y));
}

BOOST_AUTO_TEST_CASE(memory_returns_with_the_last_handle) {
  Device& device = tolk::device("INTERP:3");
  uint64_t before = device.memory().live_bytes;
  {
    UOp x = stored(std::vector<float>(1000, 1.f), "INTERP:3"), y = plus(x, 1), z = alu(Op::MUL, y, y);
    std::vector<UOp> r = engine::realize(std::span(&z, 1), "INTERP:3");
    BOOST_TEST(device.memory().live_bytes >= before + 8000);
    BOOST_TEST(read(r[0])[999] == 4);
  }
  BOOST_TEST(device.memory().live_bytes == before);
}

BOOST_AUTO_TEST_CASE(host_memory_is_used_in_place_or_copied_once) {
  auto values = std::make_shared<std::vector<float>>(16, 2.f);
  UOp host = engine::host_storage(DType::F32, 16, values->data(), values),
      y = plus(copy_to(host, "INTERP"), 1);
  engine::Prepared p = engine::prepare(std::span(&y, 1), "INTERP");
  p.run();
  BOOST_TEST(read(p.results[0])[15] == 3);
  p.run(); // the copy step has nothing left to do
  BOOST_TEST(read(p.results[0])[15] == 3);
}

BOOST_AUTO_TEST_CASE(validation_compares_every_kernel_with_the_interpreter) {
  Config checked = Config::current();
  checked.validate_with_cpu = 1;
  ScopedConfig scope(checked);
  // The null device computes nothing, so its results are wrong: the first kernel is named.
  UOp x = stored({1, 2, 3, 4}, "NULL"), y = plus(x, 1);
  engine::Prepared p = engine::prepare(std::span(&y, 1), "NULL");
  try {
    p.run();
    BOOST_ERROR("a wrong kernel went unnoticed");
  } catch (const DeviceError& e) {
    BOOST_TEST(std::string(e.what()).find("differs from the interpreter") != std::string::npos, e.what());
    BOOST_TEST(std::string(e.what()).find(kernel_name(p)) != std::string::npos, e.what());
  }
}

// The CPU adds in another order than the interpreter, and what an f32 sum lost is not regained by its f64
// copy.
BOOST_AUTO_TEST_CASE(validation_knows_in_which_precision_a_kernel_computes) {
  Config checked = Config::current();
  checked.validate_with_cpu = 1;
  ScopedConfig scope(checked);
  std::vector<float> values(4096);
  for (size_t i = 0; i < values.size(); ++i) values[i] = 1.f / float(i + 1);
  UOp x = stored(values, "CPU"), y = cast(reduce_axis(Op::ADD, x, 1), DType::F64);
  engine::Prepared p = engine::prepare(std::span(&y, 1), "CPU");
  BOOST_CHECK_NO_THROW(p.run());
}

BOOST_AUTO_TEST_CASE(the_null_device_counts_kernels) {
  UOp x = stored({1, 2, 3, 4}, "NULL"), y = plus(x, 1), z = reduce_axis(Op::ADD, y, 1);
  engine::Prepared p = engine::prepare(std::span(&z, 1), "NULL");
  int64_t before = engine::GlobalCounters::get().kernel_count;
  p.run();
  BOOST_TEST(engine::GlobalCounters::get().kernel_count == before + int64_t(p.kernel_count()));
}

BOOST_AUTO_TEST_CASE(progress_reports_every_distinct_kernel) {
  engine::clear_caches();
  UOp x = stored({1, 2, 3, 4}, "INTERP");
  std::vector<UOp> roots = {plus(x, 7), alu(Op::MUL, x, x), plus(x, 9)};
  std::vector<size_t> seen;
  size_t total = 0;
  engine::prepare(roots, "INTERP", [&](size_t done, size_t of) {
    seen.push_back(done);
    total = of;
  });
  BOOST_TEST(total == 3U);
  BOOST_REQUIRE(seen.size() == 4);
  BOOST_TEST((seen.front() == 0 && seen.back() == 3));
}

BOOST_AUTO_TEST_CASE(an_unknown_device_is_named) {
  UOp x = buffer_node(fresh_user_slot(), DType::F32, 4, "NOSUCH"), y = plus(x, 1);
  try {
    engine::realize(std::span(&y, 1), "INTERP");
    BOOST_ERROR("no error");
  } catch (const DeviceError& e) {
    BOOST_TEST(std::string(e.what()).find("NOSUCH") != std::string::npos, e.what());
  }
}
