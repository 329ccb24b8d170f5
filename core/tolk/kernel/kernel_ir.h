// The C++ owner of the flat kernel form of <tolk/plugin/kernel_ir.h>: what codegen makes, renderers read and the
// interpreter runs. See that header for the meaning of every operation.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tolk/plugin/kernel_ir.h>

#include "tolk/base/api.h"
#include "tolk/dtype/dtype.h"

namespace tolk {

struct TOLK_API KernelIR {
  std::string name; // [A-Za-z0-9_]
  std::vector<tolk_ir_op> ops;
  std::vector<uint32_t> sources;
  std::vector<uint64_t> attrs;
  std::vector<tolk_param> params; // buffers first, then values

  // Appends an operation and returns its number.
  uint32_t add(uint16_t opcode, DType dtype, uint16_t lanes, std::span<const uint32_t> sources,
               std::span<const uint64_t> attrs = {}, uint8_t flags = 0);
  uint32_t add(uint16_t opcode, DType dtype, uint16_t lanes, std::initializer_list<uint32_t> sources,
               std::initializer_list<uint64_t> attrs = {}, uint8_t flags = 0);
  std::span<const uint32_t> sources_of(const tolk_ir_op& op) const;
  uint64_t attr(const tolk_ir_op& op, int index = 0) const;

  // The C view; pointers stay valid while this object lives unchanged.
  tolk_kernel_ir view() const;
};

// Spelling of an opcode ("MULACC"), and how many attribute words it has.
TOLK_API const char* ir_op_name(uint16_t opcode);
TOLK_API int ir_attr_count(uint16_t opcode);

// Checks the whole list: sources before users, arity, dtypes and lanes, nesting of RANGE/END and IF/ENDIF, uses inside
// their block, attributes in range, no barrier under IF. Throws InternalError with the operation printed.
TOLK_API void verify(const KernelIR& kernel);

// Text form, one operation a line, that `parse_kernel_ir` reads back to an equal kernel. Floats are printed so that
// their bits survive. Throws FormatError with line and column.
TOLK_API std::string print(const KernelIR& kernel);
TOLK_API KernelIR parse_kernel_ir(std::string_view text);

// Versioned binary form, position independent; for plugins that take kernel IR as a "binary" and for caches.
// Throws FormatError on damaged input, never reads outside `bytes`.
TOLK_API std::string serialize(const KernelIR& kernel);
TOLK_API KernelIR deserialize_kernel_ir(std::string_view bytes);

} // namespace tolk
