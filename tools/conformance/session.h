// A plugin under test: loaded directly, without the device layer, with one open device and the helpers that cases share.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <tolk/plugin/tolk_plugin.h>

#include "tolk/kernel/kernel_ir.h"
#include "tolk/loader/plugin_host.h"
#include "tolk/loader/plugin_loader.h"

namespace conformance {

using Bytes = std::vector<uint8_t>;

// Owns one handle of the plugin.
template <class T> using Owned = std::unique_ptr<T, std::function<void(T*)>>;

// A loaded program and its kernel.
struct Loaded {
  Owned<tolk_program> program;
  tolk_kernel* kernel = nullptr;
};

class Session {
public:
  // Loads the file and calls its entry. Throws std::runtime_error with the reason when it is refused.
  Session(const std::string& path, std::string oracle_path, uint64_t seed);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const std::string& path() const { return path_; }
  const tolk::Plugin& plugin() const {
    return *plugin_;
  } // complete: entries that are NULL have the host's answer
  const tolk::PluginTables& raw() const { return raw_; } // as the plugin gave them
  const tolk_plugin* table() const { return table_; }    // the plugin's own
  tolk::HostContext& host() { return *plugin_->host; }
  uint64_t seed() const { return seed_; }

  void open(); // the device, once
  void close();
  tolk_device* device() const { return device_; }
  const tolk_caps& caps() const { return caps_; }
  tolk_device_info info() const;
  bool computes() const { return info().kind != TOLK_KIND_NULL; }
  const tolk_target& target() const { return targets_[target_]; }
  const std::vector<tolk_target>& targets() const { return targets_; }
  // The first capability of `needs` that is missing, or an empty text.
  std::string missing(uint32_t needs) const;
  // The reference: INTERP, opened at first use.
  Session& oracle();

  uint64_t guard() const; // an offset for refs that the device allows; 0 when refs have none
  tolk_stream* stream();  // one stream for the whole session; NULL on a synchronous device
  Owned<tolk_stream> new_stream(uint32_t flags = TOLK_STREAM_COMPUTE);
  Owned<tolk_event> new_event(uint32_t flags = 0);
  Owned<tolk_buffer> buffer(uint64_t size, uint32_t flags = 0, uint32_t kind = TOLK_BUFFER_DEVICE);
  tolk_status create(uint64_t size, uint32_t flags, uint32_t kind, uint64_t align, tolk_buffer** out);
  void write(tolk_ref to, const void* bytes, tolk_stream* stream = nullptr);
  Bytes read(tolk_ref from, tolk_stream* stream = nullptr);
  Bytes read(tolk_buffer* buffer, uint64_t size) { return read({buffer, 0, size}); }
  void sync(tolk_stream* stream = nullptr);

  tolk_status compile(const tolk::KernelIR& kernel, std::string& binary);
  tolk_status load(const tolk::KernelIR& kernel, const std::string& binary, tolk_program** out);
  Loaded kernel(const tolk::KernelIR& kernel); // compiled, loaded, looked up
  // On the session's stream unless another is given. Does not wait.
  void launch(tolk_kernel* kernel, std::vector<tolk_ref> refs, std::vector<uint64_t> values, uint32_t groups,
              tolk_stream* stream = nullptr);
  // Runs a kernel of (output, inputs...) on new buffers, each between guard bytes, and gives the output's bytes.
  Bytes run(const tolk::KernelIR& kernel, uint64_t out_size, const std::vector<Bytes>& inputs,
            uint32_t groups, const std::vector<uint64_t>& values = {});

private:
  std::string path_, oracle_path_;
  uint64_t seed_;
  std::unique_ptr<tolk::Plugin> plugin_;
  tolk::PluginTables raw_;
  const tolk_plugin* table_ = nullptr;
  tolk_device* device_ = nullptr;
  tolk_caps caps_{};
  std::vector<tolk_target> targets_;
  uint32_t target_ = 0;
  tolk_stream* stream_ = nullptr;
  std::unique_ptr<Session> oracle_;
};

// "the byte 17 is 0x05" for the first place where `found` differs from `wanted`; empty when they are equal.
std::string difference(const Bytes& wanted, const Bytes& found);
void expect_bytes(const Bytes& wanted, const Bytes& found, const std::string& what);
Bytes random_bytes(uint64_t size, uint64_t seed);

// The file of the plugin of this name among those that Tolk would find; empty when there is none.
std::string find_plugin(const std::string& name);

} // namespace conformance
