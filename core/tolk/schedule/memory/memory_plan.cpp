#include "tolk/schedule/memory/memory_plan.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "tolk/base/config.h"
#include "tolk/base/error.h"
#include "tolk/base/log.h"
#include "tolk/schedule/fuse/access.h"
#include "tolk/schedule/memory/arena_layout.h"
#include "tolk/uop/build.h"
#include "tolk/uop/storage_ref.h"
#include "tolk/uop/traverse.h"

namespace tolk::schedule {
namespace {

const std::string kHost = "HOST";

bool on_host(const UOp& argument) {
  return std::ranges::count(split_devices(device_of(argument)), kHost) > 0;
}

int64_t bytes_of(const UOp& buffer) {
  uint64_t bytes;
  try {
    bytes = storage_bytes(buffer.dtype(), uint64_t(elements_of(buffer)));
  } catch (const InvalidArgument&) {
    bytes = UINT64_MAX;
  }
  if (bytes <= uint64_t(INT64_MAX)) return int64_t(bytes);
  throw InvalidArgument("a temporary of " + std::to_string(elements_of(buffer)) +
                        " elements is too large to plan");
}

// Bytes of one buffer that something wrote, as disjoint ranges in order.
class Written {
public:
  void add(int64_t begin, int64_t end) {
    auto it = std::lower_bound(ranges_.begin(), ranges_.end(), begin,
                               [](const auto& s, int64_t b) { return s.second < b; });
    auto last = it;
    for (; last != ranges_.end() && last->first <= end; ++last)
      begin = std::min(begin, last->first), end = std::max(end, last->second);
    it = ranges_.erase(it, last);
    ranges_.insert(it, {begin, end});
  }
  bool has(int64_t begin, int64_t end) const {
    for (auto [b, e] : ranges_)
      if (b <= begin && end <= e) return true;
    return begin >= end;
  }

private:
  std::vector<std::pair<int64_t, int64_t>> ranges_;
};

struct Temporary {
  UOp buffer; // not looked at again once these are known: a schedule's nodes lie far apart
  int64_t elements = 0;
  Block block;
  uint32_t device = 0, positions = 1; // in Planner::devices_; of its tuple
  uint32_t lane = 0, place = 0;       // its arena, its number there
  DType dtype = DType::Void;
  bool copied = false; // a COPY reads or writes it
  bool planned = true;
  bool all_written = false; // or else Planner::written_ has what is
};

class Planner {
public:
  Planner(const UOp& linear, std::span<const UOp> held, const ViewLimitsTable& limits)
      : linear_(linear), limits_(limits), held_(held.begin(), held.end()) {}

  UOp run(MemoryPlanStats* stats) {
    temporaries_.reserve(linear_.nsrc()), direct_.reserve(4 * linear_.nsrc());
    for (size_t i = 0; i < linear_.nsrc(); ++i) collect(linear_.src(i), int(i));
    divide();
    MemoryPlanStats sums;
    for (Lane& lane : lanes_) plan_lane(lane, sums);
    if (stats) *stats = sums;
    if (sums.buffers == 0) return linear_;
    report(sums);
    places_.resize(temporaries_.size());
    for (size_t i = 0; i < temporaries_.size(); ++i) {
      const Temporary& t = temporaries_[i];
      if (!t.planned) continue;
      const Lane& lane = lanes_[t.lane];
      places_[i] = slice_node(lane.arena, t.dtype, lane.layout.offsets[t.place], t.elements);
    }
    std::vector<UOp> items;
    items.reserve(linear_.nsrc());
    const uint32_t* direct = direct_.data();
    for (const UOp& item : linear_.src()) items.push_back(placed(item, direct));
    return with_sources(linear_, items);
  }

private:
  struct Lane {
    std::string device;
    ViewLimits limits;
    std::vector<size_t> members; // temporaries
    Layout layout;
    UOp arena;
  };

  // The item over places. `direct` runs along direct_.
  UOp placed(const UOp& item, const uint32_t*& direct) {
    if (item.is(Op::END)) {
      std::vector<UOp> src(item.src().begin(), item.src().end());
      src[0] = placed(src[0], direct);
      return src[0] == item.src(0) ? item : with_sources(item, src);
    }
    if (!item.is(Op::CALL)) return item;
    src_.assign({item.src(0)});
    bool changed = false;
    for (size_t i = 1; i < item.nsrc(); ++i) {
      uint32_t number = *direct++;
      if (number && places_[number - 1]) {
        src_.push_back(places_[number - 1]);
        changed = true;
        continue;
      }
      const UOp& argument = item.src(i);
      src_.push_back(number ? argument : with_storage(argument, [&](const UOp& buffer) {
        uint32_t n = number_.get(buffer);
        return n ? places_[n - 1] : UOp();
      }));
      changed |= src_.back() != argument;
    }
    return changed ? with_sources(item, src_) : item;
  }

  size_t device_number(const std::string& device) {
    if (devices_.empty() || devices_[last_device_] != device) {
      last_device_ = size_t(std::ranges::find(devices_, device) - devices_.begin());
      if (last_device_ == devices_.size()) devices_.push_back(device);
    }
    return last_device_;
  }

  ViewLimits limits_of(const std::string& device) const {
    ViewLimits all;
    if (limits_.empty()) return all;
    for (const std::string& one : split_devices(device)) {
      auto it = limits_.find(one);
      if (it == limits_.end()) continue;
      const ViewLimits& its = it->second;
      all.alignment = all.alignment == 0 || its.alignment == 0 ? 0 : std::max(all.alignment, its.alignment);
      all.largest_offset = std::min(all.largest_offset, its.largest_offset);
    }
    return all;
  }

  void collect(const UOp& item, int time) {
    if (item.is(Op::END)) return collect(item.src(0), time);
    const UOp& call = item;
    if (!call.is(Op::CALL)) return;
    bool copy = call.src(0).is(Op::COPY), view = call.src(0).is(Op::SLICE);
    const AccessTable::Facts& facts = accesses_.of(call.src(0));
    touched_.clear();
    size_t k = 0;
    for (size_t i = 1; i < call.nsrc(); ++i) {
      const UOp& argument = call.src(i);
      direct_.push_back(0);
      if (!is_storage_argument(argument)) continue;
      size_t before = touched_.size();
      if (argument.is(Op::BUFFER)) // mostly
        touch({argument}, time, facts.of(k));
      else
        for (const StoragePart& p : storage_parts(argument)) touch(p, time, facts.of(k));
      if (argument.is(Op::BUFFER) && touched_.size() > before)
        direct_.back() = uint32_t(touched_.back().number) + 1;
      // The call that names a held view of a temporary makes it as long-lived as the view.
      for (size_t n = before; view && n < touched_.size(); ++n) temporary(touched_[n].number).planned = false;
      if (copy && k == 0 && call.nsrc() > 2 && on_host(call.src(2)))
        for (size_t n = before; n < touched_.size(); ++n) temporary(touched_[n].number).planned = false;
      ++k;
    }
    // What a call reads was there before it; what it writes is there afterwards.
    for (const Touch& touch : touched_) {
      Temporary& t = temporary(touch.number);
      t.copied |= copy;
      if (facts.known && touch.access.reads && t.planned && !covered(touch, true)) {
        t.planned = false;
        if (log::enabled(1))
          log::debug(1, "memory plan: buffer " + std::to_string(slot_of(t.buffer)) + " on " +
                            device_text(t.buffer) + " keeps storage of its own: call " +
                            std::to_string(time) + " reads what nothing before it wrote");
      }
    }
    for (const Touch& touch : touched_)
      if (touch.access.writes && touch.certain) covered(touch, false);
  }

  struct Touch {
    size_t number;
    int64_t begin, end, position;
    bool certain;
    Access access;
  };
  Temporary& temporary(size_t number) { return temporaries_[number]; }

  void touch(const StoragePart& part, int time, Access access) {
    const UOp& buffer = part.base;
    if (!buffer.is(Op::BUFFER)) return;
    uint32_t& number = number_[buffer];
    if (!number) {
      if (slot_of(buffer) >= 0) return; // not counted: asked for again each time
      number = uint32_t(temporaries_.size()) + 1;
      Temporary t;
      t.buffer = buffer, t.dtype = buffer.dtype(), t.elements = elements_of(buffer);
      t.device = uint32_t(device_number(device_text(buffer)));
      t.block = {time, time, bytes_of(buffer)};
      t.positions = uint32_t(std::ranges::count(devices_[t.device], ',')) + 1;
      t.planned = t.elements > 0 && (held_.empty() || !held_.contains(buffer));
      temporaries_.push_back(std::move(t));
    }
    Temporary& t = temporaries_[number - 1];
    t.block.last = time;
    touched_.push_back({number - 1, part.begin, part.end == StoragePart::kEnd ? t.block.bytes : part.end,
                        part.position, part.exact, access});
  }

  // Whether the bytes were written, or notes that they are now.
  bool covered(const Touch& touch, bool ask) {
    Temporary& t = temporary(touch.number);
    if (t.all_written) return true;
    if (!ask && touch.position < 0 && touch.begin == 0 && touch.end == t.block.bytes)
      return t.all_written = true;
    int64_t first = touch.position < 0 ? 0 : touch.position,
            last = touch.position < 0 ? int64_t(t.positions) - 1 : touch.position;
    if (t.positions == 1) first = last = 0;
    Written& written = written_[touch.number];
    // Every position has a range of its own; sizes near 2^63 on many devices do not fit and are refused.
    for (int64_t p = first; p <= last; ++p) {
      int64_t base;
      if (__builtin_mul_overflow(p, t.block.bytes, &base) || base > INT64_MAX - t.block.bytes)
        throw InvalidArgument("a temporary on " + std::to_string(t.positions) +
                              " devices is too large to plan");
      if (!ask)
        written.add(base + touch.begin, base + touch.end);
      else if (!written.has(base + touch.begin, base + touch.end))
        return false;
    }
    return true;
  }

  void divide() {
    std::map<std::pair<uint32_t, bool>, size_t> lane_of;
    for (size_t i = 0; i < temporaries_.size(); ++i) {
      Temporary& t = temporaries_[i];
      if (!t.planned) continue;
      auto [it, fresh] = lane_of.try_emplace(std::pair(t.device, t.copied), lanes_.size());
      if (fresh) lanes_.push_back({devices_[t.device], limits_of(devices_[t.device]), {}, {}, {}});
      Lane& lane = lanes_[it->second];
      if (lane.limits.alignment == 0) {
        t.planned = false;
        continue;
      }
      if (t.copied) t.block.last += t.block.last - t.block.first + 1;
      t.lane = uint32_t(it->second);
      lane.members.push_back(i);
    }
  }

  void plan_lane(Lane& lane, MemoryPlanStats& sums) {
    int64_t alignment = std::max(kArenaAlignment, lane.limits.alignment);
    std::vector<Block> blocks;
    // Again without those that came to lie where the device cannot reach them.
    for (bool done = false; !done && !lane.members.empty();) {
      done = true;
      blocks.clear();
      for (size_t i : lane.members) blocks.push_back(temporaries_[i].block);
      lane.layout = assign_offsets(blocks, alignment);
      size_t kept = 0;
      for (size_t k = 0; k < lane.members.size(); ++k) {
        Temporary& t = temporaries_[lane.members[k]];
        t.planned = lane.layout.offsets[k] <= lane.limits.largest_offset;
        t.place = uint32_t(kept);
        done &= t.planned;
        if (t.planned) lane.members[kept++] = lane.members[k];
      }
      lane.members.resize(kept);
    }
    if (lane.members.empty()) return;
#ifdef TOLK_VERIFY
    check_layout(blocks, lane.layout, alignment);
#endif
    for (const Block& b : blocks) sums.bytes_before += b.bytes;
    sums.buffers += blocks.size();
    sums.bytes_after += lane.layout.bytes;
    ++sums.arenas;
    lane.arena = buffer_node(fresh_internal_slot(), DType::I8, lane.layout.bytes, lane.device);
  }

  static void report(const MemoryPlanStats& sums) {
    if (!log::enabled(1) || sums.bytes_before == sums.bytes_after) return;
    char text[160];
    std::snprintf(text, sizeof text, "memory reduced from %.2f MB -> %.2f MB, %zu -> %zu bufs",
                  double(sums.bytes_before) / 1e6, double(sums.bytes_after) / 1e6, sums.buffers, sums.arenas);
    log::debug(1, text);
  }

  const UOp& linear_;
  const ViewLimitsTable& limits_;
  std::unordered_set<UOp, UOpHash> held_;
  AccessTable accesses_;
  std::vector<Touch> touched_;
  std::vector<Temporary> temporaries_;
  std::unordered_map<size_t, Written> written_; // by temporary, one position after the other
  std::vector<std::string> devices_;
  size_t last_device_ = 0;
  std::vector<uint32_t> direct_; // by argument of the calls: the temporary that it is, from 1; or 0
  std::vector<UOp> places_, src_;
  NodeNumbers number_; // in temporaries_, from 1
  std::vector<Lane> lanes_;
};

} // namespace

UOp inline_slice_calls(const UOp& linear, std::span<const UOp> held) {
  auto is_view = [](const UOp& call) { return call.is(Op::CALL) && call.src(0).is(Op::SLICE); };
  if (!linear.is(Op::LINEAR) || std::ranges::none_of(linear.src(), is_view)) return linear;
  std::unordered_set<UOp, UOpHash> kept(held.begin(), held.end());
  UOpMap views;
  auto inlined = [&](const UOp& argument) {
    return with_storage(argument, [&](const UOp& buffer) {
      auto it = views.find(buffer);
      return it == views.end() ? UOp() : it->second;
    });
  };
  std::vector<UOp> calls, src;
  for (const UOp& call : linear.src()) {
    if (!call.is(Op::CALL)) {
      calls.push_back(call);
      continue;
    }
    bool view = is_view(call) && call.nsrc() == 3;
    src.assign(call.src().begin(), call.src().end());
    // The name that a SLICE call gives is not a use of what the name meant before.
    for (size_t i = view ? 2 : 1; i < src.size(); ++i) src[i] = inlined(src[i]);
    if (view && src[1].is(Op::BUFFER)) {
      if (!kept.contains(src[1])) {
        views[src[1]] = slice_over(src[0], src[2]);
        continue;
      }
      views.erase(src[1]);
    }
    calls.push_back(with_sources(call, src));
  }
  return with_sources(linear, calls);
}

UOp plan_memory(const UOp& linear, std::span<const UOp> held, MemoryPlanStats* stats,
                const ViewLimitsTable& limits) {
  if (stats) *stats = {};
  if (!linear.is(Op::LINEAR) || Config::current().no_memory_planner != 0) return linear;
  UOp list = inline_slice_calls(linear, held);
  return Planner(list, held, limits).run(stats);
}

} // namespace tolk::schedule
