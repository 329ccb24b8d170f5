#include "tolk/tensor/random.h"

#include <cmath>
#include <cstdio>
#include <map>
#include <mutex>
#include <random>

#include "tolk/device/registry.h"
#include "tolk/dtype/narrow_float.h"
#include "tolk/dtype/scalar.h"
#include "tolk/engine/capture/capture_scope.h"
#include "tolk/engine/run/node_storage.h"
#include "tolk/engine/run/realize.h"
#include "tolk/tensor/tensor_internal.h"

namespace tolk {
namespace {

// The cipher on the host, for keys.
uint64_t threefry(uint64_t counter, uint64_t key) {
  constexpr int kRotations[] = {13, 15, 26, 6, 17, 29, 16, 24};
  uint32_t k[3] = {uint32_t(key), uint32_t(key >> 32), 0};
  k[2] = k[0] ^ k[1] ^ 0x1BD11BDA;
  uint32_t a = uint32_t(counter) + k[0], b = uint32_t(counter >> 32) + k[1];
  for (uint32_t round = 0; round < 20; ++round) {
    a += b;
    int r = kRotations[round % 8];
    b = (b << r | b >> (32 - r)) ^ a;
    if (round % 4 != 3) continue;
    uint32_t block = round / 4 + 1;
    a += k[block % 3];
    b += k[(block + 1) % 3] + block;
  }
  return uint64_t(b) << 32 | a;
}

// State of each device's sequence: a BUFFER (key, draw count) of u64. The nodes are never freed, so that
// captured functions and later seeds refer to the same storage.
struct Sequences {
  std::mutex mutex;
  uint64_t seed = [] {
    std::random_device bits;
    return uint64_t(bits()) << 32 | bits();
  }();
  std::map<std::string, UOp> by_device;

  void start(const std::string& name, const UOp& state) {
    uint64_t words[2] = {threefry(device(name).index(), seed), 0};
    BufferRef buffer = engine::buffer_of(state);
    buffer->allocate();
    buffer->copy_in(std::as_bytes(std::span(words)));
  }
};
Sequences& sequences() {
  static auto* all = new Sequences; // outlives every thread that may draw
  return *all;
}

struct Draw {
  Tensor key, number; // u64, shape ()
};

// The next draw of a device. Written directly and not by a graph: the state exists before a capture sees it.
Draw next_draw(const std::string& where) {
  Sequences& all = sequences();
  std::lock_guard lock(all.mutex);
  // Registered after it exists: a device that cannot be opened must not block manual_seed.
  auto known = all.by_device.find(where);
  if (known == all.by_device.end()) {
    UOp fresh = buffer_node(fresh_user_slot(), DType::U64, 2, where);
    all.start(where, fresh);
    known = all.by_device.emplace(where, fresh).first;
  }
  const UOp& state = known->second;
  // A copy of its own, since the numbers may be computed after later draws. Its slot is new, which makes
  // both stores nodes that no earlier draw had.
  UOp copy = buffer_node(fresh_user_slot(), DType::U64, 2, where);
  UOp taken = store_to(copy, state);
  Tensor now(after(copy, std::span(&taken, 1)));
  UOp counted = store_to(state, (now + Tensor::arange(2, DType::U64)).node());
  // Below the tensor layer's bookkeeping of writes: only this file uses the state, and replays in other
  // threads draw from it too.
  std::vector<UOp> taken_now =
      engine::realize(std::vector<UOp>{now.node(), after(state, std::span(&counted, 1))});
  Tensor words(taken_now[0]);
  return {words.narrow(0, 0, 1).reshape({}), words.narrow(0, 1, 1).reshape({})};
}

Tensor word(uint64_t value) { return Tensor::constant(DType::U64, value); }

// `rows` blocks of cipher output for each element: (rows, elements).
Tensor blocks(const Shape& shape, int64_t rows, const std::string& device) {
  SInt count = numel(shape);
  if (max_numel(shape) > (int64_t(1) << 32) / rows)
    throw InvalidArgument("a draw has at most 2^32 random blocks; " + to_string(shape) + " with " +
                          std::to_string(rows) + " an element is more, draw it in parts");
  // Several devices: drawn on the first, so that all have the same numbers.
  std::vector<std::string> where =
      device.empty() ? std::vector<std::string>{default_device()} : parse_device_list(device);
  Draw draw = next_draw(where[0]);
  Tensor counter = Tensor::arange(count * SInt(rows), DType::U64) | draw.number.shl(word(32));
  Tensor numbers = Tensor(alu(Op::THREEFRY, counter.node(), draw.key.node())).reshape({SInt(rows), count});
  return where.size() > 1 ? numbers.to(join_devices(where)) : numbers;
}

// The top `bits` bits as a fraction of `dtype`, which holds them exactly; through i32 where that is enough,
// whose conversion is fast everywhere.
Tensor fraction(const Tensor& block, int bits, DType dtype) {
  Tensor top = block.shr(word(uint64_t(64 - bits)));
  return (bits < 32 ? top.cast(DType::I32) : top.cast(DType::I64)).cast(dtype) * std::ldexp(1.0, -bits);
}

// Significant bits of a float type, its hidden one included.
int precision(DType dtype, const char* what) {
  if (dtype == DType::F64) return 53;
  if (!is_float(dtype) || dtype == DType::F8E8M0 || dtype == DType::F4E2M1)
    throw InvalidArgument(std::string(what) + " needs f64, f32, f16, bf16 or f8 with a sign, got " +
                          name(dtype));
  return float_format(dtype).mantissa + 1;
}

} // namespace

void manual_seed(uint64_t seed) {
  if (engine::is_capturing())
    throw JitError(
        "the random numbers were seeded inside a captured function: the seed is set on the host, so "
        "replays would go on in the sequence and not start it again. Call manual_seed before the "
        "function is called; replays draw from where it puts the sequence");
  Sequences& all = sequences();
  std::lock_guard lock(all.mutex);
  all.seed = seed;
  for (const auto& [name, state] : all.by_device) all.start(name, state);
}

Tensor random_bits(const Shape& shape, const std::string& device) {
  return blocks(shape, 1, device).reshape(shape);
}

Tensor rand(const Shape& shape, DType dtype, const std::string& device) {
  int bits = precision(dtype, "rand");
  return fraction(random_bits(shape, device), bits, dtype);
}

Tensor uniform(const Shape& shape, double low, double high, DType dtype, const std::string& device) {
  precision(dtype, "uniform");
  if (!(low < high) || !std::isfinite(round_to(dtype, high - low))) {
    char range[64];
    std::snprintf(range, sizeof range, "%g and %g", low, high);
    throw InvalidArgument(std::string("uniform needs low < high with a difference that ") + name(dtype) +
                          " can hold, got " + range);
  }
  Tensor bottom = Tensor::constant(dtype, low);
  Tensor value = rand(shape, dtype, device) * (high - low) + bottom;
  return (value < Tensor::constant(dtype, high)).where(value, bottom);
}

Tensor randn(const Shape& shape, DType dtype, const std::string& device) {
  precision(dtype, "randn");
  // Two uniform numbers: for f32 the halves of one block. The first is in the middle of its step, so never 0.
  bool wide = dtype == DType::F64;
  DType in = wide ? DType::F64 : DType::F32;
  Tensor all = blocks(shape, wide ? 2 : 1, device), one = all.narrow(0, 0, 1).reshape(shape);
  Tensor other = wide ? all.narrow(0, 1, 1).reshape(shape) : one.shl(word(32));
  int bits = wide ? 53 : 24;
  Tensor u = fraction(one, bits, in) + std::ldexp(1.0, -bits - 1), turn = fraction(other, bits, in);
  return ((u.log() * -2.0).sqrt() * (turn * (2 * 3.14159265358979323846)).cos()).cast(dtype);
}

Tensor randint(const Shape& shape, int64_t low, int64_t high, DType dtype, const std::string& device) {
  if (!is_int(dtype) || dtype == DType::Index)
    throw InvalidArgument(std::string("randint needs an integer dtype, got ") + name(dtype));
  if (low >= high)
    throw InvalidArgument("randint needs low < high, got " + std::to_string(low) + " and " +
                          std::to_string(high));
  for (int64_t end : {low, high - 1})
    if (int width = bits(dtype); width < 64 || (is_unsigned(dtype) && end < 0))
      if (end < (is_unsigned(dtype) ? 0 : -(int64_t(1) << (width - 1))) ||
          (width < 64 && end >= int64_t(1) << (is_unsigned(dtype) ? width : width - 1)))
        throw InvalidArgument("randint from " + std::to_string(low) + " to " + std::to_string(high - 1) +
                              " does not fit into " + name(dtype));
  // The upper half of block * values, from products of 32 bits.
  uint64_t values = uint64_t(high) - uint64_t(low);
  Tensor block = random_bits(shape, device), mask = word(0xffffffff), half = word(32);
  Tensor top = block.shr(half), bottom = block & mask, by = word(values & 0xffffffff);
  Tensor middle = top * by + (bottom * by).shr(half), picked = middle.shr(half);
  if (values >> 32) {
    Tensor by_top = word(values >> 32);
    Tensor carry = ((middle & mask) + bottom * by_top).shr(half);
    picked = picked + top * by_top + carry;
  }
  return (picked + word(uint64_t(low))).cast(dtype);
}

Tensor dropout(const Tensor& x, double probability) {
  if (!is_float(x.dtype()))
    throw InvalidArgument(std::string("dropout needs floats, got ") + name(x.dtype()));
  if (!(probability >= 0 && probability <= 1))
    throw InvalidArgument("dropout needs a probability from 0 to 1, got " + std::to_string(probability));
  Tensor zero = Tensor::constant(x.dtype(), 0);
  if (probability == 0) return x;
  if (probability == 1) return zero.expand(x.shape());
  Tensor kept = rand(x.shape(), DType::F32, x.device()) >= probability;
  return kept.where(x * (1 / (1 - probability)), zero);
}

} // namespace tolk
