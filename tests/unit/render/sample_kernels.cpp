#include "sample_kernels.h"

#include <string>

#include "kernel_builder.h"

namespace tolk::test {

// Operations that a golden text shows are made in statements of their own: the order in which a compiler
// evaluates the operands of a call is its own choice.
using Id = KernelBuilder::Id;

KernelIR vector_add() {
  KernelBuilder b("e_64_8");
  Id out = b.buffer(DType::F32, true), x = b.buffer(DType::F32, false), y = b.buffer(DType::F32, false);
  Id tile = b.tile(64), eight = b.index(8), i = b.imul(tile, eight);
  Id v = b.load(x, i, 8), w = b.load(y, i, 8);
  b.store(out, i, b.add(v, w));
  return b.kernel;
}

KernelIR row_sum() {
  KernelBuilder b("r_16_32");
  Id out = b.buffer(DType::F32, true), x = b.buffer(DType::F32, false);
  Id row = b.tile();
  Id acc = b.registers(DType::F32, 2, 8);
  Id zero = b.constant(DType::F32, 0, 8), i0 = b.index(0), i1 = b.index(1);
  b.store(acc, i0, zero);
  b.store(acc, i1, zero);
  Id k = b.loop(2);
  Id base = b.iadd(b.imul(row, b.index(32)), b.imul(k, b.index(16)));
  b.store(acc, i0, b.add(b.load(acc, i0, 8), b.load(x, base, 8)));
  b.store(acc, i1, b.add(b.load(acc, i1, 8), b.load(x, b.iadd(base, b.index(8)), 8)));
  b.end(k);
  Id sum = b.add(b.load(acc, i0, 8), b.load(acc, i1, 8));
  Id total = b.extract(sum, 0);
  for (uint64_t lane = 1; lane < 8; ++lane) total = b.add(total, b.extract(sum, lane));
  b.store(out, row, total);
  return b.kernel;
}

KernelIR guarded_sum() {
  KernelBuilder b("r_guard");
  Id out = b.buffer(DType::I32, true), x = b.buffer(DType::I32, false);
  Id n = b.value(DType::I64, 0, 1000);
  Id acc = b.registers(DType::I32, 1), i0 = b.index(0);
  b.store(acc, i0, b.index(100));
  Id i = b.range(n);
  Id v = b.load(x, i);
  Id block = b.begin_if(b.compare(TOLK_IR_CMPLT, i0, v));
  b.store(acc, i0, b.add(b.load(acc, i0), v));
  b.end_if(block);
  b.end(i);
  b.store(out, i0, b.load(acc, i0));
  return b.kernel;
}

KernelIR matmul_tile() {
  KernelBuilder b("r_mm_64");
  Id out = b.buffer(DType::F32, true), x = b.buffer(DType::F32, false), y = b.buffer(DType::F32, false);
  Id tile = b.tile(64), n = b.index(64);
  Id row = b.imul(b.op(TOLK_IR_CDIV, {tile, b.index(4)}), b.index(4));
  Id column = b.imul(b.op(TOLK_IR_CMOD, {tile, b.index(4)}), b.index(16));
  Id acc = b.registers(DType::F32, 8, 8), zero = b.constant(DType::F32, 0, 8);
  std::vector<Id> slot, row_start;
  for (int i = 0; i < 8; ++i) slot.push_back(b.index(i));
  for (int i = 0; i < 4; ++i) row_start.push_back(b.imul(b.iadd(row, b.index(i)), n));
  for (Id s : slot) b.store(acc, s, zero);
  Id k = b.loop(64);
  Id y_index = b.iadd(b.imul(k, n), column);
  Id y0 = b.load(y, y_index, 8), y1 = b.load(y, b.iadd(y_index, b.index(8)), 8);
  for (int i = 0; i < 4; ++i) {
    Id a = b.splat(b.load(x, b.iadd(row_start[i], k)), 8);
    b.store(acc, slot[2 * i], b.op(TOLK_IR_MULACC, {a, y0, b.load(acc, slot[2 * i], 8)}));
    b.store(acc, slot[2 * i + 1], b.op(TOLK_IR_MULACC, {a, y1, b.load(acc, slot[2 * i + 1], 8)}));
  }
  b.end(k);
  for (int i = 0; i < 4; ++i) {
    Id at = b.iadd(row_start[i], column);
    b.store(out, at, b.load(acc, slot[2 * i], 8));
    b.store(out, b.iadd(at, b.index(8)), b.load(acc, slot[2 * i + 1], 8));
  }
  return b.kernel;
}

KernelIR gated_copy() {
  KernelBuilder b("e_gate");
  Id out = b.buffer(DType::F32, true), x = b.buffer(DType::F32, false), flags = b.buffer(DType::BOOL, true);
  Id n = b.value(DType::I32, 0, 100);
  Id i = b.tile(), at = b.imul(i, b.index(8));
  Id shifted = b.iadd(at, b.index(-3));
  std::vector<Id> lanes;
  for (int lane = 0; lane < 8; ++lane) lanes.push_back(b.iadd(shifted, b.index(lane)));
  Id lane_index = b.build(lanes);
  Id low = b.compare(TOLK_IR_CMPLT, b.constant(DType::I32, 0xffffffff, 8), lane_index);
  Id high = b.compare(TOLK_IR_CMPLT, lane_index, b.splat(n, 8));
  Id gate = b.op(TOLK_IR_AND, {low, high});
  Id alt = b.constant(DType::F32, 0x40000000, 8);
  Id v = b.load(x, shifted, 8, gate, alt);
  b.store(out, at, v, b.compare(TOLK_IR_CMPLT, alt, v));
  Id inside = b.compare(TOLK_IR_CMPLT, i, n);
  Id one = b.load(x, i, 1, inside, b.constant(DType::F32, 0x3f800000));
  b.store(out, i, one, inside);
  Id old = b.load(flags, at, 8, gate, b.constant(DType::BOOL, 1, 8));
  b.store(flags, at, b.op(TOLK_IR_XOR, {old, gate}), gate);
  b.store(out, at, b.load(x, at, 8, inside, alt), inside);
  return b.kernel;
}

KernelIR gather_scatter() {
  KernelBuilder b("e_gather");
  Id out = b.buffer(DType::F32, true), x = b.buffer(DType::F32, false), where = b.buffer(DType::I32, false);
  Id i = b.loop(2), at = b.imul(i, b.index(4));
  Id index = b.load(where, at, 4);
  Id gate = b.compare(TOLK_IR_CMPLT, b.constant(DType::I32, 0xffffffff, 4), index);
  Id v = b.load(x, index, 4, gate, b.constant(DType::F32, 0x40400000, 4));
  b.store(out, b.build({b.iadd(at, b.index(3)), b.iadd(at, b.index(2)), b.iadd(at, b.index(1)), at}), v);
  b.store(out, index, b.add(v, v), gate);
  Id all = b.load(x, b.op(TOLK_IR_MAX, {index, b.constant(DType::I32, 0, 4)}), 4);
  b.store(out, at, b.build({b.extract(all, 3), b.extract(v, 0), b.extract(all, 0), b.extract(v, 3)}), gate);
  b.end(i);
  return b.kernel;
}

KernelIR shared_transpose() {
  KernelBuilder b("e_shared");
  Id out = b.buffer(DType::I16, true), x = b.buffer(DType::I16, false);
  Id tile = b.tile(), base = b.imul(tile, b.index(16));
  Id local = b.local(DType::I16, 16), other = b.local(DType::BOOL, 3), reg = b.registers(DType::BOOL, 16);
  Id i = b.loop(16);
  Id v = b.load(x, b.iadd(base, i));
  b.store(local, i, v);
  b.store(reg, i, b.compare(TOLK_IR_CMPLT, v, b.constant(DType::I16, 0)));
  b.end(i);
  b.kernel.add(TOLK_IR_BARRIER, DType::Void, 1, {});
  b.store(other, b.index(2), b.constant(DType::BOOL, 1));
  Id r = b.loop(4), c = b.loop(4);
  Id from = b.iadd(b.imul(c, b.index(4)), r), to = b.iadd(b.imul(r, b.index(4)), c);
  Id negative = b.op(TOLK_IR_AND, {b.load(reg, from), b.load(other, b.index(2))});
  Id moved = b.load(local, from);
  b.store(out, b.iadd(base, to), b.where(negative, b.op(TOLK_IR_NEG, {moved}), moved));
  b.end(c);
  b.end(r);
  return b.kernel;
}

KernelIR integer_mix() {
  KernelBuilder b("e_int");
  Id out = b.buffer(DType::I32, true), x = b.buffer(DType::I32, false), bytes = b.buffer(DType::U8, true);
  Id i = b.loop(8);
  Id one_tile = b.kernel.add(TOLK_IR_SPECIAL, DType::I32, 1, {}, {1, 1});
  Id v = b.load(x, b.iadd(i, one_tile)), minus = b.constant(DType::I32, 0xffffffff);
  Id q = b.op(TOLK_IR_CDIV, {v, minus}), r = b.op(TOLK_IR_CMOD, {v, b.constant(DType::I32, 7)});
  Id s = b.op(TOLK_IR_SHL, {q, b.constant(DType::I32, 3)}),
     t = b.op(TOLK_IR_SHR, {r, b.constant(DType::I32, 40)});
  b.store(out, i, b.op(TOLK_IR_SUB, {b.op(TOLK_IR_OR, {s, t}), i}));
  Id byte = b.load(bytes, b.op(TOLK_IR_CMOD, {i, b.index(5)}));
  b.store(bytes, i, b.op(TOLK_IR_CDIV, {byte, b.op(TOLK_IR_NEG, {byte})}));
  b.end(i);
  return b.kernel;
}

KernelIR cast_kernel(DType from, DType to, uint16_t lanes) {
  KernelBuilder b((std::string("cast_") + name(from) + "_" + name(to) + "_" + std::to_string(lanes)).c_str());
  Id out = b.buffer(to, true), x = b.buffer(from, false);
  Id i = b.imul(b.tile(), b.index(lanes));
  b.store(out, i, b.cast(b.load(x, i, lanes), to));
  return b.kernel;
}

KernelIR alu_kernel(uint16_t opcode, DType dtype, uint16_t lanes) {
  bool compares = opcode >= TOLK_IR_CMPLT && opcode <= TOLK_IR_CMPNE;
  bool unary = opcode == TOLK_IR_NEG || opcode == TOLK_IR_SQRT || opcode == TOLK_IR_TRUNC;
  KernelBuilder b(
      (std::string(ir_op_name(opcode)) + "_" + name(dtype) + "_" + std::to_string(lanes)).c_str());
  Id out = b.buffer(compares ? DType::BOOL : dtype, true);
  Id in[3] = {b.buffer(opcode == TOLK_IR_WHERE ? DType::BOOL : dtype, false), 0, 0};
  int count = unary ? 1 : opcode == TOLK_IR_MULACC || opcode == TOLK_IR_WHERE ? 3 : 2;
  for (int k = 1; k < count; ++k) in[k] = b.buffer(dtype, false);
  Id i = b.imul(b.tile(), b.index(lanes)), v[3];
  for (int k = 0; k < count; ++k) v[k] = b.load(in[k], i, lanes);
  Id result;
  if (compares)
    result = b.compare(opcode, v[0], v[1]);
  else if (opcode == TOLK_IR_WHERE)
    result = b.where(v[0], v[1], v[2]);
  else if (count == 1)
    result = b.op(opcode, {v[0]});
  else if (count == 2)
    result = b.op(opcode, {v[0], v[1]});
  else
    result = b.op(opcode, {v[0], v[1], v[2]});
  b.store(out, i, result);
  return b.kernel;
}

std::vector<KernelIR> all_sample_kernels() {
  std::vector<KernelIR> kernels = {vector_add(), row_sum(),        guarded_sum(),      matmul_tile(),
                                   gated_copy(), gather_scatter(), shared_transpose(), integer_mix()};
  constexpr uint16_t kAnything[] = {TOLK_IR_MAX, TOLK_IR_CMPLT, TOLK_IR_CMPEQ, TOLK_IR_CMPNE, TOLK_IR_WHERE};
  constexpr uint16_t kNumbers[] = {TOLK_IR_ADD, TOLK_IR_SUB, TOLK_IR_MUL, TOLK_IR_NEG, TOLK_IR_MULACC};
  constexpr uint16_t kFloats[] = {TOLK_IR_FDIV, TOLK_IR_SQRT, TOLK_IR_TRUNC};
  constexpr uint16_t kIntegers[] = {TOLK_IR_CDIV, TOLK_IR_CMOD, TOLK_IR_SHL, TOLK_IR_SHR};
  constexpr uint16_t kBits[] = {TOLK_IR_AND, TOLK_IR_OR, TOLK_IR_XOR};
  for (uint16_t lanes : {uint16_t{1}, uint16_t{8}}) {
    for (int code = 0; code <= TOLK_DTYPE_F8E8M0; ++code) {
      auto type = static_cast<DType>(code);
      auto add_all = [&](auto& opcodes) {
        for (uint16_t opcode : opcodes) kernels.push_back(alu_kernel(opcode, type, lanes));
      };
      add_all(kAnything);
      if (!is_bool(type)) add_all(kNumbers);
      if (is_float(type)) add_all(kFloats);
      if (is_int(type)) add_all(kIntegers);
      if (!is_float(type)) add_all(kBits);
      for (int other = 0; other <= TOLK_DTYPE_F8E8M0; ++other)
        if (other != code) kernels.push_back(cast_kernel(type, static_cast<DType>(other), lanes));
    }
  }
  return kernels;
}

} // namespace tolk::test
