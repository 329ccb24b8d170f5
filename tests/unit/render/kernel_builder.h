// Shorthand for hand-built kernels: one method per operation, operands are operation numbers.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "tolk/dtype/dtype.h"
#include "tolk/kernel/kernel_ir.h"

namespace tolk::test {

struct KernelBuilder {
  KernelIR kernel;
  using Id = uint32_t;

  explicit KernelBuilder(const char* name) { kernel.name = name; }

  Id buffer(DType dtype, bool written, uint64_t count = 0) {
    tolk_param p{};
    p.kind = TOLK_PARAM_BUFFER;
    p.access = written ? TOLK_ACCESS_READ | TOLK_ACCESS_WRITE : TOLK_ACCESS_READ;
    p.dtype = static_cast<uint32_t>(dtype);
    p.count = count;
    kernel.params.push_back(p);
    return kernel.add(TOLK_IR_PARAM, dtype, 1, {}, {kernel.params.size() - 1});
  }
  Id value(DType dtype, int64_t min, int64_t max) {
    tolk_param p{};
    p.kind = TOLK_PARAM_VALUE;
    p.dtype = static_cast<uint32_t>(dtype);
    p.min = min;
    p.max = max;
    kernel.params.push_back(p);
    return kernel.add(TOLK_IR_PARAM, dtype, 1, {}, {kernel.params.size() - 1});
  }
  Id tile(uint64_t bound = 0) { return kernel.add(TOLK_IR_SPECIAL, DType::I32, 1, {}, {0, bound}); }
  Id constant(DType dtype, uint64_t bits, uint16_t lanes = 1) {
    return kernel.add(TOLK_IR_CONST, dtype, lanes, {}, {bits});
  }
  Id index(int64_t value) { return constant(DType::I32, static_cast<uint64_t>(value)); }
  Id range(Id extent) {
    return kernel.add(TOLK_IR_RANGE, static_cast<DType>(kernel.ops[extent].dtype), 1, {extent});
  }
  Id loop(int64_t extent) { return range(index(extent)); }
  void end(Id range) { kernel.add(TOLK_IR_END, DType::Void, 1, {range}); }
  Id begin_if(Id condition) { return kernel.add(TOLK_IR_IF, DType::Void, 1, {condition}); }
  void end_if(Id opener) { kernel.add(TOLK_IR_ENDIF, DType::Void, 1, {opener}); }
  Id registers(DType dtype, uint64_t count, uint16_t lanes = 1) {
    return kernel.add(TOLK_IR_DEFINE_REG, dtype, lanes, {}, {count});
  }
  Id local(DType dtype, uint64_t count) { return kernel.add(TOLK_IR_DEFINE_LOCAL, dtype, 1, {}, {count}); }
  Id load(Id storage, Id index, uint16_t lanes = 1) {
    return kernel.add(TOLK_IR_LOAD, dtype(storage), lanes, {storage, index});
  }
  Id load(Id storage, Id index, uint16_t lanes, Id gate, Id alt) {
    return kernel.add(TOLK_IR_LOAD, dtype(storage), lanes, {storage, index, gate, alt});
  }
  void store(Id storage, Id index, Id value) {
    kernel.add(TOLK_IR_STORE, dtype(value), lanes(value), {storage, index, value});
  }
  void store(Id storage, Id index, Id value, Id gate) {
    kernel.add(TOLK_IR_STORE, dtype(value), lanes(value), {storage, index, value, gate});
  }
  Id splat(Id scalar, uint16_t lanes) { return kernel.add(TOLK_IR_SPLAT, dtype(scalar), lanes, {scalar}); }
  Id build(std::initializer_list<Id> scalars) {
    return build(std::span<const Id>(scalars.begin(), scalars.size()));
  }
  Id build(std::span<const Id> scalars) {
    return kernel.add(TOLK_IR_BUILD, dtype(scalars[0]), static_cast<uint16_t>(scalars.size()), scalars);
  }
  Id extract(Id vector, uint64_t lane) {
    return kernel.add(TOLK_IR_EXTRACT, dtype(vector), 1, {vector}, {lane});
  }
  Id cast(Id value, DType to) { return kernel.add(TOLK_IR_CAST, to, lanes(value), {value}); }
  Id bitcast(Id value, DType to) { return kernel.add(TOLK_IR_BITCAST, to, lanes(value), {value}); }
  // Any operation whose result has the type of its first operand.
  Id op(uint16_t opcode, std::initializer_list<Id> sources, uint8_t flags = 0) {
    return kernel.add(opcode, dtype(*sources.begin()), lanes(*sources.begin()), sources, {}, flags);
  }
  Id add(Id a, Id b) { return op(TOLK_IR_ADD, {a, b}); }
  Id mul(Id a, Id b) { return op(TOLK_IR_MUL, {a, b}); }
  // Index arithmetic, which does not wrap.
  Id iadd(Id a, Id b) { return op(TOLK_IR_ADD, {a, b}, TOLK_IR_NO_WRAP); }
  Id imul(Id a, Id b) { return op(TOLK_IR_MUL, {a, b}, TOLK_IR_NO_WRAP); }
  Id compare(uint16_t opcode, Id a, Id b) { return kernel.add(opcode, DType::BOOL, lanes(a), {a, b}); }
  Id where(Id condition, Id a, Id b) {
    return kernel.add(TOLK_IR_WHERE, dtype(a), lanes(a), {condition, a, b});
  }

  DType dtype(Id id) const { return static_cast<DType>(kernel.ops[id].dtype); }
  uint16_t lanes(Id id) const { return kernel.ops[id].lanes; }
};

} // namespace tolk::test
