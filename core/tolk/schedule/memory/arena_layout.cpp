#include "tolk/schedule/memory/arena_layout.h"

#include <algorithm>
#include <climits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>

#include "tolk/base/check.h"
#include "tolk/base/error.h"
#include "tolk/schedule/memory/tlsf.h"

namespace tolk::schedule {
namespace {

// Largest-first is tried for up to so many pairs of overlapping lifetimes: some 50 ns each.
constexpr size_t kMaxPairs = size_t(1) << 20, kMaxPairsPerBlock = 64;

struct Event {
  int block;
  bool opens;
};

// Begins and ends of lifetimes in order of time, ends first, then in order of the blocks.
std::vector<Event> events_of(std::span<const Block> blocks) {
  int end = 0;
  for (const Block& b : blocks) end = std::max(end, b.last + 2);
  std::vector<Event> events(2 * blocks.size());
  if (size_t(end) > 8 * blocks.size() + 1024) { // few blocks in a long time
    for (size_t i = 0; i < blocks.size(); ++i)
      events[2 * i] = {int(i), true}, events[2 * i + 1] = {int(i), false};
    auto key = [&](const Event& e) {
      const Block& b = blocks[size_t(e.block)];
      return std::pair(e.opens ? b.first : b.last + 1, e.opens);
    };
    std::stable_sort(events.begin(), events.end(),
                     [&](const Event& a, const Event& b) { return key(a) < key(b); });
    return events;
  }
  // Counted: two places for each time.
  std::vector<uint32_t> next(2 * size_t(end) + 1, 0);
  for (const Block& b : blocks) ++next[2 * size_t(b.first) + 2], ++next[2 * size_t(b.last + 1) + 1];
  std::partial_sum(next.begin(), next.end(), next.begin());
  for (size_t i = 0; i < blocks.size(); ++i) {
    events[next[2 * size_t(blocks[i].first) + 1]++] = {int(i), true};
    events[next[2 * size_t(blocks[i].last + 1)]++] = {int(i), false};
  }
  return events;
}

// Blocks as they are placed: sizes rounded up, lifetimes as events.
struct Task {
  std::span<const Block> blocks;
  std::vector<int64_t> sizes;
  std::vector<Event> events;
  int64_t sum = 0, alignment;

  Task(std::span<const Block> b, int64_t align) : blocks(b), alignment(align) {
    TOLK_CHECK(align >= kArenaAlignment && (align & (align - 1)) == 0,
               "an arena's alignment is a power of two of at least 256");
    for (const Block& block : blocks) {
      TOLK_CHECK(block.first >= 0 && block.last >= block.first,
                 "a block is in use from a time to a later one");
      if (block.bytes > INT64_MAX - align)
        throw InvalidArgument("a temporary of " + std::to_string(block.bytes) +
                              " bytes is too large to plan");
      sizes.push_back(std::max(align, (block.bytes + align - 1) / align * align));
      if (__builtin_add_overflow(sum, sizes.back(), &sum))
        throw InvalidArgument(
            "the temporaries of a schedule are too large to plan: together they exceed 63 bits");
    }
    events = events_of(blocks);
  }
};

// The blocks whose lifetimes overlap, for every block; nothing when there are too many pairs.
class OverlapGraph {
public:
  static std::optional<OverlapGraph> of(const Task& task) {
    size_t count = task.blocks.size(), max_pairs = kMaxPairs + kMaxPairsPerBlock * count;
    std::optional<size_t> pairs = pairs_of(task, max_pairs);
    if (!pairs) return {};
    OverlapGraph m;
    m.is_dense_ = *pairs > count * count / kFew;
    if (m.is_dense_) return m;
    // A block overlaps those that are alive when it opens. Counts both ends of every such pair first.
    std::vector<int> now, place(count);
    std::vector<uint32_t> next(count + 1, 0);
    auto sweep = [&](auto add) {
      now.clear();
      for (const Event& e : task.events) {
        if (e.opens) {
          for (int other : now) add(e.block, other);
          place[size_t(e.block)] = int(now.size());
          now.push_back(e.block);
        } else {
          int at = place[size_t(e.block)];
          now[size_t(at)] = now.back();
          place[size_t(now.back())] = at;
          now.pop_back();
        }
      }
    };
    sweep([&](int a, int b) { ++next[size_t(a) + 1], ++next[size_t(b) + 1]; });
    std::partial_sum(next.begin(), next.end(), next.begin());
    m.begin_ = next;
    m.others_.resize(2 * *pairs);
    sweep([&](int a, int b) { m.others_[next[size_t(a)]++] = b, m.others_[next[size_t(b)]++] = a; });
    return m;
  }
  std::span<const int> with(int block) const {
    return {others_.data() + begin_[size_t(block)], others_.data() + begin_[size_t(block) + 1]};
  }

  // Whether so many pairs overlap that comparing with all blocks is quicker than sorting a list. There are no
  // lists then.
  bool is_dense() const { return is_dense_; }

private:
  static constexpr size_t kFew = 32;

  // Nothing for more than `max`.
  static std::optional<size_t> pairs_of(const Task& task, size_t max) {
    size_t pairs = 0, alive = 0;
    for (const Event& e : task.events) {
      if (e.opens)
        pairs += alive++;
      else
        --alive;
      if (pairs > max) return {};
    }
    return pairs;
  }

  bool is_dense_ = false;
  std::vector<uint32_t> begin_;
  std::vector<int> others_;
};

Layout largest_first(const Task& task);

// Blocks whose lifetime overlaps every other's share their bytes with none: they are placed below the rest,
// without a search. Nothing when there are no such blocks.
std::optional<Layout> some_apart(const Task& task) {
  int first_end = INT_MAX, last_begin = 0;
  for (const Block& b : task.blocks)
    first_end = std::min(first_end, b.last), last_begin = std::max(last_begin, b.first);
  Layout out;
  std::vector<Block> rest;
  std::vector<size_t> number;
  for (size_t i = 0; i < task.blocks.size(); ++i) {
    const Block& b = task.blocks[i];
    out.offsets.push_back(out.bytes);
    if (b.first <= first_end && last_begin <= b.last)
      out.bytes += task.sizes[i];
    else
      rest.push_back(b), number.push_back(i);
  }
  if (rest.size() == task.blocks.size()) return {};
  if (rest.empty()) return out;
  Layout above = largest_first(Task(rest, task.alignment));
  if (above.offsets.empty()) return above;
  for (size_t i = 0; i < rest.size(); ++i) out.offsets[number[i]] = out.bytes + above.offsets[i];
  out.bytes += above.bytes;
  return out;
}

Layout largest_first(const Task& task) {
  if (std::optional<Layout> apart = some_apart(task)) return *apart;
  Layout out;
  std::optional<OverlapGraph> overlaps = OverlapGraph::of(task);
  if (!overlaps) return out;
  constexpr int64_t kNowhere = -1;
  out.offsets.assign(task.blocks.size(), kNowhere);
  std::vector<int> order(task.blocks.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return task.blocks[size_t(a)].bytes > task.blocks[size_t(b)].bytes; });
  struct Place {
    int64_t begin, end;
    int first, last;
    auto operator<=>(const Place&) const = default;
  };
  std::vector<Place> taken; // all that are placed, in a dense graph
  struct Region {
    int64_t begin, end;
  };
  std::vector<Region> near; // otherwise those that overlap the block
  auto place_of = [&](int i) {
    const Block& b = task.blocks[size_t(i)];
    int64_t begin = out.offsets[size_t(i)];
    return Place{begin, begin + task.sizes[size_t(i)], b.first, b.last};
  };
  for (int i : order) {
    const Block& block = task.blocks[size_t(i)];
    int64_t size = task.sizes[size_t(i)], at = 0;
    if (!overlaps->is_dense()) {
      near.clear();
      for (int other : overlaps->with(i))
        if (int64_t begin = out.offsets[size_t(other)]; begin != kNowhere)
          near.push_back({begin, begin + task.sizes[size_t(other)]});
      // From the lowest up to the first gap: seldom all of them.
      auto higher = [](const Region& a, const Region& b) { return a.begin > b.begin; };
      std::make_heap(near.begin(), near.end(), higher);
      while (!near.empty() && near.front().begin - at < size) {
        at = std::max(at, near.front().end);
        std::pop_heap(near.begin(), near.end(), higher);
        near.pop_back();
      }
    }
    for (const Place& p : taken) {
      if (p.last < block.first || block.last < p.first) continue;
      if (p.begin - at >= size) break;
      at = std::max(at, p.end);
    }
    out.offsets[size_t(i)] = at;
    if (overlaps->is_dense()) {
      Place place = place_of(i);
      taken.insert(std::upper_bound(taken.begin(), taken.end(), place), place);
    }
    out.bytes = std::max(out.bytes, at + size);
  }
  return out;
}

// Free regions of an unbounded memory.
class FreeList {
public:
  int64_t take(int64_t size) {
    auto best = by_size_.lower_bound({size, 0});
    if (best == by_size_.end()) {
      // At the end, together with a free region that reaches it.
      int64_t at = end_;
      if (!by_begin_.empty() && std::prev(by_begin_.end())->second == end_) {
        at = std::prev(by_begin_.end())->first;
        erase(std::prev(by_begin_.end()));
      }
      end_ = at + size;
      return at;
    }
    int64_t at = best->second;
    auto it = by_begin_.find(at);
    int64_t stop = it->second;
    erase(it);
    if (at + size < stop) insert(at + size, stop);
    return at;
  }
  void give(int64_t begin, int64_t size) {
    int64_t stop = begin + size;
    auto next = by_begin_.lower_bound(begin);
    if (next != by_begin_.end() && next->first == stop) {
      stop = next->second;
      erase(next);
    }
    next = by_begin_.lower_bound(begin);
    if (next != by_begin_.begin() && std::prev(next)->second == begin) {
      begin = std::prev(next)->first;
      erase(std::prev(next));
    }
    insert(begin, stop);
  }
  int64_t end() const { return end_; }

private:
  using Regions = std::map<int64_t, int64_t>; // begin to end
  void insert(int64_t begin, int64_t stop) {
    by_begin_[begin] = stop, by_size_.insert({stop - begin, begin});
  }
  void erase(Regions::iterator it) {
    by_size_.erase({it->second - it->first, it->first}), by_begin_.erase(it);
  }
  Regions by_begin_;
  std::set<std::pair<int64_t, int64_t>> by_size_;
  int64_t end_ = 0;
};

// `take(size)` gives an offset, `give(offset, size)` takes it back.
template <typename Take, typename Give> Layout by_time(const Task& task, Take take, Give give) {
  Layout out;
  out.offsets.assign(task.blocks.size(), 0);
  for (const Event& e : task.events) {
    int64_t size = task.sizes[size_t(e.block)], &offset = out.offsets[size_t(e.block)];
    if (!e.opens) {
      give(offset, size);
      continue;
    }
    offset = take(size);
    out.bytes = std::max(out.bytes, offset + size);
  }
  return out;
}

Layout best_fit(const Task& task) {
  FreeList memory;
  return by_time(
      task, [&](int64_t size) { return memory.take(size); },
      [&](int64_t offset, int64_t size) { memory.give(offset, size); });
}

// Twice the sum leaves room for rounding up to buckets.
Layout tlsf(const Task& task) {
  if (task.sum > INT64_MAX / 4) return {};
  Tlsf memory(2 * task.sum, task.alignment, 32);
  return by_time(
      task, [&](int64_t size) { return memory.allocate(size); },
      [&](int64_t offset, int64_t) { memory.release(offset); });
}

} // namespace

LayoutCandidates layout_candidates(std::span<const Block> blocks, int64_t alignment) {
  Task task(blocks, alignment);
  return {largest_first(task), best_fit(task), tlsf(task)};
}

Layout assign_offsets(std::span<const Block> blocks, int64_t alignment) {
  if (blocks.empty()) return {};
  LayoutCandidates all = layout_candidates(blocks, alignment);
  Layout best = std::move(all.largest_first);
  for (Layout* other : {&all.best_fit, &all.tlsf})
    if (best.offsets.empty() || (!other->offsets.empty() && other->bytes < best.bytes))
      best = std::move(*other);
  return best;
}

void check_layout(std::span<const Block> blocks, const Layout& layout, int64_t alignment) {
  auto fail = [&](size_t i, const std::string& what) {
    throw InternalError("memory plan: block " + std::to_string(i) + " (" + std::to_string(blocks[i].bytes) +
                        " bytes at " + std::to_string(layout.offsets[i]) + ", times " +
                        std::to_string(blocks[i].first) + " to " + std::to_string(blocks[i].last) + ") " +
                        what);
  };
  if (layout.offsets.size() != blocks.size()) throw InternalError("memory plan: a block has no place");
  for (size_t i = 0; i < blocks.size(); ++i) {
    int64_t at = layout.offsets[i];
    if (at < 0 || at % alignment != 0) fail(i, "is not aligned");
    if (at + blocks[i].bytes > layout.bytes)
      fail(i, "leaves the arena of " + std::to_string(layout.bytes) + " bytes");
  }
  // Sweep over time; live blocks by offset.
  std::map<int64_t, size_t> live;
  auto overlap = [&](size_t a, size_t b) {
    int64_t x = layout.offsets[a], y = layout.offsets[b];
    return x < y + std::max<int64_t>(blocks[b].bytes, 1) && y < x + std::max<int64_t>(blocks[a].bytes, 1);
  };
  for (const Event& e : events_of(blocks)) {
    auto block = size_t(e.block);
    int64_t at = layout.offsets[block];
    if (!e.opens) {
      live.erase(at);
      continue;
    }
    auto next = live.lower_bound(at);
    if (next != live.end() && overlap(block, next->second))
      fail(block, "overlaps block " + std::to_string(next->second));
    if (next != live.begin() && overlap(block, std::prev(next)->second))
      fail(block, "overlaps block " + std::to_string(std::prev(next)->second));
    live[at] = block;
  }
}

} // namespace tolk::schedule
