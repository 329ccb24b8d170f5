// State of rendering one kernel. A vector is its lanes as scalars: GPUs run one lane of a work-item at a time.
// Member functions are in spirv.cpp (the shader around the body, branches, values), spirv_loops.cpp and spirv_memory.cpp.
// Internal to the renderer.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tolk/render/emit/kernel_view.h"
#include "tolk/render/renderer.h"
#include "tolk/render/spirv/spirv_emit.h"

namespace tolk::spirv {

// A loop that is open, by the labels of its blocks.
struct OpenLoop {
  Value index;
  uint32_t header, next, merge; // `next` has the back edge
  uint32_t next_index;          // the index plus one
};

// Where the elements of a buffer, DEFINE_LOCAL or DEFINE_REG are.
struct Storage {
  enum class Place : uint8_t { None, Buffer, Array, Slots };
  Place place = Place::None;
  Kind kind = Kind::I8;        // of an element in memory
  uint32_t storage_class = 0;  // Array
  uint32_t lanes = 1;          // DEFINE_REG: elements of one index
  Value address;               // Buffer: i64
  uint32_t variable = 0;       // Array
  std::vector<uint32_t> slots; // Slots: a variable for each element
};

class KernelWriter : emit::KernelView {
public:
  KernelWriter(const KernelIR& kernel, const RenderOptions& options);
  std::string run();

private:
  // spirv.cpp
  void emit(uint32_t k);
  void emit_param(uint32_t k);
  void emit_special(uint32_t k);
  void emit_alu(uint32_t k);
  void emit_from_to(uint32_t begin, uint32_t end);
  OpenLoop open_loop(Value extent);
  void close_loop(const OpenLoop& loop);
  uint32_t open_branch(Value condition); // gives the label behind it
  void close_branch(uint32_t merge);
  void begin_block(uint32_t label);
  void branch(uint32_t label) { e_.instruction(kOpBranch, {label}); }
  void set_float_modes();
  void set_local_size();
  void load_arguments();
  Value argument(uint64_t slot);
  uint32_t builtin(uint32_t number);

  void set(uint32_t k, std::span<const Value> lanes);
  void set(uint32_t k, Value value) { set(k, std::span<const Value>(&value, 1)); }
  std::span<const Value> lanes_of(uint32_t k) const {
    return {values_.data() + first_value_[k], op(k).lanes};
  }
  Value lane(uint32_t k, uint32_t number) const { return lanes_of(k)[op(k).lanes == 1 ? 0 : number]; }

  // spirv_loops.cpp
  void find_ends();
  void plan_unrolling(uint64_t most_iterations);
  uint64_t unrolled_size() const;
  bool unroll_below(uint64_t most_iterations, bool smallest, uint64_t& iterations);
  void emit_range(uint32_t k);

  // spirv_memory.cpp
  void find_slots();
  void define_storage(uint32_t k);
  void load(uint32_t k);
  void store(uint32_t k);
  Value element_number(uint32_t storage, uint32_t index, uint32_t lane);
  Value address(const Storage& storage, Value index, uint32_t lane);
  uint32_t pointer(const Storage& storage, Value index);
  Value read(uint32_t k, uint32_t lane, Value gate);
  void write(uint32_t k, uint32_t lane, Value value);
  uint32_t chunk(uint32_t k, uint32_t lane, bool gated) const;
  void read_chunk(uint32_t k, uint32_t lane, uint32_t lanes, std::vector<Value>& out);
  void write_chunk(uint32_t k, uint32_t lane, std::span<const Value> values);
  uint32_t global_pointer(Value address, uint32_t type);
  void access_capability(Kind kind);

  std::string_view features_;
  Module module_;
  SpirvEmitter e_;
  Words variables_;    // of storage class Function: the first instructions of the first block
  Words entry_;        // the rest of the first block: arguments
  uint32_t block_ = 0; // label of the block that `e_` is in
  Value arguments_;    // address of the argument block
  uint32_t arguments_pointer_ = 0;

  // by operation
  std::vector<uint32_t> first_value_; // into values_
  std::vector<Storage> storage_;
  std::vector<bool> is_slots_;
  std::vector<uint32_t> end_;    // RANGE: its END
  std::vector<uint32_t> unroll_; // RANGE: iterations that one turn of the loop does

  std::vector<Value> values_;
  std::vector<uint32_t> branches_;                      // merge labels of the open IFs
  std::vector<std::pair<uint32_t, uint32_t>> builtins_; // number, variable
};

} // namespace tolk::spirv
