// Kernels in the form that code generation takes: storage as PARAMs, axis numbers in a fixed order.
#pragma once

#include <span>
#include <vector>

#include "tolk/schedule/fuse/rebuild.h"
#include "tolk/uop/uop.h"

namespace tolk::schedule {

class KernelAst {
public:
  // The sources of CALL(SINK(END(STORE(PARAM 0, index, value), loops...)), target, storage...). `index` and
  // `value` name storage nodes and the fusion pass' loops; `loops` are those of the result.
  std::vector<UOp> kernel_call(const UOp& target, const UOp& index, const UOp& value,
                               std::span<const UOp> loops);

private:
  Rebuilder rebuilder_;
};

} // namespace tolk::schedule
