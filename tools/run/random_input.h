// Random values that depend on nothing but the seed, the input's name and the element's place: equal on every
// machine, whatever else is given.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "options.h"
#include "tolk/io/host_tensor.h"

namespace tolk::run {

// Floats uniform from LO up to HI (-1..1 without a range), rounded to the type; integers uniform in LO..HI,
// both included (0 or 1); bools fair. Throws InvalidArgument when the range does not fit the type.
io::HostTensor random_tensor(DType dtype, io::Shape shape, uint64_t seed, std::string_view name,
                             const std::optional<Range>& range);

} // namespace tolk::run
