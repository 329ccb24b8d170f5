#include "tolk/engine/run/resolve.h"

#include <algorithm>

#include "tolk/base/error.h"
#include "tolk/uop/build.h"
#include "tolk/uop/print.h"
#include "tolk/uop/storage_ref.h"

namespace tolk::engine {
namespace {

int64_t slice_offset(const UOp& slice) {
  int64_t offset = slice.arg().i(0);
  if (slice.nsrc() == 1) return offset;
  const UOp& more = slice.src(1);
  if (!more.is_const()) throw InvalidArgument("symbolic SLICE offset in " + print_line(slice));
  return offset + more.const_int();
}

AnyBuffer resolve_op(BufferBinding& binding, const ExecContext& context, const UOp& node) {
  switch (node.op()) {
  case Op::PARAM: {
    int64_t slot = slot_of(node);
    if (slot >= 0) {
      auto at = size_t(slot);
      if (at < context.input_overlay.size() && has_value(context.input_overlay[at]))
        return context.input_overlay[at];
      if (at < context.input_uops.size()) return resolve_buffer(binding, context, context.input_uops[at]);
    }
    throw InvalidArgument("unbound PARAM: the run has " + std::to_string(context.input_uops.size()) +
                          " inputs, the graph reads " + print_line(node));
  }
  case Op::BUFFER:
    return binding.buffer_of_node(node);
  case Op::SLICE: {
    auto offset = uint64_t(slice_offset(node)), count = uint64_t(elements_of(node));
    return view_of(resolve_buffer(binding, context, node.src(0)), node.dtype(), count, offset);
  }
  case Op::MSELECT: {
    AnyBuffer source = resolve_buffer(binding, context, node.src(0));
    if (!is_multi(source)) throw InvalidArgument("MSELECT of a single-device buffer: " + print_line(node));
    const MultiBufferRef& multi = std::get<MultiBufferRef>(source);
    int64_t at = position_of(node);
    if (at < 0 || at >= int64_t(multi->positions()))
      throw InvalidArgument("MSELECT index " + std::to_string(at) + " out of range " +
                            std::to_string(multi->positions()) + ": " + print_line(node));
    return multi->shard(size_t(at));
  }
  case Op::MSTACK: {
    std::vector<BufferRef> shards;
    for (const UOp& child : node.src()) {
      AnyBuffer shard = resolve_buffer(binding, context, child);
      if (is_multi(shard)) throw InvalidArgument("MSTACK of a multi-device buffer: " + print_line(child));
      shards.push_back(std::get<BufferRef>(std::move(shard)));
    }
    return MultiBuffer::of_bufs(std::move(shards));
  }
  default:
    if (node.is(ops::SameBuffer)) return resolve_buffer(binding, context, node.src(0));
    throw InvalidArgument(std::string("cannot resolve ") + name(node.op()) +
                          " to a buffer: " + print_line(node));
  }
}

} // namespace

AnyBuffer resolve_buffer(BufferBinding& binding, const ExecContext& context, const UOp& node) {
  if (const AnyBuffer* known = binding.find_buffer(node)) return *known;
  if (node.is(OpSet(Op::BUFFER, Op::PARAM))) return resolve_op(binding, context, node);
  auto& views = binding.views();
  if (auto it = views.find(node); it != views.end()) return it->second;
  AnyBuffer buffer = resolve_op(binding, context, node);
  if (!reaches_param(node)) binding.views().emplace(node, buffer);
  return buffer;
}

bool reaches_param(const UOp& node) {
  return std::ranges::any_of(storage_parts(node), [](const StoragePart& p) { return p.base.is(Op::PARAM); });
}

std::vector<std::string> argument_devices(const UOp& argument) {
  switch (argument.op()) {
  case Op::BUFFER:
  case Op::PARAM:
    return device_text(argument).empty() ? std::vector<std::string>() : split_devices(device_text(argument));
  case Op::MSELECT: {
    std::vector<std::string> all = argument_devices(argument.src(0));
    size_t at = size_t(position_of(argument));
    return at < all.size() ? std::vector<std::string>{all[at]} : std::vector<std::string>();
  }
  case Op::MSTACK: {
    std::vector<std::string> all;
    for (const UOp& child : argument.src()) {
      std::vector<std::string> one = argument_devices(child);
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }
  default:
    return argument.nsrc() ? argument_devices(argument.src(0)) : std::vector<std::string>();
  }
}

size_t positions_of(const UOp& call) {
  std::vector<UOp> arguments = buffer_arguments(call);
  return arguments.empty() ? 1 : std::max<size_t>(argument_devices(arguments[0]).size(), 1);
}

std::vector<UOp> buffer_arguments(const UOp& call) {
  std::vector<UOp> out;
  for (const UOp& argument : call.src().subspan(1))
    if (!argument.is(OpSet(Op::BIND, Op::VAR))) out.push_back(argument);
  return out;
}

std::vector<std::vector<BufferRef>> unwrap_multi(std::span<const AnyBuffer> buffers) {
  size_t positions = 1;
  bool multi = false;
  for (const AnyBuffer& b : buffers) {
    if (!is_multi(b)) continue;
    size_t n = std::get<MultiBufferRef>(b)->positions();
    if (multi && n != positions)
      throw InvalidArgument("multi-device buffers disagree on device count: one call has buffers on " +
                            std::to_string(positions) + " and on " + std::to_string(n) + " devices");
    multi = true, positions = n;
  }
  std::vector<std::vector<BufferRef>> groups(positions);
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (multi && !is_multi(buffers[i]))
      throw InvalidArgument("mixed single and multi-device buffers: argument " + std::to_string(i) +
                            " of a call is on one device, others are on " + std::to_string(positions));
    for (size_t j = 0; j < positions; ++j) groups[j].push_back(shards(buffers[i])[j]);
  }
  return groups;
}

} // namespace tolk::engine
