#include "tolk/engine/run/node_storage.h"

#include <algorithm>

#include "tolk/base/error.h"
#include "tolk/device/registry.h"
#include "tolk/engine/run/host_data.h"
#include "tolk/uop/build.h"
#include "tolk/uop/print.h"
#include "tolk/uop/storage_ref.h"

namespace tolk::engine {
namespace {

// Attached to a node's StorageVersion. While the node lives it counts as a user of its buffers.
struct Storage : UOpAttachment {
  explicit Storage(AnyBuffer b) : buffer(std::move(b)) { count(1); }
  ~Storage() override { count(-1); }
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  void count(int by) const {
    if (has_value(buffer)) std::visit([by](const auto& b) { b->add_ref(by); }, buffer);
  }
  AnyBuffer buffer;
  bool host_data = false; // host_data.h; set before other threads see the node
};

Device& device_for(const std::string& text, Device* ambient) {
  if (!ambient && text.empty()) throw InvalidArgument("storage that names no device needs one to be made on");
  return device_named(text, ambient ? *ambient : host_device());
}

} // namespace

Device& device_named(const std::string& name, Device& ambient) {
  if (name.empty() || name == ambient.name()) return ambient;
  return name == "HOST" ? host_device() : device(name);
}

bool has_buffer(const UOp& storage) {
  StorageVersion* known = known_version(storage);
  return known && known->buffer();
}

bool set_buffer(const UOp& storage, AnyBuffer buffer) {
  TOLK_CHECK(storage.is(Op::BUFFER), "only a BUFFER node owns storage");
  return version_of(storage).set_buffer(std::make_unique<Storage>(std::move(buffer)));
}

AnyBuffer make_storage(const UOp& storage, Device* ambient) {
  TOLK_CHECK(storage.is(OpSet(Op::BUFFER, Op::PARAM)), "only a BUFFER names storage of its own");
  uint64_t count = uint64_t(elements_of(storage));
  const std::string& where = device_text(storage);
  if (where.find(',') == where.npos) return make_buffer(device_for(where, ambient), storage.dtype(), count);
  std::vector<BufferRef> shards;
  for (const std::string& name : split_devices(where))
    shards.push_back(make_buffer(device_for(name, ambient), storage.dtype(), count));
  return MultiBuffer::of_bufs(std::move(shards));
}

AnyBuffer any_buffer_of(const UOp& storage) {
  if (storage.is(Op::SLICE)) {
    uint64_t count = uint64_t(elements_of(storage)), offset = uint64_t(storage.arg().i(0));
    return view_of(any_buffer_of(storage.src(0)), storage.dtype(), count, offset);
  }
  TOLK_CHECK(storage.is(Op::BUFFER), "storage of a node is a BUFFER or a SLICE");
  StorageVersion& version = version_of(storage);
  if (!version.buffer()) set_buffer(storage, make_storage(storage));
  return static_cast<Storage*>(version.buffer())->buffer;
}

std::optional<AnyBuffer> known_storage(const UOp& node) {
  if (!node.is(Op::BUFFER) || !has_buffer(node)) return std::nullopt;
  return any_buffer_of(node);
}

BufferRef buffer_of(const UOp& storage) {
  AnyBuffer buffer = any_buffer_of(storage);
  if (is_multi(buffer))
    throw InvalidArgument(print_line(storage) + " names a multi-device buffer in a single-device context");
  return std::get<BufferRef>(std::move(buffer));
}

UOp host_storage(DType dtype, int64_t elements, const void* data, std::shared_ptr<const void> owner,
                 bool writable) {
  UOp node = buffer_node(fresh_user_slot(), dtype, elements, "HOST");
  if (elements > 0)
    set_buffer(
        node, import_host_memory(host_device(), dtype, uint64_t(elements), data, std::move(owner), writable));
  return node;
}

void set_host_data(const UOp& buffer) {
  if (has_buffer(buffer)) static_cast<Storage*>(version_of(buffer).buffer())->host_data = true;
}

UOp host_data_of(const UOp& copy) {
  if (!copy.is(Op::COPY)) return {};
  const UOp& at = below(copy.src(0), Op::RESHAPE);
  bool is_data =
      at.is(Op::BUFFER) && has_buffer(at) && static_cast<Storage*>(version_of(at).buffer())->host_data;
  return is_data ? at : UOp();
}

UOp contiguous_storage(const UOp& node) {
  StorageRef ref = storage_ref(node, Through::States);
  bool whole = std::ranges::all_of(ref.views, [](const UOp& view) { return view.is(Op::RESHAPE); });
  return whole && ref.below.is(OpSet(Op::BUFFER, Op::SLICE)) ? ref.below : UOp();
}

} // namespace tolk::engine
