#include "tolk/layers/record.h"

#include <cstdlib>

#include "tolk/base/error.h"
#include "tolk/base/log.h"
#include "tolk/loader/clamp.h"

namespace tolk {
namespace recording {

void Recorder::write(Kind kind, const Payload& payload) {
  if (ended_) return;
  const std::string& bytes = payload.bytes();
  const auto length = static_cast<uint32_t>(bytes.size());
  const uint32_t check = check_of(kind, bytes);
  std::string record(reinterpret_cast<const char*>(&length), 4);
  record.push_back(static_cast<char>(kind));
  record.append(bytes).append(reinterpret_cast<const char*>(&check), 4);
  file_.write(record.data(), static_cast<std::streamsize>(record.size()));
  file_.flush(); // what led to a crash is in the file
  records_++;
  if (!file_) {
    ended_ = true;
    log::warning("TOLK_LAYERS=record=" + path_ +
                 ": the file cannot be written any further; the recording ends here");
  }
}

namespace {

struct Recorders {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Recorder>> all;
};
Recorders& recorders() {
  static auto* r = new Recorders;
  return *r;
}

void end_all() {
  for (auto& [path, recorder] : recorders().all)
    if (!recorder->ended()) recorder->end();
}

} // namespace

std::shared_ptr<Recorder> recorder(const std::string& path) {
  std::lock_guard lock(recorders().mutex);
  auto& slot = recorders().all[path];
  if (!slot || slot->ended()) {
    auto made = std::make_shared<Recorder>(path);
    if (!made->good()) {
      recorders().all.erase(path);
      throw DeviceError("TOLK_LAYERS=record=" + path + ": the file cannot be written; name another one");
    }
    static const int registered = std::atexit(end_all);
    (void)registered;
    slot = std::move(made);
  }
  return slot;
}

void RecordLayer::look(tolk_buffer* handle) {
  auto it = buffers_.find(handle);
  if (it == buffers_.end()) return;
  Memory& m = *it->second.memory;
  if (m.dirty) return; // the device writes; the host may not
  for (Window& w : m.windows) {
    const std::string_view bytes(w.bytes, w.size);
    ContentKey now = content_key(bytes);
    if (w.seen && now == w.known) continue;
    w.seen = true;
    w.known = now;
    r_->write(Kind::HostWrite, call().number(it->second.number).number(w.offset).number(r_->data(bytes)));
  }
}

void RecordLayer::settle(uint64_t number, Memory& m, bool expect) {
  m.dirty = false;
  for (Window& w : m.windows) {
    w.known = content_key({w.bytes, w.size});
    w.seen = true;
    if (expect) r_->write(Kind::Expect, call().ref({number, w.offset, w.size}).key(w.known));
  }
}

void RecordLayer::wrote(tolk_buffer* handle, const StreamRef& stream, uint64_t position) {
  auto it = buffers_.find(handle);
  if (it == buffers_.end()) return;
  Memory& m = *it->second.memory;
  if (!stream) return settle(it->second.number, m, true);
  m.writes.add(stream, position);
  m.dirty = true;
}

void RecordLayer::settle_all() {
  for (auto& [handle, buffer] : buffers_)
    if (buffer.memory->dirty && !buffer.memory->writes.pending()) settle(buffer.number, *buffer.memory, true);
}

void RecordLayer::complete(const StreamRef& stream, uint64_t position) {
  if (!stream) return;
  validating::complete(*stream, position);
  settle_all();
}

tolk_status RecordLayer::plugin_device_open(void* self, uint32_t index, tolk_device** out) {
  auto lock = hold();
  tolk_status status = next->plugin_device_open(self, index, out);
  if (status != TOLK_OK || !*out) return status;
  DeviceState state;
  state.number = r_->object();
  r_->write(Kind::DeviceOpen, call().number(state.number).number(index));
  devices_.insert_or_assign(*out, std::move(state));
  return status;
}

void RecordLayer::plugin_shutdown(void* self) {
  next->plugin_shutdown(self);
  auto lock = hold();
  if (--r_->users == 0) r_->end();
}

void RecordLayer::device_close(tolk_device* device) {
  auto lock = hold();
  r_->write(Kind::DeviceClose, call().number(number(devices_, device)));
  devices_.erase(device);
  next->device_close(device);
}

tolk_status RecordLayer::device_caps(tolk_device* device, const tolk_caps** out) {
  auto lock = hold();
  tolk_status status = next->device_caps(device, out);
  auto it = devices_.find(device);
  if (status != TOLK_OK || !*out || it == devices_.end()) return status;
  it->second.target_kinds.clear();
  it->second.target_flags.clear();
  const tolk_caps caps = clamp_copy(*out);
  for (uint32_t i = 0; i < caps.target_count; i++) {
    tolk_target t = clamp_copy(strided(caps.targets, i));
    it->second.target_kinds.push_back(t.kind);
    it->second.target_flags.push_back(t.flags);
  }
  return status;
}

tolk_status RecordLayer::device_synchronize(tolk_device* device, uint64_t timeout_ns) {
  tolk_status status = next->device_synchronize(device, timeout_ns);
  if (status != TOLK_OK) return status;
  auto lock = hold();
  r_->write(Kind::DeviceSynchronize, call().number(number(devices_, device)));
  return status;
}

tolk_status RecordLayer::buffer_create(tolk_device* device, const tolk_buffer_desc* desc, tolk_buffer** out) {
  auto lock = hold();
  tolk_status status = next->buffer_create(device, desc, out);
  if (status != TOLK_OK || !*out) return status;
  const uint64_t made = r_->object();
  r_->write(Kind::BufferCreate, call()
                                    .number(made)
                                    .number(number(devices_, device))
                                    .number(desc->kind)
                                    .number(desc->usage)
                                    .number(desc->flags)
                                    .number(desc->size)
                                    .number(desc->align));
  auto memory = std::make_shared<Memory>();
  memory->size = desc->size;
  adopt(*out, made, std::move(memory));
  return status;
}

void RecordLayer::buffer_destroy(tolk_buffer* buffer) {
  auto lock = hold();
  r_->write(Kind::BufferDestroy, call().number(number(buffers_, buffer)));
  buffers_.erase(buffer);
  next->buffer_destroy(buffer);
}

tolk_status RecordLayer::buffer_map(tolk_buffer* buffer, uint64_t offset, uint64_t size, uint32_t access,
                                    void** out) {
  auto lock = hold();
  tolk_status status = next->buffer_map(buffer, offset, size, access, out);
  auto it = buffers_.find(buffer);
  if (status != TOLK_OK || !*out || it == buffers_.end() || size == 0) return status;
  Memory& m = *it->second.memory;
  Window w{static_cast<const char*>(*out), offset, size, false, {}, false};
  // The present contents come from the device, or are undefined.
  if (!m.dirty) w.known = content_key({w.bytes, w.size}), w.seen = true;
  m.windows.push_back(w);
  return status;
}

tolk_status RecordLayer::buffer_unmap(tolk_buffer* buffer, void* pointer) {
  auto lock = hold();
  look(buffer);
  if (auto it = buffers_.find(buffer); it != buffers_.end()) {
    auto& windows = it->second.memory->windows;
    for (auto w = windows.begin(); w != windows.end(); ++w)
      if (w->bytes == pointer && !w->imported) {
        windows.erase(w);
        break;
      }
  }
  return next->buffer_unmap(buffer, pointer);
}

// The import is recorded as a buffer of its own that the host writes.
tolk_status RecordLayer::buffer_import_handle(tolk_device* device, const tolk_buffer_desc* desc,
                                              uint32_t type, uint64_t value, tolk_release_fn release,
                                              void* arg, tolk_buffer** out) {
  auto lock = hold();
  tolk_status status = next->buffer_import_handle(device, desc, type, value, release, arg, out);
  if (status != TOLK_OK || !*out) return status;
  const uint64_t made = r_->object();
  r_->write(Kind::BufferCreate, call()
                                    .number(made)
                                    .number(number(devices_, device))
                                    .number(desc->kind)
                                    .number(desc->usage | TOLK_USAGE_COPY_DESTINATION)
                                    .number(desc->flags)
                                    .number(desc->size)
                                    .number(desc->align));
  auto memory = std::make_shared<Memory>();
  memory->size = desc->size;
  if (type == TOLK_HANDLE_HOST_POINTER && desc->size != 0) {
    const char* bytes = nullptr;
    std::memcpy(static_cast<void*>(&bytes), &value, sizeof bytes);
    memory->windows.push_back({bytes, 0, desc->size, true, {}, false});
  }
  adopt(*out, made, std::move(memory));
  return status;
}

tolk_status RecordLayer::buffer_peer_map(tolk_buffer* buffer, tolk_device* other, tolk_buffer** out) {
  auto lock = hold();
  tolk_status status = next->buffer_peer_map(buffer, other, out);
  auto it = buffers_.find(buffer);
  if (status != TOLK_OK || !*out || it == buffers_.end()) return status;
  const uint64_t made = r_->object();
  r_->write(Kind::PeerMap, call().number(made).number(it->second.number).number(number(devices_, other)));
  adopt(*out, made, it->second.memory);
  return status;
}

tolk_status RecordLayer::stream_copy_in(tolk_stream* stream, tolk_ref dst, const void* src, uint32_t flags) {
  auto lock = hold();
  look(dst.buffer);
  tolk_status status = next->stream_copy_in(stream, dst, src, flags & ~uint32_t{TOLK_COPY_ASYNC});
  if (status != TOLK_OK) return status;
  const uint64_t block = r_->data({static_cast<const char*>(src), dst.size});
  r_->write(Kind::CopyIn, call().number(number(streams_, stream)).ref(ref(dst)).number(block));
  StreamRef s = progress(stream);
  wrote(dst.buffer, s, s ? ++s->submitted : 0);
  if (s) complete(s, s->submitted); // it waited
  return status;
}

tolk_status RecordLayer::stream_copy_out(tolk_stream* stream, void* dst, tolk_ref src, uint32_t flags) {
  auto lock = hold();
  look(src.buffer);
  tolk_status status = next->stream_copy_out(stream, dst, src, flags & ~uint32_t{TOLK_COPY_ASYNC});
  if (status != TOLK_OK) return status;
  ContentKey key = content_key({static_cast<const char*>(dst), src.size});
  r_->write(Kind::CopyOut, call().number(number(streams_, stream)).ref(ref(src)).key(key));
  if (StreamRef s = progress(stream)) complete(s, s->submitted);
  return status;
}

tolk_status RecordLayer::stream_copy(tolk_stream* stream, tolk_ref dst, tolk_ref src) {
  auto lock = hold();
  look(src.buffer);
  look(dst.buffer);
  tolk_status status = next->stream_copy(stream, dst, src);
  if (status != TOLK_OK) return status;
  r_->write(Kind::Copy, call().number(number(streams_, stream)).ref(ref(dst)).ref(ref(src)));
  StreamRef s = progress(stream);
  wrote(dst.buffer, s, s ? ++s->submitted : 0);
  return status;
}

tolk_status RecordLayer::stream_fill(tolk_stream* stream, tolk_ref dst, uint64_t pattern,
                                     uint32_t pattern_bytes) {
  auto lock = hold();
  look(dst.buffer);
  tolk_status status = next->stream_fill(stream, dst, pattern, pattern_bytes);
  if (status != TOLK_OK) return status;
  r_->write(Kind::Fill,
            call().number(number(streams_, stream)).ref(ref(dst)).number(pattern).number(pattern_bytes));
  StreamRef s = progress(stream);
  wrote(dst.buffer, s, s ? ++s->submitted : 0);
  return status;
}

tolk_status RecordLayer::stream_create(tolk_device* device, uint32_t flags, tolk_stream** out) {
  auto lock = hold();
  tolk_status status = next->stream_create(device, flags, out);
  auto it = devices_.find(device);
  if (status != TOLK_OK || !*out || it == devices_.end()) return status;
  StreamState state{r_->object(), std::make_shared<Stream>()};
  state.progress->device = it->second.progress;
  r_->write(Kind::StreamCreate, call().number(state.number).number(it->second.number).number(flags));
  streams_.insert_or_assign(*out, std::move(state));
  return status;
}

void RecordLayer::stream_destroy(tolk_stream* stream) {
  auto lock = hold();
  if (StreamRef s = progress(stream)) {
    complete(s, s->submitted);
    r_->write(Kind::StreamDestroy, call().number(number(streams_, stream)));
    streams_.erase(stream);
  }
  next->stream_destroy(stream);
}

tolk_status RecordLayer::stream_synchronize(tolk_stream* stream, uint64_t timeout_ns) {
  uint64_t position = 0;
  {
    auto lock = hold();
    if (StreamRef s = progress(stream)) position = s->submitted;
  }
  tolk_status status = next->stream_synchronize(stream, timeout_ns);
  if (status != TOLK_OK) return status;
  auto lock = hold();
  if (StreamRef s = progress(stream)) {
    r_->write(Kind::StreamSynchronize, call().number(number(streams_, stream)));
    complete(s, position);
  }
  return status;
}

tolk_status RecordLayer::stream_wait(tolk_stream* stream, tolk_event* event) {
  auto lock = hold();
  return noted(next->stream_wait(stream, event), stream, event, [&](const StreamRef& s, EventState& e) {
    r_->write(Kind::StreamWait, call().number(number(streams_, stream)).number(e.number));
    const uint64_t position = ++s->submitted;
    if (e.stream && e.stream != s && e.stream->completed < e.position)
      s->joins.push_back({position, e.stream, e.position});
  });
}

tolk_status RecordLayer::stream_event_create(tolk_device* device, uint32_t flags, tolk_event** out) {
  auto lock = hold();
  tolk_status status = next->stream_event_create(device, flags, out);
  if (status != TOLK_OK || !*out || streams_.empty()) return status;
  EventState state{r_->object(), nullptr, 0};
  r_->write(Kind::EventCreate, call().number(state.number).number(number(devices_, device)).number(flags));
  events_.insert_or_assign(*out, std::move(state));
  return status;
}

tolk_status RecordLayer::stream_event_record(tolk_event* event, tolk_stream* stream) {
  auto lock = hold();
  return noted(next->stream_event_record(event, stream), stream, event,
               [&](const StreamRef& s, EventState& e) {
                 r_->write(Kind::EventRecord, call().number(e.number).number(number(streams_, stream)));
                 e.stream = s;
                 e.position = ++s->submitted;
               });
}

tolk_status RecordLayer::stream_event_query(tolk_event* event) {
  StreamRef s;
  uint64_t position = 0;
  {
    auto lock = hold();
    if (auto e = events_.find(event); e != events_.end()) s = e->second.stream, position = e->second.position;
  }
  tolk_status status = next->stream_event_query(event);
  if (status != TOLK_OK || !s) return status;
  auto lock = hold();
  if (s->completed >= position) return status;
  // A replay waits where the recorded run had waited long enough.
  r_->write(Kind::EventSync, call().number(number(events_, event)));
  complete(s, position);
  return status;
}

tolk_status RecordLayer::stream_event_sync(tolk_event* event, uint64_t timeout_ns) {
  StreamRef s;
  uint64_t position = 0;
  {
    auto lock = hold();
    if (auto e = events_.find(event); e != events_.end()) s = e->second.stream, position = e->second.position;
  }
  tolk_status status = next->stream_event_sync(event, timeout_ns);
  if (status != TOLK_OK || !s) return status;
  auto lock = hold();
  r_->write(Kind::EventSync, call().number(number(events_, event)));
  complete(s, position);
  return status;
}

void RecordLayer::stream_event_destroy(tolk_event* event) {
  auto lock = hold();
  if (auto e = events_.find(event); e != events_.end()) {
    r_->write(Kind::EventDestroy, call().number(e->second.number));
    events_.erase(e);
  }
  next->stream_event_destroy(event);
}

} // namespace recording

void open_recording(const std::string& place) { recording::recorder(place); }

std::unique_ptr<Layer> make_record_layer(const LayerSubject& subject, const std::string& place) {
  return std::make_unique<recording::RecordLayer>(subject, place);
}

} // namespace tolk
