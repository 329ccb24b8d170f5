#include "tolk/render/emit/arithmetic.h"

#include <string>

#include "tolk/base/check.h"
#include "tolk/base/error.h"
#include "tolk/kernel/kernel_ir.h"
#include "tolk/render/emit/casts.h"

namespace tolk::emit {
namespace {

// x86 max(a, b) is "a > b ? a : b", one instruction, which gives b when either is NaN. So b may be NaN, and
// only a NaN in a needs a second look; a constant that is no NaN saves it.
Value maximum(Emitter& e, Value a, Value b) {
  if (b.is_constant()) std::swap(a, b);
  Value larger = e.select(e.fcmp("ogt", a, b), a, b);
  if (a.is_constant()) {
    bool single = a.type.kind == Kind::F32;
    uint64_t infinity = single ? 0x7f800000u : uint64_t{0x7ff} << 52;
    uint64_t magnitude = a.bits & (single ? 0x7fffffffu : ~uint64_t{0} >> 1);
    if (magnitude <= infinity) return larger;
  }
  return e.select(e.fcmp("uno", a, a), a, larger);
}

// Truncating quotient or remainder. The processor traps for divisor 0 and for minimum / -1, so both are
// replaced by a division by 1 first.
Value divide(Emitter& e, const AluOp& op, Value a, Value b) {
  bool quotient = op.opcode == TOLK_IR_CDIV;
  bool sign = is_signed(op.dtype) && !op.non_negative;
  const char* name = quotient ? (sign ? "sdiv" : "udiv") : (sign ? "srem" : "urem");
  Value zero = constant(a.type, 0), one = constant(a.type, 1);
  uint64_t ones = ~uint64_t{0} >> (64 - bits(a.type.kind));
  if (b.is_constant()) {
    uint64_t divisor = b.bits & ones;
    if (divisor == 0) return zero;
    if (sign && divisor == ones) return quotient ? e.binary("sub", zero, a) : zero;
    return e.binary(name, a, b);
  }
  Value is_zero = e.icmp("eq", b, zero);
  Value is_minus_one = sign ? e.icmp("eq", b, ones) : Value{};
  Value safe = e.select(sign ? e.binary("or", is_zero, is_minus_one) : is_zero, one, b);
  Value result = e.binary(name, a, safe);
  if (!quotient) return result; // the remainder by 1 is already 0
  if (sign) result = e.select(is_minus_one, e.binary("sub", zero, a), result);
  return e.select(is_zero, zero, result);
}

Value shift(Emitter& e, const AluOp& op, Value a, Value b) {
  bool left = op.opcode == TOLK_IR_SHL, sign = !left && is_signed(op.dtype);
  const char* name = left ? "shl" : sign ? "ashr" : "lshr";
  uint64_t width = static_cast<uint64_t>(bits(a.type.kind));
  uint64_t ones = ~uint64_t{0} >> (64 - width);
  if (b.is_constant()) {
    uint64_t count = b.bits & ones;
    if (count < width) return e.binary(name, a, b);
    return sign ? e.binary(name, a, width - 1) : constant(a.type, 0);
  }
  Value beyond = e.icmp("uge", b, width);
  Value count = e.select(beyond, sign ? width - 1 : 0, b);
  Value result = e.binary(name, a, count);
  return sign ? result : e.select(beyond, uint64_t{0}, result);
}

Value compare(Emitter& e, uint16_t opcode, DType type, Value a, Value b) {
  if (tolk::is_float(type)) {
    const char* predicate = opcode == TOLK_IR_CMPLT ? "olt" : opcode == TOLK_IR_CMPEQ ? "oeq" : "une";
    if (is_small_float(type)) return e.fcmp(predicate, to_f32(e, type, a), to_f32(e, type, b));
    return e.fcmp(predicate, a, b);
  }
  const char* less = is_signed(type) ? "slt" : "ult";
  return e.icmp(opcode == TOLK_IR_CMPLT ? less : opcode == TOLK_IR_CMPEQ ? "eq" : "ne", a, b);
}

// ADD, SUB, MUL, FDIV, MAX of registers that hold f32, f64, integers or bool.
Value arithmetic(Emitter& e, const AluOp& op, DType type, Value a, Value b) {
  bool real = tolk::is_float(type);
  if (op.opcode == TOLK_IR_MAX) {
    if (real) return maximum(e, a, b);
    if (is_bool(type)) return e.binary("or", a, b);
    return e.select(e.icmp(is_signed(type) ? "sgt" : "ugt", a, b), a, b);
  }
  if (op.opcode == TOLK_IR_FDIV && real) return e.binary("fdiv", a, b);
  TOLK_CHECK(!is_bool(type) && op.opcode != TOLK_IR_FDIV, "arithmetic that this dtype does not have");
  const char* name = op.opcode == TOLK_IR_ADD   ? (real ? "fadd" : "add")
                     : op.opcode == TOLK_IR_SUB ? (real ? "fsub" : "sub")
                                                : (real ? "fmul" : "mul");
  if (real || !op.no_wrap) return e.binary(name, a, b);
  bool sign = is_signed(type);
  const char* exact = op.opcode == TOLK_IR_ADD   ? (sign ? "add nsw" : "add nuw")
                      : op.opcode == TOLK_IR_SUB ? (sign ? "sub nsw" : "sub nuw")
                                                 : (sign ? "mul nsw" : "mul nuw");
  return e.binary(exact, a, b);
}

} // namespace

Value to_memory(Emitter& e, Value value) {
  return value.type.kind == Kind::I1 ? e.convert("zext", value, Kind::I8) : value;
}

Value from_memory(Emitter& e, Value value, DType type) {
  return is_bool(type) ? e.icmp("ne", value, 0) : value;
}

Value alu(Emitter& e, const AluOp& op, std::span<const Value> src, const char* language) {
  DType type = op.dtype;
  bool small = is_small_float(type);
  auto f32 = [&](size_t i) { return to_f32(e, type, src[i]); };
  switch (op.opcode) {
  case TOLK_IR_CAST:
    return cast(e, op.source_dtype, type, src[0]);
  case TOLK_IR_BITCAST:
    return from_memory(e, e.bitcast(to_memory(e, src[0]), memory_type(type, 1).kind), type);
  case TOLK_IR_ADD:
  case TOLK_IR_SUB:
  case TOLK_IR_MUL:
  case TOLK_IR_FDIV:
  case TOLK_IR_MAX:
    if (small) return from_f32(e, type, arithmetic(e, op, DType::F32, f32(0), f32(1)));
    return arithmetic(e, op, type, src[0], src[1]);
  case TOLK_IR_NEG:
    if (type == DType::F16 || type == DType::BF16) return e.binary("xor", src[0], uint64_t{0x8000});
    if (small) return from_f32(e, type, e.fneg(f32(0)));
    if (tolk::is_float(type)) return e.fneg(src[0]);
    return e.binary("sub", constant(src[0].type, 0), src[0]);
  case TOLK_IR_MULACC:
    if (small) return small_float_mulacc(e, type, src[0], src[1], src[2]);
    if (tolk::is_float(type)) return e.intrinsic("fma", {src[0], src[1], src[2]});
    return e.binary("add", e.binary("mul", src[0], src[1]), src[2]);
  case TOLK_IR_CDIV:
  case TOLK_IR_CMOD:
    return divide(e, op, src[0], src[1]);
  case TOLK_IR_SHL:
  case TOLK_IR_SHR:
    return shift(e, op, src[0], src[1]);
  case TOLK_IR_AND:
    return e.binary("and", src[0], src[1]);
  case TOLK_IR_OR:
    return e.binary("or", src[0], src[1]);
  case TOLK_IR_XOR:
    return e.binary("xor", src[0], src[1]);
  case TOLK_IR_CMPLT:
  case TOLK_IR_CMPEQ:
  case TOLK_IR_CMPNE:
    return compare(e, op.opcode, op.source_dtype, src[0], src[1]);
  case TOLK_IR_WHERE:
    return e.select(src[0], src[1], src[2]);
  case TOLK_IR_SQRT:
  case TOLK_IR_TRUNC: {
    const char* name = op.opcode == TOLK_IR_SQRT ? "sqrt" : "trunc";
    if (small) return from_f32(e, type, e.intrinsic(name, {f32(0)}));
    return e.intrinsic(name, {src[0]});
  }
  default:
    throw InternalError(std::string(language) + " has no operation " + ir_op_name(op.opcode) +
                        "; codegen must decompose it first (target features)");
  }
}

} // namespace tolk::emit
