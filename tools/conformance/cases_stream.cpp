// Conformance cases on streams and events.
#include "session.h"

#include <cstring>
#include <fmt/format.h>
#include <thread>

#include "case.h"
#include "kernels.h"
#include "slow.h"
#include "tolk/base/clock.h"
#include "tolk/loader/status.h"

namespace conformance {
namespace {

void null_stream(Session& s) {
  if (s.raw().stream.create) throw Skipped{"a synchronous device"};
  auto data = s.buffer(4);
  const int32_t start = 1;
  s.write({data.get(), 0, 4}, &start);
  Loaded kernel = s.kernel(add_value());
  for (int i = 0; i < 10; i++) {
    s.launch(kernel.kernel, {{data.get(), 0, 4}}, {1}, 1);
    expect(word_of(s.read(data.get(), 4)) == static_cast<uint32_t>(i + 2),
           fmt::format("{} right after a launch", i + 2), "another value");
  }
}

void order(Session& s) {
  auto data = s.buffer(4);
  const int32_t start = 0;
  s.write({data.get(), 0, 4}, &start);
  Loaded kernel = s.kernel(add_value());
  for (int i = 0; i < 2000; i++) s.launch(kernel.kernel, {{data.get(), 0, 4}}, {1}, 1);
  s.sync();
  const uint32_t found = word_of(s.read(data.get(), 4));
  expect(found == 2000, "2000 after as many increments", std::to_string(found));
}

void fresh_done(Session& s) {
  auto event = s.new_event();
  ok(s.plugin().stream.event_query(event.get()), "event_query of an event that was never recorded");
  ok(s.plugin().stream.event_sync(event.get(), 0), "event_sync of an event that was never recorded");
}

// The event of a copy after slow work: when it is done, the copied bytes are there.
void covers(Session& s) {
  Slow slow(s);
  for (uint32_t round = 1; round <= 3; round++) {
    uint32_t host = 0xdeadbeef;
    auto event = s.new_event();
    slow.start(s.stream(), round);
    ok(s.plugin().stream.copy_out(s.stream(), &host, slow.result(), TOLK_COPY_ASYNC), "copy_out ASYNC");
    ok(s.plugin().stream.event_record(event.get(), s.stream()), "event_record");
    tolk_status status = s.plugin().stream.event_query(event.get());
    while (round == 2 && status == TOLK_NOT_READY) status = s.plugin().stream.event_query(event.get());
    if (round != 2) status = s.plugin().stream.event_sync(event.get(), TOLK_FOREVER);
    const uint32_t seen = host;
    s.sync();
    ok(status, round == 2 ? "event_query" : "event_sync");
    expect(seen == slow.wanted(round),
           fmt::format("{:#x} in host memory when the event is done", slow.wanted(round)),
           fmt::format("{:#x}", seen));
  }
}

void monotone(Session& s) {
  Slow slow(s);
  auto event = s.new_event();
  slow.start(s.stream(), 5);
  ok(s.plugin().stream.event_record(event.get(), s.stream()), "event_record");
  bool done = false;
  for (int i = 0; i < 2000000; i++) {
    const tolk_status status = s.plugin().stream.event_query(event.get());
    expect(status == TOLK_OK || status == TOLK_NOT_READY, "OK or NOT_READY from event_query",
           tolk::status_name(status));
    expect(!done || status == TOLK_OK, "an event that stays done", "NOT_READY after OK");
    done = status == TOLK_OK;
    if (done && i % 100 == 0) break;
  }
  s.sync();
  ok(s.plugin().stream.event_query(event.get()), "event_query after synchronize");
}

void not_after(Session& s) {
  Slow slow(s);
  auto event = s.new_event();
  s.sync();
  ok(s.plugin().stream.event_record(event.get(), s.stream()), "event_record");
  slow.start(s.stream(), 9);
  const tolk_status status = s.plugin().stream.event_sync(event.get(), TOLK_FOREVER);
  const bool running = s.plugin().stream.synchronize(s.stream(), 0) == TOLK_TIMEOUT;
  s.sync();
  ok(status, "event_sync");
  (void)running; // a device may run launches on the calling thread
}

void cross_stream(Session& s) {
  if (s.caps().streams_max < 2) throw Skipped{"two streams"};
  Slow slow(s);
  Loaded add = s.kernel(add_to());
  auto out = s.buffer(4);
  auto first = s.new_stream(), second = s.new_stream();
  for (uint32_t round = 0; round < 4; round++) {
    const uint32_t poison = 77;
    s.write({out.get(), 0, 4}, &poison, second.get());
    auto event = s.new_event();
    slow.start(first.get(), round);
    ok(s.plugin().stream.event_record(event.get(), first.get()), "event_record");
    ok(s.plugin().stream.wait(second.get(), event.get()), "wait");
    s.launch(add.kernel, {{out.get(), 0, 4}, slow.result()}, {3}, 1, second.get());
    const uint32_t found = word_of(s.read({out.get(), 0, 4}, second.get()));
    s.sync(first.get());
    expect(found == slow.wanted(round) + 3,
           fmt::format("{:#x} from a stream that waited for another", slow.wanted(round) + 3),
           fmt::format("{:#x}", found));
  }
}

void wait_done(Session& s) {
  auto event = s.new_event(), fresh = s.new_event();
  ok(s.plugin().stream.event_record(event.get(), s.stream()), "event_record");
  s.sync();
  ok(s.plugin().stream.wait(s.stream(), event.get()), "wait for an event that is done");
  ok(s.plugin().stream.wait(s.stream(), fresh.get()), "wait for an event that was never recorded");
  ok(s.plugin().stream.synchronize(s.stream(), 5'000'000'000), "synchronize after such waits");
}

void destroy_pending(Session& s) {
  Slow slow(s);
  slow.start(s.stream(), 3);
  {
    auto event = s.new_event();
    ok(s.plugin().stream.event_record(event.get(), s.stream()), "event_record");
  }
  s.sync();
  expect(word_of(s.read(slow.result())) == slow.wanted(3), "the result of work whose event was destroyed",
         "another");
}

void timeout(Session& s) {
  Slow slow(s);
  uint64_t least = UINT64_MAX;
  for (int attempt = 0; attempt < 3; attempt++) {
    auto event = s.new_event();
    slow.start(s.stream(), 4);
    slow.start(s.stream(), 4);
    ok(s.plugin().stream.event_record(event.get(), s.stream()), "event_record");
    const uint64_t begin = tolk::now_ns();
    const tolk_status stream = s.plugin().stream.synchronize(s.stream(), 0);
    least = std::min(least, tolk::now_ns() - begin);
    const tolk_status waited = s.plugin().stream.event_sync(event.get(), 1000);
    s.sync();
    for (tolk_status status : {stream, waited})
      expect(status == TOLK_OK || status == TOLK_TIMEOUT, "OK or TIMEOUT from a wait that has a limit",
             tolk::status_name(status));
    ok(s.plugin().stream.event_sync(event.get(), TOLK_FOREVER), "event_sync after the work");
    expect(word_of(s.read(slow.result())) == slow.wanted(4), "the result after a wait that expired",
           "another");
  }
  expect(least < slow.took_ns() / 2,
         fmt::format("an answer at once from synchronize(0), of work of {} ms", slow.took_ns() / 1'000'000),
         fmt::format("one after {} ms", least / 1'000'000));
}

void from_other_thread(Session& s) {
  Slow slow(s);
  auto event = s.new_event();
  slow.start(s.stream(), 8);
  ok(s.plugin().stream.event_record(event.get(), s.stream()), "event_record");
  tolk_status status = TOLK_E_INTERNAL;
  std::thread([&] { status = s.plugin().stream.event_sync(event.get(), TOLK_FOREVER); }).join();
  s.sync();
  ok(status, "event_sync on another thread");
  expect(word_of(s.read(slow.result())) == slow.wanted(8), "the result that another thread waited for",
         "another");
}

void stream_limit(Session& s) {
  std::vector<Owned<tolk_stream>> streams;
  for (uint32_t i = 0; i < std::min(s.caps().streams_max, 16u); i++) streams.push_back(s.new_stream());
  for (auto& stream : streams) s.sync(stream.get());
}

void elapsed(Session& s) {
  Slow slow(s);
  auto a = s.new_event(TOLK_EVENT_TIMING), b = s.new_event(TOLK_EVENT_TIMING),
       c = s.new_event(TOLK_EVENT_TIMING);
  ok(s.plugin().stream.event_record(a.get(), s.stream()), "event_record");
  slow.start(s.stream(), 1);
  ok(s.plugin().stream.event_record(b.get(), s.stream()), "event_record");
  slow.start(s.stream(), 2);
  ok(s.plugin().stream.event_record(c.get(), s.stream()), "event_record");
  s.sync();
  uint64_t ab = 0, bc = 0, ac = 0;
  ok(s.plugin().stream.event_elapsed(a.get(), b.get(), &ab), "event_elapsed");
  ok(s.plugin().stream.event_elapsed(b.get(), c.get(), &bc), "event_elapsed");
  ok(s.plugin().stream.event_elapsed(a.get(), c.get(), &ac), "event_elapsed");
  expect(ab > 0 && bc > 0, "times above 0 of slow work", fmt::format("{} and {} ns", ab, bc));
  expect(ac + 1000000 >= ab + bc && ac <= ab + bc + 1000000,
         fmt::format("the sum of both parts, {} ns", ab + bc), std::to_string(ac));
}

constexpr uint32_t kNeeds = kDevice | kValues | kStreams;
constexpr Case kCases[] = {
    {"sync.null_stream", Tier::Required, kDevice | kValues, null_stream},
    {"sync.order", Tier::Required, kDevice | kValues, order},
    {"sync.event_fresh_done", Tier::Optional, kNeeds, fresh_done},
    {"sync.event_monotone", Tier::Optional, kNeeds, monotone},
    {"sync.event_covers", Tier::Optional, kNeeds, covers},
    {"sync.event_not_after", Tier::Optional, kNeeds, not_after},
    {"sync.wait_cross_stream", Tier::Optional, kNeeds, cross_stream},
    {"sync.wait_done_event", Tier::Optional, kNeeds, wait_done},
    {"sync.destroy_pending", Tier::Optional, kNeeds, destroy_pending},
    {"sync.timeout", Tier::Optional, kNeeds, timeout},
    {"sync.sync_from_other_thread", Tier::Optional, kNeeds, from_other_thread},
    {"sync.stream_limit", Tier::Optional, kNeeds, stream_limit},
    {"sync.elapsed_order", Tier::Optional, kNeeds | kElapsed, elapsed},
};

} // namespace

std::span<const Case> stream_cases() { return kCases; }

} // namespace conformance
