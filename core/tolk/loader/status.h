// From a plugin's status code and sentence to the exception that a user sees.
#pragma once

#include <string>
#include <string_view>

#include <tolk/plugin/status.h>

#include "tolk/base/api.h"

namespace tolk {

// "TOLK_E_LIMIT"; codes that no header knows read as TOLK_E_INTERNAL.
TOLK_API const char* status_name(tolk_status status);

// The sentence that the plugin gave for `status` on this thread, else the code's meaning; forgets the
// sentence.
std::string take_error_text(tolk_status status);
// What tolk_host.set_error does: keeps `text` (cut at 4,096 bytes) for this thread.
void keep_error_text(tolk_status status, const char* text);
// Whether a sentence for `status` waits on this thread.
bool has_error_text(tolk_status status);
// What the layer `validate` keeps for a broken rule: throw_status then throws `text` as it is, as
// InternalError when tolk broke the rule, else as PluginError.
void keep_violation_text(tolk_status status, const char* text, bool by_host);

// Throws the error leaf of a negative status: OutOfMemory for the two out-of-memory codes, CompileError,
// FormatError for a bad binary, PluginError for faults of a plugin, DeviceError for the rest. The message is
// "<who>: <doing>: <text> (<code>)".
[[noreturn]] void throw_status(tolk_status status, std::string_view who, std::string_view doing);

// Does nothing for 0 and positive values.
inline void check_status(tolk_status status, std::string_view who, std::string_view doing) {
  if (status < 0) [[unlikely]]
    throw_status(status, who, doing);
}

} // namespace tolk
