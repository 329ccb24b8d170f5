// Conformance cases on conduct: threads, the floating-point mode, output, descriptors, shutdown.
#include "session.h"

#include <cfenv>
#include <csignal>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <thread>
#include <unistd.h>

#include "case.h"
#include "kernels.h"
#include "tolk/base/clock.h"

namespace conformance {
namespace {

// Everything a plugin does in one go.
void session(Session& s) {
  s.open();
  auto a = s.buffer(4096), b = s.buffer(4096);
  s.write({b.get(), 0, 4096}, Bytes(4096, 1).data());
  Loaded kernel = s.kernel(add_to());
  s.launch(kernel.kernel, {{a.get(), 0, 4096}, {b.get(), 0, 4096}}, {1}, 1024);
  s.sync();
  s.read(a.get(), 4096);
}

void fp_env(Session& s) {
  const int modes[] = {FE_UPWARD, FE_TONEAREST};
  for (int mode : modes) {
    std::fesetround(mode);
    session(s);
    const int after = std::fegetround();
    std::fesetround(FE_TONEAREST);
    expect(after == mode, "the rounding mode as it was", "another after a session");
  }
}

void signals(Session& s) {
  struct sigaction before[32], after[32];
  for (int i = 1; i < 32; i++) sigaction(i, nullptr, &before[i]);
  session(s);
  for (int i = 1; i < 32; i++) {
    sigaction(i, nullptr, &after[i]);
    expect(before[i].sa_handler == after[i].sa_handler, fmt::format("the handler of signal {} as it was", i),
           "another after a session");
  }
}

void environment(Session& s) {
  auto snapshot = [] {
    std::string all = std::filesystem::current_path().string() +
                      setlocale(LC_ALL, nullptr); // NOLINT(concurrency-mt-unsafe)
    for (char** e = environ; *e; e++) all += *e;
    return all;
  };
  const std::string before = snapshot();
  session(s);
  expect(snapshot() == before, "environment, folder and locale as they were", "others after a session");
}

// Standard output and error go to a file for the time of a session.
void no_stdout(Session& s) {
  char path[] = "/tmp/tolk-conformance-XXXXXX";
  const int file = mkostemp(path, O_CLOEXEC);
  expect(file >= 0, "a temporary file", "none");
  unlink(path);
  const int out = dup(1), err = dup(2);
  dup2(file, 1), dup2(file, 2);
  std::string failure;
  try {
    session(s);
  } catch (const Failed& f) {
    failure = f.text;
  }
  std::fflush(stdout), std::fflush(stderr);
  dup2(out, 1), dup2(err, 2);
  ::close(out), ::close(err);
  char text[200] = {};
  const ssize_t n = pread(file, text, sizeof text - 1, 0);
  ::close(file);
  expect(failure.empty(), "a session that works", failure);
  expect(n <= 0, "nothing printed",
         fmt::format("\"{}\"", std::string(text, static_cast<size_t>(std::max<ssize_t>(0, n)))));
}

void cloexec(Session& s) {
  std::vector<int> before;
  auto list = [] {
    std::vector<int> open;
    for (int fd = 3; fd < 1024; fd++)
      if (fcntl(fd, F_GETFD) >= 0) open.push_back(fd);
    return open;
  };
  before = list();
  session(s);
  for (int fd : list()) {
    if (std::find(before.begin(), before.end(), fd) != before.end()) continue;
    std::error_code ec;
    expect(fcntl(fd, F_GETFD) & FD_CLOEXEC, "descriptors opened close-on-exec",
           std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", fd), ec).string() + " without");
  }
}

void create_destroy(Session& s) {
  s.open();
  std::vector<std::thread> threads;
  std::vector<std::string> problems(8);
  for (size_t t = 0; t < 8; t++)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200 && problems[t].empty(); i++) {
        tolk_buffer* b = nullptr;
        const tolk_status status = s.create(1000 + 8 * t, 0, TOLK_BUFFER_DEVICE, 0, &b);
        if (status != TOLK_OK || !b)
          problems[t] = fmt::format("status {}", status);
        else
          s.plugin().buffer.destroy(b);
      }
    });
  for (std::thread& t : threads) t.join();
  for (const std::string& p : problems) expect(p.empty(), "buffers made and destroyed on eight threads", p);
}

void stream_per_thread(Session& s) {
  if (s.caps().streams_max < 4) throw Skipped{"four streams"};
  Loaded kernel = s.kernel(add_value());
  std::vector<std::thread> threads;
  std::vector<std::string> problems(4);
  for (size_t t = 0; t < 4; t++)
    threads.emplace_back([&, t] {
      try {
        auto stream = s.new_stream();
        auto data = s.buffer(64);
        s.write({data.get(), 0, 64}, Bytes(64).data(), stream.get());
        for (int i = 0; i < 200; i++)
          s.launch(kernel.kernel, {{data.get(), 0, 64}}, {t + 1}, 16, stream.get());
        const Bytes found = s.read({data.get(), 0, 64}, stream.get());
        uint32_t word;
        std::memcpy(&word, found.data(), 4);
        if (word != 200 * (t + 1)) problems[t] = fmt::format("{} instead of {}", word, 200 * (t + 1));
      } catch (const Failed& f) {
        problems[t] = f.text;
      }
    });
  for (std::thread& t : threads) t.join();
  for (const std::string& p : problems) expect(p.empty(), "sums of four threads, each with a stream", p);
}

size_t entries(const char* folder) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

// Sessions leave nothing: host memory, descriptors, threads; resident memory stays flat.
void session_leak(Session& s) {
  auto resident = [] {
    long pages = 0, skip = 0;
    if (FILE* f = std::fopen("/proc/self/statm", "re")) {
      if (std::fscanf(f, "%ld %ld", &skip, &pages) != 2) pages = 0; // NOLINT(cert-err34-c)
      std::fclose(f);
    }
    return pages * sysconf(_SC_PAGESIZE);
  };
  for (int i = 0; i < 5; i++) session(s);
  const uint64_t blocks = s.host().live_allocations;
  const size_t files = entries("/proc/self/fd"), threads = entries("/proc/self/task");
  const long before = resident();
  for (int i = 0; i < 15; i++) {
    auto block = s.buffer(4 << 20);
    s.write({block.get(), 0, 4 << 20}, Bytes(4 << 20, 1).data());
    session(s);
  }
  expect(s.host().live_allocations <= blocks + 8,
         fmt::format("{} blocks of host.mem_alloc after 15 sessions", blocks),
         std::to_string(s.host().live_allocations));
  expect(entries("/proc/self/fd") <= files, fmt::format("{} descriptors after 15 sessions", files),
         std::to_string(entries("/proc/self/fd")));
  expect(entries("/proc/self/task") <= threads + 1, fmt::format("{} threads after 15 sessions", threads),
         std::to_string(entries("/proc/self/task")));
  expect(resident() - before < 40 << 20, "resident memory that stays flat over 15 sessions of 4 MiB",
         fmt::format("{} MiB more", (resident() - before) >> 20));
}

void shutdown_time(Session& s) {
  const size_t threads = entries("/proc/self/task");
  session(s);
  s.close();
  const uint64_t begin = tolk::now_ns();
  s.plugin().table.shutdown(s.plugin().self);
  const uint64_t took = tolk::now_ns() - begin;
  expect(took < 5'000'000'000, "shutdown within 5 s", fmt::format("{} ms", took / 1'000'000));
  for (int i = 0; i < 50 && entries("/proc/self/task") > threads; i++)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  if (s.plugin().table.shutdown)
    expect(s.host().live_allocations == 0, "no block of host.mem_alloc after shutdown",
           std::to_string(s.host().live_allocations));
}

void enum_parallel(Session& s) {
  uint32_t wanted = 0;
  ok(s.plugin().table.device_count(s.plugin().self, &wanted), "device_count");
  std::vector<std::thread> threads;
  bool same[16] = {};
  for (bool& result : same)
    threads.emplace_back([&] {
      for (int i = 0; i < 50; i++) {
        uint32_t n = 0;
        const tolk_device_info* info = nullptr;
        result = s.plugin().table.device_count(s.plugin().self, &n) == TOLK_OK && n == wanted &&
                 (n == 0 || (s.plugin().table.device_info(s.plugin().self, 0, &info) == TOLK_OK && info));
        if (!result) return;
      }
    });
  for (std::thread& t : threads) t.join();
  for (bool result : same) expect(result, "the same devices on sixteen threads", "another answer");
}

void shutdown_no_devices(Session& s) { s.plugin().table.shutdown(s.plugin().self); }

constexpr Case kCases[] = {
    {"comp.no_stdout", Tier::Required, kDevice, no_stdout},
    {"thread.enum_parallel", Tier::Required, kNothing, enum_parallel},
    {"thread.create_destroy", Tier::Required, kDevice, create_destroy},
    {"thread.stream_per_thread", Tier::Optional, kDevice | kValues | kStreams, stream_per_thread},
    {"thread.fp_env", Tier::Required, kNothing, fp_env},
    {"thread.signals", Tier::Required, kNothing, signals},
    {"proc.env_untouched", Tier::Required, kNothing, environment},
    {"life.descriptors_cloexec", Tier::Required, kNothing, cloexec},
    {"life.session_leak", Tier::Required, kDevice, session_leak},
    {"life.shutdown_time", Tier::Required, kNothing, shutdown_time},
    {"life.shutdown_no_devices", Tier::Required, kNothing, shutdown_no_devices},
};

} // namespace

std::span<const Case> fault_cases() { return kCases; }

} // namespace conformance
