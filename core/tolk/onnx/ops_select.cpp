// Selections whose size depends on the data, made on the host while importing: NonMaxSuppression and Unique.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tolk/base/error.h"
#include "tolk/onnx/importer.h"

namespace tolk::onnx {
namespace {

using Values = std::vector<GraphValue>;

Tensor numbers(OpCall& op, const std::vector<int64_t>& values, const Shape& shape) {
  if (values.empty()) return Tensor::zeros(shape, DType::I64);
  return Tensor::from(values, shape, op.importer.device());
}

// In f32, the type of the boxes: an overlap that equals the threshold there does not exceed it.
struct Box {
  float low[2], high[2];
  float area() const { return (high[0] - low[0]) * (high[1] - low[1]); }
};

// Four numbers: two opposite corners, or the centre and the sizes.
Box box_of(const double* v, bool centred) {
  Box b;
  for (int d = 0; d < 2; ++d) {
    auto a = float(v[d]), size_or_end = float(v[2 + d]);
    float p = centred ? a - size_or_end / 2 : a, q = centred ? a + size_or_end / 2 : size_or_end;
    b.low[d] = std::min(p, q), b.high[d] = std::max(p, q);
  }
  return b;
}

float overlap(const Box& a, const Box& b) {
  float common = 1;
  for (int d = 0; d < 2; ++d)
    common *= std::max(0.0f, std::min(a.high[d], b.high[d]) - std::max(a.low[d], b.low[d]));
  float united = a.area() + b.area() - common;
  return common > 0 && united > 0 ? common / united : 0;
}

Values non_max_suppression(OpCall& op) {
  const Tensor &boxes = op.in(0), &scores = op.in(1);
  if (boxes.rank() != 3 || scores.rank() != 3 || !(boxes.size(2) == 4))
    op.fail("boxes must be (batch, boxes, 4), scores (batch, classes, boxes)");
  int64_t batch = scores.size(0).value("NonMaxSuppression"),
          classes = scores.size(1).value("NonMaxSuppression"),
          count = scores.size(2).value("NonMaxSuppression");
  if (!(boxes.size(0) == batch) || !(boxes.size(1) == count))
    op.fail("boxes " + to_string(boxes.shape()) + " do not fit scores " + to_string(scores.shape()));
  int64_t most = op.has(2) ? op.int_at(2) : 0;
  auto limit = float(op.has(3) ? op.float_at(3) : 0);
  double least = op.has(4) ? op.float_at(4) : -std::numeric_limits<double>::infinity();
  bool centred = op.node.integer("center_point_box", 0) != 0;
  std::vector<int64_t> chosen;
  if (most > 0 && count > 0) {
    std::vector<double> corners = op.floats(0), value = op.floats(1);
    for (int64_t n = 0; n < batch; ++n) {
      std::vector<Box> all;
      for (int64_t i = 0; i < count; ++i)
        all.push_back(box_of(&corners[size_t((n * count + i) * 4)], centred));
      for (int64_t c = 0; c < classes; ++c) {
        const double* score = &value[size_t((n * classes + c) * count)];
        std::vector<int64_t> order;
        for (int64_t i = 0; i < count; ++i)
          if (score[i] > least) order.push_back(i); // never a NaN
        std::sort(order.begin(), order.end(),
                  [&](int64_t a, int64_t b) { return score[a] != score[b] ? score[a] > score[b] : a < b; });
        std::vector<int64_t> kept;
        for (int64_t i : order) {
          if (int64_t(kept.size()) >= most) break;
          bool free = std::none_of(kept.begin(), kept.end(), [&](int64_t k) {
            return overlap(all[size_t(i)], all[size_t(k)]) > limit;
          });
          if (!free) continue;
          kept.push_back(i);
          chosen.insert(chosen.end(), {n, c, i});
        }
      }
    }
  }
  return {numbers(op, chosen, {int64_t(chosen.size() / 3), 3})};
}

// Rows of one kind of number, compared element by element; NaN is larger than everything and equal to
// nothing.
template <typename T> struct Rows {
  std::vector<T> elements; // rows * width
  size_t width;
  int compare(size_t a, size_t b) const {
    for (size_t k = 0; k < width; ++k) {
      T x = elements[a * width + k], y = elements[b * width + k];
      if (x < y || (x == x && y != y)) return -1;
      if (y < x || (x != x && y == y)) return 1;
      if (x != x) return a < b ? -1 : 1;
    }
    return 0;
  }
};

struct Groups {
  std::vector<int64_t> first, inverse, count; // of the distinct rows; which one every row is; how often
};

template <typename T> Groups distinct(const Rows<T>& rows, size_t n, bool sorted) {
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    int c = rows.compare(a, b);
    return c ? c < 0 : a < b;
  });
  Groups g;
  g.inverse.resize(n);
  for (size_t i = 0; i < n; ++i) {
    if (i == 0 || rows.compare(order[i - 1], order[i]) != 0)
      g.first.push_back(int64_t(order[i])), g.count.push_back(0);
    ++g.count.back();
    g.inverse[order[i]] = int64_t(g.first.size()) - 1;
  }
  if (sorted) return g;
  // In the order of first appearance.
  std::vector<int64_t> by_place(g.first.size()), rank(g.first.size());
  std::iota(by_place.begin(), by_place.end(), 0);
  std::sort(by_place.begin(), by_place.end(),
            [&](int64_t a, int64_t b) { return g.first[size_t(a)] < g.first[size_t(b)]; });
  Groups out;
  for (int64_t from : by_place) {
    rank[size_t(from)] = int64_t(out.first.size());
    out.first.push_back(g.first[size_t(from)]), out.count.push_back(g.count[size_t(from)]);
  }
  for (int64_t i : g.inverse) out.inverse.push_back(rank[size_t(i)]);
  return out;
}

Values unique(OpCall& op) {
  Tensor x = op.in(0);
  int64_t axis = 0;
  if (op.node.find("axis"))
    axis = op.node.integer("axis", 0);
  else
    x = x.flatten();
  if (x.rank() == 0) x = x.reshape({1});
  if (axis < 0) axis += x.rank();
  Tensor rows = x.transpose(axis, 0);
  auto n = size_t(x.size(axis).value("Unique")), all = size_t(x.numel().value("Unique"));
  bool sorted = op.node.integer("sorted", 1) != 0;
  size_t width = n ? all / n : 0;
  GraphValue value(is_bool(rows.dtype()) ? rows.cast(DType::U8) : rows);
  Groups g;
  if (is_float(x.dtype())) {
    g = distinct(Rows<double>{op.importer.floats(value), width}, n, sorted);
  } else {
    std::vector<int64_t> ints = op.importer.ints(value);
    // The bits of what exceeds an int64 are still those of the number.
    g = x.dtype() == DType::U64 ? distinct(Rows<uint64_t>{{ints.begin(), ints.end()}, width}, n, sorted)
                                : distinct(Rows<int64_t>{std::move(ints), width}, n, sorted);
  }
  int64_t found = int64_t(g.first.size());
  Tensor first = numbers(op, g.first, {found});
  return {x.gather(first, axis), first, numbers(op, g.inverse, {int64_t(n)}), numbers(op, g.count, {found})};
}

constexpr OpRow kRows[] = {
    {"", "NonMaxSuppression", 10, non_max_suppression},
    {"", "Unique", 11, unique},
};

} // namespace

std::span<const OpRow> select_ops() { return kRows; }

} // namespace tolk::onnx
