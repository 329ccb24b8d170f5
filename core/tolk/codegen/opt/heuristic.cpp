// The choice of opts for CPUs, body by body, the one with most work first. Each step tries an action on a
// scratch schedule; what does not fit is left out, so the list always fits.
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
constexpr double kMostCode = 300;

class Heuristic {
public:
  Heuristic(const UOp& ast, const Target& target, int threads)
      : target_(target), threads_(target.has_threads ? threads : 1), schedule_(ast) {}

  std::vector<Opt> run() {
    if (target_.has_local) return {}; // targets with work-groups are not tuned yet
    overlap_ = !reads_what_it_writes(schedule_.ast);
    size_t count = schedule_.ast.src().size();
    merge_pixels();
    // A loop that cannot end in a block done twice gets a second nest for its rest; threads must come before
    // that.
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
    for (const Body& b : all[0].bodies) work += b.trips * choose_tile(all[0], b, target_, overlap_, 0).cycles;
    return work;
  }

  // Rows and columns of a picture become one loop where that is cheaper: there is always a long loop for
  // vectors then, whatever the width of the picture. Addresses that walk on from row to row stay linear;
  // masks of padding, and the addresses of other accesses, are taken apart again.
  void merge_pixels() {
    for (bool again = true; again;) {
      again = false;
      std::vector<Nest> all = nests_of(schedule_.ast);
      if (all.size() != 1 || all[0].bodies.empty()) return;
      const Nest& nest = all[0];
      if (!nest.bodies[0].multiplies_adds || nest.bodies[0].trips < 4096) return;
      double now = tiled_work(schedule_);
      int outputs = __builtin_popcountll(nest.output);
      for (int i = 0; i + 1 < outputs && !again; ++i) {
        uint64_t a = uint64_t{1} << i, b = a << 1;
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
    uint64_t vectors = 0, taken = 0;
    for (const Body& body : nest.bodies) {
      uint64_t around = body.reduce ? body.outer | body.inner : body.inner;
      if (around & vectors) continue; // it has its lanes already
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
      bool reduced = tile.vector & ~nest.output;
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

  // Two operands, each with output loops of its own: the inner loops walk over one operand again and again,
  // which should be the one that stays in the cache.
  void order_outputs(const Nest& nest, const Body& body, const Tile& tile) {
    if (tile.rows.empty() || !(tile.vector & nest.output)) return;
    uint64_t row = tile.rows[0].first, column = tile.vector, row_loops = 0, column_loops = 0;
    double row_bytes = 0, column_bytes = 0;
    for (const Access& a : body.loads) {
      bool of_row = (a.loops & row) && !(a.loops & column),
           of_column = (a.loops & column) && !(a.loops & row);
      if (of_row) row_bytes += a.elements * a.bytes, row_loops |= a.loops & nest.output;
      if (of_column) column_bytes += a.elements * a.bytes, column_loops |= a.loops & nest.output;
    }
    uint64_t shared = row_loops & column_loops;
    row_loops &= ~shared, column_loops &= ~shared;
    double cache = double(target_.l2_bytes) * 0.6;
    bool columns_inside = column_bytes <= cache && (row_bytes > cache || column_bytes <= row_bytes);
    put_inside(nest, columns_inside ? column_loops : row_loops, columns_inside ? row_loops : column_loops);
  }

  // Moves the loops that are still there inside of the others.
  void put_inside(const Nest& nest, uint64_t inner, uint64_t outer) {
    int64_t last = -1;
    for (uint64_t m = outer; m; m &= m - 1)
      if (int64_t axis = axis_of(nest.loop(m & -m)); find_range(schedule_.ast, axis)) last = axis;
    if (last < 0) return;
    uint64_t after = 0; // already inside
    for (uint64_t m = inner; m; m &= m - 1)
      if ((m & -m) > outer) after |= m & -m;
    for (uint64_t m = inner & ~after; m; m &= m - 1)
      if (int64_t axis = axis_of(nest.loop(m & -m)); find_range(schedule_.ast, axis))
        act(OptKind::Sink, axis, last);
  }

  void unroll(const Nest& nest, const Body& body, const Tile& tile) {
    int64_t copies = tile.instances();
    double code = std::max(1.0, tile.code);
    uint64_t masks = 0; // reduction loops that change the mask of a vector
    for (const Access& a : body.loads)
      if (a.gate & tile.vector) masks |= a.gate & body.inner;
    int64_t unrolled = 1;
    uint64_t gone = 0;
    // Masks are computed before the loop when what changes them is unrolled.
    for (uint64_t m = masks; m; m &= m - 1) {
      uint64_t loop = uint64_t{1} << (63 - __builtin_clzll(masks & ~gone));
      int64_t n = nest.extent(loop);
      if (double(unrolled * n) * tile.code > kMostCode || !act(OptKind::Unroll, axis_of(nest.loop(loop)), 0))
        break;
      unrolled *= n;
      gone |= loop;
    }
    // Else they should at least not be in the innermost loop.
    if (uint64_t left = masks & ~gone)
      for (uint64_t m = body.inner & ~masks; m; m &= m - 1) {
        uint64_t last = uint64_t{1} << (63 - __builtin_clzll(left));
        act(OptKind::Sink, axis_of(nest.loop(m & -m)), axis_of(nest.loop(last)));
      }
    if (unrolled > 1) return;
    // The innermost loop: whole when short; else enough of it to keep several accumulators busy.
    uint64_t last = uint64_t{1} << (63 - __builtin_clzll(body.inner));
    uint64_t target = tile.vector & body.inner ? tile.vector : last;
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

  // Tiles over the outermost loops, several for each thread so that none waits long for another.
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
