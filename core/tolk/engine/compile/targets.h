// The target that the kernels of a device are compiled for.
#pragma once

#include <cstdint>

#include "tolk/base/api.h"
#include "tolk/codegen/codegen.h"
#include "tolk/device/device.h"

namespace tolk::engine {

// The code generator's description of an open device and one of its targets.
TOLK_API codegen::Target codegen_target(const Device& device, uint32_t target_index);

// Index of the target that kernels are compiled for: the one that TARGET= names, else the device's first that has a
// renderer. Throws DeviceError for an unknown name.
uint32_t target_index(const Device& device);

} // namespace tolk::engine
