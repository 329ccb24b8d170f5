#include "tolk/base/error.h"

namespace tolk {

// Out of line, so that each class has one home for its type information and can be caught across libraries.
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

} // namespace tolk
