#include "tolk/engine/validate.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "tolk/base/config.h"
#include "tolk/base/error.h"
#include "tolk/base/log.h"
#include "tolk/device/registry.h"
#include "tolk/dtype/scalar.h"

namespace tolk::engine {
namespace {

constexpr double kMostOperations = 1e8;

using Bytes = std::vector<std::byte>;

Bytes contents(Buffer& buffer) {
  Bytes bytes(buffer.bytes());
  buffer.allocate();
  if (!bytes.empty()) buffer.copy_out(bytes);
  return bytes;
}

std::array<uint32_t, 3> three(const int64_t (&v)[3]) {
  return {uint32_t(v[0]), uint32_t(v[1]), uint32_t(v[2])};
}

double element(DType dtype, const Bytes& bytes, size_t i) {
  uint64_t word = 0;
  size_t width = size_t(bits(dtype)) / 8;
  std::memcpy(&word, bytes.data() + i * width, width);
  if (is_float(dtype)) return float_from_bits(dtype, word);
  return is_signed(dtype) ? double(int64_t(word << (64 - 8 * width)) >> (64 - 8 * width)) : double(word);
}

// How far two results of one kernel may lie apart: the order of a sum is free, so an error scales with the
// summands, for which the largest value of the buffer stands.
double allowed(DType dtype, double scale) {
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

void compare(const Plan::Step& step, size_t argument, DType dtype, const Bytes& got, const Bytes& want) {
  if (got == want) return;
  size_t count = got.size() * 8 / size_t(bits(dtype));
  double scale = 0;
  for (size_t i = 0; i < count; ++i)
    if (double w = std::abs(element(dtype, want, i)); std::isfinite(w)) scale = std::max(scale, w);
  for (size_t i = 0; i < count; ++i) {
    double g = element(dtype, got, i), w = element(dtype, want, i);
    bool same = g == w || (std::isnan(g) && std::isnan(w));
    if (same || (is_float(dtype) && std::abs(g - w) <= allowed(dtype, scale))) continue;
    char text[200];
    std::snprintf(text, sizeof text, ", argument %zu, element %zu: %.9g, the interpreter has %.9g", argument,
                  i, g, w);
    throw DeviceError("kernel " + step.call.kernel->info.name + " on " + step.call.program->device().name() +
                      " differs from the interpreter" + text);
  }
}

} // namespace

void run_validated(Plan::Step& step) {
  const codegen::Kernel& kernel = *step.call.kernel;
  bool check = kernel.info.flops <= kMostOperations && step.call.program->device().name() != "INTERP";
  std::vector<Bytes> before;
  if (check)
    for (Buffer* buffer : step.ordered) before.push_back(contents(*buffer));
  step.call.program->launch(step.ordered, step.values, three(kernel.info.grid), three(kernel.info.local));
  if (!check) return;

  Config plain = Config::current();
  plain.no_opt = 1, plain.validate_with_cpu = 0, plain.target = "";
  ScopedConfig scope(plain);
  CompileRequest request{step.ast, "INTERP", false};
  CompiledCall reference = compile_all(std::span(&request, 1))[0];
  Device& interpreter = device("INTERP");
  // The two forms may list the arguments in another order.
  const std::vector<int>&mine = kernel.info.globals, &theirs = reference.kernel->info.globals;
  std::vector<BufferRef> buffers;
  std::vector<Buffer*> ordered;
  for (int argument : theirs) {
    size_t at = size_t(std::find(mine.begin(), mine.end(), argument) - mine.begin());
    if (at == mine.size())
      throw InternalError("the optimised kernel " + kernel.info.name + " lost argument " +
                          std::to_string(argument));
    buffers.push_back(make_buffer(interpreter, step.ordered[at]->dtype(), step.ordered[at]->count()));
    buffers.back()->allocate();
    if (!before[at].empty()) buffers.back()->copy_in(before[at]);
    ordered.push_back(buffers.back().get());
  }
  reference.program->launch(ordered, step.values, three(reference.kernel->info.grid),
                            three(reference.kernel->info.local));
  for (size_t i = 0; i < theirs.size(); ++i) {
    bool written = std::find(reference.kernel->info.outs.begin(), reference.kernel->info.outs.end(),
                             theirs[i]) != reference.kernel->info.outs.end();
    size_t at = size_t(std::find(mine.begin(), mine.end(), theirs[i]) - mine.begin());
    if (written)
      compare(step, size_t(theirs[i]), step.ordered[at]->dtype(), contents(*step.ordered[at]),
              contents(*buffers[i]));
  }
}

} // namespace tolk::engine
