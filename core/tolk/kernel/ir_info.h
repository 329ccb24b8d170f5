// Facts about opcodes and dtypes of the flat form that several files of this layer need. Internal to the
// layer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tolk/kernel/kernel_ir.h"

namespace tolk::ir {

struct OpInfo {
  const char* name; // nullptr for a number that is no opcode
  uint32_t min_sources, max_sources;
  int attrs;
};
const OpInfo& op_info(uint16_t opcode);
std::optional<uint16_t> parse_opcode(std::string_view name);

// Whether the operation defines nothing that has a dtype: its record holds TOLK_DTYPE_NONE and one lane.
bool has_no_dtype(uint16_t opcode);
// Whether other operations may use it as an operand (END and ENDIF, which name their opener, aside).
bool has_value(uint16_t opcode);

struct TypeInfo {
  const char* name; // nullptr for a code that is no element type
  int bits;
  char kind; // b i u f
};
const TypeInfo& type_info(uint32_t dtype);
std::optional<uint8_t> parse_type(std::string_view name);

// Whether sources and attributes lie one after the other in operation order with nothing left over.
bool is_canonical(const KernelIR& kernel);

// One operation as print() writes it, without indentation or newline. Reads only what the record says exists,
// so that a broken operation can be named in an error.
std::string op_text(const KernelIR& kernel, uint32_t index);

} // namespace tolk::ir
