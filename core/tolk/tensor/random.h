// Random numbers by counting. Element i of draw d is the block cipher Threefry-2x32 with 20 rounds (Salmon,
// Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011) of the counter (i, d) under a key
// made of the seed and the device's index. So the numbers depend on the seed, on how many draws came before
// on that device and on nothing else: CPU and any other first device give the same, whatever the work is
// split into; CPU and CPU:1 give different ones.
//
//   manual_seed(7);
//   Tensor w = randn({128, 10}) * 0.1, p = rand({10});
//
// Key and number of draws are 16 bytes of storage on each device that draws. A draw takes a copy of them and
// counts one up, at once; the numbers themselves are lazy. A captured function (tolk/tensor/jit.h) has both
// steps among its kernels, so every replay draws anew, and manual_seed holds for replays too.
//
// All functions may be called from any thread; threads that draw on one device share its sequence. Shapes
// may have up to 2^32 elements. An empty device means the default one; a list of devices gets the first one's
// numbers, as replicas. Wrong shapes, ranges and dtypes throw
// InvalidArgument.
#pragma once

#include <cstdint>
#include <string>

#include "tolk/base/api.h"
#include "tolk/tensor/tensor.h"

namespace tolk {

// Starts the sequences of all devices anew. Without it they start with bits of the system. Throws JitError
// while a capture is going on, since replays would not seed again.
TOLK_API void manual_seed(uint64_t seed);

// 64 independent fair bits an element, as u64.
TOLK_API Tensor random_bits(const Shape& shape, const std::string& device = {});

// Uniform in [0, 1): multiples of 2^-53 for f64, 2^-24 for f32, 2^-11 for f16, 2^-8 for bf16, 2^-4 and 2^-3
// for the kinds of f8 with 3 and 2 fraction bits; each with the same probability.
TOLK_API Tensor rand(const Shape& shape, DType dtype = kDefaultFloat, const std::string& device = {});
// low + (high - low) * rand, in [low, high); what would round up to `high` is `low`.
TOLK_API Tensor uniform(const Shape& shape, double low, double high, DType dtype = kDefaultFloat,
                        const std::string& device = {});
// Normal with mean 0 and variance 1, by Box and Muller's transform; f32 reaches 5.9 to both sides, f64 8.6.
// Devices may differ in the last bits, as their logarithms and cosines do.
TOLK_API Tensor randn(const Shape& shape, DType dtype = kDefaultFloat, const std::string& device = {});
// Integers from low to high - 1. No value is more probable than another by more than 2^-64 of all draws times
// the number of values.
TOLK_API Tensor randint(const Shape& shape, int64_t low, int64_t high, DType dtype = kDefaultInt,
                        const std::string& device = {});
// Each element is 0 with the probability, else x / (1 - probability); drawn on x's device.
TOLK_API Tensor dropout(const Tensor& x, double probability);

} // namespace tolk
