#include "tolk/engine/run/calls.h"

#include <algorithm>

#include "tolk/base/error.h"
#include "tolk/engine/compile/program_table.h"
#include "tolk/engine/graph/graph_call.h"
#include "tolk/engine/run/resolve.h"
#include "tolk/uop/build.h"
#include "tolk/uop/print.h"
#include "tolk/uop/storage_ref.h"
#include "tolk/uop/traverse.h"

namespace tolk::engine {
namespace {

void add_calls(const UOp& linear, bool into_graphs, std::vector<UOp>& out) {
  for (const UOp& item : linear.src()) {
    const UOp& at = below(item, OpSet(Op::END));
    if (at.is(Op::LINEAR))
      add_calls(at, into_graphs, out);
    else if (!at.is(Op::CALL))
      throw InvalidArgument(std::string("expected CALL, got ") + name(at.op()) + ": " + print_line(at));
    else if (into_graphs && is_graph_call(at))
      add_calls(graph_linear(at), into_graphs, out);
    else
      out.push_back(at);
  }
}

template <typename T> void add_once(std::vector<T>& out, T item) {
  if (std::ranges::find(out, item) == out.end()) out.push_back(std::move(item));
}

struct StoreSite {
  UOp effect, store; // the store inside of the ENDs of its ranges
  size_t slot() const { return size_t(slot_of(store.src(0))); }
};
std::vector<StoreSite> stores_of(const UOp& sink) {
  std::vector<StoreSite> out;
  for (const UOp& effect : sink.src()) {
    const UOp& store = below(effect, OpSet(Op::END));
    if (store.is(Op::STORE) && store.src(0).is(Op::PARAM)) out.push_back({effect, store});
  }
  return out;
}

// Indices of stores hit each element once, so as many iterations as elements means all of them.
bool covers(const StoreSite& site) {
  const UOp &target = site.store.src(0), &index = site.store.src(1);
  int64_t elements = elements_of(target), count = 1;
  if (site.store.nsrc() > 3 || index.vmin() != 0 || index.vmax() != elements - 1) return false;
  for (UOp at = site.effect; at != site.store; at = UOp(at.src(0)))
    for (const UOp& range : at.src().subspan(1)) {
      if (!range.src(0).is_const()) return false;
      count *= range.src(0).const_int();
    }
  return count == elements;
}

} // namespace

std::vector<UOp> calls_of(const UOp& linear, bool into_graphs) {
  std::vector<UOp> out;
  out.reserve(linear.nsrc());
  add_calls(linear, into_graphs, out);
  return out;
}

std::vector<std::string> devices_of(const UOp& linear) {
  std::vector<std::string> out;
  for (const UOp& call : calls_of(linear, true))
    for (const UOp& argument : buffer_arguments(call))
      for (const UOp& base : bases_of(argument))
        for (std::string& name : split_devices(device_text(base)))
          if (!name.empty()) add_once(out, std::move(name));
  return out;
}

std::vector<UOp> bases_of(const UOp& argument) {
  std::vector<UOp> out;
  for (StoragePart& part : storage_parts(argument)) add_once(out, std::move(part.base));
  return out;
}

CallAccess access_of(const UOp& call) {
  CallAccess access;
  access.arguments = buffer_arguments(call);
  size_t n = access.arguments.size();
  access.reads.assign(n, false), access.writes.assign(n, false), access.overwrites.assign(n, false);
  const UOp& body = call.src(0);
  UOp kernel = body;
  if (body.is(Op::COPY) && n == 2) {
    access.writes[0] = access.overwrites[0] = true;
    access.reads[1] = true;
    return access;
  }
  if (body.is(Op::PROGRAM)) {
    const ProgramInfo& info = program_entry(body).info;
    for (int slot : info.outs) access.writes.at(size_t(slot)) = true;
    for (int slot : info.ins) access.reads.at(size_t(slot)) = true;
    for (const VarInfo& var : info.vars)
      if (!is_runtime_variable(var.name)) access.variables.push_back(var.name);
    kernel = UOp(body.src(0));
  } else if (body.is(Op::SINK)) {
    for (const UOp& u : toposort(body)) {
      if (u.is(Op::LOAD) && u.src(0).is(Op::PARAM)) access.reads[size_t(slot_of(u.src(0)))] = true;
      if (u.is(Op::VAR)) access.variables.push_back(var_name(u));
    }
    for (const StoreSite& site : stores_of(body)) access.writes[site.slot()] = true;
  } else {
    access.reads.assign(n, true), access.writes.assign(n, true);
    return access;
  }
  // Bodies that tests make by hand may have slots beyond the arguments.
  for (const StoreSite& site : stores_of(kernel))
    if (size_t slot = site.slot(); slot < n && !access.reads[slot] && covers(site))
      access.overwrites[slot] = true;
  return access;
}

bool may_alias(const UOp& sink, std::span<const UOp> arguments) {
  for (const StoreSite& site : stores_of(sink))
    for (size_t i = 0; i < arguments.size() && site.slot() < arguments.size(); ++i)
      if (i != site.slot() && may_overlap(arguments[site.slot()], arguments[i])) return true;
  return false;
}

NodeSet written_by(std::span<const UOp> calls) {
  NodeSet out;
  for (const UOp& call : calls)
    each_base(access_of(call), [&](const BaseAccess& a) {
      if (a.writes) out.insert(a.base);
    });
  return out;
}

} // namespace tolk::engine
