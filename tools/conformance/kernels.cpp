// The kernels that conformance cases run. Each group of a launch computes one element, or `lanes` of them.
#include "kernels.h"

namespace conformance {
namespace {

using tolk::DType;
using tolk::KernelIR;

struct Builder {
  KernelIR k;
  explicit Builder(const char* name) { k.name = name; }
  uint32_t buffer(DType dtype, uint32_t access) {
    k.params.push_back({TOLK_PARAM_BUFFER, access, static_cast<uint32_t>(dtype), 0, 0, 0, 0});
    return k.add(TOLK_IR_PARAM, dtype, 1, {}, {k.params.size() - 1});
  }
  uint32_t value(DType dtype, int64_t min, int64_t max) {
    k.params.push_back({TOLK_PARAM_VALUE, 0, static_cast<uint32_t>(dtype), 0, 0, min, max});
    return k.add(TOLK_IR_PARAM, dtype, 1, {}, {k.params.size() - 1});
  }
  uint32_t group() { return k.add(TOLK_IR_SPECIAL, DType::I32, 1, {}, {0, 0}); }
  uint32_t constant(DType dtype, uint64_t bits) { return k.add(TOLK_IR_CONST, dtype, 1, {}, {bits}); }
  uint32_t load(DType dtype, uint32_t from, uint32_t index, uint16_t lanes = 1) {
    return k.add(TOLK_IR_LOAD, dtype, lanes, {from, index});
  }
  void store(DType dtype, uint32_t to, uint32_t index, uint32_t value, uint16_t lanes = 1) {
    k.add(TOLK_IR_STORE, dtype, lanes, {to, index, value});
  }
  uint32_t op(uint16_t code, DType dtype, std::initializer_list<uint32_t> sources) {
    return k.add(code, dtype, 1, sources);
  }
};

// Mesa's software driver ends a shader's loops after 65535 rounds, so a round does much.
constexpr int kUnrolled = 256;
constexpr uint32_t kMultiplier = 1664525, kIncrement = 1013904223; // of Numerical Recipes' generator

} // namespace

KernelIR elementwise(uint16_t opcode, DType in, DType out, uint32_t operands, uint16_t lanes) {
  Builder b("elementwise");
  const uint32_t result = b.buffer(out, TOLK_ACCESS_WRITE);
  std::vector<uint32_t> from, sources;
  for (uint32_t i = 0; i < operands; i++) from.push_back(b.buffer(in, TOLK_ACCESS_READ));
  uint32_t index = b.group();
  if (lanes > 1) index = b.op(TOLK_IR_MUL, DType::I32, {index, b.constant(DType::I32, lanes)});
  for (uint32_t storage : from) sources.push_back(b.load(in, storage, index, lanes));
  b.store(out, result, index, b.k.add(opcode, out, lanes, sources), lanes);
  return b.k;
}

KernelIR where(DType dtype) {
  Builder b("where");
  const uint32_t out = b.buffer(dtype, TOLK_ACCESS_WRITE), c = b.buffer(DType::BOOL, TOLK_ACCESS_READ);
  const uint32_t x = b.buffer(dtype, TOLK_ACCESS_READ), y = b.buffer(dtype, TOLK_ACCESS_READ), i = b.group();
  const uint32_t gate = b.load(DType::BOOL, c, i), a = b.load(dtype, x, i), other = b.load(dtype, y, i);
  b.store(dtype, out, i, b.op(TOLK_IR_WHERE, dtype, {gate, a, other}));
  return b.k;
}

KernelIR add_value(const char* name) {
  Builder b(name);
  const uint32_t data = b.buffer(DType::I32, TOLK_ACCESS_READ | TOLK_ACCESS_WRITE);
  const uint32_t v = b.value(DType::I32, -1000000, 1000000), i = b.group();
  b.store(DType::I32, data, i, b.op(TOLK_IR_ADD, DType::I32, {b.load(DType::I32, data, i), v}));
  return b.k;
}

KernelIR add_to(const char* name) {
  Builder b(name);
  const uint32_t out = b.buffer(DType::I32, TOLK_ACCESS_WRITE), in = b.buffer(DType::I32, TOLK_ACCESS_READ);
  const uint32_t v = b.value(DType::I32, -1000000, 1000000), i = b.group();
  b.store(DType::I32, out, i, b.op(TOLK_IR_ADD, DType::I32, {b.load(DType::I32, in, i), v}));
  return b.k;
}

KernelIR stir() {
  Builder b("stir");
  const uint32_t out = b.buffer(DType::U32, TOLK_ACCESS_WRITE), in = b.buffer(DType::U32, TOLK_ACCESS_READ);
  const uint32_t times = b.value(DType::I32, 1, kStirRounds), zero = b.constant(DType::I32, 0);
  const uint32_t mul = b.constant(DType::U32, kMultiplier), inc = b.constant(DType::U32, kIncrement);
  const uint32_t shift = b.constant(DType::U32, 15);
  const uint32_t reg = b.k.add(TOLK_IR_DEFINE_REG, DType::U32, 1, {}, {1});
  b.store(DType::U32, reg, zero, b.load(DType::U32, in, zero));
  const uint32_t loop = b.k.add(TOLK_IR_RANGE, DType::I32, 1, {times});
  uint32_t x = b.load(DType::U32, reg, zero);
  for (int i = 0; i < kUnrolled; i++) {
    const uint32_t y = b.op(TOLK_IR_ADD, DType::U32, {b.op(TOLK_IR_MUL, DType::U32, {x, mul}), inc});
    x = b.op(TOLK_IR_XOR, DType::U32, {y, b.op(TOLK_IR_SHR, DType::U32, {y, shift})});
  }
  b.store(DType::U32, reg, zero, x);
  b.k.add(TOLK_IR_END, DType::Void, 1, {loop});
  b.store(DType::U32, out, zero, b.load(DType::U32, reg, zero));
  return b.k;
}

uint32_t stirred(uint32_t x, int32_t times) {
  for (int32_t i = 0; i < times * kUnrolled; i++) {
    x = x * kMultiplier + kIncrement;
    x ^= x >> 15;
  }
  return x;
}

KernelIR weighted(uint32_t inputs, uint32_t values) {
  Builder b("weighted");
  const uint32_t out = b.buffer(DType::I32, TOLK_ACCESS_WRITE);
  std::vector<uint32_t> from, with;
  for (uint32_t k = 0; k < inputs; k++) from.push_back(b.buffer(DType::I32, TOLK_ACCESS_READ));
  for (uint32_t k = 0; k < values; k++) with.push_back(b.value(DType::I32, -1000, 1000));
  const uint32_t i = b.group();
  uint32_t total = b.constant(DType::I32, 0);
  auto add = [&](uint32_t x, uint32_t weight) {
    total = b.op(TOLK_IR_ADD, DType::I32,
                 {total, b.op(TOLK_IR_MUL, DType::I32, {x, b.constant(DType::I32, weight)})});
  };
  for (uint32_t k = 0; k < inputs; k++) add(b.load(DType::I32, from[k], i), k + 1);
  for (uint32_t k = 0; k < values; k++) add(with[k], k + 100);
  b.store(DType::I32, out, i, total);
  return b.k;
}

KernelIR store_value(DType dtype) {
  Builder b("store_value");
  const uint32_t out = b.buffer(dtype, TOLK_ACCESS_WRITE);
  const bool is_signed = tolk::is_signed(dtype);
  const int width = tolk::bits(dtype);
  const int64_t max = width == 64 ? INT64_MAX : (int64_t{1} << (is_signed ? width - 1 : width)) - 1;
  const uint32_t v = b.value(dtype, is_signed ? -max - 1 : 0, max);
  b.store(dtype, out, b.constant(DType::I32, 0), v);
  return b.k;
}

KernelIR gated() {
  Builder b("gated");
  const uint32_t out = b.buffer(DType::I32, TOLK_ACCESS_WRITE), in = b.buffer(DType::I32, TOLK_ACCESS_READ);
  const uint32_t limit = b.value(DType::I32, 0, 1000000), i = b.group();
  const uint32_t gate = b.op(TOLK_IR_CMPLT, DType::BOOL, {i, limit}),
                 other = b.constant(DType::I32, 0xffffffff);
  b.store(DType::I32, out, i, b.k.add(TOLK_IR_LOAD, DType::I32, 1, {in, i, gate, other}));
  return b.k;
}

KernelIR sum(uint32_t count) {
  Builder b("sum");
  const uint32_t out = b.buffer(DType::F32, TOLK_ACCESS_WRITE), in = b.buffer(DType::F32, TOLK_ACCESS_READ);
  const uint32_t zero = b.constant(DType::I32, 0), n = b.constant(DType::I32, count);
  const uint32_t reg = b.k.add(TOLK_IR_DEFINE_REG, DType::F32, 1, {}, {1});
  b.store(DType::F32, reg, zero, b.constant(DType::F32, 0));
  const uint32_t loop = b.k.add(TOLK_IR_RANGE, DType::I32, 1, {n});
  const uint32_t next = b.load(DType::F32, in, loop);
  b.store(DType::F32, reg, zero, b.op(TOLK_IR_ADD, DType::F32, {b.load(DType::F32, reg, zero), next}));
  b.k.add(TOLK_IR_END, DType::Void, 1, {loop});
  b.store(DType::F32, out, zero, b.load(DType::F32, reg, zero));
  return b.k;
}

} // namespace conformance
