// VALIDATE_WITH_CPU: each kernel also on the reference interpreter, on the same inputs, compared.
#pragma once

#include "tolk/engine/run/prepared.h"

namespace tolk::engine {

// Launches one position of a kernel's step on its device and, from copies of the same inputs, unoptimised on
// INTERP; every written buffer is compared: integers bit for bit, floats relative to the largest
// magnitude of the buffer, since the order of a sum is free: 1e-10 for kernels that compute in f64 alone,
// 1e-4 with f32, more with narrower types. Kernels over 10^8 operations are only launched.
// Throws DeviceError that names the kernel, the argument, the first differing element and both values.
void run_validated(const Step& step, const Position& position);

} // namespace tolk::engine
