// Buffers of integers, and a kernel that mixes them.
#pragma once

#include <boost/test/unit_test.hpp>

#include "cpu_plugin.h"
#include "kernel_builder.h"

namespace tolk::test {

// A buffer of the plugin over a vector.
class Ints {
public:
  Ints(size_t count, uint32_t value) : data(count, value) {
    tolk_buffer_desc desc{};
    desc.struct_size = sizeof desc;
    desc.usage = TOLK_USAGE_KERNEL_READ | TOLK_USAGE_KERNEL_WRITE;
    desc.size = count * sizeof(uint32_t);
    BOOST_REQUIRE_EQUAL(plugin().buffer->import_handle(device(), &desc, TOLK_HANDLE_HOST_POINTER,
                                                       reinterpret_cast<uint64_t>(data.data()), nullptr,
                                                       nullptr, &buffer_),
                        TOLK_OK);
  }
  ~Ints() { plugin().buffer->destroy(buffer_); }
  Ints(const Ints&) = delete;
  Ints& operator=(const Ints&) = delete;
  tolk_ref ref() const { return {buffer_, 0, data.size() * sizeof(uint32_t)}; }
  tolk_ref part(uint64_t begin, uint64_t count) const { return {buffer_, begin * 4, count * 4}; }
  std::vector<uint32_t> data;

private:
  tolk_buffer* buffer_ = nullptr;
};

// out[i] = a[i] * 3 + b[i] + value for `count` elements a tile.
inline KernelIR mix_kernel(const char* name, int64_t count) {
  KernelBuilder b(name);
  auto out = b.buffer(DType::U32, true), x = b.buffer(DType::U32, false), y = b.buffer(DType::U32, false);
  auto v = b.value(DType::U32, 0, 1000000);
  auto first = b.mul(b.tile(), b.index(count));
  auto i = b.loop(count);
  auto at = b.add(first, i);
  auto three = b.constant(DType::U32, 3);
  b.store(out, at, b.add(b.add(b.mul(b.load(x, at), three), b.load(y, at)), v));
  b.end(i);
  return b.kernel;
}

} // namespace tolk::test
