// Element types below 8 bits: while computing, each element takes a byte or more in a type that holds its
// values; they are unpacked where data enters a model and packed where they leave it.
#include "tolk/base/error.h"
#include "tolk/dtype/scalar.h"
#include "tolk/onnx/importer.h"

namespace tolk::onnx {

DType carrier_of(DType dtype) {
  if (bits(dtype) >= 8 || dtype == DType::Void) return dtype;
  if (is_float(dtype)) return DType::F8E4M3;
  return is_signed(dtype) ? DType::I8 : DType::U8;
}

io::HostTensor carried(const io::HostTensor& data) {
  DType to = carrier_of(data.dtype);
  if (to == data.dtype) return data;
  auto wide = io::convert_exact(data, to);
  if (!wide) throw ImportError(std::string("tensors of ") + name(data.dtype) + " are not supported");
  return *wide;
}

GraphValue narrow_value(const Tensor& values, DType narrow) {
  GraphValue v(values);
  if (carrier_of(narrow) != narrow) v.narrow = narrow;
  return v;
}

namespace {

// To f4e2m1's values, ties to even, saturated; NaN becomes -0.
Tensor to_f4(const Tensor& x) {
  Tensor m = x.abs();
  auto step = [&](const Tensor& above, double size) { return above.where(like(x, size), like(x, 0)); };
  Tensor r = step(m > 0.25, 0.5) + step(m >= 0.75, 0.5) + step(m > 1.25, 0.5) + step(m >= 1.75, 0.5) +
             step(m > 2.5, 1) + step(m >= 3.5, 1) + step(m > 5.0, 2);
  Tensor negative = x.bitcast(DType::I32) < 0;
  return x.isnan().where(like(x, -0.0), negative.where(r.neg(), r)).cast(DType::F8E4M3);
}

} // namespace

Tensor to_power_of_two(const Tensor& x, const std::string& round_mode, bool saturate) {
  auto word = [](int64_t v) { return Tensor::constant(DType::I32, v); };
  // The exponent is the result's; a subnormal f32 is at most twice the smallest power.
  Tensor bits = x.bitcast(DType::I32), exponent = bits.shr(word(23)) & word(255),
         mantissa = bits & word(0x7fffff), more;
  Tensor subnormal = equal(exponent, 0), half = word(0x400000);
  if (round_mode == "down")
    more = Tensor::constant(DType::BOOL, 0);
  else if (round_mode == "nearest")
    more = mantissa >= half;
  else
    more = mantissa > 0;
  more = subnormal.where(mantissa > half, more);
  Tensor code = (exponent + more.cast(DType::I32)).minimum(word(saturate ? 254 : 255));
  return x.isnan().where(word(255), code).cast(DType::U8).bitcast(DType::F8E8M0);
}

Tensor narrowed(const Tensor& x, DType narrow) {
  if (is_float(narrow)) {
    if (narrow != DType::F4E2M1)
      throw ImportError(std::string("casts to ") + name(narrow) + " are not supported");
    return to_f4(x.cast(DType::F32));
  }
  // The low bits, read with their sign.
  int width = bits(narrow);
  Tensor low = x.cast(DType::I32) & Tensor::constant(DType::I32, (1 << width) - 1);
  if (is_signed(narrow)) {
    Tensor sign = Tensor::constant(DType::I32, 1 << (width - 1));
    low = (low ^ sign) - sign;
  }
  return low.cast(carrier_of(narrow));
}

} // namespace tolk::onnx
