// The properties of a device that code generation depends on. The engine fills it from tolk_caps and
// tolk_target; a test writes one by hand.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "tolk/base/api.h"
#include "tolk/dtype/dtype.h"
#include "tolk/uop/ops.h"

namespace tolk::codegen {

// The TOLK_IR_* opcode of an operation, by its name in kernel_ir_ops.def; 0 when the linearized kernel IR has none.
uint16_t ir_opcode(Op op);

using LaunchSizes = std::array<int64_t, 3>; // by axis

struct TOLK_API Target {
#define TOLK_TARGET(type, name, ...) type name = __VA_ARGS__;
#include "tolk/codegen/target.def"
#undef TOLK_TARGET

  bool stores(DType dtype) const { return dtype_storage >> static_cast<int>(dtype) & 1; }
  bool computes(DType dtype) const { return dtype_alu >> static_cast<int>(dtype) & 1; }
  // Whether the target has the operation. Only those of TOLK_FEATURE_ALL may be missing.
  bool has(Op op) const;

  // Changes with every field; part of the keys of compiled kernels.
  uint64_t digest() const;
};

} // namespace tolk::codegen
