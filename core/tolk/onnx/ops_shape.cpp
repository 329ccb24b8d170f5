// Shapes, constants, casts and movement.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>

#include "tolk/base/error.h"
#include "tolk/io/tensor_proto.h"
#include "tolk/onnx/importer.h"
#include "tolk/onnx/ops_text.h"

namespace tolk::onnx {
namespace {

using Values = std::vector<GraphValue>;

GraphValue integers(OpCall& op, std::vector<int64_t> values, bool scalar = false) {
  io::Shape shape;
  if (!scalar) shape.push_back(int64_t(values.size()));
  io::HostTensor host = io::tensor_of(DType::I64, shape, values);
  GraphValue v{io::HostTensor(host)};
  v.tensor = tensor_from(host, op.importer.device());
  return v;
}

std::vector<int64_t> numbers(const Shape& shape) {
  std::vector<int64_t> out;
  for (const SInt& d : shape) out.push_back(d.value("a shape used as data"));
  return out;
}

GraphValue constant_value(OpCall& op, const io::HostTensor& data) {
  GraphValue v{io::HostTensor(data)};
  if (!data.is_string()) v.tensor = tensor_from(data, op.importer.device());
  return v;
}

Values constant(OpCall& op) {
  const Node& n = op.node;
  if (n.attributes.size() > 1) op.fail("it has more than one attribute");
  if (const io::HostTensor* t = n.tensor("value")) return {constant_value(op, *t)};
  if (const io::HostTensor* t = n.tensor("sparse_value")) return {constant_value(op, *t)};
  if (n.find("value_int")) return {integers(op, {n.integer("value_int", 0)}, true)};
  if (n.find("value_ints")) return {integers(op, n.integers("value_ints"))};
  if (n.find("value_float"))
    return {
        constant_value(op, io::tensor_of(DType::F32, {}, std::vector<float>{n.number("value_float", 0)}))};
  if (n.find("value_floats")) {
    std::vector<float> v = n.numbers("value_floats");
    return {constant_value(op, io::tensor_of(DType::F32, {int64_t(v.size())}, v))};
  }
  if (n.find("value_string")) return {GraphValue(io::string_tensor({}, {n.text("value_string", "")}))};
  if (n.find("value_strings")) {
    std::vector<std::string> v = n.texts("value_strings");
    io::Shape shape{int64_t(v.size())};
    return {GraphValue(io::string_tensor(shape, std::move(v)))};
  }
  op.fail("none of the value attributes is given");
}

Values constant_of_shape(OpCall& op) {
  Shape shape = op.shape(op.ints(0), "the shape");
  const io::HostTensor* value = op.node.tensor("value");
  if (!value) return {Tensor::zeros(shape)};
  if (value->count() != 1 || value->is_string()) op.fail("the attribute value must be one number");
  if (is_float(value->dtype)) return {Tensor::constant(value->dtype, io::element_double(*value, 0), shape)};
  auto whole = io::element_int(*value, 0);
  if (value->dtype == DType::U64) return {Tensor::constant(DType::U64, uint64_t(whole), shape)};
  return {Tensor::constant(value->dtype, int64_t(whole), shape)};
}

Shape shape_of_value(OpCall& op, size_t i) {
  if (op.value(i).is_string()) return Shape(op.value(i).host->shape.begin(), op.value(i).host->shape.end());
  return op.in(i).shape();
}

Values shape(OpCall& op) {
  std::vector<int64_t> sizes = numbers(shape_of_value(op, 0));
  auto rank = int64_t(sizes.size());
  auto bound = [&](int64_t v) { return std::clamp(v < 0 ? v + rank : v, int64_t(0), rank); };
  int64_t start = bound(op.node.integer("start", 0)), end = bound(op.node.integer("end", rank));
  return {integers(op, start < end ? std::vector<int64_t>(sizes.begin() + start, sizes.begin() + end)
                                   : std::vector<int64_t>())};
}

Values size(OpCall& op) { return {integers(op, {numel(shape_of_value(op, 0)).value("Size")}, true)}; }

Values reshape(OpCall& op) {
  const Tensor& x = op.in(0);
  std::vector<int64_t> sizes = op.ints_either("shape", 1).value_or(std::vector<int64_t>());
  bool zero_is_zero = op.node.integer("allowzero", 0) != 0;
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] == 0 && !zero_is_zero) {
      if (i >= x.shape().size())
        op.fail("size 0 at axis " + std::to_string(i) + " copies an axis that the input does not have");
      sizes[i] = x.shape()[i].value("Reshape");
    }
  std::vector<int64_t> known = sizes;
  std::replace(known.begin(), known.end(), int64_t(-1), int64_t(1));
  op.shape(known, "the shape");
  return {x.view(sizes)};
}

Values flatten(OpCall& op) {
  const Tensor& x = op.in(0);
  int64_t axis = op.node.integer("axis", 1);
  if (axis < 0) axis += x.rank();
  if (axis < 0 || axis > x.rank()) op.fail("axis is out of range");
  SInt before = 1, after = 1;
  for (int64_t i = 0; i < x.rank(); ++i)
    (i < axis ? before : after) = (i < axis ? before : after) * x.shape()[size_t(i)];
  return {x.reshape({before, after})};
}

Values transpose(OpCall& op) {
  const Tensor& x = op.in(0);
  std::vector<int64_t> order = op.node.integers("perm");
  if (order.empty())
    for (int64_t i = x.rank(); i-- > 0;) order.push_back(i);
  return {x.permute(order)};
}

Values squeeze(OpCall& op) {
  Tensor x = op.in(0);
  auto axes = op.ints_either("axes", 1);
  std::vector<int64_t> drop;
  if (axes) {
    drop = op.axes(*axes, x.rank(), "axes");
  } else {
    for (int64_t i = 0; i < x.rank(); ++i)
      if (x.shape()[size_t(i)] == 1) drop.push_back(i);
  }
  std::sort(drop.begin(), drop.end(), std::greater<>());
  for (int64_t a : drop) x = x.squeeze(a);
  return {x};
}

Values unsqueeze(OpCall& op) {
  Tensor x = op.in(0);
  std::vector<int64_t> axes = op.ints_either("axes", 1).value_or(std::vector<int64_t>());
  int64_t rank = x.rank() + int64_t(axes.size());
  axes = op.axes(std::move(axes), rank, "axes");
  std::sort(axes.begin(), axes.end());
  for (int64_t a : axes) x = x.unsqueeze(a);
  return {x};
}

Values expand(OpCall& op) {
  const Tensor& x = op.in(0);
  std::vector<int64_t> sizes = op.ints(1);
  // Broadcasting in both directions: a size of 1 keeps the input's.
  Shape shape = op.shape(sizes, "the shape");
  while (int64_t(shape.size()) < x.rank()) shape.insert(shape.begin(), SInt(1));
  for (int64_t i = 0; i < x.rank(); ++i) {
    SInt& to = shape[shape.size() - 1 - size_t(i)];
    if (to == 1) to = x.size(-1 - i);
  }
  return {x.expand(shape)};
}

Values concat(OpCall& op) {
  std::vector<Tensor> parts = op.all();
  return {Tensor::concat(parts, op.node.integer("axis", op.opset < 4 ? 1 : 0))};
}

Values split(OpCall& op) {
  const Tensor& x = op.in(0);
  int64_t axis = op.axis("axis", 0, x.rank());
  std::vector<int64_t> sizes;
  if (auto given = op.ints_either("split", 1)) {
    sizes = *given;
    if (sizes.size() != op.node.outputs.size())
      op.fail("split has " + std::to_string(sizes.size()) + " sizes for " +
              std::to_string(op.node.outputs.size()) + " outputs");
    op.shape(sizes, "split");
  } else {
    auto parts = int64_t(op.node.outputs.size());
    parts = op.node.integer("num_outputs", parts);
    if (parts < 1 || parts > int64_t(op.node.outputs.size()))
      op.fail("num_outputs must be the number of outputs, not " + std::to_string(parts));
    int64_t n = x.size(axis).value("Split"), step = (n + parts - 1) / parts;
    if (!op.node.find("num_outputs") && n % parts)
      op.fail("an axis of " + std::to_string(n) + " has no " + std::to_string(parts) + " equal parts");
    for (int64_t i = 0; i < parts; ++i) sizes.push_back(std::max<int64_t>(0, std::min(step, n - i * step)));
  }
  Values out;
  for (Tensor& t : x.split(sizes, axis)) out.emplace_back(std::move(t));
  return out;
}

// One axis as Slice-13 defines it: ends are clamped to the axis before they are counted, so that no step, however
// large, leaves it.
Tensor sliced(const Tensor& x, int64_t axis, int64_t start, int64_t end, int64_t step) {
  int64_t n = x.size(axis).value("Slice");
  bool back = step < 0;
  if (start < 0) start += n;
  if (end < 0) end += n;
  if (n == 0) return x;
  start = back ? std::clamp<int64_t>(start, 0, n - 1) : std::clamp<int64_t>(start, 0, n);
  end = back ? std::clamp<int64_t>(end, -1, n - 1) : std::clamp<int64_t>(end, 0, n);
  int64_t way = back ? start - end : end - start;
  if (way <= 0) return x.narrow(axis, 0, 0);
  uint64_t stride = back ? uint64_t(0) - uint64_t(step) : uint64_t(step);
  auto count = int64_t(1 + uint64_t(way - 1) / stride);
  if (count == 1) return x.narrow(axis, start, 1);
  int64_t first = back ? n - 1 - start : start; // of the axis, or of the axis read backwards
  return (back ? x.flip({axis}) : x)
      .slice(axis, first, first + (count - 1) * int64_t(stride) + 1, int64_t(stride));
}

Values slice(OpCall& op) {
  Tensor x = op.in(0);
  std::vector<int64_t> starts, ends, axes, steps;
  if (op.opset < 10) {
    starts = op.node.integers("starts"), ends = op.node.integers("ends"), axes = op.node.integers("axes");
  } else {
    starts = op.ints(1), ends = op.ints(2);
    if (op.has(3)) axes = op.ints(3);
    if (op.has(4)) steps = op.ints(4);
  }
  if (axes.empty() && starts.size() <= size_t(x.rank()))
    for (size_t i = 0; i < starts.size(); ++i) axes.push_back(int64_t(i));
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (starts.size() != ends.size() || axes.size() != starts.size() || steps.size() != starts.size())
    op.fail("starts, ends, axes and steps must have equal lengths, up to the " + std::to_string(x.rank()) +
            " axes of the input");
  axes = op.axes(std::move(axes), x.rank(), "axes");
  for (size_t i = 0; i < starts.size(); ++i) {
    if (steps[i] == 0) op.fail("a step must not be 0");
    x = sliced(x, axes[i], starts[i], ends[i], steps[i]);
  }
  return {x};
}

Values tile(OpCall& op) {
  if (op.opset < 6) {
    std::vector<int64_t> times(size_t(op.in(0).rank()), 1);
    int64_t axis = op.int_at(2);
    if (axis < 0 || axis >= op.in(0).rank()) op.fail("axis " + std::to_string(axis) + " is out of range");
    times[size_t(axis)] = op.int_at(1);
    op.shape(times, "tiles");
    return {op.in(0).repeat(times)};
  }
  std::vector<int64_t> times = op.ints(1);
  if (int64_t(times.size()) != op.in(0).rank())
    op.fail("repeats has " + std::to_string(times.size()) + " entries for " +
            std::to_string(op.in(0).rank()) + " axes");
  for (int64_t a = 0; a < op.in(0).rank(); ++a)
    if (times[size_t(a)] > 0 && double(times[size_t(a)]) * double(op.in(0).size(a).max()) > 0x1p60)
      op.fail("repeats " + io::shape_text(times) + " make more elements than can be addressed");
  return {op.in(0).repeat(times)};
}

// One axis padded by repeating what is there: by mirror or edge or from the other end.
Tensor pad_by_index(OpCall& op, const Tensor& x, int64_t axis, int64_t before, int64_t after,
                    const std::string& mode) {
  int64_t n = x.size(axis).value("Pad");
  op.check_table(double(n) + double(before) + double(after), "padding");
  if (n == 0) op.fail("an axis of size 0 has nothing to repeat");
  std::vector<int64_t> pick;
  for (int64_t i = -before; i < n + after; ++i) {
    int64_t j = i;
    if (mode == "edge")
      j = std::clamp<int64_t>(i, 0, n - 1);
    else if (mode == "wrap")
      j = ((i % n) + n) % n;
    else {
      int64_t period = std::max<int64_t>(2 * (n - 1), 1);
      j = ((i % period) + period) % period;
      if (j >= n) j = period - j;
    }
    pick.push_back(j);
  }
  return x.gather(Tensor::from(pick, {int64_t(pick.size())}, x.device()), axis);
}

// Constant padding with the exact value, which no double need hold. Negative amounts cut.
Tensor pad_by_value(OpCall& op, const Tensor& x, const std::vector<std::pair<int64_t, int64_t>>& amounts) {
  Tensor padded = x.pad(amounts), fill;
  if (op.opset < 11) {
    double value = op.node.number("value", 0);
    if (value == 0) return padded;
    fill = like(x, value);
  } else {
    if (!op.has(2)) return padded;
    const GraphValue& given = op.value(2);
    if (!(op.in(2).numel() == 1)) op.fail("constant_value must have one element");
    if (given.host && std::ranges::all_of(given.host->bytes, [](std::byte b) { return b == std::byte{0}; }))
      return padded;
    fill = op.in(2).reshape({});
  }
  return Tensor::constant(DType::BOOL, 1, x.shape()).pad(amounts).where(padded, fill);
}

Values pad(OpCall& op) {
  Tensor x = op.in(0);
  std::string mode = op.node.text("mode", "constant");
  std::vector<int64_t> amounts =
      op.opset < 11 ? op.node.integers(op.opset < 2 ? "paddings" : "pads") : op.ints(1);
  std::vector<int64_t> axes;
  if (op.has(3))
    axes = op.axes(op.ints(3), x.rank(), "axes");
  else
    for (int64_t i = 0; i < x.rank(); ++i) axes.push_back(i);
  if (amounts.size() != 2 * axes.size())
    op.fail("pads has " + std::to_string(amounts.size()) + " entries, " + std::to_string(2 * axes.size()) +
            " are needed");
  std::vector<std::pair<int64_t, int64_t>> all(size_t(x.rank()), {0, 0});
  constexpr int64_t kMost = int64_t(1) << 60;
  for (size_t i = 0; i < axes.size(); ++i) {
    int64_t before = amounts[i], after = amounts[i + axes.size()], n = x.size(axes[i]).value("Pad");
    if (std::abs(double(before)) > kMost || std::abs(double(after)) > kMost || n + before + after > kMost)
      op.fail("pads " + io::shape_text(amounts) + " make more elements than can be addressed");
    if (n + before + after < 0 || n + before < 0 || n + after < 0)
      op.fail("pads " + io::shape_text(amounts) + " cut more than axis " + std::to_string(axes[i]) + " of " +
              to_string(x.shape()) + " has");
    all[size_t(axes[i])] = {before, after};
  }
  if (mode == "constant") return {pad_by_value(op, x, all)};
  for (int64_t a = 0; a < x.rank(); ++a) {
    auto [before, after] = all[size_t(a)];
    if (before > 0 || after > 0)
      x = pad_by_index(op, x, a, std::max<int64_t>(before, 0), std::max<int64_t>(after, 0), mode);
    std::vector<std::pair<int64_t, int64_t>> cut(size_t(x.rank()), {0, 0});
    cut[size_t(a)] = {std::min<int64_t>(before, 0), std::min<int64_t>(after, 0)};
    x = x.pad(cut);
  }
  return {x};
}

GraphValue cast_as(OpCall& op, const Tensor& x, DType to) {
  bool saturate = op.node.integer("saturate", 1) != 0;
  if (bits(to) < 8) return narrow_value(narrowed(x, to), to);
  if (to == DType::F8E8M0 && x.dtype() != to)
    return to_power_of_two(x.cast(DType::F32), op.node.text("round_mode", "up"), saturate);
  bool f8 = bits(to) == 8 && is_float(to) && to != DType::F8E8M0;
  if (f8 && is_float(x.dtype()) && x.dtype() != to) {
    // The IR's own cast saturates finite values as OCP says; saturate=1 also clamps infinities, saturate=0
    // turns what is too large into infinity, or NaN where the type has none.
    bool e5m2 = to == DType::F8E5M2 || to == DType::F8E5M2FNUZ,
         fnuz = to == DType::F8E4M3FNUZ || to == DType::F8E5M2FNUZ;
    double largest = e5m2 ? 57344 : fnuz ? 240 : 448;
    Tensor wide = x.cast(x.dtype() == DType::F64 ? DType::F64 : DType::F32);
    if (saturate) return x.isnan().where(wide, wide.clip(like(wide, -largest), like(wide, largest))).cast(to);
    // Half a step above the largest value rounds away.
    double limit = e5m2 ? 61440 : fnuz ? 248 : 464;
    Tensor over = wide.abs() >= limit;
    Tensor special = e5m2 && !fnuz ? (wide < 0).where(like(wide, -INFINITY), like(wide, INFINITY))
                                   : like(wide, std::nan(""));
    return over.where(special, wide).cast(to);
  }
  return x.cast(to);
}

// The type that Cast names; versions 1 to 5 did so as text ("FLOAT16").
int64_t cast_code(OpCall& op) {
  const Attribute* to = op.node.find("to");
  const auto* text = std::get_if<std::string>(&to->data);
  if (!text) return op.node.require_integer("to");
  std::string upper;
  for (char c : *text) upper += char(std::toupper(static_cast<unsigned char>(c)));
  for (int64_t code = 1; code <= 32; ++code)
    if (io::onnx_type_name(code) == upper) return code;
  op.fail("the attribute to is \"" + *text + "\", which is no element type");
}

Values cast(OpCall& op) {
  int64_t code = cast_code(op);
  if (code == io::kOnnxString) return {text_of(op)};
  DType to = dtype_from_code(op, code, true);
  if (op.value(0).is_string()) return {numbers_of_text(op, to)};
  return {cast_as(op, op.in(0), to)};
}
Values cast_like(OpCall& op) {
  if (op.value(1).is_string()) return {text_of(op)};
  if (op.value(0).is_string()) return {numbers_of_text(op, op.type(1))};
  return {cast_as(op, op.in(0), op.type(1))};
}
Values bit_cast(OpCall& op) { return {op.in(0).bitcast(dtype_from_code(op, op.node.require_integer("to")))}; }

// start, start + delta, ... before limit. The number of elements is decided in the type of the data.
Values range(OpCall& op) {
  DType dtype = op.in(0).dtype();
  for (size_t i = 0; i < 3; ++i)
    if (!(op.in(i).numel() == 1)) op.fail("start, limit and delta must be single numbers");
  constexpr double kMost = 0x1p60;
  if (is_float(dtype)) {
    double start = op.float_at(0), limit = op.float_at(1), step = op.float_at(2), way = limit - start;
    if (dtype != DType::F64) way = float(way);
    double count = std::ceil(way / step);
    if (!(std::abs(count) < kMost)) op.fail("start, limit and delta make no range");
    auto n = std::max<int64_t>(0, int64_t(count));
    DType wide = dtype == DType::F64 ? DType::F64 : DType::F32;
    return {
        (Tensor::arange(n, wide) * Tensor::constant(wide, step) + Tensor::constant(wide, start)).cast(dtype)};
  }
  int64_t start = op.int_at(0), limit = op.int_at(1), step = op.int_at(2);
  if (step == 0) op.fail("delta must not be 0");
  __int128 way = dtype == DType::U64 ? __int128(uint64_t(limit)) - __int128(uint64_t(start))
                                     : __int128(limit) - __int128(start),
           stride = dtype == DType::U64 ? __int128(uint64_t(step)) : __int128(step);
  __int128 count =
      (way > 0) == (stride > 0) && way != 0 ? (way + stride - (stride > 0 ? 1 : -1)) / stride : 0;
  if (count > __int128(kMost)) op.fail("start, limit and delta make more elements than can be addressed");
  return {Tensor::arange(int64_t(count), dtype) * Tensor::constant(dtype, step) +
          Tensor::constant(dtype, start)};
}

// A diagonal beyond the corners is as good as the one beside them.
int64_t diagonal_of(const Tensor& x, int64_t k) { return std::clamp(k, -x.size(-2).max(), x.size(-1).max()); }

Values eye_like(OpCall& op) {
  const Tensor& x = op.in(0);
  DType dtype = op.node.find("dtype") ? dtype_from_code(op, op.node.integer("dtype", 1)) : x.dtype();
  if (x.rank() != 2) op.fail("the input must be a matrix, its shape is " + to_string(x.shape()));
  return {Tensor::eye(x.size(0), x.size(1), diagonal_of(x, op.node.integer("k", 0)), dtype)};
}

Values trilu(OpCall& op) {
  const Tensor& x = op.in(0);
  if (x.rank() < 2) op.fail("the input must have two axes or more, its shape is " + to_string(x.shape()));
  int64_t k = diagonal_of(x, op.has(1) ? op.int_at(1) : 0);
  SInt rows = x.size(-2), columns = x.size(-1);
  Tensor i = Tensor::arange(rows).reshape({rows, 1}) + k, j = Tensor::arange(columns).reshape({1, columns});
  Tensor keep = op.node.integer("upper", 1) ? i <= j : j <= i;
  return {keep.where(x, like(x, 0))};
}

Values depth_to_space(OpCall& op) {
  const Tensor& x = op.in(0);
  int64_t b = op.node.require_integer("blocksize");
  if (x.rank() != 4 || x.size(1).value("DepthToSpace") % (b * b))
    op.fail("the input " + to_string(x.shape()) + " must be (N, C, H, W), with C a multiple of " +
            std::to_string(b * b));
  SInt n = x.size(0), c = floordiv(x.size(1), SInt(b * b)), h = x.size(2), w = x.size(3);
  Tensor t = op.node.text("mode", "DCR") == "DCR" ? x.reshape({n, b, b, c, h, w}).permute({0, 3, 4, 1, 5, 2})
                                                  : x.reshape({n, c, b, b, h, w}).permute({0, 1, 4, 2, 5, 3});
  return {t.reshape({n, c, h * SInt(b), w * SInt(b)})};
}

Values space_to_depth(OpCall& op) {
  const Tensor& x = op.in(0);
  int64_t b = op.node.require_integer("blocksize");
  if (x.rank() != 4 || x.size(2).value("SpaceToDepth") % b || x.size(3).value("SpaceToDepth") % b)
    op.fail("the input " + to_string(x.shape()) + " must be (N, C, H, W), with H and W multiples of " +
            std::to_string(b));
  SInt n = x.size(0), c = x.size(1), h = floordiv(x.size(2), SInt(b)), w = floordiv(x.size(3), SInt(b));
  return {x.reshape({n, c, h, b, w, b}).permute({0, 3, 5, 1, 2, 4}).reshape({n, c * SInt(b * b), h, w})};
}

Values center_crop_pad(OpCall& op) {
  Tensor x = op.in(0);
  std::vector<int64_t> sizes = op.ints(1), axes = op.node.integers("axes");
  if (axes.empty())
    for (int64_t i = 0; i < x.rank(); ++i) axes.push_back(i);
  if (sizes.size() != axes.size())
    op.fail("the shape has " + std::to_string(sizes.size()) + " sizes for " + std::to_string(axes.size()) +
            " axes");
  op.shape(sizes, "the shape");
  std::vector<std::pair<int64_t, int64_t>> amounts(size_t(x.rank()), {0, 0});
  for (size_t i = 0; i < axes.size(); ++i) {
    int64_t a = axes[i] < 0 ? axes[i] + x.rank() : axes[i], n = x.size(a).value("CenterCropPad"),
            more = sizes[i] - n;
    int64_t before = more >= 0 ? more / 2 : -((-more) / 2);
    amounts[size_t(a)] = {before, more - before};
  }
  return {x.pad(amounts)};
}

constexpr OpRow kRows[] = {
    {"", "Constant", 1, constant},
    {"", "ConstantOfShape", 9, constant_of_shape},
    {"", "Shape", 1, shape},
    {"", "Size", 1, size},
    {"", "Reshape", 1, reshape},
    {"", "Flatten", 1, flatten},
    {"", "Transpose", 1, transpose},
    {"", "Squeeze", 1, squeeze},
    {"", "Unsqueeze", 1, unsqueeze},
    {"", "Expand", 8, expand},
    {"", "Concat", 1, concat},
    {"", "Split", 1, split},
    {"", "Slice", 1, slice},
    {"", "Tile", 1, tile},
    {"", "Pad", 1, pad},
    {"", "Cast", 1, cast},
    {"", "CastLike", 15, cast_like},
    {"", "BitCast", 26, bit_cast},
    {"", "Range", 11, range},
    {"", "EyeLike", 9, eye_like},
    {"", "Trilu", 14, trilu},
    {"", "DepthToSpace", 1, depth_to_space},
    {"", "SpaceToDepth", 1, space_to_depth},
    {"", "CenterCropPad", 18, center_crop_pad},
};

} // namespace

std::span<const OpRow> shape_ops() { return kRows; }

} // namespace tolk::onnx
