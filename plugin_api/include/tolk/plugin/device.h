/* device.h - one device: its facts before it is opened, and the functions on an open one. */
#ifndef TOLK_PLUGIN_DEVICE_H
#define TOLK_PLUGIN_DEVICE_H

#include <tolk/plugin/caps.h>
#include <tolk/plugin/status.h>
#include <tolk/plugin/types.h>

#define TOLK_FOREVER UINT64_MAX /* a timeout_ns that never expires; 0 asks without waiting */

/* tolk_device_info.kind. The default device is chosen in the order 3, 2, 4, 1. */
enum {
  TOLK_KIND_OTHER = 0,
  TOLK_KIND_CPU = 1, /* also for software implementations of a GPU interface */
  TOLK_KIND_INTEGRATED_GPU = 2,
  TOLK_KIND_DISCRETE_GPU = 3,
  TOLK_KIND_ACCELERATOR = 4,
  TOLK_KIND_NULL = 5, /* computes nothing */
  TOLK_KIND_EMULATED = 6
};

/* tolk_device_info.flags */
enum {
  TOLK_DEVICE_UNIFIED_MEMORY = 1,
  TOLK_DEVICE_DISPLAY_ATTACHED = 2,
  TOLK_DEVICE_REOPENABLE = 4, /* may be opened again after a loss, and, for kinds CPU and NULL, at indices at
                                 or beyond device_count: each such index is one more independent device */
  TOLK_DEVICE_DETERMINISTIC = 8
};

typedef struct tolk_device_info {
  uint32_t struct_size;
  uint32_t kind;         /* TOLK_KIND_* */
  uint32_t flags;        /* TOLK_DEVICE_* */
  int32_t numa_node;     /* -1 unknown */
  uint64_t memory_bytes; /* 0 unknown */
  uint8_t uuid[16];      /* zero when unknown */
  const char* name;      /* the product's name; the host forms the name that users type */
  const char* description;
  const char* arch;   /* such as gfx1100; empty when meaningless */
  const char* pci_id; /* domain:bus:device.function, or NULL */
  const char* driver_version;
  int32_t dlpack_type; /* DLDeviceType, 0 none */
  int32_t dlpack_id;
} tolk_device_info;

/* Filled by the plugin in memory of the host: use tolk_write_out. Unknown numbers are 0. */
typedef struct tolk_memory {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t total_bytes;
  uint64_t free_bytes; /* as the driver sees it, all processes */
  uint64_t used_bytes; /* by this plugin in this process */
  uint64_t peak_bytes;
  uint64_t buffer_count;
  uint64_t largest_free_bytes;
} tolk_memory;

/* `peer` answers */
enum { TOLK_PEER_COPY = 1, TOLK_PEER_MAP = 2, TOLK_PEER_ATOMICS = 4 };

typedef struct tolk_device_vt {
  uint32_t struct_size;
  uint32_t reserved;

  /* MANDATORY. Every object of the device is already destroyed. */
  void (*close)(tolk_device* device);
  /* MANDATORY. Called once after open. The record and all it points to belong to the plugin and live until
   * close. */
  tolk_status (*caps)(tolk_device* device, const tolk_caps** out);

  /* NULL: the host counts its own allocations. Should take under 10 us. */
  tolk_status (*memory)(tolk_device* device, tolk_memory* out);
  /* Gives cached memory back to the system. NULL: nothing cached. */
  tolk_status (*trim)(tolk_device* device);
  /* Waits until every stream is idle; TOLK_TIMEOUT when it takes longer. NULL: the host synchronizes the
   * streams. */
  tolk_status (*synchronize)(tolk_device* device, uint64_t timeout_ns);
  /* What `device` can do with memory of `other`, a device of the same plugin: TOLK_PEER_* bits. NULL:
   * nothing. */
  tolk_status (*peer)(tolk_device* device, tolk_device* other, uint32_t* flags);
  /* The device's clock and tolk_host.clock_ns at one moment (within 50 us). NULL: no device timestamps. */
  tolk_status (*clock)(tolk_device* device, uint64_t* device_ns, uint64_t* host_ns);
  /* Empties the data caches before a timing run. NULL: skipped. */
  tolk_status (*flush_caches)(tolk_device* device);
  /* After TOLK_E_DEVICE_LOST: a sentence that lives until close. NULL: no reason known. */
  const char* (*lost_reason)(tolk_device* device);
} tolk_device_vt;

#endif
