// The layer `validate`: copies, streams and events.
#include <initializer_list>

#include "tolk/layers/validate.h"

namespace tolk::validating {

void complete(Stream& first, uint64_t position) {
  // What a stream waited for is complete when the stream's own work is.
  std::vector<std::pair<Stream*, uint64_t>> left{{&first, position}};
  std::vector<std::shared_ptr<Stream>> kept;
  while (!left.empty()) {
    auto [stream, until] = left.back();
    left.pop_back();
    if (until <= stream->completed) continue;
    stream->completed = until;
    std::erase_if(stream->joins, [&](const Stream::Join& join) {
      if (join.at > until) return false;
      kept.push_back(join.other);
      left.emplace_back(join.other.get(), join.position);
      return true;
    });
  }
}

void ValidateLayer::complete_device(const Device& device) {
  for (auto& [handle, stream] : streams_.live)
    if (stream->device.get() == &device) complete(*stream, stream->submitted);
}

uint64_t ValidateLayer::submit(const StreamRef& stream, std::initializer_list<Uses*> uses) {
  if (!stream) return 0;
  const uint64_t position = ++stream->submitted;
  for (Uses* u : uses) u->add(stream, position);
  return position;
}

ValidateLayer::StreamRef ValidateLayer::check_stream(Call& call, InUse& use, tolk_stream* handle,
                                                     const Device& device, Device& only) {
  const bool streams = subject_.has_streams && (!device.caps_known || device.caps.streams_max != 0);
  if (!handle) {
    call.need(!streams, Rule::stream_missing, "the stream is NULL");
    if (call.ok()) call.need(use.enter(only.busy), Rule::stream_threads);
    return nullptr;
  }
  if (!call.need(subject_.has_streams, Rule::stream_missing, "the stream is not NULL")) return nullptr;
  StreamRef stream = call.find(streams_, handle, "the stream");
  if (!stream) return nullptr;
  call.need(stream->device.get() == &device, Rule::stream_foreign);
  if (call.ok()) call.need(use.enter(stream->busy, stream), Rule::stream_threads);
  return stream;
}

void ValidateLayer::check_copy(Call& call, const Buffer& buffer, tolk_ref ref, const char* what,
                               bool writes) {
  const uint64_t align = std::max<uint64_t>(1, buffer.device->caps.copy_align);
  call.need(ref.offset % align == 0 && ref.size % align == 0, Rule::copy_align,
            std::string(what) + " has offset " + std::to_string(ref.offset) + " and " +
                std::to_string(ref.size) + " bytes, copy_align is " + std::to_string(align));
  call.need(!writes || buffer.copies_write, Rule::write_read_only);
}

void ValidateLayer::check_pair(Call& call, tolk_ref dst, tolk_ref src) {
  call.need(dst.size == src.size, Rule::copy_sizes,
            std::to_string(src.size) + " bytes to " + std::to_string(dst.size));
  call.need(dst.buffer != src.buffer || dst.size == 0 || dst.offset + dst.size <= src.offset ||
                src.offset + src.size <= dst.offset,
            Rule::copy_overlap);
}

void ValidateLayer::check_fill(Call& call, tolk_ref dst, uint32_t bytes) {
  const bool width = bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
  call.need(width && dst.offset % bytes == 0 && dst.size % bytes == 0, Rule::fill_pattern,
            std::to_string(dst.size) + " bytes at offset " + std::to_string(dst.offset) + ", a pattern of " +
                std::to_string(bytes));
}

tolk_status ValidateLayer::stream_copy_in(tolk_stream* handle, tolk_ref dst, const void* src,
                                          uint32_t flags) {
  InUse use;
  Call call(*this, "stream.copy_in");
  BufferRef buffer = check_ref(call, dst, "the destination");
  call.need(src || dst.size == 0, Rule::pointer_null, "the source is NULL");
  if (!call.ok()) return call.refuse();
  Device& device = *buffer->device;
  check_copy(call, *buffer, dst, "the destination", true);
  StreamRef stream = check_stream(call, use, handle, device, device);
  if (!call.ok()) return call.refuse();
  const uint64_t position = submit(stream, {&buffer->uses});
  tolk_status status = call.forward(&device, Mandatory | Submits,
                                    [&] { return next->stream_copy_in(handle, dst, src, flags); });
  if (stream && status == TOLK_OK && !(flags & TOLK_COPY_ASYNC)) complete(*stream, position); // it waited
  return call.result(status);
}

tolk_status ValidateLayer::stream_copy_out(tolk_stream* handle, void* dst, tolk_ref src, uint32_t flags) {
  InUse use;
  Call call(*this, "stream.copy_out");
  BufferRef buffer = check_ref(call, src, "the source");
  call.need(dst || src.size == 0, Rule::pointer_null, "the destination is NULL");
  if (!call.ok()) return call.refuse();
  Device& device = *buffer->device;
  check_copy(call, *buffer, src, "the source", false);
  StreamRef stream = check_stream(call, use, handle, device, device);
  if (!call.ok()) return call.refuse();
  const uint64_t position = submit(stream, {&buffer->uses});
  tolk_status status = call.forward(&device, Mandatory | Submits,
                                    [&] { return next->stream_copy_out(handle, dst, src, flags); });
  // The bytes are here, so everything before them is done.
  if (stream && status == TOLK_OK && !(flags & TOLK_COPY_ASYNC)) complete(*stream, position);
  return call.result(status);
}

tolk_status ValidateLayer::stream_copy(tolk_stream* handle, tolk_ref dst, tolk_ref src) {
  InUse use;
  Call call(*this, "stream.copy");
  BufferRef to = check_ref(call, dst, "the destination"), from = check_ref(call, src, "the source");
  if (!call.ok()) return call.refuse();
  check_pair(call, dst, src);
  check_copy(call, *to, dst, "the destination", true);
  check_copy(call, *from, src, "the source", false);
  Device& device = *to->device;
  if (call.ok() && to->device != from->device) {
    uint32_t peer = 0;
    tolk_device *a = to->device->handle, *b = from->device->handle;
    call.forward(&device, Quiet, [&] { return next->device_peer(a, b, &peer); });
    call.need(peer & TOLK_PEER_COPY, Rule::copy_peer);
    if (handle && streams_.live.contains(handle))
      call.need(streams_.live[handle]->device == to->device, Rule::copy_peer,
                "the stream is another device's");
  }
  StreamRef stream = check_stream(call, use, handle, device, device);
  if (!call.ok()) return call.refuse();
  submit(stream, {&to->uses, &from->uses});
  return call.result(call.forward(&device, Submits, [&] { return next->stream_copy(handle, dst, src); }));
}

tolk_status ValidateLayer::stream_fill(tolk_stream* handle, tolk_ref dst, uint64_t pattern,
                                       uint32_t pattern_bytes) {
  InUse use;
  Call call(*this, "stream.fill");
  BufferRef buffer = check_ref(call, dst, "the destination");
  if (!call.ok()) return call.refuse();
  Device& device = *buffer->device;
  check_fill(call, dst, pattern_bytes);
  call.need(buffer->copies_write, Rule::write_read_only);
  StreamRef stream = check_stream(call, use, handle, device, device);
  if (!call.ok()) return call.refuse();
  submit(stream, {&buffer->uses});
  return call.result(
      call.forward(&device, Submits, [&] { return next->stream_fill(handle, dst, pattern, pattern_bytes); }));
}

tolk_status ValidateLayer::stream_create(tolk_device* handle, uint32_t flags, tolk_stream** out) {
  Call call(*this, "stream.create");
  DeviceRef device = call.find(devices_, handle, "the device");
  if (!call.need(out, Rule::pointer_null)) return call.refuse();
  *out = nullptr;
  tolk_status status = call.forward(device.get(), 0, [&] { return next->stream_create(handle, flags, out); });
  const bool none = !subject_.has_streams || (device->caps_known && device->caps.streams_max == 0);
  if (status != TOLK_OK || (none && !*out)) return call.result(status);
  if (call.need(*out, Rule::result_null, "no stream")) {
    auto stream = std::make_shared<Stream>();
    stream->handle = *out;
    stream->device = device;
    if (call.need(streams_.add(*out, std::move(stream)), Rule::handle_twice, "stream " + Call::address(*out)))
      device->children++;
  }
  return call.result(status);
}

void ValidateLayer::stream_destroy(tolk_stream* handle) {
  InUse use;
  Call call(*this, "stream.destroy");
  if (!handle && !subject_.has_streams) return; // the only stream of a device without streams
  StreamRef stream = call.find(streams_, handle, "the stream");
  if (!stream) return;
  call.need(use.enter(stream->busy, stream), Rule::stream_threads);
  call.need(stream->completed >= stream->submitted || stream->device->lost, Rule::stream_busy);
  if (!call.ok()) return;
  stream->completed = stream->submitted;
  stream->joins.clear();
  streams_.remove(handle);
  stream->device->children--;
  call.forward_void([&] { next->stream_destroy(handle); });
}

tolk_status ValidateLayer::stream_synchronize(tolk_stream* handle, uint64_t timeout_ns) {
  InUse use;
  Call call(*this, "stream.synchronize");
  if (!handle && call.ok()) // nothing is ever pending there
    return call.result(
        call.forward(nullptr, 0, [&] { return next->stream_synchronize(handle, timeout_ns); }));
  StreamRef stream = call.find(streams_, handle, "the stream");
  if (stream) call.need(use.enter(stream->busy, stream), Rule::stream_threads);
  if (!call.ok()) return call.refuse();
  const uint64_t position = stream->submitted;
  tolk_status status = call.forward(stream->device.get(), limit(timeout_ns),
                                    [&] { return next->stream_synchronize(handle, timeout_ns); });
  if (status <= TOLK_OK) complete(*stream, position);
  return call.result(status);
}

tolk_status ValidateLayer::stream_wait(tolk_stream* handle, tolk_event* event_handle) {
  InUse use;
  Call call(*this, "stream.wait");
  if (!subject_.has_streams && call.ok())
    return call.result(call.forward(nullptr, 0, [&] { return next->stream_wait(handle, event_handle); }));
  StreamRef stream = call.find(streams_, handle, "the stream");
  auto event = call.find(events_, event_handle, "the event");
  if (stream) call.need(use.enter(stream->busy, stream), Rule::stream_threads);
  if (!call.ok()) return call.refuse();
  const uint64_t position = submit(stream, {});
  if (event->stream && !event->done() && event->stream != stream)
    stream->joins.push_back({position, event->stream, event->position});
  return call.result(
      call.forward(stream->device.get(), 0, [&] { return next->stream_wait(handle, event_handle); }));
}

tolk_status ValidateLayer::stream_flush(tolk_stream* handle) {
  InUse use;
  Call call(*this, "stream.flush");
  if (!handle && call.ok())
    return call.result(call.forward(nullptr, 0, [&] { return next->stream_flush(handle); }));
  StreamRef stream = call.find(streams_, handle, "the stream");
  if (stream) call.need(use.enter(stream->busy, stream), Rule::stream_threads);
  if (!call.ok()) return call.refuse();
  return call.result(call.forward(stream->device.get(), 0, [&] { return next->stream_flush(handle); }));
}

tolk_status ValidateLayer::stream_event_create(tolk_device* handle, uint32_t flags, tolk_event** out) {
  Call call(*this, "stream.event_create");
  DeviceRef device = call.find(devices_, handle, "the device");
  if (!call.need(out, Rule::pointer_null)) return call.refuse();
  *out = nullptr;
  tolk_status status =
      call.forward(device.get(), 0, [&] { return next->stream_event_create(handle, flags, out); });
  // Without streams all events are one that is always done.
  if (status == TOLK_OK && subject_.has_streams && call.need(*out, Rule::result_null, "no event")) {
    auto event = std::make_shared<Event>();
    event->handle = *out;
    event->device = device;
    event->flags = flags;
    if (call.need(events_.add(*out, std::move(event)), Rule::handle_twice, "event " + Call::address(*out)))
      device->children++;
  }
  return call.result(status);
}

tolk_status ValidateLayer::stream_event_record(tolk_event* handle, tolk_stream* stream_handle) {
  InUse use;
  Call call(*this, "stream.event_record");
  if (!subject_.has_streams && call.ok())
    return call.result(
        call.forward(nullptr, 0, [&] { return next->stream_event_record(handle, stream_handle); }));
  auto event = call.find(events_, handle, "the event");
  if (!call.ok()) return call.refuse();
  StreamRef stream = check_stream(call, use, stream_handle, *event->device, *event->device);
  call.need(event->done() || event->device->lost, Rule::event_rerecord);
  if (!call.ok()) return call.refuse();
  Device* device = event->device.get();
  if (stream) {
    event->stream = stream;
    event->position = submit(stream, {});
  }
  return call.result(
      call.forward(device, 0, [&] { return next->stream_event_record(handle, stream_handle); }));
}

tolk_status ValidateLayer::stream_event_query(tolk_event* handle) {
  Call call(*this, "stream.event_query");
  if (!subject_.has_streams && call.ok())
    return call.result(call.forward(nullptr, 0, [&] { return next->stream_event_query(handle); }));
  auto event = call.find(events_, handle, "the event");
  if (!call.ok()) return call.refuse();
  const bool was_done = event->done();
  StreamRef stream = event->stream;
  const uint64_t position = event->position;
  tolk_status status =
      call.forward(event->device.get(), MayBeNotReady, [&] { return next->stream_event_query(handle); });
  if (stream == event->stream && position == event->position)
    call.need(status != TOLK_NOT_READY || !was_done, Rule::event_order,
              "it is known to be done, and answers NOT_READY");
  if (stream && status <= TOLK_OK) complete(*stream, position);
  return call.result(status);
}

tolk_status ValidateLayer::stream_event_sync(tolk_event* handle, uint64_t timeout_ns) {
  Call call(*this, "stream.event_sync");
  if (!subject_.has_streams && call.ok())
    return call.result(call.forward(nullptr, 0, [&] { return next->stream_event_sync(handle, timeout_ns); }));
  auto event = call.find(events_, handle, "the event");
  if (!call.ok()) return call.refuse();
  const bool was_done = event->done();
  StreamRef stream = event->stream;
  const uint64_t position = event->position;
  tolk_status status = call.forward(event->device.get(), limit(timeout_ns),
                                    [&] { return next->stream_event_sync(handle, timeout_ns); });
  if (stream == event->stream && position == event->position)
    call.need(status != TOLK_TIMEOUT || !was_done, Rule::event_order,
              "it is known to be done, and the wait expired");
  if (stream && status <= TOLK_OK) complete(*stream, position);
  return call.result(status);
}

tolk_status ValidateLayer::stream_event_elapsed(tolk_event* begin, tolk_event* end, uint64_t* ns) {
  Call call(*this, "stream.event_elapsed");
  if (!subject_.has_streams && call.ok())
    return call.result(call.forward(nullptr, 0, [&] { return next->stream_event_elapsed(begin, end, ns); }));
  auto first = call.find(events_, begin, "the first event"),
       last = call.find(events_, end, "the second event");
  call.need(ns, Rule::pointer_null);
  if (!call.ok()) return call.refuse();
  for (const Event* e : {first.get(), last.get()}) {
    call.need(e->flags & TOLK_EVENT_TIMING, Rule::event_times, "an event was made without TIMING");
    call.need(e->stream != nullptr, Rule::event_times, "an event was never recorded");
    call.need(e->done(), Rule::event_times, "an event is not done");
  }
  if (!call.ok()) return call.refuse();
  return call.result(
      call.forward(first->device.get(), 0, [&] { return next->stream_event_elapsed(begin, end, ns); }));
}

void ValidateLayer::stream_event_destroy(tolk_event* handle) {
  Call call(*this, "stream.event_destroy");
  if (!subject_.has_streams) return;
  auto event = call.find(events_, handle, "the event");
  if (!event) return;
  events_.remove(handle);
  event->device->children--;
  call.forward_void([&] { next->stream_event_destroy(handle); });
}

} // namespace tolk::validating
