// The layer `trace`: a line per call, with thread, plugin, arguments, what came back, and how long it took.
//
//   tolk: trace: [1] CPU buffer.create(device=d1, desc={device, 4096 bytes, usage 15}) -> OK, b7  1834 ns
//
// Handles read as a letter and a number in order of appearance, so two runs of a program give the
// same trace except for times and addresses.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "tolk/base/error.h"
#include "tolk/base/log.h"
#include "tolk/base/private_file.h"
#include "tolk/dtype/dtype.h"
#include "tolk/layers/layer.h"
#include "tolk/layers/layers.h"
#include "tolk/loader/status.h"

namespace tolk {
namespace {

struct Output {
  std::mutex mutex;
  std::ofstream file; // closed: standard error
  bool failed = false;
};

// By place; never freed, since plugins may be called until the process ends.
Output& output(const std::string& place) {
  static auto* mutex = new std::mutex;
  static auto* all = new std::map<std::string, std::unique_ptr<Output>>;
  std::lock_guard lock(*mutex);
  auto& slot = (*all)[place];
  if (!slot) {
    auto made = std::make_unique<Output>();
    if (!place.empty()) {
      made->file = private_file(place);
      if (!made->file) {
        all->erase(place);
        throw DeviceError("TOLK_LAYERS=trace=" + place + ": the file cannot be written; name another one");
      }
    }
    slot = std::move(made);
  }
  return *slot;
}

uint32_t thread_number() {
  static std::atomic<uint32_t> next{1};
  static thread_local uint32_t mine = next++;
  return mine;
}

class TraceLayer;

const void* address_of(uint64_t value) {
  const void* pointer = nullptr;
  std::memcpy(static_cast<void*>(&pointer), &value, sizeof pointer);
  return pointer;
}

// The letter of a kind of object; 0 for what is no handle.
template <typename T> constexpr char kLetter = 0;
template <> constexpr char kLetter<tolk_device*> = 'd';
template <> constexpr char kLetter<tolk_buffer*> = 'b';
template <> constexpr char kLetter<tolk_stream*> = 's';
template <> constexpr char kLetter<tolk_event*> = 'e';
template <> constexpr char kLetter<tolk_program*> = 'p';
template <> constexpr char kLetter<tolk_kernel*> = 'k';
template <> constexpr char kLetter<tolk_graph*> = 'g';

// Builds one line.
class Line {
public:
  template <typename T> struct Array {
    const T* first;
    uint64_t count;
  };
  Line(TraceLayer& layer, std::string_view call);
  template <typename T> void arg(const std::string& name, const T& value) {
    text_ += (first_ ? "" : ", ") + name + "=";
    first_ = false;
    put(value);
  }
  void begin() {
    text_ += ")";
    start_ = std::chrono::steady_clock::now();
  }
  void end() {
    auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start_);
    took_ = std::to_string(ns.count());
  }
  void status(tolk_status status) {
    text_ += std::string(" -> ") + (status_name(status) + 5);
  } // without TOLK_
  template <typename T> void result(const T& value) {
    text_ += ", ";
    put(value);
  }
  void write();

private:
  void put(const char* text) { text_ += text ? "\"" + std::string(text) + "\"" : "NULL"; }
  template <typename T>
    requires std::is_integral_v<T>
  void put(T number) {
    text_ += static_cast<uint64_t>(number) == TOLK_FOREVER ? "forever" : std::to_string(number);
  }
  void put(const void* pointer) {
    static constexpr char kDigits[] = "0123456789abcdef";
    std::string hex;
    for (auto bits = reinterpret_cast<uintptr_t>(pointer); bits != 0; bits >>= 4)
      hex.insert(hex.begin(), kDigits[bits & 15]);
    text_ += pointer ? "0x" + hex : "NULL";
  }
  template <typename T>
    requires(kLetter<T> != 0)
  void put(T handle) {
    text_ += handle ? number_of(kLetter<T>, handle) : "NULL";
  }
  void put(const tolk_ref& r) {
    put(r.buffer);
    text_ += "[" + std::to_string(r.offset) + ".." + std::to_string(r.offset + r.size) + "]";
  }
  void put(const tolk_bytes& b) { text_ += std::to_string(b.size) + " bytes"; }
  void put(const tolk_buffer_desc* d);
  void put(const tolk_target* t);
  void put(const tolk_source* s);
  void put(const tolk_launch* l);
  void put(const tolk_patch& p);
  void put(const tolk_device_info* i) { put(i ? i->name : nullptr); }
  void put(const tolk_caps* c) {
    text_ += c ? std::to_string(c->target_count) + " targets, flags " + std::to_string(c->flags) : "NULL";
  }
  void put(const tolk_memory& m) {
    text_ += std::to_string(m.used_bytes) + " bytes used, " + std::to_string(m.free_bytes) + " free";
  }
  void put(const tolk_kernel_info& i) { put(i.code_bytes); }
  template <typename T> void put(const Array<T>& array) {
    text_ += "[";
    for (uint64_t i = 0; array.first && i < array.count; i++) {
      if (i) text_ += ", ";
      if (i == 64) {
        text_ += "... " + std::to_string(array.count);
        break;
      }
      put(array.first[i]);
    }
    text_ += "]";
  }
  std::string number_of(char letter, const void* handle);
  void sizes(const uint32_t n[3]) {
    text_ += std::to_string(n[0]) + "x" + std::to_string(n[1]) + "x" + std::to_string(n[2]);
  }

  TraceLayer& layer_;
  std::string text_, took_;
  bool first_ = true;
  std::chrono::steady_clock::time_point start_;
};

class TraceLayer : public Layer {
public:
  TraceLayer(const LayerSubject& subject, const std::string& place)
      : name_(subject.name), place_(place), output_(output(place)) {}

  std::string number(char kind, const void* pointer) {
    std::lock_guard lock(mutex_);
    auto [it, fresh] = numbers_.try_emplace({kind, pointer}, 0);
    if (fresh) it->second = ++last_[kind];
    return kind + std::to_string(it->second);
  }
  void forget(char kind, const void* pointer) {
    std::lock_guard lock(mutex_);
    numbers_.erase({kind, pointer});
  }
  const std::string& name() const { return name_; }
  void write(const std::string& line) {
    if (place_.empty()) return log::trace(line);
    std::lock_guard lock(output_.mutex);
    if (output_.failed) return;
    (output_.file << line << '\n').flush(); // whole after a crash
    if (output_.file) return;
    output_.failed = true;
    log::warning("TOLK_LAYERS=trace=" + place_ +
                 ": the file cannot be written any further; the trace ends here");
  }

#define TOLK_ENTRY(table, slot, entry, need, since, otherwise, result, parameters, arguments)                \
  result table##_##entry parameters override;
#include <tolk/plugin/entries.def>
#undef TOLK_ENTRY

private:
  std::string name_, place_;
  Output& output_;
  std::mutex mutex_;
  std::map<std::pair<char, const void*>, uint64_t> numbers_;
  std::map<char, uint64_t> last_;
};

Line::Line(TraceLayer& layer, std::string_view call) : layer_(layer) {
  text_ = "[" + std::to_string(thread_number()) + "] " + layer.name() + " " + std::string(call) + "(";
}

std::string Line::number_of(char letter, const void* handle) { return layer_.number(letter, handle); }

void Line::write() { layer_.write(text_ + "  " + took_ + " ns"); }

void Line::put(const tolk_buffer_desc* d) {
  if (!d) return put(static_cast<const void*>(nullptr));
  static constexpr const char* kKinds[] = {"kind 0", "device", "staging", "unified", "device-writable"};
  text_ += std::string("{") + (d->kind < 5 ? kKinds[d->kind] : "kind ?") + ", " + std::to_string(d->size) +
           " bytes, usage " + std::to_string(d->usage) + (d->flags & TOLK_BUFFER_ZEROED ? ", zeroed" : "") +
           (d->align ? ", aligned to " + std::to_string(d->align) : "") + "}";
}

void Line::put(const tolk_target* t) {
  text_ += t ? "{kind " + std::to_string(t->kind) + ", \"" + (t->dialect ? t->dialect : "") + "\"}" : "NULL";
}

void Line::put(const tolk_source* s) {
  if (!s) return put(static_cast<const void*>(nullptr));
  uint32_t buffers = 0;
  for (uint32_t i = 0; i < s->param_count; i++) buffers += s->params[i].kind == TOLK_PARAM_BUFFER;
  text_ += "{";
  put(s->entry);
  text_ += ", " + std::to_string(s->text.size) + " bytes of text, " + std::to_string(buffers) + " buffers, " +
           std::to_string(s->param_count - buffers) + " values, flags " + std::to_string(s->flags) +
           ", local ";
  sizes(s->local);
  text_ += "}";
}

void Line::put(const tolk_launch* l) {
  if (!l) return put(static_cast<const void*>(nullptr));
  text_ += "{grid ";
  sizes(l->grid);
  text_ += ", local ";
  sizes(l->local);
  text_ += ", ";
  put(Array<tolk_ref>{l->buffers, l->buffer_count});
  text_ += ", ";
  put(Array<uint64_t>{l->values, l->value_count});
  if (l->device_ns) text_ += ", timed";
  text_ += "}";
}

void Line::put(const tolk_patch& p) {
  text_ += "{node " + std::to_string(p.node) + ": ";
  if (p.kind == TOLK_PATCH_BUFFER) {
    text_ += "buffer " + std::to_string(p.index) + "=";
    put(p.to.buffer);
  } else if (p.kind == TOLK_PATCH_VALUE) {
    text_ += "value " + std::to_string(p.index) + "=" + std::to_string(p.to.value);
  } else if (p.kind == TOLK_PATCH_SIZES) {
    text_ += "grid ";
    sizes(p.to.sizes.grid);
    text_ += ", local ";
    sizes(p.to.sizes.local);
  } else {
    text_ += "kind " + std::to_string(p.kind);
  }
  text_ += "}";
}

// --- a call from its row in entries.def: what goes in is shown before the call, what came back after it ---

// Places for results: pointers to what the plugin writes.
template <typename T> constexpr bool is_result = false;
template <typename T>
constexpr bool is_result<T*> =
    kLetter<T*> == 0 && !std::is_const_v<T> && !std::is_void_v<T> && !std::is_function_v<T>;
// Lists: the parameter after them is the number of their elements.
template <typename T>
constexpr bool is_list = std::is_same_v<T, const uint32_t*> || std::is_same_v<T, const tolk_patch*> ||
                         std::is_same_v<T, tolk_device* const*>;

// "(graph, patches, patch_count)" as names.
std::vector<std::string> names_in(std::string_view list) {
  std::vector<std::string> names;
  list.remove_prefix(1);
  while (true) {
    const size_t end = list.find_first_of(",)");
    names.emplace_back(list.substr(0, end));
    if (list[end] == ')') return names;
    list.remove_prefix(end + 2);
  }
}

template <size_t I, typename Arguments>
void show_arguments(Line& line, const std::vector<std::string>& names, const Arguments& arguments) {
  if constexpr (I < std::tuple_size_v<Arguments>) {
    using T = std::tuple_element_t<I, Arguments>;
    const T& value = std::get<I>(arguments);
    const std::string& name = names[I];
    if constexpr (is_list<T>) {
      line.arg(name, Line::Array{value, std::get<I + 1>(arguments)});
    } else if constexpr (std::is_same_v<T, uint64_t>) {
      if (name == "value")
        line.arg(name, address_of(value)); // of memory that is imported
      else
        line.arg(name, value);
    } else if constexpr (!is_result<T> && !std::is_same_v<T, tolk_release_fn>) {
      if (name != "self") line.arg(name, value);
    }
    show_arguments<I + (is_list<T> ? 2 : 1)>(line, names, arguments);
  }
}

template <size_t I, typename Arguments>
void show_results(Line& line, const std::vector<std::string>& names, const Arguments& arguments) {
  if constexpr (I < std::tuple_size_v<Arguments>) {
    using T = std::tuple_element_t<I, Arguments>;
    const T& value = std::get<I>(arguments);
    if constexpr (is_result<T> && !std::is_same_v<T, tolk_blob**>) {
      // begin_ns and end_ns are arrays with a time per node.
      if (value && names[I] != "begin_ns" && names[I] != "end_ns") line.result(*value);
    }
    show_results<I + 1>(line, names, arguments);
  }
}

// The handle that a call ends, if it is one that returns nothing. Its number goes before the call, since the plugin may
// give the address again at once.
template <typename R, typename First, typename... Rest>
void forget_handle(TraceLayer& layer, First first, const Rest&...) {
  if constexpr (std::is_void_v<R> && kLetter<First> != 0) layer.forget(kLetter<First>, first);
}

template <typename R, typename Forward, typename... A>
R traced(TraceLayer& layer, std::string_view call, const char* list, Forward forward, const A&... values) {
  if (call.starts_with("plugin.")) call.remove_prefix(7);
  const std::vector<std::string> names = names_in(list);
  const std::tuple<A...> arguments(values...);
  Line line(layer, call);
  show_arguments<0>(line, names, arguments);
  forget_handle<R>(layer, values...);
  line.begin();
  if constexpr (std::is_void_v<R>) {
    forward();
    line.end();
    line.write();
  } else {
    const R answer = forward();
    line.end();
    if constexpr (std::is_same_v<R, tolk_status>) {
      line.status(answer);
      if (answer == TOLK_OK) show_results<0>(line, names, arguments);
    }
    line.write();
    return answer;
  }
}

#define TOLK_UNPACK(...) __VA_ARGS__
#define TOLK_ENTRY(table, slot, entry, need, since, otherwise, result, parameters, arguments)                \
  result TraceLayer::table##_##entry parameters {                                                            \
    return traced<result>(                                                                                   \
        *this, #table "." #entry, #arguments, [&] { return next->table##_##entry arguments; },               \
        TOLK_UNPACK arguments);                                                                              \
  }
#include <tolk/plugin/entries.def>
#undef TOLK_ENTRY
#undef TOLK_UNPACK

} // namespace

void open_trace(const std::string& place) { output(place); }

std::unique_ptr<Layer> make_trace_layer(const LayerSubject& subject, const std::string& place) {
  return std::make_unique<TraceLayer>(subject, place);
}

} // namespace tolk
