// What the plugin's files share: the host's table, the objects behind the handles, and the functions of the
// tables.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include <tolk/plugin/tolk_plugin.h>

#include "elf_image.h"
#include "worker_pool.h"

struct tolk_device {
  uint32_t index;
  std::mutex mutex = {}; // streams
  std::vector<tolk_stream*> streams = {};
};

struct tolk_buffer {
  uint8_t* data;
  uint64_t size;
  enum class Owner { Host, Outside, Nobody } owner; // who gives the memory back
  tolk_release_fn release;                          // Outside: may be null
  void* release_arg;
};

struct tolk_kernel {
  std::string name;
  tolk_cpu_kernel function;
  const tolk_program* program;
};

struct tolk_program {
  std::unique_ptr<tolk_cpu::ElfImage> image;
  std::vector<std::unique_ptr<tolk_kernel>> kernels; // filled by get_kernel under `lock`
  std::mutex lock;
  uint32_t buffer_count, value_count;
  std::vector<uint8_t> align; // by buffer: alignment of its dtype
  uint64_t scratch_bytes;
};

namespace tolk_cpu {

extern const tolk_host* host;

// Records the sentence with the host and gives the code back.
tolk_status fail(tolk_status code, const std::string& text);

// No exception leaves the plugin. `body` returns a tolk_status.
template <class Body> tolk_status guarded(Body body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return fail(TOLK_E_HOST_OOM, "host memory is exhausted");
  } catch (const std::exception& error) {
    return fail(TOLK_E_INTERNAL, error.what());
  }
}

// Threads that a launch uses, the caller included: the option "threads", else one per core.
uint32_t thread_count();
// The option "streams": whether devices have queues. Off by default.
bool has_streams();
// The pool, made at the first call.
WorkerPool& worker_pool();
void join_workers();

// Text that changes with LLVM, the processor and the passes.
const char* compiler_id();

struct MemoryUse {
  std::atomic<uint64_t> bytes{0}, peak{0}, buffers{0};
};
extern MemoryUse memory_use;

extern const tolk_device_vt device_table;
extern const tolk_buffer_vt buffer_table;
const tolk_stream_vt& stream_table();
void add_streams(tolk_stream_vt& table); // stream.cpp
extern const tolk_program_vt program_table;
extern const tolk_graph_vt graph_table;
const tolk_device_info& device_info();

} // namespace tolk_cpu
