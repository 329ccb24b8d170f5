// A kernel whose operations are read by number: the base of what renders one kernel. Internal to the layer.
#pragma once

#include <cstdint>
#include <span>

#include "tolk/kernel/kernel_ir.h"

namespace tolk::emit {

class KernelView {
protected:
  explicit KernelView(const KernelIR& kernel) : kernel_(kernel) {}

  const tolk_ir_op& op(uint32_t k) const { return kernel_.ops[k]; }
  DType dtype(uint32_t k) const { return static_cast<DType>(op(k).dtype); }
  std::span<const uint32_t> sources(uint32_t k) const { return kernel_.sources_of(op(k)); }
  uint64_t attr(uint32_t k, int index = 0) const { return kernel_.attr(op(k), index); }

  const KernelIR& kernel_;
};

} // namespace tolk::emit
