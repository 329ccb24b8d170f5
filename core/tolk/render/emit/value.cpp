#include "tolk/render/emit/value.h"

#include <bit>

#include "tolk/base/check.h"
#include "tolk/base/error.h"

namespace tolk::emit {

int bits(Kind kind) {
  constexpr int kBits[] = {1, 8, 16, 32, 64, 16, 32, 64, 64};
  return kBits[static_cast<int>(kind)];
}

Kind int_kind(int bits) {
  switch (bits) {
  case 8:
    return Kind::I8;
  case 16:
    return Kind::I16;
  case 32:
    return Kind::I32;
  case 64:
    return Kind::I64;
  default:
    TOLK_UNREACHABLE("no integer register of this width");
  }
}

Type memory_type(DType dtype, int lanes) {
  auto n = static_cast<uint16_t>(lanes);
  if (dtype == DType::F32) return {Kind::F32, n};
  if (dtype == DType::F64) return {Kind::F64, n};
  if (dtype == DType::Index || dtype == DType::Void || static_cast<int>(dtype) >= kDTypeCount ||
      tolk::bits(dtype) < 8)
    throw InternalError(
        "no renderer has storage for this dtype; codegen must lower types under 8 bits first");
  return {int_kind(tolk::bits(dtype)), n};
}

Type register_type(DType dtype, int lanes) {
  if (dtype == DType::BOOL) return {Kind::I1, static_cast<uint16_t>(lanes)};
  return memory_type(dtype, lanes);
}

Value float_constant(Type type, double value) {
  TOLK_CHECK(type.kind == Kind::F32 || type.kind == Kind::F64, "a float constant of another type");
  if (type.kind == Kind::F64) return constant(type, std::bit_cast<uint64_t>(value));
  return constant(type, std::bit_cast<uint32_t>(static_cast<float>(value)));
}

} // namespace tolk::emit
