/* tolk_plugin.h - the interface between tolk and its backends. A backend includes this file and nothing else
 * of tolk.
 *
 * A backend is one shared library, libtolk-backend-NAME.so, with one exported function, tolk_plugin_entry_v1.
 * Tolk (the host) finds the file, loads it, calls the entry and from then on talks to the backend through
 * tables of functions.
 *
 * THE SMALLEST BACKEND fills thirteen functions, marked MANDATORY in the tables: device_count, device_info,
 * device_open; close, caps; buffer create and destroy; copy_in, copy_out; load, unload, get_kernel, launch.
 * Every other entry may be NULL and says what the host does instead. A table may be shorter than the host's:
 * missing entries are NULL.
 *
 * RULES OF THE INTERFACE
 *  - Sizes are bytes (`size`, `..._bytes`), times nanoseconds (`..._ns`), numbers of things `..._count`.
 *  - Text is UTF-8, NUL-terminated and not NULL unless a line says "or NULL".
 *  - Byte order is the host machine's; 64 bits only.
 *  - A struct that starts with `struct_size` may grow at its end: whoever allocates it writes sizeof of the
 *    version it was compiled against, and the reader treats what lies beyond as zero. Zero always means the
 *    old behaviour. Structs without that field (tolk_bytes, tolk_ref, tolk_param, tolk_ir_op, tolk_patch)
 *    never change within a major.
 *  - An array of growing structs is strided by the struct_size of its first element.
 *  - `reserved` fields are zero. Unknown flag bits are ignored, unless a line says otherwise.
 *  - A pointer passed in a call is not kept after it returns, unless a line says "kept".
 *
 * LIFETIMES. Parent outlives child: plugin outlives device, which outlives its buffers, streams, events,
 * programs and graphs; a program outlives its kernels. The host destroys an object only when every submitted
 * use of it has completed; destroy functions cannot fail and work on a lost device as well.
 *
 * THREADS. Plugin and compiler functions, and those on different objects of one device, are called from any
 * thread, concurrently. Calls that take the same stream, or the same graph, come from one thread at a time; a
 * synchronous device (no streams) counts as one stream for copies and launches. TOLK_PLUGIN_SERIALIZE asks
 * the host for one lock around everything. Host functions may be called from any thread, but not from a
 * signal handler.
 *
 * CONDUCT. No C++ exception and no longjmp crosses the interface. A plugin does not exit or abort, print,
 * change signal handlers, locale, floating-point mode, current directory or environment, nor read the
 * environment: tolk_host.config_get has its options. Threads that it makes are joined in
 * tolk_plugin.shutdown. Descriptors are opened close-on-exec.
 *
 * STATE OF THIS VERSION. Major 1, minor 0, DRAFT: layouts may still change before tolk 1.0. */
#ifndef TOLK_PLUGIN_TOLK_PLUGIN_H
#define TOLK_PLUGIN_TOLK_PLUGIN_H

#include <tolk/plugin/buffer.h>
#include <tolk/plugin/caps.h>
#include <tolk/plugin/device.h>
#include <tolk/plugin/graph.h>
#include <tolk/plugin/host.h>
#include <tolk/plugin/kernel_ir.h>
#include <tolk/plugin/plugin.h>
#include <tolk/plugin/program.h>
#include <tolk/plugin/status.h>
#include <tolk/plugin/stream.h>
#include <tolk/plugin/target.h>
#include <tolk/plugin/types.h>

#endif
