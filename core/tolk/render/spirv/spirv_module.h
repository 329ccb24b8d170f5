// A SPIR-V module under construction: its sections in the order of the specification (2.4, "Logical layout of a
// module"), with types and constants made once. Internal to the renderer.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tolk/render/emit/value.h"

namespace tolk::spirv {

#define TOLK_SPIRV(group, NAME, value) inline constexpr uint32_t k##group##NAME = value;
#include "tolk/render/spirv/numbers.def"
#undef TOLK_SPIRV

using Words = std::vector<uint32_t>;

// Appends one instruction.
void put(Words& to, uint32_t opcode, std::span<const uint32_t> operands);
inline void put(Words& to, uint32_t opcode, std::initializer_list<uint32_t> operands) {
  put(to, opcode, std::span<const uint32_t>(operands.begin(), operands.size()));
}
// The words of a literal string.
void append_string(Words& to, std::string_view text);

class Module {
public:
  uint32_t new_id() { return next_id_++; }

  // Types. Integers have signedness 0; I1 is bool.
  uint32_t type(emit::Kind kind);
  uint32_t void_type() { return global(kOpTypeVoid, 0, {}); }
  uint32_t void_function_type() { return global(kOpTypeFunction, 0, {void_type()}); }
  uint32_t vector_type(emit::Kind kind, uint32_t lanes);
  uint32_t array_type(uint32_t element, uint32_t count);
  uint32_t pointer_type(uint32_t storage_class, uint32_t pointee);
  // A struct of one member at offset 0, decorated Block.
  uint32_t block_type(uint32_t member, bool read_only);
  uint32_t runtime_array_type(uint32_t element, uint32_t stride);

  uint32_t constant(emit::Kind kind, uint64_t bits);
  uint32_t u32(uint32_t value) { return constant(emit::Kind::I32, value); }
  // An u32 that vkCreateComputePipelines may set, by its constant_id.
  uint32_t spec_constant(uint32_t id, uint32_t value);
  uint32_t spec_composite(uint32_t type, std::span<const uint32_t> parts);
  // A module-scope variable; part of the entry point's interface.
  uint32_t variable(uint32_t storage_class, uint32_t pointee);

  void capability(uint32_t capability) { capabilities_.insert(capability); }
  void decorate(uint32_t id, std::initializer_list<uint32_t> what);
  void execution_mode(uint32_t mode, std::initializer_list<uint32_t> operands);
  // The number of the instruction set GLSL.std.450.
  uint32_t glsl();

  // All of it as bytes, little-endian words; `function` is the entry point's body, from OpFunction on.
  std::string assemble(std::string_view name, uint32_t entry, const Words& function);

private:
  // A type (`result_type` 0) or constant, one for equal operands.
  uint32_t global(uint32_t opcode, uint32_t result_type, std::span<const uint32_t> operands);
  uint32_t global(uint32_t opcode, uint32_t result_type, std::initializer_list<uint32_t> operands) {
    return global(opcode, result_type, std::span<const uint32_t>(operands.begin(), operands.size()));
  }

  uint32_t next_id_ = 1;
  std::set<uint32_t> capabilities_;
  std::vector<Words> modes_; // operands of OpExecutionMode, without the entry point
  std::map<Words, uint32_t> globals_by_operands_;
  std::map<uint32_t, uint32_t> blocks_; // by member type
  std::vector<uint32_t> interface_;
  Words decorations_, globals_;
  uint32_t glsl_ = 0;
};

} // namespace tolk::spirv
