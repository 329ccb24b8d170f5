// What a capture found, and its replay.
#include <algorithm>
#include <unordered_set>

#include "tolk/base/config.h"
#include "tolk/base/log.h"
#include "tolk/device/registry.h"
#include "tolk/engine/capture/jit.h"
#include "tolk/engine/capture/jit_internal.h"
#include "tolk/engine/capture/prune.h"
#include "tolk/engine/graph/batch_graphs.h"
#include "tolk/engine/graph/graph_call.h"
#include "tolk/engine/run/node_storage.h"
#include "tolk/uop/build.h"
#include "tolk/uop/print.h"
#include "tolk/uop/state.h"
#include "tolk/uop/traverse.h"

namespace tolk::engine {
namespace {

std::string name_text(const JitName& name) {
  const int* position = std::get_if<int>(&name);
  return position ? std::to_string(*position) : std::get<std::string>(name);
}

std::string list_text(const std::vector<JitName>& names) {
  std::string text = "[";
  for (const JitName& n : names) text += (text.size() > 1 ? ", " : "") + name_text(n);
  return text + "]";
}
std::string list_text(const std::vector<std::string>& names) {
  std::string text = "[";
  for (const std::string& n : names) text += (text.size() > 1 ? ", " : "") + n;
  return text + "]";
}

std::string view_text(const UOp& view) {
  if (!view) return "whole";
  std::string text = to_string(shape_of(view));
  for (UOp at = view; at.nsrc() > 0; at = UOp(at.src(0))) {
    text += std::string(" ") + name(at.op());
    if (at.is(Op::SLICE)) {
      text += "[" + std::to_string(at.arg().i(0)) + "]";
    } else {
      for (size_t i = 1; i < at.nsrc(); ++i) text += (i == 1 ? "(" : ",") + print_expr(at.src(i));
      if (at.nsrc() > 1) text += ")";
    }
  }
  return text;
}

std::string input_text(int64_t size, DType dtype, const std::string& device, const UOp& view,
                       const std::vector<std::string>& vars) {
  return "(" + std::to_string(size) + ", " + std::string(name(dtype)) + ", " + device + ", " +
         view_text(view) + (vars.empty() ? "" : ", variables " + list_text(vars)) + ")";
}

// The first field in which an input is not as expected; null when it fits.
const char* difference(const InputInfo& expected, const JitInput& got) {
  if (elements_of(got.storage) != expected.size) return "the number of elements";
  if (got.storage.dtype() != expected.dtype) return "the dtype";
  if (device_text(got.storage) != expected.device) return "the device";
  if (got.vars != expected.vars) return "the set of bound variables";
  if (got.view != expected.view) return "the view of the storage";
  return nullptr;
}

bool overlap(uint64_t a, uint64_t a_end, uint64_t b, uint64_t b_end) { return a < b_end && b < a_end; }

bool overlap(const AnyBuffer& a, const AnyBuffer& b) {
  for (const BufferRef& x : shards_of(a))
    for (const BufferRef& y : shards_of(b))
      if (x->base_id() == y->base_id() &&
          overlap(x->offset(), x->offset() + x->bytes(), y->offset(), y->offset() + y->bytes()))
        return true;
  return false;
}

// The input's storage with fresh contents-to-be, on the same devices.
AnyBuffer like(const AnyBuffer& buffer) {
  std::vector<BufferRef> fresh;
  for (const BufferRef& b : shards_of(buffer))
    fresh.push_back(make_buffer(b->device(), b->dtype(), b->count()));
  if (std::holds_alternative<BufferRef>(buffer)) return fresh[0];
  return MultiBuffer::of_bufs(std::move(fresh));
}

// What the calls do to a BUFFER, for its role.
struct Use {
  bool overwritten_first = false;
  int writes = 0;
};

} // namespace

CapturedBase::CapturedBase(CaptureParts parts)
    : parts_(std::move(parts)), ambient_(tolk::device(parts_.device)),
      linear_(batch_graphs(ambient_, parts_.planned)), binding_(ambient_) {
  for (const auto& [node, buffer] : parts_.bound) seed_any(binding_, node, buffer);
  devices_ = devices_of(parts_.planned);
  staging_.resize(parts_.expected.size());
  find_facts();
}

CapturedBase::~CapturedBase() { synchronize(); }

void CapturedBase::synchronize() noexcept {
  for (const std::string& name : devices_) {
    try {
      if (Device* open = find_open_device(name)) open->synchronize();
    } catch (const Error& e) {
      log::debug(1, std::string("while a capture was dropped: ") + e.what());
    }
  }
}

size_t CapturedBase::num_kernels() const { return count_kernels(linear_); }

void CapturedBase::find_facts() {
  written_inputs_.assign(parts_.expected.size(), false);
  std::unordered_set<UOp, UOpHash> once(parts_.once.begin(), parts_.once.end());
  std::vector<UOp> order;
  std::unordered_map<UOp, Use, UOpHash> uses;
  auto is_arena = [&](const UOp& base) {
    return base.is(Op::BUFFER) && slot_of(base) < 0 && !binding_.seeded(base);
  };
  for (const UOp& call : calls_of(parts_.planned, true)) {
    CallAccess access = access_of(call);
    for (size_t i = 0; i < access.arguments.size(); ++i) {
      const UOp& argument = access.arguments[i];
      bool in_arena = false;
      for (const UOp& base : bases_of(argument)) {
        if (base.is(Op::PARAM)) {
          if (access.writes[i]) written_inputs_.at(size_t(slot_of(base))) = true;
          continue;
        }
        in_arena |= is_arena(base);
        auto [it, fresh] = uses.try_emplace(base);
        if (fresh) {
          order.push_back(base);
          it->second.overwritten_first = access.overwrites[i] && base == argument;
        }
        it->second.writes += access.writes[i];
        if (access.writes[i] && it->second.writes == 1 && slot_of(base) >= 0) written_.push_back(base);
      }
      if (in_arena || reaches_param(argument)) continue;
      for (const BufferRef& b : shards_of(resolve_buffer(binding_, {}, argument)))
        static_ranges_[b->base_id()].push_back({b->offset(), b->offset() + b->bytes(), access.writes[i]});
    }
  }
  for (const UOp& node : order) {
    const Use& use = uses.at(node);
    StorageRole role = StorageRole::Weight;
    if (is_arena(node)) {
      role = StorageRole::Arena;
      if (use.writes > 1) updated_arenas_.insert(node), binding_.buffer_of_node(node);
    } else if (once.contains(node))
      role = StorageRole::State;
    else if (use.writes > 0)
      role = use.overwritten_first ? StorageRole::Written : StorageRole::State;
    storage_.push_back({node, role});
  }
}

void CapturedBase::check(const JitInputs& inputs) const {
  if (inputs.names != parts_.names)
    throw JitError("args mismatch in JIT: expected names " + list_text(parts_.names) + ", got " +
                   list_text(inputs.names) + "; pass each input as at the call that was captured");
  if (inputs.inputs.size() != parts_.expected.size())
    throw JitError("input count mismatch: expected " + std::to_string(parts_.expected.size()) + ", got " +
                   std::to_string(inputs.inputs.size()));
  for (size_t i = 0; i < parts_.expected.size(); ++i) {
    const InputInfo& want = parts_.expected[i];
    const JitInput& got = inputs.inputs[i];
    if (const char* what = difference(want, got))
      throw JitError("input " + std::to_string(i) + " mismatch: expected " +
                     input_text(want.size, want.dtype, want.device, want.view, want.vars) + ", got " +
                     input_text(elements_of(got.storage), got.storage.dtype(), device_text(got.storage),
                                got.view, got.vars) +
                     "; " + what +
                     " differs. A captured function takes what it was captured with; reset it for "
                     "another form");
  }
  for (const JitVariable& var : parts_.variables) {
    auto it = inputs.var_vals.find(var.name);
    if (it == inputs.var_vals.end())
      throw JitError("variable \"" + var.name + "\" has no value in this call, and captured kernels use it");
    if (it->second < var.min || it->second > var.max)
      throw JitError("variable \"" + var.name + "\" is " + std::to_string(it->second) + ", outside " +
                     std::to_string(var.min) + " .. " + std::to_string(var.max));
  }
}

std::vector<AnyBuffer> CapturedBase::resolved(const JitInputs& inputs, const Resolver& buffers) const {
  std::vector<AnyBuffer> out;
  out.reserve(inputs.inputs.size());
  for (size_t i = 0; i < inputs.inputs.size(); ++i) {
    const UOp& node = inputs.inputs[i].storage;
    std::optional<AnyBuffer> found = buffers ? buffers(node) : std::nullopt;
    if (!found || !has_value(*found)) throw JitError("input " + std::to_string(i) + " has no backing buffer");
    for (const BufferRef& b : shards_of(*found))
      if (b->bytes() < storage_bytes(node.dtype(), uint64_t(elements_of(node))))
        throw JitError("input " + std::to_string(i) + " has no backing buffer of " +
                       std::to_string(elements_of(node)) + " elements: its storage has " +
                       std::to_string(b->bytes()) + " bytes");
    out.push_back(std::move(*found));
  }
  return out;
}

// The kernels were captured with inputs that shared no storage with what they write; when they do now, a copy
// keeps the values that the inputs have at the call.
void CapturedBase::part_aliases(std::vector<AnyBuffer>& buffers) {
  std::vector<size_t> to_copy;
  for (size_t i = 0; i < buffers.size(); ++i) {
    bool copied = false;
    for (const BufferRef& b : shards_of(buffers[i])) {
      auto it = static_ranges_.find(b->base_id());
      if (it == static_ranges_.end()) continue;
      for (const Range& range : it->second) {
        if (!overlap(b->offset(), b->offset() + b->bytes(), range.begin, range.end)) continue;
        if (written_inputs_[i])
          throw JitError("input " + std::to_string(i) + " aliases a buffer the captured schedule " +
                         (range.written ? "writes" : "reads") +
                         " and is updated in place; a copy would lose the update. Pass a clone(), or capture "
                         "with inputs that share storage in the same way");
        copied |= range.written;
      }
    }
    if (copied) to_copy.push_back(i);
    if (!written_inputs_[i]) continue;
    for (size_t j = 0; j < buffers.size(); ++j)
      if (j != i && overlap(buffers[i], buffers[j]))
        throw JitError("duplicate inputs to JIT: inputs " + std::to_string(std::min(i, j)) + " and " +
                       std::to_string(std::max(i, j)) + " share storage, and input " + std::to_string(i) +
                       " is updated in place");
  }
  for (size_t i : to_copy)
    if (std::find(parts_.returned.begin(), parts_.returned.end(), i) != parts_.returned.end())
      throw JitError("input " + std::to_string(i) +
                     " is returned as it is, and its storage is overwritten by this call: it is, say, the "
                     "result of an earlier one. Pass a clone()");
  for (size_t i : to_copy) {
    if (!has_value(staging_[i])) staging_[i] = like(buffers[i]);
    std::vector<BufferRef> to = shards_of(staging_[i]), from = shards_of(buffers[i]);
    for (size_t s = 0; s < to.size(); ++s) from[s]->allocate(), copy_buffer(*to[s], *from[s]);
    buffers[i] = staging_[i];
    ++input_copies_;
  }
}

void CapturedBase::replay(const JitInputs& inputs, const Resolver& buffers, bool wait) {
  check(inputs);
  RunOptions options;
  options.input_overlay = resolved(inputs, buffers);
  part_aliases(options.input_overlay);
  for (const JitInput& input : inputs.inputs) options.input_uops.push_back(input.storage);
  options.var_vals = inputs.var_vals;
  options.jit = true, options.wait = wait;
  const uint64_t version = fresh_version(); // a BUFFER compares with numbers of its own: one serves all
  for (const UOp& node : written_) version_of(node).note_written(version);
  for (size_t i = 0; i < written_inputs_.size(); ++i)
    if (const UOp& node = inputs.inputs[i].storage; written_inputs_[i] && node.is(Op::BUFFER))
      version_of(node).note_written(version);
  if (size_t n = num_calls(); n >= 10) log::debug(1, "jit execs " + std::to_string(n) + " calls");
  run_linear(ambient_, parts_.to_program, binding_, linear_, options);
}

void CapturedBase::free_intermediates() {
  synchronize();
  binding_.drop_prepared();
  staging_.assign(staging_.size(), {});
  for (const JitStorage& s : storage_) {
    if (s.role == StorageRole::Arena) {
      binding_.remove(s.node); // the next replay makes another
      if (updated_arenas_.contains(s.node)) binding_.buffer_of_node(s.node);
    } else if (s.role == StorageRole::Written) {
      for (const BufferRef& b : shards_of(binding_.buffer_of_node(s.node)))
        if (b->is_allocated() && !b->imported()) b->release(); // imported memory is not ours to give
    }
  }
}

} // namespace tolk::engine
