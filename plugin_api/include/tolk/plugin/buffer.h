/* buffer.h - device memory. The host caches freed buffers itself: a plugin allocates and frees plainly.
 * All functions: any thread, concurrently on different buffers. */
#ifndef TOLK_PLUGIN_BUFFER_H
#define TOLK_PLUGIN_BUFFER_H

#include <tolk/plugin/host.h>
#include <tolk/plugin/status.h>
#include <tolk/plugin/types.h>

/* tolk_buffer_desc.kind; the bit of kind n in caps masks is 1 << n */
enum {
  TOLK_BUFFER_DEVICE = 1,         /* memory of the device, the default; every device has it */
  TOLK_BUFFER_STAGING = 2,        /* host memory that the device can reach (pinned) */
  TOLK_BUFFER_UNIFIED = 3,        /* one memory for both */
  TOLK_BUFFER_DEVICE_WRITABLE = 4 /* device memory that the CPU can write */
};

/* tolk_buffer_desc.usage: hints */
enum {
  TOLK_USAGE_KERNEL_READ = 1,
  TOLK_USAGE_KERNEL_WRITE = 2,
  TOLK_USAGE_COPY_SOURCE = 4,
  TOLK_USAGE_COPY_DESTINATION = 8,
  TOLK_USAGE_EXPORTED = 16,
  TOLK_USAGE_WEIGHTS = 32, /* lives long, written rarely */
  TOLK_USAGE_SCRATCH = 64
};

enum {
  TOLK_BUFFER_ZEROED = 1
}; /* tolk_buffer_desc.flags: the first contents are zero bytes, else undefined */

typedef struct tolk_buffer_desc {
  uint32_t struct_size;
  uint32_t kind;  /* TOLK_BUFFER_* */
  uint32_t usage; /* TOLK_USAGE_* */
  uint32_t flags; /* TOLK_BUFFER_ZEROED */
  uint64_t size;  /* 0 is legal and gives a handle for refs of size 0 */
  uint64_t align; /* of the first byte; 0: the device's; the result satisfies the larger of this and
                     caps.buffer_align */
  const tolk_chain* next;
} tolk_buffer_desc;

enum {
  TOLK_MAP_READ = 1,
  TOLK_MAP_WRITE = 2,
  TOLK_MAP_DISCARD = 4
}; /* access of map; DISCARD: old contents unneeded */

/* import_handle, export_handle: what `value` is */
enum {
  TOLK_HANDLE_HOST_POINTER = 1,  /* address; it and desc.size are multiples of caps.import_align */
  TOLK_HANDLE_DMA_BUF = 2,       /* file descriptor */
  TOLK_HANDLE_OPAQUE_FD = 3,     /* file descriptor of the same driver */
  TOLK_HANDLE_PLATFORM = 4,      /* the platform's shared memory */
  TOLK_HANDLE_NATIVE = 5,        /* an object of the plugin */
  TOLK_HANDLE_DEVICE_ADDRESS = 6 /* export only */
};

typedef void (*tolk_release_fn)(void* arg);

typedef struct tolk_buffer_vt {
  uint32_t struct_size;
  uint32_t reserved;

  /* MANDATORY. TOLK_E_DEVICE_OOM is a normal answer: it leaves no trace and is not logged; the host frees
   * what it has cached and asks once more. */
  tolk_status (*create)(tolk_device* device, const tolk_buffer_desc* desc, tolk_buffer** out);
  /* MANDATORY. No use is pending. */
  void (*destroy)(tolk_buffer* buffer);

  /* A CPU pointer to bytes offset .. offset+size-1; device writes that completed are visible. Legal for kinds
   * STAGING, UNIFIED, DEVICE_WRITABLE, for imported host memory, and for every buffer of a device of kind
   * CPU. Maps may overlap. Other buffers: TOLK_E_UNSUPPORTED. NULL: the host copies. */
  tolk_status (*map)(tolk_buffer* buffer, uint64_t offset, uint64_t size, uint32_t access, void** out);
  /* Makes CPU writes visible to later submissions. Set exactly when map is. */
  tolk_status (*unmap)(tolk_buffer* buffer, void* pointer);

  /* Wraps memory that exists. Descriptors are duplicated; the caller keeps its own. `release(arg)` is kept
   * and called exactly once when the memory is no longer used: by destroy, on the thread that destroys. When
   * this call fails, release is not called. `release` may be NULL. Imported host memory may be read-only for
   * the process: kernels write it only when desc.usage has TOLK_USAGE_KERNEL_WRITE. NULL: the host copies. */
  tolk_status (*import_handle)(tolk_device* device, const tolk_buffer_desc* desc, uint32_t type,
                               uint64_t value, tolk_release_fn release, void* arg, tolk_buffer** out);
  /* The caller owns a returned descriptor; the buffer outlives the use. NULL: not offered. */
  tolk_status (*export_handle)(tolk_buffer* buffer, uint32_t type, uint64_t* value);
  /* The same memory as a buffer of `other`, a device of the same plugin; destroyed before its origin. NULL:
   * no sharing. */
  tolk_status (*peer_map)(tolk_buffer* buffer, tolk_device* other, tolk_buffer** out);
  /* Hint: 1 prefetch, 2 mostly read, 3 evict. NULL: ignored. */
  tolk_status (*advise)(tolk_buffer* buffer, uint64_t offset, uint64_t size, uint32_t hint);
} tolk_buffer_vt;

#endif
