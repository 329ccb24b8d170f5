#include "tolk/base/error.h"

#include "tolk/base/rethrow.h"

namespace tolk {

// Key functions: each class has its type information in one library, so it can be caught across libraries.
Error::~Error() = default;
InvalidArgument::~InvalidArgument() = default;
JitError::~JitError() = default;
DeviceError::~DeviceError() = default;
OutOfMemory::~OutOfMemory() = default;
CompileError::~CompileError() = default;
GraphError::~GraphError() = default;
FormatError::~FormatError() = default;
PluginError::~PluginError() = default;
ImportError::~ImportError() = default;
InternalError::~InternalError() = default;

void rethrow_with(const std::string& before, const std::string& after) {
#define TOLK_LEAF(Leaf)                                                                                      \
  catch (const Leaf& e) {                                                                                    \
    throw Leaf(before + e.what() + after);                                                                   \
  }
  try {
    throw;
  }
  TOLK_LEAF(InvalidArgument)
  TOLK_LEAF(JitError)
  TOLK_LEAF(DeviceError)
  TOLK_LEAF(OutOfMemory)
  TOLK_LEAF(CompileError)
  TOLK_LEAF(GraphError)
  TOLK_LEAF(FormatError)
  TOLK_LEAF(PluginError)
  TOLK_LEAF(ImportError)
  TOLK_LEAF(InternalError)
#undef TOLK_LEAF
}

} // namespace tolk
