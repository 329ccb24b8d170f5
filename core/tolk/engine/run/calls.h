// The calls of a LINEAR, and what each reads and writes.
#pragma once

#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/uop/uop.h"

namespace tolk::engine {

// In order: nested LINEARs spliced, END(CALL) unwrapped and, with `into_graphs`, the calls of graph calls. Throws
// InvalidArgument "expected CALL, got <op>".
TOLK_API std::vector<UOp> calls_of(const UOp& linear, bool into_graphs = false);
// Names of the devices that the storage of all calls is on, each once, in the order met.
TOLK_API std::vector<std::string> devices_of(const UOp& linear);

// The BUFFERs and PARAMs below a storage expression, each once, in the order met.
TOLK_API std::vector<UOp> bases_of(const UOp& argument);

// The call with every argument replaced by `place(argument)`; the body stays.
template <typename Place> UOp with_arguments(const UOp& call, Place&& place) {
  std::vector<UOp> src{call.src(0)};
  for (const UOp& argument : call.src().subspan(1)) src.push_back(place(argument));
  return with_sources(call, src);
}

// How one call accesses its arguments, by position in `arguments`.
struct CallAccess {
  std::vector<UOp> arguments; // storage expressions: buffer_arguments(call)
  std::vector<bool> reads, writes;
  // The call writes every element and reads none: what was there before does not matter. A symbolic or masked
  // store does not count.
  std::vector<bool> overwrites;
  std::vector<std::string> variables; // that the kernel uses
};
// From the program's metadata or, of a kernel that is not compiled, from its graph. A call that is neither kernel
// nor copy may read and write everything.
TOLK_API CallAccess access_of(const UOp& call);
// Whether a store of the kernel can reach the bytes of another argument of the call.
bool may_alias(const UOp& sink, std::span<const UOp> arguments);

// One BUFFER or PARAM that a call accesses.
struct BaseAccess {
  const UOp &base, &argument;
  bool reads, writes, overwrites; // `overwrites`: all of the base
};
// Visits all of a call, in the order of its arguments.
template <typename Visit> void each_base(const CallAccess& access, Visit&& visit) {
  for (size_t i = 0; i < access.arguments.size(); ++i)
    for (const UOp& base : bases_of(access.arguments[i]))
      visit(BaseAccess{base, access.arguments[i], access.reads[i], access.writes[i],
                       access.overwrites[i] && base == access.arguments[i]});
}

using NodeSet = std::unordered_set<UOp, UOpHash>;
// The BUFFERs and PARAMs that any of the calls writes.
NodeSet written_by(std::span<const UOp> calls);

} // namespace tolk::engine
