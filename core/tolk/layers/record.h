// The layer `record`: calls that succeeded, in the order in which the plugin saw them, with the data that
// they need. Calls are held one at a time, except waits; copies in the background become blocking ones, so
// that their bytes are known when they are recorded.
#pragma once

#include <map>
#include <unordered_map>

#include "tolk/base/private_file.h"
#include "tolk/layers/recording.h"
#include "tolk/layers/validate.h"

namespace tolk::recording {

class Recorder {
public:
  explicit Recorder(std::string path) : path_(std::move(path)), file_(private_file(path_)) {
    file_.write(kHead.data(), static_cast<std::streamsize>(kHead.size()));
    file_.flush();
  }
  bool good() const { return file_.good(); }

  std::recursive_mutex mutex; // held around recorded calls
  uint32_t users = 0;         // plugins that were not shut down

  void write(Kind kind, const Payload& payload);
  // Number of a block of bytes, which is stored once.
  uint64_t data(std::string_view bytes) {
    auto [it, fresh] = blocks_.try_emplace(content_key(bytes), blocks_.size() + 1);
    // A record has at most 4 GiB; longer blocks cannot be told from damage.
    if (fresh) write(Kind::Data, Payload().number(it->second).text(bytes));
    return it->second;
  }
  uint64_t object() { return ++objects_; }
  uint64_t plugin(const std::string& name) {
    write(Kind::Plugin, Payload().number(++plugins_).text(name));
    return plugins_;
  }
  void end() {
    std::lock_guard lock(mutex);
    write(Kind::End, Payload().number(records_));
    ended_ = true;
    file_.close();
  }
  bool ended() const { return ended_; }

private:
  std::string path_;
  std::ofstream file_;
  uint64_t records_ = 0, objects_ = 0, plugins_ = 0;
  std::map<ContentKey, uint64_t> blocks_;
  bool ended_ = false;
};

// The recorder of a file; starts the file when it is the first, or the one before has ended.
std::shared_ptr<Recorder> recorder(const std::string& path);

using validating::Stream;
using validating::Uses;
using StreamRef = std::shared_ptr<Stream>;

// Memory of a buffer that the host sees.
struct Window {
  const char* bytes;
  uint64_t offset, size;
  bool imported;
  ContentKey known{}; // of its bytes when they were last looked at
  bool seen = false;
};

struct Memory {
  uint64_t size = 0;
  std::vector<Window> windows;
  Uses writes; // by the device, on streams
  bool dirty = false;
};

struct Buffer {
  uint64_t number;
  std::shared_ptr<Memory> memory;
};

class RecordLayer : public Layer {
public:
  RecordLayer(const LayerSubject& subject, const std::string& place) : r_(recorder(place)) {
    std::lock_guard lock(r_->mutex);
    r_->users++;
    plugin_ = r_->plugin(subject.name);
  }

  tolk_status plugin_device_open(void* self, uint32_t index, tolk_device** out) override;
  void plugin_shutdown(void* self) override;
  void device_close(tolk_device* device) override;
  tolk_status device_caps(tolk_device* device, const tolk_caps** out) override;
  tolk_status device_synchronize(tolk_device* device, uint64_t timeout_ns) override;
  tolk_status buffer_create(tolk_device* device, const tolk_buffer_desc* desc, tolk_buffer** out) override;
  void buffer_destroy(tolk_buffer* buffer) override;
  tolk_status buffer_map(tolk_buffer* buffer, uint64_t offset, uint64_t size, uint32_t access,
                         void** out) override;
  tolk_status buffer_unmap(tolk_buffer* buffer, void* pointer) override;
  tolk_status buffer_import_handle(tolk_device* device, const tolk_buffer_desc* desc, uint32_t type,
                                   uint64_t value, tolk_release_fn release, void* arg,
                                   tolk_buffer** out) override;
  tolk_status buffer_peer_map(tolk_buffer* buffer, tolk_device* other, tolk_buffer** out) override;
  tolk_status stream_copy_in(tolk_stream* stream, tolk_ref dst, const void* src, uint32_t flags) override;
  tolk_status stream_copy_out(tolk_stream* stream, void* dst, tolk_ref src, uint32_t flags) override;
  tolk_status stream_copy(tolk_stream* stream, tolk_ref dst, tolk_ref src) override;
  tolk_status stream_fill(tolk_stream* stream, tolk_ref dst, uint64_t pattern,
                          uint32_t pattern_bytes) override;
  tolk_status stream_create(tolk_device* device, uint32_t flags, tolk_stream** out) override;
  void stream_destroy(tolk_stream* stream) override;
  tolk_status stream_synchronize(tolk_stream* stream, uint64_t timeout_ns) override;
  tolk_status stream_wait(tolk_stream* stream, tolk_event* event) override;
  tolk_status stream_event_create(tolk_device* device, uint32_t flags, tolk_event** out) override;
  tolk_status stream_event_record(tolk_event* event, tolk_stream* stream) override;
  tolk_status stream_event_query(tolk_event* event) override;
  tolk_status stream_event_sync(tolk_event* event, uint64_t timeout_ns) override;
  void stream_event_destroy(tolk_event* event) override;
  tolk_status program_load(tolk_device* device, tolk_bytes binary, const tolk_source* source,
                           tolk_program** out) override;
  void program_unload(tolk_program* program) override;
  tolk_status program_get_kernel(tolk_program* program, const char* name, tolk_kernel** out) override;
  tolk_status program_launch(tolk_stream* stream, tolk_kernel* kernel, const tolk_launch* launch) override;
  tolk_status graph_create(tolk_device* const* devices, uint32_t count, uint32_t flags,
                           tolk_graph** out) override;
  tolk_status graph_add_kernel(tolk_graph* graph, uint32_t device, tolk_kernel* kernel,
                               const tolk_launch* launch, const uint32_t* after,
                               uint32_t after_count) override;
  tolk_status graph_add_copy(tolk_graph* graph, uint32_t device, tolk_ref dst, tolk_ref src,
                             const uint32_t* after, uint32_t after_count) override;
  tolk_status graph_add_fill(tolk_graph* graph, uint32_t device, tolk_ref dst, uint64_t pattern,
                             uint32_t pattern_bytes, const uint32_t* after, uint32_t after_count) override;
  tolk_status graph_commit(tolk_graph* graph) override;
  tolk_status graph_update(tolk_graph* graph, const tolk_patch* patches, uint32_t patch_count) override;
  tolk_status graph_launch(tolk_graph* graph, tolk_stream* const* streams, uint64_t* device_ns) override;
  void graph_destroy(tolk_graph* graph) override;

private:
  struct DeviceState {
    uint64_t number = 0;
    std::shared_ptr<validating::Device> progress = std::make_shared<validating::Device>();
    std::vector<uint32_t> target_kinds, target_flags;
  };
  struct EventState {
    uint64_t number;
    StreamRef stream;
    uint64_t position = 0;
  };
  struct StreamState {
    uint64_t number;
    StreamRef progress;
  };
  struct ProgramState {
    uint64_t number;
    std::vector<tolk_param> params;
  };
  struct KernelState {
    uint64_t number;
    tolk_program* program;
    std::vector<tolk_param> params;
  };
  struct Node {
    std::vector<tolk_ref> refs;     // what the node touches
    std::vector<tolk_param> params; // of a kernel
    uint32_t device;
  };
  struct GraphState {
    uint64_t number;
    uint32_t devices;
    std::vector<Node> nodes;
  };

  std::unique_lock<std::recursive_mutex> hold() { return std::unique_lock(r_->mutex); }
  Payload call() { return std::move(Payload().number(plugin_)); }
  template <typename Map, typename H> static uint64_t number(Map& map, const H* handle) {
    auto it = map.find(handle);
    return it == map.end() ? 0 : it->second.number;
  }
  Ref ref(const tolk_ref& r) { return {number(buffers_, r.buffer), r.offset, r.size}; }
  StreamRef progress(tolk_stream* stream) {
    auto it = streams_.find(stream);
    return it == streams_.end() ? nullptr : it->second.progress;
  }
  // Calls `note` when a call with this answer is to be recorded: it succeeded, on a stream and an event that are known.
  template <typename F>
  tolk_status noted(tolk_status status, tolk_stream* stream, tolk_event* event, const F& note) {
    StreamRef s = progress(stream);
    auto e = events_.find(event);
    if (status == TOLK_OK && s && e != events_.end()) note(s, e->second);
    return status;
  }
  Payload& put_launch(Payload& p, const tolk_launch& launch);
  static void put_list(Payload& p, const uint32_t* first, uint32_t count) {
    p.number(count);
    for (uint32_t i = 0; i < count; i++) p.number(first[i]);
  }

  // Before a call that reads or writes the buffer: what the host wrote into memory that it sees.
  void look(tolk_buffer* buffer);
  // After a call in which the device wrote.
  void wrote(tolk_buffer* buffer, const StreamRef& stream, uint64_t position);
  void settle(uint64_t number, Memory& memory, bool expect);
  // Work was completed: memory that it wrote can be looked at.
  void settle_all();
  void complete(const StreamRef& stream, uint64_t position);
  void adopt(tolk_buffer* handle, uint64_t number, std::shared_ptr<Memory> memory) {
    buffers_.insert_or_assign(handle, Buffer{number, std::move(memory)});
  }

  std::shared_ptr<Recorder> r_;
  uint64_t plugin_ = 0;
  std::unordered_map<const tolk_device*, DeviceState> devices_;
  std::unordered_map<const tolk_buffer*, Buffer> buffers_;
  std::unordered_map<const tolk_stream*, StreamState> streams_;
  std::unordered_map<const tolk_event*, EventState> events_;
  std::unordered_map<const tolk_program*, ProgramState> programs_;
  std::unordered_map<const tolk_kernel*, KernelState> kernels_;
  std::unordered_map<const tolk_graph*, GraphState> graphs_;
};

} // namespace tolk::recording
