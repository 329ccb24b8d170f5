// Blocked summation: a float sum over many terms becomes a nest of short loops, each with its own accumulators.
//
// In a sequential sum the first term takes part in n - 1 additions, and each rounds the running total. With
// nested loops of b[0], b[1], ... iterations it takes part in b[0] + b[1] + ... additions, which is at most
// limit / log2(limit) * log2(n). The error is at most this height of the summation tree times the unit roundoff
// times the sum of magnitudes (N. Higham, The accuracy of floating point summation, SIAM J. Sci. Comput. 14,
// 1993). docs/numerics.md states the resulting bounds.
#include <algorithm>

#include "tolk/codegen/lower/expander.h"
#include "tolk/codegen/opt/ranges.h"
#include "tolk/uop/arena.h"
#include "tolk/uop/traverse.h"

namespace tolk::codegen {
namespace {

// Terms added to one accumulator in sequence. 64 / log2(64) = 10.7 roundings per doubling of a sum. The accumulators
// of a matrix tile fill the registers and are spilled between blocks, so sums of products get longer blocks:
// 256 / log2(256) = 32.
constexpr int64_t kMaxTerms = 64, kMaxProducts = 256;

bool is_blocked(const UOp& reduce) { return reduce_op(reduce) == Op::ADD && is_float(reduce.dtype()); }

int64_t extent_of(const UOp& range) { return std::max<int64_t>(1, range.src(0).vmax()); }

} // namespace

int64_t Expander::max_sequential_terms(const UOp& reduce) {
  if (!is_blocked(reduce)) return INT64_MAX;
  return reduce.src(0).is(Op::MUL) ? kMaxProducts : kMaxTerms;
}

// Appends the loops that replace a range, outermost first.
void Expander::append_parts(const UOp& range, std::vector<UOp>& out) const {
  auto it = splits_.find(range);
  if (it == splits_.end()) {
    out.push_back(range);
    return;
  }
  append_parts(it->second.outer, out);
  out.push_back(it->second.inner);
}

// Splits a range into blocks of at most `max_block` iterations, preferably by a divisor.
void Expander::split_range(const UOp& range, int64_t max_block) {
  const UOp& extent = range.src(0);
  int64_t block = max_block;
  if (extent.is_const())
    for (int64_t b = max_block; 2 * b > max_block; --b)
      if (extent.const_int() % b == 0) {
        block = b;
        break;
      }
  UOp outer = range_node(floordiv(extent + (block - 1), index_const(block)), next_axis_++, axis_type(range));
  UOp length = index_const(block);
  if (!extent.is_const() || extent.const_int() % block != 0)
    length = smaller(length, extent + outer * -block);
  splits_[range] = {outer, range_node(length, next_axis_++, axis_type(range)), block};
}

// Groups the loops of a reduction into levels, innermost level first, so that no accumulator takes more than `limit`
// terms in sequence. Longer loops are split. `per_iteration` is the number of terms that an accumulator takes in one
// iteration of the innermost loop.
void Expander::find_levels(const UOp& reduce, std::vector<UOp> loops, int64_t per_iteration, int64_t limit) {
  std::vector<std::vector<UOp>> levels(1);
  int64_t terms = per_iteration;
  while (!loops.empty()) {
    UOp range = loops.back();
    loops.pop_back();
    if (splits_.contains(range)) {
      append_parts(range, loops);
      continue;
    }
    int64_t extent = extent_of(range);
    if (extent <= limit / terms) {
      levels.back().insert(levels.back().begin(), range);
      terms *= extent;
      continue;
    }
    if (limit / terms >= 2) {
      split_range(range, limit / terms);
      append_parts(range, loops);
      // The inner loop fills the level.
      range = loops.back();
      loops.pop_back();
      levels.back().insert(levels.back().begin(), range);
    } else {
      loops.push_back(range);
    }
    levels.emplace_back();
    terms = 1;
  }
  if (levels.back().empty()) levels.pop_back();
  levels_[reduce] = std::move(levels);
}

void Expander::find_blocks() {
  std::vector<UOp> order = toposort(sink_);
  for (const UOp& u : order)
    if (u.is(Op::RANGE)) next_axis_ = std::max(next_axis_, axis_of(u) + 1);
  for (const UOp& u : order) {
    if (!u.is(Op::REDUCE) || !is_blocked(u)) continue;
    std::vector<UOp> loops;
    for (const UOp& r : u.src().subspan(1))
      if (r.is(Op::RANGE) && !bit_of(r) && !launched_.contains(r)) loops.push_back(r);
    if (loops.empty()) continue;
    auto values = int64_t(unrolled_count(u)), chains = int64_t(chain_count(u, size_t(values)));
    find_levels(u, std::move(loops), (values + chains - 1) / chains, max_sequential_terms(u));
  }
  // The extents of new loops are new nodes; they depend on no lanes.
  depends_.resize(current_arena()->size(), 0);
}

} // namespace tolk::codegen
