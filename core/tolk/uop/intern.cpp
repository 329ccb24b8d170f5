// The tables of nodes and arguments: hash-consing and lifetimes.
#include "tolk/uop/intern_internal.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "tolk/base/error.h"

namespace tolk {
namespace {

constexpr int kShards = 64;

struct Shard {
  std::mutex mutex;
  NodeTable table{256};
};

// Leaked on purpose: handles in static objects may be dropped after every destructor of this file ran.
Shard* shards() {
  static Shard* all = new Shard[kShards];
  return all;
}
Shard& shard_of(uint64_t hash) { return shards()[hash >> 58]; }

std::atomic<uint64_t> next_global_id{0};
thread_local Arena* arena_now = nullptr;

uint64_t mix(uint64_t h, uint64_t v) {
  unsigned __int128 m = (unsigned __int128)(h ^ v) * 0x9E3779B97F4A7C15ull;
  return uint64_t(m) ^ uint64_t(m >> 64) ^ (h << 7);
}

uint64_t key_hash(Op op, DType dtype, int lanes, std::span<const UOp> src, const Arg& arg) {
  uint64_t h = mix(0x243F6A8885A308D3ull,
                   uint64_t(op) | uint64_t(dtype) << 8 | uint64_t(lanes) << 16 | uint64_t(src.size()) << 32);
  h = mix(h, arg.hash());
  for (const UOp& s : src) h = mix(h, s.hash());
  return mix(h, h >> 32);
}

// Small constants and powers of two are everywhere; counting them would make every thread write the same
// line. They are never freed, so there must be few.
bool is_shared_constant(const NodeKey& key) {
  return key.op == Op::CONST && !key.arg.data &&
         (key.arg.word + 64 < 8192 || (!is_float(key.dtype) && std::has_single_bit(key.arg.word)));
}

// Memory of global nodes that went, kept by the thread that dropped them for the next ones of their size. A
// schedule comes and goes as a whole, and the general allocator would join and split thousands of pieces.
class SpareNodes {
public:
  static void* take(size_t nsrc) {
    if (kKeep && nsrc < kSizes && alive_) {
      std::vector<void*>& spare = mine().spare_[nsrc];
      if (!spare.empty()) {
        void* memory = spare.back();
        spare.pop_back();
        return memory;
      }
    }
    return ::operator new(node_bytes(nsrc));
  }
  static void give(void* memory, size_t nsrc) {
    if (kKeep && nsrc < kSizes && alive_ && mine().spare_[nsrc].size() < kMost)
      mine().spare_[nsrc].push_back(memory);
    else
      ::operator delete(memory);
  }
  ~SpareNodes() {
    alive_ = false; // handles in static objects may still be dropped
    for (std::vector<void*>& spare : spare_)
      for (void* memory : spare) ::operator delete(memory);
  }

private:
#ifdef __SANITIZE_ADDRESS__
  static constexpr bool kKeep = false; // a use of a dead node is to be found
#else
  static constexpr bool kKeep = true;
#endif
  static constexpr size_t kSizes = 8; // nodes of fewer sources
  static constexpr size_t kMost = 16384;
  static SpareNodes& mine() {
    static thread_local SpareNodes one;
    return one;
  }
  static thread_local bool alive_;
  std::array<std::vector<void*>, kSizes> spare_;
};
thread_local bool SpareNodes::alive_ = true;

// Payloads by content, while they have users. Open addressing with the hash beside the pointer: a look at
// another payload's memory is rare.
class ArgTable {
public:
  const ArgData* find(uint64_t hash, std::vector<int64_t> ints, std::vector<std::string> texts) {
    std::lock_guard lock(mutex_);
    if ((used_ + 1) * 2 > slots_.size()) resize(std::max<size_t>(kLeast, 2 * slots_.size()));
    size_t mask = slots_.size() - 1, i = hash & mask;
    for (; slots_[i].data; i = (i + 1) & mask)
      if (slots_[i].hash == hash && slots_[i].data->ints == ints && slots_[i].data->texts == texts) {
        slots_[i].data->users.fetch_add(1, std::memory_order_relaxed);
        return slots_[i].data;
      }
    slots_[i] = {hash, new ArgData{std::move(ints), std::move(texts), hash}};
    ++used_;
    return slots_[i].data;
  }
  // One user less, perhaps the last: none can come while the lock is held.
  void release(const ArgData* data) {
    std::lock_guard lock(mutex_);
    if (data->users.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    size_t mask = slots_.size() - 1, hole = data->hash & mask;
    while (slots_[hole].data != data) hole = (hole + 1) & mask;
    // Those behind the hole that were pushed past it move up.
    for (size_t i = (hole + 1) & mask; slots_[i].data; i = (i + 1) & mask) {
      if (((i - slots_[i].hash) & mask) < ((i - hole) & mask)) continue;
      slots_[hole] = slots_[i], hole = i;
    }
    slots_[hole] = {};
    delete data;
    if (--used_ * 16 < slots_.size() && slots_.size() > kLeast) resize(slots_.size() / 4);
  }
  size_t size() {
    std::lock_guard lock(mutex_);
    return used_;
  }

private:
  static constexpr size_t kLeast = 64;
  struct Slot {
    uint64_t hash = 0;
    const ArgData* data = nullptr;
  };
  void resize(size_t slots) {
    std::vector<Slot> old(std::max(kLeast, slots));
    old.swap(slots_);
    size_t mask = slots_.size() - 1;
    for (const Slot& s : old) {
      if (!s.data) continue;
      size_t i = s.hash & mask;
      while (slots_[i].data) i = (i + 1) & mask;
      slots_[i] = s;
    }
  }
  std::mutex mutex_;
  std::vector<Slot> slots_;
  size_t used_ = 0;
};

// Leaked on purpose, as the shards are.
ArgTable* arg_tables() {
  static auto* all = new ArgTable[kShards];
  return all;
}
ArgTable& arg_table_of(uint64_t hash) { return arg_tables()[hash >> 58]; }

} // namespace

UOpAttachment::~UOpAttachment() = default;

bool NodeTable::equal(const UOpNode& node, const NodeKey& key) {
  if (node.hash != key.hash || node.op != key.op || node.dtype != key.dtype || node.lanes != key.lanes ||
      node.nsrc != key.src.size() || !(node.arg == key.arg))
    return false;
  return std::equal(key.src.begin(), key.src.end(), node.sources(),
                    [](const UOp& a, const UOpNode* b) { return a.node() == b; });
}

void NodeTable::insert(UOpNode* node) {
  if (++size_ > buckets_.size()) {
    std::vector<UOpNode*> bigger(buckets_.size() * 2, nullptr);
    for (UOpNode* head : buckets_)
      while (head) {
        UOpNode* rest = head->chain;
        UOpNode*& slot = bigger[head->hash & (bigger.size() - 1)];
        head->chain = slot, slot = head, head = rest;
      }
    buckets_ = std::move(bigger);
  }
  UOpNode*& slot = buckets_[node->hash & (buckets_.size() - 1)];
  node->chain = slot, slot = node;
}

void NodeTable::erase(UOpNode* node) {
  UOpNode** at = &buckets_[node->hash & (buckets_.size() - 1)];
  while (*at != node) at = &(*at)->chain;
  *at = node->chain;
  --size_;
}

void* Arena::Impl::allocate(size_t bytes) {
  if (bytes > left) {
    size_t size = std::max<size_t>(bytes, 64 * 1024);
    blocks.push_back(std::make_unique_for_overwrite<std::byte[]>(size));
    next = blocks.back().get(), left = size;
  }
  void* memory = next;
  next += bytes, left -= bytes;
  return memory;
}

UOpNode* construct_node(void* memory, const NodeKey& key, uint64_t id, uint32_t refs) {
  UOpNode* node = new (memory) UOpNode;
  node->refs.store(refs, std::memory_order_relaxed);
  node->op = key.op, node->dtype = key.dtype, node->lanes = key.lanes, node->nsrc = uint32_t(key.src.size());
  node->id = id, node->hash = key.hash, node->arg = key.arg;
  node->shape.store(nullptr, std::memory_order_relaxed);
  node->attachment.store(nullptr, std::memory_order_relaxed);
  node->chain = nullptr;
  node->src_ops = {};
  uint16_t flags = 0;
  auto** sources = reinterpret_cast<const UOpNode**>(node + 1);
  for (size_t i = 0; i < key.src.size(); ++i) {
    const UOpNode* s = key.src[i].node();
    sources[i] = UOp(key.src[i]).node();
    if (!(s->refs.load(std::memory_order_relaxed) & UOpNode::kImmortal))
      s->refs.fetch_add(1, std::memory_order_relaxed);
    node->src_ops.add(s->op);
    flags |= s->flags;
  }
  switch (key.op) {
  case Op::RANGE:
  case Op::SPECIAL:
    flags |= kHasRange;
    break;
  case Op::LOAD:
    flags |= kHasLoad;
    break;
  case Op::VAR:
    flags |= kHasVar;
    break;
  case Op::REDUCE:
    flags |= kHasReduce;
    break;
  default:
    break;
  }
  node->flags = flags;
  std::tie(node->vmin, node->vmax) = compute_bounds(key.op, key.dtype, key.src, key.arg);
  return node;
}

UOp make(Op op, DType dtype, std::span<const UOp> src, const Arg& arg, int lanes) {
  const OpInfo& info = op_info(op);
  if (int(src.size()) < info.min_sources || (info.max_sources >= 0 && int(src.size()) > info.max_sources))
    throw InternalError(std::string(info.name) + " takes " + std::to_string(info.min_sources) + " to " +
                        (info.max_sources < 0 ? "any number of" : std::to_string(info.max_sources)) +
                        " sources, got " + std::to_string(src.size()));
  NodeKey key{op, dtype, uint16_t(lanes), src, arg, key_hash(op, dtype, lanes, src, arg)};
  if (Arena* arena = arena_now) {
    Arena::Impl& impl = arena->impl();
    if (UOpNode* found = impl.table.find(key, [](UOpNode*) { return true; })) return UOp::adopt(found);
#ifdef TOLK_VERIFY
    for (const UOp& s : src)
      TOLK_CHECK(s.in_arena(), "a global node became a source of an arena node; import the whole graph");
#endif
    UOpNode* node =
        construct_node(impl.allocate(node_bytes(src.size())), key, impl.nodes.size(), UOpNode::kImmortal);
    impl.nodes.push_back(node);
    impl.table.insert(node);
    return UOp::adopt(node);
  }
#ifdef TOLK_VERIFY
  for (const UOp& s : src)
    TOLK_CHECK(!s.in_arena(), "an arena node became a source of a global node; export the whole graph");
#endif
  Shard& shard = shard_of(key.hash);
  std::lock_guard lock(shard.mutex);
  // A node whose count is zero is being freed by another thread and must not be revived.
  UOpNode* found = shard.table.find(key, [](UOpNode* n) {
    uint32_t refs = n->refs.load(std::memory_order_relaxed);
    if (refs & UOpNode::kImmortal) return true;
    UOpAttachment* attachment = n->attachment.load(std::memory_order_acquire);
    if (attachment && attachment->outdated()) return false;
    while (refs != 0)
      if (n->refs.compare_exchange_weak(refs, refs + 1, std::memory_order_relaxed)) return true;
    return false;
  });
  if (found) return UOp::adopt(found);
  // The bit above the immortal one marks a shared constant: immortal, but still of the global table.
  uint32_t refs = is_shared_constant(key) ? UOpNode::kImmortal | 1 : 1;
  UOpNode* node = construct_node(SpareNodes::take(src.size()), key,
                                 next_global_id.fetch_add(1, std::memory_order_relaxed), refs);
  shard.table.insert(node);
  return UOp::adopt(node);
}

UOp make(Op op, DType dtype, std::initializer_list<UOp> src, const Arg& arg, int lanes) {
  return make(op, dtype, std::span<const UOp>(src.begin(), src.size()), arg, lanes);
}

UOp with_sources(const UOp& u, std::span<const UOp> src) {
  return make(u.op(), u.dtype(), src, u.arg(), u.lanes());
}

bool UOp::in_arena() const { return node_->refs.load(std::memory_order_relaxed) == UOpNode::kImmortal; }

void UOp::release_counted() {
  if (node_->refs.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  // Graphs are tens of thousands deep: a worklist, not recursion. An attachment may drop further handles.
  static thread_local std::vector<const UOpNode*>* pending = nullptr;
  if (pending) {
    pending->push_back(node_);
    return;
  }
  std::vector<const UOpNode*> work{node_};
  pending = &work;
  while (!work.empty()) {
    auto* node = const_cast<UOpNode*>(work.back());
    work.pop_back();
    {
      Shard& shard = shard_of(node->hash);
      std::lock_guard lock(shard.mutex);
      shard.table.erase(node);
    }
    delete node->attachment.load(std::memory_order_acquire);
    destroy_shape(node->shape.load(std::memory_order_acquire));
    for (uint32_t i = 0; i < node->nsrc; ++i) {
      const UOpNode* s = node->sources()[i];
      if (s->refs.load(std::memory_order_relaxed) & UOpNode::kImmortal) continue;
      if (s->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) work.push_back(s);
    }
    size_t nsrc = node->nsrc;
    node->~UOpNode();
    SpareNodes::give(node, nsrc);
  }
  pending = nullptr;
}

bool UOp::set_attachment(std::unique_ptr<UOpAttachment> attachment) const {
  TOLK_CHECK(!in_arena(), "arena nodes carry no attachments");
  UOpAttachment* expected = nullptr;
  if (!node_->attachment.compare_exchange_strong(expected, attachment.get(), std::memory_order_acq_rel))
    return false;
  (void)attachment.release();
  return true;
}

size_t global_node_count() {
  size_t count = 0;
  for (int i = 0; i < kShards; ++i) {
    std::lock_guard lock(shards()[i].mutex);
    count += shards()[i].table.size();
  }
  return count;
}

Arena::Arena() : impl_(std::make_unique<Impl>()) {}
Arena::~Arena() {
  for (UOpNode* node : impl_->nodes) {
    destroy_shape(node->shape.load(std::memory_order_relaxed));
    node->~UOpNode();
  }
}
size_t Arena::size() const { return impl_->nodes.size(); }

ArenaScope::ArenaScope(Arena* arena) : previous_(arena_now) { arena_now = arena; }
ArenaScope::~ArenaScope() { arena_now = previous_; }
Arena* current_arena() { return arena_now; }

Arg::Arg(std::vector<int64_t> ints, std::vector<std::string> texts) {
  uint64_t h = mix(0x13198A2E03707344ull, ints.size());
  for (int64_t v : ints) h = mix(h, uint64_t(v));
  for (const std::string& t : texts) {
    h = mix(h, t.size());
    for (char c : t) h = mix(h, uint64_t(uint8_t(c)));
  }
  data = arg_table_of(h).find(h, std::move(ints), std::move(texts));
}

void Arg::release(const ArgData* data) {
  uint64_t users = data->users.load(std::memory_order_relaxed);
  while (users > 1)
    if (data->users.compare_exchange_weak(users, users - 1, std::memory_order_acq_rel)) return;
  arg_table_of(data->hash).release(data);
}

size_t interned_arg_count() {
  size_t count = 0;
  for (int i = 0; i < kShards; ++i) count += arg_tables()[i].size();
  return count;
}

} // namespace tolk
