// Counters, records, failures, delays, holds and times.
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <map>

#include "state.h"

namespace tb {
namespace {

constexpr size_t kMaxRecords = 65536;

tb_options defaults() {
  tb_options o{};
  o.graph = TOLK_GRAPH_KERNELS | TOLK_GRAPH_COPIES | TOLK_GRAPH_FILLS | TOLK_GRAPH_CROSS_DEVICE |
            TOLK_GRAPH_UPDATE_BUFFERS | TOLK_GRAPH_UPDATE_VALUES | TOLK_GRAPH_UPDATE_SIZES;
  o.copy_hook = o.fill_hook = o.host_map = o.offset_views = o.non_uniform = o.reports_time = 1;
  o.local_max = 1024;
  o.buffer_align = 64;
  o.offset_align = 1;
  o.grid_max = INT32_MAX;
  o.shared_bytes = 64 << 10;
  o.dtype_storage = (uint64_t{1} << TOLK_DTYPE_COUNT) - 1;
  return o;
}

struct Injection {
  uint32_t ordinal, place;
  uint64_t skip, left; // left UINT64_MAX: all that follow
  tolk_status status;
  std::string text;
};

struct Delay {
  uint64_t kernel_us = 0, copy_us = 0;
};

struct Book {
  std::mutex mutex;
  tb_options options = defaults();
  std::map<uint32_t, tb_counters> counters;
  std::vector<tb_record> records;
  std::vector<Injection> injections;
  std::map<uint32_t, Delay> delays;
  std::map<uint32_t, uint32_t> holds; // TB_HOLD_*, by ordinal
  std::condition_variable let_go;     // after a change of holds
  uint64_t (*time_of)(void*, const tb_record*) = nullptr;
  void* time_arg = nullptr;
  bool shuffle = false;
};

// Never destroyed: workers and late destructors may still count.
Book& book() {
  static auto* b = new Book;
  return *b;
}

bool is_live(const char* name) { return std::strncmp(name, "live_", 5) == 0; }

void read_counters(uint32_t ordinal, tb_counters* out) {
  std::lock_guard lock(book().mutex);
  *out = {};
  for (const auto& [device, c] : book().counters) {
    if (ordinal != TB_ALL && ordinal != device) continue;
#define TB_ADD(name) out->name += c.name;
    TB_COUNTERS(TB_ADD)
#undef TB_ADD
  }
}

void reset() {
  std::lock_guard lock(book().mutex);
  for (auto& [device, c] : book().counters) {
#define TB_CLEAR(name)                                                                                       \
  if (!is_live(#name)) c.name = 0;
    TB_COUNTERS(TB_CLEAR)
#undef TB_CLEAR
  }
  book().options = defaults();
  book().records.clear();
  book().injections.clear();
  book().delays.clear();
  book().holds.clear();
  book().let_go.notify_all();
  book().time_of = nullptr;
  book().time_arg = nullptr;
  book().shuffle = false;
}

uint64_t record_count() {
  std::lock_guard lock(book().mutex);
  return book().records.size();
}

int read_record(uint64_t index, tb_record* out) {
  std::lock_guard lock(book().mutex);
  if (index >= book().records.size()) return 0;
  *out = book().records[index];
  return 1;
}

void inject(uint32_t ordinal, uint32_t place, uint64_t nth, uint64_t n, tolk_status status,
            const char* text) {
  std::lock_guard lock(book().mutex);
  book().injections.push_back(
      {ordinal, place, nth ? nth - 1 : 0, n ? n : UINT64_MAX, status, text ? text : ""});
}

void set_delay(uint32_t ordinal, uint64_t kernel_us, uint64_t copy_us) {
  std::lock_guard lock(book().mutex);
  book().delays[ordinal] = {kernel_us, copy_us};
}

void set_times(uint64_t (*time_of)(void*, const tb_record*), void* arg) {
  std::lock_guard lock(book().mutex);
  book().time_of = time_of;
  book().time_arg = arg;
}

void set_shuffle(uint32_t on) {
  std::lock_guard lock(book().mutex);
  book().shuffle = on != 0;
}

Delay delay_of(uint32_t ordinal) {
  std::lock_guard lock(book().mutex);
  auto it = book().delays.find(ordinal);
  if (it == book().delays.end()) it = book().delays.find(TB_ALL);
  return it == book().delays.end() ? Delay{} : it->second;
}

void set_hold(uint32_t ordinal, uint32_t kinds) {
  std::lock_guard lock(book().mutex);
  book().holds[ordinal] = kinds;
  book().let_go.notify_all();
}

void wait_while_held(uint32_t ordinal, uint32_t kind) {
  if (!on_worker) return;
  std::unique_lock lock(book().mutex);
  book().let_go.wait(lock, [&] {
    auto it = book().holds.find(ordinal);
    return it == book().holds.end() || !(it->second & kind);
  });
}

void sleep_us(uint64_t us) {
  if (us) std::this_thread::sleep_for(std::chrono::microseconds(us));
}

} // namespace

void count(uint32_t ordinal, uint64_t tb_counters::* field, uint64_t n) {
  std::lock_guard lock(book().mutex);
  book().counters[ordinal].*field += n;
}

void uncount(uint32_t ordinal, uint64_t tb_counters::* field, uint64_t n) {
  std::lock_guard lock(book().mutex);
  book().counters[ordinal].*field -= n;
}

void record(const tb_record& r) {
  std::lock_guard lock(book().mutex);
  if (book().records.size() < kMaxRecords) book().records.push_back(r);
}

Failure injected_quietly(uint32_t ordinal, uint32_t place) {
  std::lock_guard lock(book().mutex);
  Failure result;
  for (Injection& i : book().injections) {
    if (i.place != place || (i.ordinal != TB_ALL && i.ordinal != ordinal) || i.left == 0) continue;
    if (i.skip > 0) {
      i.skip--;
      continue;
    }
    if (i.left != UINT64_MAX) i.left--;
    if (result.status == TOLK_OK) result = {i.status, i.text};
  }
  return result;
}

tolk_status injected(uint32_t ordinal, uint32_t place) {
  Failure f = injected_quietly(ordinal, place);
  return f.status == TOLK_OK ? TOLK_OK : fail(f.status, f.text);
}

thread_local bool on_worker = false;

void wait_for_kernel(uint32_t ordinal) {
  sleep_us(delay_of(ordinal).kernel_us);
  wait_while_held(ordinal, TB_HOLD_KERNELS);
}
void wait_for_copy(uint32_t ordinal) {
  sleep_us(delay_of(ordinal).copy_us);
  wait_while_held(ordinal, TB_HOLD_COPIES);
}

uint64_t reported_time(const tb_record& launch, uint64_t measured) {
  uint64_t (*time_of)(void*, const tb_record*);
  void* arg;
  {
    std::lock_guard lock(book().mutex);
    time_of = book().time_of;
    arg = book().time_arg;
  }
  return time_of ? time_of(arg, &launch) : measured;
}

bool shuffled() {
  static const bool from_environment = [] {
    const char* text = std::getenv("TOLK_TEST_SHUFFLE"); // NOLINT(concurrency-mt-unsafe): nothing writes it
    return text && *text && std::strcmp(text, "0") != 0;
  }();
  std::lock_guard lock(book().mutex);
  return book().shuffle || from_environment;
}

tb_options current_options() {
  std::lock_guard lock(book().mutex);
  return book().options;
}

const tb_control* control_table() {
  static const tb_control table = [] {
    tb_control t{};
    t.struct_size = sizeof t;
    t.options = &book().options;
    t.default_options = [](tb_options* out) { *out = defaults(); };
    t.counters = read_counters;
    t.reset = reset;
    t.record_count = record_count;
    t.record = read_record;
    t.fail = inject;
    t.delay = set_delay;
    t.hold = set_hold;
    t.times = set_times;
    t.shuffle = set_shuffle;
    return t;
  }();
  return &table;
}

} // namespace tb
