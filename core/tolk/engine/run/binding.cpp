#include "tolk/engine/run/binding.h"

#include "tolk/base/error.h"
#include "tolk/engine/run/node_storage.h"
#include "tolk/uop/build.h"
#include "tolk/uop/print.h"

namespace tolk::engine {

RunState::~RunState() = default;

BufferBinding::BufferBinding(Device& ambient) : ambient_(ambient) {
  Buffer::install_copy_runner(copy_buffer); // from here on there is an engine; idempotent
}

BufferBinding::~BufferBinding() { clear(); }

void BufferBinding::changed() {
  ++epoch_;
  views_.clear();
}

void BufferBinding::put(const UOp& node, AnyBuffer buffer, bool made) {
  auto [it, fresh] = index_.emplace(node.node(), entries_.size());
  if (fresh)
    entries_.push_back({node, std::move(buffer), made});
  else
    entries_[it->second] = {node, std::move(buffer), made};
}

void BufferBinding::seed(const UOp& node, AnyBuffer buffer) {
  TOLK_CHECK(node && has_value(buffer), "a binding needs a node and a buffer");
  put(node, std::move(buffer), false);
  changed();
}

void BufferBinding::remove(const UOp& node) {
  auto it = index_.find(node.node());
  if (it == index_.end()) return;
  size_t at = it->second;
  index_.erase(it);
  Entry gone = std::move(entries_[at]); // `node` may be a reference into it
  entries_.erase(entries_.begin() + std::ptrdiff_t(at));
  for (auto& [key, place] : index_)
    if (place > at) --place;
  changed();
}

const AnyBuffer* BufferBinding::find_buffer(const UOp& node) const {
  auto it = index_.find(node.node());
  return it == index_.end() ? nullptr : &entries_[it->second].buffer;
}

AnyBuffer BufferBinding::buffer_of_node(const UOp& node) {
  if (const AnyBuffer* known = find_buffer(node)) return *known;
  if (!node.is(Op::BUFFER))
    throw InvalidArgument("only a BUFFER has storage of its own, not " + print_line(node));
  AnyBuffer buffer;
  bool internal = slot_of(node) < 0;
  if (internal) {
    buffer = make_storage(node, &ambient_);
  } else {
    if (!has_buffer(node)) set_buffer(node, make_storage(node, &ambient_));
    buffer = any_buffer_of(node);
  }
  put(node, buffer, internal);
  return buffer;
}

bool BufferBinding::adopt(const UOp& node, BufferRef buffer) {
  if (mem(node) || !node.is(Op::BUFFER)) return false;
  if (slot_of(node) >= 0 && !set_buffer(node, buffer)) return false;
  put(node, std::move(buffer), false);
  return true;
}

void BufferBinding::iter(const std::function<void(const UOp&, const AnyBuffer&)>& visit) const {
  for (const Entry& entry : entries_) visit(entry.node, entry.buffer);
}

void BufferBinding::clear() {
  drop_prepared();
  index_.clear();
  entries_.clear();
  changed();
}

void BufferBinding::drop_prepared() {
  run_state_.reset();
  views_.clear();
}

void BufferBinding::poison(std::span<const UOp> nodes) {
  for (const UOp& node : nodes) {
    auto it = index_.find(node.node());
    if (it == index_.end() || !entries_[it->second].made) continue;
    const Entry& entry = entries_[it->second];
    for (const BufferRef& b : shards(entry.buffer))
      if (b->is_allocated() && b->bytes()) fill_buffer(*b, 0xA5, 1);
  }
}

} // namespace tolk::engine
