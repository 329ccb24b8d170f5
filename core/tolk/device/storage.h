// One block of device memory behind a Buffer or a pool, and which submitted work touched it last.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <tolk/plugin/tolk_plugin.h>

namespace tolk {

class Device;
class Stream;

struct AllocationRequest {
  uint64_t bytes = 0;
  uint64_t align = 0; // of the first byte; 0: the device's
  uint32_t kind = TOLK_BUFFER_DEVICE;
  uint32_t usage = 0;
  bool zeroed = false;
  bool cached = true; // may come from the cache and go back to it
  int32_t pool = -1;  // the number to take; -1: the device's next
  std::string label;
};

// A point in the work of a stream: done when operation number `value` is. 0 is nothing.
struct Seq {
  Stream* stream = nullptr;
  uint64_t value = 0;
};

// Guarded by the submission lock of the storage's device.
struct UseState {
  Seq last_write;
  std::vector<Seq> reads; // since then; at most one for each stream
  bool empty() const { return last_write.value == 0 && reads.empty(); }
  void clear() {
    last_write = {};
    reads.clear();
  }
};

// A block. Belongs to the PoolTable of its device; the Allocator decides when it goes.
struct Storage {
  explicit Storage(Device& on) : device(on) {}

  Device& device;
  tolk_buffer* handle = nullptr;
  int32_t pool = 0;           // its number among the device's pools
  uint64_t shift = 0;         // where the first byte lies in the handle; 0 except with TOLK_TEST_SCATTER
  bool imported = false;      // the caller's memory, or another device's
  std::atomic<int> owners{1}; // the buffer or pool that it was made for, and buffers that lie in the pool
  AllocationRequest request;
  UseState uses;
  std::byte* host_pointer = nullptr; // what map gave for the first byte
  bool host_pointer_known = false;

  tolk_ref ref(uint64_t offset, uint64_t bytes) const { return {handle, shift + offset, bytes}; }
};

// What an operation does with a storage.
struct Use {
  Storage* storage;
  bool write;
};

} // namespace tolk
