/* What the null plugin's two files share. */
#ifndef TOLK_NULL_H
#define TOLK_NULL_H

#include <tolk/plugin/helpers.h>
#include <tolk/plugin/tolk_plugin.h>

struct tolk_buffer {
  char* bytes;
  uint64_t size;
  tolk_release_fn release; /* set for imported memory */
  void* release_arg;
  int imported;
};
struct tolk_kernel {
  uint32_t buffer_count, value_count;
};

/* Read through get_extension("x.null.counters", 1). */
typedef struct null_counters {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t launches, groups, compiles, loads, copies_in, copies_out, copied_bytes, buffers;
  uint64_t graphs, graph_launches, updates, patched_buffers, patched_values, patched_sizes; /* graph.c */
} null_counters;

extern const tolk_host* null_host;
extern null_counters null_counts;
extern const tolk_graph_vt null_graph_table;

static inline void null_count(uint64_t* counter, uint64_t n) {
  __atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}
static inline tolk_status null_fail(tolk_status code, const char* text) {
  return null_host->set_error(null_host->ctx, code, text);
}
static inline int null_inside(tolk_ref r) { return tolk_inside(r.offset, r.size, r.buffer->size); }

#endif
