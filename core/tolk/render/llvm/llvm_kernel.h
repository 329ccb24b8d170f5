// State of rendering one kernel: results of the analyses, and what emission keeps track of. Member functions are
// in llvm_ir.cpp (analyses, emission, the function around the body), llvm_control.cpp (loops, branches, register
// storage), llvm_memory.cpp and llvm_alu.cpp. Internal to the renderer.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tolk/render/emit/kernel_view.h"
#include "tolk/render/llvm/llvm_emit.h"
#include "tolk/render/renderer.h"

namespace tolk::llvm_text {

// An i32 index that never wraps can be computed in 64 bits, which saves a sign extension at each address. So an
// operation has up to two forms, and each is emitted only if it is used.
struct Need {
  bool narrow = false; // in its own dtype
  bool wide = false;   // as i64; only scalars of dtype i32
};

// A basic block by the number of the operation that made it; the letter tells its role.
struct Label {
  char role = 'B';
  uint32_t op = 0;
};

// What a gated load reads where its gate is false: a constant of `lanes` elements that all have these bits.
struct Substitute {
  Kind kind;
  uint64_t bits;
  uint32_t lanes;
};

// A RANGE or IF that is open.
struct OpenBlock {
  uint32_t op = 0;
  Label before;            // the block that branched here
  bool guarded = false;    // RANGE: the trip count may be 0. IF: always
  bool unrolled = false;   // RANGE with trip count 1: has no block
  size_t phi_position = 0; // in the text, where the header's phis belong
  Value index, extent;
  std::vector<Value> entry_values; // of the slots in `stored`, when the block was entered
  std::vector<Value> phis;         // RANGE: their values at the head of each iteration
};

class KernelWriter : emit::KernelView {
public:
  KernelWriter(const KernelIR& kernel, const RenderOptions& options);
  std::string run();

private:
  bool is_opcode(uint32_t k, uint16_t opcode) const { return kernel_.ops[k].opcode == opcode; }
  // The raw bits of a CONST, sign-extended for signed dtypes.
  int64_t constant_value(uint32_t k) const;

  // analysis (llvm_ir.cpp)
  void find_slots();
  void find_stored_slots();
  void find_needs();
  void find_signs();
  bool widens(uint32_t k) const;

  // emission (llvm_ir.cpp)
  void emit(uint32_t k);
  void emit_param(uint32_t k);
  void emit_special(uint32_t k);
  Value narrow(uint32_t k);
  Value wide(uint32_t k);
  void set_index(uint32_t k, Value i64);
  std::string frame();

  // llvm_control.cpp
  void begin_block(Label label);
  void put_label(std::string& text, Label label);
  void open_range(uint32_t k);
  void close_range(uint32_t k);
  void open_if(uint32_t k);
  void close_if(uint32_t k);
  bool runs_at_least_once(uint32_t extent) const;
  Value slot_value(uint32_t slot) const;

  // llvm_memory.cpp
  void define_local(uint32_t k);
  void define_register(uint32_t k);
  void load(uint32_t k);
  void store(uint32_t k);
  Value load_lanes(uint32_t k, Value gate, Value alt);
  Value load_masked(uint32_t k, Value gate, Value alt);
  void store_lanes(uint32_t k, Value value, Value gate);
  void store_masked(uint32_t k, Value value, Value gate);
  void store_gated(uint32_t storage, Value index, Value value, Value gate);
  Value address(uint32_t storage, Value index, Type element, bool inbounds);
  Value gate_of(uint32_t gate);
  Value lane_index(uint32_t index, uint32_t lane);
  Value load_at(uint32_t storage, Value pointer, Type type);
  Value load_at_if(uint32_t storage, Value pointer, Type type, Value gate, uint64_t otherwise);
  uint32_t substitute(Type type, uint64_t bits);
  void store_at(uint32_t storage, Value pointer, Value value);
  void end_access(uint32_t storage);

  // llvm_alu.cpp
  Value alu(uint32_t k);
  Value alu_wide(uint32_t k);
  Value build(uint32_t k);

  Emitter e_;         // the body
  std::string entry_; // lines of the entry block
  bool may_alias_;

  // by operation
  std::vector<Need> need_;
  std::vector<bool> non_negative_; // integers whose value is never below zero
  std::vector<Value> narrow_, wide_;
  std::vector<uint32_t> storage_number_; // buffers and locals: number of its alias scope

  // register storage that lives in values: a slot is one element of a DEFINE_REG
  static constexpr uint32_t kNoSlot = 0xffffffff;
  std::vector<uint32_t> first_slot_; // by operation; kNoSlot when it stays memory
  std::vector<uint32_t> slot_owner_;
  std::vector<Value> slots_;                  // by slot: the present value
  std::vector<std::vector<uint32_t>> stored_; // by RANGE or IF: slots stored inside, defined outside

  std::vector<OpenBlock> open_;
  Label block_{'B', 0};
  std::vector<uint32_t> loops_; // RANGEs with metadata, in the order of closing
  uint32_t storage_count_ = 0;
  uint32_t branch_count_ = 0; // of gated stores
  std::vector<Substitute> substitutes_;
  bool has_tiles_ = false;
  Value tile_;
};

// Numbers of metadata nodes: three fixed ones, three for each storage, then one for each loop.
inline constexpr uint32_t kDomainNode = 0, kNoUnrollNode = 1, kNoVectorizeNode = 2, kFirstStorageNode = 3;

} // namespace tolk::llvm_text
