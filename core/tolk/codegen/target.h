// The properties of a device that code generation depends on. The engine fills it from tolk_caps and
// tolk_target; a test writes one by hand.
#pragma once

#include <cstdint>
#include <string>

#include "tolk/base/api.h"
#include "tolk/dtype/dtype.h"
#include "tolk/uop/ops.h"

namespace tolk::codegen {

// The TOLK_IR_* opcode of an operation, by its name in kernel_ir_ops.def; 0 when the linearized kernel IR has none.
uint16_t ir_opcode(Op op);

struct TOLK_API Target {
  std::string dialect; // as in tolk_target: a triple, "kernel-ir", ...
  std::string arch;    // processor name and features, as one string

  // Shape of the machine. Zero means unknown and is treated as the smallest sensible value.
  uint32_t vector_bytes = 0; // width of a vector register; below 4: scalars only
  uint32_t vector_registers = 16;
  uint32_t fma_ports = 2; // vector multiply-adds that start per cycle
  uint64_t l1_bytes = 32 << 10, l2_bytes = 512 << 10, llc_bytes = 8 << 20;
  uint32_t cores = 1;

  // Launches. With `has_threads` the work-groups of axis 0 are tiles that run concurrently.
  bool has_threads = false;
  bool has_local = false; // work-groups of several work-items, with work-group storage
  int64_t group_max[3] = {1, 1, 1}, local_max[3] = {1, 1, 1};
  int64_t local_product_max = 1;
  uint64_t shared_bytes = 0;

  // Bit n: DType n may be in a buffer; has arithmetic. A dtype without arithmetic is converted to f32 around
  // every operation.
  uint64_t dtype_storage = ~uint64_t{0}, dtype_alu = ~uint64_t{0};
  // Bits of TOLK_FEATURE_*: operations that exist; the rest is decomposed.
  uint64_t features = 0;

  bool stores(DType dtype) const { return dtype_storage >> static_cast<int>(dtype) & 1; }
  bool computes(DType dtype) const { return dtype_alu >> static_cast<int>(dtype) & 1; }
  // Whether the target has the operation. Only those of TOLK_FEATURE_ALL may be missing.
  bool has(Op op) const;
};

} // namespace tolk::codegen
