// Device memory behind the graph's storage nodes: a BUFFER node with a user slot carries its device Buffer as
// an attachment, so memory goes back to the device with the last handle of the node. BUFFERs that a schedule
// made for itself (negative slots) get theirs from the binding that runs them (engine/run/binding.h).
#pragma once

#include <memory>
#include <span>
#include <string>

#include "tolk/base/api.h"
#include "tolk/engine/run/any_buffer.h"
#include "tolk/uop/uop.h"

namespace tolk::engine {

// The device Buffer of a global BUFFER or SLICE node, made (not allocated) at first use; a SLICE gives a
// view. Throws DeviceError when the node's device cannot be opened, InvalidArgument "names a multi-device
// buffer in a single-device context".
TOLK_API BufferRef buffer_of(const UOp& storage);
// The same for storage on one or several devices.
TOLK_API AnyBuffer any_buffer_of(const UOp& storage);
// Whether a BUFFER node has its device Buffer already.
TOLK_API bool has_buffer(const UOp& storage);
// Gives a BUFFER node that has none its Buffer; false when another thread was first.
TOLK_API bool set_buffer(const UOp& storage, AnyBuffer buffer);
// A fresh Buffer of the node's size, not allocated, on the devices that the node names; on `ambient` when it
// names none.
TOLK_API AnyBuffer make_storage(const UOp& storage, Device* ambient = nullptr);

// A fresh BUFFER node on HOST over the caller's bytes, which `owner` keeps alive. Unless `writable`, nobody
// changes them.
TOLK_API UOp host_storage(DType dtype, int64_t elements, const void* data, std::shared_ptr<const void> owner,
                          bool writable = false);

// The contiguous storage that a realised tensor node denotes: RESHAPEs stripped, a BUFFER or SLICE; null
// otherwise.
TOLK_API UOp contiguous_storage(const UOp& node);

} // namespace tolk::engine
