#include "tolk/uop/key.h"

#include <vector>

#include "tolk/uop/ops.h"

namespace tolk {
namespace {

// What the numbers in a key mean: the ops and dtypes in order.
uint64_t vocabulary() {
  static const uint64_t value = [] {
    uint64_t h = 1;
    for (int i = 0; i < kOpCount; ++i) h = combine64(h, hash64(name(Op(i))));
    for (int i = 0; i <= int(DType::Void); ++i) h = combine64(h, hash64(name(DType(i))));
    return h;
  }();
  return value;
}

// Node -> position in visiting order, by node id; open addressing.
class Numbers {
public:
  Numbers() : slots_(1024) {}
  // Position + 1, or 0 while it is not known; the reference holds until the next call.
  uint32_t& at(uint64_t id) {
    if ((used_ + 1) * 2 > slots_.size()) grow();
    Slot& s = find(id);
    if (s.key == 0) s.key = id + 1, ++used_;
    return s.number;
  }

private:
  struct Slot {
    uint64_t key = 0;
    uint32_t number = 0;
  };
  Slot& find(uint64_t id) {
    size_t mask = slots_.size() - 1, i = mix64(id + 1) & mask;
    while (slots_[i].key != 0 && slots_[i].key != id + 1) i = (i + 1) & mask;
    return slots_[i];
  }
  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    for (const Slot& s : old)
      if (s.key) find(s.key - 1) = s;
  }
  std::vector<Slot> slots_;
  size_t used_ = 0;
};

class Writer {
public:
  Writer() { word(vocabulary()); }

  // Sources first, each node once, in the order of a depth-first walk.
  void graph(const UOpNode* root) {
    stack_.push_back({root, 0});
    while (!stack_.empty()) {
      Frame& top = stack_.back();
      const UOpNode* node = top.node;
      if (top.next == 0 && numbers_.at(node->id)) {
        stack_.pop_back();
        continue;
      }
      if (top.next < node->nsrc) {
        const UOpNode* source = node->sources()[top.next++];
        if (!numbers_.at(source->id)) stack_.push_back({source, 0});
        continue;
      }
      if (uint32_t& number = numbers_.at(node->id); !number) number = ++count_, this->node(node);
      stack_.pop_back();
    }
    word(numbers_.at(root->id));
  }
  ContentKey finish() const {
    return content_key({reinterpret_cast<const char*>(bytes_.data()), bytes_.size() * sizeof(uint64_t)});
  }

private:
  struct Frame {
    const UOpNode* node;
    uint32_t next;
  };

  void word(uint64_t w) { bytes_.push_back(w); }
  void text(const std::string& t) {
    word(t.size());
    for (size_t i = 0; i < t.size(); i += 8) {
      uint64_t w = 0;
      for (size_t j = i; j < t.size() && j < i + 8; ++j) w |= uint64_t(uint8_t(t[j])) << 8 * (j - i);
      word(w);
    }
  }
  void node(const UOpNode* n) {
    word(uint64_t(n->op) | uint64_t(n->dtype) << 8 | uint64_t(n->lanes) << 16 | uint64_t(n->nsrc) << 32);
    word(n->arg.word);
    // The list form, and whether there is one: Arg(0) and Arg({}) differ.
    word(n->arg.data ? 1 + n->arg.ints().size() : 0);
    if (n->arg.data) {
      for (int64_t v : n->arg.ints()) word(uint64_t(v));
      word(n->arg.texts().size());
      for (const std::string& t : n->arg.texts()) text(t);
    }
    for (uint32_t i = 0; i < n->nsrc; ++i) word(numbers_.at(n->sources()[i]->id));
  }

  std::vector<uint64_t> bytes_;
  std::vector<Frame> stack_;
  Numbers numbers_;
  uint32_t count_ = 0;
};

} // namespace

ContentKey graph_key(std::span<const UOp> roots) {
  Writer writer;
  for (const UOp& root : roots) writer.graph(root.node());
  return writer.finish();
}

ContentKey graph_key(const UOp& root) { return graph_key(std::span<const UOp>(&root, 1)); }

} // namespace tolk
