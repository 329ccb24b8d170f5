// Tensors from host memory and back: from, realize, data, to, assign.
#include <cstring>

#include "tolk/device/registry.h"
#include "tolk/dtype/scalar.h"
#include "tolk/engine/capture/capture_scope.h"
#include "tolk/engine/run/host_data.h"
#include "tolk/engine/run/node_storage.h"
#include "tolk/engine/run/realize.h"
#include "tolk/schedule/tensor/multi_axis.h"
#include "tolk/schedule/tensor/realized.h"
#include "tolk/tensor/pending.h"
#include "tolk/tensor/tensor_internal.h"
#include "tolk/uop/eval.h"
#include "tolk/uop/storage_ref.h"
#include "tolk/uop/traverse.h"

namespace tolk {
namespace {

// The caller keeps `owner`'s bytes; the value is HOST storage copied to the device when something needs it
// there.
Tensor from_host(const void* data, uint64_t bytes, DType dtype, const Shape& shape,
                 std::shared_ptr<const void> owner, const std::string& device, bool writable) {
  detail::check_sizes(shape, "data from the host");
  int64_t count = numel(shape).value("data from the host");
  if (storage_bytes(dtype, uint64_t(count)) != bytes)
    throw InvalidArgument("a tensor " + to_string(shape) + " of " + name(dtype) + " has " +
                          std::to_string(storage_bytes(dtype, uint64_t(count))) + " bytes, the data " +
                          std::to_string(bytes));
  UOp host = engine::host_storage(dtype, count, data, std::move(owner), writable);
  std::string to = detail::canonical_devices(device);
  if (to == "HOST") return Tensor(reshape(host, shape));
  engine::set_host_data(host);
  return Tensor(copy_to(reshape(host, shape), to));
}

// The copy from the host that the node is a view of; null when it is something else. A captured function
// would copy again from a tensor on HOST, at every replay: there it must be what `from_host` made.
UOp host_copy_below(const UOp& u) {
  const UOp& at = below_views(u, Through::Views);
  if (!at.is(Op::COPY) || device_of(at.src(0)) != "HOST") return {};
  return !engine::is_capturing() || engine::host_data_of(at) ? at : UOp();
}

// A symbolic size at the values that its variables are bound to.
int64_t bound_value(const SInt& size) {
  std::vector<Binding> bindings;
  for (const UOp& u : toposort(size.uop()))
    if (u.is(Op::BIND)) bindings.push_back({u, {u.src(1).const_int(), 0}});
  return int64_t(evaluate(size.uop(), bindings).i);
}

} // namespace

Tensor Tensor::from_bytes(const void* data, uint64_t bytes, DType dtype, const Shape& shape,
                          const std::string& device) {
  // 64-byte alignment lets a device take the copy over as it is.
  std::shared_ptr<std::byte> copy(static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 127) / 64 * 64)),
                                  std::free);
  if (!copy) throw OutOfMemory("host memory for a tensor of " + std::to_string(bytes) + " bytes");
  if (bytes) std::memcpy(copy.get(), data, bytes);
  return from_host(copy.get(), bytes, dtype, shape, copy, device, true);
}

Tensor Tensor::from_borrowed(const void* data, uint64_t bytes, DType dtype, const Shape& shape,
                             std::shared_ptr<const void> owner, const std::string& device) {
  return from_host(data, bytes, dtype, shape, std::move(owner), device, false);
}

Tensor Tensor::empty(const Shape& shape, DType dtype, const std::string& device) {
  detail::check_sizes(shape, "empty");
  std::string where = detail::canonical_devices(device);
  UOp storage = buffer_node(fresh_user_slot(), dtype, max_numel(shape), where);
  // A symbolic size: dense at the start of storage for the largest.
  if (SInt count = tolk::numel(shape); !count.is_const()) storage = tolk::shrink(storage, {0}, {count});
  return Tensor(tolk::reshape(storage, shape));
}

Tensor Tensor::clone() const {
  if (numel() == 0) return *this;
  schedule::Sharding parts = schedule::sharding_of(node());
  Shape own = shape();
  if (parts.sharded()) own[size_t(parts.axis)] = tolk::floordiv(own[size_t(parts.axis)], SInt(parts.count));
  Tensor copy = empty(own, dtype(), device());
  if (parts.sharded()) copy = Tensor(multi(copy.node(), parts.axis, parts.count));
  // The host has no kernel that could copy.
  Tensor value = device() == "HOST" ? to(default_device()).to("HOST") : *this;
  // A copy of storage must be made before anything else writes that storage, a replay above all: it is a pending
  // write like those of assign. A copy of an expression is made when it is read.
  return Tensor(detail::assigned(copy.node(), value.node(), detail::on_storage(value.node())));
}

void Tensor::realize(std::span<Tensor> tensors) { detail::realize_with_pending(tensors); }

Tensor& Tensor::realize() {
  realize(std::span<Tensor>(this, 1));
  return *this;
}

std::vector<std::byte> Tensor::data() const {
  if (is_multi(device()) && shard_axis()) return to(devices().front()).data();
  engine::require_not_capturing("a tensor's values were asked for");
  const UOp view = node();
  if (below(view, Op::RESHAPE).is(ops::Movement) && device() == "HOST") return to(default_device()).data();
  if (SInt count = numel(); !count.is_const()) {
    Tensor value = contiguous();
    value.realize();
    // Dense at the start of storage for the largest size.
    const UOp whole = value.node();
    std::vector<std::byte> bytes = engine::read_bytes(below(whole, OpSet(Op::RESHAPE, Op::SHRINK)));
    bytes.resize(storage_bytes(dtype(), uint64_t(bound_value(count))));
    return bytes;
  }
  Tensor value = numel() == 0 ? *this : contiguous();
  if (numel() == 0) return {};
  value.realize();
  return engine::read_bytes(value.node());
}

double Tensor::item() const {
  if (!(numel() == 1)) throw InvalidArgument("item needs one element, the shape is " + to_string(shape()));
  std::vector<std::byte> bytes = data();
  uint64_t word = 0;
  std::memcpy(&word, bytes.data(), std::min<size_t>(bytes.size(), 8));
  if (is_float(dtype())) return float_from_bits(dtype(), word);
  int unused = 64 - bits(dtype());
  return is_signed(dtype()) ? double(int64_t(word << unused) >> unused) : double(word);
}

Tensor Tensor::contiguous() const {
  UOp now = schedule::realized_form(node());
  if (engine::contiguous_storage(now)) return Tensor(now);
  return Tensor(tolk::contiguous(node()));
}

Tensor Tensor::to(const std::string& device) const {
  if (is_multi(device)) return replicate(split_devices(device));
  std::string target = canonical_device_name(device);
  if (target == "HOST" && this->device().empty()) return to(default_device()).to(target);
  return this->device() == target ? *this : Tensor(copy_to(node(), target));
}

Tensor& Tensor::assign(const Tensor& value) {
  if (!(value.shape() == shape()) || value.dtype() != dtype())
    throw InvalidArgument("assign needs a value of shape " + to_string(shape()) + " and dtype " +
                          name(dtype()) + ", got " + to_string(value.shape()) + " " + name(value.dtype()));
  if (!value.device().empty() && !device().empty() && value.device() != device() &&
      detail::on_storage(node()))
    throw InvalidArgument("assign to " + to_string(shape()) + " on " + device() + " of a value on " +
                          value.device() + "; assign value.to(\"" + device() + "\")");
  UOp now = detail::assigned(node(), value.node(), true);
  // Host data has no other owner: it becomes storage for all handles on it.
  if (UOp data = now ? UOp() : host_copy_below(node())) {
    Tensor(data).realize();
    now = detail::assigned(node(), value.node(), true);
  }
  // Replays do not reach a handle, and would go on with the value that it has now.
  if (!now && engine::is_capturing() && !(numel() == 0))
    throw InvalidArgument("a captured function assigns to " + to_string(shape()) + " " + name(dtype()) +
                          ", which is " +
                          (device().empty() ? "a constant" : "an expression that was not realized") +
                          " and has no storage for replays to write. clone() it before the first call; use "
                          "= for what belongs to one call");
  // Plain assignment gives the value, and never another handle's storage.
  node_ = now ? now : detail::on_storage(value.node()) ? value.clone().node_ : value.node();
  return *this;
}

} // namespace tolk
