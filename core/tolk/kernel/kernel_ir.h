// The C++ owner of the flat kernel form of <tolk/plugin/kernel_ir.h>: what codegen makes, renderers read and
// the interpreter runs. See that header for the meaning of every operation.
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

// A value type without hidden state; any thread may read it, one may write it. The layout is canonical: the
// sources and attributes of operation k start where those of operation k-1 end (add() does so, verify()
// demands it).
struct TOLK_API KernelIR {
  std::string name; // [A-Za-z0-9_]
  std::vector<tolk_ir_op> ops;
  std::vector<uint32_t> sources;
  std::vector<uint64_t> attrs;
  std::vector<tolk_param> params; // buffers first, then values

  // Appends an operation and returns its number. Canonical by construction: the bits of a CONST above its
  // dtype's width are cleared, and END, IF, ENDIF and BARRIER get dtype NONE and one lane whatever is passed
  // (pass Void). Throws InternalError for an unknown opcode, a wrong number of attributes, Index, or more
  // than 65535 sources; everything else is verify()'s business.
  uint32_t add(uint16_t opcode, DType dtype, uint16_t lanes, std::span<const uint32_t> sources,
               std::span<const uint64_t> attrs = {}, uint8_t flags = 0);
  uint32_t add(uint16_t opcode, DType dtype, uint16_t lanes, std::initializer_list<uint32_t> sources,
               std::initializer_list<uint64_t> attrs = {}, uint8_t flags = 0);
  // The operand numbers of an operation of this kernel, and its attribute word `index` (0 <= index <
  // attribute count).
  std::span<const uint32_t> sources_of(const tolk_ir_op& op) const;
  uint64_t attr(const tolk_ir_op& op, int index = 0) const;

  // The C view; pointers stay valid while this object lives unchanged.
  tolk_kernel_ir view() const;
};

// Equality of every field, the name included.
TOLK_API bool operator==(const KernelIR& a, const KernelIR& b);

// Spelling of an opcode ("MULACC"), and how many attribute words it has. An unknown opcode is "UNKNOWN" and
// -1.
TOLK_API const char* ir_op_name(uint16_t opcode);
TOLK_API int ir_attr_count(uint16_t opcode);

// Checks the whole list: sources before users, arity, dtypes and lanes, nesting of RANGE/END and IF/ENDIF,
// uses inside their block, attributes in range, no barrier under IF. Throws InternalError with the operation
// printed. Where kernel_ir_ops.def leaves room, this is the rule:
//   - storage (a buffer PARAM, DEFINE_*) is used only as the first source of LOAD and STORE, with the
//   storage's dtype;
//     an index is i32 or i64; LOAD has two sources or four (a gate comes with its alt); the parameter's
//     access bits allow what is done; DEFINE_REG with lanes > 1 moves whole vectors with a scalar index;
//     DEFINE_LOCAL is outside every block
//   - bool has AND, OR, XOR, MAX, comparisons, WHERE, CAST and BITCAST, and no other arithmetic
//   - CAST and BITCAST between equal dtypes are refused, RANGE and SPECIAL are i32 or i64
//   - value parameters are integers of 8 bits or more with min <= max inside the dtype's range
TOLK_API void verify(const KernelIR& kernel);

// Text form, one operation a line, that `parse_kernel_ir` reads back to an equal kernel. Constants of float
// dtypes are printed as raw bits with the value as a comment. `print` wants a kernel in canonical layout,
// correct otherwise or not; out-of-range numbers are printed as they are.
//   kernel add_8
//   param buffer f32 w 8          access r, w or rw; count
//   param value i32 1 64          min, max
//   %0 = PARAM f32 [0]
//   %1 = CONST i32 -1
//   %2 = ADD.nw i32 %1 %1         .nw is TOLK_IR_NO_WRAP
//   %3 = STORE f32x8 %0 %1 %2     # a comment
// parse_kernel_ir throws FormatError with line and column. Its result has canonical layout, sources that are
// earlier operations and the right number of attributes; it is not verified.
TOLK_API std::string print(const KernelIR& kernel);
TOLK_API KernelIR parse_kernel_ir(std::string_view text);

// Versioned binary form, position independent and checksummed; for plugins that take kernel IR as a "binary"
// and for caches. `serialize` wants canonical layout (InternalError otherwise). `deserialize_kernel_ir`
// throws FormatError on damaged input, never reads outside `bytes`, and gives the same guarantees as
// parse_kernel_ir.
TOLK_API std::string serialize(const KernelIR& kernel);
TOLK_API KernelIR deserialize_kernel_ir(std::string_view bytes);

} // namespace tolk
