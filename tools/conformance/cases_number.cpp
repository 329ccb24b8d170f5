// Conformance cases on values: every operation on every dtype that a device lists, against the reference interpreter.
#include "session.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <random>

#include "case.h"
#include "kernels.h"

namespace conformance {
namespace {

using tolk::DType;

constexpr size_t kElements = 256;

struct Operation {
  uint16_t code;
  const char* name;
  uint32_t operands;
  const char* kinds; // of dtypes, as in dtypes.def
  bool compares;
  int ulps; // 0: exact
};
constexpr Operation kOperations[] = {
    {TOLK_IR_ADD, "ADD", 2, "iuf", false, 0},     {TOLK_IR_SUB, "SUB", 2, "iuf", false, 0},
    {TOLK_IR_MUL, "MUL", 2, "iuf", false, 0},     {TOLK_IR_NEG, "NEG", 1, "if", false, 0},
    {TOLK_IR_FDIV, "FDIV", 2, "f", false, 0},     {TOLK_IR_CDIV, "CDIV", 2, "iu", false, 0},
    {TOLK_IR_CMOD, "CMOD", 2, "iu", false, 0},    {TOLK_IR_MAX, "MAX", 2, "biuf", false, 0},
    {TOLK_IR_MULACC, "MULACC", 3, "f", false, 0}, {TOLK_IR_SHL, "SHL", 2, "iu", false, 0},
    {TOLK_IR_SHR, "SHR", 2, "iu", false, 0},      {TOLK_IR_AND, "AND", 2, "biu", false, 0},
    {TOLK_IR_OR, "OR", 2, "biu", false, 0},       {TOLK_IR_XOR, "XOR", 2, "biu", false, 0},
    {TOLK_IR_CMPLT, "CMPLT", 2, "biuf", true, 0}, {TOLK_IR_CMPEQ, "CMPEQ", 2, "biuf", true, 0},
    {TOLK_IR_CMPNE, "CMPNE", 2, "biuf", true, 0}, {TOLK_IR_SQRT, "SQRT", 1, "f", false, 0},
    {TOLK_IR_TRUNC, "TRUNC", 1, "f", false, 0},   {TOLK_IR_EXP2, "EXP2", 1, "f", false, 1},
    {TOLK_IR_LOG2, "LOG2", 1, "f", false, 1},     {TOLK_IR_SIN, "SIN", 1, "f", false, 1},
    {TOLK_IR_EXP, "EXP", 1, "f", false, 1},       {TOLK_IR_LOG, "LOG", 1, "f", false, 1},
    {TOLK_IR_COS, "COS", 1, "f", false, 1},
};
constexpr uint64_t kOptional = TOLK_FEATURE_ALL;

// Layout of the floats that a device may compute with.
struct FloatForm {
  int exponent, mantissa;
};
FloatForm form_of(DType dtype) {
  switch (dtype) {
  case DType::F16:
    return {5, 10};
  case DType::BF16:
    return {8, 7};
  case DType::F32:
    return {8, 23};
  case DType::F64:
    return {11, 52};
  default:
    return {0, 0};
  }
}

uint64_t element(const Bytes& bytes, size_t i, size_t size) {
  uint64_t bits = 0;
  std::memcpy(&bits, bytes.data() + i * size, size);
  return bits;
}

bool is_nan(uint64_t bits, FloatForm f) {
  return ((bits >> f.mantissa) & ((1u << f.exponent) - 1)) == (1u << f.exponent) - 1 &&
         (bits & ((uint64_t{1} << f.mantissa) - 1));
}
bool is_tiny(uint64_t bits, FloatForm f) { // zero or subnormal
  return ((bits >> f.mantissa) & ((1u << f.exponent) - 1)) == 0;
}

std::vector<uint64_t> specials(DType dtype) {
  const int width = tolk::bits(dtype);
  if (tolk::is_bool(dtype)) return {0, 1};
  if (!tolk::is_float(dtype)) {
    const uint64_t top = uint64_t{1} << (width - 1);
    return {0,
            1,
            2,
            3,
            7,
            static_cast<uint64_t>(width - 1),
            static_cast<uint64_t>(width),
            top - 1,
            top,
            top + 1,
            UINT64_MAX,
            UINT64_MAX - 6};
  }
  const FloatForm f = form_of(dtype);
  const uint64_t one = ((uint64_t{1} << (f.exponent - 1)) - 1) << f.mantissa,
                 inf = ((uint64_t{1} << f.exponent) - 1) << f.mantissa;
  const uint64_t sign = uint64_t{1} << (width - 1), ulp = 1;
  return {0,          sign,
          one,        one | sign,
          one + ulp,  inf,
          inf | sign, inf | uint64_t{1} << (f.mantissa - 1),
          inf - 1,    uint64_t{1} << f.mantissa,
          1,          one + (uint64_t{3} << (f.mantissa - 1))};
}

// Every pair of special values, then random ones; floats of moderate size among them.
std::vector<Bytes> operands(DType dtype, uint32_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  const std::vector<uint64_t> special = specials(dtype);
  const size_t size = static_cast<size_t>(tolk::bits(dtype)) / 8;
  std::vector<Bytes> inputs(count, Bytes(kElements * size));
  for (size_t i = 0; i < kElements; i++)
    for (uint32_t k = 0; k < count; k++) {
      uint64_t bits = random();
      if (i < special.size() * special.size())
        bits = special[k == 0 ? i / special.size() : i % special.size()];
      else if (tolk::is_bool(dtype))
        bits &= 1;
      else if (tolk::is_float(dtype) && i % 4) { // exponents near that of one
        const FloatForm f = form_of(dtype);
        const uint64_t exponent = (uint64_t{1} << (f.exponent - 1)) - 4 + random() % 7,
                       keep = ((uint64_t{1} << f.exponent) - 1) << f.mantissa;
        bits = (bits & ~keep) | (exponent << f.mantissa);
      } else if (i % 3 == 0)
        bits &= 0x3f;
      std::memcpy(inputs[k].data() + i * size, &bits, size);
    }
  return inputs;
}

// Whether a float result is as good as the wanted one: equal, both NaN, both zero, within `ulps`.
bool float_agrees(uint64_t wanted, uint64_t found, FloatForm f, int ulps, bool keeps_tiny) {
  if (wanted == found || (is_nan(wanted, f) && is_nan(found, f))) return true;
  if (is_nan(wanted, f) != is_nan(found, f)) return false;
  const uint64_t sign = uint64_t{1} << (f.exponent + f.mantissa), magnitude = sign - 1;
  if ((wanted & magnitude) == 0 && (found & magnitude) == 0) return true;
  if (!keeps_tiny && is_tiny(wanted, f) && is_tiny(found, f)) return true;
  if ((wanted ^ found) & sign) return false;
  const uint64_t a = wanted & magnitude, b = found & magnitude;
  return (a > b ? a - b : b - a) <= static_cast<uint64_t>(ulps);
}

bool keeps_tiny(Session& s, DType dtype) {
  if (dtype == DType::F16) return s.caps().flags & TOLK_CAP_DENORMALS_F16;
  if (dtype == DType::F32) return s.caps().flags & TOLK_CAP_DENORMALS_F32;
  return dtype == DType::F64;
}

void compare(Session& s, const std::string& what, DType in, DType out, int ulps,
             const std::vector<Bytes>& inputs, const Bytes& wanted, const Bytes& found) {
  const size_t in_size = static_cast<size_t>(tolk::bits(in)) / 8,
               size = static_cast<size_t>(tolk::bits(out)) / 8;
  for (size_t i = 0; i < wanted.size() / size; i++) {
    const uint64_t a = element(wanted, i, size), b = element(found, i, size);
    bool tiny_input = false;
    std::string given;
    for (const Bytes& input : inputs) {
      const uint64_t bits = element(input, i, in_size);
      given += fmt::format("{}{:#x}", given.empty() ? "" : ", ", bits);
      if (tolk::is_float(in)) tiny_input = tiny_input || (is_tiny(bits, form_of(in)) && !keeps_tiny(s, in));
    }
    if (tiny_input) continue; // the device may flush what it reads
    const bool same =
        tolk::is_float(out) ? float_agrees(a, b, form_of(out), ulps, keeps_tiny(s, out)) : a == b;
    expect(same, fmt::format("{:#x} from {} {}({})", a, what, tolk::name(in), given),
           fmt::format("{:#x}", b));
  }
}

bool has(Session& s, DType dtype, bool arithmetic) {
  const uint64_t bit = uint64_t{1} << static_cast<int>(dtype);
  return (s.caps().dtype_storage & bit) && (!arithmetic || (s.caps().dtype_alu & bit));
}

template <DType dtype> void ops_each(Session& s) {
  if (!has(s, dtype, true)) throw Skipped{fmt::format("arithmetic of {}", tolk::name(dtype))};
  if (!has(s, DType::BOOL, false)) throw Skipped{"storage of bool"};
  const size_t size = static_cast<size_t>(tolk::bits(dtype)) / 8;
  for (const Operation& op : kOperations) {
    if (!std::strchr(op.kinds, tolk::dtype_info(dtype).kind)) continue;
    if ((kOptional >> op.code & 1) && !(s.target().features >> op.code & 1)) continue;
    const DType out = op.compares ? DType::BOOL : dtype;
    const tolk::KernelIR kernel = elementwise(op.code, dtype, out, op.operands);
    const std::vector<Bytes> inputs = operands(dtype, op.operands, s.seed() + op.code);
    const uint64_t bytes = kElements * (op.compares ? 1 : size);
    try {
      compare(s, op.name, dtype, out, op.ulps, inputs, s.oracle().run(kernel, bytes, inputs, kElements),
              s.run(kernel, bytes, inputs, kElements));
    } catch (const Failed& failure) {
      throw Failed{fmt::format("{} {}: {}", op.name, tolk::name(dtype), failure.text)};
    }
  }
}

void casts(Session& s) {
  constexpr DType types[] = {DType::BOOL, DType::I8,  DType::U8,  DType::I16, DType::U16, DType::I32,
                             DType::U32,  DType::I64, DType::U64, DType::F16, DType::F32, DType::F64};
  for (DType from : types)
    for (DType to : types) {
      if (from == to || !has(s, from, true) || !has(s, to, true)) continue;
      const tolk::KernelIR kernel = elementwise(TOLK_IR_CAST, from, to, 1);
      const std::vector<Bytes> inputs = operands(from, 1, s.seed() + 7);
      const uint64_t bytes = kElements * static_cast<uint64_t>(tolk::bits(to)) / 8;
      compare(s, fmt::format("CAST to {} of", tolk::name(to)), from, to, 0, inputs,
              s.oracle().run(kernel, bytes, inputs, kElements), s.run(kernel, bytes, inputs, kElements));
    }
}

void bitcasts(Session& s) {
  constexpr std::pair<DType, DType> pairs[] = {{DType::I32, DType::F32}, {DType::F32, DType::U32},
                                               {DType::I64, DType::F64}, {DType::F64, DType::U64},
                                               {DType::I16, DType::U16}, {DType::U8, DType::I8}};
  for (const auto& [from, to] : pairs) {
    if (!has(s, from, true) || !has(s, to, true)) continue;
    const std::vector<Bytes> inputs = {
        random_bytes(kElements * static_cast<uint64_t>(tolk::bits(from)) / 8, s.seed())};
    expect_bytes(inputs[0],
                 s.run(elementwise(TOLK_IR_BITCAST, from, to, 1), inputs[0].size(), inputs, kElements),
                 fmt::format("BITCAST of {} to {}", tolk::name(from), tolk::name(to)));
  }
}

void selects(Session& s) {
  for (DType dtype : {DType::I32, DType::F32, DType::I64, DType::U8}) {
    if (!has(s, dtype, true) || !has(s, DType::BOOL, false)) continue;
    const size_t size = static_cast<size_t>(tolk::bits(dtype)) / 8;
    std::vector<Bytes> inputs = {Bytes(kElements), random_bytes(kElements * size, 1),
                                 random_bytes(kElements * size, 2)};
    Bytes wanted(kElements * size);
    for (size_t i = 0; i < kElements; i++) {
      inputs[0][i] = static_cast<uint8_t>((i * 7 / 3) % 2);
      std::memcpy(wanted.data() + i * size, inputs[inputs[0][i] ? 1 : 2].data() + i * size, size);
    }
    expect_bytes(wanted, s.run(where(dtype), wanted.size(), inputs, kElements),
                 fmt::format("WHERE of {}", tolk::name(dtype)));
  }
}

void vector_widths(Session& s) {
  if (s.caps().vector_bytes < 4) throw Skipped{"vectors"};
  for (DType dtype : {DType::I32, DType::F32, DType::U8})
    for (int log = 1; log < 6; log++) {
      const auto lanes = static_cast<uint16_t>(1u << log);
      if (!(s.caps().vector_widths >> log & 1) || !has(s, dtype, true)) continue;
      const std::vector<Bytes> inputs = operands(dtype, 2, s.seed() + lanes);
      const Bytes wanted =
          s.oracle().run(elementwise(TOLK_IR_ADD, dtype, dtype, 2), inputs[0].size(), inputs, kElements);
      const Bytes found = s.run(elementwise(TOLK_IR_ADD, dtype, dtype, 2, lanes), inputs[0].size(), inputs,
                                kElements / lanes);
      compare(s, fmt::format("ADD of {} lanes of", lanes), dtype, dtype, 0, inputs, wanted, found);
    }
}

void gated_index(Session& s) {
  const Bytes in = random_bytes(16, 3);
  Bytes wanted(4096 * 4, 0xff);
  std::copy(in.begin(), in.end(), wanted.begin());
  expect_bytes(wanted, s.run(gated(), wanted.size(), {in}, 4096, {4}),
               "a load whose gate is false beyond four elements");
}

void reduce(Session& s) {
  for (uint32_t n : {1u, 2u, 7u, 64u, 1000u}) {
    std::vector<float> numbers(n);
    std::mt19937_64 random(n);
    float wanted = 0;
    for (float& x : numbers)
      x = static_cast<float>(static_cast<int64_t>(random() % 2000000) - 1000000) / 777.0F, wanted += x;
    Bytes in(n * 4), out(4);
    std::memcpy(in.data(), numbers.data(), in.size());
    std::memcpy(out.data(), &wanted, 4);
    expect_bytes(out, s.run(sum(n), 4, {in}, 1), fmt::format("the sum of {} floats in order", n));
  }
}

void determinism(Session& s) {
  if (!(s.info().flags & TOLK_DEVICE_DETERMINISTIC)) throw Skipped{"the flag DETERMINISTIC"};
  const Bytes in = operands(DType::F32, 1, 3)[0];
  const tolk::KernelIR kernel = sum(kElements);
  const Bytes first = s.run(kernel, 4, {in}, 1);
  for (int i = 0; i < 5; i++) expect_bytes(first, s.run(kernel, 4, {in}, 1), "the same bytes in every run");
}

constexpr uint32_t kNeeds = kDevice | kValues;
constexpr Case kCases[] = {
#define OPS(NAME, text) {"num.ops_each[dtype=" text "]", Tier::Required, kNeeds, ops_each<DType::NAME>}
    OPS(BOOL, "bool"),
    OPS(I8, "i8"),
    OPS(U8, "u8"),
    OPS(I16, "i16"),
    OPS(U16, "u16"),
    OPS(I32, "i32"),
    OPS(U32, "u32"),
    OPS(I64, "i64"),
    OPS(U64, "u64"),
    OPS(F16, "f16"),
    OPS(BF16, "bf16"),
    OPS(F32, "f32"),
    OPS(F64, "f64"),
#undef OPS
    {"num.casts", Tier::Required, kNeeds, casts},
    {"num.bitcast", Tier::Required, kNeeds, bitcasts},
    {"num.select", Tier::Required, kNeeds, selects},
    {"num.vector_widths", Tier::Required, kNeeds, vector_widths},
    {"num.gated_index", Tier::Required, kNeeds, gated_index},
    {"num.reduce_shapes", Tier::Required, kNeeds, reduce},
    {"num.determinism", Tier::Optional, kNeeds, determinism},
};

} // namespace

std::span<const Case> number_cases() { return kCases; }

} // namespace conformance
