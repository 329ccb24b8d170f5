// Copies, streams and events. On a synchronous device every stream is NULL and work runs at once.
#include <chrono>
#include <cstring>

#include <tolk/plugin/helpers.h>

#include "state.h"

namespace tb {

void Signal::set() {
  std::lock_guard lock(mutex);
  at_ns = host->clock_ns(host->ctx);
  done = true;
  changed.notify_all();
}

bool Signal::wait(uint64_t timeout_ns) {
  std::unique_lock lock(mutex);
  if (timeout_ns == TOLK_FOREVER) {
    changed.wait(lock, [&] { return done; });
    return true;
  }
  return changed.wait_for(lock, std::chrono::nanoseconds(timeout_ns), [&] { return done; });
}

tolk_status take_range(tolk_ref ref, Range& out) {
  if (!ref.buffer || !tolk_inside(ref.offset, ref.size, ref.buffer->size))
    return fail(TOLK_E_INVALID, "a range is outside of its buffer");
  if (ref.offset != 0 && !ref.buffer->device->options.offset_views)
    return fail(TOLK_E_INVALID, "this device takes no offset views");
  out = {ref.buffer->data + ref.offset, ref.offset, ref.size, ref.buffer->number, ref.buffer->writable};
  return TOLK_OK;
}

tb_record copy_record(uint32_t kind, uint32_t ordinal, const Range& dst, const Range& src) {
  tb_record r{};
  r.kind = kind;
  r.device = ordinal;
  r.buffer_count = 2;
  const Range* ranges[2] = {&dst, &src};
  for (int i = 0; i < 2; i++) {
    r.addresses[i] = reinterpret_cast<uintptr_t>(ranges[i]->data);
    r.offsets[i] = ranges[i]->offset;
    r.bytes[i] = ranges[i]->size;
    r.storage[i] = ranges[i]->storage;
  }
  return r;
}

Failure run_copy(uint32_t ordinal, const Range& dst, const Range& src) {
  wait_for_copy(ordinal);
  Failure f = injected_quietly(ordinal, TB_ASYNC);
  if (f.status != TOLK_OK) return f;
  if (dst.size) std::memcpy(dst.data, src.data, dst.size);
  return {};
}

Failure run_fill(uint32_t ordinal, const Range& dst, uint64_t pattern, uint32_t pattern_bytes) {
  wait_for_copy(ordinal);
  Failure f = injected_quietly(ordinal, TB_ASYNC);
  if (f.status != TOLK_OK) return f;
  tolk_fill_bytes(dst.data, dst.size, pattern, pattern_bytes);
  return {};
}

namespace {

std::atomic<uint64_t> next_stream{1};

// Runs the work where the stream is, and waits when asked to.
tolk_status run(tolk_stream* stream, bool wait, std::function<Failure()> work) {
  if (!stream) {
    Failure f = work();
    return f.status == TOLK_OK ? TOLK_OK : fail(f.status, f.text);
  }
  if (tolk_status s = stream->take_failure()) return s;
  if (wait) return stream->submit_and_wait(std::move(work));
  stream->submit(std::move(work));
  return TOLK_OK;
}

void record_copy(uint32_t kind, tolk_stream* stream, uint32_t ordinal, const Range& dst, const Range& src) {
  tb_record r = copy_record(kind, ordinal, dst, src);
  r.stream = stream ? stream->number : 0;
  record(r);
}

// Between the host's memory and a range of a buffer.
tolk_status copy_host(tolk_stream* stream, uint32_t kind, const Range& buffer, void* memory, uint32_t ordinal,
                      uint64_t tb_counters::* calls, uint64_t tb_counters::* bytes, uint32_t flags) {
  if (tolk_status s = injected(ordinal, TB_COPIES)) return s;
  count(ordinal, calls);
  count(ordinal, bytes, buffer.size);
  const Range other{static_cast<std::byte*>(memory), 0, buffer.size, 0, true};
  const Range &to = kind == TB_COPY_IN ? buffer : other, &from = kind == TB_COPY_IN ? other : buffer;
  record_copy(kind, stream, ordinal, to, from);
  return run(stream, !(flags & TOLK_COPY_ASYNC),
             [ordinal, to = to, from = from] { return run_copy(ordinal, to, from); });
}

tolk_status copy_in(tolk_stream* stream, tolk_ref dst, const void* src, uint32_t flags) {
  return guarded([&]() -> tolk_status {
    Range to;
    if (tolk_status s = take_range(dst, to)) return s;
    return copy_host(stream, TB_COPY_IN, to, const_cast<void*>(src), dst.buffer->device->ordinal,
                     &tb_counters::copy_in, &tb_counters::bytes_in, flags);
  });
}

tolk_status copy_out(tolk_stream* stream, void* dst, tolk_ref src, uint32_t flags) {
  return guarded([&]() -> tolk_status {
    Range from;
    if (tolk_status s = take_range(src, from)) return s;
    return copy_host(stream, TB_COPY_OUT, from, dst, src.buffer->device->ordinal, &tb_counters::copy_out,
                     &tb_counters::bytes_out, flags);
  });
}

tolk_status copy(tolk_stream* stream, tolk_ref dst, tolk_ref src) {
  return guarded([&]() -> tolk_status {
    if (!dst.buffer->device->options.copy_hook) return fail(TOLK_E_UNSUPPORTED, "copy is switched off");
    Range to, from;
    if (tolk_status s = take_range(dst, to)) return s;
    if (tolk_status s = take_range(src, from)) return s;
    if (dst.size != src.size) return fail(TOLK_E_INVALID, "source and destination differ in size");
    if (tolk_overlap(dst, src)) return fail(TOLK_E_INVALID, "source and destination overlap");
    if (stream && stream->device != dst.buffer->device)
      return fail(TOLK_E_INVALID, "the stream of a copy is the destination's");
    uint32_t ordinal = dst.buffer->device->ordinal;
    if (tolk_status s = injected(ordinal, TB_COPIES)) return s;
    count(ordinal, &tb_counters::copy);
    count(ordinal, &tb_counters::bytes_copied, dst.size);
    record_copy(TB_COPY, stream, ordinal, to, from);
    return run(stream, false, [=] { return run_copy(ordinal, to, from); });
  });
}

tolk_status fill(tolk_stream* stream, tolk_ref dst, uint64_t pattern, uint32_t pattern_bytes) {
  return guarded([&]() -> tolk_status {
    if (!dst.buffer->device->options.fill_hook) return fail(TOLK_E_UNSUPPORTED, "fill is switched off");
    Range to;
    if (tolk_status s = take_range(dst, to)) return s;
    if (!tolk_fill_fits(dst, pattern_bytes))
      return fail(TOLK_E_INVALID, "offset and size are multiples of the pattern's 1, 2, 4 or 8 bytes");
    uint32_t ordinal = dst.buffer->device->ordinal;
    if (tolk_status s = injected(ordinal, TB_COPIES)) return s;
    count(ordinal, &tb_counters::fill);
    record_copy(TB_FILL, stream, ordinal, to, {});
    return run(stream, false, [=] { return run_fill(ordinal, to, pattern, pattern_bytes); });
  });
}

// The host calls this for every device of the plugin; a synchronous one answers with no stream.
tolk_status stream_create(tolk_device* device, uint32_t, tolk_stream** out) {
  return guarded([&]() -> tolk_status {
    *out = nullptr;
    if (!device->options.streams) return TOLK_OK;
    if (tolk_status s = injected(device->ordinal, TB_STREAM_CREATE)) return s;
    *out = new tolk_stream(device);
    count(device->ordinal, &tb_counters::stream_create);
    count(device->ordinal, &tb_counters::live_streams);
    std::lock_guard lock(device->mutex);
    device->streams.push_back(*out);
    return TOLK_OK;
  });
}

void stream_destroy(tolk_stream* stream) {
  if (!stream) return;
  {
    std::lock_guard lock(stream->device->mutex);
    std::erase(stream->device->streams, stream);
  }
  uncount(stream->device->ordinal, &tb_counters::live_streams);
  delete stream;
}

tolk_status stream_synchronize(tolk_stream* stream, uint64_t timeout_ns) {
  if (!stream) return TOLK_OK;
  count(stream->device->ordinal, &tb_counters::stream_synchronize);
  if (!stream->mark()->wait(timeout_ns)) return TOLK_TIMEOUT;
  return stream->take_failure();
}

tolk_status stream_wait(tolk_stream* stream, tolk_event* event) {
  if (!stream) return TOLK_OK;
  count(stream->device->ordinal, &tb_counters::stream_wait);
  std::shared_ptr<Signal> signal;
  {
    std::lock_guard lock(event->mutex);
    signal = event->signal;
  }
  if (!signal) return TOLK_OK;
  stream->submit([signal]() -> Failure {
    signal->wait(TOLK_FOREVER);
    return {};
  });
  return TOLK_OK;
}

tolk_status event_create(tolk_device* device, uint32_t, tolk_event** out) {
  return guarded([&]() -> tolk_status {
    *out = new tolk_event;
    (*out)->device = device;
    count(device->ordinal, &tb_counters::event_create);
    count(device->ordinal, &tb_counters::live_events);
    return TOLK_OK;
  });
}

tolk_status event_record(tolk_event* event, tolk_stream* stream) {
  return guarded([&]() -> tolk_status {
    count(event->device->ordinal, &tb_counters::event_record);
    std::lock_guard lock(event->mutex);
    if (event->signal && !event->signal->wait(0))
      return fail(TOLK_E_INVALID, "the event is recorded again before it is done");
    if (stream) {
      event->signal = stream->mark();
    } else {
      event->signal = std::make_shared<Signal>();
      event->signal->set();
    }
    return TOLK_OK;
  });
}

std::shared_ptr<Signal> signal_of(tolk_event* event) {
  std::lock_guard lock(event->mutex);
  return event->signal;
}

tolk_status event_query(tolk_event* event) {
  count(event->device->ordinal, &tb_counters::event_query);
  std::shared_ptr<Signal> signal = signal_of(event);
  return !signal || signal->wait(0) ? TOLK_OK : TOLK_NOT_READY;
}

tolk_status event_sync(tolk_event* event, uint64_t timeout_ns) {
  count(event->device->ordinal, &tb_counters::event_sync);
  std::shared_ptr<Signal> signal = signal_of(event);
  return !signal || signal->wait(timeout_ns) ? TOLK_OK : TOLK_TIMEOUT;
}

tolk_status event_elapsed(tolk_event* begin, tolk_event* end, uint64_t* ns) {
  std::shared_ptr<Signal> a = signal_of(begin), b = signal_of(end);
  if (!a || !b || !a->wait(0) || !b->wait(0)) return fail(TOLK_E_INVALID, "an event is not done");
  *ns = b->at_ns - a->at_ns;
  return TOLK_OK;
}

void event_destroy(tolk_event* event) {
  if (!event) return;
  count(event->device->ordinal, &tb_counters::event_destroy);
  uncount(event->device->ordinal, &tb_counters::live_events);
  delete event;
}

constexpr tolk_stream_vt make_table() {
  tolk_stream_vt t{};
  t.struct_size = sizeof t;
  t.copy_in = copy_in;
  t.copy_out = copy_out;
  t.copy = copy;
  t.fill = fill;
  t.create = stream_create;
  t.destroy = stream_destroy;
  t.synchronize = stream_synchronize;
  t.wait = stream_wait;
  t.event_create = event_create;
  t.event_record = event_record;
  t.event_query = event_query;
  t.event_sync = event_sync;
  t.event_elapsed = event_elapsed;
  t.event_destroy = event_destroy;
  return t;
}

} // namespace

constinit const tolk_stream_vt kStreamTable = make_table();

} // namespace tb

tolk_stream::tolk_stream(tolk_device* on)
    : device(on), number(tb::next_stream++), worker_([this] { loop(); }) {}

tolk_stream::~tolk_stream() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  worker_.join();
}

void tolk_stream::loop() {
  tb::on_worker = true;
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stop_ || !queue_.empty(); });
    if (queue_.empty()) return;
    std::function<tb::Failure()> work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    tb::Failure f = work();
    work = nullptr;
    lock.lock();
    if (f.status != TOLK_OK && failure_.status == TOLK_OK) failure_ = std::move(f);
  }
}

void tolk_stream::submit(std::function<tb::Failure()> work) {
  std::lock_guard lock(mutex_);
  queue_.push_back(std::move(work));
  changed_.notify_all();
}

tolk_status tolk_stream::submit_and_wait(std::function<tb::Failure()> work) {
  submit(std::move(work));
  mark()->wait(TOLK_FOREVER);
  return take_failure();
}

std::shared_ptr<tb::Signal> tolk_stream::mark() {
  auto signal = std::make_shared<tb::Signal>();
  submit([signal]() -> tb::Failure {
    signal->set();
    return {};
  });
  return signal;
}

tolk_status tolk_stream::take_failure() {
  std::lock_guard lock(mutex_);
  if (failure_.status == TOLK_OK) return TOLK_OK;
  tb::Failure f = std::move(failure_);
  failure_ = {};
  return tb::fail(f.status, f.text);
}
