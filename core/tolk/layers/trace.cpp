// The layer `trace`: a line per call, with thread, plugin, arguments, what came back, and how long it took.
//
//   tolk: trace: [1] CPU buffer.create(device=d1, desc={device, 4096 bytes, usage 15}) -> OK, b7  1834 ns
//
// Handles read as a letter and a number in order of appearance, so two runs of a program give the
// same trace except for times and addresses.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <type_traits>

#include "tolk/base/error.h"
#include "tolk/base/log.h"
#include "tolk/dtype/dtype.h"
#include "tolk/layers/layer.h"
#include "tolk/layers/layers.h"
#include "tolk/loader/status.h"

namespace tolk {
namespace {

struct Output {
  std::mutex mutex;
  std::ofstream file; // closed: standard error
  bool failed = false;
};

// By place; never freed, since plugins may be called until the process ends.
Output& output(const std::string& place) {
  static auto* mutex = new std::mutex;
  static auto* all = new std::map<std::string, std::unique_ptr<Output>>;
  std::lock_guard lock(*mutex);
  auto& slot = (*all)[place];
  if (!slot) {
    auto made = std::make_unique<Output>();
    if (!place.empty()) {
      made->file.open(place, std::ios::out | std::ios::trunc);
      if (!made->file) {
        all->erase(place);
        throw DeviceError("TOLK_LAYERS=trace=" + place + ": the file cannot be written; name another one");
      }
    }
    slot = std::move(made);
  }
  return *slot;
}

uint32_t thread_number() {
  static std::atomic<uint32_t> next{1};
  static thread_local uint32_t mine = next++;
  return mine;
}

class TraceLayer;

const void* address_of(uint64_t value) {
  const void* pointer = nullptr;
  std::memcpy(static_cast<void*>(&pointer), &value, sizeof pointer);
  return pointer;
}

// Builds one line.
class Line {
public:
  Line(TraceLayer& layer, const char* call);
  template <typename T> Line& arg(const char* name, const T& value) {
    text_ += (first_ ? "" : ", ") + std::string(name) + "=";
    first_ = false;
    put(value);
    return *this;
  }
  void begin() {
    text_ += ")";
    start_ = std::chrono::steady_clock::now();
  }
  void end() {
    auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start_);
    took_ = std::to_string(ns.count());
  }
  template <typename... Results> void status(tolk_status status, const Results&... results) {
    text_ += std::string(" -> ") + (status_name(status) + 5); // without TOLK_
    if (status == TOLK_OK) ((text_ += ", ", put(results)), ...);
  }
  void write();

private:
  void put(const char* text) { text_ += text ? "\"" + std::string(text) + "\"" : "NULL"; }
  template <typename T>
    requires std::is_integral_v<T>
  void put(T number) {
    text_ += static_cast<uint64_t>(number) == TOLK_FOREVER ? "forever" : std::to_string(number);
  }
  void put(const void* pointer) {
    static constexpr char kDigits[] = "0123456789abcdef";
    std::string hex;
    for (auto bits = reinterpret_cast<uintptr_t>(pointer); bits != 0; bits >>= 4)
      hex.insert(hex.begin(), kDigits[bits & 15]);
    text_ += pointer ? "0x" + hex : "NULL";
  }
  void put(tolk_device* h) { handle('d', h); }
  void put(tolk_buffer* h) { handle('b', h); }
  void put(tolk_stream* h) { handle('s', h); }
  void put(tolk_event* h) { handle('e', h); }
  void put(tolk_program* h) { handle('p', h); }
  void put(tolk_kernel* h) { handle('k', h); }
  void put(tolk_graph* h) { handle('g', h); }
  void put(const tolk_ref& r) {
    put(r.buffer);
    text_ += "[" + std::to_string(r.offset) + ".." + std::to_string(r.offset + r.size) + "]";
  }
  void put(const tolk_bytes& b) { text_ += std::to_string(b.size) + " bytes"; }
  void put(const tolk_buffer_desc* d);
  void put(const tolk_target* t);
  void put(const tolk_source* s);
  void put(const tolk_launch* l);
  void put(const tolk_patch& p);
  void put(const tolk_device_info* i) { put(i ? i->name : nullptr); }
  void put(const tolk_caps* c) {
    text_ += c ? std::to_string(c->target_count) + " targets, flags " + std::to_string(c->flags) : "NULL";
  }
  void put(const tolk_memory& m) {
    text_ += std::to_string(m.used_bytes) + " bytes used, " + std::to_string(m.free_bytes) + " free";
  }
  template <typename T> struct Array {
    const T* first;
    uint64_t count;
  };
  template <typename T> void put(const Array<T>& array) {
    text_ += "[";
    for (uint64_t i = 0; array.first && i < array.count; i++) {
      if (i) text_ += ", ";
      if (i == 64) {
        text_ += "... " + std::to_string(array.count);
        break;
      }
      put(array.first[i]);
    }
    text_ += "]";
  }
  void handle(char kind, const void* pointer);
  void sizes(const uint32_t n[3]) {
    text_ += std::to_string(n[0]) + "x" + std::to_string(n[1]) + "x" + std::to_string(n[2]);
  }
  friend class TraceLayer;

  TraceLayer& layer_;
  std::string text_, took_;
  bool first_ = true;
  std::chrono::steady_clock::time_point start_;
};

class TraceLayer : public Layer {
public:
  TraceLayer(const LayerSubject& subject, const std::string& place)
      : name_(subject.name), place_(place), output_(output(place)) {}

  std::string number(char kind, const void* pointer) {
    std::lock_guard lock(mutex_);
    auto [it, fresh] = numbers_.try_emplace({kind, pointer}, 0);
    if (fresh) it->second = ++last_[kind];
    return kind + std::to_string(it->second);
  }
  void forget(char kind, const void* pointer) {
    std::lock_guard lock(mutex_);
    numbers_.erase({kind, pointer});
  }
  const std::string& name() const { return name_; }
  void write(const std::string& line) {
    if (place_.empty()) return log::trace(line);
    std::lock_guard lock(output_.mutex);
    if (output_.failed) return;
    (output_.file << line << '\n').flush(); // whole after a crash
    if (output_.file) return;
    output_.failed = true;
    log::warning("TOLK_LAYERS=trace=" + place_ +
                 ": the file cannot be written any further; the trace ends here");
  }

#define TOLK_LAYER_CALL(table, entry, result, parameters, arguments)                                         \
  result table##_##entry parameters override;
#include "tolk/layers/calls.def"
#undef TOLK_LAYER_CALL

private:
  std::string name_, place_;
  Output& output_;
  std::mutex mutex_;
  std::map<std::pair<char, const void*>, uint64_t> numbers_;
  std::map<char, uint64_t> last_;
};

Line::Line(TraceLayer& layer, const char* call) : layer_(layer) {
  text_ = "[" + std::to_string(thread_number()) + "] " + layer.name() + " " + call + "(";
}

void Line::handle(char kind, const void* pointer) {
  text_ += pointer ? layer_.number(kind, pointer) : "NULL";
}

void Line::write() { layer_.write(text_ + "  " + took_ + " ns"); }

void Line::put(const tolk_buffer_desc* d) {
  if (!d) return put(static_cast<const void*>(nullptr));
  static constexpr const char* kKinds[] = {"kind 0", "device", "staging", "unified", "device-writable"};
  text_ += std::string("{") + (d->kind < 5 ? kKinds[d->kind] : "kind ?") + ", " + std::to_string(d->size) +
           " bytes, usage " + std::to_string(d->usage) + (d->flags & TOLK_BUFFER_ZEROED ? ", zeroed" : "") +
           (d->align ? ", aligned to " + std::to_string(d->align) : "") + "}";
}

void Line::put(const tolk_target* t) {
  text_ += t ? "{kind " + std::to_string(t->kind) + ", \"" + (t->dialect ? t->dialect : "") + "\"}" : "NULL";
}

void Line::put(const tolk_source* s) {
  if (!s) return put(static_cast<const void*>(nullptr));
  uint32_t buffers = 0;
  for (uint32_t i = 0; i < s->param_count; i++) buffers += s->params[i].kind == TOLK_PARAM_BUFFER;
  text_ += "{";
  put(s->entry);
  text_ += ", " + std::to_string(s->text.size) + " bytes of text, " + std::to_string(buffers) + " buffers, " +
           std::to_string(s->param_count - buffers) + " values, flags " + std::to_string(s->flags) +
           ", local ";
  sizes(s->local);
  text_ += "}";
}

void Line::put(const tolk_launch* l) {
  if (!l) return put(static_cast<const void*>(nullptr));
  text_ += "{grid ";
  sizes(l->grid);
  text_ += ", local ";
  sizes(l->local);
  text_ += ", ";
  put(Array<tolk_ref>{l->buffers, l->buffer_count});
  text_ += ", ";
  put(Array<uint64_t>{l->values, l->value_count});
  if (l->device_ns) text_ += ", timed";
  text_ += "}";
}

void Line::put(const tolk_patch& p) {
  text_ += "{node " + std::to_string(p.node) + ": ";
  if (p.kind == TOLK_PATCH_BUFFER) {
    text_ += "buffer " + std::to_string(p.index) + "=";
    put(p.to.buffer);
  } else if (p.kind == TOLK_PATCH_VALUE) {
    text_ += "value " + std::to_string(p.index) + "=" + std::to_string(p.to.value);
  } else if (p.kind == TOLK_PATCH_SIZES) {
    text_ += "grid ";
    sizes(p.to.sizes.grid);
    text_ += ", local ";
    sizes(p.to.sizes.local);
  } else {
    text_ += "kind " + std::to_string(p.kind);
  }
  text_ += "}";
}

// The body of one call: what is shown of the arguments, the call, what is shown of the results.
#define TRACED(call, shown, forward, results)                                                                \
  Line line(*this, call);                                                                                    \
  line shown;                                                                                                \
  line.begin();                                                                                              \
  const tolk_status status = next->forward;                                                                  \
  line.end();                                                                                                \
  line.status results;                                                                                       \
  line.write();                                                                                              \
  return status

#define TRACED_END(call, kind, handle, forward)                                                              \
  Line line(*this, call);                                                                                    \
  line.arg(#handle, handle);                                                                                 \
  forget(kind, handle); /* before the plugin may give the address again */                                   \
  line.begin();                                                                                              \
  next->forward;                                                                                             \
  line.end();                                                                                                \
  line.write()

#define ARG(name) arg(#name, name)
#define LIST(name, count) arg(#name, Line::Array{name, count})

tolk_status TraceLayer::plugin_device_count(void* self, uint32_t* out) {
  TRACED("device_count", .arg("self", self), plugin_device_count(self, out), (status, *out));
}
tolk_status TraceLayer::plugin_device_info(void* self, uint32_t index, const tolk_device_info** out) {
  TRACED("device_info", .ARG(index), plugin_device_info(self, index, out), (status, *out));
}
tolk_status TraceLayer::plugin_device_open(void* self, uint32_t index, tolk_device** out) {
  TRACED("device_open", .ARG(index), plugin_device_open(self, index, out), (status, *out));
}
void TraceLayer::plugin_shutdown(void* self) {
  Line line(*this, "shutdown");
  line.ARG(self);
  line.begin();
  next->plugin_shutdown(self);
  line.end();
  line.write();
}
tolk_status TraceLayer::plugin_rescan(void* self) {
  TRACED("rescan", .ARG(self), plugin_rescan(self), (status));
}
tolk_status TraceLayer::plugin_get_extension(void* self, const char* name, uint32_t version,
                                             const void** table) {
  TRACED("get_extension", .ARG(name).ARG(version), plugin_get_extension(self, name, version, table),
         (status, *table));
}

void TraceLayer::device_close(tolk_device* device) {
  TRACED_END("device.close", 'd', device, device_close(device));
}
tolk_status TraceLayer::device_caps(tolk_device* device, const tolk_caps** out) {
  TRACED("device.caps", .ARG(device), device_caps(device, out), (status, *out));
}
tolk_status TraceLayer::device_memory(tolk_device* device, tolk_memory* out) {
  TRACED("device.memory", .ARG(device), device_memory(device, out), (status, *out));
}
tolk_status TraceLayer::device_trim(tolk_device* device) {
  TRACED("device.trim", .ARG(device), device_trim(device), (status));
}
tolk_status TraceLayer::device_synchronize(tolk_device* device, uint64_t timeout_ns) {
  TRACED("device.synchronize", .ARG(device).ARG(timeout_ns), device_synchronize(device, timeout_ns),
         (status));
}
tolk_status TraceLayer::device_peer(tolk_device* device, tolk_device* other, uint32_t* flags) {
  TRACED("device.peer", .ARG(device).ARG(other), device_peer(device, other, flags), (status, *flags));
}
tolk_status TraceLayer::device_clock(tolk_device* device, uint64_t* device_ns, uint64_t* host_ns) {
  TRACED("device.clock", .ARG(device), device_clock(device, device_ns, host_ns),
         (status, *device_ns, *host_ns));
}
tolk_status TraceLayer::device_flush_caches(tolk_device* device) {
  TRACED("device.flush_caches", .ARG(device), device_flush_caches(device), (status));
}
const char* TraceLayer::device_lost_reason(tolk_device* device) {
  Line line(*this, "device.lost_reason");
  line.ARG(device);
  line.begin();
  const char* reason = next->device_lost_reason(device);
  line.end();
  line.write();
  return reason;
}

tolk_status TraceLayer::buffer_create(tolk_device* device, const tolk_buffer_desc* desc, tolk_buffer** out) {
  TRACED("buffer.create", .ARG(device).ARG(desc), buffer_create(device, desc, out), (status, *out));
}
void TraceLayer::buffer_destroy(tolk_buffer* buffer) {
  TRACED_END("buffer.destroy", 'b', buffer, buffer_destroy(buffer));
}
tolk_status TraceLayer::buffer_map(tolk_buffer* buffer, uint64_t offset, uint64_t size, uint32_t access,
                                   void** out) {
  TRACED("buffer.map", .ARG(buffer).ARG(offset).ARG(size).ARG(access),
         buffer_map(buffer, offset, size, access, out), (status, *out));
}
tolk_status TraceLayer::buffer_unmap(tolk_buffer* buffer, void* pointer) {
  TRACED("buffer.unmap", .ARG(buffer).ARG(pointer), buffer_unmap(buffer, pointer), (status));
}
tolk_status TraceLayer::buffer_import_handle(tolk_device* device, const tolk_buffer_desc* desc, uint32_t type,
                                             uint64_t value, tolk_release_fn release, void* arg,
                                             tolk_buffer** out) {
  TRACED("buffer.import_handle", .ARG(device).ARG(desc).ARG(type).arg("value", address_of(value)),
         buffer_import_handle(device, desc, type, value, release, arg, out), (status, *out));
}
tolk_status TraceLayer::buffer_export_handle(tolk_buffer* buffer, uint32_t type, uint64_t* value) {
  TRACED("buffer.export_handle", .ARG(buffer).ARG(type), buffer_export_handle(buffer, type, value),
         (status, *value));
}
tolk_status TraceLayer::buffer_peer_map(tolk_buffer* buffer, tolk_device* other, tolk_buffer** out) {
  TRACED("buffer.peer_map", .ARG(buffer).ARG(other), buffer_peer_map(buffer, other, out), (status, *out));
}
tolk_status TraceLayer::buffer_advise(tolk_buffer* buffer, uint64_t offset, uint64_t size, uint32_t hint) {
  TRACED("buffer.advise", .ARG(buffer).ARG(offset).ARG(size).ARG(hint),
         buffer_advise(buffer, offset, size, hint), (status));
}

tolk_status TraceLayer::stream_copy_in(tolk_stream* stream, tolk_ref dst, const void* src, uint32_t flags) {
  TRACED("stream.copy_in", .ARG(stream).ARG(dst).ARG(src).ARG(flags), stream_copy_in(stream, dst, src, flags),
         (status));
}
tolk_status TraceLayer::stream_copy_out(tolk_stream* stream, void* dst, tolk_ref src, uint32_t flags) {
  TRACED("stream.copy_out", .ARG(stream).arg("dst", static_cast<const void*>(dst)).ARG(src).ARG(flags),
         stream_copy_out(stream, dst, src, flags), (status));
}
tolk_status TraceLayer::stream_copy(tolk_stream* stream, tolk_ref dst, tolk_ref src) {
  TRACED("stream.copy", .ARG(stream).ARG(dst).ARG(src), stream_copy(stream, dst, src), (status));
}
tolk_status TraceLayer::stream_fill(tolk_stream* stream, tolk_ref dst, uint64_t pattern,
                                    uint32_t pattern_bytes) {
  TRACED("stream.fill", .ARG(stream).ARG(dst).ARG(pattern).ARG(pattern_bytes),
         stream_fill(stream, dst, pattern, pattern_bytes), (status));
}
tolk_status TraceLayer::stream_create(tolk_device* device, uint32_t flags, tolk_stream** out) {
  TRACED("stream.create", .ARG(device).ARG(flags), stream_create(device, flags, out), (status, *out));
}
void TraceLayer::stream_destroy(tolk_stream* stream) {
  TRACED_END("stream.destroy", 's', stream, stream_destroy(stream));
}
tolk_status TraceLayer::stream_synchronize(tolk_stream* stream, uint64_t timeout_ns) {
  TRACED("stream.synchronize", .ARG(stream).ARG(timeout_ns), stream_synchronize(stream, timeout_ns),
         (status));
}
tolk_status TraceLayer::stream_wait(tolk_stream* stream, tolk_event* event) {
  TRACED("stream.wait", .ARG(stream).ARG(event), stream_wait(stream, event), (status));
}
tolk_status TraceLayer::stream_flush(tolk_stream* stream) {
  TRACED("stream.flush", .ARG(stream), stream_flush(stream), (status));
}
tolk_status TraceLayer::stream_event_create(tolk_device* device, uint32_t flags, tolk_event** out) {
  TRACED("stream.event_create", .ARG(device).ARG(flags), stream_event_create(device, flags, out),
         (status, *out));
}
tolk_status TraceLayer::stream_event_record(tolk_event* event, tolk_stream* stream) {
  TRACED("stream.event_record", .ARG(event).ARG(stream), stream_event_record(event, stream), (status));
}
tolk_status TraceLayer::stream_event_query(tolk_event* event) {
  TRACED("stream.event_query", .ARG(event), stream_event_query(event), (status));
}
tolk_status TraceLayer::stream_event_sync(tolk_event* event, uint64_t timeout_ns) {
  TRACED("stream.event_sync", .ARG(event).ARG(timeout_ns), stream_event_sync(event, timeout_ns), (status));
}
tolk_status TraceLayer::stream_event_elapsed(tolk_event* begin, tolk_event* end, uint64_t* ns) {
  TRACED("stream.event_elapsed", .ARG(begin).ARG(end), stream_event_elapsed(begin, end, ns), (status, *ns));
}
void TraceLayer::stream_event_destroy(tolk_event* event) {
  TRACED_END("stream.event_destroy", 'e', event, stream_event_destroy(event));
}

tolk_status TraceLayer::program_compile(void* self, const tolk_target* target, const tolk_source* source,
                                        tolk_blob** binary, tolk_blob** log) {
  TRACED("program.compile", .ARG(target).ARG(source), program_compile(self, target, source, binary, log),
         (status));
}
tolk_status TraceLayer::program_load(tolk_device* device, tolk_bytes binary, const tolk_source* source,
                                     tolk_program** out) {
  TRACED("program.load", .ARG(device).ARG(binary).ARG(source), program_load(device, binary, source, out),
         (status, *out));
}
void TraceLayer::program_unload(tolk_program* program) {
  TRACED_END("program.unload", 'p', program, program_unload(program));
}
tolk_status TraceLayer::program_get_kernel(tolk_program* program, const char* name, tolk_kernel** out) {
  TRACED("program.get_kernel", .ARG(program).ARG(name), program_get_kernel(program, name, out),
         (status, *out));
}
tolk_status TraceLayer::program_kernel_info(tolk_kernel* kernel, tolk_kernel_info* out) {
  TRACED("program.kernel_info", .ARG(kernel), program_kernel_info(kernel, out), (status, out->code_bytes));
}
tolk_status TraceLayer::program_launch(tolk_stream* stream, tolk_kernel* kernel, const tolk_launch* launch) {
  TRACED("program.launch", .ARG(stream).ARG(kernel).ARG(launch), program_launch(stream, kernel, launch),
         (status));
}
tolk_status TraceLayer::program_disassemble(void* self, tolk_bytes binary, tolk_blob** text) {
  TRACED("program.disassemble", .ARG(binary), program_disassemble(self, binary, text), (status));
}

tolk_status TraceLayer::graph_create(tolk_device* const* devices, uint32_t device_count, uint32_t flags,
                                     tolk_graph** out) {
  TRACED("graph.create", .LIST(devices, device_count).ARG(flags),
         graph_create(devices, device_count, flags, out), (status, *out));
}
tolk_status TraceLayer::graph_add_kernel(tolk_graph* graph, uint32_t device, tolk_kernel* kernel,
                                         const tolk_launch* launch, const uint32_t* after,
                                         uint32_t after_count) {
  TRACED("graph.add_kernel", .ARG(graph).ARG(device).ARG(kernel).ARG(launch).LIST(after, after_count),
         graph_add_kernel(graph, device, kernel, launch, after, after_count), (status));
}
tolk_status TraceLayer::graph_add_copy(tolk_graph* graph, uint32_t device, tolk_ref dst, tolk_ref src,
                                       const uint32_t* after, uint32_t after_count) {
  TRACED("graph.add_copy", .ARG(graph).ARG(device).ARG(dst).ARG(src).LIST(after, after_count),
         graph_add_copy(graph, device, dst, src, after, after_count), (status));
}
tolk_status TraceLayer::graph_add_fill(tolk_graph* graph, uint32_t device, tolk_ref dst, uint64_t pattern,
                                       uint32_t pattern_bytes, const uint32_t* after, uint32_t after_count) {
  TRACED("graph.add_fill",
         .ARG(graph).ARG(device).ARG(dst).ARG(pattern).ARG(pattern_bytes).LIST(after, after_count),
         graph_add_fill(graph, device, dst, pattern, pattern_bytes, after, after_count), (status));
}
tolk_status TraceLayer::graph_commit(tolk_graph* graph) {
  TRACED("graph.commit", .ARG(graph), graph_commit(graph), (status));
}
tolk_status TraceLayer::graph_update(tolk_graph* graph, const tolk_patch* patches, uint32_t patch_count) {
  TRACED("graph.update", .ARG(graph).LIST(patches, patch_count), graph_update(graph, patches, patch_count),
         (status));
}
tolk_status TraceLayer::graph_launch(tolk_graph* graph, tolk_stream* const* streams, uint64_t* device_ns) {
  TRACED("graph.launch", .ARG(graph).arg("streams", static_cast<const void*>(streams)),
         graph_launch(graph, streams, device_ns), (status));
}
tolk_status TraceLayer::graph_node_times(tolk_graph* graph, uint64_t* begin_ns, uint64_t* end_ns) {
  TRACED("graph.node_times", .ARG(graph), graph_node_times(graph, begin_ns, end_ns), (status));
}
void TraceLayer::graph_destroy(tolk_graph* graph) {
  TRACED_END("graph.destroy", 'g', graph, graph_destroy(graph));
}

} // namespace

void open_trace(const std::string& place) { output(place); }

std::unique_ptr<Layer> make_trace_layer(const LayerSubject& subject, const std::string& place) {
  return std::make_unique<TraceLayer>(subject, place);
}

} // namespace tolk
