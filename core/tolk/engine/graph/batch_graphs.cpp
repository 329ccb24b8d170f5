#include "tolk/engine/graph/batch_graphs.h"

#include <algorithm>

#include "tolk/base/config.h"
#include "tolk/base/error.h"
#include "tolk/base/log.h"
#include "tolk/device/copy.h"
#include "tolk/device/registry.h"
#include "tolk/dtype/dtype.h"
#include "tolk/engine/graph/graph_call.h"
#include "tolk/engine/run/calls.h"
#include "tolk/engine/run/node_storage.h"
#include "tolk/engine/run/resolve.h"
#include "tolk/loader/plugin_loader.h"
#include "tolk/uop/build.h"
#include "tolk/uop/storage_ref.h"
#include "tolk/uop/traverse.h"

namespace tolk::engine {
namespace {

// Devices of the argument, one for each position.
std::vector<Device*> devices_of(const UOp& argument, Device& lead) {
  std::vector<Device*> out;
  for (const std::string& name : split_devices(device_of(argument))) out.push_back(&device_named(name, lead));
  return out;
}

void join(std::vector<Device*>& into, std::span<Device* const> more) {
  for (Device* device : more)
    if (std::find(into.begin(), into.end(), device) == into.end()) into.push_back(device);
}

// Distinct devices of a call, in the order met.
std::vector<Device*> devices_of_call(const UOp& call, Device& lead) {
  std::vector<Device*> out;
  for (const UOp& argument : buffer_arguments(call)) join(out, devices_of(argument, lead));
  return out;
}

// The offset of an argument in its storage, in bytes; nothing when it is not known before a run.
std::optional<uint64_t> offset_of(const UOp& argument) {
  uint64_t offset = 0;
  for (const StoragePart& part : storage_parts(argument)) {
    if (!part.exact) return {};
    offset = std::max(offset, uint64_t(part.begin));
  }
  return offset;
}

bool copy_fits(const UOp& call, Device& lead) {
  std::vector<UOp> arguments = buffer_arguments(call);
  if (arguments.size() != 2) return false;
  std::vector<Device*> to = devices_of(arguments[0], lead), from = devices_of(arguments[1], lead);
  if (from.size() != 1 && from.size() != to.size()) return false;
  for (size_t i = 0; i < to.size(); ++i)
    if (!can_transfer(*to[i], *from[from.size() == 1 ? 0 : i])) return false;
  return true;
}

// Results of SLICE calls, as the SLICEs that replace them in later arguments.
class Views {
public:
  // Whether the call only binds a view to a BUFFER that is internal to the list; then the call is dropped.
  bool absorb(const UOp& call) {
    const UOp& body = call.src(0);
    if (call.nsrc() != 3) return false;
    const UOp &out = call.src(1), source = apply(call.src(2));
    if (!out.is(Op::BUFFER) || slot_of(out) >= 0) return false;
    std::vector<UOp> sources = {source};
    for (size_t i = 1; i < body.nsrc(); ++i) sources.push_back(body.src(i));
    map_[out] = make(Op::SLICE, body.dtype(), sources, body.arg());
    return true;
  }
  UOp apply(const UOp& u) const { return map_.empty() ? u : substitute(u, map_); }
  // The call with its arguments replaced; the body stays.
  UOp apply_to_call(const UOp& call) const {
    return map_.empty() ? call : with_arguments(call, [&](const UOp& u) { return apply(u); });
  }

private:
  UOpMap map_;
};

} // namespace

std::optional<GraphAbility> graph_caps(const Device& device) {
  int64_t setting = Config::current().graph;
  if (setting == 0 || device.is_host()) return {};
  GraphAbility ability = graph_ability(device);
  if (!ability.native && setting < 2) return {};
  return ability;
}

bool graph_supports(Device& lead, std::span<Device* const> batch_devices, const UOp& call) {
  if (!call.is(Op::CALL)) return false;
  std::vector<Device*> all(batch_devices.begin(), batch_devices.end());
  join(all, devices_of_call(call, lead));
  if (all.empty()) return false;
  std::optional<GraphAbility> caps = graph_caps(*all[0]);
  if (!caps) return false;
  const UOp& body = call.src(0);
  if (!body.is(Op::PROGRAM) && !(body.is(Op::COPY) && caps->copies)) return false;
  for (Device* device : all)
    if (&device->plugin() != &all[0]->plugin() || !graph_caps(*device)) return false;
  if (all.size() > 1 && !caps->several_devices) return false;
  if (body.is(Op::COPY) && !copy_fits(call, lead)) return false;
  for (const UOp& argument : buffer_arguments(call)) {
    std::optional<uint64_t> offset = offset_of(argument);
    if (!offset || (caps->offset_max && *offset > caps->offset_max)) return false;
  }
  return true;
}

UOp create_graph_call(std::span<const UOp> batch) {
  std::vector<UOp> params;
  for (const UOp& call : batch)
    for (const UOp& argument : buffer_arguments(call))
      for (const UOp& node : toposort(argument))
        if (node.is(Op::PARAM) && std::find(params.begin(), params.end(), node) == params.end())
          params.push_back(node);
  return graph_call(batch, params);
}

UOp graph_split_rewrite(Device& lead, const UOp& linear, int64_t max_batch_size) {
  if (!linear.is(Op::LINEAR)) throw InvalidArgument("graphs are made of a LINEAR, this is no LINEAR");
  std::vector<UOp> out, batch;
  std::vector<Device*> batch_devices;
  Views views;
  int64_t limit = max_batch_size;
  auto flush = [&] {
    if (batch.size() > 1 || (batch.size() == 1 && Config::current().graph_one_kernel)) {
      out.push_back(create_graph_call(batch));
      limit = limit > INT64_MAX / 2 ? INT64_MAX : limit * 2;
      log::debug(2, "JIT GRAPHing batch with " + std::to_string(batch.size()) + " kernels");
    } else {
      out.insert(out.end(), batch.begin(), batch.end());
    }
    batch.clear();
    batch_devices.clear();
  };
  for (const UOp& item : linear.src()) {
    if (!item.is(Op::CALL)) {
      flush();
      out.push_back(item);
      continue;
    }
    if (item.src(0).is(Op::SLICE) && views.absorb(item)) continue;
    UOp call = views.apply_to_call(item);
    std::vector<Device*> devices;
    bool can = call.src(0).is(OpSet(Op::PROGRAM, Op::COPY));
    if (can) devices = devices_of_call(call, lead);
    can = can && !devices.empty() && graph_supports(lead, devices, call);
    if (!can) {
      flush();
      out.push_back(call);
      continue;
    }
    uint32_t nodes_max = graph_caps(*(batch_devices.empty() ? devices : batch_devices)[0])->nodes_max;
    bool full = (limit > 0 && int64_t(batch.size()) >= limit) || (nodes_max && batch.size() >= nodes_max);
    if (!batch.empty() && (full || !graph_supports(lead, batch_devices, call))) flush();
    batch.push_back(call);
    join(batch_devices, devices);
  }
  flush();
  return tolk::linear(out);
}

UOp batch_graphs(Device& lead, const UOp& linear) {
  const Config& config = Config::current();
  if (config.jit >= 2 || !linear.is(Op::LINEAR)) return linear;
  bool any = false;
  for (const UOp& call : linear.src()) {
    if (any || !call.is(Op::CALL) || !call.src(0).is(OpSet(Op::PROGRAM, Op::COPY))) continue;
    for (Device* device : devices_of_call(call, lead)) any = any || graph_caps(*device).has_value();
  }
  return any ? graph_split_rewrite(lead, linear, config.jit_batch_size) : linear;
}

} // namespace tolk::engine
