// The layer `validate`: what it knows of every live object, and one Call per call of the interface. See
// layer_rules.def for what is checked.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tolk/layers/layer.h"
#include "tolk/layers/layers.h"

namespace tolk::validating {

enum class Rule {
#define TOLK_LAYER_RULE(id, side, calls, sentence) id,
#include "tolk/layers/rules.def"
#undef TOLK_LAYER_RULE
};

struct Device {
  tolk_device* handle = nullptr;
  uint32_t index = 0;
  bool caps_known = false;
  const tolk_caps* caps_record = nullptr; // the plugin's
  tolk_caps caps{};                       // what it said first
  std::vector<tolk_target> targets;
  uint64_t children = 0;
  uint64_t last_clock = 0;
  bool lost = false;
  std::atomic<bool> busy{false}; // of the only stream, when there are no streams
};

// Work on a stream is numbered in order of submission; what is known to be complete is a prefix.
struct Stream {
  tolk_stream* handle = nullptr;
  std::shared_ptr<Device> device;
  uint64_t submitted = 0, completed = 0;
  struct Join { // from `at` on, the stream's work comes after that of another
    uint64_t at;
    std::shared_ptr<Stream> other;
    uint64_t position;
  };
  std::vector<Join> joins;
  std::atomic<bool> busy{false};
};

// Work up to `position` is complete, and so is what the stream waited for until then.
void complete(Stream& stream, uint64_t position);

struct Uses {
  std::vector<std::pair<std::shared_ptr<Stream>, uint64_t>> last; // per stream
  void add(const std::shared_ptr<Stream>& stream, uint64_t position);
  bool pending() const;
};

// Around the release function of imported memory, since a plugin may call it never, twice or too early.
struct Release {
  tolk_release_fn function = nullptr;
  void* arg = nullptr;
  std::atomic<int> calls{0};
  std::atomic<bool> importing{true};
};

struct Buffer {
  tolk_buffer* handle = nullptr;
  std::shared_ptr<Device> device;
  uint64_t size = 0;
  uint32_t kind = 0;
  bool kernel_writes = true, copies_write = true;
  std::multiset<void*> maps;
  std::shared_ptr<Buffer> origin; // of a peer mapping
  uint32_t peers = 0, graphs = 0;
  Release* release = nullptr;
  Uses uses;
};

struct Event {
  tolk_event* handle = nullptr;
  std::shared_ptr<Device> device;
  uint32_t flags = 0;
  std::shared_ptr<Stream> stream; // where it was recorded
  uint64_t position = 0;
  bool done() const { return !stream || stream->completed >= position; }
};

struct Program {
  tolk_program* handle = nullptr;
  std::shared_ptr<Device> device;
  std::vector<tolk_param> params;
  uint32_t buffers = 0, values = 0, flags = 0;
  uint32_t local[3] = {};
  std::string entry;
  std::map<std::string, tolk_kernel*, std::less<>> kernels;
  uint32_t graphs = 0;
  Uses uses;
};

struct Kernel {
  tolk_kernel* handle = nullptr;
  std::shared_ptr<Program> program;
};

struct Graph {
  struct Node {
    enum { Kernel, Copy, Fill } kind;
    uint32_t device;
    std::shared_ptr<Program> program;
    std::vector<std::shared_ptr<Buffer>> buffers;
  };
  tolk_graph* handle = nullptr;
  std::vector<std::shared_ptr<Device>> devices;
  uint32_t flags = 0;
  std::vector<Node> nodes;
  bool committed = false;
  uint64_t launches = 0;
  Uses uses;
  std::atomic<bool> busy{false};
};

// Live objects of one kind by the plugin's handle, and the handles that died and did not come back.
template <typename H, typename S> struct Handles {
  std::unordered_map<const H*, std::shared_ptr<S>> live;
  std::unordered_set<const H*> dead;

  bool add(const H* handle, std::shared_ptr<S> state) {
    dead.erase(handle);
    return live.emplace(handle, std::move(state)).second;
  }
  void remove(const H* handle) {
    live.erase(handle);
    dead.insert(handle);
  }
};

class ValidateLayer;

// Marks a stream or a graph as used by this thread for as long as it lives, and keeps it: the call may destroy it.
class InUse {
public:
  InUse() = default;
  ~InUse() {
    if (flag_) flag_->store(false);
  }
  InUse(const InUse&) = delete;
  InUse& operator=(const InUse&) = delete;
  bool enter(std::atomic<bool>& flag, std::shared_ptr<const void> owner = nullptr) {
    if (flag.exchange(true)) return false;
    flag_ = &flag, owner_ = std::move(owner);
    return true;
  }

private:
  std::shared_ptr<const void> owner_;
  std::atomic<bool>* flag_ = nullptr;
};

enum Expect : uint32_t { Mandatory = 1, MayBeNotReady = 2, MayTimeOut = 4, Submits = 8, Quiet = 16 };

// What a wait may answer besides success and errors.
constexpr uint32_t limit(uint64_t timeout_ns) {
  return timeout_ns == TOLK_FOREVER ? 0 : MayTimeOut | MayBeNotReady;
}

// One call of the interface. Holds the layer's lock while it checks, and gives it up around the plugin's own
// function. After the first broken rule the call is over: `refuse` reports it to the caller.
class Call {
public:
  Call(ValidateLayer& layer, const char* name);

  bool ok() const { return !failed_; }
  // Reports the rule unless `holds` or one was reported before. Returns whether all is well so far.
  bool need(bool holds, Rule rule, const std::string& detail = {});
  void fail(Rule rule, const std::string& detail = {}) { need(false, rule, detail); }
  // Logs a plugin's lapse that changes nothing.
  void hint(Rule rule, const std::string& detail = {});

  template <typename H, typename S>
  std::shared_ptr<S> find(Handles<H, S>& handles, const H* handle, const char* what) {
    if (!ok()) return nullptr;
    if (auto it = handles.live.find(handle); it != handles.live.end()) return it->second;
    if (!handle)
      fail(Rule::handle_null, std::string(what) + " is NULL");
    else
      fail(handles.dead.contains(handle) ? Rule::handle_destroyed : Rule::handle_unknown,
           std::string(what) + " " + address(handle));
    return nullptr;
  }
  static std::string address(const void* pointer);

  // Calls the plugin and checks what every status has to keep.
  template <typename F> tolk_status forward(Device* device, uint32_t expect, F&& function) {
    tolk_status status = TOLK_E_INTERNAL;
    before(device, !(expect & Quiet));
    try {
      status = function();
    } catch (...) {
      threw_ = true;
    }
    return after(device, expect, status);
  }
  template <typename F> void forward_void(F&& function) {
    before(nullptr, false);
    try {
      function();
    } catch (...) {
      threw_ = true;
    }
    after(nullptr, Quiet, TOLK_OK);
  }
  // The status that the caller gets: that of the plugin, or what stands for the broken rule.
  tolk_status result(tolk_status status) const;
  tolk_status refuse() const { return result(TOLK_E_INVALID); }

private:
  // `forget`: an older sentence must not stand for one that this call owes.
  void before(Device* device, bool forget);
  tolk_status after(Device* device, uint32_t expect, tolk_status status);
  void report(Rule rule, const std::string& detail);

  ValidateLayer& layer_;
  const char* name_;
  std::unique_lock<std::mutex> lock_;
  bool failed_ = false, threw_ = false, was_lost_ = false;
  LayerSide side_ = LayerSide::Host;
  std::string text_;
  uint32_t float_mode_ = 0;
};

class ValidateLayer : public Layer {
public:
  explicit ValidateLayer(const LayerSubject& subject) : subject_(subject) {}

#define TOLK_ENTRY(table, slot, entry, need, since, otherwise, result, parameters, arguments)                \
  result table##_##entry parameters override;
#include <tolk/plugin/entries.def>
#undef TOLK_ENTRY

  const LayerSubject& subject() const { return subject_; }

private:
  friend class Call;
  using DeviceRef = std::shared_ptr<Device>;
  using StreamRef = std::shared_ptr<Stream>;
  using BufferRef = std::shared_ptr<Buffer>;

  // layer_validate.cpp
  void check_caps(Call& call, Device& device, const tolk_caps* record);

  // layer_validate_memory.cpp
  BufferRef check_ref(Call& call, tolk_ref ref, const char* what);
  void check_desc(Call& call, const Device& device, const tolk_buffer_desc* desc, const void* out);
  tolk_status adopt_buffer(Call& call, tolk_status status, BufferRef buffer, tolk_buffer* const* out);

  // layer_validate_stream.cpp
  // The stream of a copy or launch on `device`; null on devices without streams. Enters it in `use`.
  StreamRef check_stream(Call& call, InUse& use, tolk_stream* stream, const Device& device, Device& only);
  void check_copy(Call& call, const Buffer& buffer, tolk_ref ref, const char* what, bool writes);
  void check_pair(Call& call, tolk_ref dst, tolk_ref src);
  void check_fill(Call& call, tolk_ref dst, uint32_t pattern_bytes);
  void complete_device(const Device& device);
  uint64_t submit(const StreamRef& stream, std::initializer_list<Uses*> uses);

  // layer_validate_program.cpp
  void check_source(Call& call, const tolk_source* source);
  // Checks arguments and fills `buffers` with what the launch uses.
  void check_launch(Call& call, const Kernel& kernel, const tolk_launch* launch,
                    std::vector<BufferRef>& buffers);
  void check_sizes(Call& call, const Program& program, const uint32_t grid[3], const uint32_t local[3]);
  BufferRef check_argument(Call& call, const Program& program, uint32_t index, tolk_ref ref);
  void check_value(Call& call, const Program& program, uint32_t index, uint64_t value);
  tolk_status take_blobs(Call& call, tolk_status status, std::initializer_list<tolk_blob**> blobs);

  // layer_validate_graph.cpp
  std::shared_ptr<Graph> enter_graph(Call& call, InUse& use, tolk_graph* graph);
  void check_node(Call& call, const Graph& graph, uint32_t device, uint32_t needs, const uint32_t* after,
                  uint32_t after_count);
  static void hold(Graph::Node& node, int by);
  void check_patch(Call& call, const Graph& graph, const tolk_patch& patch, BufferRef& buffer);

  LayerSubject subject_;
  std::mutex mutex_; // over everything below and the states
  bool shut_down_ = false, count_known_ = false;
  uint32_t count_ = 0;
  Handles<tolk_device, Device> devices_;
  Handles<tolk_stream, Stream> streams_;
  Handles<tolk_buffer, Buffer> buffers_;
  Handles<tolk_event, Event> events_;
  Handles<tolk_program, Program> programs_;
  Handles<tolk_kernel, Kernel> kernels_;
  Handles<tolk_graph, Graph> graphs_;
  std::deque<Release> releases_; // of imported memory; a plugin may still call them after the buffer's end
};

} // namespace tolk::validating
