/* status.h - what every call of the interface returns.
 *
 * A call returns a tolk_status: 0 is success, positive values are expected outcomes (not ready, timeout),
 * negative values are errors. Before a plugin returns an error it should give the host a sentence through
 * tolk_host.set_error; the host keeps that text per thread and consumes it right after the call. */
#ifndef TOLK_PLUGIN_STATUS_H
#define TOLK_PLUGIN_STATUS_H

#include <stdint.h>

typedef int32_t tolk_status;

enum {
#define TOLK_STATUS(name, value, meaning) TOLK_##name = value,
#include <tolk/plugin/status.def>
#undef TOLK_STATUS
  TOLK_STATUS_FORCE_INT = 0x7fffffff
};

#endif
