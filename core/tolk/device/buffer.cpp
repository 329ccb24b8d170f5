#include "tolk/device/buffer.h"

#include <algorithm>

#include "tolk/base/config.h"
#include "tolk/base/error.h"
#include "tolk/device/allocator.h"
#include "tolk/device/copy.h"
#include "tolk/loader/plugin_loader.h"
#include "tolk/loader/status.h"

namespace tolk {
namespace {

std::atomic<uint64_t> next_id{1};
std::atomic<int64_t> live{0};

std::atomic<Buffer::CopyRunner> copy_runner{nullptr};

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

} // namespace

Buffer::Buffer(Device& device, DType dtype, uint64_t count)
    : device_(device), dtype_(dtype), count_(count), bytes_(storage_bytes(dtype, count)), id_(next_id++) {
  live.fetch_add(1, std::memory_order_relaxed);
}

Buffer::~Buffer() {
  if (base_)
    deallocate_if_allocated();
  else
    release();
  live.fetch_sub(1, std::memory_order_relaxed);
}

int64_t Buffer::live_count() { return live.load(std::memory_order_relaxed); }

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
  view->base_ = root;
  if (root->is_allocated() && view->can_attach()) view->attach();
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
  buffer->imported_ = true;
  buffer->writable_ = writable;
  buffer->storage_.store(device.allocator().adopt(storage, buffer->bytes_), std::memory_order_release);
  return buffer;
}

BufferRef pool_buffer(Device& device, BufferLoc loc, DType dtype, uint64_t count) {
  require_storable(device, dtype);
  device.require_usable();
  Storage& block = device.pools().share(loc.pool_id);
  BufferRef root(new Buffer(device, DType::U8, block.request.bytes));
  root->imported_ = true;
  root->storage_.store(&block, std::memory_order_release);
  return view_buffer(root, dtype, count, loc.offset);
}

BufferRef wrap_external(Device& device, DType dtype, uint64_t count, void* data) {
  BufferRef buffer = import_host_memory(device, dtype, count, data, nullptr, true);
  if (!buffer)
    throw InvalidArgument("device " + device.name() +
                          " cannot use this memory in place: it imports none, or the address or the size is "
                          "not aligned as it needs");
  return buffer;
}

BufferRef import_host_buffer(Device& device, const BufferRef& host) {
  if (!host->device().is_host()) return nullptr;
  host->allocate();
  BufferRef made =
      import_host_memory(device, host->dtype(), host->count(), host->host_data(), host, host->writable());
  if (!made) return nullptr;
  Buffer& lender = host->root();
  std::lock_guard lock(lender.mutex_);
  std::erase_if(lender.made_from_, [](const std::weak_ptr<Buffer>& b) { return b.expired(); });
  lender.made_from_.push_back(made);
  lender.shares_.store(true, std::memory_order_release), made->shares_.store(true, std::memory_order_release);
  return made;
}

void Buffer::part() {
  std::vector<std::weak_ptr<Buffer>> others;
  {
    std::lock_guard lock(mutex_);
    others.swap(made_from_);
    shares_.store(false, std::memory_order_release);
    if (imported_ && !device_.is_host()) {
      Storage* fresh = new_storage();
      Storage* shared = storage_.load(std::memory_order_acquire);
      if (bytes_ != 0) copy_range(*fresh, fresh->ref(0, bytes_), *shared, shared->ref(0, bytes_));
      storage_.store(fresh, std::memory_order_release);
      imported_ = false, writable_ = true;
      generation_.fetch_add(1, std::memory_order_acq_rel);
      views_ = 0;
      device_.allocator().release(shared);
    }
  }
  for (const std::weak_ptr<Buffer>& other : others)
    if (BufferRef made = other.lock()) made->own();
}

Storage* Buffer::new_storage() {
  const auto limit = static_cast<uint64_t>(Config::current().max_buffer_size);
  if (limit != 0 && count_ > limit && device_.info().kind != TOLK_KIND_NULL)
    throw InvalidArgument("a buffer of " + std::to_string(count_) + " elements on " + device_.name() +
                          " exceeds MAX_BUFFER_SIZE=" + std::to_string(limit));
  AllocationRequest request;
  request.bytes = bytes_;
  request.kind = options_.kind;
  request.usage =
      TOLK_USAGE_KERNEL_READ | TOLK_USAGE_KERNEL_WRITE | TOLK_USAGE_COPY_SOURCE | TOLK_USAGE_COPY_DESTINATION;
  if (options_.weights) request.usage |= TOLK_USAGE_WEIGHTS;
  request.zeroed = options_.zeroed;
  request.cached = options_.cached;
  request.label = options_.label;
  return device_.allocator().allocate(request);
}

void Buffer::allocate() {
  Buffer& r = root();
  if (!r.storage_.load(std::memory_order_acquire)) {
    std::lock_guard lock(r.mutex_);
    if (!r.storage_.load(std::memory_order_acquire)) {
      if (r.imported_) throw InvalidArgument("imported memory was released and cannot be allocated again");
      r.storage_.store(r.new_storage(), std::memory_order_release);
    }
  }
  if (!base_ || is_initialized()) return;
  if (!can_attach())
    throw InvalidArgument("device " + device_.name() + ": allocator offset is required for buffer views");
  attach();
}

bool Buffer::can_attach() const { return offset_ == 0 || !(device_.caps().flags & TOLK_CAP_NO_OFFSET_VIEWS); }

void Buffer::attach() {
  Buffer& r = root();
  std::lock_guard lock(r.mutex_);
  if (!r.storage_.load(std::memory_order_acquire)) return;
  const uint64_t now = r.generation_.load(std::memory_order_acquire) + 1;
  if (attached_.exchange(now, std::memory_order_acq_rel) != now) r.views_++;
}

bool Buffer::deallocate_if_allocated() {
  if (!base_) {
    if (!is_allocated()) return false;
    release();
    return true;
  }
  Buffer& r = root();
  std::lock_guard lock(r.mutex_);
  const uint64_t was = attached_.exchange(0, std::memory_order_acq_rel);
  if (was == 0) return false;
  if (was == r.generation_.load(std::memory_order_acquire) + 1) r.views_--;
  return true;
}

void Buffer::deallocate() {
  if (!deallocate_if_allocated()) throw InvalidArgument("buffer is not allocated");
}

void Buffer::release() {
  Buffer& r = root();
  std::lock_guard lock(r.mutex_);
  Storage* storage = r.storage_.exchange(nullptr, std::memory_order_acq_rel);
  if (!storage) return;
  r.generation_.fetch_add(1, std::memory_order_acq_rel);
  r.views_ = 0;
  if (!r.device_.alive()) return; // the plugin's side went with the device
  r.device_.allocator().release(storage);
}

void Buffer::require_allocated() const {
  if (!is_initialized()) throw InvalidArgument("buffer is not allocated");
}

void Buffer::copy_in(std::span<const std::byte> source) {
  if (source.size() != bytes_) throw InvalidArgument("buffer size mismatch: " + sizes(source.size(), bytes_));
  require_allocated();
  if (!writable()) throw InvalidArgument("the buffer is imported read-only memory and cannot be written");
  device_.require_usable();
  if (bytes_ != 0) write_range(storage(), ref(), source.data());
}

void Buffer::copy_out(std::span<std::byte> target) {
  if (target.size() != bytes_) throw InvalidArgument("buffer size mismatch: " + sizes(target.size(), bytes_));
  require_allocated();
  device_.require_usable();
  if (bytes_ != 0) read_range(storage(), ref(), target.data());
}

std::byte* Buffer::host_data() {
  require_allocated();
  device_.require_usable();
  Buffer& r = root();
  std::lock_guard lock(r.mutex_);
  Storage* storage = r.storage_.load(std::memory_order_acquire);
  if (!storage) throw InvalidArgument("buffer is not allocated");
  std::byte* data = map_storage(*storage, r.writable_);
  return data ? data + offset_ : nullptr;
}

void Buffer::copy_from(Buffer& source) {
  if (count_ != source.count_)
    throw InvalidArgument("copy: size mismatch: " + std::to_string(source.count_) + " elements into " +
                          std::to_string(count_));
  if (dtype_ != source.dtype_)
    throw InvalidArgument(std::string("copy: dtype mismatch: ") + name(source.dtype_) + " into " +
                          name(dtype_));
  CopyRunner runner = copy_runner.load(std::memory_order_acquire);
  if (!runner) throw InvalidArgument("no copy runner installed; link the engine");
  runner(*this, source);
}

void Buffer::install_copy_runner(CopyRunner runner) { copy_runner.store(runner, std::memory_order_release); }

void copy_buffer(Buffer& dst, Buffer& src) {
  if (dst.bytes() != src.bytes())
    throw InvalidArgument("copy: size mismatch: " + sizes(src.bytes(), dst.bytes()));
  src.require_allocated();
  if (!dst.writable())
    throw InvalidArgument("the destination is imported read-only memory and cannot be written");
  dst.allocate();
  src.device().require_usable();
  if (dst.bytes() != 0) copy_range(dst.storage(), dst.ref(), src.storage(), src.ref());
}

void fill_buffer(Buffer& dst, uint64_t pattern, uint32_t pattern_bytes) {
  if (!power_of_two(pattern_bytes) || pattern_bytes > 8 || dst.bytes() % pattern_bytes != 0 ||
      dst.offset() % pattern_bytes != 0)
    throw InvalidArgument("fill: " + std::to_string(dst.bytes()) + " bytes at offset " +
                          std::to_string(dst.offset()) + " cannot be filled with a pattern of " +
                          std::to_string(pattern_bytes) + " bytes; it has 1, 2, 4 or 8 and divides both");
  if (!dst.writable()) throw InvalidArgument("the buffer is imported read-only memory and cannot be written");
  dst.allocate();
  dst.device().require_usable();
  if (dst.bytes() != 0) fill_range(dst.storage(), dst.ref(), pattern, pattern_bytes);
}

} // namespace tolk
