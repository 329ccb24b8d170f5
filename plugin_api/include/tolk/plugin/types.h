/* types.h - handles, dtypes and the small structs that several tables share. */
#ifndef TOLK_PLUGIN_TYPES_H
#define TOLK_PLUGIN_TYPES_H

#include <stddef.h>
#include <stdint.h>

/* Handles. All are made and destroyed by the plugin and owned by the host. What is behind one is the plugin's
 * secret. */
typedef struct tolk_device tolk_device;
typedef struct tolk_buffer tolk_buffer;
typedef struct tolk_stream tolk_stream;
typedef struct tolk_event tolk_event;
typedef struct tolk_program tolk_program;
typedef struct tolk_kernel tolk_kernel; /* owned by its program */
typedef struct tolk_graph tolk_graph;
typedef struct tolk_blob tolk_blob; /* the one handle that the host makes, see tolk_host.blob_create */

/* Element types; the value is the bit number in dtype masks. */
enum {
#define TOLK_DTYPE(NAME, text, code, bits, kind) TOLK_DTYPE_##NAME = code,
#include <tolk/plugin/dtypes.def>
#undef TOLK_DTYPE
  TOLK_DTYPE_COUNT = 23,
  TOLK_DTYPE_NONE = 255
};

/* Borrowed bytes: valid for the call unless a line at the entry says "kept". */
typedef struct tolk_bytes {
  const void* data;
  uint64_t size;
} tolk_bytes;

/* A range of a buffer. Views are never objects: wherever storage is used, this triple is passed. */
typedef struct tolk_ref {
  tolk_buffer* buffer;
  uint64_t offset; /* bytes from the start of the buffer, a multiple of tolk_caps.offset_align */
  uint64_t size;   /* bytes */
} tolk_ref;

/* One parameter of a kernel. Buffers come first, then values, in the order of the launch arrays. */
enum { TOLK_PARAM_BUFFER = 0, TOLK_PARAM_VALUE = 1 };
enum { TOLK_ACCESS_READ = 1, TOLK_ACCESS_WRITE = 2 };
typedef struct tolk_param {
  uint32_t kind;   /* TOLK_PARAM_* */
  uint32_t access; /* buffers: TOLK_ACCESS_* bits */
  uint32_t dtype;  /* element type of the buffer, or type of the value */
  uint32_t reserved;
  uint64_t count;   /* buffers: number of elements that the kernel may touch, 0 when unknown */
  int64_t min, max; /* values: the inclusive range that the kernel was compiled for; both 0: not known */
} tolk_param;

#endif
