#include "tolk/engine/run/profile.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>

#include "tolk/base/config.h"
#include "tolk/base/error.h"
#include "tolk/base/log.h"
#include "tolk/base/private_file.h"

namespace tolk::engine {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) {
      out += c;
      continue;
    }
    char code[8];
    std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(c));
    out += code;
  }
  return out + "\"";
}

std::string microseconds(uint64_t ns) {
  char text[40];
  std::snprintf(text, sizeof text, "%llu.%03llu", static_cast<unsigned long long>(ns / 1000),
                static_cast<unsigned long long>(ns % 1000));
  return text;
}

// A Chrome trace in the form of an array, whose end may be missing: what a crash leaves can be opened.
class TraceFile {
public:
  explicit TraceFile(const std::string& path) : path_(path), file_(private_file(path)) {
    file_ << "[";
    // Perfetto wants a name; one process is one trace.
    put("{\"name\":\"process_name\",\"ph\":\"M\"," + where(0) + ",\"args\":{\"name\":\"tolk\"}}");
    file_.flush();
    if (!file_) throw DeviceError("PROFILE=" + path + ": the file cannot be written; name another one");
  }

  void write(std::span<const ProfileEvent> events) {
    for (const ProfileEvent& e : events) put(text_of(e));
    file_.flush();
  }
  void close() {
    if (!file_.is_open()) return;
    file_ << "\n]\n";
    file_.close();
  }
  bool good() const { return file_.good(); }
  const std::string& path() const { return path_; }

private:
  void put(const std::string& object) {
    file_ << (first_ ? "\n" : ",\n") << object;
    first_ = false;
  }
  static std::string where(size_t track) {
    return "\"pid\":" + std::to_string(getpid()) + ",\"tid\":" + std::to_string(track);
  }
  size_t track_of(const std::string& device) {
    auto [it, fresh] = tracks_.try_emplace(device, tracks_.size() + 1);
    if (fresh)
      put("{\"name\":\"thread_name\",\"ph\":\"M\"," + where(it->second) +
          ",\"args\":{\"name\":" + quoted(device) + "}}");
    return it->second;
  }
  std::string text_of(const ProfileEvent& e) {
    std::string text = "{\"name\":" + quoted(e.name) + ",\"cat\":\"" + kind_name(e.kind) +
                       "\",\"ph\":\"X\"," + where(track_of(e.device)) +
                       ",\"ts\":" + microseconds(e.begin_ns) +
                       ",\"dur\":" + microseconds(e.end_ns - e.begin_ns) + ",\"args\":{\"buffers\":[";
    for (size_t i = 0; i < e.buffers.size(); ++i)
      text += std::string(i ? "," : "") + "{\"storage\":" + std::to_string(e.buffers[i].storage) +
              ",\"offset\":" + std::to_string(e.buffers[i].offset) +
              ",\"bytes\":" + std::to_string(e.buffers[i].bytes) + "}";
    text += "],\"variables\":{";
    bool first = true;
    for (const auto& [name, value] : e.var_vals) {
      text += (first ? "" : ",") + quoted(name) + ":" + std::to_string(value);
      first = false;
    }
    return text + "}" + (e.estimated ? ",\"estimated\":true" : "") + "}}";
  }

  std::string path_;
  std::ofstream file_;
  std::map<std::string, size_t> tracks_;
  bool first_ = true;
};

} // namespace

struct Profile::State {
  mutable std::mutex mutex;
  std::vector<ProfileEvent> events;
};

namespace {

// Who listens. It stays until the process ends, since any thread may run until then.
struct Listeners {
  std::mutex mutex;
  std::vector<Profile::State*> profiles;
  std::map<std::string, std::unique_ptr<TraceFile>> files; // null: given up
};
Listeners& listeners() {
  static auto* all = new Listeners;
  return *all;
}
std::atomic<uint32_t> profiles_alive{0};

void close_files() {
  std::lock_guard lock(listeners().mutex);
  for (auto& [path, file] : listeners().files) {
    if (!file) continue;
    file->close();
    file.reset();
  }
}

void open_file(const std::string& path) {
  std::lock_guard lock(listeners().mutex);
  auto& files = listeners().files;
  if (files.contains(path)) return;
  files.emplace(path, std::make_unique<TraceFile>(path));
  static const int registered = std::atexit(close_files);
  (void)registered;
}

void write_file(const std::string& path, std::span<const ProfileEvent> events) {
  auto it = listeners().files.find(path);
  if (it == listeners().files.end() || !it->second) return;
  it->second->write(events);
  if (it->second->good()) return;
  it->second.reset();
  log::warning("PROFILE=" + path + ": the file cannot be written any further; the trace ends here");
}

} // namespace

const char* kind_name(ProfileEvent::Kind kind) {
  static constexpr const char* kNames[] = {"kernel", "copy", "graph"};
  return kNames[static_cast<size_t>(kind)];
}

Profile::Profile() : state_(std::make_unique<State>()) {
  std::lock_guard lock(listeners().mutex);
  listeners().profiles.push_back(state_.get());
  ++profiles_alive;
}

Profile::~Profile() {
  std::lock_guard lock(listeners().mutex);
  std::erase(listeners().profiles, state_.get());
  --profiles_alive;
}

std::vector<ProfileEvent> Profile::events() const {
  std::lock_guard lock(state_->mutex);
  return state_->events;
}

void write_trace(const std::string& file, std::span<const ProfileEvent> events) {
  TraceFile trace(file);
  trace.write(events);
  trace.close();
  if (!trace.good()) throw DeviceError(file + ": the trace cannot be written whole");
}

bool profiling() {
  const std::string& file = Config::current().profile;
  if (!file.empty()) [[unlikely]]
    open_file(file);
  return !file.empty() || profiles_alive.load(std::memory_order_relaxed) != 0;
}

void record_events(std::vector<ProfileEvent> events) noexcept {
  if (events.empty()) return;
  try {
    const std::string& file = Config::current().profile;
    std::lock_guard lock(listeners().mutex);
    if (!file.empty()) write_file(file, events);
    for (Profile::State* profile : listeners().profiles) {
      std::lock_guard mine(profile->mutex);
      profile->events.insert(profile->events.end(), events.begin(), events.end());
    }
  } catch (const std::exception& e) {
    log::warning(std::string("events of a profile were lost: ") + e.what());
  }
}

} // namespace tolk::engine
