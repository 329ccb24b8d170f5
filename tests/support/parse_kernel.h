// Kernels from the text that tolk::print writes, for tests that state a kernel.
#pragma once

#include <string_view>

#include "tolk/kernel/kernel_ir.h"

namespace tolk::test {

// Reads what `print` writes, to an equal kernel. Throws FormatError with line and column. The result has the canonical
// layout, sources that precede their users and the right number of attributes; it is not verified.
KernelIR parse_kernel_ir(std::string_view text);

} // namespace tolk::test
