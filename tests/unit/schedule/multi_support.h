// Values on several devices in scheduling tests: what a schedule computes for a sharded graph, next to the
// same graph on one device, evaluated node by node.
#pragma once

#include <vector>

#include "schedule_support.h"
#include "tolk/schedule/tensor/shard.h"
#include "tolk/uop/traverse.h"

namespace support {

using Devices = std::vector<std::string>;

inline Devices devices(size_t count) {
  Devices out = {"CPU"};
  while (out.size() < count) out.push_back("CPU:" + std::to_string(out.size()));
  return out;
}

inline mini::T shard(const mini::T& x, const Devices& on, int64_t axis) {
  return {tolk::schedule::sharded(x.u, on, axis)};
}
inline mini::T replicate(const mini::T& x, const Devices& on) {
  return {tolk::schedule::replicated(x.u, on)};
}
inline mini::T to(const mini::T& x, const std::string& device) { return {tolk::copy_to(x.u, device)}; }

// What one position has of a result, which is a view of storage.
inline std::vector<double> part(const tolk::UOp& result, size_t position, host::Memory& memory,
                                const host::Variables& vars = {}) {
  tolk::UOp view = result.is(tolk::Op::MULTI) ? result.src(0) : result;
  tolk::UOp buffer = tolk::storage_of(view);
  tolk::UOpMap map{{buffer, tolk::mselect(buffer, int64_t(position))}};
  return values(tolk::substitute(view, map), memory, vars);
}

// The schedule run on the memory; `part`s of the results are there afterwards.
inline tolk::schedule::Schedule run(const std::vector<mini::T>& roots, host::Memory& memory,
                                    const tolk::schedule::Options& o = options()) {
  tolk::schedule::Schedule s = schedule(roots, o);
  host::run_linear(s.linear, memory, s.vars);
  return s;
}

// Whole value of a result, whatever it is on: parts put together by plain loops. Replicas must agree.
std::vector<double> whole(const tolk::UOp& result, host::Memory& memory);

struct Calls {
  size_t copies = 0, kernels = 0;
};
inline Calls calls(const tolk::UOp& linear) {
  Calls out;
  for (const tolk::UOp& call : linear.src()) ++(call.src(0).is(tolk::Op::COPY) ? out.copies : out.kernels);
  return out;
}

} // namespace support
