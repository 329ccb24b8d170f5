// The linearized kernel IR as a C++ type: codegen builds it, renderers read it, the interpreter runs it.
// <tolk/plugin/kernel_ir.h> defines the C layout and the meaning of every operation.
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

// A plain value type: concurrent reads are safe, writes need exclusive access. The layout is canonical: sources
// and attributes of operation k start where those of operation k-1 end; add() ensures this, verify() checks it.
struct TOLK_API KernelIR {
  std::string name; // [A-Za-z0-9_]
  std::vector<tolk_ir_op> ops;
  std::vector<uint32_t> sources;
  std::vector<uint64_t> attrs;
  std::vector<tolk_param> params; // buffers first, then values

  // Appends an operation and returns its number. Clears the bits of a CONST above its dtype's width, and gives
  // END, IF, ENDIF and BARRIER dtype NONE and one lane (pass Void). Throws InternalError for an unknown opcode,
  // a wrong number of attributes, dtype Index, or more than 65535 sources; verify() checks everything else.
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
// printed. Rules beyond kernel_ir_ops.def:
//   - Storage (a buffer PARAM, DEFINE_*) is used only as the first source of LOAD and STORE, with its own dtype.
//     An index is i32 or i64. LOAD has two or four sources: a gate comes with an alternative value. The access
//     bits of the parameter permit the access. DEFINE_REG with lanes > 1 moves whole vectors at a scalar index.
//     DEFINE_LOCAL stands outside every block.
//   - bool supports AND, OR, XOR, MAX, comparisons, WHERE, CAST and BITCAST only.
//   - CAST and BITCAST change the dtype; RANGE and SPECIAL are i32 or i64.
//   - Value parameters are integers of at least 8 bits with min <= max within the dtype's range.
TOLK_API void verify(const KernelIR& kernel);

// Text form, one operation per line. Float constants are printed as raw bits with the value in a comment. `print` needs the canonical layout but accepts kernels that
// do not verify; it prints out-of-range numbers unchanged.
//   kernel add_8
//   param buffer f32 w 8          access r, w or rw; count
//   param value i32 1 64          min, max
//   %0 = PARAM f32 [0]
//   %1 = CONST i32 -1
//   %2 = ADD.nw i32 %1 %1         .nw is TOLK_IR_NO_WRAP
//   %3 = STORE f32x8 %0 %1 %2     # a comment
TOLK_API std::string print(const KernelIR& kernel);

// Versioned, position-independent binary form with a checksum, for caches and for plugins that take kernel IR as
// their binary. `serialize` throws InternalError unless the layout is canonical. `deserialize_kernel_ir` throws
// FormatError for damaged input and never reads outside `bytes`. Its result has the canonical layout, sources that
// precede their users and the right number of attributes; it is not verified.
TOLK_API std::string serialize(const KernelIR& kernel);
TOLK_API KernelIR deserialize_kernel_ir(std::string_view bytes);

} // namespace tolk
