// Memory, copies, order and refusals of the Vulkan plugin.
#include <cstring>

#include <boost/test/unit_test.hpp>

#include "kernel_builder.h"
#include "sample_kernels.h"
#include "tolk/base/config.h"
#include "tolk/base/error.h"
#include "tolk/device/buffer.h"
#include "tolk/device/program.h"
#include "tolk/device/registry.h"
#include "tolk/device/stream.h"
#include "tolk/render/spirv/spirv.h"
#include "vulkan_device.h"

namespace tolk::test {
namespace {

using Id = KernelBuilder::Id;

Bytes pattern(size_t count, unsigned seed) {
  Bytes bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 31 + i / 255 + seed);
  return bytes;
}

BOOST_AUTO_TEST_CASE(bytes_survive_copies_of_every_size_and_between_buffers,
                     *boost::unit_test::precondition(has_vulkan)) {
  Device& on = device("VULKAN");
  for (size_t size : {1u, 3u, 255u, 256u, 257u, 1u << 20, (9u << 20) + 5}) {
    BufferRef a = make_buffer(on, DType::U8, size), b = make_buffer(on, DType::U8, size);
    Bytes in = pattern(size, 7), out(size);
    a->ensure_allocated().copy_in(in);
    copy_buffer(b->ensure_allocated(), *a);
    b->copy_out(out);
    BOOST_TEST((out == in), "size " << size);
  }
}

// Only a software driver is opened more often than it has devices.
BOOST_AUTO_TEST_CASE(a_software_device_can_be_opened_again_as_another_one,
                     *boost::unit_test::precondition(has_vulkan)) {
  if (!(device("VULKAN").info().kind == TOLK_KIND_CPU)) return;
  BufferRef a = make_buffer(device("VULKAN"), DType::U8, 100),
            b = make_buffer(device("VULKAN:3"), DType::U8, 100);
  Bytes in = pattern(100, 3), out(100);
  a->ensure_allocated().copy_in(in);
  copy_buffer(b->ensure_allocated(), *a);
  b->copy_out(out);
  BOOST_TEST((in == out));
}

BOOST_AUTO_TEST_CASE(many_buffers_do_not_overlap, *boost::unit_test::precondition(has_vulkan)) {
  Device& on = device("VULKAN");
  std::vector<BufferRef> buffers;
  for (unsigned i = 0; i < 300; ++i) {
    buffers.push_back(make_buffer(on, DType::U8, 1 + i * 37 % 4000));
    buffers.back()->ensure_allocated().copy_in(pattern(buffers.back()->bytes(), i));
    if (i % 3 == 2) buffers[i - 1].reset();
  }
  for (unsigned i = 0; i < 300; ++i) {
    if (!buffers[i]) continue;
    Bytes out(buffers[i]->bytes());
    buffers[i]->copy_out(out);
    BOOST_TEST((out == pattern(out.size(), i)), "buffer " << i);
  }
}

// 500 launches in a row, each on the result of the one before: batches, argument blocks and barriers between them.
BOOST_AUTO_TEST_CASE(a_long_chain_of_launches_keeps_its_order, *boost::unit_test::precondition(has_vulkan)) {
  KernelBuilder b("count_up");
  Id out = b.buffer(DType::I32, true), x = b.buffer(DType::I32, false), n = b.value(DType::I32, -1000, 1000);
  Id at = b.tile();
  b.store(out, at, b.add(b.load(x, at), n));
  Device& on = device("VULKAN");
  ProgramRef program = load_kernel(on, b.kernel);
  BufferRef first = make_buffer(on, DType::I32, 100), second = make_buffer(on, DType::I32, 100);
  first->ensure_allocated().copy_in(Bytes(400));
  int32_t sum = 0;
  for (int i = 0; i < 500; ++i) {
    Buffer* arguments[] = {i % 2 ? first.get() : second.get(), i % 2 ? second.get() : first.get()};
    int64_t value = i % 7 - 2;
    program->launch(arguments, {&value, 1}, {100, 1, 1});
    sum += static_cast<int32_t>(value);
  }
  Bytes result(400);
  first->copy_out(result);
  int32_t last;
  std::memcpy(&last, result.data() + 396, 4);
  BOOST_TEST(last == sum);
}

BOOST_AUTO_TEST_CASE(a_launch_can_be_timed, *boost::unit_test::precondition(has_vulkan)) {
  Device& on = device("VULKAN");
  ProgramRef program = load_kernel(on, row_sum());
  std::vector<BufferRef> buffers;
  std::vector<Buffer*> pointers;
  for (int i = 0; i < 2; ++i) {
    buffers.push_back(make_buffer(on, DType::F32, 4096));
    buffers.back()->ensure_allocated().copy_in(Bytes(4096 * 4));
    pointers.push_back(buffers.back().get());
  }
  uint64_t ns = 0;
  program->launch(pointers, {}, {16, 1, 1}, {1, 1, 1}, &ns);
  BOOST_TEST(ns > 0);
  BOOST_TEST(ns < 10'000'000'000);
}

BOOST_AUTO_TEST_CASE(what_is_no_module_is_refused, *boost::unit_test::precondition(has_vulkan)) {
  Device& on = device("VULKAN");
  KernelIR kernel = vector_add();
  KernelSource source;
  source.entry = kernel.name;
  source.params = kernel.params;
  std::string good = render_spirv(kernel, {});
  std::string long_word = good, other_name = good;
  long_word[22] = long_word[23] = '\xff';
  other_name[other_name.find("e_64_8")] = 'x';
  for (const std::string& bytes : {std::string(), std::string("text"), good.substr(0, 18),
                                   good.substr(0, good.size() - 4), long_word, other_name})
    BOOST_CHECK_THROW(on.load(source, bytes), FormatError);
  BOOST_CHECK_NO_THROW(on.load(source, good));
}

BOOST_AUTO_TEST_CASE(memory_that_is_exhausted_is_an_ordinary_error,
                     *boost::unit_test::precondition(has_vulkan)) {
  Device& on = device("VULKAN");
  BufferRef huge = make_buffer(on, DType::U8, uint64_t{1} << 44);
  BOOST_CHECK_THROW(huge->allocate(), OutOfMemory);
  BufferRef small = make_buffer(on, DType::U8, 16);
  Bytes in = pattern(16, 1), out(16);
  small->ensure_allocated().copy_in(in);
  small->copy_out(out);
  BOOST_TEST((in == out));
}

boost::test_tools::assertion_result no_driver(boost::unit_test::test_unit_id) {
  return !environment("TOLK_TEST_NO_VULKAN_DRIVER").empty();
}

BOOST_AUTO_TEST_CASE(without_a_driver_there_is_no_device_and_the_reason_is_told,
                     *boost::unit_test::precondition(no_driver)) {
  BOOST_CHECK_EXCEPTION(device("VULKAN"), Error, [](const Error& e) {
    BOOST_TEST_MESSAGE(e.what());
    return std::string(e.what()).find("driver") != std::string::npos;
  });
}

} // namespace
} // namespace tolk::test
