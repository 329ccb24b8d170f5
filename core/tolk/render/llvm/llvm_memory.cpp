// Loads and stores. If the gate is false, the address must not be accessed: a gated load reads a private
// constant instead, a gated store is branched around, and gates per lane use masked intrinsics. A constant
// alternative value is stored in the private constant, which saves a select; on x86 a select between scalar
// floats becomes a branch.
#include <algorithm>

#include "tolk/base/check.h"
#include "tolk/render/emit/arithmetic.h"
#include "tolk/render/llvm/llvm_kernel.h"

namespace tolk::llvm_text {
namespace {
uint32_t element_bytes(Type type) { return static_cast<uint32_t>(bits(type.kind)) / 8; }
} // namespace

void KernelWriter::define_local(uint32_t k) {
  if (!need_[k].narrow) return;
  std::swap(e_.text, entry_);
  narrow_[k] = e_.define({Kind::Ptr});
  e_.out("getelementptr inbounds i8, ptr %scratch, i64 ", local_storage_offset(kernel_, k), '\n');
  std::swap(e_.text, entry_);
}

void KernelWriter::define_register(uint32_t k) {
  if (first_slot_[k] != kNoSlot || !need_[k].narrow) return;
  std::swap(e_.text, entry_);
  narrow_[k] = e_.define({Kind::Ptr});
  e_.out("alloca [", attr(k), " x ", memory_type(dtype(k), op(k).lanes), "], align 64\n");
  std::swap(e_.text, entry_);
}

Value KernelWriter::address(uint32_t storage, Value index, Type element, bool inbounds) {
  Value base = narrow(storage);
  if (index.is_constant() && index.bits == 0) return base;
  // Register storage counts whole vectors, everything else single elements.
  Type unit = op(storage).lanes > 1 && is_opcode(storage, TOLK_IR_DEFINE_REG) ? element : element.scalar();
  Value result = e_.define({Kind::Ptr});
  e_.out("getelementptr ", inbounds ? "inbounds " : "", unit, ", ptr ", base, ", i64 ", index, '\n');
  return result;
}

// The gate of a load or store: one for all lanes where they all have the same.
Value KernelWriter::gate_of(uint32_t gate) {
  return is_opcode(gate, TOLK_IR_SPLAT) ? narrow(sources(gate)[0]) : narrow(gate);
}

// Index of one lane, as i64: of a vector index, or counted from a scalar one.
Value KernelWriter::lane_index(uint32_t index, uint32_t lane) {
  if (op(index).lanes == 1) return lane == 0 ? wide(index) : e_.binary("add", wide(index), lane);
  if (is_opcode(index, TOLK_IR_BUILD)) return wide(sources(index)[lane]);
  Value narrow_index = e_.extract(narrow(index), lane);
  if (narrow_index.is_constant() && narrow_index.type.kind == Kind::I32)
    return constant({Kind::I64},
                    static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(narrow_index.bits))));
  return e_.resize(narrow_index, Kind::I64, !non_negative_[index]);
}

// The end of a load's or store's line: to which storage it belongs, unless storages may overlap.
void KernelWriter::end_access(uint32_t storage) {
  if (!may_alias_ && storage_count_ > 1 && !is_opcode(storage, TOLK_IR_DEFINE_REG)) {
    uint32_t node = kFirstStorageNode + 3 * storage_number_[storage];
    e_.out(", !alias.scope !", node + 1, ", !noalias !", node + 2);
  }
  e_.text += '\n';
}

Value KernelWriter::load_at(uint32_t storage, Value pointer, Type type) {
  Value result = e_.define(type);
  e_.out("load ", type, ", ptr ", pointer, ", align ", element_bytes(type));
  end_access(storage);
  return result;
}

// Number of the private constant that has at least these lanes.
uint32_t KernelWriter::substitute(Type type, uint64_t bits) {
  for (uint32_t i = 0; i < substitutes_.size(); ++i) {
    Substitute& known = substitutes_[i];
    if (known.bits != bits || known.kind != type.kind) continue;
    known.lanes = std::max<uint32_t>(known.lanes, type.lanes);
    return i;
  }
  substitutes_.push_back({type.kind, bits, type.lanes});
  return static_cast<uint32_t>(substitutes_.size() - 1);
}

Value KernelWriter::load_at_if(uint32_t storage, Value pointer, Type type, Value gate, uint64_t otherwise) {
  Value safe = e_.define({Kind::Ptr});
  e_.out("select i1 ", gate, ", ptr ", pointer, ", ptr @otherwise", substitute(type, otherwise), '\n');
  return load_at(storage, safe, type);
}

void KernelWriter::store_at(uint32_t storage, Value pointer, Value value) {
  e_.out("  store ", value.type, ' ', value, ", ptr ", pointer, ", align ", element_bytes(value.type));
  end_access(storage);
}

void KernelWriter::load(uint32_t k) {
  std::span<const uint32_t> src = sources(k);
  uint32_t storage = src[0], index = src[1];
  if (first_slot_[storage] != kNoSlot) {
    narrow_[k] = slot_value(first_slot_[storage] + static_cast<uint32_t>(constant_value(index)));
    return;
  }
  Value gate, alt;
  if (src.size() == 4) {
    gate = gate_of(src[2]);
    alt = narrow(src[3]);
    if (gate.is_constant()) {
      if ((gate.bits & 1) == 0) {
        narrow_[k] = alt;
        return;
      }
      gate = {};
    }
  }
  Type type = memory_type(dtype(k), op(k).lanes);
  bool lane_gates = gate && gate.type.lanes > 1;
  // Few processors load 8 and 16-bit lanes under a mask; LLVM would make a branch of each lane.
  if (op(index).lanes > 1 || (lane_gates && element_bytes(type) < 4)) {
    narrow_[k] = load_lanes(k, gate, alt);
    return;
  }
  if (lane_gates) {
    narrow_[k] = load_masked(k, gate, alt);
    return;
  }
  Value pointer = address(storage, wide(index), type, true);
  uint64_t otherwise = alt.is_constant() ? alt.bits : 0;
  Value loaded = gate ? load_at_if(storage, pointer, type, gate, otherwise) : load_at(storage, pointer, type);
  loaded = emit::from_memory(e_, loaded, dtype(k));
  narrow_[k] = gate && !alt.is_constant() ? e_.select(gate, loaded, alt) : loaded;
}

Value KernelWriter::load_lanes(uint32_t k, Value gate, Value alt) {
  uint32_t storage = sources(k)[0], index = sources(k)[1];
  Type type = memory_type(dtype(k), op(k).lanes);
  Value result = e_.poison(type);
  uint64_t otherwise = alt.is_constant() ? alt.bits : 0;
  for (uint32_t lane = 0; lane < type.lanes; ++lane) {
    Value pointer = address(storage, lane_index(index, lane), type.scalar(), true);
    Value one = gate ? load_at_if(storage, pointer, type.scalar(), e_.extract(gate, lane), otherwise)
                     : load_at(storage, pointer, type.scalar());
    result = e_.insert(result, one, lane);
  }
  result = emit::from_memory(e_, result, dtype(k));
  return gate && !alt.is_constant() ? e_.select(gate, result, alt) : result;
}

Value KernelWriter::load_masked(uint32_t k, Value gate, Value alt) {
  uint32_t storage = sources(k)[0];
  Type type = memory_type(dtype(k), op(k).lanes);
  Value other = emit::to_memory(e_, alt);
  // The first lane may be outside the buffer while others are inside.
  Value pointer = address(storage, wide(sources(k)[1]), type, false);
  Value result = e_.define(type);
  e_.out("call ", type, " @llvm.masked.load.");
  append_suffix(e_.text, type);
  e_.out(".p0(ptr ", pointer, ", i32 ", element_bytes(type), ", ", gate.type, ' ', gate, ", ", type, ' ',
         other, ")");
  end_access(storage);
  return emit::from_memory(e_, result, dtype(k));
}

void KernelWriter::store(uint32_t k) {
  std::span<const uint32_t> src = sources(k);
  uint32_t storage = src[0], index = src[1];
  Value value = narrow(src[2]);
  if (first_slot_[storage] != kNoSlot) {
    slots_[first_slot_[storage] + static_cast<uint32_t>(constant_value(index))] = value;
    return;
  }
  Value gate;
  if (src.size() == 4) {
    gate = gate_of(src[3]);
    if (gate.is_constant()) {
      if ((gate.bits & 1) == 0) return;
      gate = {};
    }
  }
  value = emit::to_memory(e_, value);
  if (op(index).lanes > 1) return store_lanes(k, value, gate);
  if (gate && gate.type.lanes > 1) return store_masked(k, value, gate);
  store_gated(storage, wide(index), value, gate);
}

// The gate is a scalar or absent.
void KernelWriter::store_gated(uint32_t storage, Value index, Value value, Value gate) {
  if (!gate) return store_at(storage, address(storage, index, value.type, true), value);
  uint32_t branch = branch_count_++;
  e_.out("  br i1 ", gate, ", label %S", branch, ", label %U", branch, '\n');
  begin_block({'S', branch});
  store_at(storage, address(storage, index, value.type, true), value);
  e_.out("  br label %U", branch, '\n');
  begin_block({'U', branch});
}

// In lane order: of lanes with one index, the last wins.
void KernelWriter::store_lanes(uint32_t k, Value value, Value gate) {
  uint32_t storage = sources(k)[0], index = sources(k)[1];
  for (uint32_t lane = 0; lane < value.type.lanes; ++lane)
    store_gated(storage, lane_index(index, lane), e_.extract(value, lane),
                gate ? e_.extract(gate, lane) : Value{});
}

void KernelWriter::store_masked(uint32_t k, Value value, Value gate) {
  uint32_t storage = sources(k)[0];
  Value pointer = address(storage, wide(sources(k)[1]), value.type, false);
  e_.out("  call void @llvm.masked.store.");
  append_suffix(e_.text, value.type);
  e_.out(".p0(", value.type, ' ', value, ", ptr ", pointer, ", i32 ", element_bytes(value.type), ", ",
         gate.type, ' ', gate, ")");
  end_access(storage);
}

} // namespace tolk::llvm_text
