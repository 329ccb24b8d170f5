// Random numbers by counting: element i of draw d is a hash of (seed, d, i), so results do not depend on the
// device or on how work is split. Without a seed, draws are numbered as they are imported. A compiled model
// gives the same numbers on every run.
#include <atomic>
#include <bit>
#include <cmath>

#include "tolk/base/error.h"
#include "tolk/onnx/importer.h"

namespace tolk::onnx {
namespace {

using Values = std::vector<GraphValue>;

Tensor word(uint32_t v) { return Tensor::constant(DType::U32, int64_t(v)); }

// Threefry-2x32 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011), 20 rounds,
// on the counters (i, stream).
Tensor random_words(const Shape& shape, uint64_t seed, uint32_t stream) {
  constexpr uint32_t kRotations[] = {13, 15, 26, 6, 17, 29, 16, 24};
  uint32_t key[3] = {uint32_t(seed), uint32_t(seed >> 32), 0x1BD11BDA};
  key[2] ^= key[0] ^ key[1];
  Tensor a = Tensor::arange(numel(shape)).cast(DType::U32) + word(key[0]), b = word(stream + key[1]);
  for (uint32_t round = 0; round < 20; ++round) {
    uint32_t r = kRotations[round % 8];
    a = a + b;
    b = (b.shl(word(r)) | b.shr(word(32 - r))) ^ a;
    if (round % 4 != 3) continue;
    uint32_t block = round / 4 + 1;
    a = a + word(key[block % 3]);
    b = b + word(key[(block + 1) % 3] + block);
  }
  return a.reshape(shape);
}

uint64_t seed_of(OpCall& op) {
  if (const Attribute* a = op.node.find("seed")) // an integer for Dropout, a float for the others
    return std::holds_alternative<int64_t>(a->data) ? uint64_t(op.node.integer("seed", 0))
                                                    : std::bit_cast<uint32_t>(op.node.number("seed", 0));
  static std::atomic<uint64_t> draws{0};
  return (uint64_t(1) << 32) + draws++;
}

// In [0, 1), 24 random bits.
Tensor uniform(const Shape& shape, uint64_t seed, uint32_t stream = 0) {
  return random_words(shape, seed, stream).shr(word(8)).cast(DType::F32) * std::ldexp(1.0, -24);
}

// Box and Muller.
Tensor normal(const Shape& shape, uint64_t seed) {
  Tensor radius = ((Tensor::constant(DType::F32, 1.0) - uniform(shape, seed, 0)).log() * -2.0).sqrt();
  return radius * (uniform(shape, seed, 1) * (2 * 3.14159265358979323846)).cos();
}

Shape wanted_shape(OpCall& op, bool like_input) {
  if (like_input) return op.in(0).shape();
  return op.shape(op.node.require_integers("shape"), "shape");
}
DType wanted_type(OpCall& op, DType missing) {
  return op.node.find("dtype") ? dtype_from_code(op, op.node.integer("dtype", 1)) : missing;
}

template <bool Like> Values random_uniform(OpCall& op) {
  double low = op.node.number("low", 0), high = op.node.number("high", 1);
  Tensor u = uniform(wanted_shape(op, Like), seed_of(op)) * (high - low) + low;
  return {u.cast(wanted_type(op, Like ? op.in(0).dtype() : DType::F32))};
}
template <bool Like> Values random_normal(OpCall& op) {
  double mean = op.node.number("mean", 0), scale = op.node.number("scale", 1);
  Tensor n = normal(wanted_shape(op, Like), seed_of(op)) * scale + mean;
  return {n.cast(wanted_type(op, Like ? op.in(0).dtype() : DType::F32))};
}

Values bernoulli(OpCall& op) {
  const Tensor& p = op.in(0);
  Tensor hit = uniform(p.shape(), seed_of(op)) < p.cast(is_float(p.dtype()) ? p.dtype() : DType::F32);
  return {hit.cast(wanted_type(op, p.dtype()))};
}

// Classes (N, samples) drawn with unnormalised log probabilities (N, classes): the first class whose summed
// probability passes the number.
Values multinomial(OpCall& op) {
  const Tensor& x = op.in(0);
  int64_t samples = op.node.integer("sample_size", 1);
  if (x.rank() != 2 || x.size(1) == 0)
    op.fail("the input must be (rows, classes), its shape is " + to_string(x.shape()));
  Tensor sums = x.cast(DType::F32).softmax(-1).cumsum(-1); // (N, C)
  Tensor u = uniform({x.size(0), samples}, seed_of(op)) * sums.narrow(1, x.size(1) - SInt(1), 1);
  Tensor below = (sums.unsqueeze(1) <= u.unsqueeze(2)).cast(DType::I64).sum({2});
  return {below.minimum(Tensor::constant(DType::I64, x.size(1).value("Multinomial") - 1))
              .cast(wanted_type(op, DType::I32))};
}

Values dropout(OpCall& op) {
  const Tensor& x = op.in(0);
  bool training = op.opset >= 12 && op.has(2) && op.importer.truth(op.value(2));
  double ratio = op.opset >= 12 ? (op.has(1) ? op.float_at(1) : 0.5) : double(op.node.number("ratio", 0.5f));
  if (!(ratio >= 0 && ratio <= 1)) op.fail("ratio must be 0 to 1, it is " + std::to_string(ratio));
  DType mask_type = op.opset >= 10 ? DType::BOOL : x.dtype();
  if (!training || ratio == 0) return {x, Tensor::constant(mask_type, 1, x.shape())};
  Tensor kept = uniform(x.shape(), seed_of(op)) >= ratio;
  return {kept.where(x / (1 - ratio), like(x, 0)), kept.cast(mask_type)};
}

constexpr OpRow kRows[] = {
    {"", "RandomUniform", 1, random_uniform<false>},
    {"", "RandomUniformLike", 1, random_uniform<true>},
    {"", "RandomNormal", 1, random_normal<false>},
    {"", "RandomNormalLike", 1, random_normal<true>},
    {"", "Bernoulli", 15, bernoulli},
    {"", "Multinomial", 7, multinomial},
    {"", "Dropout", 1, dropout},
};

} // namespace

std::span<const OpRow> random_ops() { return kRows; }

} // namespace tolk::onnx
