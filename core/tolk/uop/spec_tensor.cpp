// Rules of tensor graphs and of the LINEAR of calls that scheduling makes of them.
#include "tolk/uop/build.h"
#include "tolk/uop/spec_internal.h"
#include "tolk/uop/traverse.h"

namespace tolk::spec {
namespace {

size_t rank(const UOp& u) { return shape_of(u).size(); }

bool dims_are_index(const UOp& u) {
  for (size_t i = 1; i < u.nsrc(); ++i)
    if (u.src(i).dtype() != DType::Index || u.src(i).lanes() != 1) return false;
  return true;
}

bool keeps_dtype(const UOp& u) { return u.dtype() == u.src(0).dtype() && u.lanes() == 1; }

bool shapes_meet(const UOp& u) {
  const Shape& shape = shape_of(u);
  for (const UOp& s : u.src())
    if (!shape_of(s).empty() && !(shape_of(s) == shape)) return false;
  return true;
}

bool reshape_form(const UOp& u) {
  SInt before = numel(shape_of(u.src(0))), after = numel(shape_of(u));
  for (const SInt& d : shape_of(u))
    if (d.max() < 0) return false;
  return !before.is_const() || !after.is_const() || before == after;
}

bool expand_form(const UOp& u) {
  const Shape &from = shape_of(u.src(0)), &to = shape_of(u);
  if (from.size() != to.size()) return false;
  for (size_t i = 0; i < from.size(); ++i)
    if (!(from[i] == to[i]) && !(from[i] == 1)) return false;
  return true;
}

bool pad_form(const UOp& u) {
  if (u.nsrc() != 1 + 2 * rank(u.src(0))) return false;
  for (size_t i = 1; i < u.nsrc(); ++i)
    if (u.src(i).vmin() < 0) return false;
  return true;
}

bool shrink_form(const UOp& u) {
  const Shape& from = shape_of(u.src(0));
  if (u.nsrc() != 1 + 2 * from.size()) return false;
  for (size_t i = 0; i < from.size(); ++i) {
    const UOp &begin = u.src(1 + i), &size = u.src(1 + from.size() + i);
    if (begin.vmin() < 0 || size.vmin() < 0 || begin.vmin() + size.vmin() > from[i].max()) return false;
  }
  return true;
}

bool permute_form(const UOp& u) {
  uint64_t seen = 0;
  size_t n = rank(u.src(0));
  for (int64_t axis : u.arg().ints()) {
    if (axis < 0 || axis >= int64_t(n) || (seen >> axis & 1)) return false;
    seen |= uint64_t(1) << axis;
  }
  return u.arg().ints().size() == n;
}

bool mask_form(const UOp& u) {
  uint64_t mask = u.is(Op::FLIP) ? u.arg().word : reduce_axes(u);
  return mask != 0 && mask >> rank(u.src(0)) == 0;
}

bool window_form(const UOp& u) {
  if (u.arg().ints().size() != 3) return false;
  int64_t axis = u.arg().i(0), stride = u.arg().i(1), dilation = u.arg().i(2);
  const Shape& from = shape_of(u.src(0));
  if (axis < 0 || axis >= int64_t(from.size()) || stride < 1 || dilation < 1) return false;
  SInt out(u.src(1)), k(u.src(2));
  if (!out.is_const() || !k.is_const() || !from[size_t(axis)].is_const() || out == 0 || k == 0) return true;
  return (out.value() - 1) * stride + (k.value() - 1) * dilation < from[size_t(axis)].value();
}

bool gather_form(const UOp& u) {
  return u.dtype() == u.src(0).dtype() && is_int(u.src(1).dtype()) && u.src(1).dtype() != DType::Index &&
         u.arg().word < rank(u.src(0));
}

bool reduces(const UOp& u) { return OpSet(Op::ADD, Op::MUL, Op::MAX).has(reduce_op(u)); }

bool store_form(const UOp& u) {
  if (u.nsrc() != 2 || u.src(0).dtype() != u.src(1).dtype() || u.src(0).dtype() == DType::Index) return false;
  return shape_of(u.src(1)).empty() || shape_of(u.src(0)) == shape_of(u.src(1));
}

bool after_form(const UOp& u) {
  for (size_t i = 1; i < u.nsrc(); ++i)
    if (!u.src(i).is(ops::Effect | OpSet(Op::AFTER))) return false;
  return u.dtype() == u.src(0).dtype();
}

bool multi_form(const UOp& u) {
  return u.arg().ints().size() == 2 && multi_axis(u) >= 0 && size_t(multi_axis(u)) < rank(u.src(0)) &&
         multi_count(u) > 1;
}

bool equal_parts(const UOp& u) {
  for (const UOp& s : u.src())
    if (s.dtype() != u.dtype() || !(shape_of(s) == shape_of(u))) return false;
  return true;
}

bool is_tensor_value(const UOp& u) {
  return u.src(0).dtype() != DType::Index && u.src(0).dtype() != DType::Void;
}

bool effects_or_values(const UOp& u) { return u.dtype() == DType::Void; }

bool call_arguments(const UOp& u) {
  OpSet storage(Op::BUFFER, Op::PARAM, Op::SLICE, Op::MSELECT, Op::MSTACK), variables(Op::VAR, Op::BIND);
  for (size_t i = 1; i < u.nsrc(); ++i)
    if (!u.src(i).is(storage | variables)) return false;
  return true;
}

// Arguments that the kernel's parameters name, with their dtypes.
bool call_parameters(const UOp& u) {
  if (!u.src(0).is(Op::SINK)) return true;
  for (const UOp& p : toposort(u.src(0))) {
    if (!p.is(Op::PARAM)) continue;
    int64_t k = slot_of(p);
    if (k < 0 || uint64_t(k) + 1 >= u.nsrc() || u.src(size_t(k) + 1).dtype() != p.dtype()) return false;
  }
  return true;
}

bool copy_call(const UOp& u) {
  if (!u.src(0).is(Op::COPY)) return true;
  return u.nsrc() == 3;
}

bool only_calls(const UOp& u) {
  for (const UOp& s : u.src())
    if (!s.is(OpSet(Op::CALL, Op::LINEAR))) return false;
  return true;
}

} // namespace

const std::vector<Rule>& tensor_rules() {
  static const OpSet shaped(Op::RESHAPE, Op::EXPAND, Op::PAD, Op::SHRINK, Op::WINDOW);
  static const OpSet same = ops::Movement | OpSet(Op::REDUCE_AXIS, Op::CONTIGUOUS, Op::DETACH,
                                                  Op::CONTIGUOUS_BACKWARD, Op::FUNCTION);
  static const std::vector<Rule> rules = {
      {"dims_are_index", shaped, dims_are_index, "sizes and offsets are Index"},
      {"iota_size", Op::IOTA, [](const UOp& u) { return u.src(0).dtype() == DType::Index; },
       "the size is Index"},
      {"moves_values", same, is_tensor_value, "the source is a tensor value"},
      {"keeps_dtype", same | OpSet(Op::COPY), keeps_dtype, "the dtype is the source's"},
      {"shapes_meet", ops::Elementwise, shapes_meet, "operands have the result's shape, or ()"},
      {"reshape_form", Op::RESHAPE, reshape_form, "a reshape keeps the number of elements"},
      {"expand_form", Op::EXPAND, expand_form, "an expand keeps the rank and stretches axes of size 1"},
      {"pad_form", Op::PAD, pad_form, "a pad has two amounts an axis, none negative"},
      {"shrink_form", Op::SHRINK, shrink_form, "a shrink stays within the source"},
      {"permute_form", Op::PERMUTE, permute_form, "a permute names every axis once"},
      {"axis_mask", OpSet(Op::FLIP, Op::REDUCE_AXIS), mask_form, "the mask names axes of the source"},
      {"window_form", Op::WINDOW, window_form,
       "a window stays within its axis, with positive stride and dilation"},
      {"gather_form", Op::GATHER, gather_form, "a gather has integer indices and an axis of the source"},
      {"reduce_op", Op::REDUCE_AXIS, reduces, "a reduction adds, multiplies or takes the largest"},
      {"store_form", Op::STORE, store_form, "a store has a target and a value of its dtype and shape"},
      {"multi_form", Op::MULTI, multi_form, "a sharded value names an axis and a number of positions"},
      {"stack_form", OpSet(Op::MSTACK, Op::MSELECT), equal_parts,
       "the parts on all devices have one shape and dtype"},
      {"allreduce_op", Op::ALLREDUCE,
       [](const UOp& u) { return OpSet(Op::ADD, Op::MUL, Op::MAX).has(allreduce_op(u)); },
       "an all-reduce adds, multiplies or takes the largest"},
      {"after_form", Op::AFTER, after_form,
       "AFTER is a value of its source's dtype, and effects or other AFTERs"},
  };
  return rules;
}

const std::vector<Rule>& kernel_graph_rules() {
  static const std::vector<Rule> rules = {
      {"only_calls", Op::LINEAR, only_calls, "LINEAR holds calls"},
      {"call_dtype", Op::CALL, effects_or_values, "a call has no value"},
      {"call_arguments", Op::CALL, call_arguments, "arguments are storage or variables"},
      {"call_parameters", Op::CALL, call_parameters,
       "every parameter of the kernel has an argument of its dtype"},
      {"copy_call", Op::CALL, copy_call, "a copy has a destination and a source"},
      {"index_only", ops::Elementwise, [](const UOp& u) { return is_int(u.dtype()) || is_bool(u.dtype()); },
       "only sizes are computed between calls"},
  };
  return rules;
}

} // namespace tolk::spec
