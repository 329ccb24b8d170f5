// State of a linearisation. Internal to lower/: linearize.cpp places values and loops, emit.cpp writes single
// operations and the parameter list.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "tolk/codegen/lower/linearize.h"

namespace tolk::codegen {

class Linearizer {
public:
  Linearizer(const UOp& sink, int64_t tiles, int64_t items, const Target& target);
  Kernel run();

private:
  // An operation before it has its number.
  struct Instruction {
    uint16_t opcode = 0;
    DType dtype = DType::Void;
    uint16_t lanes = 1;
    uint8_t flags = 0;
    uint8_t attr_count = 0;
    uint64_t attrs[2] = {0, 0};
    std::vector<uint32_t> sources; // instructions
  };
  // An instruction, or the block of a loop that is complete.
  struct Item {
    bool is_block;
    uint32_t number;
  };
  struct Block {
    uint64_t bit = 0;          // of the loop, 0 for the outermost block
    uint32_t range = 0;        // its RANGE instruction
    bool may_be_empty = false; // the loop may run no iteration
    double trips = 1;          // times the block runs in a launch, at most
    std::vector<Item> items;
  };
  // Where a value is.
  struct Place {
    uint32_t instruction = 0;
    uint32_t block = kNone;
    int depth = 0;
  };
  static constexpr uint32_t kNone = 0xffffffff;

  // linearize.cpp
  void analyse();
  void choose_index_type();
  // Nodes made while linearizing are constants: they have no loops and no sources.
  uint64_t loops_of_node(const UOp& u) const { return u.id() < loops_.size() ? loops_[u.id()] : 0; }
  bool unsafe(const UOp& u) const { return u.id() < unsafe_.size() && unsafe_[u.id()]; }
  Place& place(const UOp& u) {
    if (u.id() >= place_.size()) place_.resize(u.id() + 64);
    return place_[u.id()];
  }
  bool is_here(const Place& p) const {
    return p.block != kNone && size_t(p.depth) < chain_.size() && chain_[size_t(p.depth)] == p.block;
  }
  int depth_of(const UOp& u) const;
  Block& block_at(int depth) { return *blocks_[chain_[size_t(depth)]]; }
  uint32_t emit(const UOp& u);
  void emit_here(const UOp& u);
  void emit_effect(const UOp& u);
  void emit_store(const UOp& u);
  void emit_reductions(const UOp& u);
  void open_loop(const UOp& range);
  void close_loop();
  uint32_t fold(Op op, uint32_t accumulator, const UOp& value, int depth);
  void flatten(uint32_t block, KernelIR& ir, std::vector<uint32_t>& numbers);

  // emit.cpp
  void number_params();
  uint32_t add(Instruction in, int depth);
  uint32_t emit_plain(const UOp& u, int depth);
  uint32_t constant_instruction(DType dtype, uint64_t bits, int lanes);
  uint32_t special(const UOp& u);
  uint32_t parameter(const UOp& u);
  DType type_of(const UOp& u) const { return u.dtype() == DType::Index ? index_type_ : u.dtype(); }
  void count_access(const UOp& storage, uint32_t access, int lanes, int depth);
  uint32_t emit_store_to_local(const UOp& u, int depth);
  void fill_info(Kernel& kernel) const;

  const UOp& sink_;
  const Target& target_;
  int64_t tiles_, items_;
  DType index_type_ = DType::I32;

  // by node id
  std::vector<uint64_t> loops_; // loops that a value is inside of
  std::vector<uint8_t> unsafe_; // reads memory that only its loop makes readable
  std::vector<uint16_t> level_; // REDUCEs below, on the longest path
  std::vector<Place> place_;
  std::vector<UOp> reductions_;                     // all, in order
  std::unordered_map<UOp, uint64_t, UOpHash> bits_; // of loops

  std::vector<Instruction> instructions_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<uint32_t> chain_; // open blocks

  std::vector<UOp> params_, vars_; // buffers by slot, variables by name
  std::vector<uint8_t> access_;    // by buffer
  std::vector<double> traffic_;    // bytes, by buffer
  double flops_ = 0, bytes_ = 0;
  uint64_t shared_bytes_ = 0;
};

} // namespace tolk::codegen
