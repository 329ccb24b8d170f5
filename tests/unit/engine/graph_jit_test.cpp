// Captured functions on a device with graphs.
#include <cstring>

#include "graph_support.h"
#include "tolk/engine/run/realize.h"
#include "typed_function.h"

using namespace tolk;
using namespace tolk::test;
using namespace tolk::engine;

namespace {

using Jit = test::TypedFunction<UOp>;

UOp realized(const UOp& u) { return realize(std::span(&u, 1))[0]; }

// x + 1 + 2 + ... + 5, one kernel each; the sum keeps its storage.
struct Sums {
  explicit Sums(const std::string& device) : jit(make(device)) {}
  Jit make(const std::string& device) {
    Jit::Options options;
    options.device = device;
    options.function = [this](const JitInputs& in) {
      UOp at = in.inputs[0].storage;
      for (int i = 1; i <= 5; ++i) at = realized(alu(Op::ADD, at, constant(DType::I32, i)));
      held = {contiguous_storage(at)};
      return at;
    };
    return Jit::create(std::move(options));
  }
  // On a fresh input each time.
  Ints call(const std::string& device, const Ints& input) {
    inputs.push_back(stored(device, input));
    UOp out = jit.call(whole_inputs(std::span(&inputs.back(), 1)), known_storage, [this] { return held; });
    std::vector<std::byte> bytes = read_bytes(out);
    Ints values(bytes.size() / sizeof(int32_t));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  std::vector<UOp> held, inputs;
  Jit jit;
};

} // namespace

BOOST_AUTO_TEST_CASE(a_capture_is_batched_when_it_is_lowered_unless_JIT_is_2,
                     *boost::unit_test::label("J-10") * boost::unit_test::label("J-24")) {
  for (int setting : {1, 2}) {
    Device& d = tb().open();
    ScopedConfig scope(with([&](Config& c) { c.device = d.name(), c.jit = setting; }));
    Sums sums(d.name());
    for (int i = 0; i < 5; ++i) {
      uint64_t launches = tb().counters(d).graph_launch;
      BOOST_TEST(sums.call(d.name(), ramp(10 * i)) == ramp(10 * i + 15));
      BOOST_TEST(tb().counters(d).graph_launch - launches == (i > 0 && setting == 1 ? 1u : 0u));
    }
    UOp planned = sums.jit.captured()->planned_linear(), list = sums.jit.captured()->linear();
    BOOST_TEST(planned.nsrc() == 5u);
    BOOST_TEST((list == batch_graphs(d, planned)));
    BOOST_TEST(text_of(sizes_of(list)) == (setting == 1 ? "5" : "0, 0, 0, 0, 0"));
    if (setting == 2) BOOST_TEST((list == planned));
  }
}

BOOST_AUTO_TEST_CASE(a_captured_function_on_streams_follows_its_inputs) {
  Device& d = tb().open_streams();
  ScopedConfig scope(with([&](Config& c) { c.device = d.name(); }));
  Sums sums(d.name());
  for (int i = 0; i < 6; ++i) BOOST_TEST(sums.call(d.name(), ramp(10 * i)) == ramp(10 * i + 15));
  BOOST_TEST(text_of(sizes_of(sums.jit.captured()->linear())) == "5");
}
