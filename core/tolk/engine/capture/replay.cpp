#include "tolk/engine/capture/replay.h"

#include <algorithm>

#include "tolk/base/config.h"
#include "tolk/base/error.h"
#include "tolk/base/log.h"
#include "tolk/device/registry.h"
#include "tolk/engine/run/calls.h"
#include "tolk/engine/run/node_storage.h"
#include "tolk/engine/run/run_linear.h"
#include "tolk/uop/build.h"
#include "tolk/uop/state.h"

namespace tolk::engine {
namespace {

// Storage for a copy of the input, on the same devices.
AnyBuffer like(const AnyBuffer& buffer) {
  std::vector<BufferRef> fresh;
  for (const BufferRef& b : shards(buffer)) fresh.push_back(make_buffer(b->device(), b->dtype(), b->count()));
  if (!is_multi(buffer)) return fresh[0];
  return MultiBuffer::of_bufs(std::move(fresh));
}

} // namespace

Replay::Replay(std::shared_ptr<const Capture> capture)
    : capture_(std::move(capture)), ambient_(tolk::device(capture_->device())), binding_(ambient_) {
  for (const auto& [node, buffer] : capture_->parts().bound) binding_.seed(node, buffer);
  devices_ = devices_of(capture_->planned_linear());
  staging_.resize(capture_->expected().size());
  find_static_uses();
  for (const JitStorage& s : capture_->storage())
    if (capture_->is_updated_arena(s.node)) binding_.buffer_of_node(s.node);
}

Replay::~Replay() { synchronize(); }

void Replay::synchronize() noexcept {
  for (const std::string& name : devices_) {
    try {
      if (Device* open = find_open_device(name)) open->synchronize();
    } catch (const Error& e) {
      log::debug(1, std::string("while a capture was dropped: ") + e.what());
    }
  }
}

void Replay::find_static_uses() {
  NodeSet arenas;
  for (const JitStorage& s : capture_->storage())
    if (s.role == StorageRole::Arena) arenas.insert(s.node);
  for (const UOp& call : calls_of(capture_->planned_linear(), true)) {
    CallAccess access = access_of(call);
    for (size_t i = 0; i < access.arguments.size(); ++i) {
      const UOp& argument = access.arguments[i];
      if (std::ranges::any_of(bases_of(argument),
                              [&](const UOp& b) { return b.is(Op::PARAM) || arenas.contains(b); }))
        continue;
      AnyBuffer buffer = resolve_buffer(binding_, {}, argument);
      for (const BufferRef& b : shards(buffer))
        static_uses_[b->base_id()].push_back(use_of(*b, access.writes[i]));
    }
  }
}

std::vector<AnyBuffer> Replay::resolved(const JitInputs& inputs, const Resolver& buffers) const {
  std::vector<AnyBuffer> out;
  out.reserve(inputs.inputs.size());
  for (size_t i = 0; i < inputs.inputs.size(); ++i) {
    const UOp& node = inputs.inputs[i].storage;
    std::optional<AnyBuffer> found = buffers ? buffers(node) : std::nullopt;
    if (!found || !has_value(*found)) throw JitError("input " + std::to_string(i) + " has no backing buffer");
    for (const BufferRef& b : shards(*found))
      if (b->bytes() < storage_bytes(node.dtype(), uint64_t(elements_of(node))))
        throw JitError("input " + std::to_string(i) + " has no backing buffer of " +
                       std::to_string(elements_of(node)) + " elements: its storage has " +
                       std::to_string(b->bytes()) + " bytes");
    out.push_back(std::move(*found));
  }
  return out;
}

// At the capture, inputs shared no bytes with other storage of the kernels. An input that does now is copied when the
// kernels write those bytes, so that they read the values of the call.
void Replay::copy_aliased_inputs(std::vector<AnyBuffer>& buffers) {
  std::vector<size_t> to_copy;
  for (size_t i = 0; i < buffers.size(); ++i) {
    bool copied = false;
    for (const BufferRef& b : shards(buffers[i])) {
      auto it = static_uses_.find(b->base_id());
      if (it == static_uses_.end()) continue;
      const StorageUse input = use_of(*b, capture_->writes_input(i));
      for (const StorageUse& use : it->second) {
        if (!input.range.overlaps(use.range)) continue;
        if (input.written)
          throw JitError("input " + std::to_string(i) + " aliases a buffer the captured schedule " +
                         (use.written ? "writes" : "reads") +
                         " and is updated in place; a copy would lose the update. Pass a clone(), or capture "
                         "with inputs that share storage in the same way");
        copied |= use.written;
      }
    }
    if (copied) to_copy.push_back(i);
    if (!capture_->writes_input(i)) continue;
    for (size_t j = 0; j < buffers.size(); ++j)
      if (j != i && overlap(buffers[i], buffers[j]))
        throw JitError("duplicate inputs to JIT: inputs " + std::to_string(std::min(i, j)) + " and " +
                       std::to_string(std::max(i, j)) + " share storage, and input " + std::to_string(i) +
                       " is updated in place");
  }
  for (size_t i : to_copy)
    if (std::ranges::find(capture_->parts().returned, i) != capture_->parts().returned.end())
      throw JitError("input " + std::to_string(i) +
                     " is returned as it is, and its storage is overwritten by this call: it is, say, the "
                     "result of an earlier one. Pass a clone()");
  for (size_t i : to_copy) {
    if (!has_value(staging_[i])) staging_[i] = like(buffers[i]);
    std::span<const BufferRef> to = shards(staging_[i]), from = shards(buffers[i]);
    for (size_t s = 0; s < to.size(); ++s) from[s]->allocate(), copy_buffer(*to[s], *from[s]);
    buffers[i] = staging_[i];
    ++input_copies_;
  }
}

void Replay::run(const JitInputs& inputs, const Resolver& buffers, bool wait) {
  capture_->check(inputs);
  RunOptions options;
  options.input_overlay = resolved(inputs, buffers);
  copy_aliased_inputs(options.input_overlay);
  for (const JitInput& input : inputs.inputs) options.input_uops.push_back(input.storage);
  options.var_vals = inputs.var_vals;
  options.jit = true, options.wait = wait;
  const uint64_t version = fresh_version(); // versions are compared per BUFFER, so all can share one number
  for (const UOp& node : capture_->written()) version_of(node).note_written(version);
  for (size_t i = 0; i < inputs.inputs.size(); ++i)
    if (const UOp& node = inputs.inputs[i].storage; capture_->writes_input(i) && node.is(Op::BUFFER))
      version_of(node).note_written(version);
  if (size_t n = capture_->num_calls(); n >= 10) log::debug(1, "jit execs " + std::to_string(n) + " calls");
  run_linear(ambient_, capture_->parts().to_program, binding_, capture_->linear(), options);
}

void Replay::free_intermediates() {
  synchronize();
  binding_.drop_prepared();
  staging_.assign(staging_.size(), {});
  for (const JitStorage& s : capture_->storage()) {
    if (s.role == StorageRole::Arena) {
      binding_.remove(s.node); // the next replay makes another
      if (capture_->is_updated_arena(s.node)) binding_.buffer_of_node(s.node);
    } else if (s.role == StorageRole::Written) {
      AnyBuffer buffer = binding_.buffer_of_node(s.node);
      for (const BufferRef& b : shards(buffer))
        if (b->is_allocated() && !b->imported()) b->release(); // imported memory is not ours to give
    }
  }
}

} // namespace tolk::engine
