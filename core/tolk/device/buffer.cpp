#include "tolk/device/buffer.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "tolk/base/error.h"
#include "tolk/device/allocator.h"
#include "tolk/device/plugin_loader.h"
#include "tolk/device/status.h"

namespace tolk {
namespace {

std::atomic<uint64_t> next_id{1};
constexpr uint64_t kBounceBytes = 4 << 20;

void require_storable(Device& device, DType dtype) {
  int code = static_cast<int>(dtype);
  if (code >= kDTypeCount)
    throw InvalidArgument(std::string("a buffer cannot hold elements of type ") + name(dtype));
  if (!device.is_host() && !(device.caps().dtype_storage >> code & 1))
    throw InvalidArgument("device " + device.name() + " cannot store elements of type " + name(dtype));
}

bool power_of_two(uint32_t n) { return n != 0 && (n & (n - 1)) == 0; }

std::string sizes(uint64_t got, uint64_t expected) {
  return "got " + std::to_string(got) + " bytes, expected " + std::to_string(expected);
}

// Copies through host memory piece by piece.
void bounce(Buffer& dst, tolk_ref to, Buffer& src, tolk_ref from) {
  std::vector<std::byte> block(std::min(kBounceBytes, to.size));
  for (uint64_t done = 0; done < to.size;) {
    uint64_t n = std::min<uint64_t>(block.size(), to.size - done);
    tolk_ref a{from.buffer, from.offset + done, n}, b{to.buffer, to.offset + done, n};
    {
      std::lock_guard lock(src.device().submit_mutex());
      auto serial = src.device().plugin().serialize();
      src.device().check(src.device().plugin().stream.copy_out(src.device().stream(), block.data(), a, 0),
                         "copy out");
    }
    {
      std::lock_guard lock(dst.device().submit_mutex());
      auto serial = dst.device().plugin().serialize();
      dst.device().check(dst.device().plugin().stream.copy_in(dst.device().stream(), b, block.data(), 0),
                         "copy in");
    }
    done += n;
  }
}

// Whether the plugin copied by itself.
bool native_copy(Device& to_device, tolk_ref to, Device& from_device, tolk_ref from) {
  Plugin& plugin = to_device.plugin();
  if (&plugin != &from_device.plugin()) return false;
  if (&to_device != &from_device) {
    uint32_t flags = 0;
    auto serial = plugin.serialize();
    if (plugin.device.peer(to_device.handle(), from_device.handle(), &flags) < 0 || !(flags & TOLK_PEER_COPY))
      return false;
    // The copy runs on the destination's queue: what the source's queue still writes must be there first.
    from_device.synchronize();
  }
  std::lock_guard lock(to_device.submit_mutex());
  auto serial = plugin.serialize();
  tolk_status status = plugin.stream.copy(to_device.stream(), to, from);
  if (status == TOLK_E_UNSUPPORTED) {
    take_error_text(status);
    return false;
  }
  to_device.check(status, "copy");
  return true;
}

} // namespace

Buffer::Buffer(Device& device, DType dtype, uint64_t count)
    : device_(device), dtype_(dtype), count_(count), bytes_(storage_bytes(dtype, count)), id_(next_id++) {}

Buffer::~Buffer() {
  if (!base_) release();
}

BufferRef make_buffer(Device& device, DType dtype, uint64_t count, BufferOptions options) {
  require_storable(device, dtype);
  BufferRef buffer(new Buffer(device, dtype, count));
  if (!(device.caps().buffer_kinds >> options.kind & 1)) options.kind = TOLK_BUFFER_DEVICE;
  buffer->options_ = std::move(options);
  return buffer;
}

BufferRef view_buffer(const BufferRef& buffer, DType dtype, uint64_t count, uint64_t byte_offset) {
  require_storable(buffer->device_, dtype);
  BufferRef view(new Buffer(buffer->device_, dtype, count));
  const BufferRef& root = buffer->base_ ? buffer->base_ : buffer;
  view->offset_ = buffer->offset_ + byte_offset;
  if (view->offset_ < byte_offset || view->offset_ > root->bytes_ ||
      view->bytes_ > root->bytes_ - view->offset_)
    throw InvalidArgument("a view of " + std::to_string(view->bytes_) + " bytes at byte " +
                          std::to_string(byte_offset) + " of a buffer of " + std::to_string(buffer->bytes_) +
                          " bytes exceeds base buffer (" + std::to_string(root->bytes_) + " bytes)");
  if (view->offset_ != 0 && (buffer->device_.caps().flags & TOLK_CAP_NO_OFFSET_VIEWS))
    throw InvalidArgument("device " + buffer->device_.name() +
                          ": allocator offset is required for buffer views");
  view->base_ = root;
  return view;
}

BufferRef import_host_memory(Device& device, DType dtype, uint64_t count, const void* data,
                             std::shared_ptr<const void> owner, bool writable) {
  require_storable(device, dtype);
  BufferRef buffer(new Buffer(device, dtype, count));
  const tolk_caps& caps = device.caps();
  auto address = reinterpret_cast<uintptr_t>(data);
  const uint64_t align = caps.import_align, element = std::max(1, bits(dtype) / 8);
  if (align == 0 || address % align != 0 || buffer->bytes_ % align != 0 ||
      (!device.is_host() && address % element != 0))
    return nullptr;

  tolk_buffer_desc desc{};
  desc.struct_size = sizeof desc;
  desc.kind = caps.buffer_kinds >> TOLK_BUFFER_UNIFIED & 1 ? TOLK_BUFFER_UNIFIED : TOLK_BUFFER_DEVICE;
  desc.usage = TOLK_USAGE_KERNEL_READ | TOLK_USAGE_COPY_SOURCE | TOLK_USAGE_WEIGHTS;
  if (writable) desc.usage |= TOLK_USAGE_KERNEL_WRITE | TOLK_USAGE_COPY_DESTINATION;
  desc.size = buffer->bytes_;
  using Owner = std::shared_ptr<const void>;
  tolk_buffer* storage = nullptr;
  device.require_usable();
  Plugin& plugin = device.plugin();
  auto* kept = new Owner(std::move(owner)); // goes with the release function, unless the plugin refuses
  tolk_status status;
  {
    auto serial = plugin.serialize();
    status = plugin.buffer.import_handle(
        device.handle(), &desc, TOLK_HANDLE_HOST_POINTER, address,
        [](void* arg) { delete static_cast<Owner*>(arg); }, kept, &storage);
  }
  if (status < 0) delete kept;
  if (status == TOLK_E_UNSUPPORTED || status == TOLK_E_LIMIT) {
    take_error_text(status);
    return nullptr;
  }
  device.check(status, "import of host memory");
  device.allocator().adopt(storage);
  buffer->imported_ = true;
  buffer->writable_ = writable;
  buffer->storage_.store(storage, std::memory_order_release);
  return buffer;
}

BufferRef import_host_buffer(Device& device, const BufferRef& host) {
  if (!host->device().is_host()) return nullptr;
  host->allocate();
  return import_host_memory(device, host->dtype(), host->count(), host->host_data(), host, host->writable());
}

void Buffer::allocate() {
  Buffer& r = root();
  if (r.storage_.load(std::memory_order_acquire)) return;
  std::lock_guard lock(r.mutex_);
  if (r.storage_.load(std::memory_order_acquire)) return;
  if (r.imported_) throw InvalidArgument("imported memory was released and cannot be allocated again");
  AllocationRequest request;
  request.bytes = r.bytes_;
  request.kind = r.options_.kind;
  request.usage =
      TOLK_USAGE_KERNEL_READ | TOLK_USAGE_KERNEL_WRITE | TOLK_USAGE_COPY_SOURCE | TOLK_USAGE_COPY_DESTINATION;
  if (r.options_.weights) request.usage |= TOLK_USAGE_WEIGHTS;
  request.zeroed = r.options_.zeroed;
  request.cached = r.options_.cached;
  request.label = r.options_.label;
  r.storage_.store(r.device_.allocator().allocate(request), std::memory_order_release);
}

void Buffer::release() {
  Buffer& r = root();
  std::lock_guard lock(r.mutex_);
  tolk_buffer* storage = r.storage_.exchange(nullptr, std::memory_order_acq_rel);
  if (!storage) return;
  r.generation_.fetch_add(1, std::memory_order_acq_rel);
  if (r.device_.alive()) {
    if (r.host_pointer_) {
      auto serial = r.device_.plugin().serialize();
      r.device_.plugin().buffer.unmap(storage, r.host_pointer_);
    }
    r.device_.allocator().release(storage);
  }
  r.host_pointer_ = nullptr;
  r.host_pointer_known_ = false;
}

void Buffer::require_allocated() const {
  if (!is_allocated()) throw InvalidArgument("buffer is not allocated");
}

void Buffer::copy_in(std::span<const std::byte> source) {
  if (source.size() != bytes_) throw InvalidArgument("buffer size mismatch: " + sizes(source.size(), bytes_));
  require_allocated();
  if (!writable()) throw InvalidArgument("the buffer is imported read-only memory and cannot be written");
  device_.require_usable();
  if (bytes_ == 0) return;
  tolk_ref range = ref();
  std::lock_guard lock(device_.submit_mutex());
  auto serial = device_.plugin().serialize();
  device_.check(device_.plugin().stream.copy_in(device_.stream(), range, source.data(), 0), "copy in");
}

void Buffer::copy_out(std::span<std::byte> target) {
  if (target.size() != bytes_) throw InvalidArgument("buffer size mismatch: " + sizes(target.size(), bytes_));
  require_allocated();
  device_.require_usable();
  if (bytes_ == 0) return;
  tolk_ref range = ref();
  std::lock_guard lock(device_.submit_mutex());
  auto serial = device_.plugin().serialize();
  device_.check(device_.plugin().stream.copy_out(device_.stream(), target.data(), range, 0), "copy out");
}

std::byte* Buffer::host_data() {
  require_allocated();
  device_.require_usable();
  Buffer& r = root();
  std::lock_guard lock(r.mutex_);
  if (!r.host_pointer_known_) {
    tolk_buffer* storage = r.storage_.load(std::memory_order_acquire);
    if (!storage) throw InvalidArgument("buffer is not allocated");
    void* pointer = nullptr;
    auto serial = device_.plugin().serialize();
    tolk_status status = device_.plugin().buffer.map(
        storage, 0, r.bytes_, TOLK_MAP_READ | (r.writable_ ? uint32_t{TOLK_MAP_WRITE} : 0u), &pointer);
    if (status == TOLK_E_UNSUPPORTED) {
      take_error_text(status);
      pointer = nullptr;
    } else {
      device_.check(status, "map");
    }
    r.host_pointer_ = static_cast<std::byte*>(pointer);
    r.host_pointer_known_ = true;
  }
  if (!r.host_pointer_) return nullptr;
  if (device_.stream()) device_.synchronize();
  return r.host_pointer_ + offset_;
}

void copy_buffer(Buffer& dst, Buffer& src) {
  if (dst.bytes() != src.bytes())
    throw InvalidArgument("copy: size mismatch: " + sizes(src.bytes(), dst.bytes()));
  src.require_allocated();
  if (!dst.writable())
    throw InvalidArgument("the destination is imported read-only memory and cannot be written");
  dst.allocate();
  src.device().require_usable();
  if (dst.bytes() == 0) return;
  tolk_ref to = dst.ref(), from = src.ref();
  if (to.buffer == from.buffer) {
    if (to.offset == from.offset) return;
    uint64_t apart = to.offset > from.offset ? to.offset - from.offset : from.offset - to.offset;
    if (apart < to.size) { // plugins need not handle overlap
      std::vector<std::byte> all(to.size);
      src.copy_out(all);
      dst.copy_in(all);
      return;
    }
  }
  if (native_copy(dst.device(), to, src.device(), from)) return;
  if (std::byte* data = src.host_data()) return dst.copy_in({data, src.bytes()});
  if (std::byte* data = dst.host_data()) return src.copy_out({data, dst.bytes()});
  bounce(dst, to, src, from);
}

void fill_buffer(Buffer& dst, uint64_t pattern, uint32_t pattern_bytes) {
  if (!power_of_two(pattern_bytes) || pattern_bytes > 8 || dst.bytes() % pattern_bytes != 0 ||
      dst.offset() % pattern_bytes != 0)
    throw InvalidArgument("fill: " + std::to_string(dst.bytes()) + " bytes at offset " +
                          std::to_string(dst.offset()) + " cannot be filled with a pattern of " +
                          std::to_string(pattern_bytes) + " bytes; it has 1, 2, 4 or 8 and divides both");
  if (!dst.writable()) throw InvalidArgument("the buffer is imported read-only memory and cannot be written");
  dst.allocate();
  Device& device = dst.device();
  device.require_usable();
  if (dst.bytes() == 0) return;
  tolk_ref to = dst.ref();
  std::lock_guard lock(device.submit_mutex());
  auto serial = device.plugin().serialize();
  tolk_status status = device.plugin().stream.fill(device.stream(), to, pattern, pattern_bytes);
  if (status != TOLK_E_UNSUPPORTED) return device.check(status, "fill");
  take_error_text(status);
  std::vector<std::byte> block(std::min(kBounceBytes, to.size));
  for (uint64_t i = 0; i < block.size(); i += pattern_bytes)
    std::memcpy(block.data() + i, &pattern, pattern_bytes);
  for (uint64_t done = 0; done < to.size; done += block.size()) {
    tolk_ref piece{to.buffer, to.offset + done, std::min<uint64_t>(block.size(), to.size - done)};
    device.check(device.plugin().stream.copy_in(device.stream(), piece, block.data(), 0), "fill");
  }
}

} // namespace tolk
