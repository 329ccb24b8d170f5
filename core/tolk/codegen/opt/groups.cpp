// Chooses opts for devices with work-groups: each work-item computes a few elements, neighbouring work-items write
// neighbouring elements, and every other output loop is spread over the groups. Work-items share a reduction where the
// result has too few elements, or where they would read far apart.
#include <algorithm>
#include <bit>
#include <utility>

#include "tolk/codegen/opt/bodies.h"
#include "tolk/codegen/opt/opt.h"
#include "tolk/codegen/opt/ranges.h"

namespace tolk::codegen {
namespace {

// Work-items of a group: several subgroups, so that one computes while another waits for memory, and few enough that
// small kernels still fill several compute units.
constexpr int64_t kItems = 128;
// Rows and columns of a sum of products that a work-item computes, to read each operand once for all of them; taken only
// where enough work-items remain.
constexpr int64_t kRows = 4, kColumns = 4;
// Subgroups that fill a device.
constexpr int64_t kSubgroups = 64;
// Terms that a work-item adds at least where several share a reduction, and work-items for which that pays.
constexpr int64_t kLeastTerms = 4, kLeastParts = 4;
// Work-group storage that a work-item takes at most for it.
constexpr uint64_t kLocalBytes = 8 * kRows;
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
    columns(nest);
    share(nest);
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
        return std::pair(s == 0 || body.store.irregular & loop.number ? INT64_MAX : s, loop.number.number());
      };
      std::ranges::sort(loops_, {}, stride);
    }
  }

  int64_t elements() const {
    int64_t n = 1;
    for (const Loop& loop : loops_) n *= loop.extent;
    return n;
  }

  // Several rows of a product for each work-item.
  void rows(const Nest& nest) {
    if (nest.bodies.empty() || !nest.bodies[0].multiplies_adds || elements() < kRows * enough_items()) return;
    for (size_t i = 1; i < loops_.size(); ++i) {
      Loop& loop = loops_[i];
      bool shared = std::ranges::any_of(nest.bodies[0].loads,
                                        [&](const Access& a) { return !(a.loops & loop.number); });
      if (!shared || loop.extent % kRows || !act(OptKind::Upcast, loop.axis, kRows)) continue;
      loop.extent /= kRows;
      return;
    }
  }

  // Several neighbouring columns, as one vector: its loads and stores stay in one piece.
  void columns(const Nest& nest) {
    if (list_.empty() || elements() < kColumns * enough_items()) return;
    Loop& loop = loops_[0];
    bool neighbours = true, shared = false;
    for (const Access& a : nest.bodies[0].loads) {
      shared |= !(a.loops & loop.number);
      neighbours &= !(a.loops & loop.number) || (!(a.irregular & loop.number) && a.along(loop.number) == 1);
    }
    if (shared && neighbours && loop.extent % kColumns == 0 && act(OptKind::Vector, loop.axis, kColumns))
      loop.extent /= kColumns;
  }

  int64_t enough_items() const { return kSubgroups * int64_t(target_.subgroup); }
  int64_t most_items() const { return std::min({kItems, target_.local_max[0], target_.local_product_max}); }

  // Decides how many work-items share the only reduction of the kernel.
  void share(const Nest& nest) {
    const Body* sum = nullptr;
    for (const Body& body : nest.bodies)
      if (body.reduce && std::exchange(sum, &body)) return;
    LoopSet last = sum ? sum->inner.last() : LoopSet();
    if (!last || !nest.loop(last).src(0).is_const() || bits(sum->reduce.dtype()) < 32) return;
    shared_along_ = !loops_.empty() && target_.coalesces && along_only(*sum, last);
    int64_t n = elements(), parts = most_items();
    if (!shared_along_) parts = std::min(parts, enough_items() / std::max<int64_t>(n, 1));
    parts = std::min({parts, nest.extent(last) / kLeastTerms, int64_t(target_.shared_bytes / kLocalBytes)});
    while (parts >= kLeastParts && nest.extent(last) % int64_t(std::bit_floor(uint64_t(parts)))) parts /= 2;
    if (parts < kLeastParts) return;
    parts_ = int64_t(std::bit_floor(uint64_t(parts)));
    shared_axis_ = axis_of(nest.loop(last));
  }

  // Whether a work-item's next term lies beside the last one, its neighbour's elsewhere, and no other result needs either.
  bool along_only(const Body& sum, LoopSet last) const {
    return std::ranges::any_of(sum.loads, [&](const Access& a) {
      bool apart = std::abs(a.along(loops_[0].number)) > 1;
      return a.along(last) == 1 && apart &&
             std::ranges::all_of(loops_, [&](const Loop& loop) { return bool(a.loops & loop.number); });
    });
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
    int64_t left = most_items() / parts_;
    // Before the output's loops its work-items are far apart, after them neighbours.
    if (parts_ > 1 && !shared_along_ && !act(OptKind::Group, shared_axis_, parts_)) parts_ = 1;
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
    if (parts_ > 1 && shared_along_) act(OptKind::Group, shared_axis_, parts_);
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
  // Work-items that share the reduction, its axis, and whether they read neighbouring elements.
  int64_t parts_ = 1, shared_axis_ = -1;
  bool shared_along_ = false;
  std::vector<Opt> list_;
};

} // namespace

std::vector<Opt> group_heuristic(const UOp& ast, const Target& target) { return Groups(ast, target).run(); }

} // namespace tolk::codegen
