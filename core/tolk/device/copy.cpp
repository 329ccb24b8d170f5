#include "tolk/device/copy.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "tolk/base/config.h"
#include "tolk/base/error.h"
#include "tolk/device/device.h"
#include "tolk/device/stream.h"
#include "tolk/loader/plugin_loader.h"
#include "tolk/loader/status.h"

namespace tolk {
namespace {

uint64_t staging_bytes() { return static_cast<uint64_t>(Config::current().staging_bytes); }

// Where the host's own copies go: behind the last write when nothing else is queued after that, else beside
// the computation.
Stream& stream_for_host(Device& device, const Storage& storage) {
  Stream& compute = device.compute();
  const Seq& write = storage.uses.last_write;
  if (!device.copy() || compute.is_complete(compute.submitted()) ||
      (write.stream == &compute && write.value == compute.submitted()))
    return compute;
  return *device.copy();
}

// A copy between the host and storage, done when this returns.
template <typename Copy> void with_host(Storage& storage, bool writes, Copy copy) {
  Device& device = storage.device;
  const std::array<Use, 1> uses{Use{&storage, writes}};
  SubmitLock lock(device);
  Stream& stream = stream_for_host(device, storage);
  stream.before(uses);
  tolk_status status;
  {
    auto serial = device.plugin().serialize();
    status = copy(device.plugin().stream, stream.handle());
  }
  stream.check(status, writes ? "copy in" : "copy out");
  if (writes) stream.after(uses);
  stream.note_complete(stream.submitted()); // it is done, and so is all before it
}

bool apart(const tolk_ref& a, const tolk_ref& b) {
  return a.buffer != b.buffer || a.offset + a.size <= b.offset || b.offset + b.size <= a.offset;
}

bool native_copy(Storage& dst, tolk_ref to, Storage& src, tolk_ref from) {
  if (!can_transfer(dst.device, src.device)) return false;
  // Between devices the copy goes on beside the destination's kernels.
  const bool beside = &dst.device != &src.device && dst.device.copy();
  Stream& stream = beside ? *dst.device.copy() : dst.device.compute();
  const std::array<Use, 2> uses{Use{&src, false}, Use{&dst, true}};
  SubmitLock lock(dst.device, src.device);
  stream.before(uses);
  tolk_status status;
  {
    Plugin& plugin = dst.device.plugin();
    auto serial = plugin.serialize();
    status = plugin.stream.copy(stream.handle(), to, from);
  }
  if (status == TOLK_E_UNSUPPORTED) {
    take_error_text(status);
    return false;
  }
  stream.check(status, "copy");
  stream.after(uses);
  return true;
}

// Through host memory, from the end that keeps an overlapping source whole.
void bounce(Storage& dst, tolk_ref to, Storage& src, tolk_ref from) {
  const bool backwards = !apart(to, from) && to.offset > from.offset;
  std::vector<std::byte> block(std::min(staging_bytes(), to.size));
  for (uint64_t done = 0; done < to.size;) {
    const uint64_t n = std::min<uint64_t>(block.size(), to.size - done);
    const uint64_t at = backwards ? to.size - done - n : done;
    read_range(src, {from.buffer, from.offset + at, n}, block.data());
    write_range(dst, {to.buffer, to.offset + at, n}, block.data());
    done += n;
  }
}

} // namespace

void write_range(Storage& storage, tolk_ref to, const void* source) {
  with_host(storage, true, [&](tolk_stream_vt& t, tolk_stream* s) { return t.copy_in(s, to, source, 0); });
}

void read_range(Storage& storage, tolk_ref from, void* target) {
  with_host(storage, false,
            [&](tolk_stream_vt& t, tolk_stream* s) { return t.copy_out(s, target, from, 0); });
}

bool can_transfer(Device& dst, Device& src) {
  Plugin& plugin = dst.plugin();
  if (&plugin != &src.plugin()) return false;
  if (&dst == &src) return true;
  uint32_t flags = 0;
  auto serial = plugin.serialize();
  return plugin.device.peer(dst.handle(), src.handle(), &flags) >= 0 && (flags & TOLK_PEER_COPY);
}

void copy_range(Storage& dst, tolk_ref to, Storage& src, tolk_ref from) {
  if (!apart(to, from)) {
    if (to.offset != from.offset) bounce(dst, to, src, from);
    return;
  }
  if (native_copy(dst, to, src, from)) return;
  if (std::byte* data = map_storage(src, false))
    return write_range(dst, to, data + (from.offset - src.shift));
  if (std::byte* data = map_storage(dst, true)) return read_range(src, from, data + (to.offset - dst.shift));
  bounce(dst, to, src, from);
}

void fill_range(Storage& storage, tolk_ref to, uint64_t pattern, uint32_t pattern_bytes) {
  Device& device = storage.device;
  const std::array<Use, 1> uses{Use{&storage, true}};
  {
    SubmitLock lock(device);
    Stream& stream = device.compute();
    stream.before(uses);
    tolk_status status;
    {
      auto serial = device.plugin().serialize();
      status = device.plugin().stream.fill(stream.handle(), to, pattern, pattern_bytes);
    }
    if (status != TOLK_E_UNSUPPORTED) {
      stream.check(status, "fill");
      stream.after(uses);
      return;
    }
    take_error_text(status);
  }
  const uint64_t whole = staging_bytes() / pattern_bytes * pattern_bytes;
  std::vector<std::byte> block(std::min(std::max<uint64_t>(whole, pattern_bytes), to.size));
  for (uint64_t i = 0; i < block.size(); i += pattern_bytes)
    std::memcpy(block.data() + i, &pattern, pattern_bytes);
  for (uint64_t done = 0; done < to.size; done += block.size())
    write_range(storage, {to.buffer, to.offset + done, std::min<uint64_t>(block.size(), to.size - done)},
                block.data());
}

std::byte* map_storage(Storage& storage, bool writable) {
  Device& device = storage.device;
  SubmitLock lock(device);
  if (!storage.host_pointer_known) {
    void* pointer = nullptr;
    auto serial = device.plugin().serialize();
    tolk_status status =
        device.plugin().buffer.map(storage.handle, storage.shift, storage.request.bytes,
                                   TOLK_MAP_READ | (writable ? uint32_t{TOLK_MAP_WRITE} : 0u), &pointer);
    if (status == TOLK_E_UNSUPPORTED) {
      take_error_text(status);
      pointer = nullptr;
    } else {
      device.check(status, "map");
    }
    storage.host_pointer = static_cast<std::byte*>(pointer);
    storage.host_pointer_known = true;
  }
  if (storage.host_pointer && !storage.uses.empty()) Stream::host_waits_for(storage, true);
  return storage.host_pointer;
}

void unmap_storage(Storage& storage) {
  if (storage.host_pointer) {
    auto serial = storage.device.plugin().serialize();
    storage.device.plugin().buffer.unmap(storage.handle, storage.host_pointer);
  }
  storage.host_pointer = nullptr;
  storage.host_pointer_known = false;
}

} // namespace tolk
