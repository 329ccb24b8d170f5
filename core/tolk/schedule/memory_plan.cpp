#include "tolk/schedule/memory_plan.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "tolk/base/error.h"
#include "tolk/base/log.h"
#include "tolk/schedule/arena_layout.h"
#include "tolk/uop/build.h"

namespace tolk::schedule {
namespace {

struct Temporary {
  UOp buffer;
  Block block;
  bool copied = false; // a COPY reads or writes it
  bool planned = true;
  size_t lane = 0, place = 0; // its arena, its number there
};

const std::string kHost = "HOST";

constexpr OpSet kNaming(Op::SLICE, Op::MSELECT, Op::MSTACK); // what arguments name storage with

template <typename Visit> void for_each_base(const UOp& argument, const Visit& visit) {
  if (!argument.is(kNaming)) return visit(argument);
  for (const UOp& s : argument.src()) for_each_base(s, visit);
}

bool on_host(const UOp& argument) {
  bool found = false;
  for_each_base(argument,
                [&](const UOp& base) { found |= base.is(Op::BUFFER) && device_text(base) == kHost; });
  return found;
}

// Which arguments the body writes. Kernels that were not made here may write any of their PARAMs.
std::vector<bool> written_arguments(const UOp& call) {
  std::vector<bool> written(call.nsrc() - 1, false);
  const UOp& body = call.src(0);
  if (body.is(Op::COPY)) {
    written[0] = true;
  } else if (body.is(Op::SINK)) {
    for (const UOp& effect : body.src()) {
      const UOp* at = &effect;
      while (at->is(Op::END)) at = &at->src(0);
      if (at->is(Op::STORE) && at->src(0).is(Op::PARAM)) written[size_t(slot_of(at->src(0)))] = true;
    }
  } else {
    written.assign(written.size(), true);
  }
  return written;
}

int64_t bytes_of(const UOp& buffer) {
  try {
    uint64_t bytes = storage_bytes(buffer.dtype(), uint64_t(elements_of(buffer)));
    if (bytes <= uint64_t(INT64_MAX)) return int64_t(bytes);
  } catch (const InvalidArgument&) {
  }
  throw InvalidArgument("a temporary of " + std::to_string(elements_of(buffer)) +
                        " elements is too large to plan");
}

class Planner {
public:
  Planner(const UOp& linear, std::span<const UOp> held) : linear_(linear), held_(held.begin(), held.end()) {}

  UOp run(MemoryPlanStats* stats) {
    for (size_t i = 0; i < linear_.nsrc(); ++i) collect(linear_.src(i), int(i));
    divide();
    if (lanes_.empty()) return linear_;
    MemoryPlanStats sums;
    std::vector<Layout> layouts;
    std::vector<UOp> arenas;
    for (const Lane& lane : lanes_) {
      Layout layout = lay_out(lane.blocks);
#ifdef TOLK_VERIFY
      check_layout(lane.blocks, layout);
#endif
      for (const Block& b : lane.blocks) sums.bytes_before += b.bytes;
      sums.buffers += lane.blocks.size();
      sums.bytes_after += layout.bytes;
      arenas.push_back(buffer_node(fresh_internal_slot(), DType::I8, layout.bytes, *lane.device));
      layouts.push_back(std::move(layout));
    }
    sums.arenas = arenas.size();
    if (stats) *stats = sums;
    std::unordered_map<const UOpNode*, UOp> places;
    for (const Temporary& t : temporaries_)
      if (t.planned)
        places[t.buffer.node()] = slice_node(arenas[t.lane], t.buffer.dtype(),
                                             layouts[t.lane].offsets[t.place], elements_of(t.buffer));
    std::vector<UOp> calls;
    for (const UOp& call : linear_.src()) calls.push_back(replaced(call, places));
    return with_sources(linear_, calls);
  }

private:
  struct Lane {
    const std::string* device;
    bool copies;
    std::vector<Block> blocks;
  };

  void collect(const UOp& call, int time) {
    if (!call.is(Op::CALL)) return;
    std::vector<bool> written = written_arguments(call);
    bool copy = call.src(0).is(Op::COPY);
    for (size_t i = 1; i < call.nsrc(); ++i)
      for_each_base(call.src(i), [&](const UOp& base) {
        if (!base.is(Op::BUFFER) || slot_of(base) >= 0 || elements_of(base) == 0 || held_.contains(base))
          return;
        auto [it, fresh] = number_.emplace(base.node(), temporaries_.size());
        if (fresh) {
          Temporary t;
          t.buffer = base, t.block = {time, time, bytes_of(base)};
          // Contents from elsewhere, when it is read before anything here wrote it.
          t.planned = written[i - 1];
          temporaries_.push_back(std::move(t));
        }
        Temporary& t = temporaries_[it->second];
        t.block.last = time;
        t.copied |= copy;
        if (copy && i == 1 && on_host(call.src(2))) t.planned = false;
      });
  }

  void divide() {
    std::map<std::pair<std::string, bool>, size_t> lane_of;
    for (Temporary& t : temporaries_) {
      if (!t.planned) continue;
      const std::string& device = device_text(t.buffer);
      auto [it, fresh] = lane_of.emplace(std::pair(device, t.copied), lanes_.size());
      if (fresh) lanes_.push_back({&device_text(t.buffer), t.copied, {}});
      t.lane = it->second, t.place = lanes_[t.lane].blocks.size();
      if (t.copied) t.block.last += t.block.last - t.block.first + 1;
      lanes_[t.lane].blocks.push_back(t.block);
    }
  }

  static UOp replaced(const UOp& call, const std::unordered_map<const UOpNode*, UOp>& places) {
    std::vector<UOp> src(call.src().begin(), call.src().end());
    bool changed = false;
    for (size_t i = 1; i < src.size(); ++i) {
      src[i] = placed(src[i], places);
      changed |= src[i] != call.src(i);
    }
    return changed ? with_sources(call, src) : call;
  }

  static UOp placed(const UOp& argument, const std::unordered_map<const UOpNode*, UOp>& places) {
    if (!argument.is(kNaming)) {
      auto it = places.find(argument.node());
      return it == places.end() ? argument : it->second;
    }
    std::vector<UOp> src;
    for (const UOp& s : argument.src()) src.push_back(placed(s, places));
    if (argument.is(Op::SLICE) && src[0].is(Op::SLICE))
      return slice_node(src[0].src(0), argument.dtype(), src[0].arg().i(0) + argument.arg().i(0),
                        elements_of(argument));
    return std::equal(src.begin(), src.end(), argument.src().begin()) ? argument
                                                                      : with_sources(argument, src);
  }

  const UOp& linear_;
  std::unordered_set<UOp, UOpHash> held_;
  std::vector<Temporary> temporaries_;
  std::unordered_map<const UOpNode*, size_t> number_;
  std::vector<Lane> lanes_;
};

} // namespace

UOp plan_memory(const UOp& linear, std::span<const UOp> held, MemoryPlanStats* stats) {
  if (!linear.is(Op::LINEAR)) return linear;
  return Planner(linear, held).run(stats);
}

} // namespace tolk::schedule
