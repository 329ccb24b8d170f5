// Storage on a device, or an offset view of one.
//
//   BufferRef a = make_buffer(device("CPU"), DType::F32, 1024);   // nothing is allocated yet
//   a->allocate();
//   a->copy_in(bytes);
//   BufferRef tail = view_buffer(a, DType::F32, 512, 2048);       // the second half
//
// A root owns its storage, a view is attached to the storage that its root has at the time: it loses it when
// the root releases, and finds the root's next storage when it is allocated again.
//
// Reference counting is thread-safe, allocation too; copies and launches that touch one buffer from two
// threads are ordered only by the device's queue.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include <tolk/plugin/tolk_plugin.h>

#include "tolk/base/api.h"
#include "tolk/device/device.h"
#include "tolk/device/pools.h"
#include "tolk/dtype/dtype.h"

namespace tolk {

class Buffer;
using BufferRef = std::shared_ptr<Buffer>;

struct BufferOptions {
  uint32_t kind = TOLK_BUFFER_DEVICE; // TOLK_BUFFER_*; falls back to DEVICE where the device lacks it
  bool zeroed = false;  // first contents are zero bytes; such storage is never taken from the cache
  bool cached = true;   // keep the storage for reuse when it is freed
  bool weights = false; // lives long, is written rarely
  std::string label;    // for out-of-memory reports
};

// `count` elements of `dtype`; sub-byte types are packed. Throws InvalidArgument for Index, Void, a dtype
// that the device cannot store, and overflow.
TOLK_API BufferRef make_buffer(Device& device, DType dtype, uint64_t count, BufferOptions options = {});
// A view `byte_offset` bytes into `buffer`; of the root when that is a view itself. Throws InvalidArgument
// when it does not fit: "exceeds base buffer".
TOLK_API BufferRef view_buffer(const BufferRef& buffer, DType dtype, uint64_t count, uint64_t byte_offset);
// Host memory as a buffer, without a copy: `owner` is kept until the storage is released. Null when the
// device cannot use that memory in place (copy then): it imports nothing, or address or size are not aligned
// to import_align and the dtype. HOST takes everything. When not `writable`, copies into it and launches that
// write it throw InvalidArgument.
TOLK_API BufferRef import_host_memory(Device& device, DType dtype, uint64_t count, const void* data,
                                      std::shared_ptr<const void> owner, bool writable = false);
// The buffer that lies at a location: writes through one are seen through all that overlap it, in the order of submission.
// It keeps the pool's memory, also after free_pool. Throws InvalidArgument "unknown pool N", and "exceeds base buffer" when it
// does not fit.
TOLK_API BufferRef pool_buffer(Device& device, BufferLoc loc, DType dtype, uint64_t count);
// Caller's memory as a buffer that kernels may write; it must outlive the buffer and is neither freed nor
// counted. Throws InvalidArgument when the device cannot use it in place.
TOLK_API BufferRef wrap_external(Device& device, DType dtype, uint64_t count, void* data);
// A HOST buffer as a buffer of `device` over the same bytes, or null as above. Who writes either calls own().
TOLK_API BufferRef import_host_buffer(Device& device, const BufferRef& host);

// Copies all bytes of `src` to `dst`, which must have as many; allocates `dst`. Uses the plugin's own copy,
// memory that the host can see, or a bounce through host memory. Blocks only as far as it must. Throws
// InvalidArgument "size mismatch", "buffer is not allocated".
TOLK_API void copy_buffer(Buffer& dst, Buffer& src);
// Fills with the low `pattern_bytes` (1, 2, 4, 8) of pattern; bytes() must be a multiple of it. Allocates.
TOLK_API void fill_buffer(Buffer& dst, uint64_t pattern, uint32_t pattern_bytes);

class TOLK_API Buffer {
public:
  Device& device() const { return device_; }
  DType dtype() const { return dtype_; }
  uint64_t count() const { return count_; } // elements
  uint64_t bytes() const { return bytes_; }
  uint64_t offset() const { return offset_; } // bytes from the root's start; 0 for a root
  uint64_t id() const { return id_; }         // unique in the process
  uint64_t base_id() const { return base_ ? base_->id_ : id_; }
  bool is_view() const { return base_ != nullptr; }
  bool writable() const { return base_ ? base_->writable_ : writable_; }
  bool imported() const { return root().imported_; } // memory of the caller, another device or a pool
  const std::string& label() const { return base_ ? base_->options_.label : options_.label; }

  // Whether there is storage; a view shares its root's.
  bool is_allocated() const { return root().storage_.load(std::memory_order_acquire) != nullptr; }
  // Whether this object can be read and written: there is storage, and a view is attached to it. A view of
  // allocated storage is attached from the start.
  bool is_initialized() const {
    return is_allocated() && (!base_ || attached_.load(std::memory_order_acquire) == generation() + 1);
  }
  // Gives the root storage unless it has some, and attaches a view. Throws OutOfMemory with statistics after
  // the cache was flushed and the allocation tried again; InvalidArgument for more than MAX_BUFFER_SIZE
  // elements, and for a view at an offset where the device has no offset views ("allocator offset is required
  // for buffer views").
  void allocate();
  Buffer& ensure_allocated() {
    allocate();
    return *this;
  }
  // A root gives its storage back, a view lets go of it; what `allocate` undoes. Throws InvalidArgument
  // "buffer is not allocated" when there is nothing to undo.
  void deallocate();
  bool deallocate_if_allocated(); // false: there was nothing to undo
  // Before a write that only this buffer may see: what import_host_buffer made gets memory of its own,
  // writable and with the same contents, and so does what was made from a HOST buffer. Others stay as they
  // are. The generation goes up. Nobody else may use the buffer meanwhile.
  void own() {
    if (root().shares_.load(std::memory_order_acquire)) [[unlikely]]
      root().part();
  }
  // Frees the storage of the root, if any; the object stays usable and may be allocated again. Views lose it
  // too.
  void release();
  // Goes up whenever the root's storage is released: a pointer or ref kept from before is stale then.
  uint64_t generation() const { return root().generation_.load(std::memory_order_acquire); }

  // Views of the root that are attached to its present storage.
  int allocated_views() const { return root().views_.load(std::memory_order_acquire); }
  // Nodes of graphs that name the root: for observation, never frees. add_ref returns the new number.
  int uop_refcount() const { return root().refs_.load(std::memory_order_acquire); }
  int add_ref(int n) { return root().refs_.fetch_add(n, std::memory_order_acq_rel) + n; }

  // The triple for launches and copies; allocates.
  tolk_ref ref() { return storage().ref(offset_, bytes_); }
  // The same as pool and offset.
  BufferLoc loc() {
    Storage& s = storage();
    return {s.pool, offset_};
  }
  // For this layer and the graphs above it: the storage itself; allocates.
  Storage& storage() {
    Storage* s = root().storage_.load(std::memory_order_acquire);
    if (!s || (base_ && !is_initialized())) [[unlikely]] {
      allocate();
      s = root().storage_.load(std::memory_order_acquire);
    }
    return *s;
  }

  // The size must equal bytes(), and the buffer must be allocated: InvalidArgument "size mismatch", "buffer
  // is not allocated". copy_in returns when `source` may be reused, copy_out when `target` is filled.
  void copy_in(std::span<const std::byte> source);
  void copy_out(std::span<std::byte> target);
  // The canonical copy: the runner that the engine installs. Throws InvalidArgument "size mismatch" and
  // "dtype mismatch" before anything else, and "no copy runner installed" without an engine.
  void copy_from(Buffer& source);
  using CopyRunner = void (*)(Buffer& dst, Buffer& src);
  static void install_copy_runner(CopyRunner runner); // null: none

  // The bytes themselves, when the host can see this memory (HOST, CPU, imported memory), else null. Waits
  // for submitted work. The buffer must be allocated; the pointer is valid until the storage is released.
  std::byte* host_data();

  static int64_t live_count(); // Buffer objects in the process, views included

  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

private:
  friend BufferRef make_buffer(Device&, DType, uint64_t, BufferOptions);
  friend BufferRef view_buffer(const BufferRef&, DType, uint64_t, uint64_t);
  friend BufferRef import_host_memory(Device&, DType, uint64_t, const void*, std::shared_ptr<const void>,
                                      bool);
  friend BufferRef pool_buffer(Device&, BufferLoc, DType, uint64_t);
  friend void copy_buffer(Buffer&, Buffer&);
  bool can_attach() const;
  void attach();
  Buffer(Device& device, DType dtype, uint64_t count);
  Buffer& root() const { return base_ ? *base_ : const_cast<Buffer&>(*this); }
  void require_allocated() const;
  void part();
  Storage* new_storage();
  friend BufferRef import_host_buffer(Device&, const BufferRef&);

  Device& device_;
  DType dtype_;
  uint64_t count_, bytes_, offset_ = 0, id_;
  BufferRef base_;
  BufferOptions options_;
  bool writable_ = true, imported_ = false;
  std::atomic<bool> shares_{false}; // bytes with a HOST buffer, or as one with what was made from it
  std::vector<std::weak_ptr<Buffer>> made_from_; // this HOST buffer
  std::atomic<Storage*> storage_{nullptr};
  std::atomic<uint64_t> generation_{0};
  std::atomic<uint64_t> attached_{0}; // of a view: the root's generation + 1, or 0
  std::atomic<int> views_{0}, refs_{0};
  std::mutex mutex_; // allocation and release of a root
};

} // namespace tolk
