// The verifier accepts graphs as the stages make them, and refuses every single-field change of them by the
// right rule.
#include <boost/test/unit_test.hpp>

#include <functional>

#include "tolk/base/error.h"
#include "tolk/uop/build.h"
#include "tolk/uop/spec.h"
#include "tolk/uop/traverse.h"

using namespace tolk;

namespace {

std::string verdict(const UOp& root, Stage stage) {
  try {
    verify(root, stage);
  } catch (const InternalError& e) {
    return e.what();
  }
  return "accepted";
}

void accepted(const UOp& root, Stage stage) { BOOST_TEST(verdict(root, stage) == "accepted"); }
void refused(const UOp& root, Stage stage, const std::string& rule) {
  std::string text = verdict(root, stage);
  BOOST_TEST(text.find("the rule " + rule + ":") != std::string::npos,
             "wanted " << rule << ", got: " << text);
}

UOp with(const UOp& u, size_t i, const UOp& source) {
  std::vector<UOp> src(u.src().begin(), u.src().end());
  src[i] = source;
  return with_sources(u, src);
}
UOp as(const UOp& u, DType dtype) { return make(u.op(), dtype, u.src(), u.arg(), u.lanes()); }
UOp argued(const UOp& u, Arg arg) { return make(u.op(), u.dtype(), u.src(), std::move(arg), u.lanes()); }
UOp laned(const UOp& u, int lanes) { return make(u.op(), u.dtype(), u.src(), u.arg(), lanes); }

UOp f32(double v) { return constant(DType::F32, v); }

// out[l] = 2 * sum over r of a[l*8 + r] where r < 5
struct Kernel {
  UOp l = range_node(4, 0, AxisType::Loop), r = range_node(8, 1, AxisType::Reduce);
  UOp out = param_node(0, DType::F32, 4), a = param_node(1, DType::F32, 32);
  UOp index = l * 8 + r, gate = less(r, index_const(5));
  UOp value = load(a, index, gate);
  UOp sum = reduce(Op::ADD, value, std::vector<UOp>{r});
  UOp scaled = alu(Op::MUL, sum, f32(2.0));
  UOp stored = store(out, l, scaled);
  UOp ended = end(stored, std::vector<UOp>{l});

  UOp root(const UOp& effect) const { return kernel_sink(std::vector<UOp>{effect}); }
  UOp root() const { return root(ended); }
  // The kernel with one node replaced.
  UOp swapped(const UOp& from, const UOp& to) const { return substitute(root(), {{from, to}}); }
};

struct Tensors {
  UOp x = reshape(buffer_node(1, DType::F32, 48, "CPU"), {4, 12}),
      w = reshape(buffer_node(2, DType::F32, 12, "CPU"), {1, 12});
  UOp product = alu(Op::MUL, x, expand(w, {4, 12}));
  UOp sum = reduce_axis(Op::ADD, product, 2);
  UOp target = buffer_node(3, DType::F32, 4, "CPU");
  UOp stored = store_to(target, reshape(sum, {4}));
  UOp result = after(target, std::vector<UOp>{stored});
  UOp root() const { return sink(std::vector<UOp>{result}); }
};

UOp linear_of(const UOp& body, const std::vector<UOp>& arguments) {
  return linear(std::vector<UOp>{call(body, arguments)});
}

// As codegen leaves the kernel: integers, a register for the sum, four lanes at a time.
struct LoweredKernel {
  UOp four = constant(DType::I32, 4), l = range_node(four, 0, AxisType::Loop),
      r = range_node(constant(DType::I32, 2), 1, AxisType::Reduce);
  UOp out = param_node(0, DType::F32, 4), a = param_node(1, DType::F32, 32);
  UOp reg = make(Op::DEFINE_REG, DType::F32, {}, Arg({0, 1}, {}));
  UOp zero = constant(DType::I32, 0);
  UOp start = store(reg, zero, f32(0.0));
  UOp fresh = after(reg, std::vector<UOp>{start});
  UOp vector =
      load(a, alu(Op::ADD, alu(Op::MUL, l, constant(DType::I32, 8)), alu(Op::MUL, r, four)), {}, {}, 4);
  UOp doubled = alu(Op::MUL, vector, make(Op::SPLAT, DType::F32, {f32(2.0)}, {}, 4));
  UOp lane = make(Op::EXTRACT, DType::F32, {doubled}, Arg(3));
  UOp add = store(reg, zero, alu(Op::ADD, load(fresh, zero), lane));
  UOp loop = end(add, std::vector<UOp>{r});
  UOp done = after(reg, std::vector<UOp>{loop});
  UOp stored = store(out, l, load(done, zero));
  UOp root(const UOp& effect) const { return kernel_sink(std::vector<UOp>{effect}); }
  UOp root() const { return root(end(stored, std::vector<UOp>{l})); }
  UOp swapped(const UOp& from, const UOp& to) const { return substitute(root(), {{from, to}}); }
};

} // namespace

BOOST_AUTO_TEST_CASE(what_the_stages_make_is_accepted) {
  accepted(Kernel().root(), Stage::Kernel);
  accepted(Tensors().root(), Stage::TensorGraph);
  accepted(LoweredKernel().root(), Stage::Lowered);
  std::vector<UOp> arguments{buffer_node(3, DType::F32, 4, "CPU"),
                             slice_node(buffer_node(1, DType::F32, 48, "CPU"), DType::F32, 16, 32)};
  accepted(linear_of(Kernel().root(), arguments), Stage::KernelGraph);
  UOp copy = make(Op::COPY, DType::F32, {param_node(1, DType::F32, 32)}, Arg({}, {"CPU:1"}));
  accepted(linear_of(copy, {buffer_node(3, DType::F32, 32, "CPU:1"), buffer_node(1, DType::F32, 32, "CPU")}),
           Stage::KernelGraph);
  // A scalar kernel has no loop.
  UOp p = param_node(0, DType::F32, 1);
  accepted(kernel_sink(std::vector<UOp>{store(p, index_const(0), f32(1.0))}), Stage::Kernel);
  // A symbolic loop.
  UOp n = variable("n", 1, 16), l = range_node(n, 0, AxisType::Loop);
  accepted(kernel_sink(
               std::vector<UOp>{end(store(param_node(0, DType::F32, 16), l, f32(1.0)), std::vector<UOp>{l})}),
           Stage::Kernel);
}

BOOST_AUTO_TEST_CASE(forms_of_every_stage_are_held) {
  Kernel k;
  refused(k.swapped(k.scaled, as(k.scaled, DType::F64)), Stage::Kernel, "same_dtypes");
  refused(k.swapped(k.scaled, laned(k.scaled, 4)), Stage::Kernel, "elementwise_lanes");
  refused(k.swapped(k.scaled, argued(k.scaled, Arg(1))), Stage::Kernel, "elementwise_arg");
  refused(k.swapped(k.scaled, make(Op::AND, DType::F32, k.scaled.src())), Stage::Kernel, "no_float_bits");
  refused(k.swapped(k.scaled, make(Op::FLOORDIV, DType::F32, k.scaled.src())), Stage::Kernel, "integer_only");
  refused(k.swapped(k.scaled, make(Op::ADD, DType::F32, {k.sum, k.index})), Stage::Kernel, "same_dtypes");
  refused(k.swapped(k.scaled, cast(make(Op::SQRT, DType::Index, {k.l}), DType::F32)), Stage::Kernel,
          "float_only");
  refused(k.swapped(k.gate, as(k.gate, DType::I32)), Stage::Kernel, "comparison_dtypes");
  refused(k.swapped(k.scaled, make(Op::WHERE, DType::F32, {k.sum, k.sum, k.sum})), Stage::Kernel,
          "where_dtypes");
  refused(k.swapped(k.scaled, make(Op::BITCAST, DType::F32, {constant(DType::F64, 1.0)})), Stage::Kernel,
          "bitcast_dtypes");
  refused(k.swapped(f32(2.0), make(Op::CONST, DType::F32, {}, Arg(0x3FB999999999999Aull))), Stage::Kernel,
          "const_value"); // 0.1 as a double
  refused(k.swapped(k.r, with(k.r, 0, constant(DType::I32, 8))), Stage::Kernel, "range_form");
  refused(k.swapped(k.a, argued(k.a, Arg({1, -32}, {""}))), Stage::Kernel, "storage_form");
  refused(k.swapped(k.a, argued(k.a, Arg(std::vector<int64_t>{1, 32}))), Stage::Kernel, "storage_device");
}

BOOST_AUTO_TEST_CASE(kernels_close_every_loop_exactly_once) {
  Kernel k;
  refused(k.root(k.stored), Stage::Kernel, "all_closed");
  refused(k.swapped(k.sum, k.value), Stage::Kernel, "all_closed");
  refused(k.root(end(k.ended, std::vector<UOp>{k.l})), Stage::Kernel, "closed_once");
  refused(k.root(end(k.stored, std::vector<UOp>{k.l, k.r})), Stage::Kernel, "closed_once");
  refused(k.swapped(k.sum, reduce(Op::ADD, k.value, std::vector<UOp>{k.r, k.r})), Stage::Kernel,
          "closed_once");
  refused(k.swapped(k.sum, reduce(Op::ADD, k.sum, std::vector<UOp>{k.r})), Stage::Kernel, "closed_once");
  UOp other = range_node(4, 7, AxisType::Loop);
  refused(k.root(end(k.stored, std::vector<UOp>{k.l, other})), Stage::Kernel, "closes_open_loops");
  refused(k.root(end(store(k.out, k.l, alu(Op::ADD, k.sum, k.value)), std::vector<UOp>{k.l})), Stage::Kernel,
          "used_inside");
  refused(k.swapped(k.r, range_node(8, 0, AxisType::Reduce)), Stage::Kernel, "unique_axes");
  refused(k.swapped(k.sum, alu(Op::ADD, k.sum, load(param_node(1, DType::F32, 33), k.l))), Stage::Kernel,
          "unique_parameters");
  refused(k.swapped(k.l, range_node(1, 0, AxisType::Loop)), Stage::Kernel, "real_loop");
  refused(k.root(with(k.ended, 1, k.index)), Stage::Kernel, "closes_ranges");
  // Two reductions over one loop are fine.
  UOp twice = alu(Op::ADD, k.sum, reduce(Op::MAX, k.value, std::vector<UOp>{k.r}));
  accepted(k.swapped(k.sum, twice), Stage::Kernel);
}

BOOST_AUTO_TEST_CASE(loops_are_index_and_not_beyond_count) {
  Kernel k;
  UOp narrow = range_node(constant(DType::I32, 4), 0, AxisType::Loop);
  refused(k.root(end(store(k.out, index_const(0), f32(1.0)), std::vector<UOp>{narrow})), Stage::Kernel,
          "loop_dtype");
  refused(k.root(end(k.ended, std::vector<UOp>{range_node(4, 9, AxisType::Loop)})), Stage::Kernel,
          "closes_open_loops");
  refused(k.root(make(Op::END, DType::Void, {k.scaled, k.l})), Stage::Kernel, "end_form");
  for (int count : {256, 257}) {
    UOp index = index_const(0);
    std::vector<UOp> loops;
    for (int i = 0; i < count; ++i)
      loops.push_back(range_node(2, i, AxisType::Loop)), index = index + loops[size_t(i)];
    UOp root = k.root(end(store(param_node(0, DType::F32, 1000), index, f32(1.0)), loops));
    if (count == 256)
      accepted(root, Stage::Kernel);
    else
      refused(root, Stage::Kernel, "loop_count");
  }
}

BOOST_AUTO_TEST_CASE(values_and_effects_are_not_mixed_up) {
  Kernel k;
  refused(k.swapped(k.scaled, make(Op::NEG, DType::F32, {k.stored})), Stage::Kernel, "elementwise_values");
  refused(k.swapped(k.index, k.index + make(Op::VAR, DType::Index, {}, Arg({3, 2, 1}, {"n"}))), Stage::Kernel,
          "var_form");
  refused(k.swapped(k.index, k.index + make(Op::VAR, DType::Index, {}, Arg({1, 2, 1}))), Stage::Kernel,
          "var_form");
  UOp u32 = constant(DType::U32, 1);
  refused(k.swapped(k.scaled, cast(make(Op::THREEFRY, DType::U32, {u32, u32}), DType::F32)), Stage::Kernel,
          "threefry_dtype");
  Tensors t;
  auto root = [&](const UOp& from, const UOp& to) { return substitute(t.root(), {{from, to}}); };
  refused(root(t.x, reshape(make(Op::IOTA, DType::F32, {constant(DType::I32, 48)}), {4, 12})),
          Stage::TensorGraph, "iota_size");
  refused(root(t.x, make(Op::FLIP, DType::Index, {index_const(3)}, Arg(1))), Stage::TensorGraph,
          "moves_values");
  UOp out = buffer_node(3, DType::F32, 4, "CPU"), in = buffer_node(1, DType::F32, 32, "CPU");
  UOp good = linear_of(k.root(), {out, in});
  refused(linear(std::vector<UOp>{as(good.src(0), DType::F32)}), Stage::KernelGraph, "effect_dtype");
  refused(linear_of(k.root(), {out, in, alu(Op::NEG, f32(1.0))}), Stage::KernelGraph, "call_arguments");
  refused(linear_of(k.root(), {out, make(Op::SLICE, DType::F32, {alu(Op::NEG, f32(1.0))}, Arg({0, 32}, {}))}),
          Stage::KernelGraph, "index_only");
  LoweredKernel l;
  refused(l.swapped(l.a, laned(l.a, 4)), Stage::Lowered, "storage_form");
  refused(l.swapped(l.four, laned(make(Op::VAR, DType::I32, {}, Arg({1, 4, 1}, {"n"})), 2)), Stage::Lowered,
          "storage_lanes");
}

// Arguments of calls inside arguments of calls are of the same stage, their bodies are not.
BOOST_AUTO_TEST_CASE(calls_nest_in_graphs_of_tensors) {
  Kernel k;
  UOp in = buffer_node(1, DType::F32, 32, "CPU"), mid = buffer_node(4, DType::F32, 4, "CPU"),
      out = buffer_node(3, DType::F32, 4, "CPU");
  auto called = [&](const UOp& body, const UOp& argument) {
    UOp first = after(mid, std::vector<UOp>{call(body, std::vector<UOp>{mid, argument})});
    UOp whole = reshape(expand(reshape(first, {1, 4}), {8, 4}), {32});
    UOp second = call(k.root(), std::vector<UOp>{out, whole});
    return sink(std::vector<UOp>{after(out, std::vector<UOp>{second})});
  };
  accepted(called(k.root(), in), Stage::TensorGraph);
  refused(called(k.root(k.stored), in), Stage::TensorGraph, "all_closed");
  refused(called(k.root(), k.l), Stage::TensorGraph, "admitted_ops");
  // A function of tensors is a body, too.
  UOp p = param_node(0, DType::F32, 4);
  UOp function = sink(std::vector<UOp>{after(p, std::vector<UOp>{store_to(p, reshape(Tensors().sum, {4}))})});
  accepted(called(function, in), Stage::TensorGraph);
}

BOOST_AUTO_TEST_CASE(kernels_have_well_formed_memory_accesses) {
  Kernel k;
  refused(k.swapped(k.value, as(k.value, DType::F64)), Stage::Kernel, "load_form");
  refused(k.swapped(k.value, with(k.value, 0, k.index)), Stage::Kernel, "load_form");
  refused(k.swapped(k.value, with(k.value, 2, k.r)), Stage::Kernel, "load_form");
  refused(k.swapped(k.value, load(k.a, k.index, k.gate, constant(DType::F64, 0.0))), Stage::Kernel,
          "load_form");
  refused(k.swapped(k.value, with(k.value, 1, cast(k.index, DType::I32))), Stage::Kernel, "access_index");
  refused(k.swapped(k.value, load(k.a, k.index + 32)), Stage::Kernel, "access_bounds");
  refused(k.swapped(k.value, load(k.a, k.index - 99)), Stage::Kernel, "access_bounds");
  refused(k.root(end(with(k.stored, 2, k.l), std::vector<UOp>{k.l})), Stage::Kernel, "store_form");
  refused(k.root(end(store(k.out, k.l, k.scaled, k.l), std::vector<UOp>{k.l})), Stage::Kernel, "store_form");
  refused(k.root(end(store_to(k.out, k.scaled), std::vector<UOp>{k.l})), Stage::Kernel, "store_form");
  refused(k.root(as(k.ended, DType::F32)), Stage::Kernel, "effect_dtype");
  refused(k.swapped(k.sum, as(k.sum, DType::F64)), Stage::Kernel, "reduce_form");
  refused(k.swapped(k.sum, argued(k.sum, Arg(uint64_t(Op::SUB) << 56))), Stage::Kernel, "reduce_form");
  refused(sink(std::vector<UOp>{k.ended}), Stage::Kernel, "kernel_root");
  refused(k.root(k.scaled), Stage::Kernel, "holds_effects");
  refused(k.ended, Stage::Kernel, "root");
  refused(k.swapped(k.a, buffer_node(1, DType::F32, 32, "CPU")), Stage::Kernel, "admitted_ops");
  refused(k.swapped(k.value, reshape(k.a, {4, 8})), Stage::Kernel, "admitted_ops");
}

BOOST_AUTO_TEST_CASE(tensor_graphs_obey_the_shape_rules) {
  Tensors t;
  auto root = [&](const UOp& from, const UOp& to) { return substitute(t.root(), {{from, to}}); };
  UOp expanded = t.product.src(1);
  refused(root(t.product, with(t.product, 1, t.w)), Stage::TensorGraph, "shapes_meet");
  refused(root(expanded, with(expanded, 2, index_const(13))), Stage::TensorGraph, "expand_form");
  refused(root(t.x, with(t.x, 2, index_const(13))), Stage::TensorGraph, "reshape_form");
  refused(root(t.x, with(t.x, 2, constant(DType::I32, 12))), Stage::TensorGraph, "dims_are_index");
  refused(root(t.x, as(t.x, DType::I32)), Stage::TensorGraph, "keeps_dtype");
  refused(root(t.sum, argued(t.sum, Arg(uint64_t(Op::ADD) << 56 | 4))), Stage::TensorGraph, "axis_mask");
  refused(root(t.sum, argued(t.sum, Arg(uint64_t(Op::FDIV) << 56 | 2))), Stage::TensorGraph, "reduce_op");
  refused(root(t.stored, with(t.stored, 1, t.x)), Stage::TensorGraph, "store_form");
  refused(root(t.result, with(t.result, 1, t.x)), Stage::TensorGraph, "after_form");
  refused(root(t.x, make(Op::PERMUTE, DType::F32, {t.x}, Arg({0, 0}, {}))), Stage::TensorGraph,
          "permute_form");
  refused(root(t.x, make(Op::PAD, DType::F32, {t.x, index_const(0), index_const(0)})), Stage::TensorGraph,
          "pad_form");
  refused(root(t.x, make(Op::SHRINK, DType::F32,
                         {t.x, index_const(0), index_const(3), index_const(4), index_const(12)})),
          Stage::TensorGraph, "shrink_form");
  refused(root(t.x, make(Op::WINDOW, DType::F32, {t.x, index_const(4), index_const(13)}, Arg({1, 1, 1}, {}))),
          Stage::TensorGraph, "window_form");
  refused(root(t.x, make(Op::GATHER, DType::F32, {t.x, t.x}, Arg(0))), Stage::TensorGraph, "gather_form");
  refused(root(t.x, make(Op::FLIP, DType::F32, {t.x}, Arg(8))), Stage::TensorGraph, "axis_mask");
  refused(root(t.x, load(param_node(1, DType::F32, 4), index_const(0))), Stage::TensorGraph, "admitted_ops");
  UOp n = variable("n", 1, 8);
  refused(root(t.x, make(Op::BIND, DType::Index, {n, index_const(9)})), Stage::TensorGraph, "bind_form");
  refused(make(Op::SINK, DType::Void, {slice_node(t.target, DType::F32, 8, 3)}), Stage::TensorGraph,
          "slice_form");
}

BOOST_AUTO_TEST_CASE(kernel_graphs_are_lists_of_calls) {
  Kernel k;
  UOp out = buffer_node(3, DType::F32, 4, "CPU"), in = buffer_node(1, DType::F32, 32, "CPU");
  UOp good = linear_of(k.root(), {out, in});
  accepted(good, Stage::KernelGraph);
  refused(good.src(0), Stage::KernelGraph, "root");
  refused(linear(std::vector<UOp>{out}), Stage::KernelGraph, "only_calls");
  refused(linear_of(k.root(), {out}), Stage::KernelGraph, "call_parameters");
  refused(linear_of(k.root(), {out, buffer_node(1, DType::F64, 32, "CPU")}), Stage::KernelGraph,
          "call_parameters");
  refused(linear_of(k.root(), {out, reshape(in, {4, 8})}), Stage::KernelGraph, "call_arguments");
  refused(linear_of(in, {out, in}), Stage::KernelGraph, "call_body");
  refused(linear_of(make(Op::COPY, DType::F32, {k.a}, Arg({}, {"CPU"})), {out}), Stage::KernelGraph,
          "copy_call");
  // A kernel that is wrong inside is found from outside.
  refused(linear_of(k.root(k.stored), {out, in}), Stage::KernelGraph, "all_closed");
}

BOOST_AUTO_TEST_CASE(lowered_kernels_have_no_index_and_agreeing_lanes) {
  LoweredKernel k;
  refused(k.swapped(k.vector, load(k.a, k.vector.src(1), {}, {}, 2)), Stage::Lowered, "elementwise_lanes");
  refused(k.swapped(k.lane, make(Op::EXTRACT, DType::F32, {k.doubled}, Arg(4))), Stage::Lowered,
          "extract_form");
  refused(k.swapped(k.doubled.src(1), make(Op::SPLAT, DType::F32, {constant(DType::F64, 2.0)}, {}, 4)),
          Stage::Lowered, "splat_form");
  refused(k.swapped(k.doubled.src(1), make(Op::STACK, DType::F32, {f32(1), f32(1), f32(1)}, {}, 4)),
          Stage::Lowered, "stack_form");
  refused(k.swapped(k.vector.src(1), cast(index_const(3), DType::I32)), Stage::Lowered, "no_index");
  refused(k.swapped(k.lane, reduce(Op::ADD, k.lane, std::vector<UOp>{k.r})), Stage::Lowered, "admitted_ops");
  refused(k.swapped(k.vector.src(1), constant(DType::I32, 32)), Stage::Lowered, "access_bounds");
  UOp gate =
      make(Op::CMPLT, DType::BOOL,
           {make(Op::SPLAT, DType::I32, {k.l}, {}, 2), make(Op::SPLAT, DType::I32, {k.four}, {}, 2)}, {}, 2);
  refused(k.swapped(k.vector, load(k.a, k.vector.src(1), gate, {}, 4)), Stage::Lowered, "access_lanes");
  refused(Kernel().root(), Stage::Lowered, "no_index");
}

BOOST_AUTO_TEST_CASE(errors_name_the_stage_the_rule_and_the_node) {
  Kernel k;
  std::string text = verdict(k.swapped(k.value, as(k.value, DType::F64)), Stage::Kernel);
  for (const char* part : {"kernel", "load_form", "LOAD f64", "storage of its dtype"})
    BOOST_TEST(text.find(part) != std::string::npos, text);
}
