// Errors for operations that no device can run where their operands are.
#pragma once

#include <string>

#include "tolk/uop/uop.h"

namespace tolk::schedule {

// Operands `a` and `b` of `u` are on different devices. Throws InvalidArgument.
[[noreturn]] void refuse_devices(const UOp& u, const UOp& a, const std::string& on_a, const UOp& b,
                                 const std::string& on_b);
// `u` would be computed on HOST, which has no kernels. Throws InvalidArgument.
[[noreturn]] void refuse_host(const UOp& u);

} // namespace tolk::schedule
