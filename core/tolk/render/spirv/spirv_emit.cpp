#include "tolk/render/spirv/spirv_emit.h"

#include <algorithm>
#include <span>
#include <string>

#include "tolk/base/check.h"
#include "tolk/base/error.h"

namespace tolk::spirv {
namespace {

struct Row {
  std::string_view name;
  uint32_t opcode;
};

constexpr Row kBinary[] = {
    {"add", kOpIAdd},
    {"sub", kOpISub},
    {"mul", kOpIMul},
    {"udiv", kOpUDiv},
    {"sdiv", kOpSDiv},
    {"urem", kOpUMod},
    {"and", kOpBitwiseAnd},
    {"or", kOpBitwiseOr},
    {"xor", kOpBitwiseXor},
    {"fadd", kOpFAdd},
    {"fsub", kOpFSub},
    {"fmul", kOpFMul},
    {"fdiv", kOpFDiv},
    {"shl", kOpShiftLeftLogical},
    {"lshr", kOpShiftRightLogical},
    {"ashr", kOpShiftRightArithmetic},
};
constexpr Row kBoolean[] = {{"and", kOpLogicalAnd}, {"or", kOpLogicalOr}, {"xor", kOpLogicalNotEqual}};
constexpr Row kIntegerPredicates[] = {
    {"eq", kOpIEqual},        {"ne", kOpINotEqual},
    {"ult", kOpULessThan},    {"ule", kOpULessThanEqual},
    {"ugt", kOpUGreaterThan}, {"uge", kOpUGreaterThanEqual},
    {"slt", kOpSLessThan},    {"sle", kOpSLessThanEqual},
    {"sgt", kOpSGreaterThan}, {"sge", kOpSGreaterThanEqual},
};
constexpr Row kBooleanPredicates[] = {{"eq", kOpLogicalEqual}, {"ne", kOpLogicalNotEqual}};
constexpr Row kFloatPredicates[] = {
    {"oeq", kOpFOrdEqual},         {"one", kOpFOrdNotEqual},    {"olt", kOpFOrdLessThan},
    {"ole", kOpFOrdLessThanEqual}, {"ogt", kOpFOrdGreaterThan}, {"oge", kOpFOrdGreaterThanEqual},
    {"une", kOpFUnordNotEqual},
};
constexpr Row kConversions[] = {
    {"trunc", kOpUConvert},     {"zext", kOpUConvert},      {"sext", kOpSConvert},
    {"fptrunc", kOpFConvert},   {"fpext", kOpFConvert},     {"sitofp", kOpConvertSToF},
    {"uitofp", kOpConvertUToF}, {"fptosi", kOpConvertFToS}, {"fptoui", kOpConvertFToU},
};

uint32_t opcode_of(std::span<const Row> rows, std::string_view name) {
  for (const Row& row : rows)
    if (row.name == name) return row.opcode;
  throw InternalError("the SPIR-V renderer has no instruction for " + std::string(name));
}

// GLSL.std.450
constexpr uint32_t kGlslTrunc = 3, kGlslFAbs = 4, kGlslSqrt = 31;

} // namespace

uint32_t SpirvEmitter::id(const Value& value) {
  TOLK_CHECK(value && value.type.lanes == 1, "the SPIR-V renderer computes with scalars");
  return value.is_constant() ? module_.constant(value.type.kind, value.bits) : value.number;
}

uint32_t SpirvEmitter::define_id(uint32_t opcode, uint32_t type, std::initializer_list<uint32_t> operands) {
  Words words{type, module_.new_id()};
  words.insert(words.end(), operands);
  put(body, opcode, words);
  return words[1];
}

Value SpirvEmitter::define(uint32_t opcode, Kind kind, std::initializer_list<uint32_t> operands) {
  return {Value::Form::Register, {kind}, define_id(opcode, module_.type(kind), operands), 0};
}

Value SpirvEmitter::binary(std::string_view op, Value a, Value b) {
  TOLK_CHECK(a.type == b.type, "operands of one instruction differ in type");
  op = op.substr(0, op.find(' '));
  Kind kind = a.type.kind;
  if (kind == Kind::I1) return define(opcode_of(kBoolean, op), kind, {id(a), id(b)});
  // OpSRem of negative operands is undefined in Vulkan, OpSDiv truncates.
  if (op == "srem") return binary("sub", a, binary("mul", binary("sdiv", a, b), b));
  if (op == "fdiv" && kind == Kind::F32 && has_f64_)
    return convert("fptrunc", binary("fdiv", convert("fpext", a, Kind::F64), convert("fpext", b, Kind::F64)),
                   Kind::F32);
  Value result = define(opcode_of(kBinary, op), kind, {id(a), id(b)});
  if (emit::is_float(kind)) module_.decorate(result.number, {kDecorationNoContraction});
  return result;
}

Value SpirvEmitter::fneg(Value a) { return define(kOpFNegate, a.type.kind, {id(a)}); }

// Of a sign-extended i32 with a constant, in 32 bits; no value for other operands. Mesa 22.3 simplifies the comparison of
// 64 bits to one that is false for every number.
Value SpirvEmitter::compare_extended(std::string_view predicate, const Value& a, const Value& b) {
  const Value& constant_one = a.is_constant() ? a : b;
  auto it = extended_.find(a.is_constant() ? b.number : a.number);
  if (!constant_one.is_constant() || it == extended_.end() || predicate[0] != 's') return {};
  auto number = static_cast<int64_t>(constant_one.bits);
  int64_t near = std::clamp<int64_t>(number, INT32_MIN, INT32_MAX);
  if (near != number) { // the same for every i32
    bool below = a.is_constant() ? number < 0 : number > 0;
    return constant({Kind::I1}, below == (predicate[1] == 'l'));
  }
  Value narrow = constant({Kind::I32}, static_cast<uint32_t>(near));
  return a.is_constant() ? icmp(predicate, narrow, it->second) : icmp(predicate, it->second, narrow);
}

Value SpirvEmitter::icmp(std::string_view predicate, Value a, Value b) {
  TOLK_CHECK(a.type == b.type, "operands of one comparison differ in type");
  if (a.type.kind == Kind::I64)
    if (Value result = compare_extended(predicate, a, b)) return result;
  if (a.type.kind != Kind::I1)
    return define(opcode_of(kIntegerPredicates, predicate), Kind::I1, {id(a), id(b)});
  if (predicate == "ult") return binary("and", define(kOpLogicalNot, Kind::I1, {id(a)}), b);
  return define(opcode_of(kBooleanPredicates, predicate), Kind::I1, {id(a), id(b)});
}

// From the bits: a driver may take comparisons for free of NaNs.
Value SpirvEmitter::is_nan(Value a) {
  bool single = a.type.kind == Kind::F32;
  uint64_t infinity = single ? 0x7f800000u : uint64_t{0x7ff} << 52;
  uint64_t magnitude = single ? 0x7fffffffu : ~uint64_t{0} >> 1;
  Value word = bitcast(a, single ? Kind::I32 : Kind::I64);
  return icmp("ugt", binary("and", word, magnitude), infinity);
}

Value SpirvEmitter::fcmp(std::string_view predicate, Value a, Value b) {
  TOLK_CHECK(a.type == b.type, "operands of one comparison differ in type");
  if (predicate != "uno") return define(opcode_of(kFloatPredicates, predicate), Kind::I1, {id(a), id(b)});
  Value first = is_nan(a);
  return id(a) == id(b) ? first : binary("or", first, is_nan(b));
}

Value SpirvEmitter::select(Value condition, Value a, Value b) {
  TOLK_CHECK(a.type == b.type, "the two values of a select differ in type");
  if (condition.is_constant()) return condition.bits & 1 ? a : b;
  return define(kOpSelect, a.type.kind, {id(condition), id(a), id(b)});
}

Value SpirvEmitter::convert(std::string_view op, Value a, Kind to) {
  if (a.type.kind == Kind::I1) { // zext
    TOLK_CHECK(op == "zext", "a bool is converted to an integer only");
    return select(a, constant({to}, 1), constant({to}, 0));
  }
  bool from_signed = op == "sitofp";
  if ((from_signed || op == "uitofp") && bits(a.type.kind) < 32) a = resize(a, Kind::I32, from_signed);
  Value result = define(opcode_of(kConversions, op), to, {id(a)});
  if (op == "sext" && a.type.kind == Kind::I32) extended_.emplace(result.number, a);
  return result;
}

Value SpirvEmitter::bitcast(Value a, Kind to) {
  if (a.type.kind == to) return a;
  TOLK_CHECK(bits(a.type.kind) == bits(to), "a bitcast between widths");
  if (a.is_constant()) return constant({to}, a.bits);
  return define(kOpBitcast, to, {id(a)});
}

Value SpirvEmitter::glsl(uint32_t instruction, Value a) {
  return define(kOpExtInst, a.type.kind, {module_.glsl(), instruction, id(a)});
}

// From the bits, without the fraction's: Mesa 22.3 returns an f64 beyond 2^24 as it is on processors without AVX-512.
Value SpirvEmitter::trunc_f64(Value a) {
  constexpr uint64_t kFraction = (uint64_t{1} << 52) - 1;
  Value word = bitcast(a, Kind::I64);
  Value exponent = binary("sub", binary("and", binary("lshr", word, 52), 0x7ff), 1023);
  Value shift = select(icmp("ugt", exponent, 63), 63, exponent); // negative: not used
  Value fraction = binary("lshr", constant({Kind::I64}, kFraction), shift);
  Value kept = binary("and", word, binary("xor", fraction, ~uint64_t{0}));
  Value zero = binary("and", word, uint64_t{1} << 63);
  return bitcast(select(icmp("slt", exponent, 0), zero, kept), Kind::F64);
}

Value SpirvEmitter::intrinsic(std::string_view name, std::initializer_list<Value> operands) {
  Value a = *operands.begin();
  if (name == "fabs") return glsl(kGlslFAbs, a);
  if (name == "trunc" && a.type.kind == Kind::F64) return trunc_f64(a);
  if (name == "trunc") return glsl(kGlslTrunc, a);
  if (name == "sqrt" && a.type.kind == Kind::F32 && has_f64_)
    return convert("fptrunc", glsl(kGlslSqrt, convert("fpext", a, Kind::F64)), Kind::F32);
  if (name == "sqrt") return glsl(kGlslSqrt, a);
  throw InternalError("SPIR-V has no exact " + std::string(name) +
                      "; codegen must decompose it first (target features)");
}

} // namespace tolk::spirv
