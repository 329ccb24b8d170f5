#include "tolk/schedule/fuse/kernels.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "tolk/base/check.h"
#include "tolk/base/error.h"
#include "tolk/schedule/fuse/kernel_ast.h"
#include "tolk/schedule/fuse/rebuild.h"
#include "tolk/schedule/fuse/values.h"
#include "tolk/schedule/tensor/placement.h"
#include "tolk/schedule/tensor/views.h"
#include "tolk/uop/build.h"
#include "tolk/uop/print.h"
#include "tolk/uop/traverse.h"

namespace tolk::schedule {
namespace {

// Part of a base that a storage node covers.
struct Bytes {
  int64_t begin, end;
};
Bytes bytes_of(const UOp& storage) {
  int64_t begin = storage.is(Op::SLICE) ? storage.arg().i(0) : 0;
  return {begin, begin + int64_t(storage_bytes(storage.dtype(), uint64_t(elements_of(storage))))};
}

// Whether storing to target[index] may change what the value still has to read: elements of the same base
// other than the one being stored.
// `named`: the bases that other storage nodes represent.
template <typename Named>
bool overwrites_own_input(const UOp& value, const UOp& target, const UOp& index, const Named& named) {
  std::vector<UOp> todo{value};
  std::unordered_map<const UOpNode*, char> seen;
  Bytes written = bytes_of(target);
  while (!todo.empty()) {
    UOp u = std::move(todo.back());
    todo.pop_back();
    if (!u.has(kHasLoad) || !seen.emplace(u.node(), 1).second) continue;
    if (u.is(Op::LOAD) && named(u.src(0), base_of(target))) return true;
    if (u.is(Op::LOAD) && base_of(u.src(0)) == base_of(target)) {
      Bytes read = bytes_of(u.src(0));
      bool apart = read.end <= written.begin || written.end <= read.begin;
      if (u.src(0) == target) {
        bool same = u.src(1) == index;
        apart = same || u.src(1).vmax() < index.vmin() || index.vmax() < u.src(1).vmin();
      }
      if (!apart) return true;
    }
    for (const UOp& s : u.src()) todo.push_back(s);
  }
  return false;
}

class ItemBuilder {
public:
  ItemBuilder(const Graph& graph, const Fusion& fusion, IndexSpace& index, int64_t arguments,
              const Options& options, std::span<const int> through)
      : graph_(graph), fusion_(fusion), index_(index), options_(options),
        through_(through.begin(), through.end()) {
    storage_.resize(graph.nodes.size());
    item_of_.assign(graph.nodes.size(), -1);
    kernel_item_.assign(fusion.kernels.size(), -1);
    for (size_t i = 0; i < graph.outputs.size(); ++i) {
      int n = graph.outputs[i];
      const Node& node = graph.nodes[size_t(n)];
      out_.outputs.push_back(
          param_node(arguments + int64_t(i), node.u.dtype(), node.numel, graph.device_name(n, options)));
      storage_[size_t(n)] = out_.outputs.back();
    }
  }

  Items run() {
    out_.items.reserve(fusion_.kernels.size());
    absorb_copies();
    fill_stacks();
    for (size_t n = 0; n < graph_.nodes.size(); ++n)
      if (fusion_.nodes[n].stored && !storage_[n])
        storage_[n] = is_alias(node(int(n)).kind) ? alias(int(n)) : temporary(int(n));
    Values values(graph_, fusion_, index_, storage_);
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const FusedNode& fused = fusion_.nodes[n];
      const Node& node = graph_.nodes[n];
      if (is_alias(node.kind) && node.output >= 0) copy_parts(int(n));
      if (fused.kernel < 0) continue;
      if (node.kind == Kind::Copy)
        copy(int(n));
      else if (node.kind == Kind::Store)
        store(int(n), values);
      else
        kernel(int(n), values.own(int(n)));
    }
    for (size_t n = 0; n < graph_.nodes.size(); ++n) connect(int(n));
    if (!options_.max_kernel_buffers.empty()) limit_buffers(values);
    for (Item& item : out_.items) {
      if (!aliases_.empty())
        for (UOp& argument : std::span(item.src).subspan(1)) argument = with_aliases(argument);
      std::sort(item.needs.begin(), item.needs.end());
      item.needs.erase(std::unique(item.needs.begin(), item.needs.end()), item.needs.end());
    }
    return std::move(out_);
  }

private:
  const Node& node(int n) const { return graph_.nodes[size_t(n)]; }

  UOp temporary(int n) {
    const Node& at = node(n);
    return buffer_node(next_slot_--, at.u.dtype(), at.numel, graph_.device_name(n, options_));
  }

  // ---- storage on several devices. Kernels are built over placeholder BUFFERs; in the calls, MSELECT and
  // MSTACK of the storage that they represent replace them.

  UOp placeholder(int n, const UOp& named) {
    UOp result = temporary(n);
    aliases_.emplace(result.node(), named);
    return result;
  }

  // Results that are stacks: a part of only one stack is computed, or copied, in place.
  void fill_stacks() {
    for (int n : graph_.outputs) {
      if (node(n).kind != Kind::Stack) continue;
      std::span<const int> parts = graph_.sources_of(n);
      for (size_t i = 0; i < parts.size(); ++i) {
        int part = parts[i];
        if (!fusion_.nodes[size_t(part)].stored || is_alias(node(part).kind) || storage_[size_t(part)])
          continue;
        storage_[size_t(part)] = placeholder(part, mselect(storage_[size_t(n)], int64_t(i)));
        filled_.insert({n, int(i)});
      }
    }
  }

  // Whether a placeholder represents part of the base.
  bool names(const UOp& storage, const UOp& base) const {
    if (aliases_.empty() || !storage.is(Op::BUFFER)) return false;
    UOp named = with_aliases(storage);
    return named != storage && contains(named, base);
  }

  UOp alias(int n) {
    std::vector<UOp> parts;
    for (int source : graph_.sources_of(n)) parts.push_back(source_storage(source));
    return placeholder(n, node(n).kind == Kind::Stack ? mstack(parts)
                                                      : mselect(parts[0], position_of(node(n).u)));
  }

  // The copies that make an alias a result of its own.
  void copy_parts(int n) {
    std::span<const int> sources = graph_.sources_of(n);
    const UOp& result = storage_[size_t(n)];
    bool stack = node(n).kind == Kind::Stack;
    std::vector<std::string> devices = split_devices(graph_.device_name(n, options_));
    for (size_t i = 0; i < sources.size(); ++i) {
      if (filled_.contains({n, int(i)})) continue;
      UOp body = copy_to(param_node(1, node(n).u.dtype(), node(n).numel), devices[i]);
      UOp from = source_storage(sources[i]);
      Item item;
      item.src = {body, stack ? mselect(result, int64_t(i)) : result,
                  stack ? from : mselect(from, position_of(node(n).u))};
      item.node = n;
      add_source(sources[i], item);
      own_items_[n].push_back(int(out_.items.size()));
      out_.items.push_back(std::move(item));
    }
  }

  UOp with_aliases(const UOp& u) const {
    if (u.is(Op::BUFFER)) {
      auto it = aliases_.find(u.node());
      return it == aliases_.end() ? u : with_aliases(it->second);
    }
    std::vector<UOp> src(u.src().begin(), u.src().end());
    for (UOp& s : src) s = with_aliases(s);
    return std::equal(src.begin(), src.end(), u.src().begin()) ? u : with_sources(u, src);
  }

  // ---- sources that calls name as they are: stored values, and dense views of storage

  int below_views(int n) const {
    while (!fusion_.nodes[size_t(n)].stored && node(n).kind != Kind::Storage) n = graph_.sources_of(n)[0];
    return n;
  }

  UOp source_storage(int n) const {
    if (fusion_.nodes[size_t(n)].stored) return storage_[size_t(n)];
    auto range = dense_range(node(n).u, {Op::MSELECT, Op::MSTACK, Op::CONTIGUOUS});
    TOLK_CHECK(range, "a source that is not computed is neither stored nor a dense view of storage");
    if (int base = below_views(n); fusion_.nodes[size_t(base)].stored)
      range->storage = storage_[size_t(base)];
    return storage_node(*range);
  }

  // The items and states that the item depends on when it reads the source.
  void add_source(int n, Item& item) const {
    int base = below_views(n);
    if (!fusion_.nodes[size_t(base)].stored) {
      View view = view_below(n);
      item.reads.push_back({base_of(node(view.storage).u), view.after});
    } else {
      add_stored(base, item);
    }
  }
  void add_stored(int n, Item& item) const {
    if (!is_alias(node(n).kind)) {
      item.needs.push_back(item_of_[size_t(n)]);
      return;
    }
    if (auto it = own_items_.find(n); it != own_items_.end())
      item.needs.insert(item.needs.end(), it->second.begin(), it->second.end());
    for (int source : graph_.sources_of(n)) add_source(source, item);
  }

  // A view of the body's storage, by its number: what it is at the bottom, and in which state it is read.
  struct View {
    int storage, after;
  };
  View view_below(int n) const {
    View view{n, Graph::kNoState};
    while (node(view.storage).kind != Kind::Storage) {
      if (node(view.storage).kind == Kind::After && view.after < 0) view.after = view.storage;
      view.storage = graph_.sources_of(view.storage)[0];
    }
    return view;
  }

  // STORE(dense view, COPY): the copy writes straight to its target.
  void absorb_copies() {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (node(int(n)).kind != Kind::Store) continue;
      int value = graph_.sources_of(int(n)).back();
      auto only_user = [&](int v) { return graph_.users_of(v).size() == 1; };
      while (node(value).u.is(Op::RESHAPE) && only_user(value)) value = graph_.sources_of(value)[0];
      auto range = dense_range(node(int(n)).u.src(0));
      if (node(value).kind != Kind::Copy || !only_user(value) || node(value).output >= 0 || !range) continue;
      if (through_.erase(int(n))) continue; // what it is copied to is the temporary
      storage_[size_t(value)] = storage_node(*range);
      absorbed_.emplace(value, int(n));
      skipped_.emplace(int(n), value);
    }
  }

  Item& add(int n, std::vector<UOp> src) {
    item_of_[size_t(n)] = int(out_.items.size());
    Item item;
    item.src = std::move(src), item.node = n;
    out_.items.push_back(std::move(item));
    return out_.items.back();
  }

  void require_computing(int n) const {
    if (graph_.device_name(n, options_) == "HOST") refuse_host(node(n).u);
  }

  void kernel(int n, const UOp& value) {
    require_computing(n);
    const FusedNode& fused = fusion_.nodes[size_t(n)];
    const FusedKernel& k = fusion_.kernels[size_t(fused.kernel)];
    const Use& own = fusion_.own[size_t(fused.own)];
    UOp at = index_.flat(shape_of(node(n).u), index_.tuple(own.tuple), {});
    kernel_item_[size_t(fused.kernel)] = int(out_.items.size());
    add(n, ast_.kernel_call(storage_[size_t(n)], at, value, result_loops(k)));
  }

  std::span<const UOp> result_loops(const FusedKernel& k) const {
    return {k.loops.data(), size_t(k.result_loops)};
  }

  void store(int n, const Values& values) {
    const FusedNode& fused = fusion_.nodes[size_t(n)];
    const Use& own = fusion_.own[size_t(fused.own)];
    State superseded = superseded_by(n);
    if (auto it = skipped_.find(n); it != skipped_.end()) {
      int item = item_of_[size_t(it->second)];
      out_.items[size_t(item)].superseded = superseded;
      item_of_[size_t(n)] = item;
      kernel_item_[size_t(fused.kernel)] = item;
      return;
    }
    require_computing(n);
    // The target's index, by the rules of reads.
    int at = graph_.sources_of(n)[0];
    TupleId tuple = own.tuple;
    for (; node(at).kind != Kind::Storage; at = graph_.sources_of(at)[0])
      if (node(at).kind == Kind::Movement) tuple = index_.through(node(at).u, tuple, {}).tuple;
    const UOp& target = node(at).u;
    UOp index = index_.simplified(index_.tuple(tuple)[0], {});
    const UOp& value = values.own(n);
    const FusedKernel& k = fusion_.kernels[size_t(fused.kernel)];
    kernel_item_[size_t(fused.kernel)] = int(out_.items.size());
    if (through_.contains(n) ||
        overwrites_own_input(value, target, index,
                             [this](const UOp& read, const UOp& base) { return names(read, base); })) {
      // Through a temporary: everything is read before the first element is overwritten.
      int value_node = graph_.sources_of(n).back();
      UOp temporary =
          buffer_node(next_slot_--, value.dtype(), node(n).numel, graph_.device_name(value_node, options_));
      UOp place = index_.flat(shape_of(node(n).u.src(0)), index_.tuple(own.tuple), {});
      int first = int(out_.items.size());
      add(n, ast_.kernel_call(temporary, place, value, result_loops(k)));
      Item& second = add(n, ast_.kernel_call(target, index, load(temporary, place), result_loops(k)));
      second.needs.push_back(first);
    } else {
      add(n, ast_.kernel_call(target, index, value, result_loops(k)));
    }
    out_.items.back().store = n;
    out_.items.back().superseded = superseded;
  }

  State superseded_by(int store) const {
    View view = view_below(graph_.sources_of(store)[0]);
    return {base_of(node(view.storage).u), view.after};
  }

  void copy(int n) {
    const Node& at = node(n);
    int source = graph_.sources_of(n)[0];
    UOp body = copy_to(param_node(1, at.u.dtype(), at.numel), graph_.device_name(n, options_));
    Item& item = add(n, {body, storage_[size_t(n)], source_storage(source)});
    add_source(source, item);
    if (auto it = absorbed_.find(n); it != absorbed_.end()) item.store = it->second;
  }

  // What the kernels read: the users of every stored value and of the body's storage.
  void connect(int n) {
    const FusedNode& fused = fusion_.nodes[size_t(n)];
    const Node& at = node(n);
    if (!fused.stored && at.kind != Kind::Storage) return;
    for (const Use& use : fused.uses) {
      int reader = kernel_item_[size_t(use.kernel)];
      Item& user = out_.items[size_t(reader)];
      if (fused.stored) {
        if (is_alias(at.kind))
          add_stored(n, user);
        else if (item_of_[size_t(n)] != reader)
          user.needs.push_back(item_of_[size_t(n)]);
        continue;
      }
      State state{base_of(at.u), use.state};
      if (user.reads.empty() || !(user.reads.back() == state)) user.reads.push_back(state);
    }
  }

  // The most buffers of an item's kernel; 0: no limit.
  size_t limit_of(const Item& item) const {
    size_t out = 0;
    for (const std::string& one : split_devices(graph_.device_name(item.node, options_)))
      if (auto it = options_.max_kernel_buffers.find(one); it != options_.max_kernel_buffers.end())
        out = out ? std::min(out, size_t(it->second)) : size_t(it->second);
    return out;
  }

  // Kernels that read too much: stores values in their middle whose own reads stay below the limit.
  void limit_buffers(const Values& values) {
    std::map<size_t, std::vector<const Item*>> over; // by limit
    auto kernel_of = [&](const Item& item) { return size_t(fusion_.nodes[size_t(item.node)].kernel); };
    for (const Item& item : out_.items) {
      if (item.src[0].is(Op::COPY)) continue;
      if (size_t limit = limit_of(item); limit > 0 && item.src.size() - 1 > limit)
        over[limit].push_back(&item);
    }
    for (const auto& [limit, items] : over) {
      const Node& first = node(items[0]->node);
      if (limit < 4)
        throw InvalidArgument(
            "the kernel of " + print_line(first.u) + " needs " + std::to_string(items[0]->src.size() - 1) +
            " buffers, and a kernel on " + graph_.device_name(items[0]->node, options_) + " takes " +
            std::to_string(limit) + ": values cannot be split among kernels of fewer than 4 buffers");
      std::vector<bool> kernels(fusion_.kernels.size()), cut(fusion_.kernels.size());
      for (const Item* item : items) kernels[kernel_of(*item)] = true;
      for (const Values::Cut& c : values.cuts_for_buffers(kernels, limit - 1)) {
        cut[size_t(c.kernel)] = true;
        out_.too_many.push_back(c.node);
      }
      for (const Item* item : items)
        if (!cut[kernel_of(*item)])
          throw InternalError("the kernel of " + print_line(node(item->node).u) + " needs " +
                              std::to_string(item->src.size() - 1) + " buffers, more than the " +
                              std::to_string(limit) + " that are allowed, and no value in it can be stored");
    }
    std::sort(out_.too_many.begin(), out_.too_many.end());
    out_.too_many.erase(std::unique(out_.too_many.begin(), out_.too_many.end()), out_.too_many.end());
  }

  const Graph& graph_;
  const Fusion& fusion_;
  IndexSpace& index_;
  const Options& options_;
  std::set<int> through_;
  KernelAst ast_;
  Items out_;
  std::vector<UOp> storage_;     // of stored nodes
  std::vector<int> item_of_;     // that makes a node's value available, or carries out a Store
  std::vector<int> kernel_item_; // that evaluates a kernel's expression
  std::unordered_map<int, int> absorbed_, skipped_;     // Copy to Store, and back
  std::unordered_map<const UOpNode*, UOp> aliases_;     // of placeholders
  std::set<std::pair<int, int>> filled_;                // Stack, position: computed in place
  std::unordered_map<int, std::vector<int>> own_items_; // of an alias that is a result
  int64_t next_slot_ = -1;
};

} // namespace

Items build_items(const Graph& graph, const Fusion& fusion, IndexSpace& index, int64_t arguments,
                  const Options& options, std::span<const int> through) {
  return ItemBuilder(graph, fusion, index, arguments, options, through).run();
}

} // namespace tolk::schedule
