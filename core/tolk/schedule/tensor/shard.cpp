#include "tolk/schedule/tensor/shard.h"

#include <vector>

#include "tolk/base/error.h"
#include "tolk/schedule/tensor/realized.h"
#include "tolk/schedule/tensor/views.h"
#include "tolk/uop/build.h"

namespace tolk::schedule {
namespace {

// The value to distribute: host data that was to be copied to one device goes to all directly.
UOp origin(const UOp& u) {
  if (u.is(Op::COPY) && realized_form(u) == u && device_of(u.src(0)) == "HOST") return u.src(0);
  return u;
}

} // namespace

UOp own_part(const UOp& whole, const Sharding& sharding) {
  Shape begin(shape_of(whole).size(), SInt(0)), size = shape_of(whole);
  auto axis = size_t(sharding.axis);
  size[axis] = floordiv(size[axis], SInt(sharding.count));
  begin[axis] = SInt(device_position(sharding.count)) * size[axis];
  return shrink(whole, begin, size);
}

UOp replicated(const UOp& u, std::span<const std::string> devices) {
  std::string tuple = join_devices(devices);
  if (device_of(u) == tuple && !sharding_of(u).sharded()) return u;
  return copy_to(origin(u), tuple);
}

UOp sharded(const UOp& u, std::span<const std::string> devices, int64_t axis) {
  TOLK_CHECK(devices.size() > 1, "a value is sharded over two devices or more");
  auto count = int64_t(devices.size());
  const Shape& shape = shape_of(u);
  if (axis < 0 || axis >= int64_t(shape.size()))
    throw InvalidArgument("shard: axis " + std::to_string(axis) + " is outside the shape " +
                          to_string(shape));
  const SInt& size = shape[size_t(axis)];
  if (!size.is_const() || size.value() % count != 0)
    throw InvalidArgument("shard: axis " + std::to_string(axis) + " has size " + to_string(size) +
                          ", which " + std::to_string(count) +
                          " devices cannot have in equal parts; pad it to a multiple, or shard another axis");
  Sharding wanted{int(axis), count};
  std::string tuple = join_devices(devices), device = device_of(u);
  if (device.empty()) return multi(copy_to(own_part(u, wanted), tuple), int(axis), count);
  if (is_multi(device)) {
    if (device == tuple && sharding_of(u) == wanted) return u;
    // Storage of its own: a view of a replica would keep the whole alive on every device.
    return multi(contiguous(own_part(replicated(u, devices), wanted)), int(axis), count);
  }
  UOp from = origin(u);
  Shape begin(shape.size(), SInt(0)), extent = shape;
  extent[size_t(axis)] = size.value() / count;
  auto part = [&](int64_t i) {
    begin[size_t(axis)] = i * (size.value() / count);
    return shrink(from, begin, extent);
  };
  // Shards with gaps are cut by a kernel, and the host has none.
  if (device_of(from) == "HOST" && !dense_range(part(0))) from = copy_to(from, devices[0]);
  std::vector<UOp> parts;
  for (int64_t i = 0; i < count; ++i) parts.push_back(copy_to(part(i), devices[size_t(i)]));
  return multi(mstack(parts), int(axis), count);
}

} // namespace tolk::schedule
