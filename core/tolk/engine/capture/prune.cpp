#include "tolk/engine/capture/prune.h"

#include <algorithm>

#include "tolk/engine/run/calls.h"
#include "tolk/uop/build.h"

namespace tolk::engine {
namespace {

struct PrunedCall {
  UOp node;
  CallAccess access;
  std::vector<UOp> bases, read, written;
  bool kept = false, updates_held = false;
};

PrunedCall described(const UOp& call, const NodeSet& held) {
  PrunedCall out{call, access_of(call), {}, {}, {}, false, false};
  each_base(out.access, [&](const BaseAccess& a) {
    out.bases.push_back(a.base);
    if (a.reads) out.read.push_back(a.base);
    if (a.writes) out.written.push_back(a.base);
  });
  out.updates_held = std::ranges::any_of(out.written, [&](const UOp& base) {
    return held.contains(base) && std::ranges::find(out.read, base) != out.read.end();
  });
  return out;
}

// Calls that touch what inputs or kept calls touched before them.
void keep_dependents(std::vector<PrunedCall>& calls, std::span<const UOp> needed) {
  NodeSet touched(needed.begin(), needed.end());
  for (PrunedCall& call : calls) {
    call.kept = call.kept || std::any_of(call.bases.begin(), call.bases.end(),
                                         [&](const UOp& b) { return touched.contains(b); });
    if (call.kept) touched.insert(call.bases.begin(), call.bases.end());
  }
}

// The buffers that the calls not kept update from what they were before: read where nothing has overwritten
// them yet, and written by any of these calls.
NodeSet carried(const std::vector<PrunedCall>& calls) {
  NodeSet overwritten, entered, written;
  for (const PrunedCall& call : calls) {
    if (call.kept) continue;
    for (const UOp& base : call.read)
      if (!overwritten.contains(base)) entered.insert(base);
    written.insert(call.written.begin(), call.written.end());
    each_base(call.access, [&](const BaseAccess& a) {
      if (a.overwrites) overwritten.insert(a.base);
    });
  }
  std::erase_if(entered, [&](const UOp& base) { return !written.contains(base); });
  return entered;
}

// Calls that a single execution would make wrong; whether there were any.
bool keep_hazards(std::vector<PrunedCall>& calls) {
  NodeSet hazards = carried(calls);
  for (const PrunedCall& call : calls)
    if (call.kept) hazards.insert(call.written.begin(), call.written.end());
  bool moved = false;
  for (PrunedCall& call : calls) {
    if (call.kept) continue;
    call.kept =
        !call.access.variables.empty() || call.updates_held ||
        std::any_of(call.bases.begin(), call.bases.end(), [&](const UOp& b) { return hazards.contains(b); });
    moved |= call.kept;
  }
  return moved;
}

} // namespace

Pruned prune_linear(const UOp& list, std::span<const UOp> needed, std::span<const UOp> held) {
  NodeSet held_nodes(held.begin(), held.end());
  std::vector<PrunedCall> calls;
  for (const UOp& call : calls_of(list)) calls.push_back(described(call, held_nodes));
  do keep_dependents(calls, needed);
  while (keep_hazards(calls));
  std::vector<UOp> kept, once;
  for (const PrunedCall& call : calls) (call.kept ? kept : once).push_back(call.node);
  return {linear(kept), linear(once)};
}

} // namespace tolk::engine
