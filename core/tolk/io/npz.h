// NumPy's .npz files: zip archives of .npy members, stored or deflated.
#pragma once

#include <string>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/io/host_tensor.h"
#include "tolk/io/npy.h"

namespace tolk::io {

// All arrays in the archive's order, named without ".npy". Any other member is an error. An archive that
// unpacks to more than 64 times its size and more than 256 MiB is rejected.
// Throws FormatError (damaged, encrypted, unsupported content) or InvalidArgument (cannot be opened).
TOLK_API std::vector<NamedTensor> read_npz(const std::string& path, const NpyOptions& options = {});

// Writes without compression, as numpy.savez does. Throws InvalidArgument for tensors of strings and duplicate
// names.
TOLK_API void write_npz(const std::string& path, const std::vector<NamedTensor>& tensors);

} // namespace tolk::io
