// NumPy's .npy files, versions 1 to 3.
// Reads bool, integers and floats of 8 to 64 bits in either byte order, C or Fortran order. Rejects complex
// numbers, strings, dates, records and Python objects. Writes types without a numpy name as the smallest numpy
// type that holds every value (bf16, f8 and f4 as float32; i4 and i2 as int8; u4 and u2 as uint8), so that
// numpy.load returns the numbers.
#pragma once

#include <optional>
#include <string>

#include "tolk/base/api.h"
#include "tolk/io/host_tensor.h"
#include "tolk/io/place.h"

namespace tolk::io {

struct NpyOptions {
  // The element type of raw bytes: numpy stores bfloat16 and float8 arrays as '<V2' and '|V1'. Without it, or
  // if the width differs, such a file is rejected.
  std::optional<DType> raw_as;
};

// Aligned elements in C order stay in the mapped file. Throws FormatError (damaged or unsupported content, with
// file and reason) or InvalidArgument (cannot be opened).
TOLK_API HostTensor read_npy(const std::string& path, const NpyOptions& options = {});
// The same for a file in memory. `owner` keeps it alive; if null, the elements are copied. `place` is used in
// error messages.
TOLK_API HostTensor parse_npy(std::span<const std::byte> file, const Place& place,
                              std::shared_ptr<const void> owner, const NpyOptions& options = {});

// The bytes of a version 1 file (2 when the header is too long), C order, elements at a multiple of 64 bytes.
// Throws InvalidArgument for a tensor of strings.
TOLK_API std::string encode_npy(const HostTensor& tensor);
TOLK_API void write_npy(const std::string& path, const HostTensor& tensor);

} // namespace tolk::io
