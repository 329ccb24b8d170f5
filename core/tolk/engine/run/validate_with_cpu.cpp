#include "tolk/engine/run/validate_with_cpu.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "tolk/base/config.h"
#include "tolk/base/error.h"
#include "tolk/base/log.h"
#include "tolk/device/registry.h"
#include "tolk/dtype/scalar.h"
#include "tolk/uop/traverse.h"

namespace tolk::engine {
namespace {

constexpr double kMaxOperations = 1e8;

using Bytes = std::vector<std::byte>;

Bytes contents(Buffer& buffer) {
  Bytes bytes(buffer.bytes());
  buffer.allocate();
  if (!bytes.empty()) buffer.copy_out(bytes);
  return bytes;
}

double element(DType dtype, const Bytes& bytes, size_t i) {
  uint64_t word = 0;
  size_t width = size_t(bits(dtype)) / 8;
  std::memcpy(&word, bytes.data() + i * width, width);
  if (is_float(dtype)) return float_from_bits(dtype, word);
  return is_signed(dtype) ? double(int64_t(word << (64 - 8 * width)) >> (64 - 8 * width)) : double(word);
}

// The tolerance between two results of one kernel. The order of a sum is free, so the error scales with the
// summands, and the largest value of the buffer estimates these.
double tolerance(DType dtype, double scale) {
  switch (dtype) {
  case DType::F64:
    return 1e-10 * scale;
  case DType::F16:
    return 2e-3 * scale;
  case DType::BF16:
    return 1.6e-2 * scale;
  default:
    return bits(dtype) == 8 ? 0.26 * scale : 1e-4 * scale;
  }
}

// The least precise float type that the kernel computes in, which bounds the precision of its results: an f32
// sum may be stored as f64.
DType least_precise(const UOp& sink, DType result) {
  const OpSet moves(Op::CAST, Op::BITCAST, Op::WHERE);
  for (const UOp& u : toposort(sink))
    if (is_float(u.dtype()) && u.is(ops::Elementwise | OpSet(Op::REDUCE)) && !u.is(moves) &&
        tolerance(u.dtype(), 1) > tolerance(result, 1))
      result = u.dtype();
  return result;
}

void compare(const std::string& kernel, const std::string& device, size_t argument, DType dtype,
             DType computed_in, const Bytes& got, const Bytes& want) {
  if (got == want) return;
  size_t count = got.size() * 8 / size_t(bits(dtype));
  double scale = 0;
  for (size_t i = 0; i < count; ++i)
    if (double w = std::abs(element(dtype, want, i)); std::isfinite(w)) scale = std::max(scale, w);
  for (size_t i = 0; i < count; ++i) {
    double g = element(dtype, got, i), w = element(dtype, want, i);
    bool same = g == w || (std::isnan(g) && std::isnan(w));
    if (same || (is_float(dtype) && std::abs(g - w) <= tolerance(computed_in, scale))) continue;
    char text[200];
    std::snprintf(text, sizeof text, ", argument %zu, element %zu: %.9g, the interpreter has %.9g", argument,
                  i, g, w);
    throw DeviceError("kernel " + kernel + " on " + device + " differs from the interpreter" + text);
  }
}

} // namespace

void run_validated(const Step& step, const Position& position) {
  const ProgramInfo& info = step.entry->info;
  const std::string& where = position.device->name();
  bool check = info.flops <= kMaxOperations && where.rfind("INTERP", 0) != 0;
  std::vector<Bytes> before;
  if (check)
    for (Buffer* buffer : position.ordered) before.push_back(contents(*buffer));
  position.program->launch(position.ordered, position.values, position.grid, position.local);
  if (!check) return;

  Config plain = Config::current();
  plain.no_opt = 1, plain.validate_with_cpu = 0, plain.target = "";
  ScopedConfig scope(plain);
  Device& interpreter = device("INTERP");
  UOp program = compile_kernel(interpreter, {}, step.entry->sink, false);
  const ProgramEntry& reference = program_entry(program);
  // The two programs may order arguments and variables differently.
  const std::vector<int>&mine = info.globals, &theirs = reference.info.globals;
  std::vector<BufferRef> buffers;
  std::vector<Buffer*> ordered;
  for (int argument : theirs) {
    size_t at = size_t(std::find(mine.begin(), mine.end(), argument) - mine.begin());
    if (at == mine.size())
      throw InternalError("the optimised kernel " + info.name + " lost argument " + std::to_string(argument));
    Buffer& original = *position.ordered[at];
    buffers.push_back(make_buffer(interpreter, original.dtype(), original.count()));
    buffers.back()->allocate();
    if (!before[at].empty()) buffers.back()->copy_in(before[at]);
    ordered.push_back(buffers.back().get());
  }
  VarVals values;
  size_t next = 0;
  for (const VarInfo& v : info.vars)
    if (!is_runtime_variable(v.name)) values[v.name] = position.values[next++];
  LaunchDims dims = launch_dims(reference, values);
  std::array<int64_t, 3> local = dims.local.value_or(std::array<int64_t, 3>{1, 1, 1});
  auto narrow = [](const std::array<int64_t, 3>& v) {
    return std::array<uint32_t, 3>{uint32_t(v[0]), uint32_t(v[1]), uint32_t(v[2])};
  };
  get_runtime(interpreter, program)
      ->launch(ordered, vals(reference.info, values), narrow(dims.global), narrow(local));
  for (size_t i = 0; i < theirs.size(); ++i) {
    const std::vector<int>& outs = reference.info.outs;
    if (std::find(outs.begin(), outs.end(), theirs[i]) == outs.end()) continue;
    size_t at = size_t(std::find(mine.begin(), mine.end(), theirs[i]) - mine.begin());
    DType dtype = position.ordered[at]->dtype();
    compare(info.name, where, size_t(theirs[i]), dtype,
            is_float(dtype) ? least_precise(step.entry->sink, dtype) : dtype, contents(*position.ordered[at]),
            contents(*buffers[i]));
  }
}

} // namespace tolk::engine
