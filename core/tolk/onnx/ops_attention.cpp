// Attention in its several spellings: ai.onnx Attention and FlexAttention, and those of com.microsoft. All
// end in `attend`, which works on (batch, heads, length, size) and never repeats keys or values for grouped
// queries.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tolk/base/error.h"
#include "tolk/io/tensor_proto.h"
#include "tolk/onnx/importer.h"
#include "tolk/onnx/ops_quant.h"
#include "tolk/onnx/ops_rotary.h"

namespace tolk::onnx {
namespace {

using Values = std::vector<GraphValue>;

constexpr double kInf = std::numeric_limits<double>::infinity();

// (B, L, H * D) as (B, H, L, D).
Tensor heads_apart(OpCall& op, const Tensor& x, int64_t heads) {
  int64_t hidden = x.size(2).value("attention");
  if (heads < 1 || hidden % heads)
    op.fail("the hidden size " + std::to_string(hidden) + " is not a multiple of the " +
            std::to_string(heads) + " heads");
  return x.reshape({x.size(0), x.size(1), heads, hidden / heads}).permute({0, 2, 1, 3});
}
Tensor heads_joined(const Tensor& x) {
  return x.permute({0, 2, 1, 3}).reshape({x.size(0), x.size(2), x.size(1) * x.size(3)});
}

// (B, H, ...) as (B, groups, H / groups, ...): query heads beside the key head that they share.
Tensor grouped(const Tensor& x, int64_t groups) {
  Shape shape = x.shape();
  shape[1] = floordiv(shape[1], SInt(groups));
  shape.insert(shape.begin() + 1, SInt(groups));
  return x.reshape(shape);
}
Tensor ungrouped(const Tensor& x) { return x.flatten(1, 2); }

struct Attending {
  double scale = 0;                 // 0: one over the square root of the head size
  double softcap = 0;               // 0: none
  Tensor bias;                      // added to the scores; undefined: none
  Tensor allowed;                   // bool: what may be attended to; undefined: everything
  bool rows_may_be_empty = false;   // a row with nothing to attend to then gives zeros
  DType softmax_type = DType::Void; // Void: the accumulator's
};
struct Attended {
  Tensor result;                          // (B, H, L, Dv), in q's dtype
  Tensor scores, capped, biased, weights; // (B, H, L, S)
};

// Softmax over the last axis, a row of -inf giving zeros.
Tensor softmax_or_zero(const Tensor& scores) {
  DType wide = sum_dtype(scores.dtype());
  Tensor x = scores.cast(wide), top = x.max({-1}, true);
  Tensor empty = equal(top, -kInf);
  Tensor e = (x - empty.where(like(x, 0), top)).exp(), total = e.sum({-1}, true);
  return (e / empty.where(like(x, 1), total)).cast(scores.dtype());
}

void check_heads(OpCall& op, const Tensor& q, const Tensor& k, const Tensor& v) {
  if (q.rank() != 4 || k.rank() != 4 || v.rank() != 4)
    op.fail("query, key and value must have four axes, or three with the numbers of heads as attributes; "
            "they are " +
            to_string(q.shape()) + ", " + to_string(k.shape()) + " and " + to_string(v.shape()));
  int64_t heads = q.size(1).value("attention"), groups = k.size(1).value("attention");
  if (groups < 1 || heads % groups || !(v.size(1) == groups))
    op.fail(std::to_string(heads) + " query heads do not fit " + std::to_string(groups) + " key heads and " +
            to_string(v.size(1)) + " value heads");
}

Tensor scores_of(const Tensor& q, const Tensor& k, double scale) {
  if (scale == 0) scale = 1 / std::sqrt(double(q.size(3).value("attention")));
  int64_t groups = k.size(1).value("attention");
  Tensor scores = grouped(q, groups).matmul_as(k.unsqueeze(2).transpose(-1, -2), sum_dtype(q.dtype()));
  return ungrouped(scores * scale);
}

Tensor weighted(const Tensor& weights, const Tensor& v, DType result) {
  int64_t groups = v.size(1).value("attention");
  return ungrouped(grouped(weights, groups).matmul_as(v.unsqueeze(2), sum_dtype(result))).cast(result);
}

Attended attend(OpCall& op, const Tensor& q, const Tensor& k, const Tensor& v, const Attending& how) {
  check_heads(op, q, k, v);
  Attended out;
  out.scores = scores_of(q, k, how.scale);
  out.capped = how.softcap > 0 ? (out.scores / how.softcap).tanh() * how.softcap : out.scores;
  out.biased = how.bias.defined() ? out.capped + how.bias.cast(out.capped.dtype()) : out.capped;
  if (how.allowed.defined()) out.biased = how.allowed.where(out.biased, like(out.biased, -kInf));
  Tensor x = how.softmax_type == DType::Void ? out.biased : out.biased.cast(how.softmax_type);
  out.weights = how.rows_may_be_empty ? softmax_or_zero(x) : x.softmax(-1);
  out.result = weighted(out.weights, v, q.dtype());
  return out;
}

// Positions 0 .. n-1 along the axis -2 (queries) or -1 (keys) of the scores.
Tensor query_positions(const SInt& n) { return Tensor::arange(n).unsqueeze(-1); }
Tensor key_positions(const SInt& n) { return Tensor::arange(n).unsqueeze(0); }
Tensor both(const Tensor& a, const Tensor& b) { return a.defined() ? a & b : b; }
// A value per batch entry beside (B, H, L, S).
Tensor per_batch(const Tensor& v) { return v.cast(DType::I64).reshape({v.numel(), 1, 1, 1}); }

// The last axis made `length` long.
Tensor lengthened(const Tensor& mask, const SInt& length, Number fill) {
  int64_t missing = (length - mask.size(-1)).value("attention");
  if (missing <= 0) return mask;
  std::vector<std::pair<int64_t, int64_t>> amounts(size_t(mask.rank()), {0, 0});
  amounts.back().second = missing;
  return mask.pad(amounts, fill);
}

DType softmax_precision(OpCall& op) {
  return op.node.find("softmax_precision") ? dtype_from_code(op, op.node.integer("softmax_precision", 1))
                                           : DType::Void;
}

Values attention(OpCall& op) {
  Tensor q = op.in(0), k = op.in(1), v = op.in(2);
  bool packed = q.rank() == 3;
  if (packed) {
    int64_t q_heads = op.node.require_integer("q_num_heads"),
            kv_heads = op.node.require_integer("kv_num_heads");
    q = heads_apart(op, q, q_heads), k = heads_apart(op, k, kv_heads), v = heads_apart(op, v, kv_heads);
  }
  SInt past = 0;
  if (op.has(4)) {
    past = op.in(4).size(2);
    k = Tensor::concat({op.in(4), k}, 2), v = Tensor::concat({op.in(5), v}, 2);
  }
  SInt queries = q.size(2), keys = k.size(2);
  Attending how;
  how.scale = op.node.number("scale", 0), how.softcap = op.node.number("softcap", 0);
  how.softmax_type = softmax_precision(op);
  if (op.has(3)) {
    const Tensor& mask = op.in(3);
    if (is_bool(mask.dtype()))
      how.allowed = lengthened(mask, keys, 0);
    else
      how.bias = lengthened(mask, keys, -kInf);
  }
  if (op.node.integer("is_causal", 0)) {
    // The last query sits at the last valid key: after the past, or at the given length of each entry.
    Tensor i = query_positions(queries), j = key_positions(keys);
    if (op.has(4))
      i = i + past.value("attention");
    else if (op.has(6))
      i = i + (per_batch(op.in(6)) - queries.value("attention"));
    how.allowed = both(how.allowed, j <= i);
  }
  if (op.has(6)) how.allowed = both(how.allowed, key_positions(keys) < per_batch(op.in(6)));
  how.rows_may_be_empty = how.allowed.defined() || how.bias.defined();
  Attended a = attend(op, q, k, v, how);
  int64_t mode = op.node.integer("qk_matmul_output_mode", 0);
  const Tensor* wanted[] = {&a.scores, &a.capped, &a.biased, &a.weights};
  if (mode < 0 || mode > 3) op.fail("qk_matmul_output_mode must be 0 to 3, not " + std::to_string(mode));
  return {packed ? heads_joined(a.result) : a.result, k, v, wanted[mode]->cast(q.dtype())};
}

// Bodies change the scores, and the weights after the softmax.
Values flex_attention(OpCall& op) {
  const Tensor &q = op.in(0), &k = op.in(1), &v = op.in(2);
  check_heads(op, q, k, v);
  auto changed = [&](const char* name, const Tensor& t) {
    const Graph* body = op.node.graph(name);
    if (!body) return t;
    GraphValue in(t);
    std::vector<GraphValue> out = op.importer.run_body(*body, std::span(&in, 1));
    if (out.size() != 1 || !out[0].tensor.defined()) op.fail(std::string(name) + " must give one tensor");
    return out[0].tensor;
  };
  // Bodies are written for the softmax's type, f32 when none is given and the inputs are narrower.
  DType type = softmax_precision(op), narrow = q.dtype();
  if (type == DType::Void)
    type = op.node.graph("score_mod") || op.node.graph("prob_mod") ? narrow : sum_dtype(narrow);
  Tensor scores = changed("score_mod", scores_of(q, k, op.node.number("scale", 0)).cast(type));
  Tensor weights = changed("prob_mod", scores.softmax(-1));
  return {weighted(weights, v, narrow)};
}

// ---- com.microsoft

// A mask of integers: (B) lengths, (B, S), (B, L, S) or (B, 1, L, S) with 1 where attention goes.
Tensor padding_mask(OpCall& op, const Tensor& mask, const SInt& batch, const SInt& keys) {
  if (mask.rank() == 1) {
    if (!(mask.size(0) == batch)) op.fail("masks with start positions are not supported");
    return key_positions(keys) < per_batch(mask);
  }
  Tensor m = is_bool(mask.dtype()) ? mask : not_equal(mask, 0);
  if (m.rank() == 2) return m.reshape({m.size(0), 1, 1, m.size(1)});
  return m.rank() == 3 ? m.unsqueeze(1) : m;
}

// Queries stand behind `past` keys and attend to no later one.
Tensor causal(const SInt& queries, const SInt& keys, const SInt& past) {
  return key_positions(keys) <= query_positions(queries) + past.value("attention");
}

// What a mask of com.microsoft leaves out gets mask_filter_value added (ContribOperators.md), so a row without any
// position left attends as if there were no mask.
Tensor filtered(OpCall& op, const Tensor& bias, const Tensor& allowed) {
  if (!allowed.defined()) return bias;
  double filter = op.node.number("mask_filter_value", -10000.0f);
  Tensor extra = allowed.where(Tensor::constant(DType::F32, 0), Tensor::constant(DType::F32, filter));
  return bias.defined() ? bias.cast(DType::F32) + extra : extra;
}

// From the projected x (B, L, sizes of query, key and value) on. `mask`, `past` (2, B, H, P, D) and `bias` are the
// numbers of inputs.
Values attention_of_projected(OpCall& op, const Tensor& projected, std::vector<int64_t> sizes, size_t mask,
                              size_t past, size_t bias) {
  int64_t heads = op.node.require_integer("num_heads"), all = projected.size(2).value("Attention");
  if (sizes.empty()) sizes = {all / 3, all / 3, all / 3};
  if (sizes.size() != 3) op.fail("qkv_hidden_sizes must have three entries");
  std::vector<Tensor> parts = projected.split(sizes, 2);
  Tensor q = heads_apart(op, parts[0], heads), k = heads_apart(op, parts[1], heads),
         v = heads_apart(op, parts[2], heads);
  if (op.has(past)) {
    k = Tensor::concat({op.in(past).narrow(0, 0, 1).squeeze(0), k}, 2);
    v = Tensor::concat({op.in(past).narrow(0, 1, 1).squeeze(0), v}, 2);
  }
  Attending how;
  how.scale = op.node.number("scale", 0);
  how.bias = op.in_or(bias, Tensor());
  if (op.has(mask))
    how.bias = filtered(op, how.bias, padding_mask(op, op.in(mask), projected.size(0), k.size(2)));
  if (op.node.integer("unidirectional", 0)) how.allowed = causal(q.size(2), k.size(2), k.size(2) - q.size(2));
  Values out{heads_joined(attend(op, q, k, v, how).result)};
  if (op.wants(1)) out.emplace_back(Tensor::stack({k, v}, 0));
  return out;
}

// One weight for query, key and value: inputs x (B, L, K), weight (K, 3 * hidden), bias, mask, past (2, B, H,
// P, D), attention bias.
Values ms_attention(OpCall& op) {
  Tensor projected = op.in(0).matmul(op.in(1));
  if (op.has(2)) projected = projected + op.in(2);
  return attention_of_projected(op, projected, op.node.integers("qkv_hidden_sizes"), 3, 4, 5);
}

// The same over integers: inputs x, weight, bias, scale of x, scale of the weight (one, or one a column), mask, zero
// points of x and weight, past.
Values q_attention(OpCall& op) {
  Tensor sum =
      centred(op.in(0), op.in_or(6, Tensor()), true).matmul(centred(op.in(1), op.in_or(7, Tensor()), false));
  DType dtype = op.in(2).dtype();
  auto scale = [&](size_t i) {
    return (op.in(i).numel() == 1 ? op.in(i).reshape({}) : op.in(i)).cast(DType::F32);
  };
  Tensor projected = sum.cast(DType::F32) * (scale(3) * scale(4)) + op.in(2).cast(DType::F32);
  constexpr size_t kNoInput = 9;
  return attention_of_projected(op, projected.cast(dtype), {}, 5, 8, kNoInput);
}

// Inputs: query (B, L, hidden), key and value (B, S, hidden) or already (B, H, S, D), bias, key padding mask,
// attention bias, past key, past value.
Values ms_multi_head_attention(OpCall& op) {
  int64_t heads = op.node.require_integer("num_heads");
  Tensor q = op.in(0);
  if (q.rank() != 3 || !op.has(1) || !op.has(2)) op.fail("packed query, key and value are not supported");
  Tensor k = op.in(1), v = op.in(2);
  if (op.has(3)) {
    int64_t h = q.size(2).value("MultiHeadAttention");
    SInt rest = op.in(3).size(0) - SInt(2 * h);
    q = q + op.in(3).narrow(0, 0, h);
    if (k.rank() == 3) k = k + op.in(3).narrow(0, h, h), v = v + op.in(3).narrow(0, 2 * h, rest);
  }
  q = heads_apart(op, q, heads);
  if (k.rank() == 3) k = heads_apart(op, k, heads);
  if (v.rank() == 3) v = heads_apart(op, v, heads);
  if (op.has(6)) k = Tensor::concat({op.in(6), k}, 2), v = Tensor::concat({op.in(7), v}, 2);
  Attending how;
  how.scale = op.node.number("scale", 0);
  how.bias = op.in_or(5, Tensor());
  if (op.has(4)) how.bias = filtered(op, how.bias, padding_mask(op, op.in(4), q.size(0), k.size(2)));
  if (op.node.integer("unidirectional", 0))
    how.allowed = causal(q.size(2), k.size(2), op.has(6) ? op.in(6).size(2) : SInt(0));
  return {heads_joined(attend(op, q, k, v, how).result), k, v};
}

// Inputs: query, key, value (packed by hidden size; or all three in query), past key, past value, seqlens_k
// (valid keys less one, per entry), total length, cos and sin cache, position ids, attention bias.
Values ms_group_query_attention(OpCall& op) {
  int64_t heads = op.node.require_integer("num_heads"), kv_heads = op.node.require_integer("kv_num_heads");
  if (heads < 1 || kv_heads < 1) op.fail("num_heads and kv_num_heads must be positive");
  Tensor q = op.in(0), k = op.in_or(1, Tensor()), v = op.in_or(2, Tensor());
  if (!k.defined()) {
    int64_t size = q.size(2).value("GroupQueryAttention") / (heads + 2 * kv_heads);
    std::vector<Tensor> parts = q.split({heads * size, kv_heads * size, kv_heads * size}, 2);
    q = parts[0], k = parts[1], v = parts[2];
  }
  q = heads_apart(op, q, heads), k = heads_apart(op, k, kv_heads), v = heads_apart(op, v, kv_heads);
  SInt queries = q.size(2), past = op.has(3) ? op.in(3).size(2) : SInt(0);
  int64_t length = queries.value("GroupQueryAttention"), room = past.value("GroupQueryAttention");
  int64_t keys = std::max(room, op.has(6) ? op.int_at(6) : room + length);
  // Where each entry's new keys begin: behind its own past, whose buffer may be longer.
  Tensor valid = per_batch(op.in(5)) + 1;
  Tensor begin = room == 0 ? Tensor::constant(DType::I64, 0, valid.shape()) : valid - length;
  if (op.node.integer("do_rotary", 0)) {
    Tensor at = op.has(9) ? op.in(9).cast(DType::I64)
                          : begin.reshape({q.size(0), 1}) + Tensor::arange(queries).unsqueeze(0);
    Rotary how{op.in(7), op.in(8), at, op.node.integer("rotary_interleaved", 0) != 0, 0};
    q = rotated(q, how), k = rotated(k, how);
  }
  auto appended = [&](const Tensor& before, const Tensor& now) {
    if (room == 0) return lengthened(now.transpose(2, 3), keys, 0).transpose(2, 3);
    Tensor j = Tensor::arange(keys).reshape({1, 1, keys, 1}), from = j - begin;
    Shape shape{now.size(0), now.size(1), keys, now.size(3)};
    Tensor fresh =
        now.gather_elements((from >= 0).where(from, Tensor::constant(DType::I64, length)).expand(shape), 2);
    Tensor old = lengthened(before.transpose(2, 3), keys, 0).transpose(2, 3);
    return (j < begin).where(old, fresh);
  };
  k = appended(op.in_or(3, Tensor()), k), v = appended(op.in_or(4, Tensor()), v);
  Attending how;
  how.scale = op.node.number("scale", 0), how.softcap = op.node.number("softcap", 0);
  how.bias = op.in_or(10, Tensor());
  Tensor i = query_positions(queries) + begin, j = key_positions(keys);
  how.allowed = (j <= i) & (j < valid);
  if (int64_t window = op.node.integer("local_window_size", -1); window > 0)
    how.allowed = how.allowed & (i - j < window);
  if (op.node.integer("smooth_softmax", 0) || op.has(11)) op.fail("a softmax with a sink is not supported");
  how.rows_may_be_empty = true;
  return {heads_joined(attend(op, q, k, v, how).result), k, v};
}

constexpr OpRow kRows[] = {
    {"", "Attention", 23, attention},
    {"ai.onnx.preview", "FlexAttention", 1, flex_attention},
    {"com.microsoft", "Attention", 1, ms_attention},
    {"com.microsoft", "QAttention", 1, q_attention},
    {"com.microsoft", "MultiHeadAttention", 1, ms_multi_head_attention},
    {"com.microsoft", "GroupQueryAttention", 1, ms_group_query_attention},
};

} // namespace

std::span<const OpRow> attention_ops() { return kRows; }

} // namespace tolk::onnx
