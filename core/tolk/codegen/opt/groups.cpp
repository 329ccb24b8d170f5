// Chooses opts for devices with work-groups: each work-item computes a few elements, neighbouring work-items write
// neighbouring elements, and every other output loop is spread over the groups.
#include <algorithm>

#include "tolk/codegen/opt/bodies.h"
#include "tolk/codegen/opt/opt.h"
#include "tolk/codegen/opt/ranges.h"

namespace tolk::codegen {
namespace {

// Work-items of a group: several subgroups, so that one computes while another waits for memory, and few enough that
// small kernels still fill several compute units.
constexpr int64_t kItems = 128;
// Results of a sum of products that a work-item computes, to read one operand once for all of them; taken only where
// enough work-items remain.
constexpr int64_t kRows = 4, kEnoughItems = 2048;
// Terms of a reduction in one iteration of its innermost loop.
constexpr int64_t kTerms = 4;
// Groups for a loop whose extent a launch decides.
constexpr int64_t kPieces = 256;

class Groups {
public:
  Groups(const UOp& ast, const Target& target) : target_(target), schedule_(ast) {}

  std::vector<Opt> run() {
    std::vector<Nest> nests = nests_of(schedule_.ast);
    if (target_.subgroup < 2 || nests.empty()) return {};
    const Nest& nest = nests[0];
    for (LoopSet loop : nest.output)
      if (nest.loop(loop).src(0).is_const())
        loops_.push_back({axis_of(nest.loop(loop)), nest.extent(loop), loop});
    order_by_stride(nest);
    rows(nest);
    items();
    groups();
    for (const Body& body : nest.bodies)
      if (LoopSet last = body.inner.last(); body.reduce && last && nest.loop(last).src(0).is_const())
        if (nest.extent(last) % kTerms == 0) act(OptKind::Unroll, axis_of(nest.loop(last)), kTerms);
    return list_;
  }

private:
  struct Loop {
    int64_t axis, extent;
    LoopSet number;
  };

  bool act(OptKind kind, int64_t axis, int64_t amount) {
    Opt opt{kind, axis, amount};
    if (apply(schedule_, opt)) return false;
    list_.push_back(opt);
    return true;
  }

  // Loops that step through the result in small strides come first.
  void order_by_stride(const Nest& nest) {
    for (const Body& body : nest.bodies) {
      if (body.reduce) continue;
      auto stride = [&](const Loop& loop) {
        int64_t s = std::abs(body.store.along(loop.number));
        return s == 0 || body.store.irregular & loop.number ? INT64_MAX : s;
      };
      std::ranges::stable_sort(loops_, {}, stride);
    }
  }

  int64_t elements() const {
    int64_t n = 1;
    for (const Loop& loop : loops_) n *= loop.extent;
    return n;
  }

  // Several rows of a product for each work-item.
  void rows(const Nest& nest) {
    if (nest.bodies.empty() || !nest.bodies[0].multiplies_adds || elements() < kRows * kEnoughItems) return;
    for (size_t i = 1; i < loops_.size(); ++i) {
      Loop& loop = loops_[i];
      bool shared = std::ranges::any_of(nest.bodies[0].loads,
                                        [&](const Access& a) { return !(a.loops & loop.number); });
      if (!shared || loop.extent % kRows || !act(OptKind::Upcast, loop.axis, kRows)) continue;
      loop.extent /= kRows;
      return;
    }
  }

  // The greatest divisor of n up to `most`, of whole subgroups where there is one.
  int64_t divisor(int64_t n, int64_t most) const {
    auto subgroup = int64_t(target_.subgroup);
    for (int64_t d = most / subgroup * subgroup; d >= subgroup && 4 * d >= most; d -= subgroup)
      if (n % d == 0) return d;
    for (int64_t d = std::min(n, most); d > 1; --d)
      if (n % d == 0) return d;
    return 1;
  }

  void items() {
    int64_t left = std::min({kItems, target_.local_max[0], target_.local_product_max});
    std::vector<std::pair<size_t, int64_t>> chosen; // loop, work-items
    for (size_t i = 0; i < loops_.size() && left > 1; ++i) {
      Loop& loop = loops_[i];
      int64_t amount = divisor(loop.extent, left);
      if (i == 0 && loop.extent > left && 2 * amount < left && act(OptKind::PadTo, loop.axis, left)) {
        loop.extent = (loop.extent + left - 1) / left * left;
        amount = left;
      }
      if (amount > 1) chosen.emplace_back(i, amount);
      left /= amount;
    }
    // The loop of the smallest stride last: its work-items are neighbours.
    for (size_t k = chosen.size(); k-- > 0;) {
      Loop& loop = loops_[chosen[k].first];
      if (act(OptKind::Local, loop.axis, chosen[k].second)) loop.extent /= chosen[k].second;
    }
  }

  // What is left of the loops becomes groups, up to the target's limit; the rest stays a loop of each work-item.
  void groups() {
    int64_t left = target_.group_max[0];
    for (const Loop& loop : loops_) {
      int64_t pieces = std::min(loop.extent, left);
      if (pieces > 1 && act(OptKind::Thread, loop.axis, pieces)) left /= pieces;
    }
    for (const UOp& range : all_ranges(schedule_.ast))
      if (axis_type(range) == AxisType::Loop && !range.src(0).is_const())
        if (int64_t pieces = std::min(kPieces, left);
            pieces > 1 && act(OptKind::Thread, axis_of(range), pieces))
          left /= pieces;
  }

  const Target& target_;
  Schedule schedule_;
  std::vector<Loop> loops_; // output loops of known extent
  std::vector<Opt> list_;
};

} // namespace

std::vector<Opt> group_heuristic(const UOp& ast, const Target& target) { return Groups(ast, target).run(); }

} // namespace tolk::codegen
