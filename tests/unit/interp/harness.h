// Runs kernels in the interpreter from tests: whole kernels on byte buffers, or one operation on lists of
// values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "interp.h"
#include "tolk/kernel/kernel_ir.h"

namespace tolk::test {

using Bytes = std::vector<std::byte>;

// Raw values, one per word, as bytes of a buffer (narrow types packed), and back.
Bytes to_bytes(DType dtype, const std::vector<uint64_t>& values);
std::vector<uint64_t> from_bytes(DType dtype, const Bytes& bytes, size_t count);
template <class T> Bytes bytes_of(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}
template <class T> std::vector<T> values_of(const Bytes& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

struct Sizes {
  uint32_t x = 1, y = 1, z = 1;
};

// Packs, unpacks, checks, decodes and runs; buffers are changed in place. Throws tolk_interp::Error.
void run(const KernelIR& kernel, std::vector<Bytes>& buffers, const std::vector<uint64_t>& values = {},
         Sizes grid = {}, Sizes local = {});
// The text form of kernel_ir.h; `body` starts with the parameters.
KernelIR kernel(const std::string& body);
// Status and text of the error that the run gives; 0 and empty when there is none.
tolk_interp::Error run_error(const KernelIR& kernel, std::vector<Bytes>& buffers,
                             const std::vector<uint64_t>& values = {}, Sizes grid = {}, Sizes local = {});

// Result of one operation for each position of the argument lists, which have one length. Each argument is
// {dtype, raw values}. `lanes` is the vector width that the operation is executed with; the length is a
// multiple of it.
struct Argument {
  DType dtype;
  std::vector<uint64_t> values;
};
std::vector<uint64_t> apply(uint16_t opcode, DType result, const std::vector<Argument>& arguments,
                            uint16_t lanes = 1);

} // namespace tolk::test
