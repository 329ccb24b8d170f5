// Forms that hold at every stage: leaves and elementwise ops.
#include "tolk/dtype/scalar.h"
#include "tolk/uop/build.h"
#include "tolk/uop/eval.h"
#include "tolk/uop/spec_internal.h"

namespace tolk::spec {
namespace {

bool storable(DType d) { return d != DType::Index && d != DType::Void; }

bool const_fits(const UOp& u) {
  if (u.arg().data || u.dtype() == DType::Void) return false;
  if (is_float(u.dtype())) {
    double v = u.const_float(), r = round_to(u.dtype(), v);
    return v == r || (v != v && r != r);
  }
  if (u.dtype() == DType::Index) return true;
  __int128 v = scalar_of(u).i;
  return v >= int_min(u.dtype()) && v <= int_max(u.dtype());
}

bool var_form(const UOp& u) {
  return u.arg().ints().size() == 3 && u.arg().texts().size() == 1 && is_int(u.dtype()) &&
         u.arg().i(0) <= u.arg().i(1) && u.arg().i(2) >= 1;
}

bool range_form(const UOp& u) {
  return u.src(0).dtype() == u.dtype() && is_int(u.dtype()) && u.lanes() == 1 && axis_of(u) >= 0 &&
         axis_type(u) <= AxisType::Device;
}

bool storage_form(const UOp& u) {
  return u.arg().ints().size() == 2 && elements_of(u) >= 0 && storable(u.dtype()) && u.lanes() == 1;
}

bool names_device(const UOp& u) { return u.arg().texts().size() == 1; }

bool slice_form(const UOp& u) {
  if (!u.src(0).is(OpSet(Op::BUFFER, Op::PARAM, Op::SLICE, Op::MSELECT))) return false;
  if (u.arg().ints().size() != 2 || u.arg().i(0) < 0 || elements_of(u) < 0 || !storable(u.dtype()))
    return false;
  if (u.src(0).is(Op::MSELECT)) return true;
  uint64_t whole = storage_bytes(u.src(0).dtype(), uint64_t(elements_of(u.src(0))));
  return uint64_t(u.arg().i(0)) + storage_bytes(u.dtype(), uint64_t(elements_of(u))) <= whole;
}

bool bind_form(const UOp& u) {
  return u.src(0).is(Op::VAR) && u.src(1).is_const() && u.src(1).dtype() == u.src(0).dtype() &&
         u.src(1).const_int() >= u.src(0).vmin() && u.src(1).const_int() <= u.src(0).vmax();
}

bool no_arg(const UOp& u) { return u.arg() == Arg(); }

bool same_lanes(const UOp& u) {
  for (const UOp& s : u.src())
    if (s.lanes() != u.lanes()) return false;
  return true;
}

bool values_only(const UOp& u) {
  for (const UOp& s : u.src())
    if (s.dtype() == DType::Void) return false;
  return u.dtype() != DType::Void;
}

bool same_dtypes(const UOp& u) {
  for (const UOp& s : u.src())
    if (s.dtype() != u.dtype()) return false;
  return true;
}

bool comparison(const UOp& u) { return u.dtype() == DType::BOOL && u.src(0).dtype() == u.src(1).dtype(); }

bool where_form(const UOp& u) {
  return u.src(0).dtype() == DType::BOOL && u.src(1).dtype() == u.dtype() && u.src(2).dtype() == u.dtype();
}

bool bitcast_form(const UOp& u) {
  return storable(u.dtype()) && storable(u.src(0).dtype()) && bits(u.dtype()) == bits(u.src(0).dtype());
}

} // namespace

const std::vector<Rule>& shared_rules() {
  static const OpSet arithmetic(Op::NEG, Op::RECIPROCAL, Op::SQRT, Op::TRUNC, Op::ADD, Op::SUB, Op::MUL,
                                Op::FDIV, Op::CDIV, Op::CMOD, Op::FLOORDIV, Op::FLOORMOD, Op::MAX, Op::SHL,
                                Op::SHR, Op::AND, Op::OR, Op::XOR, Op::MULACC, Op::THREEFRY);
  static const OpSet float_only = ops::FloatFunction | OpSet(Op::FDIV);
  static const std::vector<Rule> rules = {
      {"const_value", Op::CONST, const_fits, "a constant's value is one of its dtype"},
      {"var_form", Op::VAR, var_form, "a variable is an integer with bounds, a multiple and a name"},
      {"range_form", OpSet(Op::RANGE, Op::SPECIAL), range_form,
       "a loop variable is an integer of its extent's dtype, with an axis and its type"},
      {"storage_form", OpSet(Op::BUFFER, Op::PARAM, Op::DEFINE_LOCAL, Op::DEFINE_REG), storage_form,
       "storage has a number, a count of elements, and a dtype that memory can hold"},
      {"storage_device", OpSet(Op::BUFFER, Op::PARAM), names_device,
       "a buffer or parameter names a device, or says that it does not"},
      {"slice_form", Op::SLICE, slice_form, "a slice lies within its buffer"},
      {"bind_form", Op::BIND, bind_form, "a variable is bound to a constant within its bounds"},
      {"elementwise_arg", ops::Elementwise, no_arg, "elementwise ops have no arg"},
      {"elementwise_values", ops::Elementwise, values_only,
       "elementwise ops take and give values, not effects"},
      {"elementwise_lanes", ops::Elementwise, same_lanes, "operands have as many lanes as the result"},
      {"same_dtypes", arithmetic | ops::FloatFunction, same_dtypes, "operands have the result's dtype"},
      {"comparison_dtypes", ops::Compare, comparison, "a comparison is bool, and its operands share a dtype"},
      {"where_dtypes", Op::WHERE, where_form,
       "the condition is bool, and the branches have the result's dtype"},
      {"bitcast_dtypes", Op::BITCAST, bitcast_form,
       "a bitcast is between dtypes of one width that memory can hold"},
      {"float_only", float_only, [](const UOp& u) { return is_float(u.dtype()); }, "this op is for floats"},
      {"integer_only", OpSet(Op::CDIV, Op::CMOD, Op::FLOORDIV, Op::FLOORMOD, Op::SHL, Op::SHR),
       [](const UOp& u) { return is_int(u.dtype()); }, "this op is for integers"},
      {"no_float_bits", OpSet(Op::AND, Op::OR, Op::XOR), [](const UOp& u) { return !is_float(u.dtype()); },
       "bit operations are not for floats"},
      {"threefry_dtype", Op::THREEFRY, [](const UOp& u) { return u.dtype() == DType::U64; },
       "the counter and key are u64"},
      {"effect_dtype", OpSet(Op::SINK, Op::END, Op::STORE, Op::BARRIER, Op::LINEAR, Op::CALL),
       [](const UOp& u) { return u.dtype() == DType::Void; }, "an effect has no value"},
  };
  return rules;
}

} // namespace tolk::spec
