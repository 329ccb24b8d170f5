// Matrix products, convolution, pooling.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "tolk/base/error.h"
#include "tolk/onnx/importer.h"
#include "tolk/onnx/ops_activation.h"
#include "tolk/onnx/ops_window.h"

namespace tolk::onnx {
namespace {

using Values = std::vector<GraphValue>;
using Pads = std::vector<std::pair<int64_t, int64_t>>;

Values matmul(OpCall& op) { return {op.in(0).matmul(op.in(1))}; }

// alpha * A * B + beta * C, in the type that sums are taken in.
Tensor gemm_of(OpCall& op) {
  Tensor a = op.in(0), b = op.in(1);
  if (a.rank() != 2 || b.rank() != 2)
    op.fail("A " + to_string(a.shape()) + " and B " + to_string(b.shape()) + " must be matrices");
  if (op.node.integer("transA", 0)) a = a.transpose(0, 1);
  if (op.node.integer("transB", 0)) b = b.transpose(0, 1);
  double alpha = op.node.number("alpha", 1), beta = op.node.number("beta", 1);
  DType dtype = a.dtype(), wide = is_float(dtype) ? sum_dtype(dtype) : dtype;
  auto scaled = [&](const Tensor& t, double factor) {
    if (factor == 1) return t;
    if (is_float(t.dtype())) return t * factor;
    return (t.cast(DType::F64) * factor).cast(t.dtype());
  };
  Tensor y = scaled(a.matmul_as(b, wide), alpha);
  if (op.has(2)) {
    Shape product = y.shape();
    y = y + scaled(op.in(2).cast(wide), beta);
    if (!(y.shape() == product))
      op.fail("C " + to_string(op.in(2).shape()) + " does not broadcast to the product " +
              to_string(product));
  }
  return y;
}

Values gemm(OpCall& op) { return {gemm_of(op).cast(op.in(0).dtype())}; }

// com.microsoft: a product with an activation behind it.
Values fused_gemm(OpCall& op) {
  const ActivationRow& row = activation_row(op, op.node.text("activation", ""));
  double alpha = op.node.number("activation_alpha", float(row.alpha)),
         beta = op.node.number("activation_beta", float(row.beta));
  return {activation_of(row, alpha, beta)(gemm_of(op)).cast(op.in(0).dtype())};
}

// com.microsoft: a product of matrices whose axes are reordered first. A batch transpose moves the first axis of
// (rows, batch..., columns) before the last.
Values fused_matmul(OpCall& op) {
  auto arranged = [&](const Tensor& t, const char* batch, const char* last) {
    Tensor out = t;
    if (t.rank() > 2 && op.node.integer(batch, 0)) {
      Axes order;
      for (int64_t i = 1; i + 1 < t.rank(); ++i) order.push_back(i);
      order.push_back(0), order.push_back(t.rank() - 1);
      out = t.permute(order);
    }
    return t.rank() > 1 && op.node.integer(last, 0) ? out.transpose(-1, -2) : out;
  };
  const Tensor& a = op.in(0);
  DType wide = is_float(a.dtype()) ? sum_dtype(a.dtype()) : a.dtype();
  Tensor y =
      arranged(a, "transBatchA", "transA").matmul_as(arranged(op.in(1), "transBatchB", "transB"), wide);
  double alpha = op.node.number("alpha", 1);
  return {(alpha == 1 ? y : y * alpha).cast(a.dtype())};
}

// Explicit pads, or those that auto_pad asks for. `span` (kernel with dilation) and `stride` per spatial axis.
Pads pads_of(OpCall& op, const Tensor& x, const std::vector<int64_t>& span,
             const std::vector<int64_t>& stride) {
  size_t dims = span.size();
  std::vector<int64_t> flat = op.node.integers("pads");
  std::string automatic = op.node.text("auto_pad", "NOTSET");
  Pads pads(dims, {0, 0});
  for (size_t i = 0; i < dims; ++i) {
    if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
      int64_t n = x.size(int64_t(2 + i)).value("auto_pad"), out = (n + stride[i] - 1) / stride[i];
      int64_t total = std::max<int64_t>(0, (out - 1) * stride[i] + span[i] - n), less = total / 2;
      pads[i] = automatic == "SAME_UPPER" ? std::pair{less, total - less} : std::pair{total - less, less};
    } else if (automatic != "VALID" && !flat.empty()) {
      pads[i] = {flat[i], flat[i + dims]};
    }
  }
  return pads;
}

std::vector<int64_t> spans(const std::vector<int64_t>& kernel, const std::vector<int64_t>& dilation) {
  std::vector<int64_t> out;
  for (size_t i = 0; i < kernel.size(); ++i) out.push_back((kernel[i] - 1) * dilation[i] + 1);
  return out;
}

std::vector<int64_t> ints_or_ones(OpCall& op, const char* name, size_t dims) {
  std::vector<int64_t> v = op.node.integers(name);
  if (v.empty()) v.assign(dims, 1);
  return v;
}

} // namespace

Tensor::Conv conv_of(OpCall& op, const Tensor& x, const Tensor& w) {
  if (w.rank() < 3 || w.rank() != x.rank())
    op.fail("input " + to_string(x.shape()) + " and weight " + to_string(w.shape()) +
            " must both have two axes and the spatial ones");
  size_t dims = size_t(w.rank()) - 2;
  Tensor::Conv how;
  how.stride = ints_or_ones(op, "strides", dims), how.dilation = ints_or_ones(op, "dilations", dims);
  how.groups = op.node.integer("group", 1);
  std::vector<int64_t> kernel, given = op.node.integers("kernel_shape");
  for (size_t i = 0; i < dims; ++i) kernel.push_back(w.size(int64_t(2 + i)).value("a kernel"));
  if (!given.empty() && given != kernel)
    op.fail("kernel_shape " + io::shape_text(given) + " is not that of the weight " + to_string(w.shape()));
  how.padding = pads_of(op, x, spans(kernel, how.dilation), how.stride);
  return how;
}

namespace {

// A constant weight is stored once with the output channels innermost, so that kernels read vectors of them.
Tensor channels_innermost(OpCall& op, const Tensor& w, int64_t groups) {
  int64_t m = w.size(0).value("Conv"), per_group = m / std::max<int64_t>(groups, 1);
  if (groups != 1 || per_group % 8 != 0 || !op.value(1).host) return w;
  // (C, kernel..., M): the order in which a kernel sums, so it reads the weight from front to back.
  Axes order, back{w.rank() - 1};
  for (int64_t i = 1; i < w.rank(); ++i) order.push_back(i), back.push_back(i - 1);
  order.push_back(0);
  return op.importer.prepared(w, order).permute(back);
}

Values conv(OpCall& op) {
  const Tensor &x = op.in(0), &w = op.in(1);
  Tensor::Conv how = conv_of(op, x, w);
  return {x.conv(channels_innermost(op, w, how.groups), op.in_or(2, Tensor()), how)};
}

// com.microsoft: conv(X, W) + B + Z with an activation behind it.
Values fused_conv(OpCall& op) {
  const Tensor &x = op.in(0), &w = op.in(1);
  Tensor::Conv how = conv_of(op, x, w);
  Tensor y = x.conv(channels_innermost(op, w, how.groups), op.in_or(2, Tensor()), how);
  if (op.has(3)) {
    if (!(op.in(3).shape() == y.shape()))
      op.fail("input 3 " + to_string(op.in(3).shape()) + " must have the result's shape " +
              to_string(y.shape()));
    y = y + op.in(3);
  }
  std::string name = op.node.text("activation", "");
  std::vector<float> given = op.node.numbers("activation_params");
  if (name.empty()) return {y};
  if (name == "Clip") {
    if (given.size() != 2) op.fail("activation_params must be the two bounds of Clip");
    return {y.clip(like(y, given[0]), like(y, given[1]))};
  }
  const ActivationRow& row = activation_row(op, name);
  return {
      activation_of(row, given.empty() ? row.alpha : given[0], given.size() < 2 ? row.beta : given[1])(y)};
}

Values conv_transpose(OpCall& op) {
  const Tensor &x = op.in(0), &w = op.in(1);
  Tensor::Conv how = conv_of(op, x, w);
  how.padding.clear();
  size_t dims = size_t(w.rank()) - 2;
  std::vector<int64_t> extra = op.node.integers("output_padding"), wanted = op.node.integers("output_shape"),
                       flat = op.node.integers("pads");
  extra.resize(dims, 0);
  // Some exporters list the batch and the channels too.
  if (!wanted.empty() && wanted.size() != dims && wanted.size() != dims + 2)
    op.fail("output_shape has " + std::to_string(wanted.size()) + " entries for " + std::to_string(dims) +
            " spatial axes");
  if (wanted.size() > dims) wanted.erase(wanted.begin(), wanted.end() - int64_t(dims));
  std::string automatic = op.node.text("auto_pad", "NOTSET");
  for (size_t i = 0; i < dims; ++i) {
    int64_t n = x.size(int64_t(2 + i)).value("ConvTranspose"),
            span = (w.size(int64_t(2 + i)).value("ConvTranspose") - 1) * how.dilation[i] + 1;
    int64_t full = (n - 1) * how.stride[i] + span + extra[i];
    std::pair<int64_t, int64_t> pad{0, 0};
    if (!wanted.empty() || automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
      int64_t out = wanted.empty() ? n * how.stride[i] : wanted[i], total = full - out;
      // A result larger than all products reach is filled with zeros at the end.
      if (total < 0) extra[i] -= total, total = 0;
      pad = automatic == "SAME_UPPER" ? std::pair{total / 2, total - total / 2}
                                      : std::pair{total - total / 2, total / 2};
    } else if (automatic != "VALID" && !flat.empty()) {
      pad = {flat[i], flat[i + dims]};
    }
    how.padding.push_back(pad);
  }
  return {x.conv_transpose(w, op.in_or(2, Tensor()), how, extra)};
}

// Size of a pool's result along a spatial axis, by the formula of the specification; 0 and less: no window fits.
// An axis of one element keeps it, though the formula gives 0 for a window longer by less than a stride: exported
// networks that pool images down to one row rely on it, and ONNX Runtime has it so.
int64_t pooled_size(const Tensor& x, const Tensor::Pool& how, size_t i) {
  int64_t span = (how.kernel[i] - 1) * how.dilation[i] + 1,
          room =
              x.size(int64_t(2 + i)).value("pooling") + how.padding[i].first + how.padding[i].second - span,
          step = how.stride[i];
  if (room < 0 && room > -step && room + span == 1) return 1;
  return room >= 0 ? room / step + 1 : -((-room + step - 1) / step) + 1;
}

} // namespace

Tensor::Pool pool_of(OpCall& op, const Tensor& x) {
  Tensor::Pool how;
  how.kernel = op.node.require_integers("kernel_shape");
  size_t dims = how.kernel.size();
  if (dims == 0 || x.rank() != int64_t(dims) + 2)
    op.fail("kernel_shape has " + std::to_string(dims) + " axes, the input " + to_string(x.shape()));
  how.stride = ints_or_ones(op, "strides", dims), how.dilation = ints_or_ones(op, "dilations", dims);
  how.padding = pads_of(op, x, spans(how.kernel, how.dilation), how.stride);
  how.ceil_mode = op.node.integer("ceil_mode", 0) != 0;
  for (size_t i = 0; i < dims; ++i)
    if (pooled_size(x, how, i) < 0)
      op.fail("a kernel of " + std::to_string(how.kernel[i]) + " does not fit the axis " +
              std::to_string(2 + i) + " of " + to_string(x.shape()) + " with its padding");
  return how;
}

bool pool_is_empty(const Tensor& x, const Tensor::Pool& how, Shape& shape) {
  if (how.ceil_mode) return false;
  bool empty = false;
  shape = {x.size(0), x.size(1)};
  for (size_t i = 0; i < how.kernel.size(); ++i) {
    int64_t n = pooled_size(x, how, i);
    empty |= n == 0;
    shape.emplace_back(n);
  }
  return empty;
}

namespace {

Values average_pool(OpCall& op) {
  const Tensor& x = op.in(0);
  Tensor::Pool how = pool_of(op, x);
  if (Shape none; pool_is_empty(x, how, none)) return {Tensor::zeros(none, x.dtype())};
  return {x.avg_pool(how, op.node.integer("count_include_pad", 0) != 0)};
}

Values max_pool(OpCall& op) {
  const Tensor& x = op.in(0);
  Tensor::Pool how = pool_of(op, x);
  if (Shape none; pool_is_empty(x, how, none))
    return {Tensor::zeros(none, x.dtype()), Tensor::zeros(none, DType::I64)};
  Tensor y = x.max_pool(how);
  if (!op.wants(1)) return {y};
  // Where each maximum stands in the flattened input: the same windows over the positions, padding below
  // every value. Of equal maxima the first in row-major order is taken, whatever the storage order.
  size_t dims = how.kernel.size();
  Axes last;
  Tensor position = Tensor::arange(x.numel()).reshape(x.shape());
  for (size_t i = 0; i < dims; ++i) last.push_back(-1 - int64_t(i));
  Tensor values = x.pool_windows(
      how, is_float(x.dtype()) ? Number(-std::numeric_limits<double>::infinity())
                               : Number(is_signed(x.dtype()) ? -(int64_t(1) << (bits(x.dtype()) - 1)) : 0));
  Tensor places = position.pool_windows(how, int64_t(1) << 62);
  Tensor top = y;
  for (size_t i = 0; i < dims; ++i) top = top.unsqueeze(-1);
  Tensor hit = equal(values, top) | (values.isnan() & top.isnan());
  Tensor place = hit.where(places, Tensor::constant(DType::I64, int64_t(1) << 62)).min(last);
  if (!op.node.integer("storage_order", 0)) return {y, place};
  // Column-major: the spatial axes are counted in reverse order.
  Axes order{0, 1};
  for (int64_t i = x.rank(); i-- > 2;) order.push_back(i);
  Shape reversed;
  for (int64_t a : order) reversed.push_back(x.size(a));
  Tensor column_major = Tensor::arange(x.numel()).reshape(reversed).permute(order); // its own inverse
  return {y, column_major.flatten().gather(place, 0)};
}

// (sum of |x|^p)^(1/p), with powers and sums in a type that holds them.
Values lp_pool(OpCall& op) {
  const Tensor& x = op.in(0);
  Tensor::Pool how = pool_of(op, x);
  if (Shape none; pool_is_empty(x, how, none)) return {Tensor::zeros(none, x.dtype())};
  double p = op.real("p", 2);
  Tensor wide = x.cast(sum_dtype(least_float(x.dtype())));
  Axes last;
  for (size_t i = 0; i < how.kernel.size(); ++i) last.push_back(-1 - int64_t(i));
  Tensor powers = wide.abs().pow(like(wide, p)).pool_windows(how, 0).sum(last);
  return {powers.pow(like(wide, 1 / p)).cast(x.dtype())};
}

Axes spatial_axes(OpCall& op, const Tensor& x) {
  if (x.rank() < 3) op.fail("the input " + to_string(x.shape()) + " has no spatial axes");
  Axes axes;
  for (int64_t i = 2; i < x.rank(); ++i) axes.push_back(i);
  return axes;
}
Values global_average_pool(OpCall& op) { return {op.in(0).mean(spatial_axes(op, op.in(0)), true)}; }
Values global_max_pool(OpCall& op) { return {op.in(0).max(spatial_axes(op, op.in(0)), true)}; }
Values global_lp_pool(OpCall& op) {
  const Tensor& x = op.in(0);
  double p = op.real("p", 2);
  Tensor wide = x.cast(sum_dtype(least_float(x.dtype())));
  return {
      wide.abs().pow(like(wide, p)).sum(spatial_axes(op, x), true).pow(like(wide, 1 / p)).cast(x.dtype())};
}

Values max_unpool(OpCall& op) {
  const Tensor &x = op.in(0), &places = op.in(1);
  std::vector<int64_t> kernel = op.node.require_integers("kernel_shape"), pads = op.node.integers("pads"),
                       stride = ints_or_ones(op, "strides", kernel.size());
  if (x.rank() != int64_t(kernel.size()) + 2 || !(x.shape() == places.shape()))
    op.fail("values " + to_string(x.shape()) + " and indices " + to_string(places.shape()) +
            " must have one shape, with a spatial axis for each of the " + std::to_string(kernel.size()) +
            " of kernel_shape");
  if (pads.empty()) pads.assign(2 * kernel.size(), 0);
  Shape out{x.size(0), x.size(1)};
  for (size_t i = 0; i < kernel.size(); ++i)
    out.push_back((x.size(int64_t(2 + i)) - SInt(1)) * SInt(stride[i]) +
                  SInt(kernel[i] - pads[i] - pads[i + kernel.size()]));
  Shape natural = out;
  if (op.has(2)) {
    std::vector<int64_t> sizes = op.ints(2);
    out = op.shape(sizes, "output_shape");
    if (out.size() != natural.size())
      op.fail("output_shape has " + std::to_string(out.size()) + " entries for " +
              std::to_string(natural.size()) + " axes");
  }
  // Positions count within the natural shape of each image; the given one may be larger.
  Tensor flat = Tensor::zeros({numel(natural)}, x.dtype())
                    .scatter_elements(places.flatten(), x.flatten(), 0)
                    .reshape(natural);
  std::vector<std::pair<int64_t, int64_t>> grow;
  for (size_t i = 0; i < out.size(); ++i) grow.emplace_back(0, (out[i] - natural[i]).value("MaxUnpool"));
  return {flat.pad(grow)};
}

// Labels are letters; "..." occurs once at most, and stands for what an input has more than labels. `input`: null
// for the result's term.
void check_einsum_term(OpCall& op, const std::string& term, const Tensor* input) {
  size_t dots = term.find("..."), named = term.size() - (dots == std::string::npos ? 0 : 3);
  for (size_t i = 0; i < term.size(); ++i) {
    bool letter = (term[i] >= 'a' && term[i] <= 'z') || (term[i] >= 'A' && term[i] <= 'Z');
    if (!letter && !(dots != std::string::npos && i >= dots && i < dots + 3))
      op.fail("the term \"" + term + "\" is not made of letters and one \"...\"");
  }
  if (!input) return;
  bool fits = dots == std::string::npos ? int64_t(named) == input->rank() : int64_t(named) <= input->rank();
  if (!fits) op.fail("the term " + term + " does not fit shape " + to_string(input->shape()));
}

// Terms like "bij,bjk->bik": every label is an axis, summed unless it is in the result.
Values einsum(OpCall& op) {
  std::string text;
  for (char c : op.node.text("equation", ""))
    if (c != ' ') text += c;
  std::vector<Tensor> inputs = op.all();
  size_t arrow = text.find("->");
  std::string left = text.substr(0, arrow), right = arrow == std::string::npos ? "" : text.substr(arrow + 2);
  std::vector<std::string> terms(1);
  for (char c : left) {
    if (c == ',')
      terms.emplace_back();
    else
      terms.back() += c;
  }
  if (terms.size() != inputs.size())
    op.fail("the equation has " + std::to_string(terms.size()) + " terms for " +
            std::to_string(inputs.size()) + " inputs");
  for (size_t i = 0; i < terms.size(); ++i) check_einsum_term(op, terms[i], &inputs[i]);
  if (arrow != std::string::npos) {
    check_einsum_term(op, right, nullptr);
    for (size_t k = 0; k < right.size(); ++k)
      if (right[k] != '.' &&
          (left.find(right[k]) == std::string::npos || right.find(right[k], k + 1) != std::string::npos))
        op.fail("the result's label " + std::string(1, right[k]) + " must occur once, and in an input");
  }
  // "..." stands for the axes that no label names; they get upper labels that no equation can contain.
  size_t extra = 0;
  for (size_t i = 0; i < terms.size(); ++i)
    if (size_t dots = terms[i].find("..."); dots != std::string::npos)
      extra = std::max(extra, size_t(inputs[i].rank()) - (terms[i].size() - 3));
  auto spread = [&](std::string term, size_t count) {
    size_t dots = term.find("...");
    if (dots == std::string::npos) return term;
    std::string labels;
    for (size_t k = extra - count; k < extra; ++k) labels += char(1 + k);
    return term.replace(dots, 3, labels);
  };
  std::string all;
  std::map<char, int> uses;
  for (size_t i = 0; i < terms.size(); ++i) {
    size_t named = terms[i].size() - (terms[i].find("...") != std::string::npos ? 3 : 0);
    terms[i] = spread(terms[i], size_t(inputs[i].rank()) - named);
    for (char c : terms[i]) {
      if (all.find(c) == std::string::npos) all += c;
      ++uses[c];
    }
  }
  if (arrow == std::string::npos) {
    for (char c : all)
      if (c < ' ') right += c;
    std::string named;
    for (char c : all)
      if (c >= ' ' && uses[c] == 1) named += c;
    std::sort(named.begin(), named.end());
    right += named;
  } else {
    right = spread(right, extra);
  }
  std::string order = right;
  for (char c : all)
    if (right.find(c) == std::string::npos) order += c;
  DType dtype = inputs[0].dtype();
  for (const Tensor& t : inputs) dtype = promote(dtype, t.dtype());
  DType wide = is_float(dtype) ? sum_dtype(dtype) : dtype;
  Tensor product;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Tensor t = inputs[i].cast(wide);
    std::string term = terms[i];
    // A repeated label takes the diagonal.
    for (size_t a = 0; a < term.size(); ++a)
      for (size_t b = term.size(); b-- > a + 1;)
        if (term[a] == term[b]) {
          SInt n = t.size(int64_t(a));
          Tensor index = Tensor::arange(n);
          Shape line(t.shape().size(), SInt(1));
          line[a] = n;
          Shape pick = t.shape();
          pick[b] = 1;
          t = t.gather_elements(index.reshape(line).expand(pick), int64_t(b)).squeeze(int64_t(b));
          term.erase(b, 1);
        }
    Axes from;
    Shape shape;
    for (char c : order) {
      size_t at = term.find(c);
      if (at == std::string::npos) {
        shape.emplace_back(1);
      } else {
        from.push_back(int64_t(at));
        shape.push_back(t.size(int64_t(at)));
      }
    }
    t = t.permute(from).reshape(shape);
    product = product.defined() ? product * t : t;
  }
  Axes summed;
  for (size_t i = right.size(); i < order.size(); ++i) summed.push_back(int64_t(i));
  return {(summed.empty() ? product : product.sum_as(wide, summed, false)).cast(dtype)};
}

constexpr OpRow kRows[] = {
    {"", "MatMul", 1, matmul},
    {"", "Gemm", 1, gemm},
    {"", "Conv", 1, conv},
    {"", "ConvTranspose", 1, conv_transpose},
    {"", "AveragePool", 1, average_pool},
    {"", "MaxPool", 1, max_pool},
    {"", "LpPool", 1, lp_pool},
    {"", "GlobalAveragePool", 1, global_average_pool},
    {"", "GlobalMaxPool", 1, global_max_pool},
    {"", "GlobalLpPool", 1, global_lp_pool},
    {"", "MaxUnpool", 9, max_unpool},
    {"", "Einsum", 12, einsum},
    {"com.microsoft", "FusedMatMul", 1, fused_matmul},
    {"com.microsoft", "TransposeMatMul", 1, fused_matmul},
    {"com.microsoft", "FusedGemm", 1, fused_gemm},
    {"com.microsoft", "FusedConv", 1, fused_conv},
};

} // namespace

std::span<const OpRow> nn_ops() { return kRows; }

} // namespace tolk::onnx
