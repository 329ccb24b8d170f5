// Properties of the opcodes and dtypes of the linearized kernel IR. Internal to the layer.
#pragma once

#include <cstdint>
#include <string>

#include "tolk/kernel/kernel_ir.h"

namespace tolk::ir {

struct OpInfo {
  const char* name; // nullptr: not an opcode
  uint32_t min_sources, max_sources;
  int attrs;
};
const OpInfo& op_info(uint16_t opcode);

// Whether the operation has no dtype: its record holds TOLK_DTYPE_NONE and one lane.
bool has_no_dtype(uint16_t opcode);
// Whether other operations may use it as an operand. (END and ENDIF refer to their RANGE or IF in any case.)
bool has_value(uint16_t opcode);

struct TypeInfo {
  const char* name; // nullptr: not an element type
  int bits;
  char kind; // b i u f
};
const TypeInfo& type_info(uint32_t dtype);

// Whether sources and attributes are stored contiguously in operation order, without gaps or leftovers.
bool is_canonical(const KernelIR& kernel);

// One operation as print() writes it, without indentation or newline. Safe for malformed operations, so that
// errors can show them.
std::string op_text(const KernelIR& kernel, uint32_t index);

} // namespace tolk::ir
