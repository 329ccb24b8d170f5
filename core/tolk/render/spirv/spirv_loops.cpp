// Loops. A driver may bound how often a work-item goes round loops; then the loops that go round most often are
// unrolled until the whole kernel stays below.
#include <algorithm>

#include <fmt/format.h>

#include "tolk/base/check.h"
#include "tolk/base/error.h"
#include "tolk/render/spirv/spirv_kernel.h"

namespace tolk::spirv {
namespace {

constexpr uint64_t kMaxOperations = 40000; // of an unrolled kernel
constexpr uint64_t kUnknown = 1;           // iterations of a loop whose extent has no bound here

uint64_t saturating_mul(uint64_t a, uint64_t b) {
  uint64_t product;
  return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

// An upper bound of an extent; with `smallest`, for the smallest values of the kernel's parameters.
uint64_t bound(const KernelIR& kernel, uint32_t k, bool smallest) {
  const tolk_ir_op& op = kernel.ops[k];
  std::span<const uint32_t> src = kernel.sources_of(op);
  switch (op.opcode) {
  case TOLK_IR_CONST:
    return op.dtype == TOLK_DTYPE_I32 && static_cast<int32_t>(kernel.attr(op)) < 0 ? 0 : kernel.attr(op);
  case TOLK_IR_SPECIAL:
    return kernel.attr(op, 1) ? kernel.attr(op, 1) - 1 : kUnknown;
  case TOLK_IR_PARAM: {
    const tolk_param& p = kernel.params[kernel.attr(op)];
    int64_t value = smallest ? p.min : p.max;
    return value > 0 ? static_cast<uint64_t>(value) : kUnknown;
  }
  case TOLK_IR_MUL:
    return saturating_mul(bound(kernel, src[0], smallest), bound(kernel, src[1], smallest));
  case TOLK_IR_ADD:
    return std::min(bound(kernel, src[0], smallest), UINT64_MAX / 2) +
           std::min(bound(kernel, src[1], smallest), UINT64_MAX / 2);
  case TOLK_IR_CDIV:
    return bound(kernel, src[0], smallest) / std::max<uint64_t>(1, bound(kernel, src[1], smallest));
  case TOLK_IR_MAX:
    return std::max(bound(kernel, src[0], smallest), bound(kernel, src[1], smallest));
  case TOLK_IR_WHERE:
    return std::max(bound(kernel, src[1], smallest), bound(kernel, src[2], smallest));
  default:
    return kUnknown;
  }
}

} // namespace

void KernelWriter::find_ends() {
  for (uint32_t k = 0; k < kernel_.ops.size(); ++k)
    if (op(k).opcode == TOLK_IR_END) end_[sources(k)[0]] = k;
}

// Operations that are emitted.
uint64_t KernelWriter::unrolled_size() const {
  uint64_t size = 0, copies = 1;
  std::vector<uint64_t> outside;
  for (uint32_t k = 0; k < kernel_.ops.size(); ++k) {
    size += copies;
    if (op(k).opcode == TOLK_IR_RANGE) {
      outside.push_back(copies);
      copies = saturating_mul(copies, unroll_[k]);
    } else if (op(k).opcode == TOLK_IR_END) {
      copies = outside.back();
      outside.pop_back();
    }
    if (size > kMaxOperations) break;
  }
  return size;
}

// False when the kernel would become too long; then `iterations` has what is left.
bool KernelWriter::unroll_below(uint64_t most_iterations, bool smallest, uint64_t& iterations) {
  std::fill(unroll_.begin(), unroll_.end(), 1);
  struct Loop {
    uint32_t op;
    uint64_t extent, entered; // `entered`: how often a work-item comes to the loop
    uint64_t turns(uint32_t unroll) const {
      // The driver counts the last test as well.
      return unroll >= extent ? 0 : saturating_mul(entered, (extent + unroll - 1) / unroll + 1);
    }
  };
  std::vector<Loop> loops, open;
  for (uint32_t k = 0; k < kernel_.ops.size(); ++k) {
    if (op(k).opcode == TOLK_IR_END) open.pop_back();
    if (op(k).opcode != TOLK_IR_RANGE) continue;
    Loop loop{k, std::max<uint64_t>(1, bound(kernel_, sources(k)[0], smallest)), 1};
    if (!open.empty()) loop.entered = saturating_mul(open.back().entered, open.back().extent);
    loops.push_back(loop);
    open.push_back(loop);
  }
  while (true) {
    uint64_t all = 0;
    const Loop* worst = nullptr;
    for (const Loop& loop : loops) {
      all += std::min(loop.turns(unroll_[loop.op]), UINT64_MAX - all);
      if (!worst || loop.turns(unroll_[loop.op]) > worst->turns(unroll_[worst->op])) worst = &loop;
    }
    if (all <= most_iterations) return true;
    iterations = all;
    // A divisor of the extent needs no test of the last turn.
    uint32_t k = worst->op;
    uint64_t more = uint64_t{unroll_[k]} * 2;
    for (uint64_t f = more; f < more * 2; ++f)
      if (worst->extent % f == 0) {
        more = f;
        break;
      }
    unroll_[k] = static_cast<uint32_t>(std::min(more, worst->extent));
    if (unrolled_size() > kMaxOperations) return false;
  }
}

// Parameters may have bounds that no launch comes near to. A kernel that does not fit at the largest values is made to
// fit at the smallest ones.
void KernelWriter::plan_unrolling(uint64_t most_iterations) {
  uint64_t iterations = 0;
  if (unroll_below(most_iterations, false, iterations) || unroll_below(most_iterations, true, iterations))
    return;
  throw CompileError(
      fmt::format("kernel {}: a work-item goes round loops {} times, the device's driver stops it "
                  "after {} (docs/vulkan.md, limits)",
                  kernel_.name, iterations, most_iterations));
}

OpenLoop KernelWriter::open_loop(Value extent) {
  OpenLoop loop{{}, module_.new_id(), module_.new_id(), module_.new_id(), module_.new_id()};
  uint32_t test = module_.new_id(), body = module_.new_id(), before = block_;
  branch(loop.header);
  begin_block(loop.header);
  loop.index = e_.define(kOpPhi, extent.type.kind,
                         {e_.id(constant(extent.type, 0)), before, loop.next_index, loop.next});
  e_.instruction(kOpLoopMerge, {loop.merge, loop.next, 0});
  branch(test);
  begin_block(test);
  Value more = e_.icmp("slt", loop.index, extent);
  e_.instruction(kOpBranchConditional, {e_.id(more), body, loop.merge});
  begin_block(body);
  return loop;
}

void KernelWriter::close_loop(const OpenLoop& loop) {
  branch(loop.next);
  begin_block(loop.next);
  Type type = loop.index.type;
  uint32_t one = e_.id(constant(type, 1));
  e_.instruction(kOpIAdd, {module_.type(type.kind), loop.next_index, e_.id(loop.index), one});
  branch(loop.header);
  begin_block(loop.merge);
}

// The loop of RANGE k with all that is in it.
void KernelWriter::emit_range(uint32_t k) {
  Value extent = lane(sources(k)[0], 0);
  Type type = extent.type;
  uint32_t unroll = unroll_[k], end = end_[k];
  TOLK_CHECK(end > k, "a loop is not closed");
  if (extent.is_constant() && extent.bits <= unroll) {
    for (uint64_t i = 0; i < extent.bits; ++i) {
      set(k, constant(type, i));
      emit_from_to(k + 1, end);
    }
    return;
  }
  Value turns = extent;
  if (unroll > 1 && extent.is_constant())
    turns = constant(type, (extent.bits + unroll - 1) / unroll);
  else if (unroll > 1)
    turns = e_.binary("sdiv", e_.binary("add", extent, unroll - 1), constant(type, unroll));
  OpenLoop loop = open_loop(turns);
  Value first = unroll > 1 ? e_.binary("mul", loop.index, unroll) : loop.index;
  bool whole = unroll == 1 || (extent.is_constant() && extent.bits % unroll == 0);
  for (uint32_t i = 0; i < unroll; ++i) {
    Value index = i ? e_.binary("add", first, i) : first;
    uint32_t merge = whole ? 0 : open_branch(e_.icmp("slt", index, extent));
    set(k, index);
    emit_from_to(k + 1, end);
    if (merge) close_branch(merge);
  }
  close_loop(loop);
}

} // namespace tolk::spirv
