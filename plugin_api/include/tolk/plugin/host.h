/* host.h - what tolk offers to a plugin. The table is handed to the entry point and stays valid until
 * tolk_plugin.shutdown returned; the plugin keeps the pointer. Each plugin has a table of its own: pass `ctx`
 * back.
 *
 * A minimal plugin uses set_error only. Entries may be called from any thread, those of the plugin's own
 * included. */
#ifndef TOLK_PLUGIN_HOST_H
#define TOLK_PLUGIN_HOST_H

#include <tolk/plugin/status.h>
#include <tolk/plugin/types.h>

#define TOLK_ABI_MAJOR 1
#define TOLK_ABI_MINOR 0

enum { TOLK_LOG_ERROR = 0, TOLK_LOG_WARNING = 1, TOLK_LOG_INFO = 2, TOLK_LOG_DEBUG = 3, TOLK_LOG_TRACE = 4 };

/* Piece of a parallel loop: handles the indices begin .. end-1. Must not unwind. */
typedef void (*tolk_range_fn)(void* arg, uint64_t begin, uint64_t end);

typedef struct tolk_host {
  uint32_t struct_size;
  uint32_t abi_major; /* TOLK_ABI_MAJOR of the host */
  uint32_t abi_minor; /* TOLK_ABI_MINOR of the host */
  uint32_t reserved;
  void* ctx; /* first argument of every function below */

  /* Shows `text` (copied) with the plugin's name before it. Errors and warnings are always shown. */
  void (*log_message)(void* ctx, uint32_t level, const char* text);
  /* Notes why the running call fails and returns `code`, so that one statement does both:
   *     return host->set_error(host->ctx, TOLK_E_LIMIT, "more than 64 arguments");
   * The text (copied, cut at 4,096 bytes) is kept per thread until the host has read it after the call. */
  tolk_status (*set_error)(void* ctx, tolk_status code, const char* text);

  /* `size` bytes aligned to `align` (a power of two), or NULL. Counted per plugin, so leaks show; optional to
   * use. */
  void* (*mem_alloc)(void* ctx, uint64_t size, uint64_t align);
  void (*mem_free)(void* ctx, void* pointer); /* NULL allowed */

  /* A container of `size` bytes; *data is writable until the blob is returned to the host, which then owns
   * it. NULL when memory is exhausted. */
  tolk_blob* (*blob_create)(void* ctx, uint64_t size, void** data);
  /* The bytes of a blob that the host gave out, valid until blob_destroy. */
  tolk_bytes (*blob_bytes)(void* ctx, const tolk_blob* blob);
  /* For blobs from cache_get, and for those made but not returned because an error came between. */
  void (*blob_destroy)(void* ctx, tolk_blob* blob);

  /* Calls fn on pieces of at most `grain` indices (0: the host's choice) that cover 0 .. count-1, on the
   * process-wide pool and the calling thread; returns when all are done. A nested call runs inline. */
  void (*parallel_for)(void* ctx, uint64_t count, uint64_t grain, tolk_range_fn fn, void* arg);
  uint32_t (*worker_count)(void* ctx); /* threads that parallel_for may use, the caller included; constant */

  /* A private writable folder for this plugin and its compiler_id, or NULL when caching is off. Lives until
   * shutdown. Compiled kernels are cached by the host anyway. */
  const char* (*cache_path)(void* ctx);
  /* Small values kept on disk between processes, for example a driver's pipeline cache. TOLK_E_NOT_FOUND on a
   * miss or when caching is off; damaged entries are misses. The blob is the caller's. */
  tolk_status (*cache_get)(void* ctx, tolk_bytes key, tolk_blob** value);
  tolk_status (*cache_put)(void* ctx, tolk_bytes key, tolk_bytes value);

  /* An option of the user, or NULL. `key` is the option's name alone, any case ("threads"); the value comes
   * from --plugin-option NAME.key=value, else from the variable TOLK_<NAME>_<KEY>. NAME is tolk_plugin.name,
   * which the host knows once the entry returned; before that it takes the stamp's, else the file's. The text
   * lives until shutdown. */
  const char* (*config_get)(void* ctx, const char* key);

  uint64_t (*clock_ns)(void* ctx); /* monotonic; the clock of every host timing */
  int32_t (*cancelled)(
      void* ctx); /* 1 when the user gave up: long compilations poll it and return TOLK_E_COMPILE */

  /* Spans of the timeline, per thread, properly nested; no-ops while nobody records. Texts are copied. */
  void (*trace_begin)(void* ctx, const char* name, const char* category);
  void (*trace_end)(void* ctx);

  /* Reserved for waits between plugins; NULL in minor 0. */
  tolk_status (*resolve_event)(void* ctx, const char* plugin, tolk_event* event, uint64_t* handle);
  /* A table of host functions beyond this one, or TOLK_E_NOT_FOUND. Lives until shutdown. */
  tolk_status (*get_extension)(void* ctx, const char* name, uint32_t version, const void** table);
} tolk_host;

/* True when `table` is long enough to have `field` and the field is set. For fields that joined in a later
 * minor. */
#define TOLK_HAS(table, field)                                                                               \
  ((uint64_t)((const char*)&(table)->field - (const char*)(table)) + sizeof((table)->field) <=               \
       (uint64_t)(table)->struct_size &&                                                                     \
   (table)->field != 0)

/* An element of the `next` chain of a descriptor. A reader skips types below 2^31 that it does not know and
 * answers TOLK_E_UNSUPPORTED to unknown types from 2^31 up. No type is defined in minor 0. */
typedef struct tolk_chain {
  uint32_t type;
  uint32_t struct_size;
  const struct tolk_chain* next;
} tolk_chain;

#endif
