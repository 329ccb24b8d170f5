/* helpers.h - small things that most plugins need, for including in their sources. Optional: no header of the
 * interface includes it. */
#ifndef TOLK_PLUGIN_HELPERS_H
#define TOLK_PLUGIN_HELPERS_H

#include <tolk/plugin/host.h>
#include <tolk/plugin/types.h>

#include <string.h>

/* A blob with these bytes; NULL when memory is exhausted. */
static inline tolk_blob* tolk_blob_of(const tolk_host* host, const void* bytes, uint64_t size) {
  void* data = NULL;
  tolk_blob* blob = host->blob_create(host->ctx, size, &data);
  if (blob && size != 0) memcpy(data, bytes, size);
  return blob;
}

/* The address in an integer, as import_handle gets it. */
static inline void* tolk_pointer(uint64_t value) {
  void* pointer;
  const uintptr_t bits = (uintptr_t)value;
  memcpy((void*)&pointer, &bits, sizeof pointer);
  return pointer;
}

/* Whether a range lies inside something of `whole` bytes. */
static inline int tolk_inside(uint64_t offset, uint64_t size, uint64_t whole) {
  return offset <= whole && size <= whole - offset;
}

/* Whether two ranges have a byte in common, as far as their buffers tell. */
static inline int tolk_overlap(tolk_ref a, tolk_ref b) {
  return a.buffer == b.buffer && a.offset < b.offset + b.size && b.offset < a.offset + a.size;
}

/* Whether a fill of this range with such a pattern is as stream.h and graph.h demand. */
static inline int tolk_fill_fits(tolk_ref dst, uint32_t pattern_bytes) {
  const int known = pattern_bytes == 1 || pattern_bytes == 2 || pattern_bytes == 4 || pattern_bytes == 8;
  return known && dst.offset % pattern_bytes == 0 && dst.size % pattern_bytes == 0;
}

/* Repeats the low bytes of `pattern`; `size` is a multiple of pattern_bytes. For little-endian machines. */
static inline void tolk_fill_bytes(void* to, uint64_t size, uint64_t pattern, uint32_t pattern_bytes) {
  char* bytes = (char*)to;
  uint64_t done = pattern_bytes, more;
  if (size == 0) return;
  if (pattern_bytes == 1) {
    memset(bytes, (int)(pattern & 0xff), size);
    return;
  }
  memcpy(bytes, &pattern, pattern_bytes);
  for (; done < size; done += more) { /* doubling what is there keeps it to large copies */
    more = done < size - done ? done : size - done;
    memcpy(bytes + done, bytes, more);
  }
}

#endif
