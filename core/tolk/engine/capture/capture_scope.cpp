#include "tolk/engine/capture/capture_scope.h"

#include <algorithm>

#include "tolk/base/check.h"
#include "tolk/base/config.h"
#include "tolk/base/error.h"
#include "tolk/uop/build.h"
#include "tolk/uop/state.h"

namespace tolk::engine {
namespace {

std::vector<Capturer>& registry() {
  thread_local std::vector<Capturer> all;
  return all;
}

// The first that belong to the newest capture.
thread_local uint64_t first_version = 0;
thread_local int64_t first_slot = 0;

// Slots.
std::vector<int64_t>& uncaptured() {
  thread_local std::vector<int64_t> all;
  return all;
}

} // namespace

const std::vector<Capturer>& capturing() { return registry(); }

CaptureScope::CaptureScope(Capturer capturer) : place_(registry().size()) {
  registry().push_back(std::move(capturer));
  uncaptured().clear();
  first_version = fresh_version();
  first_slot = fresh_user_slot();
}

CaptureScope::~CaptureScope() { registry().resize(place_); }

bool is_capturing() { return !registry().empty() && Config::current().capturing != 0; }

bool is_older_than_capture(const UOp& u) {
  if (u.is(Op::BUFFER)) return slot_of(u) < first_slot;
  return version_named(u) != 0 && version_named(u) < first_version;
}

void note_uncaptured(const UOp& buffer) { uncaptured().push_back(slot_of(buffer)); }
bool was_uncaptured(const UOp& buffer) {
  return std::find(uncaptured().begin(), uncaptured().end(), slot_of(buffer)) != uncaptured().end();
}

void capture(const UOp& linear, const VarVals& vars) {
  TOLK_CHECK(!registry().empty(), "a schedule was handed to a capture that is not there");
  if (linear.nsrc() == 0) return;
  Capturer newest = registry().back(); // a copy: the call may open scopes of its own
  newest(linear, vars);
}

void require_not_capturing(std::string_view what) {
  if (!is_capturing() || Config::current().unsafe_allow_jit_buffer != 0) return;
  throw JitError(std::string(what) +
                 ": reading tensor data inside a capture would freeze its present value. Read it outside the "
                 "captured function, or set UNSAFE_ALLOW_JIT_BUFFER=1 if that is what you want");
}

} // namespace tolk::engine
