// Loads and stores. A buffer's element is at its address plus the index times the element's size, in 64 bits.
// Where the gate is false memory is not touched: a gated load reads the argument block instead, a gated store is
// branched around.
#include <algorithm>

#include "tolk/base/check.h"
#include "tolk/base/error.h"
#include "tolk/render/emit/arithmetic.h"
#include "tolk/render/spirv/spirv_kernel.h"

namespace tolk::spirv {
namespace {

constexpr uint32_t kAligned = 2; // memory operand; obligatory for buffers

uint32_t element_bytes(Kind kind) { return static_cast<uint32_t>(bits(kind)) / 8; }

// The bits of a constant index as a 64-bit number.
uint64_t sign_extended(const Value& index) {
  if (index.type.kind == Kind::I64) return index.bits;
  return static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(index.bits)));
}

} // namespace

// Register storage whose indices are all constant becomes a variable for each element, which every driver keeps
// in registers.
void KernelWriter::find_slots() {
  for (uint32_t k = 0; k < kernel_.ops.size(); ++k) {
    uint16_t code = op(k).opcode;
    if (code == TOLK_IR_DEFINE_REG) is_slots_[k] = true;
    if (code != TOLK_IR_LOAD && code != TOLK_IR_STORE) continue;
    uint32_t storage = sources(k)[0], index = sources(k)[1];
    if (op(storage).opcode != TOLK_IR_DEFINE_REG) continue;
    bool constant_index = op(index).opcode == TOLK_IR_CONST && op(index).lanes == 1;
    uint64_t last = constant_index ? attr(index) + (op(storage).lanes == 1 ? op(k).lanes - 1u : 0u) : 0;
    if (!constant_index || last >= attr(storage)) is_slots_[storage] = false;
  }
}

void KernelWriter::define_storage(uint32_t k) {
  Storage& s = storage_[k];
  bool local = op(k).opcode == TOLK_IR_DEFINE_LOCAL;
  s.kind = emit::memory_type(dtype(k), 1).kind;
  s.lanes = op(k).lanes;
  uint64_t count = attr(k) * s.lanes;
  if (count > UINT32_MAX) throw InternalError("SPIR-V has no private or work-group storage of 2^32 elements");
  uint32_t element = module_.type(s.kind);
  auto private_variable = [&](uint32_t type) {
    uint32_t id = module_.new_id();
    put(variables_, kOpVariable, {module_.pointer_type(kClassFunction, type), id, kClassFunction});
    return id;
  };
  if (is_slots_[k]) {
    s.place = Storage::Place::Slots;
    for (uint64_t i = 0; i < count; ++i) s.slots.push_back(private_variable(element));
    return;
  }
  s.place = Storage::Place::Array;
  uint32_t array = module_.array_type(element, static_cast<uint32_t>(count));
  s.storage_class = local ? kClassWorkgroup : kClassFunction;
  s.variable = local ? module_.variable(kClassWorkgroup, array) : private_variable(array);
}

void KernelWriter::access_capability(Kind kind) {
  if (kind == Kind::I8) module_.capability(kCapabilityStorageBuffer8BitAccess);
  if (kind == Kind::I16) module_.capability(kCapabilityStorageBuffer16BitAccess);
}

uint32_t KernelWriter::global_pointer(Value address, uint32_t type) {
  return e_.define_id(kOpConvertUToPtr, module_.pointer_type(kClassPhysicalStorageBuffer, type),
                      {e_.id(address)});
}

// The index of lane `lane` of an access, without the lane itself where the index is a scalar.
Value KernelWriter::element_number(uint32_t storage, uint32_t index, uint32_t lane_number) {
  const Storage& s = storage_[storage];
  Value number = lane(index, lane_number);
  uint64_t offset = op(index).lanes == 1 ? lane_number : 0;
  if (number.is_constant()) return constant({Kind::I64}, sign_extended(number) * s.lanes + offset);
  if (s.lanes > 1) number = e_.binary("mul", number, s.lanes);
  return offset ? e_.binary("add", number, offset) : number;
}

// Of the element at `index`, plus `lane` elements.
Value KernelWriter::address(const Storage& s, Value index, uint32_t lane_number) {
  uint64_t bytes = element_bytes(s.kind), offset = lane_number * bytes;
  if (index.is_constant()) {
    offset += sign_extended(index) * bytes;
    return offset ? e_.binary("add", s.address, offset) : s.address;
  }
  Value wide = e_.resize(index, Kind::I64, true);
  Value from_start = bytes == 1 ? wide : e_.binary("mul", wide, bytes);
  Value result = e_.binary("add", s.address, from_start);
  return offset ? e_.binary("add", result, offset) : result;
}

uint32_t KernelWriter::pointer(const Storage& s, Value number) {
  if (s.place == Storage::Place::Slots) return s.slots.at(number.bits);
  uint32_t type = module_.pointer_type(s.storage_class, module_.type(s.kind));
  return e_.define_id(kOpAccessChain, type, {s.variable, e_.id(number)});
}

Value KernelWriter::read(uint32_t k, uint32_t lane_number, Value gate) {
  uint32_t storage = sources(k)[0], index = sources(k)[1];
  const Storage& s = storage_[storage];
  if (s.place != Storage::Place::Buffer) {
    Value number = element_number(storage, index, lane_number);
    // Element 0 exists.
    if (gate && s.place == Storage::Place::Array) number = e_.select(gate, number, constant(number.type, 0));
    return e_.define(kOpLoad, s.kind, {pointer(s, number)});
  }
  Value at = address(s, lane(index, lane_number), op(index).lanes == 1 ? lane_number : 0);
  if (gate) at = e_.select(gate, at, arguments_);
  uint32_t from = global_pointer(at, module_.type(s.kind));
  return e_.define(kOpLoad, s.kind, {from, kAligned, element_bytes(s.kind)});
}

void KernelWriter::write(uint32_t k, uint32_t lane_number, Value value) {
  uint32_t storage = sources(k)[0], index = sources(k)[1];
  const Storage& s = storage_[storage];
  if (s.place != Storage::Place::Buffer) {
    uint32_t to = pointer(s, element_number(storage, index, lane_number));
    return e_.instruction(kOpStore, {to, e_.id(value)});
  }
  Value at = address(s, lane(index, lane_number), op(index).lanes == 1 ? lane_number : 0);
  uint32_t to = global_pointer(at, module_.type(s.kind));
  e_.instruction(kOpStore, {to, e_.id(value), kAligned, element_bytes(s.kind)});
}

// How many elements from `lane` on one instruction accesses: 4, 2 or 1. The address has the alignment of an
// element, which is all that Vulkan asks for.
uint32_t KernelWriter::chunk(uint32_t k, uint32_t lane_number, bool gated) const {
  uint32_t storage = sources(k)[0], index = sources(k)[1];
  bool consecutive = storage_[storage].place == Storage::Place::Buffer && op(index).lanes == 1;
  if (gated || !consecutive) return 1;
  uint32_t left = op(k).lanes - lane_number;
  return left >= 4 ? 4 : left >= 2 ? 2 : 1;
}

void KernelWriter::read_chunk(uint32_t k, uint32_t lane_number, uint32_t lanes, std::vector<Value>& out) {
  const Storage& s = storage_[sources(k)[0]];
  uint32_t vector = module_.vector_type(s.kind, lanes);
  uint32_t from = global_pointer(address(s, lane(sources(k)[1], 0), lane_number), vector);
  uint32_t all = e_.define_id(kOpLoad, vector, {from, kAligned, element_bytes(s.kind)});
  for (uint32_t i = 0; i < lanes; ++i) out.push_back(e_.define(kOpCompositeExtract, s.kind, {all, i}));
}

void KernelWriter::write_chunk(uint32_t k, uint32_t lane_number, std::span<const Value> values) {
  const Storage& s = storage_[sources(k)[0]];
  uint32_t vector = module_.vector_type(s.kind, static_cast<uint32_t>(values.size()));
  uint32_t to = global_pointer(address(s, lane(sources(k)[1], 0), lane_number), vector);
  Words words{vector, module_.new_id()};
  for (const Value& value : values) words.push_back(e_.id(value));
  put(e_.body, kOpCompositeConstruct, words);
  e_.instruction(kOpStore, {to, words[1], kAligned, element_bytes(s.kind)});
}

void KernelWriter::load(uint32_t k) {
  std::span<const uint32_t> src = sources(k);
  bool gated = src.size() == 4;
  std::vector<Value> lanes;
  while (lanes.size() < op(k).lanes) {
    auto i = static_cast<uint32_t>(lanes.size());
    uint32_t count = chunk(k, i, gated);
    if (count > 1) {
      read_chunk(k, i, count, lanes);
      continue;
    }
    Value gate = gated ? lane(src[2], i) : Value{};
    if (gate.is_constant()) {
      if ((gate.bits & 1) == 0) {
        lanes.push_back(emit::to_memory(e_, lane(src[3], i)));
        continue;
      }
      gate = {};
    }
    Value value = read(k, i, gate);
    lanes.push_back(gate ? e_.select(gate, value, emit::to_memory(e_, lane(src[3], i))) : value);
  }
  for (Value& value : lanes) value = emit::from_memory(e_, value, dtype(k));
  set(k, lanes);
}

void KernelWriter::store(uint32_t k) {
  std::span<const uint32_t> src = sources(k);
  bool gated = src.size() == 4;
  std::vector<Value> values;
  for (uint32_t i = 0; i < op(k).lanes; ++i) values.push_back(emit::to_memory(e_, lane(src[2], i)));
  // In lane order: of lanes with one index, the last wins. One gate of all lanes makes one branch.
  bool one_gate = gated && op(src[3]).lanes == 1;
  uint32_t merge = one_gate ? open_branch(lane(src[3], 0)) : 0;
  for (uint32_t i = 0; i < op(k).lanes;) {
    uint32_t count = chunk(k, i, gated && !one_gate);
    uint32_t lane_merge = gated && !one_gate ? open_branch(lane(src[3], i)) : 0;
    if (count > 1)
      write_chunk(k, i, {values.data() + i, count});
    else
      write(k, i, values[i]);
    if (lane_merge) close_branch(lane_merge);
    i += count;
  }
  if (merge) close_branch(merge);
}

} // namespace tolk::spirv
