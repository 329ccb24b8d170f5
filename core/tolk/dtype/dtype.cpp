#include "tolk/dtype/dtype.h"

#include <iterator>
#include <utility>

#include "tolk/base/error.h"

namespace tolk {
namespace {

// Names of numpy, ml_dtypes and ONNX, lower case without underscores.
constexpr std::pair<std::string_view, DType> kForeignNames[] = {
    {"boolean", DType::BOOL},
    {"int8", DType::I8},
    {"uint8", DType::U8},
    {"int16", DType::I16},
    {"uint16", DType::U16},
    {"int32", DType::I32},
    {"uint32", DType::U32},
    {"int64", DType::I64},
    {"uint64", DType::U64},
    {"float16", DType::F16},
    {"half", DType::F16},
    {"bfloat16", DType::BF16},
    {"float32", DType::F32},
    {"float", DType::F32},
    {"float64", DType::F64},
    {"double", DType::F64},
    {"float8e4m3", DType::F8E4M3},
    {"float8e4m3fn", DType::F8E4M3},
    {"float8e4m3fnuz", DType::F8E4M3FNUZ},
    {"float8e5m2", DType::F8E5M2},
    {"float8e5m2fnuz", DType::F8E5M2FNUZ},
    {"float8e8m0", DType::F8E8M0},
    {"float8e8m0fnu", DType::F8E8M0},
    {"float4e2m1", DType::F4E2M1},
    {"float4e2m1fn", DType::F4E2M1},
    {"int4", DType::I4},
    {"uint4", DType::U4},
    {"int2", DType::I2},
    {"uint2", DType::U2},
};

std::string simplify(std::string_view text) {
  std::string out;
  for (char c : text)
    if (c != '_') out.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
  return out;
}

} // namespace

uint64_t storage_bytes(DType dtype, uint64_t count) {
  if (dtype == DType::Index || dtype == DType::Void)
    throw InvalidArgument(std::string("elements of dtype ") + name(dtype) +
                          " are never stored in memory; cast them first");
  auto width = static_cast<unsigned>(bits(dtype));
  unsigned __int128 all = static_cast<unsigned __int128>(count) * width;
  unsigned __int128 bytes = (all + 7) / 8;
  if (bytes > UINT64_MAX)
    throw InvalidArgument(std::to_string(count) + " elements of " + name(dtype) +
                          " do not fit in 64-bit byte counts");
  return static_cast<uint64_t>(bytes);
}

std::optional<DType> parse_dtype(std::string_view text) {
  std::string wanted = simplify(text);
  for (size_t code = 0; code < std::size(detail::kDTypeInfo); ++code)
    if (wanted == detail::kDTypeInfo[code].name) return static_cast<DType>(code);
  for (const auto& [foreign, dtype] : kForeignNames)
    if (wanted == foreign) return dtype;
  return std::nullopt;
}

} // namespace tolk
