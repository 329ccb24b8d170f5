// String forms. `print` writes one node a line, sources before users, and `parse_graph` reads it back to the
// same node:
//   %3 = ADD f32 %1 %2
//   %4 = BUFFER f32 [0 32] {"CPU"}
//   %5 = REDUCE_AXIS f32 %3 #2305843009213693954
// `print_expr` writes index arithmetic the way people do: L1*8 + R0.
#pragma once

#include <string>
#include <string_view>

#include "tolk/uop/uop.h"

namespace tolk {

TOLK_API std::string print(const UOp& root);
// Parses what `print` wrote, into the thread's current arena or the global table. Throws FormatError with line and
// column.
TOLK_API UOp parse_graph(std::string_view text);
// The node and its direct sources on one line; for error messages.
TOLK_API std::string print_line(const UOp& u);
// Describes a value in messages for users: ADD of shape (4,8), f32, on CPU.
TOLK_API std::string describe(const UOp& u);
// Nested form of an expression: ranges as L0 (loop), R0 (reduce), u/r/v for upcast, unroll and vector; loads
// as p1[index].
TOLK_API std::string print_expr(const UOp& u);
// A kernel: one line per store, `p0[L1] = reduce_ADD(p1[L1*8+R0]; R0:8)  END(L1:4)`.
TOLK_API std::string print_kernel(const UOp& sink);

} // namespace tolk
