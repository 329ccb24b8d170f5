#include "tolk/schedule/tensor/parametrize.h"

#include <unordered_map>
#include <unordered_set>

#include "tolk/base/error.h"
#include "tolk/schedule/tensor/realized.h"
#include "tolk/uop/build.h"
#include "tolk/uop/state.h"

namespace tolk::schedule {
namespace {

// Global nodes in order, sources first, with realised values replaced by their storage.
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
    if (seen.insert(form.node()).second) stack.push_back({std::move(form)});
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

// The BUFFERs that some STORE of the graph writes to.
std::unordered_set<const UOpNode*> written_buffers(const std::vector<UOp>& order) {
  std::unordered_set<const UOpNode*> written;
  for (const UOp& u : order) {
    if (!u.is(Op::STORE)) continue;
    UOp at = realized_form(u.src(0));
    while (at.is(ops::Movement | OpSet(Op::AFTER, Op::DETACH, Op::BITCAST, Op::SLICE, Op::MULTI)))
      at = realized_form(at.src(0));
    if (at.is(Op::BUFFER)) written.insert(at.node());
  }
  return written;
}

} // namespace

Callified callify(std::span<const UOp> roots) {
  Callified out;
  std::vector<UOp> order;
  std::unordered_set<const UOpNode*> written;
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
  // A BUFFER below a SLICE that is an argument itself is none.
  std::unordered_set<const UOpNode*> wanted;
  auto is_argument = [&](const UOp& u) {
    return u.is(Op::SLICE) && u.src(0).is(Op::BUFFER) && !written.contains(u.src(0).node());
  };
  for (const UOp& u : order)
    if (!is_argument(u))
      for (const UOp& s : u.src()) wanted.insert(realized_form(s).node());
  for (const UOp& root : roots) wanted.insert(realized_form(root).node());
  std::vector<UOp> src;
  for (const UOp& u : order) {
    out.several_devices |=
        u.is(Op::MSTACK) || (u.is(OpSet(Op::BUFFER, Op::COPY)) && is_multi(device_text(u)));
    if (u.is(Op::BUFFER)) {
      if (wanted.contains(u.node())) done[u.node()] = argument(u, device_text(u));
      continue;
    }
    if (is_argument(u)) {
      done[u.node()] = argument(u, device_text(u.src(0)));
      continue;
    }
    if (u.is(Op::BIND)) {
      const std::string& name = var_name(u.src(0));
      int64_t value = u.src(1).const_int();
      auto [it, fresh] = out.vars.emplace(name, value);
      if (it->second != value)
        throw InvalidArgument("bind mismatch on " + name + ", " + std::to_string(it->second) +
                              " != " + std::to_string(value) + ": one graph can use one value of a variable");
      if (fresh) out.binds.push_back(u);
      done[u.node()] = done.at(u.src(0).node());
      continue;
    }
    src.clear();
    for (const UOp& s : u.src()) src.push_back(done.at(realized_form(s).node()));
    if (u.is(Op::AFTER)) { // their numbers tell nodes apart, not computations
      done[u.node()] = is_state(u) ? src[0] : make(u.op(), u.dtype(), src, {}, u.lanes());
      continue;
    }
    done[u.node()] = make(u.op(), u.dtype(), src, u.arg(), u.lanes());
  }
  src.clear();
  for (const UOp& root : roots) src.push_back(done.at(realized_form(root).node()));
  out.body = sink(src);
  return out;
}

} // namespace tolk::schedule
