/* Graphs of the null device. Kernels cost nothing at launch: what they would add to the counters is added up
 * when it changes. Copies and fills move bytes, as they do outside of graphs. */
#include "null.h"

#include <string.h>

enum { NODE_KERNEL, NODE_COPY, NODE_FILL };

typedef struct node {
  uint32_t kind;
  uint32_t buffer_count, value_count; /* kernels */
  uint32_t pattern_bytes;             /* fills */
  uint64_t groups;                    /* kernels */
  uint64_t pattern;
  tolk_ref dst, src;
} node;

struct tolk_graph {
  node* nodes;
  uint32_t* moving; /* numbers of copies and fills, in order */
  uint32_t count, room, moving_count, kernels, device_count;
  int committed;
  uint64_t groups; /* of one launch */
};

static tolk_status create(tolk_device* const* devices, uint32_t device_count, uint32_t flags,
                          tolk_graph** out) {
  tolk_graph* g = null_host->mem_alloc(null_host->ctx, sizeof *g, 8);
  (void)devices, (void)flags;
  if (!g) return null_fail(TOLK_E_HOST_OOM, "no memory for a graph");
  memset(g, 0, sizeof *g);
  g->device_count = device_count;
  null_count(&null_counts.graphs, 1);
  *out = g;
  return TOLK_OK;
}

static void destroy(tolk_graph* g) {
  null_host->mem_free(null_host->ctx, g->nodes);
  null_host->mem_free(null_host->ctx, g->moving);
  null_host->mem_free(null_host->ctx, g);
}

/* A fresh node, or NULL after noting why not. */
static node* add(tolk_graph* g, uint32_t device, const uint32_t* after, uint32_t after_count,
                 tolk_status* status) {
  uint32_t i;
  *status = TOLK_OK;
  if (g->committed) *status = null_fail(TOLK_E_INVALID, "the graph is committed");
  if (device >= g->device_count) *status = null_fail(TOLK_E_INVALID, "the graph has no such device");
  for (i = 0; i < after_count; i++)
    if (after[i] >= g->count) *status = null_fail(TOLK_E_INVALID, "a node waits for one that comes later");
  if (*status != TOLK_OK) return NULL;
  if (g->count == g->room) {
    uint32_t room = g->room ? 2 * g->room : 32;
    node* more = null_host->mem_alloc(null_host->ctx, (uint64_t)room * sizeof *more, 8);
    if (!more) {
      *status = null_fail(TOLK_E_HOST_OOM, "no memory for the nodes of a graph");
      return NULL;
    }
    if (g->count) memcpy(more, g->nodes, (size_t)g->count * sizeof *more);
    null_host->mem_free(null_host->ctx, g->nodes);
    g->nodes = more;
    g->room = room;
  }
  memset(&g->nodes[g->count], 0, sizeof *g->nodes);
  return &g->nodes[g->count];
}

static tolk_status add_kernel(tolk_graph* g, uint32_t device, tolk_kernel* kernel, const tolk_launch* l,
                              const uint32_t* after, uint32_t after_count) {
  tolk_status status;
  node* n;
  if (l->buffer_count != kernel->buffer_count || l->value_count != kernel->value_count)
    return null_fail(TOLK_E_INVALID, "the number of arguments is not the kernel's");
  n = add(g, device, after, after_count, &status);
  if (!n) return status;
  n->kind = NODE_KERNEL;
  n->buffer_count = l->buffer_count;
  n->value_count = l->value_count;
  n->groups = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2];
  g->groups += n->groups;
  g->kernels++;
  g->count++;
  return TOLK_OK;
}

static tolk_status add_copy(tolk_graph* g, uint32_t device, tolk_ref dst, tolk_ref src, const uint32_t* after,
                            uint32_t after_count) {
  tolk_status status;
  node* n;
  if (!null_inside(dst) || !null_inside(src) || dst.size != src.size)
    return null_fail(TOLK_E_INVALID, "a range of the copy is not in its buffer, or the sizes differ");
  n = add(g, device, after, after_count, &status);
  if (!n) return status;
  n->kind = NODE_COPY;
  n->dst = dst;
  n->src = src;
  g->count++;
  return TOLK_OK;
}

static tolk_status add_fill(tolk_graph* g, uint32_t device, tolk_ref dst, uint64_t pattern,
                            uint32_t pattern_bytes, const uint32_t* after, uint32_t after_count) {
  tolk_status status;
  node* n;
  if (!null_inside(dst) || !tolk_fill_fits(dst, pattern_bytes))
    return null_fail(TOLK_E_INVALID, "the range to fill is not in its buffer, or not whole patterns");
  n = add(g, device, after, after_count, &status);
  if (!n) return status;
  n->kind = NODE_FILL;
  n->dst = dst;
  n->pattern = pattern;
  n->pattern_bytes = pattern_bytes;
  g->count++;
  return TOLK_OK;
}

static tolk_status commit(tolk_graph* g) {
  uint32_t i;
  if (g->committed) return null_fail(TOLK_E_INVALID, "the graph is committed");
  if (g->count > g->kernels) {
    uint32_t moving = g->count - g->kernels;
    g->moving = null_host->mem_alloc(null_host->ctx, (uint64_t)moving * sizeof *g->moving, 8);
    if (!g->moving) return null_fail(TOLK_E_HOST_OOM, "no memory for the nodes of a graph");
    for (i = 0; i < g->count; i++)
      if (g->nodes[i].kind != NODE_KERNEL) g->moving[g->moving_count++] = i;
  }
  g->committed = 1;
  return TOLK_OK;
}

static int fits(const tolk_graph* g, const tolk_patch* p) {
  const node* n;
  if (p->node >= g->count) return 0;
  n = &g->nodes[p->node];
  switch (p->kind) {
  case TOLK_PATCH_BUFFER:
    if (n->kind == NODE_KERNEL) return p->index < n->buffer_count;
    if (p->index > (n->kind == NODE_COPY ? 1u : 0u)) return 0;
    return p->to.buffer.size == n->dst.size && null_inside(p->to.buffer);
  case TOLK_PATCH_VALUE:
    return n->kind == NODE_KERNEL && p->index < n->value_count;
  case TOLK_PATCH_SIZES:
    return n->kind == NODE_KERNEL;
  default:
    return 0;
  }
}

static tolk_status update(tolk_graph* g, const tolk_patch* patches, uint32_t patch_count) {
  uint32_t i;
  if (!g->committed) return null_fail(TOLK_E_INVALID, "the graph is not committed");
  for (i = 0; i < patch_count; i++)
    if (!fits(g, &patches[i])) return null_fail(TOLK_E_INVALID, "a change does not fit its node");
  for (i = 0; i < patch_count; i++) {
    const tolk_patch* p = &patches[i];
    node* n = &g->nodes[p->node];
    if (p->kind == TOLK_PATCH_BUFFER) {
      null_count(&null_counts.patched_buffers, 1);
      if (n->kind != NODE_KERNEL) *(p->index == 0 ? &n->dst : &n->src) = p->to.buffer;
    } else if (p->kind == TOLK_PATCH_VALUE) {
      null_count(&null_counts.patched_values, 1);
    } else {
      uint64_t groups = (uint64_t)p->to.sizes.grid[0] * p->to.sizes.grid[1] * p->to.sizes.grid[2];
      null_count(&null_counts.patched_sizes, 1);
      g->groups += groups - n->groups;
      n->groups = groups;
    }
  }
  null_count(&null_counts.updates, 1);
  return TOLK_OK;
}

static tolk_status launch(tolk_graph* g, tolk_stream* const* streams, uint64_t* device_ns) {
  uint32_t i;
  uint64_t k;
  (void)streams;
  if (!g->committed) return null_fail(TOLK_E_INVALID, "the graph is not committed");
  for (i = 0; i < g->moving_count; i++) {
    const node* n = &g->nodes[g->moving[i]];
    char* to = n->dst.buffer->bytes + n->dst.offset;
    if (n->kind == NODE_COPY)
      memmove(to, n->src.buffer->bytes + n->src.offset, n->dst.size);
    else
      for (k = 0; k < n->dst.size; k += n->pattern_bytes) memcpy(to + k, &n->pattern, n->pattern_bytes);
    null_count(&null_counts.copied_bytes, n->dst.size);
  }
  null_count(&null_counts.launches, g->kernels);
  null_count(&null_counts.groups, g->groups);
  null_count(&null_counts.graph_launches, 1);
  if (device_ns) *device_ns = 0;
  return TOLK_OK;
}

const tolk_graph_vt null_graph_table = {.struct_size = sizeof null_graph_table,
                                        .create = create,
                                        .add_kernel = add_kernel,
                                        .add_copy = add_copy,
                                        .add_fill = add_fill,
                                        .commit = commit,
                                        .update = update,
                                        .launch = launch,
                                        .destroy = destroy};
