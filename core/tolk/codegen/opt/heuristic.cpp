// Chooses opts for CPUs, body by body, the one with most work first. Each opt is tried on a copy of the schedule and
// dropped when it does not apply, so the list always applies.
#include <algorithm>

#include "tolk/codegen/opt/opt.h"
#include "tolk/codegen/opt/ranges.h"
#include "tolk/codegen/opt/tile.h"
#include "tolk/uop/traverse.h"

namespace tolk::codegen {
namespace {

// Cycles of a launch from which a second thread pays, and of one tile at least.
constexpr double kThreadCycles = 24000, kTileCycles = 4000;
constexpr int64_t kTilesPerThread = 6;
// Iterations of a whole kernel below which nothing is worth doing.
constexpr double kTiny = 24;
// Operations of a loop body beyond which it is not unrolled further.
constexpr double kMaxCode = 300;

class Heuristic {
public:
  Heuristic(const UOp& ast, const Target& target, int threads)
      : target_(target), threads_(target.has_threads ? threads : 1), schedule_(ast) {}

  std::vector<Opt> run() {
    if (target_.has_local) return group_heuristic(schedule_.ast, target_);
    overlap_ = !reads_what_it_writes(schedule_.ast);
    size_t count = schedule_.ast.src().size();
    merge_pixels();
    // Splitting a loop whose blocks must not overlap makes a second nest for the remainder. Threads come before that.
    bool first = count == 1 && (!overlap_ || has_symbolic_loop());
    if (first) thread(estimate());
    for (size_t n = 0; n < count; ++n) nest(n);
    if (count == 1 && !first) thread(work_);
    return list_;
  }

private:
  bool act(OptKind kind, int64_t axis, int64_t amount) {
    Opt opt{kind, axis, amount};
    if (apply(schedule_, opt)) return false;
    list_.push_back(opt);
    return true;
  }

  bool has_symbolic_loop() const {
    for (const UOp& r : all_ranges(schedule_.ast))
      if (axis_type(r) == AxisType::Loop && !r.src(0).is_const()) return true;
    return false;
  }
  // Cycles of the kernel before its tiles are known.
  double estimate() const {
    double work = 0;
    for (const Nest& nest : nests_of(schedule_.ast))
      for (const Body& b : nest.bodies) work += b.trips * (b.operations + double(b.loads.size())) / 8;
    return work;
  }

  // Cycles of the only nest with the best tile of each body.
  double tiled_work(const Schedule& schedule) const {
    double work = 0;
    std::vector<Nest> all = nests_of(schedule.ast);
    for (const Body& b : all[0].bodies)
      work += b.trips * choose_tile(all[0], b, target_, overlap_, {}).cycles;
    return work;
  }

  // Merges the row and column loops of an image where that is cheaper: vectors then get a long loop whatever the
  // image's width. Addresses that continue from row to row stay linear; padding masks and other addresses divide.
  void merge_pixels() {
    for (bool again = true; again;) {
      again = false;
      std::vector<Nest> all = nests_of(schedule_.ast);
      if (all.size() != 1 || all[0].bodies.empty()) return;
      const Nest& nest = all[0];
      if (!nest.bodies[0].multiplies_adds || nest.bodies[0].trips < 4096) return;
      double now = tiled_work(schedule_);
      for (LoopSet a : nest.output) {
        LoopSet b = nest.output.after(a).first();
        if (again || !b) break;
        bool together = false, loaded = false;
        for (const Body& each : nest.bodies) {
          auto merges = [&](const Access& access) {
            return !(access.irregular & (a | b)) && access.along(b) &&
                   access.along(a) == access.along(b) * nest.extent(b);
          };
          if (!each.reduce) together |= merges(each.store);
          for (const Access& load : each.loads)
            loaded |= each.reduce && (merges(load) || load.along(a) > load.along(b));
        }
        if (!together || !loaded) continue;
        Schedule trial = schedule_;
        Opt opt{OptKind::Merge, axis_of(nest.loop(a)), axis_of(nest.loop(b))};
        if (apply(trial, opt) || tiled_work(trial) > now * 0.97) continue;
        schedule_ = trial;
        list_.push_back(opt);
        again = true;
      }
    }
  }

  void nest(size_t number) {
    std::vector<Nest> all = nests_of(schedule_.ast);
    if (number >= all.size()) return;
    const Nest& nest = all[number];
    double total = 0;
    for (const Body& b : nest.bodies) total += b.trips * std::max(1.0, b.operations);
    if (total < kTiny || target_.vector_bytes < 8) return;
    LoopSet vectors, taken;
    for (const Body& body : nest.bodies) {
      LoopSet around = body.reduce ? body.outer | body.inner : body.inner;
      if (around & vectors) continue; // already vectorised
      if (body.trips < 4) continue;
      Tile tile = choose_tile(nest, body, target_, overlap_, taken);
      work_ += body.trips * tile.cycles;
      if (take(nest, body, tile)) vectors |= tile.vector;
      for (const auto& [loop, amount] : tile.rows) taken |= loop;
      taken |= tile.vector;
    }
  }

  bool take(const Nest& nest, const Body& body, const Tile& tile) {
    bool vectorised = false;
    if (tile.vector) {
      int64_t axis = axis_of(nest.loop(tile.vector)), extent = nest.extent(tile.vector);
      bool reduced(tile.vector - nest.output);
      int64_t block = int64_t(tile.lanes) * tile.vectors;
      if (reduced || tile.vectors == 1) {
        vectorised = act(OptKind::Vector, axis, tile.lanes);
      } else if (extent % block != 0 && tile.vectors == (extent + tile.lanes - 1) / tile.lanes &&
                 nest.loop(tile.vector).src(0).is_const() && overlap_) {
        // All of the loop at once: each vector starts at a constant.
        vectorised = act(OptKind::Vector, axis, tile.lanes);
        act(OptKind::Upcast, axis, 0);
      } else if (act(OptKind::Upcast, axis, block)) {
        vectorised = act(OptKind::Vector, schedule_.last_inner, tile.lanes);
      }
    }
    for (const auto& [loop, amount] : tile.rows) act(OptKind::Upcast, axis_of(nest.loop(loop)), amount);
    if (body.reduce) {
      order_outputs(nest, body, tile);
      unroll(nest, body, tile);
    }
    return vectorised;
  }

  // With two operands that each have output loops of their own, the inner loops should re-read the operand that fits
  // the cache.
  void order_outputs(const Nest& nest, const Body& body, const Tile& tile) {
    if (tile.rows.empty() || !(tile.vector & nest.output)) return;
    LoopSet row = tile.rows[0].first, column = tile.vector, row_loops, column_loops;
    double row_bytes = 0, column_bytes = 0;
    for (const Access& a : body.loads) {
      bool of_row = (a.loops & row) && !(a.loops & column),
           of_column = (a.loops & column) && !(a.loops & row);
      if (of_row) row_bytes += a.elements * a.bytes, row_loops |= a.loops & nest.output;
      if (of_column) column_bytes += a.elements * a.bytes, column_loops |= a.loops & nest.output;
    }
    LoopSet shared = row_loops & column_loops;
    row_loops -= shared, column_loops -= shared;
    double cache = double(target_.l2_bytes) * 0.6;
    bool columns_inside = column_bytes <= cache && (row_bytes > cache || column_bytes <= row_bytes);
    put_inside(nest, columns_inside ? column_loops : row_loops, columns_inside ? row_loops : column_loops);
  }

  // Moves those loops of `inner` that still exist inside of `outer`.
  void put_inside(const Nest& nest, LoopSet inner, LoopSet outer) {
    int64_t last = -1;
    for (LoopSet loop : outer)
      if (int64_t axis = axis_of(nest.loop(loop)); find_range(schedule_.ast, axis)) last = axis;
    if (last < 0) return;
    for (LoopSet loop : inner - inner.after(outer.last())) // the others are inside already
      if (int64_t axis = axis_of(nest.loop(loop)); find_range(schedule_.ast, axis))
        act(OptKind::Sink, axis, last);
  }

  void unroll(const Nest& nest, const Body& body, const Tile& tile) {
    int64_t copies = tile.instances();
    double code = std::max(1.0, tile.code);
    LoopSet masks; // reduction loops that change the mask of a vector
    for (const Access& a : body.loads)
      if (a.gate & tile.vector) masks |= a.gate & body.inner;
    int64_t unrolled = 1;
    LoopSet gone;
    // Masks are computed before the loop when what changes them is unrolled.
    while (LoopSet loop = (masks - gone).last()) {
      int64_t n = nest.extent(loop);
      if (double(unrolled * n) * tile.code > kMaxCode || !act(OptKind::Unroll, axis_of(nest.loop(loop)), 0))
        break;
      unrolled *= n;
      gone |= loop;
    }
    // Else they should at least not be in the innermost loop.
    if (LoopSet left = masks - gone)
      for (LoopSet loop : body.inner - masks)
        act(OptKind::Sink, axis_of(nest.loop(loop)), axis_of(nest.loop(left.last())));
    if (unrolled > 1) return;
    // The innermost loop: whole when short; else enough of it to keep several accumulators busy.
    LoopSet last = body.inner.last();
    LoopSet target = tile.vector & body.inner ? tile.vector : last;
    int64_t n = nest.extent(target) / (target == tile.vector ? tile.lanes : 1);
    int64_t axis = axis_of(nest.loop(target));
    if (!nest.loop(target).src(0).is_const()) return;
    if (n > 1 && n <= 8 && double(n) * code <= 150) {
      act(OptKind::Unroll, axis, 0);
      return;
    }
    for (int64_t amount : {8, 4, 2}) {
      if (copies * amount > 8 || code * double(amount) > 100 || n < 2 * amount) continue;
      if (act(OptKind::Unroll, axis, amount)) return;
    }
  }

  // Tiles over the outermost loops, several for each thread to balance the load.
  void thread(double work) {
    if (threads_ < 2 || work < kThreadCycles) return;
    const UOp& end = schedule_.ast.src(0);
    if (!end.is(Op::END)) return;
    int64_t wanted = std::clamp<int64_t>(int64_t(work / kTileCycles), threads_, threads_ * kTilesPerThread);
    std::vector<std::pair<int64_t, int64_t>> loops; // axis, extent
    for (const UOp& r : end.src().subspan(1))
      if (r.is(Op::RANGE) && axis_type(r) == AxisType::Loop)
        loops.emplace_back(axis_of(r), std::max<int64_t>(1, r.src(0).vmax()));
    for (size_t i = 0; i < loops.size() && wanted > 1; ++i) {
      auto [axis, extent] = loops[i];
      if (extent < 2) continue;
      int64_t pieces = std::min(extent, wanted);
      if (act(OptKind::Thread, axis, pieces)) wanted = (wanted + pieces - 1) / pieces;
      if (wanted < 2 || (pieces >= threads_ * 2)) return;
    }
  }

  const Target& target_;
  int threads_;
  bool overlap_ = false;
  Schedule schedule_;
  double work_ = 0; // cycles of one thread
  std::vector<Opt> list_;
};

} // namespace

std::vector<Opt> heuristic(const UOp& ast, const Target& target, int threads) {
  return Heuristic(ast, target, threads).run();
}

} // namespace tolk::codegen
