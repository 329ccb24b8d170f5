// Vectors, conversions, arithmetic.
#include <vector>

#include "tolk/base/check.h"
#include "tolk/base/error.h"
#include "tolk/render/llvm/llvm_float.h"
#include "tolk/render/llvm/llvm_kernel.h"

namespace tolk::llvm_text {

// An index operation that never wraps, in 64 bits.
Value KernelWriter::alu_wide(uint32_t k) {
  std::span<const uint32_t> src = sources(k);
  const char* flags = non_negative_[k] ? " nuw nsw" : " nsw";
  auto line = [&](const char* name, Value a, Value b) {
    Value result = e_.define({Kind::I64});
    e_.out(name, flags, " i64 ", a, ", ", b, '\n');
    return result;
  };
  switch (op(k).opcode) {
  case TOLK_IR_ADD:
    return line("add", wide(src[0]), wide(src[1]));
  case TOLK_IR_SUB:
    flags = " nsw";
    return line("sub", wide(src[0]), wide(src[1]));
  case TOLK_IR_MUL:
    return line("mul", wide(src[0]), wide(src[1]));
  case TOLK_IR_NEG:
    flags = " nsw";
    return line("sub", constant({Kind::I64}, 0), wide(src[0]));
  default:
    TOLK_UNREACHABLE("not an operation that widens");
  }
}

Value KernelWriter::build(uint32_t k) {
  std::span<const uint32_t> src = sources(k);
  Type type = register_type(dtype(k), op(k).lanes);
  if (type.lanes == 1) return narrow(src[0]);
  bool same = true, constants = true, lanes = true;
  uint32_t from[2] = {src[0], src[0]}; // the at most two vectors that the lanes come from
  for (uint32_t s : src) {
    same = same && s == src[0];
    constants = constants && narrow(s).is_constant();
    lanes = lanes && is_opcode(s, TOLK_IR_EXTRACT);
  }
  if (same) return e_.splat(narrow(src[0]), type.lanes);
  if (constants) {
    std::vector<uint64_t> bits;
    for (uint32_t s : src) bits.push_back(narrow(s).bits);
    return e_.list(type, bits);
  }
  if (lanes) {
    auto vector_of = [&](uint32_t s) { return sources(s)[0]; };
    from[0] = from[1] = vector_of(src[0]);
    std::vector<uint32_t> mask;
    bool identity = true;
    for (uint32_t s : src) {
      uint32_t v = vector_of(s);
      if (v != from[0] && from[1] == from[0]) from[1] = v;
      lanes = lanes && (v == from[0] || v == from[1]) && op(v).lanes == op(from[0]).lanes;
      identity = identity && v == from[0] && attr(s) == mask.size();
      mask.push_back(static_cast<uint32_t>(attr(s)) + (v == from[0] ? 0u : op(v).lanes));
    }
    Value first = narrow(from[0]);
    if (identity && first.type == type) return first;
    if (lanes) return e_.shuffle(first, from[1] == from[0] ? e_.poison(first.type) : narrow(from[1]), mask);
  }
  Value result = e_.poison(type);
  for (uint32_t lane = 0; lane < type.lanes; ++lane) result = e_.insert(result, narrow(src[lane]), lane);
  return result;
}

// x86 max(a, b) is "a > b ? a : b", one instruction, which gives b when either is NaN. So b may be NaN, and
// only a NaN in a needs a second look; a constant that is no NaN saves it.
Value KernelWriter::maximum(Value a, Value b) {
  if (b.is_constant()) std::swap(a, b);
  Value larger = e_.select(e_.fcmp("ogt", a, b), a, b);
  if (a.is_constant()) {
    bool single = a.type.kind == Kind::F32;
    uint64_t infinity = single ? 0x7f800000u : uint64_t{0x7ff} << 52;
    uint64_t magnitude = a.bits & (single ? 0x7fffffffu : ~uint64_t{0} >> 1);
    if (magnitude <= infinity) return larger;
  }
  return e_.select(e_.fcmp("uno", a, a), a, larger);
}

// Truncating quotient or remainder. The processor traps for divisor 0 and for minimum / -1, so both are
// replaced by a division by 1 first.
Value KernelWriter::divide(uint32_t k, Value a, Value b) {
  std::span<const uint32_t> src = sources(k);
  bool quotient = is_opcode(k, TOLK_IR_CDIV);
  bool sign = is_signed(dtype(k)) && !(non_negative_[src[0]] && non_negative_[src[1]]);
  const char* name = quotient ? (sign ? "sdiv" : "udiv") : (sign ? "srem" : "urem");
  Value zero = constant(a.type, 0), one = constant(a.type, 1);
  uint64_t ones = ~uint64_t{0} >> (64 - bits(a.type.kind));
  if (b.is_constant()) {
    uint64_t divisor = b.bits & ones;
    if (divisor == 0) return zero;
    if (sign && divisor == ones) return quotient ? e_.binary("sub", zero, a) : zero;
    return e_.binary(name, a, b);
  }
  Value is_zero = e_.icmp("eq", b, zero);
  Value is_minus_one = sign ? e_.icmp("eq", b, ones) : Value{};
  Value safe = e_.select(sign ? e_.binary("or", is_zero, is_minus_one) : is_zero, one, b);
  Value result = e_.binary(name, a, safe);
  if (!quotient) return result; // the remainder by 1 is already 0
  if (sign) result = e_.select(is_minus_one, e_.binary("sub", zero, a), result);
  return e_.select(is_zero, zero, result);
}

Value KernelWriter::shift(uint32_t k, Value a, Value b) {
  bool left = is_opcode(k, TOLK_IR_SHL), sign = !left && is_signed(dtype(k));
  const char* name = left ? "shl" : sign ? "ashr" : "lshr";
  uint64_t width = static_cast<uint64_t>(bits(a.type.kind));
  uint64_t ones = ~uint64_t{0} >> (64 - width);
  if (b.is_constant()) {
    uint64_t count = b.bits & ones;
    if (count < width) return e_.binary(name, a, b);
    return sign ? e_.binary(name, a, width - 1) : constant(a.type, 0);
  }
  Value beyond = e_.icmp("uge", b, width);
  Value count = e_.select(beyond, sign ? width - 1 : 0, b);
  Value result = e_.binary(name, a, count);
  return sign ? result : e_.select(beyond, uint64_t{0}, result);
}

Value KernelWriter::compare(uint16_t opcode, DType type, Value a, Value b) {
  if (tolk::is_float(type)) {
    const char* predicate = opcode == TOLK_IR_CMPLT ? "olt" : opcode == TOLK_IR_CMPEQ ? "oeq" : "une";
    if (is_small_float(type)) return e_.fcmp(predicate, to_f32(e_, type, a), to_f32(e_, type, b));
    return e_.fcmp(predicate, a, b);
  }
  const char* less = is_signed(type) ? "slt" : "ult";
  return e_.icmp(opcode == TOLK_IR_CMPLT ? less : opcode == TOLK_IR_CMPEQ ? "eq" : "ne", a, b);
}

// ADD, SUB, MUL, FDIV, MAX of registers that hold f32, f64, integers or bool.
Value KernelWriter::arithmetic(uint32_t k, uint16_t opcode, DType type, Value a, Value b) {
  bool real = tolk::is_float(type);
  if (opcode == TOLK_IR_MAX) {
    if (real) return maximum(a, b);
    if (is_bool(type)) return e_.binary("or", a, b);
    return e_.select(e_.icmp(is_signed(type) ? "sgt" : "ugt", a, b), a, b);
  }
  if (opcode == TOLK_IR_FDIV && real) return e_.binary("fdiv", a, b);
  TOLK_CHECK(!is_bool(type) && opcode != TOLK_IR_FDIV, "arithmetic that this dtype does not have");
  const char* name = opcode == TOLK_IR_ADD   ? (real ? "fadd" : "add")
                     : opcode == TOLK_IR_SUB ? (real ? "fsub" : "sub")
                                             : (real ? "fmul" : "mul");
  if (real || (op(k).flags & TOLK_IR_NO_WRAP) == 0) return e_.binary(name, a, b);
  TOLK_CHECK(a.type == b.type, "operands of one instruction differ in type");
  Value result = e_.define(a.type);
  e_.out(name, is_signed(type) ? " nsw " : " nuw ", a.type, ' ', a, ", ", b, '\n');
  return result;
}

Value KernelWriter::alu(uint32_t k) {
  std::span<const uint32_t> src = sources(k);
  uint16_t opcode = op(k).opcode;
  DType type = dtype(k);
  auto source = [&](size_t i) { return narrow(src[i]); };
  bool small = is_small_float(type);
  auto f32 = [&](size_t i) { return to_f32(e_, type, source(i)); };
  switch (opcode) {
  case TOLK_IR_SPLAT:
    return e_.splat(source(0), op(k).lanes);
  case TOLK_IR_BUILD:
    return build(k);
  case TOLK_IR_EXTRACT: {
    if (is_opcode(src[0], TOLK_IR_BUILD) && op(src[0]).lanes > 1) return narrow(sources(src[0])[attr(k)]);
    if (is_opcode(src[0], TOLK_IR_SPLAT)) return narrow(sources(src[0])[0]);
    return e_.extract(source(0), attr(k));
  }
  case TOLK_IR_CAST:
    return cast(e_, dtype(src[0]), type, source(0));
  case TOLK_IR_BITCAST: {
    Value value = to_memory(source(0));
    return from_memory(e_.bitcast(value, memory_type(type, 1).kind), type);
  }
  case TOLK_IR_ADD:
  case TOLK_IR_SUB:
  case TOLK_IR_MUL:
  case TOLK_IR_FDIV:
  case TOLK_IR_MAX:
    if (small) return from_f32(e_, type, arithmetic(k, opcode, DType::F32, f32(0), f32(1)));
    return arithmetic(k, opcode, type, source(0), source(1));
  case TOLK_IR_NEG:
    if (type == DType::F16 || type == DType::BF16) return e_.binary("xor", source(0), uint64_t{0x8000});
    if (small) return from_f32(e_, type, e_.fneg(f32(0)));
    if (tolk::is_float(type)) return e_.fneg(source(0));
    return e_.binary("sub", constant(source(0).type, 0), source(0));
  case TOLK_IR_MULACC:
    if (small) return small_float_mulacc(e_, type, source(0), source(1), source(2));
    if (tolk::is_float(type)) return e_.intrinsic("fma", {source(0), source(1), source(2)});
    return e_.binary("add", e_.binary("mul", source(0), source(1)), source(2));
  case TOLK_IR_CDIV:
  case TOLK_IR_CMOD:
    return divide(k, source(0), source(1));
  case TOLK_IR_SHL:
  case TOLK_IR_SHR:
    return shift(k, source(0), source(1));
  case TOLK_IR_AND:
    return e_.binary("and", source(0), source(1));
  case TOLK_IR_OR:
    return e_.binary("or", source(0), source(1));
  case TOLK_IR_XOR:
    return e_.binary("xor", source(0), source(1));
  case TOLK_IR_CMPLT:
  case TOLK_IR_CMPEQ:
  case TOLK_IR_CMPNE:
    return compare(opcode, dtype(src[0]), source(0), source(1));
  case TOLK_IR_WHERE:
    return e_.select(source(0), source(1), source(2));
  case TOLK_IR_SQRT:
  case TOLK_IR_TRUNC: {
    const char* name = opcode == TOLK_IR_SQRT ? "sqrt" : "trunc";
    if (small) return from_f32(e_, type, e_.intrinsic(name, {f32(0)}));
    return e_.intrinsic(name, {source(0)});
  }
  default:
    throw InternalError(std::string("LLVM IR has no operation ") + ir_op_name(opcode) +
                        "; codegen must decompose it first (target features)");
  }
}

} // namespace tolk::llvm_text
