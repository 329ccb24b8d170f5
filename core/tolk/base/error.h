// The exception hierarchy. A message says what was expected, what was found, and which input or setting fixes
// it; it does not start with a function name. Throw where the most is known, and add context at an interface
// with `rethrow_with`.
#pragma once

#include <stdexcept>
#include <string>

#include "tolk/base/api.h"

namespace tolk {

// Root of every error that tolk throws.
class TOLK_API Error : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
  ~Error() override;
};

// One leaf per kind of error. Invalid argument of the caller: shape, dtype, axis, value.
class TOLK_API InvalidArgument : public Error {
public:
  using Error::Error;
  ~InvalidArgument() override;
};
// Capture and replay.
class TOLK_API JitError : public Error {
public:
  using Error::Error;
  ~JitError() override;
};
// A device that is unknown, cannot be opened, or failed.
class TOLK_API DeviceError : public Error {
public:
  using Error::Error;
  ~DeviceError() override;
};
// An allocation failed even after cached memory was released.
class TOLK_API OutOfMemory : public Error {
public:
  using Error::Error;
  ~OutOfMemory() override;
};
// A backend's compiler rejected a kernel; the message contains the kernel's name and the compiler's log.
class TOLK_API CompileError : public Error {
public:
  using Error::Error;
  ~CompileError() override;
};
// A backend refused to build a graph.
class TOLK_API GraphError : public Error {
public:
  using Error::Error;
  ~GraphError() override;
};
// Damaged or incompatible serialized data.
class TOLK_API FormatError : public Error {
public:
  using Error::Error;
  ~FormatError() override;
};
// A plugin failed to load or violated the interface.
class TOLK_API PluginError : public Error {
public:
  using Error::Error;
  ~PluginError() override;
};
// A model cannot be imported; the message contains file, node and reason.
class TOLK_API ImportError : public Error {
public:
  using Error::Error;
  ~ImportError() override;
};
// A broken invariant of tolk itself.
class TOLK_API InternalError : public Error {
public:
  using Error::Error;
  ~InternalError() override;
};

} // namespace tolk
