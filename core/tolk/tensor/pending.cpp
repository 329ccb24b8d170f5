#include "tolk/tensor/pending.h"

#include <algorithm>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <unordered_set>

#include "tolk/base/error.h"
#include "tolk/base/log.h"
#include "tolk/engine/run/realize.h"
#include "tolk/schedule/tensor/realized.h"
#include "tolk/schedule/tensor/views.h"
#include "tolk/tensor/tensor_internal.h"
#include "tolk/uop/state.h"

namespace tolk::detail {
namespace {

// The newest pending write of a storage.
struct Pending {
  UOp whole; // the BUFFER after it, as one axis
  std::thread::id thread;
  UOp write() const { return below(whole, OpSet(Op::RESHAPE)); }
  bool is_done() const { return schedule::realized_link(write()) != nullptr; }
};

struct Registry {
  std::mutex mutex;
  std::unordered_map<const UOpNode*, Pending> by_buffer; // the write holds the BUFFER
  std::atomic<size_t> count{0};                          // entries, read without the lock
  size_t sweep_at = 16;
};
Registry& registry() {
  static auto* all = new Registry; // handles in static objects may be used after every destructor ran
  return *all;
}
bool is_empty() { return registry().count.load(std::memory_order_acquire) == 0; }

// What `u` was stored as, also when that storage was written since.
UOp stored_form(const UOp& u) {
  const UOp* at = &u;
  while (const schedule::Realized* link = schedule::realized_link(*at)) at = &link->storage;
  return *at;
}

// The storage that a handle is a view of, with `write` being pending. Null when the handle is computed.
StorageRef viewed(const UOp& node) {
  StorageRef ref = storage_ref(node, Through::Writes, stored_form);
  bool on_buffer = ref.base && ref.base.is(Op::BUFFER) && ref.offset_known;
  return on_buffer ? ref : StorageRef();
}

// The views of the handle over the whole BUFFER, which has one axis.
UOp over_whole(const StorageRef& ref, UOp whole) {
  if (ref.storage != ref.base) {
    TOLK_CHECK(bits(ref.storage.dtype()) == bits(whole.dtype()),
               "a SLICE of a written BUFFER keeps its width");
    SInt begin(ref.byte_offset * 8 / bits(whole.dtype()));
    whole = bitcast(shrink(whole, {begin}, {SInt(elements_of(ref.storage))}), ref.storage.dtype());
  }
  return with_views(ref.views, std::move(whole));
}

// A write that kept the shape of its view, as the whole BUFFER; null when the view is more than a reshape.
UOp flat(const UOp& write, const UOp& buffer) {
  bool same = below(write.src(0), OpSet(Op::RESHAPE, Op::AFTER)) == buffer;
  return same ? reshape(write, shape_of(buffer)) : UOp();
}

// The newest pending write of the BUFFER; `whole` is null when there is none.
Pending pending_on(const UOp& buffer) {
  if (is_empty()) return {};
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  auto it = all.by_buffer.find(buffer.node());
  return it == all.by_buffer.end() ? Pending() : it->second;
}

// The graph below a node, with what realised values are read from in their place.
template <class Enter> void walk(const UOp& root, std::unordered_set<UOp, UOpHash>& seen, Enter&& enter) {
  std::vector<UOp> stack{root};
  while (!stack.empty()) {
    UOp u = schedule::realized_form(stack.back());
    stack.pop_back();
    if (u.dtype() == DType::Index || !seen.insert(u).second || !enter(u)) continue;
    for (const UOp& s : u.src()) stack.push_back(s);
  }
}

// Drops entries that only entries reach, into `dead`. A node with more references than the entries' graphs have is
// referred to from outside, and so is all that is below it.
void sweep(Registry& all, std::vector<UOp>& dead) {
  std::unordered_map<const UOpNode*, uint32_t> inside; // references from the graphs
  std::vector<const UOpNode*> stack;
  auto count = [&](const UOp& u) {
    if (!u || u.node()->refs.load(std::memory_order_relaxed) & UOpNode::kImmortal) return;
    if (auto [it, fresh] = inside.try_emplace(u.node(), 0); ++it->second, fresh) stack.push_back(u.node());
  };
  auto each_below = [](const UOpNode* node, auto&& visit) {
    for (uint32_t i = 0; i < node->nsrc; ++i) visit(*reinterpret_cast<const UOp*>(&node->sources()[i]));
    auto* link =
        node->op == Op::BUFFER
            ? nullptr
            : dynamic_cast<const schedule::Realized*>(node->attachment.load(std::memory_order_acquire));
    if (link) visit(link->storage), visit(link->buffer);
  };
  for (const auto& [buffer, pending] : all.by_buffer) count(pending.whole);
  while (!stack.empty()) {
    const UOpNode* node = stack.back();
    stack.pop_back();
    each_below(node, count);
  }
  std::unordered_set<const UOpNode*> seen;
  for (const auto& [node, references] : inside)
    if (node->refs.load(std::memory_order_relaxed) > references && seen.insert(node).second)
      stack.push_back(node);
  while (!stack.empty()) {
    const UOpNode* node = stack.back();
    stack.pop_back();
    each_below(node, [&](const UOp& u) {
      if (u && inside.contains(u.node()) && seen.insert(u.node()).second) stack.push_back(u.node());
    });
  }
  for (auto it = all.by_buffer.begin(); it != all.by_buffer.end();) {
    if (seen.contains(it->first)) {
      ++it;
      continue;
    }
    dead.push_back(std::move(it->second.whole));
    it = all.by_buffer.erase(it);
  }
  all.count.store(all.by_buffer.size(), std::memory_order_release);
}

void add(const UOp& buffer, UOp whole) {
  Registry& all = registry();
  std::vector<UOp> dead; // released without the lock
  std::lock_guard lock(all.mutex);
  Pending& entry = all.by_buffer[buffer.node()];
  dead.push_back(std::move(entry.whole));
  entry = {std::move(whole), std::this_thread::get_id()};
  all.count.store(all.by_buffer.size(), std::memory_order_release);
  if (all.by_buffer.size() < all.sweep_at) return;
  sweep(all, dead);
  all.sweep_at = std::max<size_t>(16, 2 * all.by_buffer.size());
}

// This thread's, of that version or later.
std::vector<Pending> own_entries(uint64_t since = 0) {
  if (is_empty()) return {};
  Registry& all = registry();
  std::vector<Pending> own;
  std::lock_guard lock(all.mutex);
  for (const auto& [buffer, pending] : all.by_buffer)
    if (pending.thread == std::this_thread::get_id() && version_named(pending.write()) >= since &&
        !pending.is_done())
      own.push_back(pending);
  // The order of the writes, whatever the map's is.
  std::sort(own.begin(), own.end(), [](const Pending& a, const Pending& b) {
    return version_named(a.write()) < version_named(b.write());
  });
  return own;
}

} // namespace

bool is_up_to_date(const UOp& node) {
  uint64_t version = 0;
  bool named = false;
  for (const UOp* at = &node;;) {
    if (const schedule::Realized* link = schedule::realized_link(*at)) {
      if (is_write(*at) && !named) return false; // executed: the state is enough
      at = &link->storage;
      continue;
    }
    if (at->is(Op::AFTER) && !named) version = version_named(*at), named = true;
    if (!at->is(ops::View | OpSet(Op::AFTER, Op::SLICE))) {
      const StorageVersion* known = at->is(Op::BUFFER) ? known_version(*at) : nullptr;
      return !known || known->newest() == version;
    }
    at = &at->src(0);
  }
}

UOp up_to_date(const UOp& node) {
  StorageRef ref = viewed(node);
  StorageVersion* version = ref ? known_version(ref.base) : nullptr;
  if (!version) return node;
  uint64_t written = version->written();
  if (version->newest() != written)
    if (UOp whole = pending_on(ref.base).whole) return over_whole(ref, whole);
  UOp state = written == 0 ? ref.storage : make(Op::AFTER, ref.storage.dtype(), {ref.storage}, Arg(written));
  return with_views(ref.views, std::move(state));
}

UOp assigned(const UOp& view, const UOp& value, bool shared) {
  StorageRef ref = viewed(view);
  if (!ref) return {};
  bool reshaped = ref.storage.is(Op::BUFFER);
  for (const UOp& u : ref.views) {
    if (u.is(Op::CONTIGUOUS_BACKWARD)) return {};
    reshaped &= u.is(Op::RESHAPE);
  }
  StorageVersion& version = version_of(ref.base);
  // The target: the storage after the write that is pending, or as it is.
  UOp before;
  if (ref.write) before = pending_on(ref.base).whole;
  if (ref.write && !before) before = flat(ref.write, ref.base);
  if (ref.write && !before) { // a write through a view: no node stands for the whole BUFFER after it
    engine::realize(std::vector<UOp>{ref.write}, {}, true);
    ref = viewed(up_to_date(view));
  }
  if (!before) before = view_at(ref.base, version.written());
  UOp target = over_whole(ref, before);
  schedule::check_store_target(target);
  UOp write, whole;
  if (reshaped || !shared) {
    write = after_write(target, store_to(target, value)); // all of it, in its own shape
    if (reshaped) whole = reshape(write, shape_of(ref.base));
  } else {
    whole = write = after_write(before, store_to(target, value));
  }
  version.note_pending(version_named(write));
  UOp now = whole ? over_whole(ref, whole) : write;
  if (shared) add(ref.base, std::move(whole));
  return now;
}

namespace {

// Pending writes of this thread that must be executed together with the roots, because they read storage that writes
// below the roots overwrite.
std::vector<UOp> due_with(std::span<const UOp> roots) {
  std::vector<Pending> own = own_entries();
  if (own.empty()) return {};
  // Nodes below the roots; BUFFERs that they write; writes that a later one follows.
  std::unordered_set<UOp, UOpHash> seen, written, ended;
  auto enter = [&](const UOp& u) {
    if (is_write(u)) written.insert(buffer_below(u)), ended.insert(schedule::viewed_state(u.src(0)));
    return !is_state(u);
  };
  for (const UOp& root : roots) walk(root, seen, enter);
  std::vector<UOp> due;
  for (bool more = !written.empty(); more;) {
    more = false;
    for (const Pending& entry : own) {
      if (seen.contains(entry.write())) continue;
      bool reads = false;
      std::unordered_set<UOp, UOpHash> below;
      walk(entry.write(), below, [&](const UOp& u) {
        if (is_write(u) && seen.contains(u)) {
          reads |= ended.contains(u); // what that leaves
          return false;
        }
        if (is_state(u) || u.is(OpSet(Op::BUFFER, Op::SLICE))) {
          reads |= written.contains(buffer_below(u));
          return false;
        }
        return true;
      });
      if (!reads) continue;
      due.push_back(entry.whole), more = true;
      walk(entry.write(), seen, enter);
    }
  }
  return due;
}

// Removes entries whose write was executed, or can be seen by no handle.
void settle() {
  if (is_empty()) return;
  Registry& all = registry();
  std::vector<UOp> dead; // released without the lock
  {
    std::lock_guard lock(all.mutex);
    for (auto it = all.by_buffer.begin(); it != all.by_buffer.end();) {
      if (it->second.is_done()) {
        dead.push_back(std::move(it->second.whole));
        it = all.by_buffer.erase(it);
      } else {
        ++it;
      }
    }
    all.count.store(all.by_buffer.size(), std::memory_order_release);
  }
  dead.clear(); // before the sweep counts references
  std::lock_guard lock(all.mutex);
  if (!all.by_buffer.empty()) sweep(all, dead);
}

// All pending writes of this thread that have that version or a later one.
std::vector<UOp> all_due(uint64_t since) {
  settle();
  std::vector<UOp> due;
  for (Pending& entry : own_entries(since)) due.push_back(std::move(entry.whole));
  return due;
}

// Returns the results. The roots go before the sweep counts references.
std::vector<UOp> execute(std::vector<UOp> roots) {
  if (roots.empty()) return {};
  std::vector<UOp> results = engine::realize(roots, {}, true);
  roots.clear();
  settle();
  return results;
}

} // namespace

void realize_pending(uint64_t since) {
  if (!is_empty()) execute(all_due(since));
}

uint64_t realize_what_can_be() {
  try {
    realize_pending();
  } catch (const InvalidArgument& e) {
    log::debug(1, std::string("some pending writes cannot be executed: ") + e.what());
    for (const UOp& whole : all_due(0)) {
      std::vector<UOp> roots{whole};
      for (UOp& due : due_with(roots)) roots.push_back(std::move(due));
      try {
        engine::realize(roots, {}, true);
      } catch (const InvalidArgument&) {
      }
    }
    settle();
  }
  return fresh_version();
}

void realize_pending_on(std::span<const engine::JitStorage> used) {
  if (is_empty()) return;
  std::vector<UOp> due;
  for (const engine::JitStorage& s : used)
    if (Pending entry = pending_on(s.node); entry.whole && !entry.is_done())
      due.push_back(std::move(entry.whole));
  execute(std::move(due));
}

void realize_with_pending(std::span<Tensor> tensors, std::optional<uint64_t> since) {
  std::vector<UOp> roots;
  roots.reserve(tensors.size());
  // A constant is one node for all handles and has no storage.
  for (const Tensor& t : tensors) roots.push_back((t.device().empty() ? t.clone() : t).node());
  for (UOp& due : since ? all_due(*since) : due_with(roots)) roots.push_back(std::move(due));
  std::vector<UOp> results = execute(std::move(roots));
  for (size_t i = 0; i < tensors.size(); ++i) tensors[i] = Tensor(results[i]);
}

Tensor value_of(const Tensor& t) {
  if (!on_storage(t.node())) return t;
  return binary(t.dtype() == DType::BOOL ? Op::AND : Op::MUL, t, Tensor::constant(t.dtype(), 1));
}

bool on_storage(const UOp& node) { return bool(viewed(node)); }

size_t pending_count() { return registry().count.load(std::memory_order_acquire); }

} // namespace tolk::detail
