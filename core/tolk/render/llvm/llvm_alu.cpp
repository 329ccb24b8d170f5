// Vectors, and arithmetic in 64 bits.
#include <vector>

#include "tolk/base/check.h"
#include "tolk/render/emit/arithmetic.h"
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

Value KernelWriter::alu(uint32_t k) {
  std::span<const uint32_t> src = sources(k);
  switch (op(k).opcode) {
  case TOLK_IR_SPLAT:
    return e_.splat(narrow(src[0]), op(k).lanes);
  case TOLK_IR_BUILD:
    return build(k);
  case TOLK_IR_EXTRACT:
    if (is_opcode(src[0], TOLK_IR_BUILD) && op(src[0]).lanes > 1) return narrow(sources(src[0])[attr(k)]);
    if (is_opcode(src[0], TOLK_IR_SPLAT)) return narrow(sources(src[0])[0]);
    return e_.extract(narrow(src[0]), attr(k));
  default:
    break;
  }
  TOLK_CHECK(!src.empty() && src.size() <= 3, "arithmetic takes one to three operands");
  emit::AluOp facts{op(k).opcode, dtype(k), dtype(src[0]), (op(k).flags & TOLK_IR_NO_WRAP) != 0, true};
  Value values[3];
  for (size_t i = 0; i < src.size(); ++i) {
    values[i] = narrow(src[i]);
    facts.non_negative = facts.non_negative && non_negative_[src[i]];
  }
  return emit::alu(e_, facts, {values, src.size()}, "LLVM IR");
}

} // namespace tolk::llvm_text
