// Shorthands of the scheduling tests.
#pragma once

#include <string>
#include <vector>

#include "host_graph.h"
#include "mini_tensor.h"
#include "tolk/schedule/schedule.h"
#include "tolk/uop/print.h"

namespace support {

inline tolk::schedule::Options options() {
  tolk::schedule::Options o;
  o.default_device = "CPU";
  o.cache = false;
  return o;
}

// For Options::max_kernel_buffers; none for 0.
inline tolk::schedule::BufferLimits buffer_limit(int limit) {
  if (limit == 0) return {};
  return {{"CPU", limit}};
}

inline tolk::schedule::Schedule schedule(const std::vector<mini::T>& roots,
                                         const tolk::schedule::Options& o = options()) {
  std::vector<tolk::UOp> nodes;
  for (const mini::T& t : roots) nodes.push_back(t.u);
  return tolk::schedule::create_schedule(nodes, o);
}

inline std::string listing(const tolk::UOp& linear) {
  std::string text;
  for (const tolk::UOp& call : linear.src())
    text += call.src(0).is(tolk::Op::SINK) ? tolk::print_kernel(call.src(0))
                                           : tolk::print_line(call.src(0)) + "\n";
  return text;
}

// The BUFFER below a view.
inline tolk::UOp storage(const mini::T& t) { return tolk::storage_of(t.u); }

inline std::vector<double> values(const tolk::UOp& u, host::Memory& memory,
                                  const host::Variables& vars = {}) {
  return host::as_doubles(host::value_of(u, memory, vars), u.dtype());
}

inline std::vector<double> ramp(int64_t n, double first = 0) {
  std::vector<double> out;
  for (int64_t i = 0; i < n; ++i) out.push_back(first + double(i));
  return out;
}

} // namespace support
