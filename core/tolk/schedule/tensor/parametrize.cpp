#include "tolk/schedule/tensor/parametrize.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "tolk/base/error.h"
#include "tolk/schedule/tensor/realized.h"
#include "tolk/uop/arena.h"
#include "tolk/uop/build.h"
#include "tolk/uop/state.h"
#include "tolk/uop/storage_ref.h"
#include "tolk/uop/traverse.h"

namespace tolk::schedule {
namespace {

// Global nodes in order, sources first, with realised values replaced by their storage. Bodies of calls are
// graphs of their own.
std::vector<UOp> reachable(std::span<const UOp> roots) {
  std::vector<UOp> order;
  std::unordered_set<const UOpNode*> seen;
  struct Frame {
    UOp node;
    uint32_t next = 0;
  };
  std::vector<Frame> stack;
  auto visit = [&](const UOp& u) {
    UOp form = realized_form(u);
    if (seen.insert(form.node()).second) stack.push_back({form, uint32_t(form.is(Op::CALL))});
  };
  for (const UOp& root : roots) {
    visit(root);
    while (!stack.empty()) {
      Frame& top = stack.back();
      if (top.next < top.node.nsrc()) {
        UOp next = top.node.src(top.next++); // the stack may move
        visit(next);
        continue;
      }
      order.push_back(std::move(top.node));
      stack.pop_back();
    }
  }
  return order;
}

using Buffers = std::unordered_set<const UOpNode*>;

// Adds the BUFFERs below views.
void add_buffers(const UOp& u, Buffers& out) {
  StorageRef ref = storage_ref(u, Through::Writes | Through::Pads, realized_form);
  if (ref.base && ref.base.is(Op::BUFFER)) out.insert(ref.base.node());
  if (ref.below.is(OpSet(Op::MSELECT, Op::MSTACK)))
    for (const UOp& s : ref.below.src()) add_buffers(s, out);
}

// The BUFFERs that STOREs of the graph write to, and those that kernels may write to.
Buffers written_buffers(const std::vector<UOp>& order) {
  Buffers written;
  for (const UOp& u : order) {
    if (!u.is(OpSet(Op::STORE, Op::CALL))) continue;
    for (const UOp& s : u.is(Op::STORE) ? u.src().first(1) : u.src().subspan(1)) add_buffers(s, written);
  }
  return written;
}

bool is_on_tuple(const UOp& u) {
  return u.is(Op::MSTACK) || (u.is(OpSet(Op::BUFFER, Op::PARAM, Op::COPY)) && is_multi(device_text(u)));
}

} // namespace

Parametrized parametrize(std::span<const UOp> roots) {
  for (const UOp& root : roots)
    if (root.dtype() == DType::Void)
      throw InvalidArgument(std::string("a root is a value or a state of storage, not ") + name(root.op()));
  Parametrized out;
  std::vector<UOp> order;
  Buffers written;
  {
    ArenaScope global(nullptr);
    order = reachable(roots);
    written = written_buffers(order);
  }
  std::unordered_map<const UOpNode*, UOp> done;
  done.reserve(order.size());
  auto argument = [&](const UOp& storage, const std::string& device) {
    out.arguments.push_back(storage);
    return param_node(int64_t(out.arguments.size()) - 1, storage.dtype(), elements_of(storage), device);
  };
  // A BUFFER below a SLICE that is an argument is no argument itself.
  std::unordered_set<const UOpNode*> wanted;
  auto is_argument = [&](const UOp& u) {
    return u.is(Op::SLICE) && u.src(0).is(Op::BUFFER) && !written.contains(u.src(0).node());
  };
  for (const UOp& u : order)
    if (!is_argument(u))
      for (const UOp& s : u.src()) wanted.insert(realized_form(s).node());
  for (const UOp& root : roots) wanted.insert(realized_form(root).node());
  out.body.kernels = std::ranges::any_of(order, [](const UOp& u) { return u.is(Op::CALL); });
  Buffers named; // by roots
  if (out.body.kernels)
    for (const UOp& root : roots) add_buffers(root, named);
  int64_t temporaries = 0;
  std::vector<UOp> src;
  for (const UOp& u : order) {
    out.body.several_devices |= is_on_tuple(u);
    if (u.is(Op::BUFFER)) {
      if (!wanted.contains(u.node())) continue;
      bool temporary = out.body.kernels && slot_of(u) < 0 && !named.contains(u.node());
      done[u.node()] = temporary ? buffer_node(--temporaries, u.dtype(), elements_of(u), device_text(u))
                                 : argument(u, device_text(u));
      continue;
    }
    if (is_argument(u)) {
      done[u.node()] = argument(u, device_text(u.src(0)));
      continue;
    }
    if (u.is(Op::BIND)) {
      const std::string& name = var_name(u.src(0));
      int64_t value = u.src(1).const_int();
      if (value < u.src(0).vmin() || value > u.src(0).vmax())
        throw InvalidArgument("variable " + name + " is bound to " + std::to_string(value) +
                              ", outside its bounds " + std::to_string(u.src(0).vmin()) + ".." +
                              std::to_string(u.src(0).vmax()));
      auto [it, fresh] = out.vars.emplace(name, value);
      if (it->second != value)
        throw InvalidArgument("bind mismatch on " + name + ", " + std::to_string(it->second) +
                              " != " + std::to_string(value) + ": one graph can use one value of a variable");
      if (fresh) out.binds.push_back(u);
      done[u.node()] = done.at(u.src(0).node());
      continue;
    }
    src.clear();
    if (u.is(Op::CALL)) src.push_back(import_graph(u.src(0)));
    for (const UOp& s : u.src().subspan(src.size())) src.push_back(done.at(realized_form(s).node()));
    if (u.is(Op::AFTER)) { // their version numbers are no part of the computation
      done[u.node()] = is_state(u) ? src[0] : make(u.op(), u.dtype(), src, {}, u.lanes());
      continue;
    }
    done[u.node()] = make(u.op(), u.dtype(), src, u.arg(), u.lanes());
  }
  src.clear();
  for (const UOp& root : roots) src.push_back(done.at(realized_form(root).node()));
  out.body.sink = sink(src);
  out.body.parameters = int64_t(out.arguments.size());
  return out;
}

Body body_of(const UOp& sink) {
  Body out;
  out.sink = sink;
  for (const UOp& u : toposort(sink, [](const UOp& n) { return !n.is(Op::CALL); })) {
    if (u.is(Op::PARAM)) out.parameters = std::max(out.parameters, slot_of(u) + 1);
    out.several_devices |= is_on_tuple(u);
    out.kernels |= u.is(Op::CALL);
  }
  return out;
}

} // namespace tolk::schedule
