// Tensors on several devices: shard, replicate, allreduce.
#include "tolk/schedule/tensor/shard.h"

#include <algorithm>

#include "tolk/device/registry.h"
#include "tolk/tensor/tensor_internal.h"

namespace tolk {

namespace {

std::vector<std::string> list(const std::vector<std::string>& devices) {
  std::vector<std::string> names;
  for (const std::string& d : devices) names.push_back(canonical_device_name(d));
  if (names.size() > 1 && std::ranges::count(names, "HOST") > 0)
    throw InvalidArgument("a list of devices names those that compute; in " + join_devices(names) +
                          " HOST holds data and computes nothing");
  return names;
}

std::vector<std::string> some(const std::vector<std::string>& devices, const char* what) {
  if (devices.empty()) throw InvalidArgument(std::string(what) + " needs at least one device");
  return list(devices);
}

} // namespace

std::string detail::canonical_devices(const std::string& device) {
  return device.empty() ? default_device() : join_devices(list(split_devices(device)));
}

Tensor Tensor::shard(const std::vector<std::string>& devices, int64_t axis) const {
  std::vector<std::string> names = some(devices, "shard");
  axis = detail::normal_axis(axis, rank(), "shard");
  return names.size() == 1 ? to(names[0]) : Tensor(schedule::sharded(node(), names, axis));
}

Tensor Tensor::replicate(const std::vector<std::string>& devices) const {
  std::vector<std::string> names = some(devices, "replicate");
  return names.size() == 1 ? to(names[0]) : Tensor(schedule::replicated(node(), names));
}

Tensor Tensor::allreduce(Op op) const {
  if (!OpSet(Op::ADD, Op::MUL, Op::MAX).has(op))
    throw InvalidArgument(std::string("allreduce combines with ADD, MUL or MAX, not with ") + name(op));
  if (!is_multi(device())) return detail::value_of(*this);
  if (shard_axis())
    throw InvalidArgument("allreduce combines one term per device; the value is sharded along axis " +
                          std::to_string(*shard_axis()) + ", so reduce that axis instead");
  return Tensor(tolk::allreduce(node(), op));
}

std::vector<std::string> Tensor::devices() const {
  std::string text = device();
  return text.empty() ? std::vector<std::string>() : split_devices(text);
}

std::optional<int64_t> Tensor::shard_axis() const {
  schedule::Sharding sharding = schedule::sharding_of(node());
  return sharding.sharded() ? std::optional<int64_t>(sharding.axis) : std::nullopt;
}

} // namespace tolk
