#include "tolk/tensor/host_eval.h"

#include <cstring>
#include <unordered_map>

#include "tolk/base/error.h"
#include "tolk/dtype/scalar.h"
#include "tolk/engine/run/node_storage.h"
#include "tolk/schedule/tensor/realized.h"
#include "tolk/uop/build.h"
#include "tolk/uop/state.h"
#include "tolk/uop/traverse.h"

namespace tolk {
namespace {

using Values = std::vector<Scalar>;
using Sizes = std::vector<int64_t>;

std::optional<Sizes> sizes_of(const UOp& u) {
  Sizes sizes;
  for (const SInt& d : shape_of(u)) {
    if (!d.is_const()) return std::nullopt;
    sizes.push_back(d.value());
  }
  return sizes;
}

int64_t count_of(const Sizes& sizes) {
  int64_t n = 1;
  for (int64_t s : sizes) n *= s;
  return n;
}

// Calls f(position) for every position of a shape, in row-major order.
template <typename F> void for_each_position(const Sizes& sizes, F f) {
  Sizes at(sizes.size(), 0);
  for (int64_t n = count_of(sizes); n > 0; --n) {
    f(at);
    for (size_t d = sizes.size(); d-- > 0;) {
      if (++at[d] < sizes[d]) break;
      at[d] = 0;
    }
  }
}

int64_t flat(const Sizes& at, const Sizes& sizes) {
  int64_t index = 0;
  for (size_t d = 0; d < sizes.size(); ++d) index = index * sizes[d] + at[d];
  return index;
}

class HostEvaluator {
public:
  HostEvaluator(const StorageSet& changing, int64_t limit) : changing_(changing), limit_(limit) {}

  std::optional<Values> run(const UOp& root) {
    for (const UOp& u : toposort(root, [&](const UOp& n) { return enter(n); })) {
      if (u.dtype() == DType::Index || u.is(ops::Effect)) continue; // sizes are read off their node
      if (UOp stored = schedule::realized_form(u); stored != u) {
        UOp place = engine::contiguous_storage(stored);
        std::optional<Values> v = place ? storage(place) : std::nullopt;
        if (!v) return std::nullopt;
        done_[u] = std::move(*v);
        continue;
      }
      auto sizes = sizes_of(u);
      bool storage = u.is(OpSet(Op::BUFFER, Op::SLICE));
      if (!sizes || (!storage && count_of(*sizes) > limit_)) return std::nullopt;
      std::optional<Values> v = node(u, *sizes);
      if (!v) return std::nullopt;
      done_[u] = std::move(*v);
    }
    return done_.at(root);
  }

private:
  // A value that was computed before is a leaf: it has storage.
  static bool enter(const UOp& u) {
    return !u.is(OpSet(Op::BUFFER, Op::SLICE)) && schedule::realized_form(u) == u;
  }

  std::optional<Values> storage(const UOp& u) {
    UOp base = u.is(Op::SLICE) ? u.src(0) : u;
    if (!base.is(Op::BUFFER) || changing_.contains(base) || elements_of(u) > limit_) return std::nullopt;
    if (elements_of(u) == 0) return Values{};
    BufferRef buffer = engine::buffer_of(u);
    size_t width = size_t(bits(u.dtype())) / 8;
    if (!buffer->is_allocated() || width == 0) return std::nullopt;
    std::vector<std::byte> copy(buffer->bytes());
    buffer->copy_out(copy);
    const std::byte* bytes = copy.data();
    Values out(size_t(elements_of(u)));
    for (size_t i = 0; i < out.size(); ++i) {
      uint64_t word = 0;
      std::memcpy(&word, bytes + i * width, width);
      if (is_float(u.dtype()))
        out[i].f = float_from_bits(u.dtype(), word);
      else if (is_bool(u.dtype()))
        out[i].i = word != 0;
      else if (is_signed(u.dtype()))
        out[i].i = int64_t(word << (64 - 8 * width)) >> (64 - 8 * width);
      else
        out[i].i = word;
    }
    return out;
  }

  const Values& of(const UOp& u) const { return done_.at(u); }
  static int64_t number(const UOp& u, bool& known) {
    known &= u.is_const();
    return known ? u.const_int() : 0;
  }

  // Elements of the source picked, or zero, by a map from result positions to source positions.
  template <typename Map> Values moved(const UOp& u, const Sizes& sizes, Map map) {
    Sizes from = *sizes_of(u.src(0)), at(from.size());
    const Values& src = of(u.src(0));
    Values out;
    out.reserve(size_t(count_of(sizes)));
    for_each_position(
        sizes, [&](const Sizes& to) { out.push_back(map(to, at) ? src[size_t(flat(at, from))] : Scalar{}); });
    return out;
  }

  std::optional<Values> node(const UOp& u, const Sizes& sizes) {
    size_t rank = sizes.size();
    bool known = true;
    if (is_state(u)) return of(u.src(0));
    switch (u.op()) {
    case Op::CONST:
      return Values{scalar_of(u)};
    case Op::BUFFER:
    case Op::SLICE:
      return storage(u);
    case Op::IOTA: {
      Values out(size_t(count_of(sizes)));
      for (size_t i = 0; i < out.size(); ++i) out[i].i = __int128(i);
      return out;
    }
    case Op::RESHAPE:
    case Op::CONTIGUOUS:
    case Op::DETACH:
    case Op::CONTIGUOUS_BACKWARD:
    case Op::FUNCTION:
    case Op::COPY:
      return of(u.src(0));
    case Op::PERMUTE:
      return moved(u, sizes, [&](const Sizes& to, Sizes& at) {
        for (size_t d = 0; d < rank; ++d) at[size_t(u.arg().i(d))] = to[d];
        return true;
      });
    case Op::EXPAND: {
      Sizes from = *sizes_of(u.src(0));
      return moved(u, sizes, [&](const Sizes& to, Sizes& at) {
        for (size_t d = 0; d < rank; ++d) at[d] = from[d] == 1 ? 0 : to[d];
        return true;
      });
    }
    case Op::SHRINK: {
      Sizes begin(rank);
      for (size_t d = 0; d < rank; ++d) begin[d] = number(u.src(1 + d), known);
      if (!known) return std::nullopt;
      return moved(u, sizes, [&](const Sizes& to, Sizes& at) {
        for (size_t d = 0; d < rank; ++d) at[d] = to[d] + begin[d];
        return true;
      });
    }
    case Op::PAD: {
      Sizes before(rank), from = *sizes_of(u.src(0));
      for (size_t d = 0; d < rank; ++d) before[d] = number(u.src(1 + d), known);
      if (!known) return std::nullopt;
      return moved(u, sizes, [&](const Sizes& to, Sizes& at) {
        for (size_t d = 0; d < rank; ++d) {
          at[d] = to[d] - before[d];
          if (at[d] < 0 || at[d] >= from[d]) return false;
        }
        return true;
      });
    }
    case Op::FLIP:
      return moved(u, sizes, [&](const Sizes& to, Sizes& at) {
        for (size_t d = 0; d < rank; ++d) at[d] = u.arg().word >> d & 1 ? sizes[d] - 1 - to[d] : to[d];
        return true;
      });
    case Op::WINDOW: {
      size_t axis = size_t(u.arg().i(0));
      return moved(u, sizes, [&](const Sizes& to, Sizes& at) {
        for (size_t d = 0; d < rank - 1; ++d) at[d] = d <= axis ? to[d] : to[d + 1];
        at[axis] = to[axis] * u.arg().i(1) + to[axis + 1] * u.arg().i(2);
        return true;
      });
    }
    case Op::GATHER: {
      size_t axis = size_t(u.arg().word), picks = shape_of(u.src(1)).size();
      Sizes pick_sizes = *sizes_of(u.src(1)), from = *sizes_of(u.src(0)), pick(picks);
      const Values& indices = of(u.src(1));
      return moved(u, sizes, [&](const Sizes& to, Sizes& at) {
        for (size_t d = 0; d < picks; ++d) pick[d] = to[axis + d];
        __int128 i = indices[size_t(flat(pick, pick_sizes))].i;
        if (i < 0) i += from[axis];
        if (i < 0 || i >= from[axis]) return false;
        for (size_t d = 0; d < from.size(); ++d)
          at[d] = d < axis ? to[d] : d == axis ? int64_t(i) : to[d + picks - 1];
        return true;
      });
    }
    case Op::REDUCE_AXIS: {
      Sizes from = *sizes_of(u.src(0));
      UOp identity = reduce_identity(reduce_op(u), u.dtype());
      // Float sums are rounded once, at the end.
      bool wide = reduce_op(u) == Op::ADD && is_float(u.dtype());
      DType accumulator = wide ? DType::F64 : u.dtype();
      Values out(size_t(count_of(sizes)), scalar_of(identity));
      const Values& src = of(u.src(0));
      bool exact = true;
      size_t next = 0;
      for_each_position(from, [&](const Sizes& at) {
        Sizes to = at;
        for (size_t d = 0; d < rank; ++d)
          if (sizes[d] == 1) to[d] = 0;
        Scalar& sum = out[size_t(flat(to, sizes))];
        Scalar pair[2] = {sum, src[next++]};
        auto r = evaluate_op(reduce_op(u), accumulator, accumulator, pair);
        exact &= r.has_value();
        if (r) sum = *r;
      });
      if (wide)
        for (Scalar& sum : out) sum.f = round_to(u.dtype(), sum.f);
      return exact ? std::optional(out) : std::nullopt;
    }
    default:
      break;
    }
    if (!u.is(ops::Elementwise)) return std::nullopt;
    Values out(size_t(count_of(sizes)));
    Scalar operands[3];
    DType from = u.src(u.nsrc() - 1).dtype();
    // A symbolic size used as data is known only at run time; a constant one was folded by SInt.
    for (const UOp& s : u.src())
      if (s.dtype() == DType::Index && !s.is_const()) return std::nullopt;
    for (size_t i = 0; i < out.size(); ++i) {
      for (size_t k = 0; k < u.nsrc(); ++k) {
        if (u.src(k).dtype() == DType::Index)
          operands[k] = scalar_of(u.src(k));
        else {
          const Values& v = of(u.src(k));
          operands[k] = v.size() == 1 ? v[0] : v[i];
        }
      }
      auto r = evaluate_op(u.op(), u.dtype(), from, std::span(operands, u.nsrc()));
      if (!r) return std::nullopt;
      out[i] = *r;
    }
    return out;
  }

  const StorageSet& changing_;
  int64_t limit_;
  std::unordered_map<UOp, Values, UOpHash> done_;
};

} // namespace

std::optional<std::vector<Scalar>> evaluate_on_host(const Tensor& tensor, const StorageSet& changing,
                                                    int64_t limit) {
  return HostEvaluator(changing, limit).run(tensor.node());
}

} // namespace tolk
