// Counter-based random numbers. Element i of draw d is the block cipher Threefry-2x32 with 20 rounds (Salmon,
// Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011) of the counter (i, d) under a key
// made of the seed and the device index. The numbers depend only on the seed and on the number of earlier
// draws on the device: CPU and any other first device give the same numbers, however the work is split; CPU
// and CPU:1 differ.
//
//   manual_seed(7);
//   Tensor w = randn({128, 10}) * 0.1, p = rand({10});
//
// The key and the draw count are 16 bytes of storage on each device that draws. A draw copies them and
// increments the count at once; the numbers themselves are lazy. Both steps are kernels of a captured
// function (tolk/tensor/jit.h), so every replay draws new numbers, and manual_seed applies to replays too.
//
// All functions may be called from any thread; threads that draw on one device share its sequence. Shapes may
// have up to 2^32 elements. An empty device is the default one; a list of devices gets replicas of the first
// one's numbers. Wrong shapes, ranges and dtypes throw InvalidArgument.
#pragma once

#include <cstdint>
#include <string>

#include "tolk/base/api.h"
#include "tolk/tensor/tensor.h"

namespace tolk {

// Restarts the sequences of all devices. Unseeded sequences start from the system's entropy. Throws JitError
// during a capture, since replays would not seed again.
TOLK_API void manual_seed(uint64_t seed);

// 64 independent fair bits per element, as u64.
TOLK_API Tensor random_bits(const Shape& shape, const std::string& device = {});

// Uniform in [0, 1): multiples of 2^-53 for f64, 2^-24 for f32, 2^-11 for f16, 2^-8 for bf16, 2^-4 and 2^-3
// for the kinds of f8 with 3 and 2 fraction bits; each with the same probability.
TOLK_API Tensor rand(const Shape& shape, DType dtype = kDefaultFloat, const std::string& device = {});
// low + (high - low) * rand, in [low, high); a result that rounds up to `high` becomes `low`.
TOLK_API Tensor uniform(const Shape& shape, double low, double high, DType dtype = kDefaultFloat,
                        const std::string& device = {});
// Normal with mean 0 and variance 1, by the Box-Muller transform, which reaches +-5.9 in f32 and +-8.6 in
// f64. Devices may differ in the last bits, as their logarithms and cosines do.
TOLK_API Tensor randn(const Shape& shape, DType dtype = kDefaultFloat, const std::string& device = {});
// Integers from low to high - 1. The probabilities of two values differ by at most 2^-64.
TOLK_API Tensor randint(const Shape& shape, int64_t low, int64_t high, DType dtype = kDefaultInt,
                        const std::string& device = {});
// Zeroes each element with the probability and scales the others by 1 / (1 - probability), on x's device.
TOLK_API Tensor dropout(const Tensor& x, double probability);

} // namespace tolk
