#include "tolk/loader/status.h"

#include <cstring>

#include "tolk/base/error.h"

namespace tolk {
namespace {

struct StatusRow {
  tolk_status value;
  const char* name;
  const char* meaning;
};
constexpr StatusRow kRows[] = {
#define TOLK_STATUS(name, value, meaning) {value, "TOLK_" #name, meaning},
#include <tolk/plugin/status.def>
#undef TOLK_STATUS
};

const StatusRow& row(tolk_status status) {
  const StatusRow* internal = &kRows[0];
  for (const StatusRow& r : kRows) {
    if (r.value == status) return r;
    if (r.value == TOLK_E_INTERNAL) internal = &r;
  }
  return status >= 0 ? kRows[0] : *internal;
}

constexpr size_t kTextLimit = 4096;
struct KeptText {
  tolk_status status = TOLK_OK;
  std::string text;
  enum { Sentence, BrokenByHost, BrokenByPlugin } kind = Sentence;
};
thread_local KeptText kept;

} // namespace

const char* status_name(tolk_status status) { return row(status).name; }

void keep_error_text(tolk_status status, const char* text) {
  kept.status = status;
  kept.text.assign(text ? text : "", text ? strnlen(text, kTextLimit) : 0);
  kept.kind = KeptText::Sentence;
}

bool has_error_text(tolk_status status) { return kept.status == status && !kept.text.empty(); }

void keep_violation_text(tolk_status status, const char* text, bool by_host) {
  keep_error_text(status, text);
  kept.kind = by_host ? KeptText::BrokenByHost : KeptText::BrokenByPlugin;
}

std::string take_error_text(tolk_status status) {
  // A text for another code is left over from a call that succeeded in the end.
  std::string text = kept.status == status ? std::move(kept.text) : std::string();
  kept = {};
  return text.empty() ? row(status).meaning : text;
}

void throw_status(tolk_status status, std::string_view who, std::string_view doing) {
  if (has_error_text(status) && kept.kind != KeptText::Sentence) {
    const bool by_host = kept.kind == KeptText::BrokenByHost;
    std::string broken = std::string(who) + ": " + std::string(doing) + ": " + take_error_text(status);
    if (by_host) throw InternalError(broken);
    throw PluginError(broken);
  }
  std::string text = std::string(who) + ": " + std::string(doing) + ": " + take_error_text(status) + " (" +
                     row(status).name + ")";
  switch (row(status).value) {
  case TOLK_E_HOST_OOM:
  case TOLK_E_DEVICE_OOM:
    throw OutOfMemory(text);
  case TOLK_E_COMPILE:
    throw CompileError(text);
  case TOLK_E_BAD_BINARY:
    throw FormatError(text);
  case TOLK_E_INVALID:
  case TOLK_E_INTERNAL:
    throw PluginError(text);
  default:
    throw DeviceError(text);
  }
}

} // namespace tolk
