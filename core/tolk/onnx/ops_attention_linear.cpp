// What goes with attention: rotary embeddings, linear attention, convolutions with a carried state, gated
// activations, and the fused layers of com.microsoft around them.
#include <algorithm>
#include <cmath>

#include "tolk/base/error.h"
#include "tolk/onnx/importer.h"
#include "tolk/onnx/ops_rotary.h"

namespace tolk::onnx {

Tensor rotated(const Tensor& x, const Rotary& how) {
  int64_t size = x.size(3).value("a rotary embedding"), dim = how.dim ? how.dim : size, half = dim / 2;
  if (dim > size || dim % 2)
    throw InvalidArgument("a rotary embedding of " + std::to_string(dim) + " does not fit heads of " +
                          std::to_string(size));
  auto turned = [&](const Tensor& cache) {
    Tensor c = how.positions.defined() ? cache.gather(how.positions, 0) : cache;
    if (c.rank() != 3 || c.size(2).min() < half)
      throw InvalidArgument("a rotary embedding of " + std::to_string(dim) + " needs caches of " +
                            std::to_string(half) + " columns, got " + to_string(cache.shape()));
    return c.narrow(2, 0, half).unsqueeze(1); // (B, 1, L, half)
  };
  Tensor cos = turned(how.cos), sin = turned(how.sin), first, second, turning = x.narrow(3, 0, dim);
  if (how.interleaved) {
    Tensor pairs = turning.reshape({x.size(0), x.size(1), x.size(2), half, 2});
    first = pairs.narrow(4, 0, 1).squeeze(4), second = pairs.narrow(4, 1, 1).squeeze(4);
  } else {
    first = turning.narrow(3, 0, half), second = turning.narrow(3, half, half);
  }
  DType wide = sum_dtype(x.dtype());
  first = first.cast(wide), second = second.cast(wide), cos = cos.cast(wide), sin = sin.cast(wide);
  Tensor real = (first * cos - second * sin).cast(x.dtype()),
         imaginary = (first * sin + second * cos).cast(x.dtype());
  Tensor out = how.interleaved ? Tensor::stack({real, imaginary}, 4).reshape(turning.shape())
                               : Tensor::concat({real, imaginary}, 3);
  if (dim < size) out = Tensor::concat({out, x.narrow(3, dim, size - dim)}, 3);
  return out.cast(x.dtype());
}

namespace {

using Values = std::vector<GraphValue>;

// Turns (B, H, L, D) or (B, L, H * D), whose number of heads is an attribute or follows from the caches.
Values rotary(OpCall& op, const Rotary& how) {
  const Tensor& x = op.in(0);
  if (x.rank() == 4) return {rotated(x, how)};
  if (x.rank() != 3) op.fail("the input must have three or four axes, its shape is " + to_string(x.shape()));
  int64_t heads = op.node.integer("num_heads", 0), hidden = x.size(2).value("RotaryEmbedding");
  if (heads == 0 && how.dim == 0)
    heads = hidden / std::max<int64_t>(1, 2 * how.cos.size(-1).value("RotaryEmbedding"));
  if (heads < 1 || hidden % heads) op.fail("num_heads must divide the hidden size " + std::to_string(hidden));
  Tensor apart = x.reshape({x.size(0), x.size(1), heads, hidden / heads}).permute({0, 2, 1, 3});
  return {rotated(apart, how).permute({0, 2, 1, 3}).reshape(x.shape())};
}

Values rotary_embedding(OpCall& op) {
  return rotary(op, {op.in(1), op.in(2), op.in_or(3, Tensor()), op.node.integer("interleaved", 0) != 0,
                     op.node.integer("rotary_embedding_dim", 0)});
}

// com.microsoft: (x, positions, cos, sin); one position is where the whole sequence begins.
Values ms_rotary_embedding(OpCall& op) {
  const Tensor &x = op.in(0), &given = op.in(1);
  SInt length = x.rank() == 4 ? x.size(2) : x.size(1);
  Tensor positions = given.cast(DType::I64);
  if (given.rank() == 1) positions = positions.reshape({1, 1}) + Tensor::arange(length).unsqueeze(0);
  return rotary(op, {op.in(2), op.in(3), positions, op.node.integer("interleaved", 0) != 0,
                     op.node.integer("rotary_embedding_dim", 0)});
}

// The state (B, H, Dk, Dv) walks over time: decayed, corrected by what it already holds for the key, then
// written.
Values linear_attention(OpCall& op) {
  const Tensor &query = op.in(0), &value = op.in(2);
  int64_t heads = op.node.require_integer("q_num_heads"), groups = op.node.require_integer("kv_num_heads");
  if (groups < 1 || heads < 1 || heads % groups) op.fail("q_num_heads must be a multiple of kv_num_heads");
  std::string rule = op.node.text("update_rule", "gated_delta");
  bool gated = rule == "gated" || rule == "gated_delta", delta = rule == "delta" || rule == "gated_delta";
  if (!gated && !delta && rule != "linear") op.fail("update_rule \"" + rule + "\" is not known");
  if (gated != op.has(4) || delta != op.has(5))
    op.fail("update_rule " + rule + " does not fit the inputs that are given");
  DType wide = sum_dtype(query.dtype());
  // (B, T, H * D) as (B, H, T, D)
  auto apart = [&](const Tensor& t, int64_t n) {
    return t.cast(wide)
        .reshape({t.size(0), t.size(1), n, floordiv(t.size(2), SInt(n))})
        .permute({0, 2, 1, 3});
  };
  Tensor q = apart(query, heads), k = apart(op.in(1), groups), v = apart(value, groups);
  Tensor decay = gated ? apart(op.in(4), groups).exp() : Tensor();
  Tensor beta = delta ? apart(op.in(5), op.in(5).size(2) == 1 ? 1 : groups) : Tensor();
  Tensor erase = op.has(6) ? apart(op.in(6), groups) * k : k;
  SInt batch = q.size(0), dk = q.size(3), dv = v.size(3);
  double scale = op.node.number("scale", 0);
  if (scale == 0) scale = 1 / std::sqrt(double(dk.value("LinearAttention")));
  Tensor state = op.has(3) ? op.in(3).cast(wide) : Tensor::zeros({batch, groups, dk, dv}, wide);
  DType state_type = op.has(3) ? op.in(3).dtype() : query.dtype();
  int64_t steps = q.size(2).value("LinearAttention");
  std::vector<Tensor> outputs;
  for (int64_t t = 0; t < steps; ++t) {
    auto now = [&](const Tensor& x) { return x.narrow(2, t, 1).squeeze(2); }; // (B, H, D)
    if (gated) state = state * now(decay).unsqueeze(-1);
    Tensor written = now(v);
    if (delta) written = now(beta) * (written - (state * now(erase).unsqueeze(-1)).sum({2}));
    state = (state + now(k).unsqueeze(-1) * written.unsqueeze(-2)).contiguous();
    // Query heads beside the state that they share.
    Tensor asked = now(q).reshape({batch, groups, heads / groups, dk, 1});
    outputs.push_back((asked * state.unsqueeze(2)).sum({3}).reshape({batch, heads, dv}) * scale);
  }
  Tensor out = steps ? Tensor::stack(outputs, 1) : Tensor::zeros({batch, 0, heads, dv}, wide);
  return {out.reshape({batch, steps, SInt(heads) * dv}).cast(query.dtype()), state.cast(state_type)};
}

// Every channel of x (B, C, L) convolved with its own kernel over what came before; the last K-1 values are
// carried on.
Values causal_conv_with_state(OpCall& op) {
  const Tensor &x = op.in(0), &w = op.in(1);
  if (x.rank() != 3 || w.rank() != 3 || op.node.integer("ndim", 1) != 1)
    op.fail("input and weight must have three axes, they are " + to_string(x.shape()) + " and " +
            to_string(w.shape()));
  int64_t k = w.size(2).value("CausalConvWithState");
  SInt length = x.size(2);
  Tensor all = op.has(3) ? Tensor::concat({op.in(3), x}, 2) : x.pad({{0, 0}, {0, 0}, {k - 1, 0}});
  DType wide = sum_dtype(x.dtype());
  Tensor y = (all.cast(wide).window(2, length, k, 1, 1) * w.cast(wide)).sum({3});
  if (op.has(2)) y = y + op.in(2).cast(wide).unsqueeze(-1);
  std::string activation = op.node.text("activation", "none");
  if (activation == "silu" || activation == "swish")
    y = y * y.sigmoid();
  else if (activation != "none")
    op.fail("activation \"" + activation + "\" is not known");
  return {y.cast(x.dtype()), all.narrow(2, length, k - 1)};
}

Values swiglu(OpCall& op) {
  const Tensor& a = op.in(0);
  Tensor x = a.cast(sum_dtype(a.dtype()));
  return {((x * (x * double(op.node.number("alpha", 1))).sigmoid()).cast(a.dtype()) * op.in(1))};
}

// ---- com.microsoft

// Sums of word, position and segment embeddings, normalised. Inputs: ids, segment ids, the three tables,
// gamma, beta, mask, position ids.
Values embed_layer_norm(OpCall& op) {
  const Tensor& ids = op.in(0);
  DType narrow = op.in(2).dtype(), wide = sum_dtype(narrow);
  auto rows = [&](size_t table, const Tensor& at) { return op.in(table).gather(at, 0).cast(wide); };
  Tensor sum = rows(2, ids);
  sum = sum + (op.has(8) ? rows(3, op.in(8)) : op.in(3).narrow(0, 0, ids.size(1)).cast(wide));
  if (op.has(1))
    sum = sum + rows(4, op.in(1));
  else if (op.has(4)) // every token is of sentence 0
    sum = sum + op.in(4).narrow(0, 0, 1).cast(wide);
  Tensor y =
      sum.layer_norm({-1}, op.node.number("epsilon", 1e-12f)) * op.in(5).cast(wide) + op.in(6).cast(wide);
  Tensor mask = op.has(7) ? op.in(7).sum({1}).cast(DType::I32) : Tensor::zeros({ids.size(0)}, DType::I32);
  return {y.cast(narrow), mask, sum.cast(narrow)};
}

constexpr OpRow kRows[] = {
    {"", "RotaryEmbedding", 23, rotary_embedding},
    {"com.microsoft", "RotaryEmbedding", 1, ms_rotary_embedding},
    {"", "LinearAttention", 27, linear_attention},
    {"", "CausalConvWithState", 27, causal_conv_with_state},
    {"com.microsoft", "CausalConvWithState", 1, causal_conv_with_state},
    {"", "SwiGLU", 28, swiglu},
    {"com.microsoft", "EmbedLayerNormalization", 1, embed_layer_norm},
};

} // namespace

std::span<const OpRow> linear_attention_ops() { return kRows; }

} // namespace tolk::onnx
