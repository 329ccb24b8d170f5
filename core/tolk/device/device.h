// An open device: what it can do, its memory, and the way from a kernel's source to a Program.
//
// A Device is made by device(name) in registry.h and lives to the end of the process; after shutdown_devices
// it is not alive() and refuses everything. All members may be called from any thread: a device has one
// in-order queue, and one lock orders what is submitted to it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tolk/plugin/tolk_plugin.h>

#include "tolk/base/api.h"

namespace tolk {

class Allocator;
class EventPool;
class PoolTable;
class Program;
class Stream;
using ProgramRef = std::shared_ptr<Program>;
struct Plugin;

// A kernel as its renderer made it. `text` and `ir` are borrowed for the call that takes the source.
struct KernelSource {
  uint32_t target_index = 0;          // into Device::targets()
  std::string_view text;              // for every kind of target but KERNEL_IR
  const tolk_kernel_ir* ir = nullptr; // for KERNEL_IR
  std::string entry;                  // function name
  std::string options;                // opaque to the host
  std::vector<tolk_param> params;     // buffers first, then values
  uint32_t flags = 0;                 // TOLK_SOURCE_*
  std::array<uint32_t, 3> local = {1, 1, 1};
  uint64_t shared_bytes = 0;
};

struct CompiledKernel {
  std::string bytes; // opaque; may be kept on disk under Device::compiler_key() and the source
  std::string log;   // the compiler's remarks, usually empty
};

// Memory that tolk holds on a device.
struct DeviceMemory {
  uint64_t live_bytes = 0; // of buffers in use
  uint64_t live_count = 0;
  uint64_t peak_bytes = 0;   // largest live_bytes so far
  uint64_t cached_bytes = 0; // freed, kept for reuse
  tolk_memory driver{};      // the plugin's own figures; zero when it has none
};

class TOLK_API Device {
public:
  // For the registry. Throws DeviceError when the plugin cannot open it or states impossible capabilities.
  Device(Plugin& plugin, uint32_t index, std::string name);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const std::string& name() const { return name_; } // canonical: "CPU", "HIP:1"
  uint32_t id() const { return id_; }               // unique in the process
  uint32_t index() const { return index_; }
  // "<plugin>:<index>:<id>": tells devices apart that are the same hardware.
  std::string get_name() const;
  Plugin& plugin() const { return plugin_; }
  bool is_host() const { return is_host_; } // the built-in HOST: plain bytes, runs nothing
  const tolk_device_info& info() const { return info_; }
  // Full size, alignments at least 1, `targets` densely packed. Valid for the device's life.
  const tolk_caps& caps() const { return caps_; }
  std::span<const tolk_target> targets() const { return targets_; }
  // Name for TARGET= and for cache keys: kernel-ir, llvm-ir, spirv, native, or the dialect of source text.
  static std::string target_name(const tolk_target& target);
  // Index of the target that TARGET= names, the first when it names none. Throws DeviceError that lists what
  // there is.
  uint32_t target_index() const;
  // Text that changes whenever compiled kernels of this device could differ: plugin, version, compiler,
  // target's arch.
  std::string compiler_key(uint32_t target_index) const;

  // Needs no lock of the device. Throws CompileError with kernel name and log. For a LOAD_DIRECT target the
  // result is the text itself, and empty for kernel IR, whose `load` reads source.ir.
  CompiledKernel compile(const KernelSource& source);
  // Makes a kernel ready to launch; `binary` is what compile gave, perhaps earlier, and `source.text` is not needed. Throws FormatError for a
  // binary that the plugin does not accept (compile again), DeviceError otherwise.
  ProgramRef load(const KernelSource& source, std::string_view binary);
  ProgramRef build(const KernelSource& source) { return load(source, compile(source).bytes); }

  // The queue of kernels, and the one of copies beside them; null where the device has none.
  Stream& compute() const { return *compute_; }
  Stream* copy() const { return copy_.get(); }
  // Memory by numbers; see pools.h.
  PoolTable& pools() const { return *pools_; }

  // Blocks until all submitted work is done; throws the error of failed asynchronous work.
  void synchronize();
  bool is_idle(); // never blocks
  DeviceMemory memory() const;
  // Gives cached buffers back to the plugin.
  void trim();
  // Asks the plugin to empty data caches, for timing.
  void flush_caches();

  // False before opening ended, after shutdown and in a forked child: then nothing of the plugin may be
  // called.
  bool alive() const;
  // Throws DeviceError when the device was shut down, lost, or the process is a forked child.
  void require_usable() const;

  // --- for this layer ---
  Allocator& allocator() { return *allocator_; }
  EventPool& events() { return *events_; }
  tolk_device* handle() const { return handle_; }
  tolk_stream* stream() const;                         // of compute(); null on synchronous devices
  std::mutex& submit_mutex() { return submit_mutex_; } // ordered before no other lock of tolk
  // Throws as throw_status does; remembers the loss of the device.
  void check(tolk_status status, std::string_view doing) {
    if (status < 0) [[unlikely]]
      fail(status, doing);
  }
  void note_lost(); // asks the plugin why; nothing works afterwards
  void adopt(const ProgramRef& program);
  void settle(); // waits for all work; what failed stays with its stream
  void close();  // see shutdown_devices

private:
  [[noreturn]] void fail(tolk_status status, std::string_view doing);
  void read_caps();
  void make_streams();

  Plugin& plugin_;
  uint32_t index_, id_;
  std::string name_, lost_reason_;
  bool is_host_ = false;
  tolk_device* handle_ = nullptr;
  tolk_device_info info_{};
  tolk_caps caps_{};
  std::vector<tolk_target> targets_;
  std::vector<const tolk_target*> plugin_targets_; // the plugin's own records, for compile
  std::vector<tolk_tensor_core> tensor_cores_;
  std::unique_ptr<Stream> compute_, copy_;
  std::unique_ptr<EventPool> events_;
  std::unique_ptr<PoolTable> pools_;
  std::unique_ptr<Allocator> allocator_;
  std::mutex submit_mutex_;
  std::mutex programs_mutex_;
  std::vector<std::weak_ptr<Program>> programs_;
  std::atomic<bool> alive_{false}, lost_{false};
};

// Two objects are the same device when their numbers agree.
inline bool operator==(const Device& a, const Device& b) { return a.id() == b.id(); }
// A line for logs: name, index and number.
TOLK_API std::string describe(const Device& device);

} // namespace tolk
