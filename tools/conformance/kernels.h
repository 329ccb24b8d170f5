// The kernels that conformance cases run. Each group of a launch computes one element, or `lanes` of them.
#pragma once

#include <cstdint>

#include "tolk/kernel/kernel_ir.h"

namespace conformance {

// out[i] = op(in0[i], in1[i] ...); all operands have dtype `in`, the result has dtype `out`.
tolk::KernelIR elementwise(uint16_t opcode, tolk::DType in, tolk::DType out, uint32_t operands,
                           uint16_t lanes = 1);
// out[i] = c[i] ? a[i] : b[i]
tolk::KernelIR where(tolk::DType dtype);
// data[i] += value 0, for i32.
tolk::KernelIR add_value(const char* name = "add_value");
// out[i] = in[i] + value 0, for i32.
tolk::KernelIR add_to(const char* name = "add_to");
// out[0] = in[0] stirred in value 0 rounds, at most kStirRounds: takes as long as one likes. For u32.
constexpr int32_t kStirRounds = 60000;
tolk::KernelIR stir();
uint32_t stirred(uint32_t x, int32_t rounds); // what it computes
// out[i] = sum of in_k[i] * (k + 1) + sum of values_k * (k + 100), for i32.
tolk::KernelIR weighted(uint32_t inputs, uint32_t values);
// out[0] = value 0, of any integer dtype.
tolk::KernelIR store_value(tolk::DType dtype);
// out[i] = i < value 0 ? in[i] : -1, where the load is gated.
tolk::KernelIR gated();
// out[0] = the sum of in[0 .. count-1] in order, for f32.
tolk::KernelIR sum(uint32_t count);

} // namespace conformance
