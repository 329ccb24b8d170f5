// Kernels that the tests of this folder share. All of them pass verify().
#pragma once

#include "tolk/kernel/kernel_ir.h"

namespace tolk::test {

// Every opcode at least once, nested blocks, gates, vector storage, value parameters, a barrier.
KernelIR every_opcode();
// A vector add: the smallest kernel that does something.
KernelIR vector_add();

} // namespace tolk::test
