// Values on several devices, before anything else looks at the graph: MULTI goes, and what is left computes
// on device tuples. A node on a tuple has the shape and dtype of one position, and one kernel serves all
// positions: a launch runs it once for each, with the variable _device_num set to the position.
//
//   a whole operand beside a sharded one   its part at _device_num
//   two operands with different axes       one is gathered, then cut
//   a reduction of the sharded axis        the parts reduced, then combined across the devices (allreduce.h)
//   COPY to one device, or to a tuple      every position's part copied, joined there
//   COPY to the tuple that has it          gathered: every position gets the whole
//   a slice across the sharded axis        the parts it covers, to all positions
//   a STORE to such a slice                every position writes what it has of it
//   an operation that mixes parts          of the gathered value: FLIP or PAD of the axis, a RESHAPE across
//                                          parts, GATHER along it
//   ALLREDUCE                              copies and elementwise operations
//
// MSELECT and MSTACK remain. Both only name storage: early.h sees to it that what they select from and join
// is stored.
#pragma once

#include <vector>

#include "tolk/schedule/schedule.h"
#include "tolk/schedule/tensor/multi_axis.h"

namespace tolk::schedule {

struct PerPosition {
  UOp body;                         // as given, without MULTI and ALLREDUCE
  std::vector<Sharding> shardings;  // of the roots, whose nodes have the shape of one position
  std::vector<std::string> devices; // of the roots; empty where any will do
};

// `body` is what callify made, in the thread's arena. Throws InvalidArgument for stores whose target mixes
// parts, and for operands on different devices where one has to be gathered.
PerPosition without_multi(const UOp& body, const Options& options);

// Appends the call; for a kernel on devices of several backends, which need programs of their own, one call
// for every position, on its storage and with its number in the place of _device_num.
void append_calls(const UOp& call, std::vector<UOp>& calls);

} // namespace tolk::schedule
