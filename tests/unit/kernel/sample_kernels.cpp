#include "sample_kernels.h"

#include <tolk/plugin/target.h>

namespace tolk::test {
namespace {

tolk_param buffer(uint32_t dtype, uint32_t access, uint64_t count) {
  tolk_param p{};
  p.kind = TOLK_PARAM_BUFFER;
  p.access = access;
  p.dtype = dtype;
  p.count = count;
  return p;
}

tolk_param value(uint32_t dtype, int64_t min, int64_t max) {
  tolk_param p{};
  p.kind = TOLK_PARAM_VALUE;
  p.dtype = dtype;
  p.min = min;
  p.max = max;
  return p;
}

} // namespace

KernelIR vector_add() {
  KernelIR k;
  k.name = "e_64_8";
  k.params = {buffer(TOLK_DTYPE_F32, TOLK_ACCESS_WRITE, 512), buffer(TOLK_DTYPE_F32, TOLK_ACCESS_READ, 512)};
  uint32_t out = k.add(TOLK_IR_PARAM, DType::F32, 1, {}, {0});
  uint32_t in = k.add(TOLK_IR_PARAM, DType::F32, 1, {}, {1});
  uint32_t group = k.add(TOLK_IR_SPECIAL, DType::I32, 1, {}, {0, 64});
  uint32_t eight = k.add(TOLK_IR_CONST, DType::I32, 1, {}, {8});
  uint32_t index = k.add(TOLK_IR_MUL, DType::I32, 1, {group, eight}, {}, TOLK_IR_NO_WRAP);
  uint32_t x = k.add(TOLK_IR_LOAD, DType::F32, 8, {in, index});
  uint32_t sum = k.add(TOLK_IR_ADD, DType::F32, 8, {x, x});
  k.add(TOLK_IR_STORE, DType::F32, 8, {out, index, sum});
  return k;
}

KernelIR every_opcode() {
  KernelIR k;
  k.name = "r_All_0";
  k.params = {buffer(TOLK_DTYPE_F32, TOLK_ACCESS_READ | TOLK_ACCESS_WRITE, 1024),
              buffer(TOLK_DTYPE_I32, TOLK_ACCESS_READ, 0), value(TOLK_DTYPE_I64, -3, INT64_MAX),
              value(TOLK_DTYPE_U8, 0, 255)};
  auto add = [&](uint16_t opcode, DType dtype, uint16_t lanes, std::initializer_list<uint32_t> sources,
                 std::initializer_list<uint64_t> attrs = {},
                 uint8_t flags = 0) { return k.add(opcode, dtype, lanes, sources, attrs, flags); };
  const DType f32 = DType::F32, i32 = DType::I32, b = DType::BOOL, none = DType::Void;
  uint32_t data = add(TOLK_IR_PARAM, f32, 1, {}, {0});
  uint32_t numbers = add(TOLK_IR_PARAM, i32, 1, {}, {1});
  uint32_t bound = add(TOLK_IR_PARAM, DType::I64, 1, {}, {2});
  uint32_t group = add(TOLK_IR_SPECIAL, i32, 1, {}, {2, 64});
  uint32_t item = add(TOLK_IR_SPECIAL, i32, 1, {}, {256, 0});
  uint32_t local = add(TOLK_IR_DEFINE_LOCAL, f32, 1, {}, {32});
  uint32_t reg = add(TOLK_IR_DEFINE_REG, f32, 4, {}, {2});
  uint32_t one = add(TOLK_IR_CONST, i32, 1, {}, {1});
  uint32_t two = add(TOLK_IR_CONST, i32, 1, {}, {2});
  uint32_t base = add(TOLK_IR_ADD, i32, 1, {group, item}, {}, TOLK_IR_NO_WRAP);
  uint32_t difference = add(TOLK_IR_SUB, i32, 1, {base, one});
  uint32_t quotient = add(TOLK_IR_CDIV, i32, 1, {difference, two});
  uint32_t rest = add(TOLK_IR_CMOD, i32, 1, {quotient, two});
  uint32_t left = add(TOLK_IR_SHL, i32, 1, {rest, one});
  uint32_t right = add(TOLK_IR_SHR, i32, 1, {left, one});
  uint32_t bits = add(TOLK_IR_AND, i32, 1, {right, two});
  bits = add(TOLK_IR_OR, i32, 1, {bits, one});
  bits = add(TOLK_IR_XOR, i32, 1, {bits, base});
  uint32_t less = add(TOLK_IR_CMPLT, b, 1, {bits, two});
  uint32_t equal = add(TOLK_IR_CMPEQ, b, 1, {bits, two});
  uint32_t differs = add(TOLK_IR_CMPNE, b, 1, {bits, two});
  uint32_t any = add(TOLK_IR_MAX, b, 1, {less, equal});
  uint32_t pick = add(TOLK_IR_WHERE, i32, 1, {any, one, two});
  uint32_t where_four = add(TOLK_IR_SPLAT, i32, 4, {pick});
  uint32_t gathered = add(TOLK_IR_LOAD, i32, 4, {numbers, where_four});
  uint32_t zero4 = add(TOLK_IR_CONST, f32, 4, {}, {0});
  uint32_t gate = add(TOLK_IR_BUILD, b, 4, {less, equal, differs, any});
  uint32_t x = add(TOLK_IR_LOAD, f32, 4, {data, gathered, gate, zero4});
  add(TOLK_IR_STORE, f32, 4, {reg, one, zero4});
  uint32_t outer = add(TOLK_IR_RANGE, DType::I64, 1, {bound});
  uint32_t inner = add(TOLK_IR_RANGE, i32, 1, {two});
  uint32_t sum = add(TOLK_IR_LOAD, f32, 4, {reg, inner});
  sum = add(TOLK_IR_MULACC, f32, 4, {x, x, sum});
  add(TOLK_IR_STORE, f32, 4, {reg, inner, sum});
  add(TOLK_IR_END, none, 1, {inner});
  add(TOLK_IR_BARRIER, none, 1, {});
  add(TOLK_IR_IF, none, 1, {differs});
  uint32_t wide = add(TOLK_IR_CAST, f32, 1, {outer});
  add(TOLK_IR_STORE, f32, 1, {local, item, wide, less});
  add(TOLK_IR_ENDIF, none, 1, {k.ops.size() > 0 ? static_cast<uint32_t>(k.ops.size()) - 3 : 0});
  add(TOLK_IR_END, none, 1, {outer});
  uint32_t y = add(TOLK_IR_EXTRACT, f32, 1, {x}, {3});
  y = add(TOLK_IR_NEG, f32, 1, {y});
  for (uint16_t code = 0; code < 64; code++)
    if (TOLK_FEATURE_ALL >> code & 1 && code != TOLK_IR_MULACC) y = add(code, f32, 1, {y});
  y = add(TOLK_IR_MUL, f32, 1, {y, y});
  y = add(TOLK_IR_FDIV, f32, 1, {y, y});
  uint32_t raw = add(TOLK_IR_BITCAST, i32, 1, {y});
  y = add(TOLK_IR_BITCAST, f32, 1, {raw});
  add(TOLK_IR_STORE, f32, 1, {data, base, y});
  return k;
}

} // namespace tolk::test
