// The order of the operations of a register tile: few of its operands live at once, for machines with few registers.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <map>
#include <set>

#include "harness.h"
#include "samples.h"

using namespace tolk_test;
using namespace tolk;
using namespace tolk::codegen;

namespace {

// What the multiply-adds of the loop with most of them look like.
struct Tile {
  size_t sums = 0, left = 0, right = 0; // accumulators, and distinct factors in one step of the reduction
  size_t live = 0;                      // vectors among the factors that are live at once, at most
};

Tile tile_of(const KernelIR& ir) {
  std::vector<uint32_t> open, best, current;
  std::map<uint32_t, std::vector<uint32_t>> products; // by loop
  for (uint32_t k = 0; k < ir.ops.size(); ++k) {
    if (ir.ops[k].opcode == TOLK_IR_RANGE) open.push_back(k);
    if (ir.ops[k].opcode == TOLK_IR_END) open.pop_back();
    if (ir.ops[k].opcode == TOLK_IR_MULACC && !open.empty()) products[open.back()].push_back(k);
  }
  for (const auto& [loop, list] : products)
    if (list.size() > best.size()) best = list;
  std::map<uint32_t, uint32_t> last; // factor -> its last use
  std::set<uint32_t> chains, left, right;
  for (uint32_t k : best) {
    std::span<const uint32_t> src = ir.sources_of(ir.ops[k]);
    left.insert(src[0]), right.insert(src[1]);
    for (int i : {0, 1})
      if (ir.ops[src[size_t(i)]].lanes > 1) last[src[size_t(i)]] = k;
    if (ir.ops[src[2]].opcode != TOLK_IR_MULACC) chains.insert(k);
  }
  Tile t;
  t.sums = chains.size();
  size_t steps = best.size() / std::max<size_t>(1, t.sums);
  t.left = left.size() / steps, t.right = right.size() / steps;
  for (uint32_t k : best)
    t.live = std::max(t.live, size_t(std::ranges::count_if(
                                  last, [&](const auto& f) { return f.first < k && f.second >= k; })));
  return t;
}

} // namespace

BOOST_AUTO_TEST_SUITE(tile_order)

BOOST_AUTO_TEST_CASE(the_fewer_factors_of_a_tile_stay_live_and_the_others_pass) {
  Target wide = avx2_target();
  wide.vector_bytes = 64, wide.vector_registers = 32;
  for (const Target& target : {avx2_target(), wide})
    for (const UOp& ast : {matmul(64, 64, 64), matmul(512, 512, 512), convolution(1, 64, 64, 56, 3, 1, 1),
                           convolution(1, 256, 256, 14, 3, 1, 1), convolution(1, 256, 1024, 14, 1, 1, 0)}) {
      Kernel k = compile(ast, target);
      Tile t = tile_of(k.ir);
      std::string opts;
      for (const std::string& opt : k.info.opts) opts += opt + " ";
      BOOST_TEST_CONTEXT(opts << ": " << t.sums << " sums of " << t.left << " x " << t.right) {
        BOOST_TEST(t.sums >= 8u);
        BOOST_TEST(t.live <= std::min(t.left, t.right) + 1);
        BOOST_TEST(t.sums + t.live <= target.vector_registers);
      }
    }
}

BOOST_AUTO_TEST_SUITE_END()
