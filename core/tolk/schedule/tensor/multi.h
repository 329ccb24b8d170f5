// Removes MULTI: values on several devices become values on device tuples. A node on a tuple has the shape and
// dtype of one position (its shard), and one kernel serves all positions: a launch runs it once for each, with
// the variable _device_num set to the position.
//
//   a replica beside a sharded operand     its shard at _device_num
//   two operands with different axes       one is all-gathered, then cut
//   a reduction of the sharded axis        the shards reduced, then all-reduced (allreduce.h)
//   COPY to one device, or to a tuple      every position's shard copied, joined there
//   COPY to the tuple that has it          all-gathered: every position gets the whole
//   a slice across the sharded axis        the shards it covers, broadcast to all positions
//   a STORE to such a slice                every position writes its shard of it
//   an operation that mixes shards         of the all-gathered value: FLIP or PAD of the axis, a RESHAPE across
//                                          shards, GATHER along it
//   ALLREDUCE                              copies and elementwise operations
//
// MSELECT and MSTACK remain. Both only name storage: canonicalize stores what they select from and
// join.
#pragma once

#include <vector>

#include "tolk/schedule/options.h"
#include "tolk/schedule/tensor/multi_axis.h"

namespace tolk::schedule {

struct PerPosition {
  UOp body;                         // as given, without MULTI and ALLREDUCE
  std::vector<Sharding> shardings;  // of the roots, whose nodes have the shape of one position
  std::vector<std::string> devices; // of the roots; empty where any will do
};

// `body` is a SINK of tensor-level nodes in the thread's arena. Throws InvalidArgument for stores whose target
// mixes shards, and for operands on different devices where one has to be gathered.
PerPosition without_multi(const UOp& body, const Options& options);

// Appends the call; for a kernel on devices of several backends, which need programs of their own, one call
// for every position, on its storage and with its number in place of _device_num.
void append_calls(const UOp& call, std::vector<UOp>& calls);

} // namespace tolk::schedule
