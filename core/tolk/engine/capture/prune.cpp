#include "tolk/engine/capture/prune.h"

#include <algorithm>
#include <unordered_set>

#include "tolk/engine/compile/program_table.h"
#include "tolk/engine/graph/graph_call.h"
#include "tolk/engine/run/resolve.h"
#include "tolk/uop/build.h"
#include "tolk/uop/traverse.h"

namespace tolk::engine {
namespace {

using Nodes = std::unordered_set<UOp, UOpHash>;

void add_calls(const UOp& node, bool into_graphs, std::vector<UOp>& out) {
  if (node.is(Op::LINEAR)) {
    for (const UOp& item : node.src()) add_calls(item, into_graphs, out);
  } else if (node.is(Op::END)) {
    add_calls(node.src(0), into_graphs, out);
  } else if (into_graphs && is_graph_call(node)) {
    add_calls(graph_linear(node), into_graphs, out);
  } else {
    out.push_back(node);
  }
}

struct StoreSite {
  UOp store;
  std::vector<UOp> ranges;
};
std::vector<StoreSite> stores_of(const UOp& sink) {
  std::vector<StoreSite> out;
  for (const UOp& effect : sink.src()) {
    StoreSite site{effect, {}};
    while (site.store.is(Op::END)) {
      site.ranges.insert(site.ranges.end(), site.store.src().begin() + 1, site.store.src().end());
      site.store = UOp(site.store.src(0));
    }
    if (site.store.is(Op::STORE) && site.store.src(0).is(Op::PARAM)) out.push_back(std::move(site));
  }
  return out;
}

// Indices of stores hit each element once, so as many iterations as elements means all of them.
bool covers(const StoreSite& site) {
  const UOp &target = site.store.src(0), &index = site.store.src(1);
  int64_t elements = elements_of(target), count = 1;
  if (site.store.nsrc() > 3 || index.vmin() != 0 || index.vmax() != elements - 1) return false;
  for (const UOp& range : site.ranges) {
    if (!range.src(0).is_const()) return false;
    count *= range.src(0).const_int();
  }
  return count == elements;
}

void add_kernel_facts(const UOp& sink, CallAccess& access) {
  for (const UOp& u : toposort(sink)) {
    if (u.is(Op::LOAD) && u.src(0).is(Op::PARAM)) access.reads[size_t(slot_of(u.src(0)))] = true;
    if (u.is(Op::VAR)) access.variables.push_back(var_name(u));
  }
  for (const StoreSite& site : stores_of(sink)) access.writes[size_t(slot_of(site.store.src(0)))] = true;
}

// Kernels in which a store covers its target and nothing reads it. Bodies that tests make by hand may have
// slots beyond the arguments, so those are left out.
void add_coverage(const UOp& sink, CallAccess& access) {
  for (const StoreSite& site : stores_of(sink)) {
    auto slot = size_t(slot_of(site.store.src(0)));
    if (slot < access.arguments.size() && !access.reads[slot] && covers(site)) access.overwrites[slot] = true;
  }
}

} // namespace

std::vector<UOp> calls_of(const UOp& linear, bool into_graphs) {
  std::vector<UOp> out;
  add_calls(linear, into_graphs, out);
  return out;
}

std::vector<UOp> bases_of(const UOp& argument) {
  std::vector<UOp> out;
  for (const UOp& u : toposort(argument))
    if (u.is(OpSet(Op::BUFFER, Op::PARAM)) && std::find(out.begin(), out.end(), u) == out.end())
      out.push_back(u);
  return out;
}

CallAccess access_of(const UOp& call) {
  CallAccess access;
  access.arguments = buffer_arguments(call);
  size_t n = access.arguments.size();
  access.reads.assign(n, false), access.writes.assign(n, false), access.overwrites.assign(n, false);
  const UOp& body = call.src(0);
  if (body.is(Op::COPY) && n == 2) {
    access.writes[0] = access.overwrites[0] = true;
    access.reads[1] = true;
  } else if (body.is(Op::PROGRAM)) {
    const ProgramInfo& info = program_entry(body).info;
    for (int slot : info.outs) access.writes.at(size_t(slot)) = true;
    for (int slot : info.ins) access.reads.at(size_t(slot)) = true;
    for (const VarInfo& var : info.vars)
      if (!is_runtime_variable(var.name)) access.variables.push_back(var.name);
    add_coverage(body.src(0), access);
  } else if (body.is(Op::SINK)) {
    add_kernel_facts(body, access);
    add_coverage(body, access);
  } else {
    access.reads.assign(n, true), access.writes.assign(n, true);
  }
  return access;
}

std::vector<std::string> devices_of(const UOp& linear) {
  std::vector<std::string> out;
  for (const UOp& call : calls_of(linear, true))
    for (const UOp& argument : buffer_arguments(call))
      for (const UOp& base : bases_of(argument))
        for (std::string& name : split_devices(device_text(base)))
          if (!name.empty() && std::find(out.begin(), out.end(), name) == out.end())
            out.push_back(std::move(name));
  return out;
}

namespace {

struct PrunedCall {
  UOp node;
  CallAccess access;
  std::vector<UOp> bases, read, written;
  bool kept = false, updates_held = false;
};

PrunedCall described(const UOp& call, const Nodes& held) {
  PrunedCall out{call, access_of(call), {}, {}, {}, false, false};
  for (size_t i = 0; i < out.access.arguments.size(); ++i)
    for (const UOp& base : bases_of(out.access.arguments[i])) {
      out.bases.push_back(base);
      if (out.access.reads[i]) out.read.push_back(base);
      if (out.access.writes[i]) out.written.push_back(base);
    }
  for (const UOp& base : out.written)
    out.updates_held |=
        held.contains(base) && std::find(out.read.begin(), out.read.end(), base) != out.read.end();
  return out;
}

// Calls that touch what inputs or kept calls touched before them.
void keep_dependents(std::vector<PrunedCall>& calls, std::span<const UOp> needed) {
  Nodes touched(needed.begin(), needed.end());
  for (PrunedCall& call : calls) {
    call.kept = call.kept || std::any_of(call.bases.begin(), call.bases.end(),
                                         [&](const UOp& b) { return touched.contains(b); });
    if (call.kept) touched.insert(call.bases.begin(), call.bases.end());
  }
}

// The buffers that the calls not kept update from what they were before: read where nothing has overwritten
// them yet, and written by any of these calls.
Nodes carried(const std::vector<PrunedCall>& calls) {
  Nodes overwritten, entered, written;
  for (const PrunedCall& call : calls) {
    if (call.kept) continue;
    for (const UOp& base : call.read)
      if (!overwritten.contains(base)) entered.insert(base);
    written.insert(call.written.begin(), call.written.end());
    for (size_t i = 0; i < call.access.arguments.size(); ++i)
      if (call.access.overwrites[i] && call.access.arguments[i].is(Op::BUFFER))
        overwritten.insert(call.access.arguments[i]);
  }
  std::erase_if(entered, [&](const UOp& base) { return !written.contains(base); });
  return entered;
}

// Calls that a single execution would make wrong; whether there were any.
bool keep_hazards(std::vector<PrunedCall>& calls) {
  Nodes hazards = carried(calls);
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
  Nodes held_nodes(held.begin(), held.end());
  std::vector<PrunedCall> calls;
  for (const UOp& call : calls_of(list)) calls.push_back(described(call, held_nodes));
  do keep_dependents(calls, needed);
  while (keep_hazards(calls));
  std::vector<UOp> kept, once;
  for (const PrunedCall& call : calls) (call.kept ? kept : once).push_back(call.node);
  return {linear(kept), linear(once)};
}

} // namespace tolk::engine
