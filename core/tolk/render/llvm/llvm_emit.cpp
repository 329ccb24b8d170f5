#include "tolk/render/llvm/llvm_emit.h"

#include "tolk/base/check.h"

namespace tolk::llvm_text {
namespace {
constexpr uint32_t kPoison = 0xffffffff; // register number of a vector without contents
}

void Emitter::operand(const Value& value) {
  switch (value.form) {
  case Value::Form::Register:
    if (value.number == kPoison) {
      text += "poison";
      return;
    }
    text += "%r";
    append_number(text, value.number);
    return;
  case Value::Form::Constant:
    if (value.type.lanes == 1) {
      append_constant(text, value.type.kind, value.bits);
    } else {
      text += "splat (";
      append_type(text, value.type.scalar());
      text += ' ';
      append_constant(text, value.type.kind, value.bits);
      text += ')';
    }
    return;
  case Value::Form::List:
    text += '<';
    for (uint32_t lane = 0; lane < value.type.lanes; ++lane) {
      if (lane) text += ", ";
      append_type(text, value.type.scalar());
      text += ' ';
      append_constant(text, value.type.kind, lists_[value.number + lane]);
    }
    text += '>';
    return;
  case Value::Form::None:
    TOLK_UNREACHABLE("an operand without a value");
  }
}

void Emitter::typed(const Value& value) {
  append_type(text, value.type);
  text += ' ';
  operand(value);
}

Value Emitter::define(Type type) {
  Value result = new_register(type);
  out("  %r", result.number, " = ");
  return result;
}

Value Emitter::poison(Type type) { return {Value::Form::Register, type, kPoison, 0}; }

Value Emitter::list(Type type, std::span<const uint64_t> lanes) {
  Value result{Value::Form::List, type, static_cast<uint32_t>(lists_.size()), 0};
  lists_.insert(lists_.end(), lanes.begin(), lanes.end());
  return result;
}

Value Emitter::binary(std::string_view op, Value a, Value b) {
  TOLK_CHECK(a.type == b.type, "operands of one instruction differ in type");
  Value result = define(a.type);
  out(op, ' ', a.type, ' ', a, ", ", b, '\n');
  return result;
}

Value Emitter::fneg(Value a) {
  Value result = define(a.type);
  out("fneg ", a.type, ' ', a, '\n');
  return result;
}

Value Emitter::icmp(std::string_view predicate, Value a, Value b) {
  TOLK_CHECK(a.type == b.type, "operands of one comparison differ in type");
  Value result = define(a.type.with(Kind::I1));
  out("icmp ", predicate, ' ', a.type, ' ', a, ", ", b, '\n');
  return result;
}

Value Emitter::fcmp(std::string_view predicate, Value a, Value b) {
  TOLK_CHECK(a.type == b.type, "operands of one comparison differ in type");
  Value result = define(a.type.with(Kind::I1));
  out("fcmp ", predicate, ' ', a.type, ' ', a, ", ", b, '\n');
  return result;
}

Value Emitter::select(Value condition, Value a, Value b) {
  TOLK_CHECK(a.type == b.type, "the two values of a select differ in type");
  if (condition.is_constant()) return condition.bits & 1 ? a : b;
  Value result = define(a.type);
  out("select ", condition.type, ' ', condition, ", ", a.type, ' ', a, ", ", b.type, ' ', b, '\n');
  return result;
}

Value Emitter::convert(std::string_view op, Value a, Kind to) {
  Value result = define(a.type.with(to));
  out(op, ' ', a.type, ' ', a, " to ", result.type, '\n');
  return result;
}

Value Emitter::bitcast(Value a, Kind to) {
  if (a.type.kind == to) return a;
  TOLK_CHECK(bits(a.type.kind) == bits(to), "a bitcast between widths");
  if (a.form == Value::Form::Constant || a.form == Value::Form::List) {
    a.type.kind = to;
    return a;
  }
  return convert("bitcast", a, to);
}

Value Emitter::intrinsic(std::string_view name, std::initializer_list<Value> operands) {
  Type type = operands.begin()->type;
  Value result = define(type);
  out("call ", type, " @llvm.", name, '.');
  append_suffix(text, type);
  char separator = '(';
  for (const Value& value : operands) {
    out(separator);
    typed(value);
    separator = ',';
  }
  out(")\n");
  return result;
}

// Good code for scalars; LLVM takes vectors of the intrinsic apart.
Value Emitter::saturating_cast(Value value, DType to) {
  if (value.type.lanes != 1) return {};
  Value result = define(value.type.with(register_type(to, 1).kind));
  out("call ", result.type, is_signed(to) ? " @llvm.fptosi.sat." : " @llvm.fptoui.sat.");
  append_suffix(text, result.type);
  text += '.';
  append_suffix(text, value.type);
  text += '(';
  typed(value);
  text += ")\n";
  return result;
}

Value Emitter::extract(Value vector, uint64_t lane) {
  if (vector.is_constant()) return constant(vector.type.scalar(), vector.bits);
  if (vector.form == Value::Form::List) return constant(vector.type.scalar(), lists_[vector.number + lane]);
  if (vector.type.lanes == 1) return vector;
  Value result = define(vector.type.scalar());
  out("extractelement ", vector.type, ' ', vector, ", i64 ", lane, '\n');
  return result;
}

Value Emitter::insert(Value vector, Value scalar, uint64_t lane) {
  Value result = define(vector.type);
  out("insertelement ", vector.type, ' ', vector, ", ", scalar.type, ' ', scalar, ", i64 ", lane, '\n');
  return result;
}

Value Emitter::splat(Value scalar, int lanes) {
  Type type{scalar.type.kind, static_cast<uint16_t>(lanes)};
  if (scalar.is_constant()) return constant(type, scalar.bits);
  if (lanes == 1) return scalar;
  Value first = insert(poison(type), scalar, 0);
  Value result = define(type);
  out("shufflevector ", type, ' ', first, ", ", type, " poison, <", uint32_t{type.lanes},
      " x i32> zeroinitializer\n");
  return result;
}

Value Emitter::shuffle(Value a, Value b, std::span<const uint32_t> mask) {
  Value result = define({a.type.kind, static_cast<uint16_t>(mask.size())});
  out("shufflevector ", a.type, ' ', a, ", ", b.type, ' ', b, ", <", static_cast<uint32_t>(mask.size()),
      " x i32> <");
  for (size_t i = 0; i < mask.size(); ++i) out(i ? ", i32 " : "i32 ", mask[i]);
  out(">\n");
  return result;
}

} // namespace tolk::llvm_text
