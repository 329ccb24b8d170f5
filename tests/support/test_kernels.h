// Small kernels in the flat form, and buffers of 32-bit integers, for tests below the engine. Link the layers
// device and kernel.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "parse_kernel.h"
#include "tolk/device/buffer.h"
#include "tolk/device/device.h"
#include "tolk/device/program.h"
#include "tolk/kernel/kernel_ir.h"

namespace tolk::test {

inline ProgramRef load_kernel(Device& device, const std::string& text) {
  KernelIR kernel = parse_kernel_ir(text);
  verify(kernel);
  tolk_kernel_ir view = kernel.view();
  KernelSource source;
  source.ir = &view;
  source.entry = kernel.name;
  source.params = kernel.params;
  source.flags = TOLK_SOURCE_ARGS_MAY_ALIAS; // tests run them in place as well
  return device.build(source);
}

// out[i] = in[i] + amount; one work-group an element.
inline ProgramRef add_kernel(Device& device, int64_t amount, const std::string& name = "add") {
  return load_kernel(device, "kernel " + name +
                                 "\nparam buffer i32 w 0\nparam buffer i32 r 0\n"
                                 "%0 = PARAM i32 [0]\n%1 = PARAM i32 [1]\n%2 = SPECIAL i32 [0, 0]\n"
                                 "%3 = LOAD i32 %1 %2\n%4 = CONST i32 " +
                                 std::to_string(amount) + "\n%5 = ADD i32 %3 %4\n%6 = STORE i32 %0 %2 %5\n");
}

// acc[i] += in[0] + value, the value being the launch's.
inline ProgramRef accumulate_kernel(Device& device, const std::string& name = "accumulate") {
  return load_kernel(device, "kernel " + name +
                                 "\nparam buffer i32 rw 0\nparam buffer i32 r 0\nparam value i32 0 1000000\n"
                                 "%0 = PARAM i32 [0]\n%1 = PARAM i32 [1]\n%2 = PARAM i32 [2]\n"
                                 "%3 = SPECIAL i32 [0, 0]\n%4 = CONST i32 0\n%5 = LOAD i32 %1 %4\n"
                                 "%6 = LOAD i32 %0 %3\n%7 = ADD i32 %6 %5\n%8 = ADD i32 %7 %2\n"
                                 "%9 = STORE i32 %0 %3 %8\n");
}

// out[0] = the sum of in's `count` elements; one work-group.
inline ProgramRef sum_kernel(Device& device, int64_t count, const std::string& name = "sum") {
  return load_kernel(device, "kernel " + name +
                                 "\nparam buffer i32 w 0\nparam buffer i32 r 0\n"
                                 "%0 = PARAM i32 [0]\n%1 = PARAM i32 [1]\n%2 = DEFINE_REG i32 [1]\n"
                                 "%3 = CONST i32 0\n%4 = STORE i32 %2 %3 %3\n%5 = CONST i32 " +
                                 std::to_string(count) +
                                 "\n%6 = RANGE i32 %5\n%7 = LOAD i32 %1 %6\n%8 = LOAD i32 %2 %3\n"
                                 "%9 = ADD i32 %8 %7\n%10 = STORE i32 %2 %3 %9\n%11 = END %6\n"
                                 "%12 = LOAD i32 %2 %3\n%13 = STORE i32 %0 %3 %12\n");
}

inline std::vector<int32_t> ints(Buffer& buffer) {
  std::vector<int32_t> values(buffer.bytes() / sizeof(int32_t));
  buffer.copy_out(std::as_writable_bytes(std::span(values)));
  return values;
}

inline BufferRef int_buffer(Device& device, const std::vector<int32_t>& values) {
  BufferRef buffer = make_buffer(device, DType::I32, values.size());
  buffer->allocate();
  buffer->copy_in(std::as_bytes(std::span(values)));
  return buffer;
}

inline BufferRef int_buffer(Device& device, size_t count, int32_t value) {
  return int_buffer(device, std::vector<int32_t>(count, value));
}

inline void launch(const ProgramRef& kernel, const std::vector<BufferRef>& buffers,
                   const std::vector<int64_t>& values = {}, uint32_t groups = 0, uint64_t* ns = nullptr) {
  std::vector<Buffer*> raw;
  for (const BufferRef& b : buffers) raw.push_back(b.get());
  if (groups == 0) groups = static_cast<uint32_t>(buffers[0]->count());
  kernel->launch(raw, values, {groups, 1, 1}, {1, 1, 1}, ns);
}

} // namespace tolk::test
