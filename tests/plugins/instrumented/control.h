/* control.h - how a test looks into the instrumented backend and makes it misbehave.
 *
 * The plugins XDEV and YDEV are built from one source. They compute with the interpreter's objects in host
 * memory, so every test can check real numbers. Any ordinal opens as an independent device.
 *
 *   const tb_control* tb;  get_extension(self, TB_EXTENSION, 1, (const void**)&tb);
 *   tb->options->streams = 1;            // for devices that are opened from now on
 *   tb->fail(0, TB_LAUNCH, 2, 1, TOLK_E_KERNEL_FAULT, "boom");   // the second launch from now on XDEV:0
 *   tb->counters(TB_ALL, &counters);
 *
 * Whole programs run on it with plugin options, --plugin-option XDEV.streams=1 (or TOLK_XDEV_STREAMS=1) and
 * XDEV.delay_us=N.
 *
 * C++ tests use tests/support/test_backend.h. All functions may be called from any thread. */
#ifndef TOLK_TESTS_INSTRUMENTED_CONTROL_H
#define TOLK_TESTS_INSTRUMENTED_CONTROL_H

#include <tolk/plugin/tolk_plugin.h>

#define TB_EXTENSION "x.test.control"
#define TB_ALL UINT32_MAX /* in place of a device's ordinal: every device, and what belongs to none */

/* Read when a device is opened; later changes leave open devices as they are. */
typedef struct tb_options {
  uint32_t streams;       /* 1: real streams, a worker thread each; 0 (default): synchronous */
  uint32_t graph;         /* TOLK_GRAPH_* that the device offers; 0: none. Default: kernels, copies, fills,
                             cross-device, all updates */
  uint32_t copy_hook;     /* 1 (default): `copy` works, and `peer` says so; 0: TOLK_E_UNSUPPORTED */
  uint32_t fill_hook;     /* the same for `fill` */
  uint32_t host_map;      /* 1 (default): buffers can be mapped and host memory imported */
  uint32_t offset_views;  /* 0: TOLK_CAP_NO_OFFSET_VIEWS. Default 1 */
  uint32_t local_max;     /* per axis and in product; 1: no local sizes. Default 1024 */
  uint32_t non_uniform;   /* 1 (default): TOLK_CAP_NON_UNIFORM_GROUPS */
  uint32_t reports_time;  /* 0: `launch` leaves device_ns alone. Default 1 */
  uint32_t buffer_align;  /* caps.buffer_align, default 64 */
  uint32_t offset_align;  /* caps.offset_align, default 1 */
  uint32_t buffer_args;   /* caps.max_buffer_args, default 0: no limit */
  uint32_t grid_max;      /* per axis, default 2^31-1 */
  uint32_t retains_args;  /* 1: TOLK_CAP_RETAINS_ARGS: arguments are read when the kernel starts. Default 0 */
  uint64_t shared_bytes;  /* caps.shared_bytes, default 64 KiB */
  uint64_t offset_max;    /* caps.offset_max, default 0: no limit */
  uint64_t memory_limit;  /* bytes that the device has, default 0: no limit */
  uint64_t dtype_storage; /* caps.dtype_storage and dtype_alu; default all types */
} tb_options;

/* What happened since the last reset. The live_ fields count objects that exist; a reset leaves them. */
/* clang-format off */
#define TB_COUNTERS(X) \
  X(buffer_create) X(buffer_destroy) X(buffer_import) X(buffer_map) \
  X(copy_in) X(copy_out) X(copy) X(fill) X(bytes_in) X(bytes_out) X(bytes_copied) \
  X(launches)       /* kernels submitted one by one */ \
  X(timed_launches) /* of these, with device_ns */ \
  X(kernels_run)    /* kernels that ran, those inside graphs included */ \
  X(compile) X(load) X(unload) \
  X(stream_create) X(stream_synchronize) X(stream_wait) X(device_synchronize) \
  X(event_create) X(event_destroy) X(event_record) X(event_query) X(event_sync) \
  X(graph_create) X(graph_destroy) X(graph_commit) X(graph_update) X(graph_launch) \
  X(graph_kernels) X(graph_copies) X(graph_fills) /* nodes added */ \
  X(graph_edges) /* the dependencies of all nodes added */ \
  X(patches_buffer) X(patches_value) X(patches_sizes) \
  X(live_devices) X(live_buffers) X(live_bytes) X(live_streams) X(live_events) X(live_programs) X(live_graphs)
/* clang-format on */

typedef struct tb_counters {
#define TB_FIELD(name) uint64_t name;
  TB_COUNTERS(TB_FIELD)
#undef TB_FIELD
} tb_counters;

/* Kinds of recorded operations. */
enum { TB_KERNEL = 1, TB_COPY_IN = 2, TB_COPY_OUT = 3, TB_COPY = 4, TB_FILL = 5, TB_GRAPH = 6 };

enum { TB_MAX_BUFFERS = 32, TB_MAX_VALUES = 32 };

/* One operation, in order of submission. A graph's launch is a record of kind TB_GRAPH, followed by one for
 * each of its nodes in the order in which they were added, with in_graph set. */
typedef struct tb_record {
  uint32_t kind;   /* TB_KERNEL ... */
  uint32_t device; /* ordinal */
  uint64_t stream; /* number of the stream, 0 on synchronous devices */
  uint32_t in_graph;
  uint32_t timed; /* the caller waits for the time */
  char kernel[96];
  uint32_t grid[3], local[3];
  uint32_t buffer_count, value_count;
  uint64_t addresses[TB_MAX_BUFFERS]; /* of the first byte; in copies the destination, then the source */
  uint64_t offsets[TB_MAX_BUFFERS];   /* tolk_ref.offset */
  uint64_t bytes[TB_MAX_BUFFERS];
  uint64_t storage[TB_MAX_BUFFERS]; /* number of the buffer object, never used twice; 0: host memory */
  uint64_t values[TB_MAX_VALUES];
} tb_record;

/* Places where a failure can be injected. */
enum {
  TB_BUFFER_CREATE = 1,
  TB_LAUNCH = 2,
  TB_GRAPH_CREATE = 3,
  TB_GRAPH_COMMIT = 4,
  TB_GRAPH_UPDATE = 5,
  TB_GRAPH_LAUNCH = 6,
  TB_COPIES = 7, /* copy_in, copy_out, copy, fill */
  TB_COMPILE = 8,
  TB_LOAD = 9,
  TB_OPEN = 10,
  TB_STREAM_CREATE = 11,
  TB_ASYNC = 12 /* on the worker, when the operation runs; shows at the stream's next call */
};

enum { TB_HOLD_KERNELS = 1, TB_HOLD_COPIES = 2 };

typedef struct tb_control {
  uint32_t struct_size;
  uint32_t reserved;
  tb_options* options;
  void (*default_options)(tb_options* out);

  /* Counters of one ordinal, or of all. */
  void (*counters)(uint32_t ordinal, tb_counters* out);
  /* Forgets counts, records, injected failures, delays, holds and the table of times; options become the defaults.
   * Live counts stay. */
  void (*reset)(void);

  uint64_t (*record_count)(void);
  /* 1 and *out filled, or 0 when there is no such record. Recording stops at 65,536 records. */
  int (*record)(uint64_t index, tb_record* out);

  /* The nth passage (1: the next) of `place` on that device and the count-1 following ones fail with `status`
   * and `text`. A count of 0 means all that follow. */
  void (*fail)(uint32_t ordinal, uint32_t place, uint64_t nth, uint64_t count, tolk_status status,
               const char* text);
  /* Every kernel (copy) of the device takes that much longer, on the worker when it has streams. */
  void (*delay)(uint32_t ordinal, uint64_t kernel_us, uint64_t copy_us);
  /* Operations of these kinds (TB_HOLD_*; 0: of none) wait on the workers of the device until a call without their kind;
   * those that run already are not affected. On a synchronous device nothing waits. */
  void (*hold)(uint32_t ordinal, uint32_t kinds);
  /* What a timed launch of a kernel or a graph reports, in ns; NULL: what was measured. `arg` is passed on.
   */
  void (*times)(uint64_t (*time_of)(void* arg, const tb_record* launch), void* arg);
  /* 1: graphs run any node that is ready next. Also TOLK_TEST_SHUFFLE=1. */
  void (*shuffle)(uint32_t on);
} tb_control;

#endif
