// The capture registry: who gets schedules, and what may not be read meanwhile.
#include <stdexcept>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "tolk/base/config.h"
#include "tolk/base/error.h"
#include "tolk/engine/capture/capture_scope.h"
#include "tolk/engine/run/node_storage.h"
#include "tolk/engine/run/realize.h"
#include "tolk/engine/run/statistics.h"
#include "tolk/schedule/tensor/realized.h"
#include "tolk/uop/build.h"
#include "tolk/uop/traverse.h"

using namespace tolk;

namespace {

UOp stored(const std::vector<float>& values) {
  UOp node = buffer_node(fresh_user_slot(), DType::F32, int64_t(values.size()), "INTERP");
  BufferRef buffer = engine::buffer_of(node);
  buffer->allocate();
  buffer->copy_in(std::as_bytes(std::span(values)));
  return node;
}

UOp plus(const UOp& a, double v) { return alu(Op::ADD, a, constant(DType::F32, v)); }

struct Seen {
  std::vector<UOp> linears;
  std::vector<engine::VarVals> vars;
  engine::Capturer capturer() {
    return [this](const UOp& linear, const engine::VarVals& values) {
      linears.push_back(linear);
      vars.push_back(values);
    };
  }
};

bool says(const Error& e, const char* words) {
  return std::string(e.what()).find(words) != std::string::npos;
}

} // namespace

BOOST_AUTO_TEST_CASE(a_capturer_receives_the_schedule_and_its_variables, *boost::unit_test::label("R-18")) {
  UOp x = buffer_node(fresh_user_slot(), DType::F32, 8, "INTERP");
  UOp n = bind(variable("n", 1, 8), 5);
  UOp y = reduce_axis(Op::ADD, shrink(x, {0}, {SInt(n)}), 1);
  Seen seen;
  engine::CaptureScope scope(seen.capturer());
  schedule::Schedule s = engine::create_schedule(std::span(&y, 1), "INTERP");
  BOOST_REQUIRE(seen.linears.size() == 1);
  BOOST_TEST(seen.linears[0].nsrc() == 1u);
  BOOST_TEST((seen.vars[0] == engine::VarVals{{"n", 5}}));
  BOOST_TEST(s.linear.is(Op::LINEAR));
  BOOST_TEST(s.linear.nsrc() == 0u);
  BOOST_TEST(s.results.size() == 1u);
}

BOOST_AUTO_TEST_CASE(only_the_newest_entry_receives_it, *boost::unit_test::label("R-19")) {
  Seen outer, inner;
  engine::CaptureScope first(outer.capturer());
  UOp x = stored({1, 2}), y = plus(x, 1), z = plus(x, 2);
  {
    engine::CaptureScope second(inner.capturer());
    engine::realize(std::span(&y, 1), "INTERP");
    BOOST_TEST(engine::capturing().size() == 2u);
  }
  BOOST_TEST(outer.linears.empty());
  BOOST_TEST(inner.linears.size() == 1u);
  engine::realize(std::span(&z, 1), "INTERP");
  BOOST_TEST(outer.linears.size() == 1u);
  BOOST_TEST(inner.linears.size() == 1u);
}

BOOST_AUTO_TEST_CASE(captured_schedules_have_no_memory_plan_and_do_not_run) {
  UOp x = stored({1, 2, 3, 4});
  // The contiguous values are temporaries.
  UOp t = contiguous(plus(x, 1)), y = reduce_axis(Op::ADD, t, 1), z = alu(Op::MUL, contiguous(plus(t, 1)), t);
  std::vector<UOp> roots{y, z};
  Seen seen;
  int64_t before = engine::GlobalCounters::get().kernel_count;
  {
    engine::CaptureScope scope(seen.capturer());
    std::vector<UOp> results = engine::realize(roots, "INTERP");
    BOOST_TEST((schedule::realized_form(y) == results[0]));
  }
  BOOST_TEST(engine::GlobalCounters::get().kernel_count == before);
  BOOST_REQUIRE(seen.linears.size() == 1);
  bool temporaries = false;
  for (const UOp& u : toposort(seen.linears[0])) {
    BOOST_TEST(!u.is(Op::SLICE));
    temporaries |= u.is(Op::BUFFER) && slot_of(u) < 0;
  }
  BOOST_TEST(temporaries);
}

BOOST_AUTO_TEST_CASE(the_registry_is_empty_after_an_exception) {
  Seen seen;
  try {
    engine::CaptureScope scope(seen.capturer());
    BOOST_TEST(engine::is_capturing());
    throw std::runtime_error("the function failed");
  } catch (const std::runtime_error&) {
  }
  BOOST_TEST(engine::capturing().empty());
  BOOST_TEST(!engine::is_capturing());
}

BOOST_AUTO_TEST_CASE(CAPTURING_0_runs_at_once) {
  Seen seen;
  engine::CaptureScope scope(seen.capturer());
  UOp x = stored({1, 2}), y = plus(x, 1);
  Config config = Config::current();
  config.capturing = 0;
  ScopedConfig quiet(config);
  BOOST_TEST(!engine::is_capturing());
  int64_t before = engine::GlobalCounters::get().kernel_count;
  std::vector<UOp> results = engine::realize(std::span(&y, 1), "INTERP");
  BOOST_TEST(seen.linears.empty());
  BOOST_TEST(engine::GlobalCounters::get().kernel_count == before + 1);
  BOOST_TEST(engine::read_bytes(results[0]).size() == 8u);
}

BOOST_AUTO_TEST_CASE(data_cannot_be_read_in_a_capture) {
  UOp x = stored({1, 2});
  Seen seen;
  engine::CaptureScope scope(seen.capturer());
  BOOST_CHECK_EXCEPTION(engine::read_bytes(x), JitError, [](const JitError& e) {
    return says(e, "reading tensor data inside a capture would freeze its present value");
  });
  Config config = Config::current();
  config.unsafe_allow_jit_buffer = 1;
  ScopedConfig unsafe(config);
  BOOST_TEST(engine::read_bytes(x).size() == 8u);
}
