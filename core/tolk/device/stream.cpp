#include "tolk/device/stream.h"

#include <algorithm>

#include <fmt/format.h>

#include "tolk/base/error.h"
#include "tolk/base/log.h"
#include "tolk/device/device.h"
#include "tolk/loader/plugin_loader.h"
#include "tolk/loader/status.h"

namespace tolk {

struct EventState {
  Stream& stream;
  uint64_t value;
  tolk_event* handle = nullptr; // null once the device was closed
  Stream::Waited waited;        // what the stream had waited for at this point
  std::atomic<bool> done{false};

  EventState(Stream& on, uint64_t at) : stream(on), value(at) {}
  ~EventState() { stream.device().events().put_back(this); }
  EventState(const EventState&) = delete;
  EventState& operator=(const EventState&) = delete;

  void set_done() {
    done.store(true, std::memory_order_release);
    stream.note_complete(value);
  }
  bool query() {
    if (done.load(std::memory_order_acquire) || stream.is_complete(value)) return true;
    if (!handle || !stream.device().alive()) return true;
    Plugin& plugin = stream.device().plugin();
    tolk_status status;
    {
      auto serial = plugin.serialize();
      status = plugin.stream.event_query(handle);
    }
    if (status == TOLK_NOT_READY || status == TOLK_TIMEOUT) return false;
    if (status < 0) stream.keep_failure(status);
    set_done();
    return true;
  }
  void wait() {
    if (query()) return;
    Plugin& plugin = stream.device().plugin();
    auto serial = plugin.serialize();
    tolk_status status = plugin.stream.event_sync(handle, TOLK_FOREVER);
    if (status < 0) stream.keep_failure(status);
    set_done();
  }
};

bool Event::is_done() const { return !state_ || state_->query(); }

void Event::sync() const {
  if (!state_) return;
  state_->wait();
  state_->stream.require_sound();
}

Stream* Event::stream() const { return state_ ? &state_->stream : nullptr; }

SubmitLock::SubmitLock(Device& device) : first_(device.submit_mutex()) {}

SubmitLock::SubmitLock(Device& a, Device& b) {
  Device& low = a.id() < b.id() ? a : b;
  first_ = std::unique_lock(low.submit_mutex());
  if (&a != &b) second_ = std::unique_lock((&low == &a ? b : a).submit_mutex());
}

SubmitLock::SubmitLock(std::span<Device* const> devices) {
  if (devices.size() == 1) {
    first_ = std::unique_lock(devices[0]->submit_mutex());
    return;
  }
  std::vector<Device*> sorted(devices.begin(), devices.end());
  std::sort(sorted.begin(), sorted.end(), [](Device* a, Device* b) { return a->id() < b->id(); });
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  for (Device* device : sorted) more_.emplace_back(device->submit_mutex());
}

Stream::~Stream() = default;

void Stream::note_complete(uint64_t value) {
  uint64_t before = completed_.load(std::memory_order_relaxed);
  while (before < value && !completed_.compare_exchange_weak(before, value, std::memory_order_acq_rel)) {
  }
}

void Stream::note_waited(Waited& waited, Stream* stream, uint64_t value) {
  for (auto& [known, upto] : waited)
    if (known == stream) {
      upto = std::max(upto, value);
      return;
    }
  waited.emplace_back(stream, value);
}

bool Stream::covered(Seq seq) const {
  if (seq.value == 0 || seq.stream == this || seq.stream->is_complete(seq.value)) return true;
  for (const auto& [stream, upto] : waited_)
    if (stream == seq.stream) return upto >= seq.value;
  return false;
}

// The tail's event: one for each state of the queue, however often it is asked for.
std::shared_ptr<EventState> Stream::tail_event() {
  {
    std::lock_guard lock(mutex_);
    if (tail_ && tail_->value == seq_) return tail_;
  }
  auto state = std::make_shared<EventState>(*this, seq_);
  state->handle = device_.events().take();
  device_.events().add(state.get());
  state->waited = waited_;
  Plugin& plugin = device_.plugin();
  {
    auto serial = plugin.serialize();
    check(plugin.stream.event_record(state->handle, handle_), "recording an event");
  }
  std::shared_ptr<EventState> previous; // goes after the lock
  std::lock_guard lock(mutex_);
  previous = std::exchange(tail_, state);
  return state;
}

// An event at or behind `value`. Work on storage of a device that the caller has not locked recorded its
// event when it was submitted, so then nothing is recorded here.
std::shared_ptr<EventState> Stream::event_for(uint64_t value) {
  {
    std::lock_guard lock(mutex_);
    if (tail_ && tail_->value >= value) return tail_;
  }
  return tail_event();
}

void Stream::wait_for(const std::shared_ptr<EventState>& event) {
  if (synchronous() || &event->stream.device().plugin() != &device_.plugin()) {
    event->wait();
    event->stream.require_sound();
    return;
  }
  Plugin& plugin = device_.plugin();
  auto serial = plugin.serialize();
  if (event->handle) check(plugin.stream.wait(handle_, event->handle), "waiting for an event");
  note_waited(waited_, &event->stream, event->value);
  for (const auto& [stream, upto] : event->waited)
    if (stream != this) note_waited(waited_, stream, upto);
}

void Stream::require(Seq seq) {
  if (!covered(seq)) wait_for(seq.stream->event_for(seq.value));
}

void Stream::before(std::span<const Use> uses) {
  require_sound();
  for (const Use& use : uses) {
    UseState& state = use.storage->uses;
    require(state.last_write);
    if (!use.write) continue;
    for (const Seq& read : state.reads) require(read);
  }
}

void Stream::after(std::span<const Use> uses) {
  if (synchronous()) {
    // What conflicted was waited for, and this operation is done.
    for (const Use& use : uses) {
      if (use.write)
        use.storage->uses.clear();
      else
        use.storage->uses.last_write = {};
    }
    return;
  }
  const Seq now{this, ++seq_};
  bool foreign = false;
  for (const Use& use : uses) {
    foreign |= &use.storage->device != &device_;
    UseState& state = use.storage->uses;
    if (use.write) {
      state.last_write = now;
      state.reads.clear();
      continue;
    }
    auto own = std::find_if(state.reads.begin(), state.reads.end(),
                            [this](const Seq& read) { return read.stream == this; });
    if (own != state.reads.end()) {
      own->value = now.value;
    } else {
      std::erase_if(state.reads, [](const Seq& read) { return read.stream->is_complete(read.value); });
      state.reads.push_back(now);
    }
  }
  // Whoever uses that storage next may hold the lock of its device alone.
  if (foreign) tail_event();
}

void Stream::retain(std::shared_ptr<const void> what) {
  constexpr size_t kMany = 1024;
  if (retained_.size() >= kMany) {
    std::erase_if(retained_, [this](const auto& kept) { return is_complete(kept.first); });
    if (retained_.size() >= kMany) {
      settle();
      retained_.clear();
    }
  }
  retained_.emplace_back(seq_, std::move(what));
}

Event Stream::all_work() {
  device_.require_usable();
  SubmitLock lock(device_);
  if (synchronous() || is_complete(seq_)) return {};
  return Event(tail_event());
}

void Stream::will_wait_for(const Event& event) {
  if (!event.state_ || &event.state_->stream == this || event.is_done()) return;
  device_.require_usable();
  SubmitLock lock(device_);
  wait_for(event.state_);
  seq_++; // the wait is work: an event taken now is done no earlier
}

void Stream::settle() {
  if (synchronous()) return;
  Plugin& plugin = device_.plugin();
  tolk_status status;
  {
    auto serial = plugin.serialize();
    status = plugin.stream.synchronize(handle_, TOLK_FOREVER);
  }
  note_complete(seq_);
  if (status < 0) keep_failure(status);
}

void Stream::await() {
  device_.require_usable();
  SubmitLock lock(device_);
  settle();
  require_sound();
}

bool Stream::is_idle() {
  if (synchronous() || !device_.alive()) return true;
  return all_work().is_done();
}

void Stream::check_wait(tolk_status status, std::string_view doing) {
  note_complete(seq_);
  if (status < 0) [[unlikely]]
    fail(status, doing, true);
}

void Stream::host_waits_for(Storage& storage, bool to_write) {
  auto wait = [](const Seq& seq) {
    if (seq.value != 0 && !seq.stream->is_complete(seq.value)) {
      seq.stream->event_for(seq.value)->wait();
      seq.stream->require_sound();
    }
  };
  wait(storage.uses.last_write);
  storage.uses.last_write = {};
  if (!to_write) return;
  for (const Seq& read : storage.uses.reads) wait(read);
  storage.uses.reads.clear();
}

std::vector<Event> Stream::pending(Storage& storage) {
  std::vector<Event> events;
  auto add = [&](const Seq& seq) {
    if (seq.value == 0 || seq.stream->synchronous() || seq.stream->is_complete(seq.value)) return;
    events.push_back(Event(seq.stream->event_for(seq.value)));
  };
  add(storage.uses.last_write);
  for (const Seq& read : storage.uses.reads) add(read);
  return events;
}

void Stream::keep_failure(tolk_status status) {
  std::string text = take_error_text(status) + " (" + status_name(status) + ")";
  if (status == TOLK_E_DEVICE_LOST) device_.note_lost();
  std::lock_guard lock(mutex_);
  if (failure_.empty()) failure_ = std::move(text);
  failed_.store(true, std::memory_order_release);
}

void Stream::throw_failure() const {
  std::lock_guard lock(mutex_);
  throw DeviceError(device_.get_name() + ": work submitted earlier failed: " + failure_);
}

void Stream::fail(tolk_status status, std::string_view doing, bool waiting) {
  if (status > 0)
    throw DeviceError(fmt::format("{}: {} answered {} (status {}), which only waits may answer",
                                  device_.name(), doing, status_name(status), status));
  // A refused argument is that of this call. The rest can only come from asynchronous work.
  bool own = synchronous() || status == TOLK_E_DEVICE_LOST;
  if (!waiting)
    own |= status != TOLK_E_KERNEL_FAULT && status != TOLK_E_IO && status != TOLK_E_INTERNAL &&
           status != TOLK_E_SYSTEM;
  if (!own) {
    keep_failure(status);
    throw_failure();
  }
  device_.check(status, doing);
  throw InternalError("a failed status was taken for a success");
}

tolk_event* EventPool::take() {
  {
    std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      tolk_event* event = idle_.back();
      idle_.pop_back();
      return event;
    }
  }
  tolk_event* event = nullptr;
  auto serial = device_.plugin().serialize();
  device_.check(device_.plugin().stream.event_create(device_.handle(), 0, &event), "making an event");
  return event;
}

void EventPool::add(EventState* state) {
  std::lock_guard lock(mutex_);
  live_.insert(state);
}

void EventPool::put_back(EventState* state) {
  const bool done = state->query();
  std::lock_guard lock(mutex_);
  live_.erase(state);
  if (!state->handle) return;
  if (!device_.alive()) return; // the plugin's side went with the device
  if (done && idle_.size() < kKept) {
    idle_.push_back(state->handle);
    return;
  }
  auto serial = device_.plugin().serialize();
  device_.plugin().stream.event_destroy(state->handle);
}

void EventPool::destroy_all() {
  std::lock_guard lock(mutex_);
  auto serial = device_.plugin().serialize();
  for (tolk_event* event : idle_) device_.plugin().stream.event_destroy(event);
  idle_.clear();
  for (EventState* state : live_) {
    state->done.store(true, std::memory_order_release);
    if (state->handle) device_.plugin().stream.event_destroy(state->handle);
    state->handle = nullptr;
  }
}

std::string describe(const Stream& stream) {
  return std::string(stream.kind() == Stream::Kind::Compute ? "compute" : "copy") + " stream of " +
         stream.device().get_name() + (stream.synchronous() ? ", synchronous" : "");
}

std::string describe(const Event& event) {
  if (!event.stream()) return "event that is done";
  return "event on the " + describe(*event.stream()) + (event.is_done() ? ", done" : ", not done");
}

} // namespace tolk
