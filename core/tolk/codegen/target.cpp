#include "tolk/codegen/target.h"

#include <tolk/plugin/target.h>

#include "tolk/base/hash.h"

namespace tolk::codegen {

bool Target::has(Op op) const {
  switch (op) {
  case Op::MULACC:
    return features & TOLK_FEATURE_MULACC;
  case Op::SQRT:
    return features & TOLK_FEATURE_SQRT;
  case Op::TRUNC:
    return features & TOLK_FEATURE_TRUNC;
  case Op::EXP2:
    return features & TOLK_FEATURE_EXP2;
  case Op::LOG2:
    return features & TOLK_FEATURE_LOG2;
  case Op::SIN:
    return features & TOLK_FEATURE_SIN;
  case Op::EXP:
    return features & TOLK_FEATURE_EXP;
  case Op::LOG:
    return features & TOLK_FEATURE_LOG;
  case Op::COS:
    return features & TOLK_FEATURE_COS;
  default:
    return true;
  }
}

uint64_t Target::digest() const {
  Hasher h;
  h.text(dialect).text(arch);
  h.number(vector_bytes).number(vector_registers).number(fma_ports);
  h.number(l1_bytes).number(l2_bytes).number(llc_bytes).number(cores);
  h.number(has_threads).number(has_local).number(local_product_max).number(shared_bytes);
  for (int axis = 0; axis < 3; ++axis) h.number(group_max[axis]).number(local_max[axis]);
  h.number(dtype_storage).number(dtype_alu).number(features);
  return h.finish().low;
}

} // namespace tolk::codegen
