// Buffers are plain host memory; copies of it.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include <tolk/plugin/helpers.h>

#include "stream.h"

namespace tolk_cpu {
namespace {

constexpr uint64_t kAlign = 64;
constexpr uint64_t kHugePage = uint64_t{2} << 20;

// What a handle of size 0 points to.
alignas(kAlign) uint8_t nothing[kAlign];

void count_in(uint64_t size) {
  uint64_t now = memory_use.bytes.fetch_add(size) + size;
  uint64_t peak = memory_use.peak.load();
  while (peak < now && !memory_use.peak.compare_exchange_weak(peak, now)) {
  }
  memory_use.buffers.fetch_add(1);
}

bool is_inside(const tolk_buffer* buffer, uint64_t offset, uint64_t size) {
  return tolk_inside(offset, size, buffer->size);
}

tolk_status outside(const tolk_buffer* buffer, uint64_t offset, uint64_t size) {
  return fail(TOLK_E_INVALID, "bytes " + std::to_string(offset) + " to " + std::to_string(offset + size) +
                                  " lie outside the buffer of " + std::to_string(buffer->size) + " bytes");
}

tolk_status create(tolk_device*, const tolk_buffer_desc* desc, tolk_buffer** out) {
  return guarded([&]() -> tolk_status {
    uint64_t align = std::max(desc->align, kAlign);
    if ((align & (align - 1)) != 0)
      return fail(TOLK_E_INVALID, "a buffer's alignment must be a power of two");
    auto buffer = std::make_unique<tolk_buffer>();
    buffer->size = desc->size;
    buffer->data = nothing;
    buffer->owner = tolk_buffer::Owner::Nobody;
    if (desc->size > 0) {
      buffer->data = static_cast<uint8_t*>(host->mem_alloc(host->ctx, desc->size, align));
      if (!buffer->data)
        return fail(TOLK_E_DEVICE_OOM, "no memory for a buffer of " + std::to_string(desc->size) + " bytes");
      buffer->owner = tolk_buffer::Owner::Host;
      if (desc->size >=
          2 * kHugePage) { // large pages spare the address translation; a hint, so failure is no matter
        auto begin = (reinterpret_cast<uintptr_t>(buffer->data) + kHugePage - 1) & ~(kHugePage - 1);
        auto end = (reinterpret_cast<uintptr_t>(buffer->data) + desc->size) & ~(kHugePage - 1);
        madvise(tolk_pointer(begin), end - begin, MADV_HUGEPAGE);
      }
      if (desc->flags & TOLK_BUFFER_ZEROED) std::memset(buffer->data, 0, desc->size);
    }
    count_in(desc->size);
    *out = buffer.release();
    return TOLK_OK;
  });
}

void destroy(tolk_buffer* buffer) {
  if (buffer->owner == tolk_buffer::Owner::Host) host->mem_free(host->ctx, buffer->data);
  if (buffer->owner == tolk_buffer::Owner::Outside && buffer->release) buffer->release(buffer->release_arg);
  if (buffer->owner != tolk_buffer::Owner::Outside && buffer->data != nothing)
    memory_use.bytes.fetch_sub(buffer->size);
  memory_use.buffers.fetch_sub(1);
  delete buffer;
}

tolk_status map(tolk_buffer* buffer, uint64_t offset, uint64_t size, uint32_t, void** out) {
  if (!is_inside(buffer, offset, size)) return outside(buffer, offset, size);
  *out = buffer->data + offset;
  return TOLK_OK;
}

tolk_status unmap(tolk_buffer*, void*) { return TOLK_OK; }

tolk_status import_handle(tolk_device*, const tolk_buffer_desc* desc, uint32_t type, uint64_t value,
                          tolk_release_fn release, void* arg, tolk_buffer** out) {
  if (type != TOLK_HANDLE_HOST_POINTER)
    return fail(TOLK_E_UNSUPPORTED, "the CPU device imports host pointers only");
  if (value == 0 && desc->size > 0) return fail(TOLK_E_INVALID, "a null pointer cannot be imported");
  return guarded([&] {
    *out = new tolk_buffer{value ? static_cast<uint8_t*>(tolk_pointer(value)) : nothing, desc->size,
                           tolk_buffer::Owner::Outside, release, arg};
    memory_use.buffers.fetch_add(1);
    return TOLK_OK;
  });
}

tolk_status export_handle(tolk_buffer* buffer, uint32_t type, uint64_t* value) {
  if (type != TOLK_HANDLE_HOST_POINTER && type != TOLK_HANDLE_DEVICE_ADDRESS)
    return fail(TOLK_E_UNSUPPORTED, "the CPU device exports addresses only");
  *value = reinterpret_cast<uint64_t>(buffer->data);
  return TOLK_OK;
}

tolk_status peer_map(tolk_buffer* buffer, tolk_device*, tolk_buffer** out) {
  return guarded([&] {
    *out = new tolk_buffer{buffer->data, buffer->size, tolk_buffer::Owner::Outside, nullptr, nullptr};
    memory_use.buffers.fetch_add(1);
    return TOLK_OK;
  });
}

// `bytes` of memory that nobody frees before the copy is done.
tolk_status move_bytes(tolk_stream* stream, bool wait, void* to, const void* from, uint64_t bytes) {
  return run_on(stream, wait, [=] {
    std::memcpy(to, from, bytes);
    return true;
  });
}

tolk_status copy_in(tolk_stream* stream, tolk_ref dst, const void* src, uint32_t flags) {
  if (dst.size == 0) return TOLK_OK;
  if (!is_inside(dst.buffer, dst.offset, dst.size)) return outside(dst.buffer, dst.offset, dst.size);
  return guarded([&] {
    return move_bytes(stream, !(flags & TOLK_COPY_ASYNC), dst.buffer->data + dst.offset, src, dst.size);
  });
}

tolk_status copy_out(tolk_stream* stream, void* dst, tolk_ref src, uint32_t flags) {
  if (src.size == 0) return TOLK_OK;
  if (!is_inside(src.buffer, src.offset, src.size)) return outside(src.buffer, src.offset, src.size);
  return guarded([&] {
    return move_bytes(stream, !(flags & TOLK_COPY_ASYNC), dst, src.buffer->data + src.offset, src.size);
  });
}

tolk_status copy(tolk_stream* stream, tolk_ref dst, tolk_ref src) {
  if (dst.size != src.size) return fail(TOLK_E_INVALID, "the two ranges of a copy differ in size");
  if (dst.size == 0) return TOLK_OK;
  if (!is_inside(dst.buffer, dst.offset, dst.size)) return outside(dst.buffer, dst.offset, dst.size);
  if (!is_inside(src.buffer, src.offset, src.size)) return outside(src.buffer, src.offset, src.size);
  uint8_t *to = dst.buffer->data + dst.offset, *from = src.buffer->data + src.offset;
  if (to < from + src.size && from < to + dst.size)
    return fail(TOLK_E_INVALID, "the two ranges of a copy overlap");
  return guarded([&] { return move_bytes(stream, false, to, from, dst.size); });
}

tolk_status fill(tolk_stream* stream, tolk_ref dst, uint64_t pattern, uint32_t pattern_bytes) {
  if (!tolk_fill_fits(dst, pattern_bytes))
    return fail(TOLK_E_INVALID,
                "a fill pattern has 1, 2, 4 or 8 bytes, and offset and size are multiples of it");
  if (dst.size == 0) return TOLK_OK;
  if (!is_inside(dst.buffer, dst.offset, dst.size)) return outside(dst.buffer, dst.offset, dst.size);
  return guarded([&] {
    return run_on(stream, false, [=, to = dst.buffer->data + dst.offset, size = dst.size] {
      tolk_fill_bytes(to, size, pattern, pattern_bytes);
      return true;
    });
  });
}

} // namespace

const tolk_buffer_vt buffer_table = {
    .struct_size = sizeof(tolk_buffer_vt),
    .reserved = 0,
    .create = create,
    .destroy = destroy,
    .map = map,
    .unmap = unmap,
    .import_handle = import_handle,
    .export_handle = export_handle,
    .peer_map = peer_map,
    .advise = nullptr,
};

const tolk_stream_vt& stream_table() {
  static const tolk_stream_vt table = [] {
    tolk_stream_vt t{};
    t.struct_size = sizeof t;
    t.copy_in = copy_in;
    t.copy_out = copy_out;
    t.copy = copy;
    t.fill = fill;
    if (has_streams()) add_streams(t); // else the device is synchronous
    return t;
  }();
  return table;
}

} // namespace tolk_cpu
