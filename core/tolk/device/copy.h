// Moving bytes between ranges of storage: what Buffer's copies and fills and the pools are made of. Each
// orders itself after work that conflicts and takes the submission locks it needs. Ranges are inside their
// storage and the devices usable; callers check.
#pragma once

#include <cstddef>
#include <cstdint>

#include <tolk/plugin/tolk_plugin.h>

#include "tolk/device/storage.h"

namespace tolk {

// Returns when `source` may be reused.
void write_range(Storage& storage, tolk_ref to, const void* source);
// Returns when `target` is filled.
void read_range(Storage& storage, tolk_ref from, void* target);
// Sizes agree and are not 0; ranges of one storage may overlap. The plugin's own copy on the destination's
// queue, else through memory that the host sees, else in pieces of at most TOLK_STAGING_BYTES.
void copy_range(Storage& dst, tolk_ref to, Storage& src, tolk_ref from);
// Size and offset are multiples of `pattern_bytes`; the size is not 0.
void fill_range(Storage& storage, tolk_ref to, uint64_t pattern, uint32_t pattern_bytes);
// Whether the plugin moves bytes between the two devices by itself.
bool can_transfer(Device& dst, Device& src);
// The host's pointer to the storage's first byte once pending work is done, null where the host cannot see
// it. Kept until unmap_storage.
std::byte* map_storage(Storage& storage, bool writable);
void unmap_storage(Storage& storage);

} // namespace tolk
