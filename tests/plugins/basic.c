/* A plugin with the mandatory entries only, so that the host's fallbacks do the rest; with -DWITH_STREAMS=1
 * it has a stream that defers every launch until somebody waits, so that a missing wait in the host shows.
 *
 * Kernels are texts: "add N" adds N to every byte of buffer 0, plus value 0 if there is one; "copy" copies
 * buffer 1 to buffer 0; "lose" loses the device; "trap" fails alone. In the dialect test-compiled "error"
 * does not compile. Option LIMIT: bytes that the device has. */
#include <tolk/plugin/helpers.h>
#include <tolk/plugin/tolk_plugin.h>

#include <stdio.h>
#include <stdlib.h>

#ifndef WITH_STREAMS
#define WITH_STREAMS 0
#endif
#ifndef PLUGIN_NAME
#define PLUGIN_NAME "BASIC"
#endif
#ifndef PRIORITY
#define PRIORITY 0
#endif
#ifndef PLUGIN_FLAGS
#define PLUGIN_FLAGS TOLK_PLUGIN_TEST_ONLY
#endif
#ifdef STAMPED
TOLK_PLUGIN_STAMP_DEFAULT(PLUGIN_NAME, TOLK_ABI_MAJOR, TOLK_ABI_MINOR, PRIORITY);
#endif

#ifdef WITH_CONSTRUCTOR
/* Runs when the library is loaded, before anything is asked of it. */
__attribute__((constructor)) static void leave_a_trace(void) { setenv("TOLK_TEST_CONSTRUCTOR", "ran", 1); }
#endif

#define MAX_BUFFERS 4
#define MAX_QUEUE 64

static const tolk_host* H;
static uint64_t used_bytes, live_buffers;

struct tolk_device {
  int lost;
};
struct tolk_buffer {
  tolk_device* device;
  unsigned char* bytes;
  uint64_t size;
};
struct tolk_kernel {
  tolk_device* device;
  char text[64];
};
struct tolk_program {
  struct tolk_kernel kernel;
  char entry[64];
};
struct work {
  tolk_kernel* kernel;
  tolk_ref refs[MAX_BUFFERS];
  uint64_t value;
};
struct tolk_stream {
  struct work queue[MAX_QUEUE];
  uint32_t count;
};
struct tolk_event {
  tolk_stream* stream;
};

static tolk_status fail(tolk_status code, const char* text) { return H->set_error(H->ctx, code, text); }

static tolk_status device_count(void* self, uint32_t* out) {
  (void)self;
  *out = 2;
  return TOLK_OK;
}

static tolk_status device_info(void* self, uint32_t index, const tolk_device_info** out) {
  static tolk_device_info infos[2];
  (void)self;
  infos[index].struct_size = sizeof infos[0];
  infos[index].kind = TOLK_KIND_ACCELERATOR;
  infos[index].numa_node = -1;
  infos[index].name = "basic";
  infos[index].pci_id = index == 0 ? "0000:01:00.0" : "0000:02:00.0";
  infos[index].uuid[0] = (uint8_t)(0xa0 + index);
  *out = &infos[index];
  return TOLK_OK;
}

static tolk_status device_open(void* self, uint32_t index, tolk_device** out) {
  (void)self, (void)index;
  *out = calloc(1, sizeof **out);
  return TOLK_OK;
}

static void device_close(tolk_device* d) {
  if (live_buffers != 0) H->log_message(H->ctx, TOLK_LOG_ERROR, "closed while buffers are alive");
  free(d);
}

static tolk_status device_caps(tolk_device* d, const tolk_caps** out) {
  static tolk_target targets[2];
  static tolk_caps caps;
  (void)d;
  targets[0].struct_size = targets[1].struct_size = sizeof targets[0];
  targets[0].kind = targets[1].kind = TOLK_TARGET_SOURCE;
  targets[0].flags = TOLK_TARGET_LOAD_DIRECT;
  targets[0].dialect = "test";
  targets[1].dialect = "test-compiled";
  caps.struct_size = sizeof caps;
  caps.targets = targets;
  caps.target_count = 2;
  caps.dtype_storage = UINT64_C(1) << TOLK_DTYPE_U8 | UINT64_C(1) << TOLK_DTYPE_F32;
  caps.grid_max[0] = caps.grid_max[1] = caps.grid_max[2] = 1024;
  caps.streams_max = WITH_STREAMS;
  *out = &caps;
  return TOLK_OK;
}

static tolk_status buffer_create(tolk_device* d, const tolk_buffer_desc* desc, tolk_buffer** out) {
  const char* text = H->config_get(H->ctx, "limit");
  uint64_t limit = text ? strtoull(text, NULL, 10) : UINT64_MAX;
  if (desc->size > limit || used_bytes > limit - desc->size)
    return fail(TOLK_E_DEVICE_OOM, "the limit is reached");
  *out = calloc(1, sizeof **out);
  (*out)->device = d;
  (*out)->size = desc->size;
  (*out)->bytes = malloc(desc->size + 1);
  memset((*out)->bytes, desc->flags & TOLK_BUFFER_ZEROED ? 0 : 0xee, desc->size + 1);
  used_bytes += desc->size;
  live_buffers++;
  return TOLK_OK;
}

static void buffer_destroy(tolk_buffer* b) {
  used_bytes -= b->size;
  live_buffers--;
  free(b->bytes);
  free(b);
}

static tolk_status run(const struct work* w) {
  uint64_t i;
  if (strncmp(w->kernel->text, "add ", 4) == 0) {
    unsigned char n = (unsigned char)(strtoul(w->kernel->text + 4, NULL, 10) + w->value);
    for (i = 0; i < w->refs[0].size; i++) w->refs[0].buffer->bytes[w->refs[0].offset + i] += n;
  } else if (strcmp(w->kernel->text, "copy") == 0) {
    memcpy(w->refs[0].buffer->bytes + w->refs[0].offset, w->refs[1].buffer->bytes + w->refs[1].offset,
           w->refs[0].size);
  } else if (strcmp(w->kernel->text, "lose") == 0) {
    w->kernel->device->lost = 1;
    return fail(TOLK_E_DEVICE_LOST, "the kernel lost the device");
  } else {
    return fail(TOLK_E_KERNEL_FAULT, "the kernel trapped");
  }
  return TOLK_OK;
}

static tolk_status drain(tolk_stream* s) {
  uint32_t i;
  tolk_status first = TOLK_OK;
  if (!s) return TOLK_OK;
  for (i = 0; i < s->count; i++) {
    tolk_status status = run(&s->queue[i]);
    if (first == TOLK_OK) first = status;
  }
  s->count = 0;
  return first;
}

static tolk_status copy_in(tolk_stream* s, tolk_ref dst, const void* src, uint32_t flags) {
  tolk_status status = drain(s);
  (void)flags;
  if (status < 0) return status;
  if (dst.buffer->device->lost) return fail(TOLK_E_DEVICE_LOST, "lost");
  memcpy(dst.buffer->bytes + dst.offset, src, dst.size);
  return TOLK_OK;
}

static tolk_status copy_out(tolk_stream* s, void* dst, tolk_ref src, uint32_t flags) {
  tolk_status status = drain(s);
  (void)flags;
  if (status < 0) return status;
  if (src.buffer->device->lost) return fail(TOLK_E_DEVICE_LOST, "lost");
  memcpy(dst, src.buffer->bytes + src.offset, src.size);
  return TOLK_OK;
}

#if WITH_STREAMS
static tolk_status stream_create(tolk_device* d, uint32_t flags, tolk_stream** out) {
  (void)d, (void)flags;
  *out = calloc(1, sizeof **out);
  return TOLK_OK;
}
static void stream_destroy(tolk_stream* s) { free(s); }
static tolk_status stream_synchronize(tolk_stream* s, uint64_t timeout_ns) {
  (void)timeout_ns;
  return drain(s);
}
static tolk_status stream_wait(tolk_stream* s, tolk_event* e) {
  (void)s;
  return drain(e->stream);
}
static tolk_status event_create(tolk_device* d, uint32_t flags, tolk_event** out) {
  (void)d, (void)flags;
  *out = calloc(1, sizeof **out);
  return TOLK_OK;
}
static tolk_status event_record(tolk_event* e, tolk_stream* s) {
  e->stream = s;
  return TOLK_OK;
}
static tolk_status event_query(tolk_event* e) {
  return e->stream && e->stream->count ? TOLK_NOT_READY : TOLK_OK;
}
static tolk_status event_sync(tolk_event* e, uint64_t timeout_ns) {
  (void)timeout_ns;
  return drain(e->stream);
}
static void event_destroy(tolk_event* e) { free(e); }
#endif

static tolk_status compile(void* self, const tolk_target* target, const tolk_source* source,
                           tolk_blob** binary, tolk_blob** log) {
  (void)self;
  if (strcmp(target->dialect, "test-compiled") != 0)
    return fail(TOLK_E_INVALID, "not a target of this compiler");
  if (source->text.size >= 5 && memcmp(source->text.data, "error", 5) == 0) {
    *log = tolk_blob_of(H, "line 1: no such operation", 25);
    return fail(TOLK_E_COMPILE, "one error");
  }
  *binary = tolk_blob_of(H, source->text.data, source->text.size);
  return TOLK_OK;
}

static tolk_status load(tolk_device* d, tolk_bytes binary, const tolk_source* source, tolk_program** out) {
  if (binary.size == 0 || binary.size >= sizeof(*out)->kernel.text)
    return fail(TOLK_E_BAD_BINARY, "not made by this plugin");
  *out = calloc(1, sizeof **out);
  (*out)->kernel.device = d;
  memcpy((*out)->kernel.text, binary.data, binary.size);
  snprintf((*out)->entry, sizeof(*out)->entry, "%s", source->entry);
  return TOLK_OK;
}

static void unload(tolk_program* p) { free(p); }

static tolk_status get_kernel(tolk_program* p, const char* name, tolk_kernel** out) {
  if (strcmp(name, p->entry) != 0) return fail(TOLK_E_NOT_FOUND, name);
  *out = &p->kernel;
  return TOLK_OK;
}

static tolk_status launch(tolk_stream* s, tolk_kernel* k, const tolk_launch* l) {
  struct work w;
  uint32_t i;
  if (k->device->lost) return fail(TOLK_E_DEVICE_LOST, "lost");
  if (l->buffer_count > MAX_BUFFERS) return fail(TOLK_E_LIMIT, "at most 4 buffers");
  memset(&w, 0, sizeof w);
  w.kernel = k;
  for (i = 0; i < l->buffer_count; i++) w.refs[i] = l->buffers[i];
  w.value = l->value_count ? l->values[0] : 0;
  if (!s) return run(&w);
  if (s->count == MAX_QUEUE) return fail(TOLK_E_LIMIT, "the queue is full");
  s->queue[s->count++] = w;
  return TOLK_OK;
}

static void shutdown_plugin(void* self) {
  (void)self;
  if (used_bytes != 0) H->log_message(H->ctx, TOLK_LOG_ERROR, "shut down while buffers are alive");
}

static const tolk_device_vt device_table = {
    .struct_size = sizeof device_table, .close = device_close, .caps = device_caps};
static const tolk_buffer_vt buffer_table = {
    .struct_size = sizeof buffer_table, .create = buffer_create, .destroy = buffer_destroy};
static const tolk_stream_vt stream_table = {
    .struct_size = sizeof stream_table,
    .copy_in = copy_in,
    .copy_out = copy_out,
#if WITH_STREAMS
    .create = stream_create,
    .destroy = stream_destroy,
    .synchronize = stream_synchronize,
    .wait = stream_wait,
    .event_create = event_create,
    .event_record = event_record,
    .event_query = event_query,
    .event_sync = event_sync,
    .event_destroy = event_destroy,
#endif
};
static const tolk_program_vt program_table = {.struct_size = sizeof program_table,
                                              .compile = compile,
                                              .load = load,
                                              .unload = unload,
                                              .get_kernel = get_kernel,
                                              .launch = launch};

static const tolk_plugin plugin = {.struct_size = sizeof plugin,
                                   .abi_major = TOLK_ABI_MAJOR,
                                   .abi_minor = TOLK_ABI_MINOR,
                                   .name = PLUGIN_NAME,
                                   .display_name = "basic",
                                   .vendor = "tests",
                                   .version = "1",
                                   .compiler_id = "1",
                                   .flags = PLUGIN_FLAGS,
                                   .device = &device_table,
                                   .buffer = &buffer_table,
                                   .stream = &stream_table,
                                   .program = &program_table,
                                   .device_count = device_count,
                                   .device_info = device_info,
                                   .device_open = device_open,
                                   .shutdown = shutdown_plugin};

tolk_status tolk_plugin_entry_v1(const tolk_host* host, const tolk_plugin** out) {
  H = host;
  *out = &plugin;
  return TOLK_OK;
}
