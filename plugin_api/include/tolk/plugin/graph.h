/* graph.h - a recorded list of operations that is launched as one. Optional as a whole: without it the engine
 * submits operation by operation. Nodes are numbered 0, 1, 2 in the order added; dependencies are numbers of
 * earlier nodes, computed by the host from byte ranges. One thread at a time per graph. */
#ifndef TOLK_PLUGIN_GRAPH_H
#define TOLK_PLUGIN_GRAPH_H

#include <tolk/plugin/program.h>
#include <tolk/plugin/status.h>
#include <tolk/plugin/types.h>

enum { TOLK_GRAPH_UPDATABLE = 1, TOLK_GRAPH_TIMED = 2 }; /* flags of create */

enum { TOLK_PATCH_BUFFER = 1, TOLK_PATCH_VALUE = 2, TOLK_PATCH_SIZES = 3 };

/* One change of a recorded node. `index` is the parameter position among buffers or among values; in a copy 0
 * is the destination and 1 the source. */
typedef struct tolk_patch {
  uint32_t node;
  uint32_t kind; /* TOLK_PATCH_* */
  uint32_t index;
  uint32_t reserved;
  union {
    tolk_ref buffer;
    uint64_t value;
    struct {
      uint32_t grid[3], local[3];
    } sizes;
  } to;
} tolk_patch;

typedef struct tolk_graph_vt {
  uint32_t struct_size;
  uint32_t reserved;

  /* `devices` are all of this plugin; nodes name them by position. `flags` are TOLK_GRAPH_UPDATABLE,
   * TOLK_GRAPH_TIMED. NULL: no graphs. */
  tolk_status (*create)(tolk_device* const* devices, uint32_t device_count, uint32_t flags, tolk_graph** out);
  /* The entries without "NULL:" are required when create is set. Contents of `launch` are copied; handles are
   * kept until destroyed or patched. */
  tolk_status (*add_kernel)(tolk_graph* graph, uint32_t device, tolk_kernel* kernel,
                            const tolk_launch* launch, const uint32_t* after, uint32_t after_count);
  /* NULL: copies split the recorded list. */
  tolk_status (*add_copy)(tolk_graph* graph, uint32_t device, tolk_ref dst, tolk_ref src,
                          const uint32_t* after, uint32_t after_count);
  /* NULL: fills split the recorded list. */
  tolk_status (*add_fill)(tolk_graph* graph, uint32_t device, tolk_ref dst, uint64_t pattern,
                          uint32_t pattern_bytes, const uint32_t* after, uint32_t after_count);
  /* Freezes the topology; may be slow. A second call is TOLK_E_INVALID. */
  tolk_status (*commit)(tolk_graph* graph);
  /* After commit. Takes effect at the next launch; launches that still run do not see it. All or nothing.
   * NULL: the engine records a new graph. */
  tolk_status (*update)(tolk_graph* graph, const tolk_patch* patches, uint32_t patch_count);
  /* In order on every given stream, one per device position. device_ns as in tolk_launch. */
  tolk_status (*launch)(tolk_graph* graph, tolk_stream* const* streams, uint64_t* device_ns);
  /* Times of every node in the last completed launch of a TIMED graph; the arrays have a slot per node. NULL:
   * unknown. */
  tolk_status (*node_times)(tolk_graph* graph, uint64_t* begin_ns, uint64_t* end_ns);
  void (*destroy)(tolk_graph* graph); /* no launch is pending */
} tolk_graph_vt;

/* Helpers that append a change to an array of patches with room; `count` is advanced. */
static inline void tolk_set_buf(tolk_patch* patches, uint32_t* count, uint32_t node, uint32_t index,
                                tolk_ref ref) {
  tolk_patch* p = patches + (*count)++;
  p->node = node, p->kind = TOLK_PATCH_BUFFER, p->index = index, p->reserved = 0;
  p->to.buffer = ref;
}

static inline void tolk_set_val(tolk_patch* patches, uint32_t* count, uint32_t node, uint32_t index,
                                uint64_t value) {
  tolk_patch* p = patches + (*count)++;
  p->node = node, p->kind = TOLK_PATCH_VALUE, p->index = index, p->reserved = 0;
  p->to.value = value;
}

static inline void tolk_set_dims(tolk_patch* patches, uint32_t* count, uint32_t node, const uint32_t grid[3],
                                 const uint32_t local[3]) {
  tolk_patch* p = patches + (*count)++;
  int i;
  p->node = node, p->kind = TOLK_PATCH_SIZES, p->index = 0, p->reserved = 0;
  for (i = 0; i < 3; i++) p->to.sizes.grid[i] = grid[i], p->to.sizes.local[i] = local[i];
}

#endif
