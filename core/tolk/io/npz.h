// NumPy's .npz files: zip archives of .npy members, stored or deflated.
#pragma once

#include <string>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/io/host_tensor.h"
#include "tolk/io/npy.h"

namespace tolk::io {

// All arrays in the archive's order; a name is the member's without ".npy". Members of other kinds are an
// error. An archive may unpack to 64 times its size, or 256 MiB when that is more; beyond, it is refused.
// Throws FormatError (damaged, encrypted, refused content) or InvalidArgument (cannot be opened).
TOLK_API std::vector<NamedTensor> read_npz(const std::string& path, const NpyOptions& options = {});

// Stored without compression, as numpy.savez does. Throws InvalidArgument for tensors of strings or two equal
// names.
TOLK_API void write_npz(const std::string& path, const std::vector<NamedTensor>& tensors);

} // namespace tolk::io
