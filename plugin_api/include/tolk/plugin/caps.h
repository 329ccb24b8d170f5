/* caps.h - what a device can do. The code generator, the planner and the engine read this record and nothing
 * else about a device; a field left zero means "unknown" or "none" as its line says. */
#ifndef TOLK_PLUGIN_CAPS_H
#define TOLK_PLUGIN_CAPS_H

#include <tolk/plugin/target.h>
#include <tolk/plugin/types.h>

/* tolk_caps.flags */
enum {
  TOLK_CAP_NO_OFFSET_VIEWS = 1,    /* refs must have offset 0: a view is copied first */
  TOLK_CAP_NON_UNIFORM_GROUPS = 2, /* the global size need not be a multiple of the work-group size */
  TOLK_CAP_RETAINS_ARGS = 4,       /* refs and values of a launch must stay until the stream passed it */
  TOLK_CAP_BOUNDS_CHECKED = 8,     /* an access outside a ref fails the launch with TOLK_E_KERNEL_FAULT */
  TOLK_CAP_FORWARD_PROGRESS = 16,  /* work-groups of one launch may wait for each other */
  TOLK_CAP_DENORMALS_F16 = 32,     /* subnormal values are kept, not flushed */
  TOLK_CAP_DENORMALS_F32 = 64,
  TOLK_CAP_NO_CONTRACTION = 128,  /* a*b+c is never fused unless the kernel says so; required of a CPU */
  TOLK_CAP_SCALAR_SLOTS_64 = 256, /* value parameters may have 64-bit types */
  TOLK_CAP_EVENT_TIMING = 512,    /* event_elapsed works */
  TOLK_CAP_NODE_TIMING = 1024     /* node_times of a graph works */
};

/* tolk_caps.graph: what the graph table takes. */
enum {
  TOLK_GRAPH_KERNELS = 1,
  TOLK_GRAPH_COPIES = 2,
  TOLK_GRAPH_FILLS = 4,
  TOLK_GRAPH_CROSS_DEVICE = 8,
  TOLK_GRAPH_UPDATE_BUFFERS = 16,
  TOLK_GRAPH_UPDATE_VALUES = 32,
  TOLK_GRAPH_UPDATE_SIZES = 64,
  TOLK_GRAPH_UPDATE_MAY_BLOCK =
      128 /* update waits for running launches: the engine alternates two instances */
};

/* A matrix instruction. Invariants that the host verifies (else it ignores the descriptor): threads is 2 to
 * the number of "l" tokens of opts; elements[2] is 2 to the number of "u" tokens; n * m * k is a multiple of
 * threads. */
typedef struct tolk_tensor_core {
  uint32_t struct_size;
  uint32_t n, m, k;
  uint32_t threads;     /* work-items that take part */
  uint32_t elements[3]; /* per work-item, of A, B and the result */
  uint32_t dtype_in;    /* TOLK_DTYPE_* */
  uint32_t dtype_out;
  uint32_t operation; /* number of the instruction for IR targets, 0 none */
  uint32_t reserved;
  const char* opts;          /* one token of two characters per axis: u0 u1 l0 l1, space-separated */
  const char* swizzle[2][3]; /* for A and B: local, upcast and reduce axes */
  const char* intrinsic;     /* spelling for source targets; empty for IR targets */
} tolk_tensor_core;

typedef struct tolk_caps {
  uint32_t struct_size;
  uint32_t target_count;      /* at least 1 */
  const tolk_target* targets; /* in order of preference */

  uint64_t dtype_storage; /* bit n: TOLK_DTYPE n can be in a buffer */
  uint64_t dtype_alu; /* bit n: arithmetic exists; storage-only types are converted by the code generator */
  uint64_t flags;     /* TOLK_CAP_* */

  uint32_t vector_bytes;  /* preferred width of loads and of arithmetic; 0 or less than 4: scalars */
  uint32_t vector_widths; /* bit n: vectors of 2^n elements exist as types */

  /* limits of a launch */
  uint32_t grid_max[3];       /* work-groups per axis; 1 where an axis does not exist */
  uint32_t local_max[3];      /* work-items per axis of a group */
  uint64_t grid_product_max;  /* 0: no limit */
  uint32_t local_product_max; /* 1: no work-item ids, a group is one tile (CPUs) */
  uint32_t subgroup_min, subgroup_max, subgroup_preferred; /* 0: unknown */
  uint64_t shared_bytes;                                   /* work-group storage, 0 none */
  uint64_t register_bytes_hint; /* private storage of a work-item that stays in registers, 0 unknown */
  uint32_t max_buffer_args;     /* buffers of one launch; 0: no limit */
  uint32_t max_scalar_bytes;    /* values of one launch, 8 each; 0: no limit */

  /* memory; alignments are powers of two, 0 reads as 1 */
  uint64_t buffer_align;     /* of every buffer's first byte */
  uint64_t offset_align;     /* of tolk_ref.offset in launches; the planner obeys it */
  uint64_t offset_max;       /* largest tolk_ref.offset, 0 no limit */
  uint64_t copy_align;       /* of offsets and sizes in copies */
  uint64_t map_align;        /* of the pointer that `map` gives for offset 0 */
  uint64_t import_align;     /* of address and size in import_handle(HOST_POINTER); 0: host memory cannot be
                                imported */
  uint64_t max_buffer_bytes; /* of one buffer, 0 no limit */
  uint64_t max_total_bytes;  /* of all buffers, 0 unknown */
  uint32_t buffer_kinds;     /* bit n: tolk_buffer_desc.kind n can be created */
  uint32_t kernel_kinds;     /* bit n: kernels can access buffers of kind n */

  /* parallelism */
  uint32_t compute_units; /* multiprocessors, or cores; 0 unknown */
  uint32_t streams_max;   /* 0: the device is synchronous */
  uint32_t copy_engines;

  /* graphs and timing */
  uint32_t graph;           /* TOLK_GRAPH_* */
  uint32_t graph_nodes_max; /* 0: no limit */
  uint32_t timestamp_bits;
  uint64_t timer_hz; /* 0: no device clock */

  /* matrix instructions */
  const tolk_tensor_core* tensor_cores; /* or NULL */
  uint32_t tensor_core_count;

  /* facts about a CPU, for tile sizes; zero elsewhere and where unknown */
  uint32_t vector_registers;
  uint32_t fma_ports; /* fused multiply-adds of vector_bytes that start per cycle */
  uint32_t cores;     /* threads that a launch uses */
  uint64_t l1d_bytes; /* per core */
  uint64_t l2_bytes;  /* per core */
  uint64_t llc_bytes; /* shared, whole */
} tolk_caps;

#endif
