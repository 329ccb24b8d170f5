// Scheduling: from a lazy tensor graph to an ordered list of kernel calls and copies with planned memory.
//
//   schedule::Options options;
//   options.default_device = "CPU";
//   schedule::Schedule s = schedule::create_schedule(std::span(&root, 1), options);
//   // run s.linear with s.vars, then read s.results[0]
//
// The steps:
// - tensor/parametrize: storage becomes PARAM and bound variables lose their values, so that equal
//   computations have one body
// - lower: the body to a LINEAR, which depends on the body and the options alone and is cached
//   - tensor/multi: values on several devices become values of one position, and copies between them
//   - tensor/canonicalize: tensor-level rewrites: empty values, copies, in-place writes, large reductions in
//     two steps
//   - fuse/fusion_graph: the reachable nodes in order, with what fusion needs to know of each
//   - fuse/fusion: which values are stored; the index at which every use reads its value
//   - fuse/kernels: the expression of every stored value
//   - order/item_graph: the kernel graph, in which AFTER names each state of storage
//   - order/kernel_graph: an order in which kernels read what was written before and overwrite what was read
//     before; order/choose_copies breaks write-after-read cycles of in-place writes by copies
//   - memory/memory_plan: temporaries share one arena per device
// - resolve: this call's storage in place of the PARAMs, and fresh storage for temporaries
#pragma once

#include <span>

#include "tolk/schedule/cache.h"
#include "tolk/schedule/options.h"

namespace tolk::schedule {

// Schedules the computation of the roots: global tensor-level nodes. Values that carry a Realized attachment
// are not computed again (schedule/tensor/realized.h). Any number of threads may schedule at once; equal input
// gives equal kernels in equal order. In-place writes that each overwrite what the other reads take one more
// kernel for each copy that orders them.
//
// Roots can also be states of storage in a graph of kernels made by the caller (order/kernel_graph.h):
// AFTERs of CALLs, of which BUFFERs with negative slots that no root names are temporaries. A CALL can be of a
// kernel; or of a function, a LINEAR or a SINK of tensor-level nodes in which PARAM k is the call's argument k
// and variable p<k> the variable that argument k is. Functions are scheduled once, and their temporaries are
// fresh for every call. A kernel that only copies from one device to another becomes a COPY.
//
// Throws InvalidArgument when one variable is bound to two values ("bind mismatch on n, 3 != 4"), when a
// store's target is no view of storage, when a value would have to be on two devices, when a kernel needs more
// buffers than a device with fewer than 4 takes, and for malformed graphs of kernels. Nothing is kept in the
// cache then.
TOLK_API Schedule create_schedule(std::span<const UOp> roots, const Options& options);

} // namespace tolk::schedule
