// What the calls of a LINEAR read and write, and which of them need not run again when only inputs change.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/uop/uop.h"

namespace tolk::engine {

// Of one call, by position in `arguments`.
struct CallAccess {
  std::vector<UOp> arguments; // storage expressions: buffer_arguments(call)
  std::vector<bool> reads, writes;
  // The call writes every element and reads none: what was there before does not matter. A symbolic or masked
  // store does not count.
  std::vector<bool> overwrites;
  std::vector<std::string> variables; // that the kernel uses
};
// Facts come from the program's launch facts, or from the kernel itself. What is neither kernel nor copy may
// read and write everything.
TOLK_API CallAccess access_of(const UOp& call);

// The calls of a LINEAR with nested LINEARs spliced; `into_graphs`: and batches opened.
TOLK_API std::vector<UOp> calls_of(const UOp& linear, bool into_graphs = false);
// The BUFFERs and PARAMs below a storage expression, each once, in first-seen order.
TOLK_API std::vector<UOp> bases_of(const UOp& argument);
// Names of the devices that the calls' storage is on, each once, in first-seen order.
TOLK_API std::vector<std::string> devices_of(const UOp& linear);

struct Pruned {
  UOp kept, once; // LINEARs; the order inside each is the given one
};
// Divides the calls: those that `once` may run a single time, before all others, and those to be kept for
// every run. Kept are the calls that touch a buffer of `needed` (the inputs), and whatever touches a buffer
// that a kept call touched before. Kept are also calls that would give other results otherwise: those that
// read or write a buffer that a kept call writes, whose kernel uses a variable, and those that update a
// buffer from its old contents, in one call or over several. Assumes that nobody else changes buffers between
// runs.
TOLK_API Pruned prune_linear(const UOp& linear, std::span<const UOp> needed, std::span<const UOp> held = {});

} // namespace tolk::engine
