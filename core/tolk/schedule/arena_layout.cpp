#include "tolk/schedule/arena_layout.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>

#include "tolk/base/error.h"

namespace tolk::schedule {
namespace {

int64_t rounded(int64_t bytes) {
  if (bytes > INT64_MAX - kArenaAlignment)
    throw InvalidArgument("a temporary of " + std::to_string(bytes) + " bytes is too large to plan");
  return std::max<int64_t>((bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment,
                           kArenaAlignment);
}

// Placed blocks by lifetime: which are in use at some time of an interval.
class Timeline {
public:
  explicit Timeline(int times) : starts_(size_t(times)) {
    while (leaves_ < times) leaves_ *= 2;
    cover_.resize(size_t(2 * leaves_));
  }
  void add(int block, int first, int last) {
    starts_[size_t(first)].push_back(block);
    // The segments of the tree that make up the interval.
    for (int l = first + leaves_, r = last + leaves_ + 1; l < r; l /= 2, r /= 2) {
      if (l & 1) cover_[size_t(l++)].push_back(block);
      if (r & 1) cover_[size_t(--r)].push_back(block);
    }
  }
  // In use at `first`, or starting later up to `last`; each once.
  template <typename F> void meeting(int first, int last, F f) const {
    for (int at = first + leaves_; at >= 1; at /= 2)
      for (int block : cover_[size_t(at)]) f(block);
    for (int t = first + 1; t <= last; ++t)
      for (int block : starts_[size_t(t)]) f(block);
  }

private:
  int leaves_ = 1;
  std::vector<std::vector<int>> cover_, starts_;
};

int end_of_time(std::span<const Block> blocks) {
  int end = 0;
  for (const Block& b : blocks) end = std::max(end, b.last + 1);
  return end;
}

Layout by_falling_size(std::span<const Block> blocks) {
  Layout out;
  out.offsets.assign(blocks.size(), 0);
  std::vector<int> order(blocks.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return blocks[size_t(a)].bytes > blocks[size_t(b)].bytes; });
  Timeline placed(end_of_time(blocks));
  std::vector<std::pair<int64_t, int64_t>> taken;
  for (int i : order) {
    const Block& b = blocks[size_t(i)];
    int64_t size = rounded(b.bytes), at = 0;
    taken.clear();
    placed.meeting(b.first, b.last, [&](int other) {
      int64_t begin = out.offsets[size_t(other)];
      taken.emplace_back(begin, begin + rounded(blocks[size_t(other)].bytes));
    });
    std::sort(taken.begin(), taken.end());
    for (auto [begin, end] : taken) {
      if (begin - at >= size) break;
      at = std::max(at, end);
    }
    out.offsets[size_t(i)] = at;
    out.bytes = std::max(out.bytes, at + size);
    placed.add(i, b.first, b.last);
  }
  return out;
}

// Free stretches of an unbounded memory.
class FreeList {
public:
  int64_t take(int64_t size) {
    auto best = by_size_.lower_bound({size, 0});
    if (best == by_size_.end()) {
      // At the end, together with a free stretch that reaches it.
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
  using Stretches = std::map<int64_t, int64_t>; // begin to end
  void insert(int64_t begin, int64_t stop) {
    by_begin_[begin] = stop, by_size_.insert({stop - begin, begin});
  }
  void erase(Stretches::iterator it) {
    by_size_.erase({it->second - it->first, it->first}), by_begin_.erase(it);
  }
  Stretches by_begin_;
  std::set<std::pair<int64_t, int64_t>> by_size_;
  int64_t end_ = 0;
};

Layout by_time(std::span<const Block> blocks) {
  Layout out;
  out.offsets.assign(blocks.size(), 0);
  struct Event {
    int time, opens, block;
  };
  std::vector<Event> events;
  for (size_t i = 0; i < blocks.size(); ++i) {
    events.push_back({blocks[i].first, 1, int(i)});
    events.push_back({blocks[i].last + 1, 0, int(i)});
  }
  std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return std::pair(a.time, a.opens) < std::pair(b.time, b.opens);
  });
  FreeList memory;
  for (const Event& e : events) {
    int64_t size = rounded(blocks[size_t(e.block)].bytes);
    if (e.opens)
      out.offsets[size_t(e.block)] = memory.take(size);
    else
      memory.give(out.offsets[size_t(e.block)], size);
  }
  out.bytes = memory.end();
  return out;
}

} // namespace

Layout lay_out(std::span<const Block> blocks) {
  int64_t sum = 0;
  for (const Block& b : blocks)
    if (__builtin_add_overflow(sum, rounded(b.bytes), &sum))
      throw InvalidArgument("the temporaries of a schedule are too large to plan");
  Layout a = by_falling_size(blocks), b = by_time(blocks);
  return a.bytes <= b.bytes ? a : b;
}

void check_layout(std::span<const Block> blocks, const Layout& layout) {
  auto fail = [&](size_t i, const std::string& what) {
    throw InternalError("memory plan: block " + std::to_string(i) + " (" + std::to_string(blocks[i].bytes) +
                        " bytes at " + std::to_string(layout.offsets[i]) + ", times " +
                        std::to_string(blocks[i].first) + " to " + std::to_string(blocks[i].last) + ") " +
                        what);
  };
  if (layout.offsets.size() != blocks.size()) throw InternalError("memory plan: a block has no place");
  // Sweep over time; live blocks by offset.
  struct Event {
    int time, opens;
    size_t block;
  };
  std::vector<Event> events;
  for (size_t i = 0; i < blocks.size(); ++i) {
    int64_t at = layout.offsets[i];
    if (at < 0 || at % kArenaAlignment != 0) fail(i, "is not aligned");
    if (at + blocks[i].bytes > layout.bytes)
      fail(i, "leaves the arena of " + std::to_string(layout.bytes) + " bytes");
    events.push_back({blocks[i].first, 1, i});
    events.push_back({blocks[i].last + 1, 0, i});
  }
  std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return std::pair(a.time, a.opens) < std::pair(b.time, b.opens);
  });
  std::map<int64_t, size_t> live;
  auto meets = [&](size_t a, size_t b) {
    int64_t x = layout.offsets[a], y = layout.offsets[b];
    return x < y + std::max<int64_t>(blocks[b].bytes, 1) && y < x + std::max<int64_t>(blocks[a].bytes, 1);
  };
  for (const Event& e : events) {
    int64_t at = layout.offsets[e.block];
    if (!e.opens) {
      live.erase(at);
      continue;
    }
    auto next = live.lower_bound(at);
    if (next != live.end() && meets(e.block, next->second))
      fail(e.block, "overlaps block " + std::to_string(next->second));
    if (next != live.begin() && meets(e.block, std::prev(next)->second))
      fail(e.block, "overlaps block " + std::to_string(std::prev(next)->second));
    live[at] = e.block;
  }
}

} // namespace tolk::schedule
