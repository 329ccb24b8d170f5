// Kernels that show each part of the renderer; every one of them passes `verify`.
#pragma once

#include <vector>

#include "tolk/kernel/kernel_ir.h"

namespace tolk::test {

KernelIR vector_add();       // f32x8, one tile loop
KernelIR row_sum();          // two vector accumulators over a constant loop
KernelIR guarded_sum();      // loop over a value parameter that may be 0, an IF inside, i64 range
KernelIR matmul_tile();      // 4x16 register tile
KernelIR gated_copy();       // scalar gates on load and store, vector gates
KernelIR gather_scatter();   // vector indices, plain and gated
KernelIR shared_transpose(); // DEFINE_LOCAL, dynamically indexed DEFINE_REG
KernelIR integer_mix();      // division, shifts, NO_WRAP and wrapping, of i32 and u8
// x -> CAST to `to` -> stored, x of `from` with `lanes`.
KernelIR cast_kernel(DType from, DType to, uint16_t lanes);
// out[i] = opcode(a[i], b[i], c[i]) with as many operands as the opcode takes, `lanes` at a time.
KernelIR alu_kernel(uint16_t opcode, DType dtype, uint16_t lanes);

// All of the above: every cast between two dtypes of 8 bits or more, every arithmetic operation of every
// dtype that has it, scalars and vectors of 8.
std::vector<KernelIR> all_sample_kernels();

} // namespace tolk::test
