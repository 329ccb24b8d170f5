/* program.h - from a kernel's source to its launch.
 *
 *   compile(source) -> bytes      needs no device; the host caches the bytes on disk
 *   load(device, bytes) -> program -> get_kernel(name) -> kernel
 *   launch(stream, kernel, arguments)                                                       */
#ifndef TOLK_PLUGIN_PROGRAM_H
#define TOLK_PLUGIN_PROGRAM_H

#include <tolk/plugin/host.h>
#include <tolk/plugin/kernel_ir.h>
#include <tolk/plugin/status.h>
#include <tolk/plugin/target.h>
#include <tolk/plugin/types.h>

/* tolk_source.flags */
enum {
  TOLK_SOURCE_DEBUG_INFO = 1,
  TOLK_SOURCE_FAST_MATH = 2, /* float results may differ in their last bits; never set by default */
  TOLK_SOURCE_OPT_NONE = 4,  /* compile quickly */
  TOLK_SOURCE_ARGS_MAY_ALIAS =
      8, /* written buffers may overlap others; else each written range is disjoint from all others */
  TOLK_SOURCE_ARGS_ALIGNED =
      16 /* every buffer argument is aligned to caps.vector_bytes, not only to its dtype */
};

typedef struct tolk_source {
  uint32_t struct_size;
  uint32_t target_index; /* into caps.targets of the device that the code is for */
  /* The kernel. For TOLK_TARGET_KERNEL_IR `text.data` points to a tolk_kernel_ir and text.size is its
   * struct_size. */
  tolk_bytes text;
  const char* entry;        /* function name */
  const char* options;      /* opaque text from renderer and user; may be empty */
  const tolk_param* params; /* buffers first, then values: the order of the launch arrays */
  uint32_t param_count;
  uint32_t flags;    /* TOLK_SOURCE_* */
  uint32_t local[3]; /* work-group size; 0 when it is free */
  uint32_t reserved;
  uint64_t shared_bytes; /* work-group storage; for CPU kernels the size of `scratch` */
  const tolk_chain* next;
} tolk_source;

/* Filled by the plugin in memory of the host: use tolk_write_out. Zero is unknown. */
typedef struct tolk_kernel_info {
  uint32_t struct_size;
  uint32_t registers;
  uint64_t spill_bytes;
  uint64_t shared_bytes;
  uint64_t private_bytes;
  uint64_t code_bytes;
  uint32_t max_local; /* largest work-group that this kernel can run with */
  uint32_t subgroup;
} tolk_kernel_info;

/* tolk_launch.flags */
enum {
  TOLK_LAUNCH_CHECKED = 1,  /* the host validated counts and ranges: the plugin may skip its own checks */
  TOLK_LAUNCH_BATCH_END = 2 /* nothing follows soon: a good moment to flush */
};

/* Arguments of one launch; lives on the caller's stack. Counts and order are those of tolk_source.params. */
typedef struct tolk_launch {
  uint32_t struct_size;
  uint32_t flags;    /* TOLK_LAUNCH_* */
  uint32_t grid[3];  /* work-groups per axis, each at least 1; on CPUs grid[0] counts tiles */
  uint32_t local[3]; /* work-items of a group per axis, each at least 1 */
  uint32_t buffer_count;
  uint32_t value_count;
  const tolk_ref* buffers;
  const uint64_t* values; /* raw bits, low bits used by narrower types; signed values are sign-extended */
  uint64_t shared_bytes;  /* dynamic work-group storage, on top of tolk_source.shared_bytes; normally 0 */
  uint64_t* device_ns;    /* NULL, or: wait, and store how long the kernel ran on the device */
  const tolk_chain* next;
} tolk_launch;

typedef struct tolk_program_vt {
  uint32_t struct_size;
  uint32_t reserved;

  /* Compiles for `target` (one of a device's caps). `self` is tolk_plugin.self. Pure: the same source and
   * compiler_id give an equally behaving binary. Any thread, concurrently. On success *binary is a blob from
   * host.blob_create; *log may be set to one in any case and both pass to the host. A rejected source is
   * TOLK_E_COMPILE with the log. Long compilations poll host.cancelled. Temporary files: only below
   * host.cache_path or the system's folder, removed on all paths. NULL: allowed when every target is
   * TOLK_TARGET_LOAD_DIRECT. */
  tolk_status (*compile)(void* self, const tolk_target* target, const tolk_source* source, tolk_blob** binary,
                         tolk_blob** log);
  /* MANDATORY. Makes a program from what compile gave, perhaps in another process; other bytes must be
   * refused with TOLK_E_BAD_BINARY, whatever they are. For LOAD_DIRECT targets `binary` is source->text (a
   * live tolk_kernel_ir for TOLK_TARGET_KERNEL_IR). `source->text` is empty otherwise; its other fields are
   * set. What is needed later is copied. */
  tolk_status (*load)(tolk_device* device, tolk_bytes binary, const tolk_source* source, tolk_program** out);
  /* MANDATORY. No launch is pending. */
  void (*unload)(tolk_program* program);
  /* MANDATORY. Lives as long as the program; the same name gives the same handle; TOLK_E_NOT_FOUND when
   * absent. */
  tolk_status (*get_kernel)(tolk_program* program, const char* name, tolk_kernel** out);
  /* NULL: nothing known. */
  tolk_status (*kernel_info)(tolk_kernel* kernel, tolk_kernel_info* out);
  /* MANDATORY. Starts the kernel; on a synchronous device (stream NULL) it is complete at return. Nothing of
   * `launch` is kept unless caps say TOLK_CAP_RETAINS_ARGS. One thread at a time per stream; different
   * threads may launch one kernel on different streams, and two devices that loaded the same bytes share
   * nothing. */
  tolk_status (*launch)(tolk_stream* stream, tolk_kernel* kernel, const tolk_launch* launch);
  /* Readable machine code, for DEBUG output. NULL: not offered. */
  tolk_status (*disassemble)(void* self, tolk_bytes binary, tolk_blob** text);
} tolk_program_vt;

#endif
