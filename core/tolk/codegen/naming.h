// Names of kernels.
#pragma once

#include <string>

#include "tolk/base/hash.h"
#include "tolk/uop/uop.h"

namespace tolk::codegen {

// r_ (has a reduction) or e_, the extents of output and reduction loops from the outermost in, and the first
// 8 hex digits of the AST's key: r_64_128_512_0f3a9c21. A symbolic extent is written as its variable's name,
// or n.
std::string kernel_name(const UOp& ast, const ContentKey& key);

} // namespace tolk::codegen
