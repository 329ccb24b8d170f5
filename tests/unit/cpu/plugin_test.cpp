// The plugin's tables: buffers and copies, binaries that are damaged, threads, the floating-point mode.
#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <sys/stat.h>
#include <thread>
#include <tuple>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "cpu_plugin.h"
#include "kernel_builder.h"
#include "sample_kernels.h"
#include "tolk/render/llvm/llvm_ir.h"

namespace tolk::test {
namespace {

tolk_buffer* make_buffer(uint64_t size, uint32_t flags = 0) {
  tolk_buffer_desc desc{};
  desc.struct_size = sizeof desc;
  desc.kind = TOLK_BUFFER_DEVICE;
  desc.size = size;
  desc.flags = flags;
  tolk_buffer* buffer = nullptr;
  BOOST_REQUIRE_EQUAL(plugin().buffer->create(device(), &desc, &buffer), TOLK_OK);
  return buffer;
}

BOOST_AUTO_TEST_CASE(a_compiler_library_that_others_can_write_is_not_opened) {
  namespace fs = std::filesystem;
  std::string folder = (fs::temp_directory_path() / "tolk-cpu-XXXXXX").string();
  BOOST_REQUIRE(mkdtemp(folder.data()));
  const fs::path from = fs::path(TOLK_TEST_CPU_PLUGIN).parent_path(), to = folder;
  const fs::path copy = to / "plugin.so", compiler = to / "cpu/libtolk-cpu-compiler.so";
  fs::create_directory(to / "cpu");
  fs::copy_file(TOLK_TEST_CPU_PLUGIN, copy);
  fs::copy_file(from / "cpu/libtolk-cpu-compiler.so", compiler);
  const tolk_plugin& other = open_copy(copy);
  const std::string text = "no IR";
  auto compile = [&] {
    KernelIR none;
    none.name = "k";
    const tolk_source source = source_for(text, none);
    tolk_blob *binary = nullptr, *log = nullptr;
    const tolk_status status = other.program->compile(other.self, &target(), &source, &binary, &log);
    if (log) take_blob(log);
    return status;
  };
  for (const auto& [path, mode, word] : {std::tuple{compiler, 0666, "file is writable by everyone"},
                                         std::tuple{compiler, 0664, "file is writable by its group"},
                                         std::tuple{to / "cpu", 0777, "directory is writable by everyone"}}) {
    ::chmod(path.c_str(), mode);
    BOOST_CHECK_EQUAL(compile(), TOLK_E_SYSTEM);
    BOOST_CHECK_MESSAGE(last_error().find(word) != std::string::npos, last_error());
    ::chmod(path.c_str(), 0755);
  }
  BOOST_CHECK_EQUAL(compile(), TOLK_E_COMPILE); // the library is opened, and refuses the text
  fs::remove_all(folder);
}

BOOST_AUTO_TEST_CASE(the_tables_describe_a_synchronous_cpu) {
  BOOST_CHECK_EQUAL(plugin().name, std::string("CPU"));
  BOOST_CHECK(plugin().stream->create == nullptr);
  uint32_t count = 0;
  plugin().device_count(plugin().self, &count);
  BOOST_CHECK_EQUAL(count, 1u);
  const tolk_device_info* info = nullptr;
  BOOST_REQUIRE_EQUAL(plugin().device_info(plugin().self, 0, &info), TOLK_OK);
  BOOST_CHECK_EQUAL(info->kind, static_cast<uint32_t>(TOLK_KIND_CPU));
  BOOST_CHECK(info->flags & TOLK_DEVICE_REOPENABLE);
  tolk_device* seventh = nullptr;
  BOOST_REQUIRE_EQUAL(plugin().device_open(plugin().self, 7, &seventh), TOLK_OK);
  const tolk_caps* caps = nullptr;
  plugin().device->caps(seventh, &caps);
  BOOST_CHECK_EQUAL(caps->local_product_max, 1u);
  BOOST_CHECK_EQUAL(caps->cores, 2u); // the option "threads"
  BOOST_CHECK_EQUAL(caps->targets[0].kind, static_cast<uint32_t>(TOLK_TARGET_LLVM_IR));
  BOOST_CHECK_EQUAL(caps->targets[0].features, TOLK_FEATURE_MULACC | TOLK_FEATURE_SQRT | TOLK_FEATURE_TRUNC);
  BOOST_TEST_MESSAGE(info->name << ", " << info->arch << ", " << plugin().compiler_id << ", L1d "
                                << caps->l1d_bytes << ", L2 " << caps->l2_bytes << ", last "
                                << caps->llc_bytes);
  plugin().device->close(seventh);
}

BOOST_AUTO_TEST_CASE(buffers_copy_fill_map_and_refuse_what_lies_outside) {
  const tolk_buffer_vt& b = *plugin().buffer;
  const tolk_stream_vt& s = *plugin().stream;
  tolk_memory before{};
  before.struct_size = sizeof before;
  plugin().device->memory(device(), &before);
  tolk_buffer *x = make_buffer(100, TOLK_BUFFER_ZEROED), *y = make_buffer(100);
  tolk_memory after = before;
  plugin().device->memory(device(), &after);
  BOOST_CHECK_EQUAL(after.used_bytes - before.used_bytes, 200u);
  BOOST_CHECK_EQUAL(after.buffer_count - before.buffer_count, 2u);

  BOOST_CHECK_EQUAL(s.fill(nullptr, {x, 4, 12}, 0x0807060504030201, 4), TOLK_OK);
  BOOST_CHECK_EQUAL(s.copy(nullptr, {y, 0, 20}, {x, 0, 20}), TOLK_OK);
  std::vector<uint8_t> out(20), expected = {0, 0, 0, 0, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 0, 0, 0, 0};
  BOOST_CHECK_EQUAL(s.copy_out(nullptr, out.data(), {y, 0, 20}, 0), TOLK_OK);
  BOOST_CHECK(out == expected);
  void* pointer = nullptr;
  BOOST_REQUIRE_EQUAL(b.map(y, 4, 16, TOLK_MAP_READ, &pointer), TOLK_OK);
  BOOST_CHECK_EQUAL(*static_cast<uint32_t*>(pointer), 0x04030201u);
  BOOST_CHECK_EQUAL(b.unmap(y, pointer), TOLK_OK);

  BOOST_CHECK_EQUAL(s.copy_in(nullptr, {x, 90, 20}, out.data(), 0), TOLK_E_INVALID);
  BOOST_CHECK_EQUAL(s.copy_out(nullptr, out.data(), {x, 101, 0}, 0), TOLK_OK); // size 0: nothing happens
  BOOST_CHECK_EQUAL(s.copy(nullptr, {x, 0, 20}, {x, 10, 20}), TOLK_E_INVALID);
  BOOST_CHECK_EQUAL(s.fill(nullptr, {x, 2, 4}, 1, 4), TOLK_E_INVALID);
  BOOST_CHECK_EQUAL(b.map(x, ~uint64_t{0}, 2, TOLK_MAP_READ, &pointer), TOLK_E_INVALID);
  b.destroy(x);
  b.destroy(y);
  tolk_buffer* empty = make_buffer(0);
  BOOST_CHECK_EQUAL(s.copy_in(nullptr, {empty, 0, 0}, nullptr, 0), TOLK_OK);
  b.destroy(empty);

  tolk_buffer_desc desc{};
  desc.struct_size = sizeof desc;
  desc.size = uint64_t{1} << 60;
  tolk_buffer* none = nullptr;
  BOOST_CHECK_EQUAL(b.create(device(), &desc, &none), TOLK_E_DEVICE_OOM);
  plugin().device->memory(device(), &after);
  BOOST_CHECK_EQUAL(after.used_bytes, before.used_bytes);
  BOOST_CHECK_EQUAL(after.buffer_count, before.buffer_count);
}

BOOST_AUTO_TEST_CASE(imported_memory_is_used_in_place_and_released_once) {
  std::vector<float> data = {1, 2, 3};
  tolk_buffer_desc desc{};
  desc.struct_size = sizeof desc;
  desc.size = 12;
  int released = 0;
  tolk_buffer* buffer = nullptr;
  auto release = [](void* arg) { ++*static_cast<int*>(arg); };
  BOOST_CHECK_EQUAL(
      plugin().buffer->import_handle(device(), &desc, TOLK_HANDLE_DMA_BUF, 3, release, &released, &buffer),
      TOLK_E_UNSUPPORTED);
  BOOST_CHECK_EQUAL(released, 0);
  BOOST_REQUIRE_EQUAL(plugin().buffer->import_handle(device(), &desc, TOLK_HANDLE_HOST_POINTER,
                                                     reinterpret_cast<uint64_t>(data.data()), release,
                                                     &released, &buffer),
                      TOLK_OK);
  plugin().stream->fill(nullptr, {buffer, 4, 4}, 0x40a00000, 4);
  BOOST_CHECK_EQUAL(data[1], 5.0f);
  plugin().buffer->destroy(buffer);
  BOOST_CHECK_EQUAL(released, 1);
}

BOOST_AUTO_TEST_CASE(rejected_sources_come_back_with_the_reason) {
  std::string binary, log;
  BOOST_CHECK_EQUAL(compile_text("define void @k( {", "k", binary, log), TOLK_E_COMPILE);
  BOOST_CHECK_MESSAGE(log.find("error") != std::string::npos, log);
  BOOST_CHECK_EQUAL(compile_text("define void @k() {\n  ret i32 1\n}", "k", binary, log), TOLK_E_COMPILE);
  BOOST_CHECK(!log.empty());
  BOOST_CHECK_EQUAL(compile_text("define void @other() {\n  ret void\n}", "k", binary, log), TOLK_E_COMPILE);
  BOOST_CHECK_MESSAGE(log.find("no function is called k") != std::string::npos, log);
  const char* call =
      "declare void @system(ptr)\ndefine void @k(ptr %p) {\n  call void @system(ptr %p)\n  ret void\n}";
  BOOST_CHECK_EQUAL(compile_text(call, "k", binary, log), TOLK_E_COMPILE);
  BOOST_CHECK_MESSAGE(log.find("\"system\"") != std::string::npos, log);
  BOOST_CHECK_EQUAL(
      compile_text("@g = global i32 1\ndefine void @k() {\n  store i32 2, ptr @g\n  ret void\n}", "k", binary,
                   log),
      TOLK_E_COMPILE);
  BOOST_CHECK_EQUAL(compile_text("", "k", binary, log), TOLK_E_COMPILE);
  // A good kernel after all that.
  BOOST_CHECK_EQUAL(compile_text("define void @k() {\n  ret void\n}", "k", binary, log), TOLK_OK);
}

BOOST_AUTO_TEST_CASE(functions_of_the_runtime_are_reached_through_stubs) {
  std::string text = R"(declare float @fmaf(float, float, float)
declare double @trunc(double)
define void @k(ptr %bufs, ptr %vals, i64 %begin, i64 %end, ptr %scratch) #0 {
  %p = load ptr, ptr %bufs
  %a = load float, ptr %p
  %f = call float @fmaf(float %a, float %a, float 1.0)
  %d = fpext float %f to double
  %t = call double @trunc(double %d)
  %r = fptrunc double %t to float
  store float %r, ptr %p
  ret void
}
attributes #0 = { "no-builtins" }
)";
  std::string binary, log;
  BOOST_REQUIRE_EQUAL(compile_text(text, "k", binary, log), TOLK_OK);
  KernelBuilder b("k");
  b.buffer(DType::F32, true);
  std::string none;
  tolk_source source = source_for(none, b.kernel);
  tolk_program* program = nullptr;
  tolk_kernel* kernel = nullptr;
  BOOST_REQUIRE_EQUAL(plugin().program->load(device(), {binary.data(), binary.size()}, &source, &program),
                      TOLK_OK);
  BOOST_REQUIRE_EQUAL(plugin().program->get_kernel(program, "k", &kernel), TOLK_OK);
  tolk_buffer* data = make_buffer(4);
  float value = 2.5f;
  plugin().stream->copy_in(nullptr, {data, 0, 4}, &value, 0);
  tolk_ref ref = {data, 0, 4};
  tolk_launch launch{};
  launch.struct_size = sizeof launch;
  for (int i = 0; i < 3; ++i) launch.grid[i] = launch.local[i] = 1;
  launch.buffer_count = 1;
  launch.buffers = &ref;
  BOOST_CHECK_EQUAL(plugin().program->launch(nullptr, kernel, &launch), TOLK_OK);
  plugin().stream->copy_out(nullptr, &value, ref, 0);
  BOOST_CHECK_EQUAL(value, 7.0f); // trunc(2.5 * 2.5 + 1)
  plugin().buffer->destroy(data);
  plugin().program->unload(program);
}

BOOST_AUTO_TEST_CASE(damaged_binaries_are_refused) {
  KernelIR kernel = gated_copy();
  std::string binary = compile_kernel(kernel), none;
  tolk_source source = source_for(none, kernel);
  auto load = [&](const std::string& bytes) {
    tolk_program* program = nullptr;
    tolk_status status = plugin().program->load(device(), {bytes.data(), bytes.size()}, &source, &program);
    if (program) plugin().program->unload(program);
    return status;
  };
  BOOST_CHECK_EQUAL(load(binary), TOLK_OK);
  for (size_t size = 0; size < binary.size(); size += size < 200 ? 1 : 37)
    BOOST_CHECK_EQUAL(load(binary.substr(0, size)), TOLK_E_BAD_BINARY);
  BOOST_CHECK_EQUAL(load(binary + "x"), TOLK_E_BAD_BINARY);
  for (size_t bit = 0; bit < binary.size() * 8; bit += bit < 600 ? 1 : 11) {
    std::string changed = binary;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
    if (load(changed) != TOLK_E_BAD_BINARY) BOOST_ERROR("bit " << bit << " was flipped unnoticed");
  }
  BOOST_CHECK_EQUAL(plugin().program->load(device(), {nullptr, 0}, &source, nullptr), TOLK_E_BAD_BINARY);
}

BOOST_AUTO_TEST_CASE(launches_that_do_not_fit_the_kernel_are_refused) {
  LoadedKernel kernel(vector_add());
  std::vector<float> x(8), y(8), out(8);
  BOOST_CHECK_THROW(kernel.run({out, x}, 1), std::runtime_error);
  BOOST_CHECK_THROW(kernel.run({out, x, y}, 1, {1}), std::runtime_error);
  std::vector<uint8_t> bytes(40);
  std::span<uint8_t> odd =
      std::span(bytes).subspan(reinterpret_cast<uintptr_t>(bytes.data()) % 2 ? 0 : 1, 32);
  BOOST_CHECK_THROW(kernel.run({out, x, odd}, 1), std::runtime_error);
  tolk_kernel* other = nullptr;
  tolk_kernel_info info{};
  info.struct_size = sizeof info;
  BOOST_CHECK_EQUAL(plugin().program->kernel_info(kernel.handle(), &info), TOLK_OK);
  BOOST_CHECK_GT(info.code_bytes, 0u);
  BOOST_CHECK_EQUAL(info.max_local, 1u);
  (void)other;
}

BOOST_AUTO_TEST_CASE(machine_code_can_be_read) {
  std::string binary = compile_kernel(matmul_tile());
  tolk_blob* text = nullptr;
  BOOST_REQUIRE_EQUAL(plugin().program->disassemble(plugin().self, {binary.data(), binary.size()}, &text),
                      TOLK_OK);
  std::string code = take_blob(text);
  BOOST_CHECK(code.find("ret") != std::string::npos);
#if defined(__x86_64__)
  if (plugin().device && std::string(target().arch) != "x86-64-v2" &&
      std::string(target().arch) != "x86-64") {
    // The inner loop of the 4 x 16 tile: 8 fused multiply-adds, nothing on the stack.
    size_t count = 0;
    for (size_t at = code.find("vfmadd"); at != std::string::npos; at = code.find("vfmadd", at + 1)) ++count;
    BOOST_CHECK_EQUAL(count, 8u);
    size_t first = code.find("vfmadd"), last = code.rfind("vfmadd");
    BOOST_CHECK(code.substr(first, last - first).find("rsp") == std::string::npos);
  }
#endif
}

BOOST_AUTO_TEST_CASE(launches_from_several_threads_at_once_are_all_right) {
  LoadedKernel kernel(row_sum());
  std::atomic<int> wrong{0};
  auto work = [&](int salt) {
    constexpr size_t rows = 200;
    std::vector<float> x(rows * 32), out(rows);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>((i * 5 + static_cast<size_t>(salt)) % 17);
    for (int round = 0; round < 300; ++round) {
      std::fill(out.begin(), out.end(), -1.0f);
      kernel.run({out, x}, rows);
      for (size_t row = 0; row < rows; ++row) {
        float sum = 0;
        for (size_t i = 0; i < 32; ++i) sum += x[row * 32 + i];
        if (out[row] != sum) ++wrong;
      }
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
  BOOST_CHECK_EQUAL(wrong, 0);
}

BOOST_AUTO_TEST_CASE(compilations_from_several_threads_at_once_are_all_right) {
  std::string expected = compile_kernel(matmul_tile());
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int round = 0; round < 5; ++round) wrong += compile_kernel(matmul_tile()) != expected;
    });
  for (std::thread& thread : threads) thread.join();
  BOOST_CHECK_EQUAL(wrong, 0);
}

BOOST_AUTO_TEST_CASE(scratch_belongs_to_one_call_at_a_time) {
  LoadedKernel kernel(shared_transpose());
  constexpr size_t tiles = 3000;
  std::vector<int16_t> x(16 * tiles), out(x.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<int16_t>(i % 1001);
  for (int round = 0; round < 20; ++round) {
    std::fill(out.begin(), out.end(), int16_t{-1});
    kernel.run({out, x}, tiles);
    bool right = true;
    for (size_t tile = 0; tile < tiles; ++tile)
      for (size_t r = 0; r < 4; ++r)
        for (size_t c = 0; c < 4; ++c)
          right = right && out[tile * 16 + r * 4 + c] == x[tile * 16 + c * 4 + r];
    BOOST_CHECK(right);
  }
}

#if defined(__x86_64__)
BOOST_AUTO_TEST_CASE(subnormal_numbers_survive_a_caller_with_flush_to_zero) {
  unsigned saved = _mm_getcsr();
  KernelBuilder b("e_tiny");
  auto out = b.buffer(DType::F32, true), x = b.buffer(DType::F32, false), y = b.buffer(DType::F32, false);
  auto i = b.tile();
  auto v = b.load(x, i);
  b.store(out, i, b.mul(v, b.load(y, i)));
  LoadedKernel kernel(b.kernel); // compiled, and the pool's threads started, in this mode too
  for (uint32_t tiles : {1u, 1000u}) {
    std::vector<float> data(tiles, 1e-40f), one(tiles, 1.0f), result(tiles, -1.0f);
    _mm_setcsr(saved | 0x8040); // flush to zero, subnormals are zero
    kernel.run({result, data, one}, tiles);
    unsigned after = _mm_getcsr();
    _mm_setcsr(saved);
    BOOST_CHECK_EQUAL(after & 0x8040, 0x8040u); // the caller keeps its mode
    BOOST_CHECK(result == data);
  }
}
#endif

BOOST_AUTO_TEST_CASE(every_sample_kernel_compiles_and_loads) {
  size_t count = 0, bytes = 0;
  auto begin = std::chrono::steady_clock::now();
  for (const KernelIR& kernel : all_sample_kernels()) {
    if (kernel.name.ends_with("_1") && ++count % 4) continue; // vectors are the harder half
    std::string binary = compile_kernel(kernel), none;
    tolk_source source = source_for(none, kernel);
    tolk_program* program = nullptr;
    BOOST_CHECK_EQUAL(plugin().program->load(device(), {binary.data(), binary.size()}, &source, &program),
                      TOLK_OK);
    if (program) plugin().program->unload(program);
    bytes += binary.size();
  }
  std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
  BOOST_TEST_MESSAGE(bytes << " bytes of binaries in " << spent.count() << " s");
}

} // namespace
} // namespace tolk::test
