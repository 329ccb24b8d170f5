// Functions over storage nodes: what a capture contains, who is asked for storage, what is held.
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "thrown.h"
#include "tolk/base/config.h"
#include "tolk/base/error.h"
#include "tolk/device/registry.h"
#include "tolk/engine/capture/capture_scope.h"
#include "tolk/engine/capture/prune.h"
#include "tolk/engine/graph/graph_call.h"
#include "tolk/engine/run/calls.h"
#include "tolk/engine/run/node_storage.h"
#include "tolk/engine/run/realize.h"
#include "tolk/engine/run/statistics.h"
#include "tolk/uop/build.h"
#include "tolk/uop/traverse.h"
#include "typed_function.h"

using namespace tolk;
using namespace tolk::engine;
using tolk::test::contains;
using tolk::test::message_of;
using tolk::test::whole_inputs;

namespace {

using Floats = std::vector<float>;
const char* const kDevice = "INTERP";

struct Settings {
  explicit Settings(const std::function<void(Config&)>& change) : scope(changed(change)) {}
  static Config changed(const std::function<void(Config&)>& change) {
    Config config = Config::current();
    config.device = kDevice;
    change(config);
    return config;
  }
  ScopedConfig scope;
};
struct OnInterp : Settings {
  OnInterp() : Settings([](Config&) {}) {}
};

UOp stored(const Floats& values, const std::string& device = kDevice) {
  UOp node = buffer_node(fresh_user_slot(), DType::F32, int64_t(values.size()), device);
  BufferRef buffer = buffer_of(node);
  buffer->allocate();
  buffer->copy_in(std::as_bytes(std::span(values)));
  return node;
}
Floats read(const UOp& node) {
  std::vector<std::byte> bytes = read_bytes(node);
  Floats out(bytes.size() / 4);
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}
UOp plus(const UOp& a, double v) { return alu(Op::ADD, a, constant(DType::F32, v)); }
UOp times(const UOp& a, double v) { return alu(Op::MUL, a, constant(DType::F32, v)); }
UOp realized(const UOp& u) { return realize(std::span(&u, 1))[0]; }
void assign(const UOp& target, const UOp& value) {
  UOp effect = store_to(target, value);
  realized(after(target, std::span(&effect, 1)));
}

using Jit = test::TypedFunction<UOp>;
using Function = Jit::Body;
Jit jit(Function f, bool prune = false, ToProgram to_program = {}) {
  Jit::Options options;
  options.function = std::move(f), options.prune = prune, options.to_program = std::move(to_program);
  return Jit::create(std::move(options));
}

// A resolver that knows what known_storage knows, and counts who asks for what.
struct Asked {
  std::map<uint64_t, int> times; // by node id
  Resolver resolver() {
    return [this](const UOp& node) {
      ++times[node.id()];
      return known_storage(node);
    };
  }
};

// Storage nodes in the arguments of a LINEAR.
std::vector<UOp> storage_in(const UOp& linear, Op op) {
  std::vector<UOp> out;
  for (const UOp& call : calls_of(linear, true))
    for (const UOp& argument : buffer_arguments(call))
      for (const UOp& u : toposort(argument))
        if (u.is(op)) out.push_back(u);
  return out;
}

HeldNodes holding(std::vector<UOp>& nodes) {
  return [&] { return nodes; };
}

} // namespace

BOOST_FIXTURE_TEST_SUITE(engine_level, OnInterp)

BOOST_AUTO_TEST_CASE(inputs_become_PARAMs, *boost::unit_test::label("J-05")) {
  Jit f = jit([](const JitInputs& in) {
    UOp a = in.inputs[0].storage, b = in.inputs[1].storage;
    UOp sum = realized(alu(Op::ADD, a, b));
    return realized(alu(Op::MUL, sum, a));
  });
  UOp a = stored({1, 2}), b = stored({3, 4}), out;
  std::vector<UOp> held;
  for (int i = 0; i < 2; ++i) f.call(whole_inputs(std::vector{a, b}), known_storage, holding(held));
  const UOp& linear = f.captured()->planned_linear();
  for (const UOp& buffer : storage_in(linear, Op::BUFFER)) BOOST_TEST((buffer != a && buffer != b));
  std::vector<UOp> calls = calls_of(linear);
  BOOST_REQUIRE(calls.size() == 2);
  auto params = [](const UOp& call) {
    std::vector<int64_t> slots;
    for (const UOp& argument : buffer_arguments(call))
      if (argument.is(Op::PARAM)) slots.push_back(slot_of(argument));
    return slots;
  };
  BOOST_TEST(
      (params(calls[0]) == std::vector<int64_t>{0, 1} || params(calls[0]) == std::vector<int64_t>{1, 0}));
  BOOST_TEST((params(calls[1]) == std::vector<int64_t>{0}));
}

BOOST_AUTO_TEST_CASE(one_arena_over_all_schedules, *boost::unit_test::label("J-06")) {
  std::vector<UOp> held;
  Jit f = jit([&](const JitInputs& in) {
    UOp x = in.inputs[0].storage;
    UOp first = realized(times(contiguous(plus(contiguous(plus(x, 1)), 2)), 3));
    UOp second = realized(times(contiguous(plus(contiguous(plus(first, 1)), 2)), 3));
    held = {contiguous_storage(first), contiguous_storage(second)};
    return second;
  });
  UOp x = stored({1, 2});
  for (int i = 0; i < 2; ++i) f.call(whole_inputs(std::vector{x}), known_storage, holding(held));
  std::vector<UOp> arenas;
  for (const UOp& slice : storage_in(f.captured()->planned_linear(), Op::SLICE))
    if (std::find(arenas.begin(), arenas.end(), slice.src(0)) == arenas.end()) arenas.push_back(slice.src(0));
  BOOST_REQUIRE(arenas.size() == 1);
  BOOST_TEST((arenas[0].dtype() == DType::I8));
  BOOST_TEST((read(held[1]) == Floats{45, 54}));
}

BOOST_AUTO_TEST_CASE(every_kernel_is_compiled_at_the_capture, *boost::unit_test::label("J-07")) {
  int compiled = 0;
  Jit f = jit(
      [](const JitInputs& in) {
        UOp x = in.inputs[0].storage;
        for (int i = 0; i < 4; ++i) x = realized(i < 2 ? plus(x, 1) : times(x, 3)); // two distinct kernels
        return x;
      },
      false,
      [&](Device& device, const UOp& sink, bool may_alias) {
        ++compiled;
        return to_program(device, sink, may_alias);
      });
  UOp x = stored({1, 2});
  f.call(whole_inputs(std::vector{x}), known_storage);
  clear_caches(); // what the first call compiled
  f.call(whole_inputs(std::vector{x}), known_storage);
  BOOST_TEST(compiled == 2);
  for (int i = 3; i <= 10; ++i) f.call(whole_inputs(std::vector{x}), known_storage);
  BOOST_TEST(compiled == 2);
  for (const UOp& call : calls_of(f.captured()->linear(), true)) BOOST_TEST(!call.src(0).is(Op::SINK));
}

BOOST_AUTO_TEST_CASE(storage_is_asked_for_once_and_inputs_at_every_call, *boost::unit_test::label("J-13")) {
  UOp w = stored({10, 20});
  std::vector<UOp> held;
  Jit f = jit([&](const JitInputs& in) {
    UOp out = realized(alu(Op::ADD, alu(Op::MUL, in.inputs[0].storage, w), w));
    held = {contiguous_storage(out)};
    return out;
  });
  Asked asked;
  UOp x = stored({1, 2});
  f.call(whole_inputs(std::vector{x}), asked.resolver(), holding(held));
  asked.times.clear();
  for (int i = 0; i < 6; ++i) f.call(whole_inputs(std::vector{x}), asked.resolver(), holding(held));
  BOOST_TEST(asked.times.at(x.id()) == 6);
  asked.times.erase(x.id());
  BOOST_TEST(asked.times.at(w.id()) == 1);
  for (auto [node, times] : asked.times) BOOST_TEST(times <= 1, node);
}

BOOST_AUTO_TEST_CASE(JitError_is_an_Error, *boost::unit_test::label("J-15")) {
  BOOST_CHECK_THROW(throw JitError("refused"), Error);
  BOOST_CHECK_THROW(throw JitError("refused"), std::runtime_error);
}

BOOST_AUTO_TEST_CASE(a_capture_shows_what_it_is,
                     *boost::unit_test::label("J-25") * boost::unit_test::label("P-19")) {
  std::shared_ptr<Replay> kept;
  UOp x = stored({1, 2, 3}), out;
  std::vector<UOp> held;
  {
    Jit f = jit([&](const JitInputs& in) {
      out = realized(plus(in.inputs[0].storage, 1));
      held = {contiguous_storage(out)};
      return out;
    });
    for (int i = 0; i < 2; ++i) f.call(whole_inputs(std::vector{x}), known_storage, holding(held));
    kept = f.replay();
  }
  auto replay = kept;
  const Capture* copy = &replay->capture();
  BOOST_TEST((std::any_cast<UOp>(copy->value()) == out));
  BOOST_TEST(copy->linear().is(Op::LINEAR));
  BOOST_REQUIRE(copy->expected().size() == 1);
  BOOST_TEST(copy->expected()[0].size == 3);
  BOOST_TEST((copy->expected()[0].dtype == DType::F32));
  BOOST_TEST(copy->expected()[0].device == kDevice);
  BOOST_TEST(!copy->expected()[0].view);
  BOOST_TEST(copy->expected()[0].vars.empty());
  BOOST_TEST((copy->names() == std::vector<JitName>{0}));
  BOOST_REQUIRE(copy->storage().size() == 1);
  BOOST_TEST((copy->storage()[0].node == held[0]));
  BOOST_TEST((copy->storage()[0].role == StorageRole::Written));
  BOOST_TEST((replay->binding().buffer_of_node(held[0]) == AnyBuffer(buffer_of(held[0]))));
  // It outlives the function that made it.
  UOp y = stored({5, 6, 7});
  replay->run(whole_inputs(std::vector{y}), known_storage);
  BOOST_TEST((read(out) == Floats{6, 7, 8}));
}

BOOST_AUTO_TEST_CASE(a_capture_keeps_its_expectations, *boost::unit_test::label("P-19")) {
  UOp x = stored({1, 2, 3});
  std::vector<UOp> held;
  Jit f = jit([&](const JitInputs& in) {
    UOp out = realized(plus(in.inputs[0].storage, 1));
    held = {contiguous_storage(out)};
    return out;
  });
  JitInputs inputs;
  inputs.inputs.push_back({x, shrink(param_node(0, DType::F32, 3), {1}, {2}), {}});
  inputs.names = {std::string("x")};
  UOp ret;
  for (int i = 0; i < 2; ++i) ret = f.call(inputs, known_storage, holding(held));
  BOOST_TEST((std::any_cast<UOp>(f.captured()->value()) == ret));
  BOOST_TEST((f.captured()->names() == inputs.names));
  BOOST_REQUIRE(f.captured()->expected().size() == 1);
  BOOST_TEST((f.captured()->expected()[0].view == inputs.inputs[0].view));
  BOOST_TEST(f.captured()->linear().nsrc() == 1u);
  BOOST_TEST(f.captured()->planned_linear().nsrc() == 1u);
}

BOOST_AUTO_TEST_CASE(prune_is_honoured, *boost::unit_test::label("J-30")) {
  UOp w = stored({1, 2}), x = stored({5, 5});
  for (bool prune : {false, true}) {
    std::vector<UOp> held;
    Jit f = jit(
        [&](const JitInputs& in) {
          UOp doubled = realized(times(w, 2));
          UOp out = realized(alu(Op::ADD, doubled, in.inputs[0].storage));
          held = {contiguous_storage(out)};
          return out;
        },
        prune);
    UOp out;
    for (int i = 0; i < 3; ++i) out = f.call(whole_inputs(std::vector{x}), known_storage, holding(held));
    BOOST_TEST(f.captured()->num_kernels() == (prune ? 1u : 2u));
    BOOST_TEST((read(out) == Floats{7, 9}));
  }
}

BOOST_AUTO_TEST_CASE(every_combination_of_optional_arguments, *boost::unit_test::label("J-27")) {
  std::vector<UOp> held;
  Jit from = jit([&](const JitInputs& in) {
    UOp out = realized(plus(in.inputs[0].storage, 1));
    held = {contiguous_storage(out)};
    return out;
  });
  UOp x = stored({1});
  for (int i = 0; i < 2; ++i) from.call(whole_inputs(std::vector{x}), known_storage, holding(held));
  float next = 10;
  for (bool device : {false, true})
    for (bool program : {false, true})
      for (bool function : {false, true})
        for (bool captured : {false, true})
          for (bool prune : {false, true}) {
            Jit::Options options;
            if (device) options.device = kDevice;
            if (program) options.to_program = to_program;
            if (function)
              options.function = [](const JitInputs& in) { return realized(plus(in.inputs[0].storage, 2)); };
            if (captured) options.captured = from.captured();
            options.prune = prune;
            if (function || captured) {
              Jit f = Jit::create(options);
              BOOST_TEST((f.phase() == (captured ? Phase::Exec : Phase::Warmup)));
              // A capture goes before the function, which here computes something else.
              UOp in = stored({++next});
              UOp out = f.call(whole_inputs(std::vector{in}), known_storage);
              BOOST_TEST((read(out) == Floats{next + (captured ? 1 : 2)}));
            } else {
              BOOST_CHECK_THROW(Jit::create(options), InvalidArgument);
            }
          }
}

BOOST_AUTO_TEST_CASE(a_capture_replays_from_the_first_call_on, *boost::unit_test::label("J-28")) {
  std::vector<UOp> held;
  Jit first = jit([&](const JitInputs& in) {
    UOp out = realized(plus(in.inputs[0].storage, 1));
    held = {contiguous_storage(out)};
    return out;
  });
  UOp x = stored({1, 2});
  for (int i = 0; i < 2; ++i) first.call(whole_inputs(std::vector{x}), known_storage, holding(held));
  Jit::Options options;
  options.captured = first.captured();
  Jit second = Jit::create(options);
  UOp y = stored({5, 6});
  BOOST_TEST((read(second.call(whole_inputs(std::vector{y}), known_storage)) == Floats{6, 7}));
  // J-32: there is nothing to capture anew, and the capture stays.
  BOOST_TEST(contains(message_of<InvalidArgument>([&] { second.reset(); }), "can't reset without function"));
  BOOST_TEST((read(second.call(whole_inputs(std::vector{x}), known_storage)) == Floats{2, 3}));
}

BOOST_AUTO_TEST_CASE(neither_function_nor_capture, *boost::unit_test::label("J-29")) {
  BOOST_TEST(contains(message_of<InvalidArgument>([] { Jit::create({}); }),
                      "need either a function or a CapturedJit"));
}

BOOST_AUTO_TEST_CASE(reset_of_a_function_less_jit, *boost::unit_test::label("J-32")) {
  Jit first = jit([](const JitInputs& in) { return realized(plus(in.inputs[0].storage, 1)); });
  UOp x = stored({1});
  for (int i = 0; i < 2; ++i) first.call(whole_inputs(std::vector{x}), known_storage);
  Jit::Options options;
  options.captured = first.captured();
  Jit second = Jit::create(options);
  BOOST_TEST(contains(message_of<InvalidArgument>([&] { second.reset(); }), "can't reset without function"));
  second.call(whole_inputs(std::vector{x}), known_storage);
  BOOST_TEST((second.captured() == first.captured()));
}

BOOST_AUTO_TEST_CASE(held_nodes_are_asked_for_once_after_the_function, *boost::unit_test::label("J-34")) {
  int asked = 0, begun = 0, ended = 0, begun_before = 0, ended_before = 0;
  Jit f = jit([&](const JitInputs& in) {
    ++begun;
    UOp out = realized(plus(in.inputs[0].storage, 1));
    ++ended;
    return out;
  });
  UOp x = stored({1});
  HeldNodes held = [&] {
    ++asked;
    begun_before = begun, ended_before = ended;
    return std::vector<UOp>{};
  };
  for (int i = 0; i < 6; ++i) f.call(whole_inputs(std::vector{x}), known_storage, held);
  BOOST_TEST(asked == 1);
  // The body runs twice, and the second run, which is the capture, was over.
  BOOST_TEST((begun == 2 && ended == 2));
  BOOST_TEST((begun_before == 2 && ended_before == 2));
}

BOOST_AUTO_TEST_CASE(held_storage_keeps_its_identity_and_contents, *boost::unit_test::label("J-35")) {
  std::vector<UOp> held;
  Jit f = jit([&](const JitInputs& in) {
    UOp out = realized(plus(contiguous(times(in.inputs[0].storage, 2)), 1));
    held = {contiguous_storage(out)};
    return out;
  });
  UOp x = stored({1, 2});
  UOp out;
  for (int i = 0; i < 2; ++i) out = f.call(whole_inputs(std::vector{x}), known_storage, holding(held));
  std::vector<UOp> buffers = storage_in(f.captured()->planned_linear(), Op::BUFFER);
  BOOST_TEST(std::count(buffers.begin(), buffers.end(), held[0]) == 1);
  std::optional<AnyBuffer> known = known_storage(held[0]);
  BOOST_REQUIRE(known);
  BOOST_TEST((f.replay()->binding().buffer_of_node(held[0]) == *known));
  BOOST_TEST((read(out) == Floats{3, 5}));
  UOp other = stored({7, 8});
  f.call(whole_inputs(std::vector{other}), known_storage, holding(held));
  BOOST_TEST((read(out) == Floats{15, 17}));
}

BOOST_AUTO_TEST_CASE(temporaries_share_arenas, *boost::unit_test::label("J-36")) {
  std::vector<UOp> held;
  Jit f = jit([&](const JitInputs& in) {
    UOp x = in.inputs[0].storage;
    for (int i = 0; i < 10; ++i) x = realized(plus(x, i));
    held = {contiguous_storage(x)};
    return x;
  });
  UOp x = stored(Floats(1000, 1));
  UOp out;
  for (int i = 0; i < 2; ++i) out = f.call(whole_inputs(std::vector{x}), known_storage, holding(held));
  const UOp& linear = f.captured()->planned_linear();
  BOOST_TEST(linear.nsrc() == 10u);
  int64_t arena_bytes = 0;
  std::vector<UOp> arenas;
  for (const UOp& buffer : storage_in(linear, Op::BUFFER)) {
    if (buffer == held[0]) continue;
    BOOST_TEST((buffer.dtype() == DType::I8)); // temporaries are slices of it, not buffers
    if (std::find(arenas.begin(), arenas.end(), buffer) == arenas.end())
      arenas.push_back(buffer), arena_bytes += elements_of(buffer);
  }
  BOOST_TEST(arena_bytes > 0);
  BOOST_TEST(arena_bytes < 9 * 4000);
  BOOST_TEST((read(out) == Floats(1000, 46)));
}

BOOST_AUTO_TEST_CASE(weights_are_not_planned_though_nothing_is_held,
                     *boost::unit_test::label("J-37") * boost::unit_test::label("RG-01")) {
  UOp w = stored({1, 2, 3});
  Jit f = jit([&](const JitInputs& in) {
    assign(in.inputs[1].storage, alu(Op::ADD, contiguous(times(in.inputs[0].storage, 2)), w));
    return in.inputs[1].storage;
  });
  UOp y = stored({0, 0, 0});
  for (int i = 0; i < 4; ++i) {
    UOp x = stored(Floats(3, float(i)));
    f.call(whole_inputs(std::vector{x, y}), known_storage);
    BOOST_TEST((read(y) == Floats{1 + 2 * float(i), 2 + 2 * float(i), 3 + 2 * float(i)}));
  }
  BOOST_TEST((read(w) == Floats{1, 2, 3}));
}

BOOST_AUTO_TEST_CASE(known_weights_that_nobody_holds, *boost::unit_test::label("RG-01")) {
  UOp w = stored({1, 2, 3});
  std::vector<UOp> held;
  Jit f = jit([&](const JitInputs& in) {
    assign(in.inputs[1].storage, alu(Op::ADD, contiguous(times(in.inputs[0].storage, 2)), w));
    return w;
  });
  UOp y = stored({0, 0, 0});
  Resolver knows = [](const UOp& node) { return known_storage(node); };
  for (int i = 0; i < 4; ++i) {
    f.call(whole_inputs(std::vector{stored({4, 5, 6}), y}), knows, holding(held));
    BOOST_TEST((read(y) == Floats{9, 12, 15}));
  }
}

BOOST_AUTO_TEST_CASE(an_input_without_storage, *boost::unit_test::label("J-38")) {
  Jit f = jit(
      [](const JitInputs& in) { return realized(alu(Op::ADD, in.inputs[0].storage, in.inputs[1].storage)); });
  UOp a = stored({1}), b = stored({2});
  for (int i = 0; i < 2; ++i) f.call(whole_inputs(std::vector{a, b}), known_storage);
  int64_t before = GlobalCounters::get().kernel_count;
  Resolver forgets = [&](const UOp& node) { return node == b ? std::nullopt : known_storage(node); };
  BOOST_TEST(contains(message_of<JitError>([&] { f.call(whole_inputs(std::vector{a, b}), forgets); }),
                      "input 1 has no backing buffer"));
  BOOST_TEST(GlobalCounters::get().kernel_count == before);
  // A smaller buffer than the node says is none either.
  BufferRef small = make_buffer(buffer_of(b)->device(), DType::F32, 0);
  Resolver shrinks = [&](const UOp& node) {
    return node == b ? std::optional<AnyBuffer>(small) : known_storage(node);
  };
  BOOST_TEST(contains(message_of<JitError>([&] { f.call(whole_inputs(std::vector{a, b}), shrinks); }),
                      "input 1 has no backing buffer"));
  f.call(whole_inputs(std::vector{a, b}), known_storage);
}

BOOST_AUTO_TEST_CASE(the_value_of_the_call, *boost::unit_test::label("J-39")) {
  test::TypedFunction<std::shared_ptr<int>>::Options options;
  int runs = 0;
  options.function = [&](const JitInputs& in) {
    realized(plus(in.inputs[0].storage, 1));
    return std::make_shared<int>(++runs);
  };
  auto f = test::TypedFunction<std::shared_ptr<int>>::create(options);
  UOp x = stored({1});
  std::vector<std::shared_ptr<int>> values;
  for (int i = 0; i < 5; ++i) values.push_back(f.call(whole_inputs(std::vector{x}), known_storage));
  BOOST_TEST(*values[0] == 1);
  BOOST_TEST(*values[1] == 2);
  for (size_t i = 2; i < 5; ++i) BOOST_TEST((values[i] == values[1]));
}

BOOST_AUTO_TEST_CASE(an_output_that_is_fed_back_keeps_its_storage, *boost::unit_test::label("RG-02")) {
  std::vector<UOp> held;
  Jit f = jit([&](const JitInputs& in) {
    UOp out = realized(plus(in.inputs[0].storage, 1));
    held = {contiguous_storage(out)};
    return out;
  });
  UOp x = stored({1});
  for (int i = 0; i < 2; ++i) f.call(whole_inputs(std::vector{stored({0})}), known_storage, holding(held));
  UOp out = held[0];
  uint64_t storage = buffer_of(out)->id();
  x = out;
  for (int i = 0; i < 4; ++i) x = contiguous_storage(f.call(whole_inputs(std::vector{x}), known_storage));
  BOOST_TEST((read(out) == Floats{5}));
  f.call(whole_inputs(std::vector{stored({41})}), known_storage);
  BOOST_TEST((read(out) == Floats{42}));
  BOOST_TEST(buffer_of(out)->id() == storage);
  BOOST_TEST(std::get<BufferRef>(f.replay()->binding().buffer_of_node(out))->id() == storage);
}

BOOST_AUTO_TEST_CASE(settings_between_calls_and_captures_alone, *boost::unit_test::label("RG-08")) {
  int runs = 0;
  std::vector<UOp> held;
  Jit f = jit([&](const JitInputs& in) {
    ++runs;
    UOp out = realized(plus(in.inputs[0].storage, 1));
    held = {contiguous_storage(out)};
    return out;
  });
  auto result = [&](Jit& of, float value) {
    UOp in = stored({value});
    return read(of.call(whole_inputs(std::vector{in}), known_storage, holding(held)));
  };
  {
    Settings off([](Config& c) { c.jit = 0; });
    for (int i = 0; i < 3; ++i) BOOST_TEST((result(f, float(i)) == Floats{float(i + 1)}));
  }
  for (int i = 1; i <= 4; ++i) {
    BOOST_TEST((result(f, float(10 * i)) == Floats{float(10 * i + 1)}));
    BOOST_TEST((f.captured() != nullptr) == (i >= 2));
  }
  BOOST_TEST(runs == 5);
  Jit::Options options;
  options.captured = f.captured();
  Jit alone = Jit::create(options);
  Settings off([](Config& c) { c.jit = 0; });
  for (float value : {100.f, 200.f}) BOOST_TEST((result(alone, value) == Floats{value + 1}));
  BOOST_TEST(runs == 5);
}

BOOST_AUTO_TEST_CASE(a_variable_without_a_value, *boost::unit_test::label("SY-12")) {
  UOp n = variable("n", 1, 8), x = stored(Floats(8, 1));
  Jit f = jit([&](const JitInputs& in) {
    UOp part = shrink(x, {0}, {SInt(bind(n, in.var_vals.at("n")))});
    return realized(reduce_axis(Op::ADD, plus(part, 1), 1));
  });
  for (int64_t v : {3, 4}) f.call(whole_inputs({}, {{"n", v}}), known_storage);
  int64_t before = GlobalCounters::get().kernel_count;
  BOOST_TEST(
      contains(message_of<JitError>([&] { f.call(whole_inputs({}, {}), known_storage); }), "variable \"n\""));
  BOOST_TEST(contains(message_of<JitError>([&] { f.call(whole_inputs({}, {{"n", 9}}), known_storage); }),
                      "variable \"n\" is 9"));
  BOOST_TEST(GlobalCounters::get().kernel_count == before);
  BOOST_REQUIRE(f.captured()->variables().size() == 1);
  BOOST_TEST(f.captured()->variables()[0].max == 8);
}

BOOST_AUTO_TEST_CASE(prune_linear_divides_the_calls, *boost::unit_test::label("P-01")) {
  Device& device = tolk::device(kDevice);
  UOp x = stored({1, 2}), w = stored({3, 4});
  std::vector<UOp> calls;
  {
    CaptureScope scope([&](const UOp& recorded, const VarVals&) {
      for (const UOp& call : calls_of(recorded)) calls.push_back(call);
    });
    UOp a = realized(times(w, 2)), b = realized(plus(x, 1)), c = realized(plus(a, 3));
    realized(alu(Op::ADD, alu(Op::MUL, b, c), a));
  }
  BOOST_REQUIRE(calls.size() == 4);
  UOp compiled = compile_linear(device, {}, linear(calls));
  std::vector<UOp> needed{x};
  Pruned pruned = prune_linear(compiled, needed);
  BOOST_TEST((calls_of(pruned.once) == std::vector<UOp>{compiled.src(0), compiled.src(2)}));
  BOOST_TEST((calls_of(pruned.kept) == std::vector<UOp>{compiled.src(1), compiled.src(3)}));
  // The facts are the same before compilation.
  Pruned sinks = prune_linear(linear(calls), needed);
  BOOST_TEST((calls_of(sinks.once) == std::vector<UOp>{calls[0], calls[2]}));
}

// The set of written but unread storage is the storage with the role Written; updated storage is State.
BOOST_AUTO_TEST_CASE(what_is_written_without_being_read, *boost::unit_test::label("P-21")) {
  for (int graph : {0, 2}) { // one by one, and inside a batch
    Settings settings([&](Config& c) { c.graph = graph; });
    UOp state = stored({0, 0});
    std::vector<UOp> held;
    Jit f = jit([&](const JitInputs& in) {
      const UOp& x = in.inputs[0].storage;
      UOp out = realized(plus(x, 1));
      assign(state, alu(Op::ADD, state, x));
      held = {contiguous_storage(out)};
      return out;
    });
    for (float i : {1.f, 2.f})
      f.call(whole_inputs(std::vector{stored({i, i})}), known_storage, holding(held));
    BOOST_TEST(std::ranges::any_of(f.captured()->linear().src(), is_graph_call) == (graph == 2));
    std::map<uint64_t, StorageRole> roles;
    for (const JitStorage& s : f.captured()->storage()) roles[s.node.id()] = s.role;
    BOOST_TEST((roles.at(held[0].id()) == StorageRole::Written));
    BOOST_TEST((roles.at(state.id()) == StorageRole::State));
  }
}

BOOST_AUTO_TEST_CASE(a_state_that_nobody_lists_is_found_when_it_is_referred_to) {
  // hold_reachable: the two results have handles outside of the schedules, what is between them has none.
  Jit::Options options;
  UOp first;
  options.function = [&](const JitInputs& in) {
    first = realized(plus(in.inputs[0].storage, 1));
    UOp lost = realized(times(first, 2));
    return realized(plus(lost, 3));
  };
  options.hold_reachable = true;
  Jit f = Jit::create(options);
  UOp x = stored({1, 2}), out;
  for (int i = 0; i < 2; ++i) out = f.call(whole_inputs(std::vector{x}), known_storage);
  std::vector<UOp> user;
  for (const UOp& b : storage_in(f.captured()->planned_linear(), Op::BUFFER))
    if (slot_of(b) >= 0 && std::find(user.begin(), user.end(), b) == user.end()) user.push_back(b);
  BOOST_TEST((user == std::vector<UOp>{contiguous_storage(first), contiguous_storage(out)}));
  f.call(whole_inputs(std::vector{stored({5, 6})}), known_storage);
  BOOST_TEST((read(first) == Floats{6, 7}));
  BOOST_TEST((read(out) == Floats{15, 17}));
}

BOOST_AUTO_TEST_SUITE_END()
