#include "tolk/codegen/opt/tile.h"

#include <algorithm>
#include <numeric>

#include "tolk/uop/build.h"

namespace tolk::codegen {

int Tile::instances() const {
  int n = vectors;
  for (const auto& [loop, amount] : rows) n *= amount;
  return n;
}

double padded(int64_t extent, int64_t block) { return double((extent + block - 1) / block * block); }

namespace {

constexpr double kLoadPorts = 2, kIssue = 5, kLoopCycles = 1;
constexpr double kStreamBytes = 20; // per cycle, from the second-level cache
// A first-level cache of 8 ways, where lines 4 KiB apart share a set.
constexpr int64_t kSetPeriod = 4096;
constexpr int64_t kMaxInSet = 6;
constexpr int64_t kLine = 64;
// Loads of single lanes that a block is made of.
constexpr int64_t kMaxLanes = 256;
// Copies of a body beyond which code gets too long, weighed by its arithmetic.
constexpr double kMaxCode = 220;

class Chooser {
public:
  Chooser(const Nest& nest, const Body& body, const Target& target, bool may_overlap, LoopSet taken)
      : nest_(nest), body_(body), target_(target), may_overlap_(may_overlap) {
    for (size_t i = 0; i < nest.loops.size(); ++i)
      if (AxisType type = axis_type(nest.loops[i]); type != AxisType::Loop && type != AxisType::Reduce)
        taken |= LoopSet::one(i);
    free_ = (body.reduce ? body.outer : body.inner) - taken;
    if (body.reduce) reduced_ = body.inner - taken;
    registers_ = std::max(8, int(target.vector_registers));
    if (body.reduce)
      for (LoopSet loop : body.inner) inner_trips_ *= double(nest.extent(loop));
    for (const Body& other : nest.bodies)
      if (!other.reduce) store_ = &other.store;
  }

  Tile run() {
    Tile scalar;
    rows_of(scalar);
    int widest = int(target_.vector_bytes) / std::max(1, body_.widest);
    for (int lanes = widest; lanes >= 2 && lanes * 2 >= widest && lanes * body_.widest >= 16; lanes /= 2) {
      for (LoopSet loop : free_) output_vector(loop, lanes);
      for (LoopSet loop : reduced_) reduction_vector(loop, lanes);
    }
    return best_;
  }

private:
  bool known(LoopSet loop) const { return nest_.loop(loop).src(0).is_const(); }

  void output_vector(LoopSet loop, int lanes) {
    if (nest_.extent(loop) < lanes) return;
    Tile t;
    t.vector = loop, t.lanes = lanes;
    int most = int(std::min<int64_t>(8, (nest_.extent(loop) + lanes - 1) / lanes));
    if (!known(loop)) most = std::min(most, 4);
    for (t.vectors = 1; t.vectors <= most; ++t.vectors) rows_of(t);
  }

  void reduction_vector(LoopSet loop, int lanes) {
    if (nest_.extent(loop) < lanes) return;
    Tile t;
    t.vector = loop, t.lanes = lanes;
    rows_of(t);
  }

  // The tile with no rows, with rows of one loop, and for vectors of the reduction of two.
  void rows_of(Tile t) {
    consider(t);
    if (!body_.reduce) return blocks_of(t);
    LoopSet rows = free_ - t.vector;
    for (LoopSet first : rows) {
      if (!known(first)) continue;
      int most = int(std::min<int64_t>(14, nest_.extent(first)));
      for (int a = 2; a <= most; ++a) {
        t.rows = {{first, a}};
        if (t.instances() > registers_) break;
        consider(t);
        if (!(t.vector & reduced_)) continue;
        for (LoopSet second : rows.after(first)) {
          if (!known(second)) continue;
          for (int b = 2; b <= std::min<int64_t>(14, nest_.extent(second)) && a * b <= registers_; ++b) {
            t.rows = {{first, a}, {second, b}};
            consider(t);
          }
        }
      }
    }
  }

  // Whether each lane of a load is on a line of its own.
  bool one_line_a_lane(const Tile& t, const Access& a) const {
    return (a.address - a.irregular) & t.vector && std::abs(a.along(t.vector)) * a.bytes >= kLine;
  }

  // A transposition: rows of the loop along which such a load is contiguous, so that a block uses what it fetches.
  void blocks_of(Tile t) {
    if (t.vectors > 1) return;
    for (const Access& a : body_.loads)
      for (LoopSet loop : free_ - t.vector) {
        if (!one_line_a_lane(t, a) || a.irregular & loop || std::abs(a.along(loop)) != 1 || !known(loop))
          continue;
        int64_t rows = std::min(kLine / a.bytes, std::max<int64_t>(1, kMaxLanes / t.lanes));
        if (rows < 2 || nest_.extent(loop) < rows) continue;
        t.rows = {{loop, int(rows)}};
        consider(t);
      }
  }

  // Bytes of the lines that one pass through a tile fetches for such a load.
  double fetched(const Tile& t, const Access& a) const {
    if (a.elements * a.bytes <= double(target_.l1_bytes) / 2) return 0;
    double lines = double(t.lanes) * times(t, a.loops);
    for (const auto& [loop, amount] : t.rows)
      if ((a.loops - a.irregular) & loop && std::abs(a.along(loop)) == 1) lines /= amount;
    return lines * kLine;
  }

  int times(const Tile& t, LoopSet loops) const {
    int n = loops & t.vector ? t.vectors : 1;
    for (const auto& [loop, amount] : t.rows)
      if (loops & loop) n *= amount;
    return n;
  }

  // Load and shuffle operations of one instance.
  double load_cost(const Tile& t, const Access& a) const {
    if (t.lanes == 1 || !(a.loops & t.vector)) {
      bool own_address = false; // rows whose addresses have nothing in common need a register each
      for (const auto& [loop, amount] : t.rows) own_address |= bool(a.irregular & loop) && amount > 4;
      return (a.gate ? 2 : 1) * (own_address ? 2 : 1);
    }
    double mask = a.gate & t.vector ? 1 : 0;
    if (a.irregular & t.vector) return t.lanes * (3.0 + 2 * mask);
    int64_t stride = std::abs(a.along(t.vector));
    if (!(a.address & t.vector)) return 1 + t.lanes * mask;
    // A vector that is not aligned crosses a line now and then.
    if (stride == 1) return 1.15 + mask + (a.along(t.vector) < 0 ? 1 : 0);
    if (stride <= 4 && t.lanes >= 4) return double(stride) * (2 + mask);
    return t.lanes * (3.0 + 2 * mask);
  }

  // Rows a multiple of the cache's period apart push each other out.
  bool evicts_itself(const Tile& t, const Access& a) const {
    if (!body_.reduce || inner_trips_ < 32) return false;
    if ((t.vector & a.address) - a.irregular && std::abs(a.along(t.vector)) > 4) {
      int64_t apart = std::gcd(std::abs(a.along(t.vector)) * a.bytes, kSetPeriod);
      if (apart >= 64 && t.lanes > kMaxInSet * (kSetPeriod / apart)) return true;
    }
    for (const auto& [loop, amount] : t.rows) {
      if (a.irregular & loop || a.along(loop) == 0) continue;
      int64_t apart = std::gcd(std::abs(a.along(loop)) * a.bytes, kSetPeriod);
      if (apart >= 64 && amount > kMaxInSet * (kSetPeriod / apart)) return true;
    }
    return false;
  }

  double store_cost(const Tile& t) const {
    if (t.lanes == 1 || (t.vector & reduced_)) return 1;
    if (store_->irregular & t.vector || store_->along(t.vector) != 1) return 2.0 * t.lanes;
    return 1.2 + (store_->gate & t.vector ? 2 : 0);
  }

  void consider(const Tile& tile) {
    Tile t = tile;
    int copies = t.instances();
    bool vector_reduced(t.vector & reduced_);
    if (body_.reduce) {
      int across = 1; // operands that stay while the other side changes
      for (const auto& [loop, amount] : t.rows) across = across == 1 ? amount : std::min(across, amount);
      if (!vector_reduced) across = std::min(across, t.vectors);
      if (copies + across + 1 > registers_) return;
    }
    if (copies > 1 && copies * (body_.operations + double(body_.loads.size())) > kMaxCode) return;
    double loads = 0, streamed = 0;
    for (const Access& a : body_.loads) {
      int count = times(t, a.loops);
      loads += load_cost(t, a) * count * (evicts_itself(t, a) ? 4 : 1);
      if (body_.reduce && !vector_reduced && (a.address & t.vector) && std::abs(a.along(t.vector)) <= 4) {
        double bytes = double(count) * t.lanes * a.bytes;
        if (bytes * inner_trips_ > double(target_.l1_bytes) / 2) streamed += bytes;
      }
    }
    if (!body_.reduce)
      for (const Access& a : body_.loads)
        if (one_line_a_lane(t, a)) streamed += fetched(t, a);
    double arithmetic = copies * body_.operations / std::max(1u, target_.fma_ports);
    double issued = loads + 2 * arithmetic;
    // Of tiles with the same bottleneck the one with fewer loads.
    double cycles = 0.02 * loads +
                    std::max({loads / kLoadPorts, arithmetic, issued / kIssue, streamed / kStreamBytes}) +
                    kLoopCycles;
    // What happens once per result: the fold of lanes, the store.
    double once = copies * (store_cost(t) + (vector_reduced ? 2.0 * t.lanes : 0));
    cycles += body_.reduce ? once / (inner_trips_ / (vector_reduced ? t.lanes : 1)) : once;
    cycles /= double(copies) * t.lanes;
    // Blocks that do not fill their loop.
    auto waste = [&](LoopSet loop, int64_t block, bool reduced) {
      double n = double(nest_.extent(loop));
      if (block == 1) return 1.0;
      if (!reduced && known(loop) && may_overlap_) {
        bool whole_vectors =
            loop == t.vector && t.vectors == int((nest_.extent(loop) + t.lanes - 1) / t.lanes);
        return padded(nest_.extent(loop), whole_vectors ? t.lanes : block) / n;
      }
      double rest = double(nest_.extent(loop) % block);
      return (n - rest + rest * double(std::min<int64_t>(block, 8))) / n;
    };
    if (t.vector) cycles *= waste(t.vector, int64_t(t.lanes) * t.vectors, vector_reduced);
    for (const auto& [loop, amount] : t.rows) cycles *= waste(loop, amount, false);
    t.cycles = cycles;
    t.code = loads + copies * body_.operations;
    // Longer code must be worth its compilation.
    double better = body_.reduce || t.code <= best_.code ? 0.999 : 0.97;
    if (best_.cycles == 0 || cycles < best_.cycles * better) best_ = t;
  }

  const Nest& nest_;
  const Body& body_;
  const Target& target_;
  bool may_overlap_;
  LoopSet free_, reduced_;
  int registers_ = 16;
  double inner_trips_ = 1;
  const Access* store_ = nullptr;
  Tile best_;
};

} // namespace

Tile choose_tile(const Nest& nest, const Body& body, const Target& target, bool may_overlap, LoopSet taken) {
  return Chooser(nest, body, target, may_overlap, taken).run();
}

} // namespace tolk::codegen
