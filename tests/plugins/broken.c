/* One fault per variant, chosen with -DBROKEN_<variant>. The tables are otherwise complete, and their
 * functions are never called: a plugin is refused before that, and what is accepted is only loaded. */
#include <tolk/plugin/tolk_plugin.h>

#include <unistd.h>

#if defined(BROKEN_major_stamp)
TOLK_PLUGIN_STAMP("MAJORSTAMP", 2, 0);
#endif

static tolk_status device_count(void* self, uint32_t* out) {
  (void)self;
  *out = 0;
  return TOLK_OK;
}
static tolk_status device_info(void* self, uint32_t index, const tolk_device_info** out) {
  (void)self, (void)index, (void)out;
  return TOLK_E_NOT_FOUND;
}
static tolk_status device_open(void* self, uint32_t index, tolk_device** out) {
  (void)self, (void)index, (void)out;
  return TOLK_E_NOT_FOUND;
}
static void close_device(tolk_device* d) { (void)d; }
static tolk_status caps(tolk_device* d, const tolk_caps** out) {
  (void)d, (void)out;
  return TOLK_E_INTERNAL;
}
static tolk_status create(tolk_device* d, const tolk_buffer_desc* desc, tolk_buffer** out) {
  (void)d, (void)desc, (void)out;
  return TOLK_E_DEVICE_OOM;
}
static void destroy(tolk_buffer* b) { (void)b; }
static tolk_status copy_in(tolk_stream* s, tolk_ref dst, const void* src, uint32_t flags) {
  (void)s, (void)dst, (void)src, (void)flags;
  return TOLK_OK;
}
static tolk_status copy_out(tolk_stream* s, void* dst, tolk_ref src, uint32_t flags) {
  (void)s, (void)dst, (void)src, (void)flags;
  return TOLK_OK;
}
static tolk_status load(tolk_device* d, tolk_bytes binary, const tolk_source* source, tolk_program** out) {
  (void)d, (void)binary, (void)source, (void)out;
  return TOLK_E_BAD_BINARY;
}
static void unload(tolk_program* p) { (void)p; }
static tolk_status get_kernel(tolk_program* p, const char* name, tolk_kernel** out) {
  (void)p, (void)name, (void)out;
  return TOLK_E_NOT_FOUND;
}
static tolk_status launch(tolk_stream* s, tolk_kernel* k, const tolk_launch* l) {
  (void)s, (void)k, (void)l;
  return TOLK_OK;
}
#if defined(BROKEN_half_streams)
static tolk_status stream_create(tolk_device* d, uint32_t flags, tolk_stream** out) {
  (void)d, (void)flags, (void)out;
  return TOLK_OK;
}
#endif

static tolk_device_vt device_table = {
    .struct_size = sizeof device_table, .close = close_device, .caps = caps};
static tolk_buffer_vt buffer_table = {
    .struct_size = sizeof buffer_table, .create = create, .destroy = destroy};
static tolk_stream_vt stream_table = {
    .struct_size = sizeof stream_table, .copy_in = copy_in, .copy_out = copy_out};
static tolk_program_vt program_table = {.struct_size = sizeof program_table,
                                        .load = load,
                                        .unload = unload,
                                        .get_kernel = get_kernel,
                                        .launch = launch};
/* Longer than the host's, as a later minor would be; what follows must be ignored. */
static struct {
  tolk_plugin table;
  uint64_t later[32];
} plugin = {.table = {.struct_size = sizeof plugin.table,
                      .abi_major = TOLK_ABI_MAJOR,
                      .abi_minor = TOLK_ABI_MINOR,
                      .name = "FAULTY",
                      .display_name = "faulty",
                      .vendor = "tests",
                      .version = "1",
                      .compiler_id = "1",
                      .flags = TOLK_PLUGIN_TEST_ONLY,
                      .device = &device_table,
                      .buffer = &buffer_table,
                      .stream = &stream_table,
                      .program = &program_table,
                      .device_count = device_count,
                      .device_info = device_info,
                      .device_open = device_open}};

#if defined(BROKEN_undefined_symbol)
extern int tolk_test_symbol_that_nobody_has(void);
#endif
#if defined(BROKEN_missing_dependency)
extern int tolk_test_absent_library(void);
#endif

#if defined(BROKEN_no_entry)
TOLK_PLUGIN_EXPORT int some_other_function(void);
int some_other_function(void) {
  plugin.later[0] = 1;
  return plugin.table.device_count == device_count;
}
#else
#if defined(BROKEN_next_entry)
TOLK_PLUGIN_EXPORT tolk_status tolk_plugin_entry_v2(const tolk_host* host, const tolk_plugin** out);
tolk_status tolk_plugin_entry_v2(const tolk_host* host, const tolk_plugin** out) {
#else
tolk_status tolk_plugin_entry_v1(const tolk_host* host, const tolk_plugin** out) {
#endif
  (void)host;
  memset(plugin.later, 0x5a, sizeof plugin.later);
#if defined(BROKEN_undefined_symbol)
  plugin.table.reserved = (uint32_t)tolk_test_symbol_that_nobody_has();
#elif defined(BROKEN_missing_dependency)
  plugin.table.reserved = (uint32_t)tolk_test_absent_library();
#elif defined(BROKEN_major)
plugin.table.abi_major = 2;
#elif defined(BROKEN_minor)
plugin.table.abi_minor = plugin.table.min_host_minor = 7;
#elif defined(BROKEN_null_launch)
program_table.launch = NULL;
#elif defined(BROKEN_null_table)
plugin.table.buffer = NULL;
#elif defined(BROKEN_half_streams)
stream_table.create = stream_create;
#elif defined(BROKEN_tiny_table)
program_table.struct_size = 8;
#elif defined(BROKEN_name)
plugin.table.name = "lower case";
#elif defined(BROKEN_system)
return host->set_error(host->ctx, TOLK_E_SYSTEM, "libfancy.so.3 is not installed");
#elif defined(BROKEN_slow)
sleep(2);
#elif defined(BROKEN_no_table)
*out = NULL;
return TOLK_OK;
#elif defined(BROKEN_short_table) /* not broken: an older minor, whose optional entries read as NULL */
plugin.table.name = "SHORT";
plugin.table.struct_size = offsetof(tolk_plugin, rescan);
stream_table.struct_size = offsetof(tolk_stream_vt, copy);
buffer_table.struct_size = offsetof(tolk_buffer_vt, map);
/* Beyond the stated size there may be anything. */
buffer_table.map = (tolk_status(*)(tolk_buffer*, uint64_t, uint64_t, uint32_t, void**))(uintptr_t)1;
#elif defined(BROKEN_long_table)  /* not broken: a newer minor, whose tail is ignored */
plugin.table.name = "LONG";
plugin.table.abi_minor = 9;
plugin.table.struct_size = sizeof plugin;
#endif
  *out = &plugin.table;
  return TOLK_OK;
}
#endif
