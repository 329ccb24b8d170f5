// The file of TOLK_LAYERS=record=FILE: a head, then records of one call or one block of data each.
//
//   "TOLKREC" 1 | record ... | record End
//   record: length of the payload (4 bytes) | kind (1) | payload | check (4), all little-endian
//
// Payloads have the varints of base/packed.h. Objects are numbered as they are made, all kinds together, from 1;
// 0 is NULL.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <tolk/plugin/tolk_plugin.h>

#include "tolk/base/hash.h"
#include "tolk/base/packed.h"

namespace tolk::recording {

constexpr std::string_view kHead{"TOLKREC\1", 8};

enum class Kind : uint8_t {
  Plugin = 1, // number, name, version
  Data,       // number, bytes
  DeviceOpen,
  DeviceClose,
  DeviceSynchronize,
  BufferCreate,
  BufferDestroy,
  PeerMap,
  HostWrite, // the host changed mapped or imported memory
  Expect,    // bytes that the device left in such memory
  CopyIn,
  CopyOut,
  Copy,
  Fill,
  StreamCreate,
  StreamDestroy,
  StreamSynchronize,
  StreamWait,
  EventCreate,
  EventRecord,
  EventSync,
  EventDestroy,
  ProgramLoad,
  ProgramUnload,
  GetKernel,
  Launch,
  GraphCreate,
  GraphKernel,
  GraphCopy,
  GraphFill,
  GraphCommit,
  GraphUpdate,
  GraphLaunch,
  GraphDestroy,
  End // number of records before it
};

// What is recorded of a launch; handles are object numbers.
struct Ref {
  uint64_t buffer = 0, offset = 0, size = 0;
};
struct LaunchData {
  uint64_t flags = 0, shared_bytes = 0;
  uint32_t grid[3] = {}, local[3] = {};
  std::vector<Ref> buffers;
  std::vector<uint64_t> values;
};

class Payload {
public:
  Payload& number(uint64_t n) {
    out_.number(static_cast<int64_t>(n));
    return *this;
  }
  Payload& text(std::string_view t) {
    out_.text(t);
    return *this;
  }
  Payload& ref(const Ref& r) { return number(r.buffer).number(r.offset).number(r.size); }
  Payload& key(const ContentKey& k) { return number(k.high).number(k.low); }
  Payload& sizes(const uint32_t n[3]) { return number(n[0]).number(n[1]).number(n[2]); }
  template <typename T> Payload& raw(const T* first, size_t count) {
    return text({reinterpret_cast<const char*>(first), count * sizeof(T)});
  }
  const std::string& bytes() const { return out_.bytes(); }

private:
  PackWriter out_{PackNumbers::Varint};
};

inline uint32_t check_of(Kind kind, std::string_view payload) {
  return static_cast<uint32_t>(combine64(hash64(payload), static_cast<uint64_t>(kind)));
}

// A live kernel as bytes, and back; the first gives an empty text for a kernel of another version.
std::string kernel_bytes(const tolk_kernel_ir& ir);

} // namespace tolk::recording
