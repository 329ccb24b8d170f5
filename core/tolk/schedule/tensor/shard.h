// Putting a value on several devices, as graph nodes: what Tensor::shard and Tensor::to build.
#pragma once

#include <span>
#include <string>

#include "tolk/base/api.h"
#include "tolk/schedule/tensor/multi_axis.h"
#include "tolk/uop/uop.h"

namespace tolk::schedule {

// The value in equal parts along the axis, one on each device (canonical names, two or more; one may occur
// twice). Only the parts travel. Throws InvalidArgument for an axis outside the shape, and for a size that is
// symbolic or no multiple of the number of devices; nothing is allocated.
TOLK_API UOp sharded(const UOp& u, std::span<const std::string> devices, int64_t axis);

// The whole value on each of the devices; a value that is sharded over them is gathered.
TOLK_API UOp replicated(const UOp& u, std::span<const std::string> devices);

// The part of a whole value that belongs to the position at which a kernel runs (_device_num).
UOp own_part(const UOp& whole, const Sharding& sharding);

} // namespace tolk::schedule
