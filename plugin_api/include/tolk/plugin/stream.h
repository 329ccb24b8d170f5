/* stream.h - copies, streams and events.
 *
 * A stream is a queue: an operation starts after all earlier ones of the stream. When `create` is NULL the
 * device is SYNCHRONOUS: the host passes NULL for every stream, each call is complete when it returns, and an
 * event is always done. Then only copy_in and copy_out are needed. One thread at a time per stream. */
#ifndef TOLK_PLUGIN_STREAM_H
#define TOLK_PLUGIN_STREAM_H

#include <tolk/plugin/device.h>
#include <tolk/plugin/status.h>
#include <tolk/plugin/types.h>

enum {
  TOLK_COPY_ASYNC = 1
}; /* flags of copy_in, copy_out: host memory stays until the stream passed; else the call returns when the
      stream has done it */
enum {
  TOLK_STREAM_COMPUTE = 1,
  TOLK_STREAM_COPY_ONLY = 2,
  TOLK_STREAM_HIGH_PRIORITY = 4,
  TOLK_STREAM_TIMING = 8
};
enum { TOLK_EVENT_TIMING = 1, TOLK_EVENT_SHAREABLE = 2 };

typedef struct tolk_stream_vt {
  uint32_t struct_size;
  uint32_t reserved;

  /* MANDATORY. Copies dst.size bytes from host memory. With size 0 nothing happens. */
  tolk_status (*copy_in)(tolk_stream* stream, tolk_ref dst, const void* src, uint32_t flags);
  /* MANDATORY. Copies src.size bytes to host memory. */
  tolk_status (*copy_out)(tolk_stream* stream, void* dst, tolk_ref src, uint32_t flags);
  /* dst.size == src.size. The buffers may be on different devices of this plugin when `peer` says
   * TOLK_PEER_COPY; then the stream is the destination's. Overlap within one buffer is TOLK_E_INVALID. NULL:
   * through host memory. */
  tolk_status (*copy)(tolk_stream* stream, tolk_ref dst, tolk_ref src);
  /* Repeats the low pattern_bytes (1, 2, 4, 8) of pattern; size and offset are multiples of pattern_bytes.
   * NULL: copy_in. */
  tolk_status (*fill)(tolk_stream* stream, tolk_ref dst, uint64_t pattern, uint32_t pattern_bytes);

  /* NULL: the device is synchronous. `flags` are TOLK_STREAM_*. */
  tolk_status (*create)(tolk_device* device, uint32_t flags, tolk_stream** out);
  /* The entries below are required when create is set, except flush and event_elapsed. */
  void (*destroy)(tolk_stream* stream); /* the stream is idle */
  /* Waits; returns the first asynchronous error since the last time and clears it unless the device is lost.
   */
  tolk_status (*synchronize)(tolk_stream* stream, uint64_t timeout_ns);
  /* Later work of the stream waits for the event, which may belong to another device of this plugin. Returns
   * at once. */
  tolk_status (*wait)(tolk_stream* stream, tolk_event* event);
  /* Hint: hand batched work to the hardware. NULL: nothing is batched. */
  tolk_status (*flush)(tolk_stream* stream);

  /* An event that was never recorded counts as done. `flags` are TOLK_EVENT_*. */
  tolk_status (*event_create)(tolk_device* device, uint32_t flags, tolk_event** out);
  /* Marks everything submitted so far. The host does not record again before the event is done. */
  tolk_status (*event_record)(tolk_event* event, tolk_stream* stream);
  /* TOLK_OK when done, TOLK_NOT_READY, or the stream's error. Under 1 us, no side effects. */
  tolk_status (*event_query)(tolk_event* event);
  /* Blocks; sleeps rather than spins after 50 us. */
  tolk_status (*event_sync)(tolk_event* event, uint64_t timeout_ns);
  /* Both made with TOLK_EVENT_TIMING, recorded and done. NULL: the host's clock. */
  tolk_status (*event_elapsed)(tolk_event* begin, tolk_event* end, uint64_t* ns);
  void (*event_destroy)(tolk_event* event); /* any time, even while waited for */
} tolk_stream_vt;

#endif
