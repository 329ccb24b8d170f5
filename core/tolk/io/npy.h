// NumPy's .npy files, versions 1 to 3.
// Read: bool, integers and floats of 8 to 64 bits in either byte order, C or Fortran order. Refused with a
// sentence: complex, text, dates, records and Python objects. Types without a numpy name are written as the
// least numpy type that holds every value (bf16, f8 and f4 as float32; i4 and i2 as int8; u4 and u2 as
// uint8), so that numpy.load gives the numbers.
#pragma once

#include <optional>
#include <string>

#include "tolk/base/api.h"
#include "tolk/io/host_tensor.h"
#include "tolk/io/place.h"

namespace tolk::io {

struct NpyOptions {
  // What elements of an unnamed type are: numpy stores bfloat16 and float8 arrays as raw bytes ('<V2',
  // '|V1'). Without it, or when the width differs, such a file is refused.
  std::optional<DType> raw_as;
};

// Elements that are aligned and in C order stay in the mapped file. Throws FormatError (damaged or refused
// content, with file and reason) or InvalidArgument (cannot be opened).
TOLK_API HostTensor read_npy(const std::string& path, const NpyOptions& options = {});
// The same for a file in memory; `owner` keeps it alive, null: the elements are copied. `place` is for
// errors.
TOLK_API HostTensor parse_npy(std::span<const std::byte> file, const Place& place,
                              std::shared_ptr<const void> owner, const NpyOptions& options = {});

// The bytes of a version 1 file (2 when the header is too long), C order, elements at a multiple of 64 bytes.
// Throws InvalidArgument for a tensor of strings.
TOLK_API std::string encode_npy(const HostTensor& tensor);
TOLK_API void write_npy(const std::string& path, const HostTensor& tensor);

} // namespace tolk::io
