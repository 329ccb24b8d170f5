// What the files of the instrumented backend share: the objects behind the handles, and the bookkeeping that
// control.h shows to tests.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <tolk/plugin/tolk_plugin.h>

#include "control.h"
#include "interp.h"

namespace tb {

extern const tolk_host* host;
tolk_status fail(tolk_status code, const std::string& text);

// Runs `body`; what it throws becomes a status and a sentence.
tolk_status guarded(const std::function<tolk_status()>& body);

// ---- bookkeeping (control.cpp); `ordinal` is TB_ALL for what belongs to no device

void count(uint32_t ordinal, uint64_t tb_counters::* field, uint64_t n = 1);
void uncount(uint32_t ordinal, uint64_t tb_counters::* field, uint64_t n = 1);
void record(const tb_record& r);
// The status of an injected failure that is due now, with its text in the host; TOLK_OK otherwise.
tolk_status injected(uint32_t ordinal, uint32_t place);
// The same without telling the host: for workers, whose text the stream delivers later.
struct Failure {
  tolk_status status = TOLK_OK;
  std::string text;
};
Failure injected_quietly(uint32_t ordinal, uint32_t place);
extern thread_local bool on_worker; // set on the threads of streams
void wait_for_kernel(uint32_t ordinal);
void wait_for_copy(uint32_t ordinal);
// Replaces a measured time when the test has a table of times.
uint64_t reported_time(const tb_record& launch, uint64_t measured);
bool shuffled();
tb_options current_options();
const tb_control* control_table();

// ---- work

struct Range { // of a buffer that the host promised to keep
  std::byte* data = nullptr;
  uint64_t offset = 0, size = 0, storage = 0;
  bool writable = true;
};

// A launch that owns its arguments.
struct KernelWork {
  std::shared_ptr<const tolk_interp::Program> program;
  uint32_t grid[3] = {1, 1, 1}, local[3] = {1, 1, 1};
  std::vector<Range> buffers;
  std::vector<uint64_t> values;
};
// Runs on the calling thread, after the device's delay.
Failure run_kernel(uint32_t ordinal, const KernelWork& work);
Failure run_copy(uint32_t ordinal, const Range& dst, const Range& src);
Failure run_fill(uint32_t ordinal, const Range& dst, uint64_t pattern, uint32_t pattern_bytes);
// `launch` with its refs checked; fails with a text.
tolk_status take_launch(const tolk_kernel* kernel, const tolk_launch* launch, KernelWork& out);
tolk_status take_range(tolk_ref ref, Range& out);
tb_record kernel_record(const tolk_device* device, const tolk_kernel* kernel, const KernelWork& work);
tb_record copy_record(uint32_t kind, uint32_t ordinal, const Range& dst, const Range& src);

// Completion of a point on a stream; shared by the event, the streams that wait for it and the worker.
struct Signal {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  uint64_t at_ns = 0;
  void set();
  bool wait(uint64_t timeout_ns); // false: it took longer
};

extern const tolk_stream_vt kStreamTable;
extern const tolk_graph_vt kGraphTable;
extern const tolk_program_vt kProgramTable;
extern const tolk_buffer_vt kBufferTable;

} // namespace tb

struct tolk_device {
  uint32_t ordinal = 0;
  tb_options options{};
  tolk_target target{};
  tolk_caps caps{};
  std::atomic<uint64_t> used_bytes{0}, peak_bytes{0}, buffer_count{0};
  std::mutex mutex; // streams
  std::vector<tolk_stream*> streams;
};

struct tolk_buffer {
  tolk_device* device = nullptr;
  std::byte* data = nullptr;
  uint64_t size = 0, number = 0;
  bool writable = true, owned = true;
  tolk_release_fn release = nullptr;
  void* release_arg = nullptr;
};

struct tolk_kernel {
  tolk_device* device = nullptr;
  std::shared_ptr<const tolk_interp::Program> program;
};

struct tolk_program {
  tolk_kernel kernel;
};

struct tolk_event {
  tolk_device* device = nullptr;
  std::mutex mutex;
  std::shared_ptr<tb::Signal> signal; // null: never recorded
};

// A queue with a worker. Work goes on after a failure; the first one waits for the stream's next call.
struct tolk_stream {
  tolk_device* device = nullptr;
  uint64_t number = 0;

  explicit tolk_stream(tolk_device* on);
  ~tolk_stream(); // runs what is queued
  void submit(std::function<tb::Failure()> work);
  // Submits and waits until it is done; the failure of this work is the result.
  tolk_status submit_and_wait(std::function<tb::Failure()> work);
  // Done when everything submitted so far is done.
  std::shared_ptr<tb::Signal> mark();
  // The first failure since the last call, told to the host.
  tolk_status take_failure();

private:
  void loop();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<tb::Failure()>> queue_;
  bool stop_ = false;
  tb::Failure failure_;
  std::thread worker_;
};
