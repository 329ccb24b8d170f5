#include "random_graph.h"

#include <algorithm>

namespace random_graph {
namespace {

using namespace mini;

constexpr int64_t kMostElements = 300;

class Maker {
public:
  Maker(uint32_t seed, bool store_all) : random_(seed), store_all_(store_all) {}

  Graph run(int operations, const std::vector<T>& inputs) {
    for (int i = 0; i < 3; ++i) {
      Shape shape = random_shape();
      out_.inputs.push_back(inputs.empty() ? buffer(shape, DType::F64) : inputs[size_t(i)]);
    }
    Shape line{SInt(below(4) + 1)};
    out_.inputs.push_back(inputs.empty() ? buffer(line, DType::I32) : inputs[3]);
    indices_.push_back(out_.inputs[3]);
    for (int i = 0; i < 3; ++i) floats_.push_back(out_.inputs[size_t(i)]);
    while (int(out_.values.size()) < operations) {
      T next = operation();
      if (!next.u || !fits(next)) continue;
      if (store_all_) next = contiguous(next);
      out_.values.push_back(next);
      (next.dtype() == DType::F64 ? floats_ : indices_).push_back(next);
    }
    for (int i = 0; i < 1 + below(3); ++i)
      out_.roots.push_back(out_.values[out_.values.size() - 1 - size_t(i)]);
    return std::move(out_);
  }

private:
  int below(int n) { return int(random_() % uint32_t(n)); }
  bool fits(const T& t) const { return t.rank() <= 5 && tolk::max_numel(t.shape()) <= kMostElements; }
  Shape random_shape() {
    Shape shape;
    for (int i = below(4); i > 0; --i) shape.emplace_back(below(5) == 0 ? 1 : below(5) + 1);
    return shape;
  }
  // Late values more often.
  T pick(const std::vector<T>& from) {
    size_t back = size_t(below(int(from.size()))) * size_t(below(3)) / 2;
    return from[from.size() - 1 - std::min(back, from.size() - 1)];
  }
  int axis_of(const T& x) { return below(x.rank()); }

  T operation() {
    T x = pick(floats_);
    int choice = below(17);
    if (x.rank() == 0 && choice >= 5 && choice <= 13) choice = choice % 5;
    switch (choice) {
    case 0:
      return alu(Op::NEG, x) + 0.5;
    case 1:
      return relu(x);
    case 2:
      return exp(x * 0.01);
    case 3:
    case 4:
    case 15:
      return binary(x, pick(floats_));
    case 5:
      return reduce(below(4) ? Op::ADD : Op::MAX, x * 0.5, some_axes(x), below(2));
    case 6:
      return regrouped(x);
    case 7: {
      std::vector<int64_t> order;
      for (int i = 0; i < x.rank(); ++i) order.push_back(i);
      std::shuffle(order.begin(), order.end(), random_);
      return permute(x, order);
    }
    case 8: {
      Shape shape = x.shape();
      if (below(2)) shape.insert(shape.begin(), SInt(below(3) + 1));
      for (SInt& d : shape)
        if (d == 1 && below(2)) d = below(4) + 1;
      return expand(x, shape);
    }
    case 9: {
      Shape before(x.shape().size(), SInt(0)), after = before;
      for (size_t i = 0; i < before.size(); ++i) before[i] = below(3), after[i] = below(3);
      return pad(x, before, after);
    }
    case 10: {
      Shape begin, size;
      for (const SInt& d : x.shape()) {
        int64_t keep = below(int(d.value())) + 1;
        begin.emplace_back(below(int(d.value() - keep) + 1)), size.emplace_back(keep);
      }
      return shrink(x, begin, size);
    }
    case 11:
      return flip(x, {axis_of(x)});
    case 12: {
      int axis = axis_of(x), stride = below(2) + 1, dilation = below(2) + 1;
      int64_t n = x.size(axis).value(), k = below(3) + 1, span = (k - 1) * dilation + 1;
      if (span > n) return {};
      return window(x, axis, (n - span) / stride + 1, k, stride, dilation);
    }
    case 13:
      return gather(x, pick(indices_), axis_of(x));
    case 14: { // an index value, of any size
      T i = cast(x * 3.0, DType::I32);
      return i.rank() > 2 ? T{} : i;
    }
    default: {
      T c = less(x, pick_like(x)), y = pick_like(x);
      return where(c, x, y);
    }
    }
  }

  // A value of the shape of x.
  T pick_like(const T& x) {
    for (size_t i = floats_.size(); i-- > 0;)
      if (floats_[i].shape() == x.shape() && floats_[i].u != x.u && below(2)) return floats_[i];
    return x * 0.25;
  }

  T binary(const T& a, const T& b) {
    size_t n = std::min(a.shape().size(), b.shape().size());
    for (size_t i = 1; i <= n; ++i) {
      SInt x = a.shape()[a.shape().size() - i], y = b.shape()[b.shape().size() - i];
      if (!(x == y) && !(x == 1) && !(y == 1)) return {};
    }
    // A value of shape () that is no constant is stretched by hand.
    Op ops[] = {Op::ADD, Op::SUB, Op::MUL, Op::MAX};
    return alu(ops[below(4)], a, b) * 0.5;
  }

  Axes some_axes(const T& x) {
    Axes axes;
    for (int i = 0; i < x.rank(); ++i)
      if (below(2)) axes.push_back(i);
    if (axes.empty()) axes.push_back(axis_of(x));
    return axes;
  }

  // The same elements in another shape.
  T regrouped(const T& x) {
    int64_t n = tolk::max_numel(x.shape());
    Shape shape;
    while (n > 1 && shape.size() < 4) {
      std::vector<int64_t> divisors;
      for (int64_t d = 1; d <= n; ++d)
        if (n % d == 0) divisors.push_back(d);
      int64_t d = divisors[size_t(below(int(divisors.size())))];
      shape.emplace_back(d);
      n /= d;
    }
    if (n > 1 || shape.empty()) shape.emplace_back(n);
    return mini::reshape(x, shape);
  }

  std::mt19937 random_;
  bool store_all_;
  Graph out_;
  std::vector<T> floats_, indices_;
};

} // namespace

Graph make(uint32_t seed, int operations, bool store_all, const std::vector<T>& inputs) {
  return Maker(seed, store_all).run(operations, inputs);
}

} // namespace random_graph
