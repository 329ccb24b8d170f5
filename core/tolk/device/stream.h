// Queues of work on a device, and points in them that can be waited for.
//
//   Event e = a.compute().all_work();      // everything submitted to a so far
//   b.compute().will_wait_for(e);          // later work of b starts after it; the host goes on
//   e.sync();                              // the host waits
//
// A device has one in-order compute stream and, where it copies beside computing, one in-order copy stream.
// On a synchronous device each operation is complete when its call returns: events are done, waits are the
// host's.
//
// Order between streams is inferred from the storage that operations use: each Storage knows its last write and
// the reads since (UseState), `before` makes a stream wait for what conflicts, `after` records the operation.
// Work within a stream needs no event for that. An asynchronous failure is kept and thrown by every later use
// of the stream.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include <tolk/plugin/tolk_plugin.h>

#include "tolk/base/api.h"
#include "tolk/device/storage.h"

namespace tolk {

struct EventState; // stream.cpp

// A value; copies share the point. Default-constructed: done. Any thread.
class TOLK_API Event {
public:
  Event() = default;
  // Never blocks; true also when the work failed.
  bool is_done() const;
  // Blocks the host; cheap when repeated. Throws the stream's DeviceError when work on it failed.
  void sync() const;
  // The stream it was taken on; null for one that was done from the start.
  Stream* stream() const;

private:
  friend class Stream;
  explicit Event(std::shared_ptr<EventState> state) : state_(std::move(state)) {}
  std::shared_ptr<EventState> state_;
};

// The submission locks of devices, each once, always taken in the order of the devices' numbers.
class SubmitLock {
public:
  explicit SubmitLock(Device& device);
  SubmitLock(Device& a, Device& b);
  explicit SubmitLock(std::span<Device* const> devices);

private:
  std::unique_lock<std::mutex> first_, second_;
  std::vector<std::unique_lock<std::mutex>> more_;
};

class TOLK_API Stream {
public:
  enum class Kind : uint8_t { Compute, Copy };

  Device& device() const { return device_; }
  Kind kind() const { return kind_; }
  bool synchronous() const { return handle_ == nullptr; }

  // Done when everything submitted so far is; done already when the stream is known to be idle.
  Event all_work();
  // Later work of this stream starts after the event. Returns at once, except on a synchronous device and for
  // an event of another plugin, where the host waits. Events of this stream and done ones are dropped.
  void will_wait_for(const Event& event);
  // Blocks the host until the stream is idle. Throws DeviceError when work on it failed, now or earlier.
  void await();
  // Never blocks.
  bool is_idle();

  // --- for this layer. Between `before` and `after` the caller holds the SubmitLock of the stream's device
  // and of every storage's, and submits one operation to handle().
  Stream(Device& device, Kind kind, tolk_stream* handle) : device_(device), kind_(kind), handle_(handle) {}
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  tolk_stream* handle() const { return handle_; }
  // Orders the next operation after earlier ones that conflict. Throws what failed on this stream earlier.
  void before(std::span<const Use> uses);
  void after(std::span<const Use> uses);
  // The same for an operation without storage of its own.
  void require_sound() const {
    if (failed_.load(std::memory_order_acquire)) [[unlikely]]
      throw_failure();
  }
  // For the status of a submission: throws, and keeps what only earlier work can have caused. NOT_READY and
  // other positive statuses belong to waits; a submission that answers one has not said what it did.
  void check(tolk_status status, std::string_view doing) {
    if (status != TOLK_OK) [[unlikely]]
      fail(status, doing, false);
  }
  // For the status of a wait: every error belongs to work of the stream, which is idle in any case.
  void check_wait(tolk_status status, std::string_view doing);
  // Waits without throwing; what failed is kept. The lock is held.
  void settle();
  // The host waits for everything that touches the storage (only its writes, when it is to be read). The lock
  // of the storage's device is held.
  static void host_waits_for(Storage& storage, bool to_write);
  // What is not done yet among the uses of a storage. The lock of the storage's device is held.
  static std::vector<Event> pending(Storage& storage);
  uint64_t submitted() const { return seq_; }
  bool is_complete(uint64_t value) const { return value <= completed_.load(std::memory_order_acquire); }
  void note_complete(uint64_t value);
  // Keeps something until the operation that was noted last is done. Waits when very much is kept.
  void retain(std::shared_ptr<const void> what);
  void drop_handle() { handle_ = nullptr; } // at close

private:
  friend class Event;
  friend struct EventState;
  friend class EventPool;
  using Waited = std::vector<std::pair<Stream*, uint64_t>>;

  void require(Seq seq);
  bool covered(Seq seq) const; // needs no wait of this stream
  std::shared_ptr<EventState> event_for(uint64_t value);
  std::shared_ptr<EventState> tail_event();
  void wait_for(const std::shared_ptr<EventState>& event);
  static void note_waited(Waited& waited, Stream* stream, uint64_t value);
  [[noreturn]] void fail(tolk_status status, std::string_view doing, bool waiting);
  [[noreturn]] void throw_failure() const;
  void keep_failure(tolk_status status);

  Device& device_;
  Kind kind_;
  tolk_stream* handle_;
  uint64_t seq_ = 0;
  std::atomic<uint64_t> completed_{0};
  std::vector<std::pair<uint64_t, std::shared_ptr<const void>>> retained_; // until that number is done
  Waited waited_;            // how far the work of other streams is waited for by this one's queue
  mutable std::mutex mutex_; // tail_, failure_; taken last of all
  std::shared_ptr<EventState> tail_;
  std::string failure_;
  std::atomic<bool> failed_{false};
};

// Event handles of one device, kept for reuse: at most kKept idle ones.
class EventPool {
public:
  static constexpr size_t kKept = 16;
  explicit EventPool(Device& device) : device_(device) {}
  tolk_event* take();
  void put_back(EventState* state);
  void add(EventState* state);
  void destroy_all(); // at close; events that live become done

private:
  Device& device_;
  std::mutex mutex_;
  std::vector<tolk_event*> idle_;
  std::unordered_set<EventState*> live_;
};

// Lines for logs and messages, each naming the device.
TOLK_API std::string describe(const Stream& stream);
TOLK_API std::string describe(const Event& event);

} // namespace tolk
