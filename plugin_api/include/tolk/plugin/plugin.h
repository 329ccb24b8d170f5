/* plugin.h - the plugin's own table, the entry point, and the stamp that names a library without running it.
 */
#ifndef TOLK_PLUGIN_PLUGIN_H
#define TOLK_PLUGIN_PLUGIN_H

#include <tolk/plugin/buffer.h>
#include <tolk/plugin/device.h>
#include <tolk/plugin/graph.h>
#include <tolk/plugin/host.h>
#include <tolk/plugin/program.h>
#include <tolk/plugin/status.h>
#include <tolk/plugin/stream.h>

#include <string.h>

/* tolk_plugin.flags */
enum {
  TOLK_PLUGIN_SERIALIZE = 1,      /* all calls under one lock of the host, waits included */
  TOLK_PLUGIN_NO_PROBE_CHILD = 2, /* need not be tried out in a child process first */
  TOLK_PLUGIN_TEST_ONLY = 4       /* never a default device */
};

/* Stays valid and unchanged from the entry's return to the end of shutdown; normally static const data. */
typedef struct tolk_plugin {
  uint32_t struct_size;
  uint32_t abi_major;      /* TOLK_ABI_MAJOR */
  uint32_t abi_minor;      /* TOLK_ABI_MINOR of the headers it was compiled with */
  uint32_t min_host_minor; /* the plugin works with hosts of this minor and later; normally 0 */

  const char* name; /* what DEVICE= matches: [A-Z][A-Z0-9_]{0,31} */
  const char* display_name;
  const char* vendor;
  const char* version;     /* free text */
  const char* compiler_id; /* changes whenever compile would give other bytes; part of the cache key */
  uint32_t flags;          /* TOLK_PLUGIN_* */
  uint32_t reserved;
  void* self; /* first argument of the functions below and of compile, disassemble */

  const tolk_device_vt* device;
  const tolk_buffer_vt* buffer;
  const tolk_stream_vt* stream;
  const tolk_program_vt* program;
  const tolk_graph_vt* graph; /* or NULL */

  /* MANDATORY. May look for the driver here. No device is success with 0; a missing driver is TOLK_E_SYSTEM
   * with a text that names the library. The answer is constant until rescan. */
  tolk_status (*device_count)(void* self, uint32_t* out);
  /* MANDATORY. Opens nothing. The record belongs to the plugin; it and its texts live until shutdown. */
  tolk_status (*device_info)(void* self, uint32_t index, const tolk_device_info** out);
  /* MANDATORY. An index beyond the count is TOLK_E_NOT_FOUND unless the info says TOLK_DEVICE_REOPENABLE; a
   * second open of the same index gives an independent device or TOLK_E_BUSY. */
  tolk_status (*device_open)(void* self, uint32_t index, tolk_device** out);

  /* The last call; every object is destroyed. Joins threads; takes less than 5 s. NULL: nothing to do. */
  void (*shutdown)(void* self);
  /* Looks for new devices; indices of open ones keep their meaning. NULL: the list never changes. */
  tolk_status (*rescan)(void* self);
  /* A table beyond this interface ("vendor.feature"), or TOLK_E_NOT_FOUND; starts with struct_size, lives
   * until shutdown. NULL: none. */
  tolk_status (*get_extension)(void* self, const char* name, uint32_t version, const void** table);
} tolk_plugin;

#if defined(__GNUC__)
#define TOLK_PLUGIN_VISIBLE __attribute__((visibility("default")))
#elif defined(_WIN32)
#define TOLK_PLUGIN_VISIBLE __declspec(dllexport)
#else
#define TOLK_PLUGIN_VISIBLE
#endif
#ifdef __cplusplus
#define TOLK_PLUGIN_EXPORT extern "C" TOLK_PLUGIN_VISIBLE
#else
#define TOLK_PLUGIN_EXPORT TOLK_PLUGIN_VISIBLE
#endif

/* THE ONE EXPORTED SYMBOL. Called once per process, never concurrently. Keeps `host`, stores its table in
 * *out, returns within 50 ms: opens no device, starts no thread, talks to no driver (device_count may).
 * TOLK_E_SYSTEM when this processor cannot run the library, TOLK_E_VERSION when host->abi_minor is too low.
 * Major 2 would have tolk_plugin_entry_v2. */
TOLK_PLUGIN_EXPORT tolk_status tolk_plugin_entry_v1(const tolk_host* host, const tolk_plugin** out);

/* 64 bytes in the section .note.tolk, an ELF note, from which listing tools read name and version without
 * running code. */
typedef struct tolk_plugin_stamp {
  uint32_t name_size; /* 5 */
  uint32_t desc_size; /* 44 */
  uint32_t type;      /* 1 */
  char owner[8];      /* "tolk" */
  char name[32];      /* tolk_plugin.name, NUL-padded */
  uint32_t abi_major, abi_minor;
  /* Rank among plugins when no device is named: among devices of one kind the highest wins, 0 is never taken. Counts only
   * for plugins in tolk/plugins beside libtolk; others are used when they are named. */
  uint32_t default_priority;
} tolk_plugin_stamp;

/* At file scope: TOLK_PLUGIN_STAMP("NAME", TOLK_ABI_MAJOR, TOLK_ABI_MINOR);
 * or, for a plugin that is part of tolk and may be the default device,
 * TOLK_PLUGIN_STAMP_DEFAULT("NAME", TOLK_ABI_MAJOR, TOLK_ABI_MINOR, priority); */
#define TOLK_PLUGIN_STAMP(name, major, minor) TOLK_PLUGIN_STAMP_DEFAULT(name, major, minor, 0)
#if defined(__ELF__)
#define TOLK_PLUGIN_STAMP_DEFAULT(name, major, minor, priority)                                              \
  static const tolk_plugin_stamp tolk_plugin_stamp_record                                                    \
      __attribute__((section(".note.tolk"), used, aligned(4))) = {5,    44,    1,     "tolk",                \
                                                                  name, major, minor, priority}
#else
#define TOLK_PLUGIN_STAMP_DEFAULT(name, major, minor, priority)                                              \
  static const tolk_plugin_stamp tolk_plugin_stamp_record = {5, 44, 1, "tolk", name, major, minor, priority}
#endif

/* Copies *in (in_size bytes, starting with struct_size) to the host's struct, which may be older and shorter
 * or newer and longer, keeping its struct_size:   tolk_memory m = {sizeof m}; ...; tolk_write_out(out, &m,
 * sizeof m);   */
static inline void tolk_write_out(void* out, const void* in, uint32_t in_size) {
  uint32_t out_size;
  memcpy(&out_size, out, sizeof out_size);
  if (out_size < in_size) in_size = out_size;
  if (in_size > sizeof out_size)
    memcpy((char*)out + sizeof out_size, (const char*)in + sizeof out_size, in_size - sizeof out_size);
}

#endif
