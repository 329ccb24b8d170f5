// Convolution and pooling over windows: (N, C, o0, k0, o1, k1, ...) by one WINDOW an axis.
#include <algorithm>

#include "tolk/tensor/tensor_internal.h"

namespace tolk {
namespace {

// Number of multiplications above which the padded input is stored: testing every read costs more than one
// pass.
constexpr double kStorePaddingAbove = 4e6;

int64_t at(const std::vector<int64_t>& v, size_t i) { return i < v.size() ? v[i] : 1; }
std::pair<int64_t, int64_t> at(const std::vector<std::pair<int64_t, int64_t>>& v, size_t i) {
  return i < v.size() ? v[i] : std::pair<int64_t, int64_t>{0, 0};
}

// Throws InvalidArgument for values outside of 1 to 2^31 - 1, and for a list that has neither 0 nor `dims`
// values.
void check_positive(const std::vector<int64_t>& values, size_t dims, const char* what, const char* name) {
  if (!values.empty() && values.size() != dims)
    throw InvalidArgument(std::string(what) + ": " + name + " has " + std::to_string(values.size()) +
                          " values for " + std::to_string(dims) + " spatial axes");
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i] < 1 || values[i] > INT32_MAX)
      throw InvalidArgument(std::string(what) + ": " + name + " is " + std::to_string(values[i]) +
                            " on spatial axis " + std::to_string(i) + ", expected 1 to 2^31 - 1");
}

// Negative padding crops.
void check_padding(const std::vector<std::pair<int64_t, int64_t>>& padding, size_t dims, const char* what) {
  if (!padding.empty() && padding.size() != dims)
    throw InvalidArgument(std::string(what) + ": padding has " + std::to_string(padding.size()) +
                          " pairs for " + std::to_string(dims) + " spatial axes");
  for (auto [before, after] : padding)
    if (std::max(before, after) > INT32_MAX || std::min(before, after) < -INT32_MAX)
      throw InvalidArgument(std::string(what) + ": padding of " + std::to_string(before) + " and " +
                            std::to_string(after) + " is beyond 2^31 - 1");
}

// Padded on the trailing axes only.
Tensor padded(const Tensor& x, const std::vector<std::pair<int64_t, int64_t>>& spatial, Number fill) {
  std::vector<std::pair<int64_t, int64_t>> all(x.shape().size() - spatial.size(), {0, 0});
  all.insert(all.end(), spatial.begin(), spatial.end());
  return x.pad(all, fill);
}

// (N, C, n...) -> (N, C, o..., k...). The input must already be padded.
Tensor windows(Tensor x, const std::vector<int64_t>& kernel, const std::vector<int64_t>& stride,
               const std::vector<int64_t>& dilation, const std::vector<int64_t>& out) {
  size_t dims = kernel.size();
  for (size_t i = 0; i < dims; ++i)
    x = x.window(int64_t(2 + 2 * i), out[i], kernel[i], at(stride, i), at(dilation, i));
  Axes order{0, 1};
  for (size_t i = 0; i < dims; ++i) order.push_back(int64_t(2 + 2 * i));
  for (size_t i = 0; i < dims; ++i) order.push_back(int64_t(3 + 2 * i));
  return x.permute(order);
}

} // namespace

Tensor Tensor::conv(const Tensor& weight, const Tensor& bias, const Conv& how) const {
  if (rank() < 3 || weight.rank() != rank())
    throw InvalidArgument("conv needs input (N, C, spatial...) and weight (M, C/groups, kernel...), got " +
                          to_string(shape()) + " and " + to_string(weight.shape()));
  size_t dims = size_t(rank()) - 2;
  check_positive(how.stride, dims, "conv", "stride");
  check_positive(how.dilation, dims, "conv", "dilation");
  check_padding(how.padding, dims, "conv");
  int64_t groups = how.groups, m = weight.size(0).value("conv"), cg = weight.size(1).value("conv");
  if (groups < 1 || m % groups != 0 || !(size(1) == cg * groups))
    throw InvalidArgument("conv: input channels " + to_string(size(1)) + " must be groups (" +
                          std::to_string(groups) + ") times weight channels (" + std::to_string(cg) +
                          "), and groups must divide the " + std::to_string(m) + " outputs");
  std::vector<int64_t> kernel, out;
  std::vector<std::pair<int64_t, int64_t>> amounts;
  double products = double(m) * double(cg) * double(size(0).max());
  bool any_padding = false;
  for (size_t i = 0; i < dims; ++i) {
    kernel.push_back(weight.size(int64_t(2 + i)).value("conv"));
    amounts.push_back(at(how.padding, i));
    any_padding |= amounts[i].first != 0 || amounts[i].second != 0;
    int64_t n = size(int64_t(2 + i)).value("conv") + amounts[i].first + amounts[i].second;
    int64_t span = (kernel[i] - 1) * at(how.dilation, i) + 1;
    if (n < span)
      throw InvalidArgument("conv: kernel " + std::to_string(span) +
                            " (with dilation) is larger than the padded input " + std::to_string(n) +
                            " on spatial axis " + std::to_string(i));
    out.push_back((n - span) / at(how.stride, i) + 1);
    products *= double(out[i]) * double(kernel[i]);
  }
  DType dtype = promote(this->dtype(), weight.dtype());
  DType wide = is_float(dtype) ? sum_dtype(dtype) : dtype;
  Tensor x = padded(*this, amounts, 0);
  if (any_padding && products > kStorePaddingAbove) x = x.contiguous();
  x = windows(x.cast(wide), kernel, how.stride, how.dilation, out);
  // (N, g, 1, o..., C/g, k...) times (g, M/g, 1..., C/g, k...)
  Shape split{size(0), groups, 1, cg}, w_shape{groups, m / groups};
  split.insert(split.end(), x.shape().begin() + 2, x.shape().end());
  Axes order{0, 1, 2};
  for (size_t i = 0; i < dims; ++i) order.push_back(int64_t(4 + i));
  order.push_back(3);
  for (size_t i = 0; i < dims; ++i) order.push_back(int64_t(4 + dims + i));
  x = x.reshape(split).permute(order);
  for (size_t i = 0; i < dims; ++i) w_shape.emplace_back(1);
  w_shape.emplace_back(cg);
  for (int64_t k : kernel) w_shape.emplace_back(k);
  Tensor w = weight.cast(wide).reshape(w_shape);
  Axes summed;
  for (size_t i = 0; i <= dims; ++i) summed.push_back(-1 - int64_t(i));
  Shape result{size(0), m};
  for (int64_t o : out) result.emplace_back(o);
  Tensor y = (x * w).sum_as(wide, summed, false).reshape(result);
  if (bias.defined()) {
    Shape line(size_t(rank()) - 1, SInt(1));
    line[0] = m;
    y = y + bias.cast(wide).reshape(line);
  }
  return y.cast(dtype);
}

Tensor Tensor::conv_transpose(const Tensor& weight, const Tensor& bias, const Conv& how,
                              const std::vector<int64_t>& output_padding) const {
  if (rank() < 3 || weight.rank() != rank() || !(weight.size(0) == size(1)))
    throw InvalidArgument(
        "conv_transpose needs input (N, C, spatial...) and weight (C, M/groups, kernel...), got " +
        to_string(shape()) + " and " + to_string(weight.shape()));
  size_t dims = size_t(rank()) - 2;
  check_positive(how.stride, dims, "conv_transpose", "stride");
  check_positive(how.dilation, dims, "conv_transpose", "dilation");
  check_padding(how.padding, dims, "conv_transpose");
  int64_t groups = how.groups, c = size(1).value("conv_transpose"),
          mg = weight.size(1).value("conv_transpose");
  if (groups < 1 || c % groups != 0)
    throw InvalidArgument("conv_transpose: groups must divide the input channels");
  // Equal to a convolution of the input, dilated by the stride, with the mirrored kernel.
  Tensor x = *this;
  std::vector<std::pair<int64_t, int64_t>> around;
  for (size_t i = 0; i < dims; ++i) {
    int64_t s = at(how.stride, i), n = x.size(int64_t(2 + i)).value("conv_transpose"), axis = int64_t(2 + i);
    int64_t reach = (weight.size(axis).value("conv_transpose") - 1) * at(how.dilation, i);
    if (s > 1) {
      Shape spread = x.shape();
      spread[size_t(axis)] = n * s;
      std::vector<std::pair<int64_t, int64_t>> gaps(size_t(x.rank()) + 1, {0, 0});
      gaps[size_t(axis) + 1] = {0, s - 1};
      x = x.unsqueeze(axis + 1).pad(gaps).reshape(spread).narrow(axis, 0, (n - 1) * s + 1);
    }
    auto [before, after] = at(how.padding, i);
    int64_t extra = i < output_padding.size() ? output_padding[i] : 0;
    around.emplace_back(reach - before, reach - after + extra);
  }
  x = padded(x, around, 0).contiguous();
  Axes spatial;
  for (size_t i = 0; i < dims; ++i) spatial.push_back(int64_t(2 + i));
  Shape grouped{groups, c / groups, mg}, joined{groups * mg, c / groups};
  for (size_t i = 0; i < dims; ++i)
    grouped.push_back(weight.size(int64_t(2 + i))), joined.push_back(weight.size(int64_t(2 + i)));
  Tensor w = weight.flip(spatial).reshape(grouped).transpose(1, 2).reshape(joined);
  return x.conv(w, bias, Conv{{}, how.dilation, {}, groups});
}

namespace {

struct PoolPlan {
  std::vector<int64_t> out;
  std::vector<std::pair<int64_t, int64_t>> amounts; // explicit padding plus what ceil mode adds at the end
  bool ceil_extra = false;
};

PoolPlan plan_pool(const Tensor& x, const Tensor::Pool& how) {
  PoolPlan plan;
  size_t dims = how.kernel.size();
  if (x.rank() != int64_t(dims) + 2)
    throw InvalidArgument("pooling over " + std::to_string(dims) + " axes needs input (N, C, ...) of rank " +
                          std::to_string(dims + 2) + ", got " + to_string(x.shape()));
  check_positive(how.kernel, dims, "pooling", "kernel");
  check_positive(how.stride, dims, "pooling", "stride");
  check_positive(how.dilation, dims, "pooling", "dilation");
  check_padding(how.padding, dims, "pooling");
  for (size_t i = 0; i < dims; ++i) {
    int64_t n = x.size(int64_t(2 + i)).value("pooling"), s = at(how.stride, i),
            span = (how.kernel[i] - 1) * at(how.dilation, i) + 1;
    auto [before, after] = at(how.padding, i);
    int64_t room = n + before + after - span;
    // A window that starts inside and extends over the end sees what is there.
    if (room <= -s && !how.ceil_mode)
      throw InvalidArgument("pooling: the window " + std::to_string(span) +
                            " is larger than the padded input " + std::to_string(n + before + after) +
                            " on spatial axis " + std::to_string(i));
    int64_t out =
        (how.ceil_mode ? (std::max<int64_t>(room, 0) + s - 1) / s : std::max<int64_t>(room, 0) / s) + 1;
    // A window that would start in the padding at the end does not count.
    if (how.ceil_mode && out > 1 && (out - 1) * s >= n + before) --out;
    int64_t needed = (out - 1) * s + span - (n + before);
    plan.ceil_extra |= needed > after;
    plan.out.push_back(out);
    plan.amounts.emplace_back(before, std::max(after, needed));
  }
  return plan;
}

Axes last_axes(size_t count) {
  Axes axes;
  for (size_t i = 0; i < count; ++i) axes.push_back(-1 - int64_t(i));
  return axes;
}

} // namespace

Tensor Tensor::pool_windows(const Pool& how, Number fill) const {
  PoolPlan plan = plan_pool(*this, how);
  return windows(padded(*this, plan.amounts, fill), how.kernel, how.stride, how.dilation, plan.out);
}

Tensor Tensor::max_pool(const Pool& how) const {
  UOp least = reduce_identity(Op::MAX, dtype());
  Number fill = is_float(dtype()) ? Number(least.const_float()) : Number(least.const_int());
  return pool_windows(how, fill).max(last_axes(how.kernel.size()));
}

Tensor Tensor::avg_pool(const Pool& how, bool count_padding) const {
  PoolPlan plan = plan_pool(*this, how);
  Axes axes = last_axes(how.kernel.size());
  DType result = least_float(dtype()), wide = sum_dtype(result);
  Tensor total = pool_windows(how, 0).sum_as(wide, axes, false);
  bool has_padding = plan.ceil_extra;
  for (auto [before, after] : plan.amounts) has_padding |= before != 0 || after != 0;
  if (!has_padding || (count_padding && !plan.ceil_extra)) {
    double count = 1;
    for (int64_t k : how.kernel) count *= double(k);
    return (total / count).cast(result);
  }
  // Number of cells of each window that count: those of the input, and of explicit padding on request.
  Shape plane{1, 1};
  plane.insert(plane.end(), shape().begin() + 2, shape().end());
  Tensor cells = Tensor::ones(plane, wide);
  Pool rest = how;
  if (count_padding) {
    std::vector<std::pair<int64_t, int64_t>> given;
    for (size_t i = 0; i < how.kernel.size(); ++i) given.push_back(at(how.padding, i));
    cells = padded(cells, given, 1);
    for (size_t i = 0; i < given.size(); ++i) plan.amounts[i] = {0, plan.amounts[i].second - given[i].second};
  }
  Tensor count = windows(padded(cells, plan.amounts, 0), how.kernel, how.stride, how.dilation, plan.out)
                     .sum_as(wide, axes, false);
  return (total / count).cast(result);
}

} // namespace tolk
