// The CPU plugin as a host sees it, with a host table of the smallest kind. One instance per test program.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <tolk/plugin/tolk_plugin.h>

#include "tolk/kernel/kernel_ir.h"

namespace tolk::test {

// Memory that ends at an unmapped page (or, with `at_start`, begins behind one): an access one byte beyond is
// a crash.
class GuardedBytes {
public:
  explicit GuardedBytes(size_t size, bool at_start = false);
  ~GuardedBytes();
  GuardedBytes(const GuardedBytes&) = delete;
  GuardedBytes& operator=(const GuardedBytes&) = delete;
  uint8_t* data() const { return data_; }
  size_t size() const { return size_; }
  template <class T> std::span<T> as() const { return {reinterpret_cast<T*>(data_), size_ / sizeof(T)}; }

private:
  uint8_t *map_, *data_;
  size_t size_, map_size_;
};

struct Bytes { // a kernel argument
  void* data;
  uint64_t size;
  template <class T> Bytes(std::vector<T>& v) : data(v.data()), size(v.size() * sizeof(T)) {}
  template <class T> Bytes(std::span<T> v) : data(v.data()), size(v.size_bytes()) {}
  Bytes(const GuardedBytes& g) : data(g.data()), size(g.size()) {}
};

// A loaded kernel with its parameters; unloads when it goes.
class LoadedKernel {
public:
  LoadedKernel(const KernelIR& kernel, bool may_alias = false);
  ~LoadedKernel();
  LoadedKernel(const LoadedKernel&) = delete;
  LoadedKernel& operator=(const LoadedKernel&) = delete;
  // Runs with arguments imported in place; throws std::runtime_error with the plugin's sentence.
  void run(std::initializer_list<Bytes> buffers, uint32_t tiles = 1,
           std::initializer_list<uint64_t> values = {}) const;
  tolk_kernel* handle() const { return kernel_; }

private:
  tolk_program* program_ = nullptr;
  tolk_kernel* kernel_ = nullptr;
};

const tolk_plugin& plugin();
// A copy of the plugin, loaded beside it for the rest of the process.
const tolk_plugin& open_copy(const std::string& file);
const tolk_target& target();
tolk_device* device();
// What set_error got last on this thread.
std::string last_error();
// Bytes of a blob, which is destroyed.
std::string take_blob(tolk_blob* blob);

tolk_source source_for(const std::string& text, const KernelIR& kernel);
// Compiles IR text; on failure `log` has LLVM's words.
tolk_status compile_text(const std::string& text, const char* entry, std::string& binary, std::string& log);
std::string compile_kernel(const KernelIR& kernel, bool may_alias = false);

} // namespace tolk::test
