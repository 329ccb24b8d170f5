// Compiling LINEARs, the program table and its caches: rows, R-37 (figures), RG-11, RG-12,
// BU-17.
#include <boost/test/unit_test.hpp>

#include "engine_support.h"
#include "test_backend.h"
#include "test_kernels.h"
#include "tolk/base/config.h"
#include "tolk/base/error.h"
#include "tolk/engine/run/realize.h"
#include "tolk/engine/run/run_linear.h"

using namespace tolk;
using namespace tolk::engine;
using namespace tolk::test;

namespace {

UOp compiled_by(CountingCompiler& stub, const std::string& ambient, std::vector<UOp> calls) {
  return compile_linear(device(ambient), stub.function(), linear_of(std::move(calls)));
}

} // namespace

BOOST_AUTO_TEST_CASE(sinks_become_programs, *boost::unit_test::label("R-15")) {
  clear_caches();
  CountingCompiler stub;
  UOp out = new_ints(4, "INTERP"), in = new_ints(4, "INTERP"), n = bind(variable("n", 1, 9), 3);
  UOp linear = linear_of({call_of(add_sink(4, 1), {out, in, n})});
  UOp compiled = compile_linear(device("INTERP"), stub.function(), linear);
  BOOST_TEST(stub.calls == 1);
  const UOp& call = compiled.src(0);
  BOOST_REQUIRE(call.src(0).is(Op::PROGRAM));
  BOOST_TEST((call.src(0).src(0) == add_sink(4, 1)));
  // What other designs keep as SOURCE and BINARY children are fields of the entry.
  const ProgramEntry& entry = program_entry(call.src(0));
  BOOST_TEST((!entry.binary.empty() && entry.device == "INTERP" && !entry.info.name.empty()));
  BOOST_TEST((entry.info.outs == std::vector<int>{0} && entry.info.ins == std::vector<int>{1}));
  BOOST_TEST((call.nsrc() == 4 && call.src(1) == out && call.src(2) == in && call.src(3) == n));
  // Idempotent; the ambient compiler is not asked again.
  BOOST_TEST((compile_linear(device("INTERP"), stub.function(), compiled) == compiled));
  BOOST_TEST(stub.calls == 1);
  BOOST_TEST(
      contains(message_of<InvalidArgument>([&] { compile_linear(device("INTERP"), {}, add_sink(4, 1)); }),
               "expected LINEAR"));
#ifdef TOLK_TEST_HAS_CPU
  // Where the device takes source text; and the compiled program computes what the SINK says.
  UOp in_text = int_storage({1, 2, 3, 4}, "CPU"), out_text = new_ints(4, "CPU");
  UOp with_text = compile_linear(device("CPU"), stub.function(), linear_of({add_call(out_text, in_text, 7)}));
  BOOST_TEST(stub.calls == 2);
  const UOp& text_call = with_text.src(0);
  BOOST_REQUIRE(text_call.src(0).is(Op::PROGRAM));
  BOOST_TEST((text_call.src(0).src(0) == add_sink(4, 7)));
  const ProgramEntry& source = program_entry(text_call.src(0));
  BOOST_TEST((!source.binary.empty() && source.device == "CPU"));
  BOOST_TEST(source.binary.find(source.info.name) != std::string::npos); // a symbol of the object file
  BOOST_TEST((text_call.nsrc() == 3 && text_call.src(1) == out_text && text_call.src(2) == in_text));
  BufferBinding binding(device("CPU"));
  run_linear(binding, with_text);
  BOOST_TEST((ints_of(out_text) == std::vector<int32_t>{8, 9, 10, 11}));
#endif
}

BOOST_AUTO_TEST_CASE(other_calls_stay_as_they_are, *boost::unit_test::label("R-16")) {
  clear_caches();
  CountingCompiler stub;
  UOp a = new_ints(4, "INTERP"), b = new_ints(4, "INTERP"), v = new_ints(2, "INTERP");
  UOp slice = view_call(v, a, 4, 2), copy = copy_call(b, a);
  UOp program = compiled_by(stub, "INTERP", {add_call(b, a, 1)}).src(0);
  UOp compiled = compiled_by(stub, "INTERP", {slice, copy, program});
  BOOST_TEST((compiled.src(0) == slice && compiled.src(1) == copy && compiled.src(2) == program));
  // Nested LINEARs are spliced.
  UOp nested =
      compile_linear(device("INTERP"), stub.function(), linear_of({slice, linear_of({copy, program})}));
  BOOST_TEST((nested.nsrc() == 3 && nested.src(1) == copy && nested.src(2) == program));
  BOOST_TEST(stub.calls == 1);
}

BOOST_AUTO_TEST_CASE(programs_are_kept_by_meaning_and_device, *boost::unit_test::label("R-17")) {
  clear_caches();
  CountingCompiler stub;
  UOp a = new_ints(4, "INTERP:1"), b = new_ints(4, "INTERP:1"), c = new_ints(4, "INTERP:2"),
      d = new_ints(4, "INTERP:2");
  // Names and other diagnostics are no part of a kernel.
  UOp compiled = compiled_by(stub, "INTERP:1", {add_call(a, b, 1), add_call(a, b, 1, "a name")});
  BOOST_TEST(stub.calls == 1);
  BOOST_TEST((compiled.src(0).src(0) == compiled.src(1).src(0)));
  compiled_by(stub, "INTERP:1", {add_call(b, a, 1, "another")});
  BOOST_TEST(stub.calls == 1);
  // Each device is asked for by its exact name.
  compiled_by(stub, "INTERP:1", {add_call(c, d, 1)});
  BOOST_TEST((stub.devices == std::vector<std::string>{"INTERP:1", "INTERP:2"}));
  CacheStats stats = cache_stats();
  BOOST_TEST((stats.program_misses == 2U && stats.program_hits == 2U));
  clear_caches();
  compiled_by(stub, "INTERP:1", {add_call(a, b, 1)});
  BOOST_TEST(stub.calls == 3);
}

BOOST_AUTO_TEST_CASE(a_beam_width_reaches_the_compiler_and_the_key) {
  clear_caches();
  CountingCompiler stub;
  UOp a = new_ints(4, "INTERP"), b = new_ints(4, "INTERP");
  UOp linear = linear_of({add_call(a, b, 1)});
  compile_linear(device("INTERP"), stub.function(), linear);
  compile_linear(device("INTERP"), stub.function(), linear, 4);
  compile_linear(device("INTERP"), stub.function(), linear, 4);
  BOOST_REQUIRE(stub.calls == 2);
  BOOST_TEST((beam_of(stub.sinks[0]) == 0 && beam_of(stub.sinks[1]) == 4));
  // A kernel's own width stays.
  compile_linear(device("INTERP"), stub.function(),
                 linear_of({call_of(with_beam(add_sink(4, 1), 2), {a, b})}), 4);
  BOOST_TEST(beam_of(stub.sinks.back()) == 2);
  // Nothing given: BEAM.
  Config wide = Config::current();
  wide.beam = 3;
  ScopedConfig scope(wide);
  compile_linear(device("INTERP"), stub.function(), linear);
  BOOST_TEST(beam_of(stub.sinks.back()) == 3);
}

BOOST_AUTO_TEST_CASE(what_to_program_returns_is_checked) {
  clear_caches();
  UOp a = new_ints(4, "INTERP"), b = new_ints(4, "INTERP");
  UOp linear = linear_of({add_call(a, b, 77)});
  BOOST_TEST(contains(message_of<InvalidArgument>([&] {
                        compile_linear(
                            device("INTERP"), [](Device&, const UOp& sink, bool) { return sink; }, linear);
                      }),
                      "to_program returned SINK"));
  auto no_code = [](Device& d, const UOp& sink, bool) {
    ProgramEntry entry;
    entry.sink = sink, entry.device = d.name();
    return program_node(entry);
  };
  BOOST_TEST(contains(message_of<InvalidArgument>([&] { compile_linear(device("INTERP"), no_code, linear); }),
                      "to_program returned PROGRAM"));
  BOOST_TEST(contains(message_of<InvalidArgument>([&] {
                        get_runtime(device("INTERP"), no_code(device("INTERP"), add_sink(4, 77), false));
                      }),
                      "PROGRAM is missing its compiled binary"));
}

BOOST_AUTO_TEST_CASE(a_kernel_that_fails_leaves_its_siblings) {
  clear_caches();
  UOp a = new_ints(4, "INTERP"), b = new_ints(4, "INTERP");
  UOp linear = linear_of({add_call(a, b, 1), add_call(a, b, 2), add_call(a, b, 3)});
  int calls = 0;
  bool broken = true;
  auto make_program = [&](Device& d, const UOp& sink, bool alias) {
    ++calls;
    if (broken && calls >= 2) throw CompileError("kernel number " + std::to_string(calls));
    return to_program(d, sink, alias);
  };
  BOOST_TEST(
      contains(message_of<CompileError>([&] { compile_linear(device("INTERP"), make_program, linear); }),
               "kernel number 2")); // the first in the order of the calls
  broken = false, calls = 0;
  compile_linear(device("INTERP"), make_program, linear);
  BOOST_TEST(calls == 2);
}

BOOST_AUTO_TEST_CASE(equal_programs_are_one_node) {
  Device& d = device("INTERP");
  UOp a = to_program(d, add_sink(6, 1), false), b = to_program(d, add_sink(6, 1), false);
  BOOST_TEST((a == b));
  BOOST_TEST((to_program(d, add_sink(6, 1), true) != a));
  BOOST_TEST((to_program(device("INTERP:1"), add_sink(6, 1), false) != a));
  BOOST_TEST(contains(message_of<InvalidArgument>([&] { program_entry(add_sink(6, 1)); }), "PROGRAM"));
}

BOOST_AUTO_TEST_CASE(the_program_table_forgets_what_no_node_holds) {
  clear_caches();
  size_t before = program_table_size();
  {
    UOp kept = compile_kernel(device("INTERP"), {}, add_sink(123, 1), false);
    BOOST_TEST(program_table_size() == before + 1);
    clear_caches();
    BOOST_TEST(program_table_size() == before + 1); // the node is alive
    BOOST_TEST(program_entry(kept).info.outs.size() == 1U);
  }
  clear_caches();
  BOOST_TEST(program_table_size() == before);
}

BOOST_AUTO_TEST_CASE(every_kernel_is_compiled_for_its_own_device, *boost::unit_test::label("RG-11")) {
  TestBackend &x = tb(), &y = tb("YDEV");
  x.reset(), y.reset();
  clear_caches();
  std::string on_x = x.open_name(), on_y = y.open_name();
  UOp a = int_storage({1, 2, 3, 4}, on_x), b = new_ints(4, on_x), c = new_ints(4, on_y),
      d = new_ints(4, on_y);
  CountingCompiler stub;
  UOp linear = linear_of({add_call(b, a, 10), copy_call(c, b), add_call(d, c, 100)});
  BufferBinding binding(device(on_x));
  run_linear(device(on_x), stub.function(), binding, linear);
  BOOST_TEST((stub.devices == std::vector<std::string>{on_x, on_y}));
  BOOST_TEST((x.counters().launches == 1U && y.counters().launches == 1U));
  BOOST_TEST((ints_of(d) == std::vector<int32_t>{111, 112, 113, 114}));
}

BOOST_AUTO_TEST_CASE(settings_that_change_code_are_part_of_the_key, *boost::unit_test::label("RG-12")) {
  clear_caches();
  // A matrix product: its loops look different when it is not optimised. NULL has the vectors of a CPU.
  UOp a = param_node(1, DType::F32, 64 * 64), b = param_node(2, DType::F32, 64 * 64),
      c = param_node(0, DType::F32, 64 * 64);
  UOp i = range_node(64, 0, AxisType::Loop), j = range_node(64, 1, AxisType::Loop),
      k = range_node(64, 2, AxisType::Reduce);
  UOp product = alu(Op::MUL, load(a, i * 64 + k), load(b, k * 64 + j));
  UOp sum = reduce(Op::ADD, product, std::span(&k, 1));
  std::vector<UOp> loops = {i, j};
  UOp effect = end(store(c, i * 64 + j, sum), loops);
  UOp sink = kernel_sink(std::span(&effect, 1));
  UOp optimised = compile_kernel(device("NULL"), {}, sink, false);
  Config plain = Config::current();
  plain.no_opt = 1;
  UOp simple;
  {
    ScopedConfig scope(plain);
    simple = compile_kernel(device("NULL"), {}, sink, false);
  }
  BOOST_TEST((simple != optimised));
  BOOST_TEST((print(program_entry(simple).kernel->ir) != print(program_entry(optimised).kernel->ir)));
  BOOST_TEST((compile_kernel(device("NULL"), {}, sink, false) == optimised));
}

BOOST_AUTO_TEST_CASE(equal_methods_need_no_compiler_again, *boost::unit_test::label("BU-17")) {
  TestBackend& x = tb();
  x.reset();
  clear_caches();
  std::string where = x.open_name();
  auto sum = [&](const UOp& p, const UOp& q) {
    UOp s = alu(Op::ADD, p, q);
    return realize(std::span(&s, 1), where)[0];
  };
  UOp a = int_storage({1, 2, 3}, where), b = int_storage({10, 20, 30}, where);
  BOOST_TEST((ints_of(contiguous_storage(sum(a, b))) == std::vector<int32_t>{11, 22, 33}));
  Config no_disk = Config::current();
  no_disk.compile_cache = 0;
  ScopedConfig scope(no_disk);
  x.fail_compile("the compiler is switched off");
  uint64_t compiles = x.counters().compile;
  UOp c = int_storage({100, 200, 300}, where), d = int_storage({7, 8, 9}, where);
  BOOST_TEST((ints_of(contiguous_storage(sum(c, d))) == std::vector<int32_t>{107, 208, 309}));
  BOOST_TEST((ints_of(contiguous_storage(sum(d, c))) == std::vector<int32_t>{107, 208, 309}));
  UOp nested = sum(sum(a, b), sum(b, a));
  BOOST_TEST((ints_of(contiguous_storage(nested)) == std::vector<int32_t>{22, 44, 66}));
  BOOST_TEST(x.counters().compile == compiles);
  // The switch works: another kernel cannot be compiled.
  UOp other = alu(Op::MUL, a, b);
  BOOST_TEST(
      contains(message_of<CompileError>([&] { realize(std::span(&other, 1), where); }), "switched off"));
  x.reset();
}
