// Names and sizes of opcodes and dtypes, from the lists of the interface.
#pragma once

#include <cstdint>
#include <string>

#include <tolk/plugin/kernel_ir.h>

namespace tolk_interp {

struct OpFacts {
  const char* name; // nullptr for a number that is no opcode
  uint32_t min_sources, max_sources, attrs;
};
const OpFacts& op_facts(uint16_t opcode);

struct TypeFacts {
  const char* name;
  uint32_t bits;
  char kind; // b bool, i signed, u unsigned, f float
};
bool is_type(uint32_t dtype);
const TypeFacts& type_facts(uint32_t dtype); // `dtype` is a type

// Bytes of one element in a frame, in work-group and in private storage: there each element has a byte at
// least.
inline uint32_t cell_bytes(uint32_t dtype) {
  uint32_t bits = type_facts(dtype).bits;
  return bits < 8 ? 1 : bits / 8;
}

// "LOAD %12", for messages.
std::string op_label(uint16_t opcode, uint32_t number);

} // namespace tolk_interp
