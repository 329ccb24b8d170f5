// All-reduce over a device tuple, as copies and elementwise operations.
//
//   naive       every position receives all other values and reduces them itself
//   ring        the value in as many chunks as positions; each chunk goes around once to be reduced and once to
//               be distributed, so every link carries little
//   all to all  each position reduces one chunk, received from all others directly, and broadcasts it
#pragma once

#include <string>
#include <vector>

#include "tolk/schedule/options.h"
#include "tolk/uop/uop.h"

namespace tolk::schedule {

// A value of `whole`'s shape from equally shaped parts that lie one behind the other along the axis. Bits are
// kept. Parts may be on any device; all of one value on the same.
UOp joined_parts(std::span<const UOp> parts, int axis);

// `part`, which is on `from`, on the devices: the value itself where it already is.
UOp handed_out(const UOp& part, const std::vector<std::string>& devices);

// One value per position of `devices`, combined by ADD, MUL or MAX in the order of the positions (the ring:
// in an order that differs from chunk to chunk, but is the same for every result). The result is a replica,
// bit for bit. Two positions, few elements and symbolic sizes are done the naive way unless the options
// force another.
UOp lowered_allreduce(std::span<const UOp> parts, Op op, const std::vector<std::string>& devices,
                      const Options& options);

} // namespace tolk::schedule
