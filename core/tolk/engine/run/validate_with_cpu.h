// VALIDATE_WITH_CPU: runs each kernel on the reference interpreter as well and compares the results.
#pragma once

#include "tolk/engine/run/prepared.h"

namespace tolk::engine {

// Launches one position of a kernel's step on its device, and unoptimised on INTERP with copies of the same
// inputs. Compares every written buffer: integers bit for bit, floats relative to the largest magnitude of
// the buffer, since the order of a sum is free. The tolerance is 1e-10 for kernels that compute in f64 alone,
// 1e-4 with f32, more with narrower types. Kernels over 10^8 operations are only launched. Throws DeviceError
// that names the kernel, the argument, the first differing element and both values.
void run_validated(const Step& step, const Position& position);

} // namespace tolk::engine
