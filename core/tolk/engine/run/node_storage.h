// Device buffers of storage nodes. A BUFFER node with a user slot has its device Buffer attached, so the
// memory is freed together with the last handle of the node. BUFFERs internal to a schedule (negative slots)
// get theirs from the binding that runs it (engine/run/binding.h).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "tolk/base/api.h"
#include "tolk/engine/run/any_buffer.h"
#include "tolk/uop/uop.h"

namespace tolk::engine {

// The device Buffer of a global BUFFER or SLICE node, created (not allocated) at first use; of a SLICE a
// view. Throws DeviceError when the node's device cannot be opened, InvalidArgument "names a multi-device
// buffer in a single-device context".
TOLK_API BufferRef buffer_of(const UOp& storage);
// The same for storage on one or several devices.
TOLK_API AnyBuffer any_buffer_of(const UOp& storage);
// The storage of a BUFFER node that has a device Buffer already; nothing for other nodes.
TOLK_API std::optional<AnyBuffer> known_storage(const UOp& node);
// Whether a BUFFER node has a device Buffer.
TOLK_API bool has_buffer(const UOp& storage);
// Attaches a Buffer to a BUFFER node that has none; false when another thread was first.
TOLK_API bool set_buffer(const UOp& storage, AnyBuffer buffer);
// The device of a name; `ambient` for an empty name and for its own.
Device& device_named(const std::string& name, Device& ambient);
// A new Buffer of the node's size, not allocated, on the node's devices; on `ambient` when it names none.
TOLK_API AnyBuffer make_storage(const UOp& storage, Device* ambient = nullptr);

// A new BUFFER node on HOST over the caller's bytes, which `owner` keeps alive. Unless `writable`, they must
// not change.
TOLK_API UOp host_storage(DType dtype, int64_t elements, const void* data, std::shared_ptr<const void> owner,
                          bool writable = false);

// The BUFFER or SLICE that holds the value of a realised node row-major and whole: what is below RESHAPEs and
// AFTERs without effects. Null when there are other views.
TOLK_API UOp contiguous_storage(const UOp& node);

} // namespace tolk::engine
