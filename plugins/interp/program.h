// The decoded kernel. Every value has a place in a work-item's frame, a block of bytes; an instruction holds
// the byte offsets of its operands. Elements lie in the frame as in memory (floats and integers natively,
// f16, bf16 and f8 as raw bits), except that each element of a type below 8 bits has a byte: integers there
// are sign- or zero-extended. A bool is 0 or 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "interp.h"

namespace tolk_interp {

struct Instruction;
using AluFunction = void (*)(std::byte* frame, const Instruction& in);

enum class Action : uint8_t { Alu, Load, Store, Loop, EndLoop, If, Barrier, Poison };
enum class Space : uint8_t { Buffer, Local, Private };

struct Instruction {
  Action action = Action::Alu;
  Space space = Space::Buffer; // Load, Store
  bool wide_index = false;     // i64 index or counter instead of i32
  uint8_t cell = 0;            // bytes of an element in the frame
  uint8_t packed_bits = 0;     // Load, Store: width of an element of a packed buffer, else 0
  bool is_bool = false;        // Load: bytes are made 0 or 1
  uint8_t sign_bits = 0;       // Load of packed signed integers: their width, else 0
  bool gate_per_lane = false;  // Load, Store; and WHERE
  bool index_per_lane = false; // Load, Store
  bool has_gate = false;       // Load, Store
  uint16_t lanes = 1;
  uint16_t vector_stride = 1;   // Load, Store of private vectors: elements that an index counts
  uint32_t op = 0;              // number of the operation, for messages
  uint32_t dst = 0;             // frame offsets
  uint32_t a = 0, b = 0, c = 0; // operands. Load: a index, b gate, c alt. Store: a index, b gate, c value
  uint32_t jump = 0;            // Loop, If: past the block. EndLoop: first instruction of the body
  uint32_t storage = 0; // Load, Store: number of buffer or local storage, or frame offset of private storage
  uint64_t count = 0;   // Load, Store: bound of the index that the kernel states, 0 none; Poison: bytes
  AluFunction alu = nullptr;
};

struct SpecialSlot {
  uint32_t offset;
  uint8_t axis;
  bool item; // work-item index instead of work-group index
  bool wide;
  uint64_t bound; // exclusive, 0 unknown
};

struct LocalStorage {
  uint64_t count; // elements
  uint32_t cell;
};

struct ValueSlot {
  uint32_t offset, param;
};

struct Program {
  Kernel kernel;
  std::vector<Instruction> code;
  std::vector<std::byte> frame; // initial contents: constants in place
  std::vector<SpecialSlot> specials;
  std::vector<ValueSlot> values;
  std::vector<LocalStorage> locals;
  uint32_t buffer_count = 0;
  bool has_barrier = false;
};

// The functions of ALU instructions; nullptr when the combination does not exist (check() refuses it before).
AluFunction int_function(uint16_t opcode, uint8_t dtype); // dtype is bool or an integer: that of the sources
AluFunction float_function(uint16_t opcode, uint8_t dtype); // dtype is a float: that of the sources
AluFunction cast_function(uint8_t from, uint8_t to);
AluFunction bitcast_function(uint8_t to);
AluFunction where_function(uint32_t cell);
AluFunction splat_function(uint32_t cell);

} // namespace tolk_interp
