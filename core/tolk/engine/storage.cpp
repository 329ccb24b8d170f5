#include "tolk/engine/storage.h"

#include "tolk/base/error.h"
#include "tolk/device/registry.h"
#include "tolk/uop/build.h"

namespace tolk::engine {
namespace {

struct Storage : UOpAttachment {
  explicit Storage(BufferRef b) : buffer(std::move(b)) {}
  BufferRef buffer;
};

} // namespace

bool has_buffer(const UOp& storage) { return storage.attachment() != nullptr; }

bool set_buffer(const UOp& storage, BufferRef buffer) {
  TOLK_CHECK(storage.is(Op::BUFFER), "only a BUFFER node owns storage");
  return storage.set_attachment(std::make_unique<Storage>(std::move(buffer)));
}

BufferRef buffer_of(const UOp& storage) {
  if (storage.is(Op::SLICE))
    return view_buffer(buffer_of(storage.src(0)), storage.dtype(), uint64_t(elements_of(storage)),
                       uint64_t(storage.arg().i(0)));
  TOLK_CHECK(storage.is(Op::BUFFER), "a call's argument must be a BUFFER or a SLICE");
  if (!storage.attachment()) {
    const std::string& where = device_text(storage);
    Device& on = where == "HOST" ? host_device() : device(where);
    set_buffer(storage, make_buffer(on, storage.dtype(), uint64_t(elements_of(storage))));
  }
  return static_cast<Storage*>(storage.attachment())->buffer;
}

UOp host_storage(DType dtype, int64_t elements, const void* data, std::shared_ptr<const void> owner,
                 bool writable) {
  UOp node = buffer_node(fresh_user_slot(), dtype, elements, "HOST");
  if (elements > 0)
    set_buffer(
        node, import_host_memory(host_device(), dtype, uint64_t(elements), data, std::move(owner), writable));
  return node;
}

UOp contiguous_storage(const UOp& node) {
  UOp at = node;
  while (at.is(Op::RESHAPE)) at = at.src(0);
  return at.is(OpSet(Op::BUFFER, Op::SLICE)) ? at : UOp();
}

} // namespace tolk::engine
