// Runs cases, each in a child process of its own under a time limit.
#include "runner.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <functional>
#include <poll.h>
#include <stdexcept>
#include <sys/wait.h>
#include <unistd.h>

#include "session.h"
#include "tolk/base/clock.h"

namespace conformance {
namespace {

struct Child {
  pid_t pid = -1;
  int pipe = -1;
  uint64_t started = 0;
  size_t index = 0;
  std::string text;
  bool late = false;
};

// What the child writes to its pipe: a letter for the outcome, then the text.
std::string in_child(const Settings& settings, const Case& c) {
  try {
    Session s(settings.plugin, settings.oracle, settings.seed);
    try {
      if (c.needs & kDevice) s.open();
      if (const std::string missing = s.missing(c.needs); !missing.empty()) return "S" + missing;
      c.run(s);
      return "P";
    } catch (const Failed& failure) {
      return "F" + failure.text;
    } catch (const Skipped& skipped) {
      return "S" + skipped.capability;
    }
  } catch (const std::exception& error) {
    return std::string("R") + error.what();
  }
}

Child start(const std::function<std::string()>& work) {
  Child child;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe for a child process");
  std::fflush(stdout);
  child.started = tolk::now_ns();
  child.pid = fork();
  if (child.pid < 0) throw std::runtime_error("no child process");
  if (child.pid == 0) {
    ::close(ends[0]);
    const std::string text = work();
    for (size_t done = 0; done < text.size();) {
      const ssize_t n = write(ends[1], text.data() + done, text.size() - done);
      if (n <= 0) break;
      done += static_cast<size_t>(n);
    }
    _exit(0);
  }
  ::close(ends[1]);
  child.pipe = ends[0];
  return child;
}

// Reads what is there; false at the end.
bool drain(Child& child) {
  char bytes[4096];
  const ssize_t n = read(child.pipe, bytes, sizeof bytes);
  if (n > 0) child.text.append(bytes, static_cast<size_t>(n));
  return n > 0 || (n < 0 && errno == EINTR);
}

Result finish(Child& child, const Case* c) {
  ::close(child.pipe);
  int status = 0;
  while (waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {
  }
  Result r;
  r.c = c;
  r.ms = static_cast<double>(tolk::now_ns() - child.started) / 1e6;
  r.text = child.text.empty() ? std::string() : child.text.substr(1);
  const char mark = child.text.empty() ? '?' : child.text[0];
  if (child.late)
    r.outcome = Outcome::Timeout, r.text = "expected an end within the time limit, found none";
  else if (WIFSIGNALED(status))
    r.outcome = Outcome::Crash,
    r.text = fmt::format("expected an end, found signal {} ({})", WTERMSIG(status),
                         strsignal(WTERMSIG(status))); // NOLINT(concurrency-mt-unsafe)
  else if (mark == 'P')
    r.outcome = Outcome::Pass;
  else if (mark == 'S')
    r.outcome = Outcome::Skip;
  else if (mark == 'F')
    r.outcome = Outcome::Fail;
  else if (mark == 'R')
    r.outcome = Outcome::Refused;
  else
    r.outcome = Outcome::Crash,
    r.text = fmt::format("expected a result, found an exit with status {}", WEXITSTATUS(status));
  return r;
}

} // namespace

std::vector<Result> run_cases(const Settings& settings, const std::vector<const Case*>& cases) {
  std::vector<Result> results(cases.size());
  std::vector<Child> running;
  size_t next = 0;
  while (next < cases.size() || !running.empty()) {
    while (next < cases.size() && running.size() < static_cast<size_t>(settings.jobs)) {
      const Case* c = cases[next];
      running.push_back(start([&settings, c] { return in_child(settings, *c); }));
      running.back().index = next++;
    }
    std::vector<pollfd> waits;
    for (const Child& child : running) waits.push_back({child.pipe, POLLIN, 0});
    poll(waits.data(), waits.size(), 100);
    for (size_t i = running.size(); i-- > 0;) {
      Child& child = running[i];
      if (!child.late &&
          tolk::now_ns() - child.started > static_cast<uint64_t>(settings.limit_s) * 1'000'000'000) {
        child.late = true;
        kill(child.pid, SIGKILL);
      } else if (!(waits[i].revents & (POLLIN | POLLHUP)) || drain(child)) {
        continue;
      }
      results[child.index] = finish(child, cases[child.index]);
      running.erase(running.begin() + static_cast<ptrdiff_t>(i));
    }
  }
  return results;
}

Result run_here(const Settings& settings, const Case& c) {
  Child child;
  const std::string text = in_child(settings, c);
  Result r;
  r.c = &c;
  r.text = text.substr(1);
  r.outcome = text[0] == 'P'   ? Outcome::Pass
              : text[0] == 'S' ? Outcome::Skip
              : text[0] == 'R' ? Outcome::Refused
                               : Outcome::Fail;
  return r;
}

std::string probe(const Settings& settings) {
  Child child = start([&settings]() -> std::string {
    try {
      Session s(settings.plugin, settings.oracle, settings.seed);
      s.open();
      int level = 0;
      if (s.missing(kMap | kImport | kFill | kMemory).empty()) level = 1;
      if (level == 1 && s.missing(kStreams | kCopy | kClock).empty()) level = 2;
      if (level == 2 && s.missing(kGraph | kUpdate).empty()) level = 3;
      return fmt::format("P{}\t{}\t{}", s.plugin().name, level, s.computes() ? "" : "null");
    } catch (const Failed& failure) {
      return "F" + failure.text;
    } catch (const Skipped& skipped) {
      return "F" + std::string("expected ") + skipped.capability + ", found none";
    } catch (const std::exception& error) {
      return std::string("F") + error.what();
    }
  });
  while (drain(child)) {
  }
  const Result r = finish(child, nullptr);
  return r.outcome == Outcome::Pass ? r.text : "!" + r.text;
}

const char* outcome_name(Outcome outcome) {
  constexpr const char* names[] = {"pass", "fail", "skip", "crash", "timeout", "refused"};
  return names[static_cast<int>(outcome)];
}

} // namespace conformance
