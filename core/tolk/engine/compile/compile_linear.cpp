#include "tolk/engine/compile/compile_linear.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <mutex>
#include <tuple>

#include "tolk/base/config.h"
#include "tolk/base/error.h"
#include "tolk/base/hash.h"
#include "tolk/base/thread_pool.h"
#include "tolk/device/registry.h"
#include "tolk/engine/compile/local_size.h"
#include "tolk/engine/compile/program_cache.h"
#include "tolk/engine/compile/targets.h"
#include "tolk/engine/run/calls.h"
#include "tolk/engine/run/node_storage.h"
#include "tolk/engine/run/resolve.h"
#include "tolk/uop/build.h"
#include "tolk/uop/key.h"
#include "tolk/uop/print.h"

namespace tolk::engine {
namespace {

// What a kernel was compiled for.
struct Variant {
  uint32_t device;
  uint64_t settings;
  bool may_alias;
  auto operator<=>(const Variant&) const = default;
};
// Equal kernels are equal nodes, so the first lookup is by node id, and the entry keeps the node alive. The
// second, by content key, finds kernels that differ in their name only.
struct KnownSink {
  UOp sink, program;
};
struct Caches {
  std::mutex mutex;
  std::map<std::pair<uint64_t, Variant>, KnownSink> by_node;
  std::map<std::pair<ContentKey, Variant>, UOp> by_content;
  CacheStats stats;
};
Caches& caches() {
  static auto* all = new Caches; // leaked on purpose: programs may outlive static destructors
  return *all;
}

// A kernel's SINK without its name.
ContentKey semantic_key(const UOp& sink) {
  Hasher h;
  h.key(graph_key(sink.src()));
  for (int64_t i : sink.arg().ints()) h.number(i);
  return h.finish();
}

UOp checked(const UOp& program) {
  if (!program || !program.is(Op::PROGRAM))
    throw InvalidArgument(std::string("to_program returned ") + (program ? name(program.op()) : "nothing") +
                          " instead of a PROGRAM");
  if (!program_entry(program).has_binary())
    throw InvalidArgument("to_program returned PROGRAM without compiled code: " +
                          program_entry(program).info.name);
  return program;
}

struct Request {
  UOp sink;
  Device* device;
  bool alias;
};

UOp find(Caches& c, const Request& r, const Variant& v) {
  auto it = c.by_node.find({r.sink.id(), v});
  return it == c.by_node.end() ? UOp() : it->second.program;
}

// Through the disk cache; the flag tells whether it had the kernel.
std::pair<UOp, bool> cached_or_compiled(const Request& r, bool any_target) {
  bool disk = any_target || has_text(*r.device);
  uint64_t digest = disk ? codegen_target(*r.device, target_index(*r.device)).digest() : 0;
  if (disk)
    if (UOp cached = cached_program(*r.device, r.sink, r.alias, digest)) return {cached, true};
  UOp program = to_program(*r.device, r.sink, r.alias);
  if (disk) cache_program(*r.device, program, digest);
  return {program, false};
}

// Programs for all requests, in their order. `compiled` as in compile_linear.
std::vector<UOp> compile_requests(const std::vector<Request>& requests, const ToProgram& make_program,
                                  const Progress& progress, size_t* compiled = nullptr) {
  std::vector<UOp> programs(requests.size());
  uint64_t settings = Config::current().codegen_digest();
  struct Work {
    Variant variant;
    ContentKey key;
    std::vector<size_t> users; // requests that share the program, the first in the order of calls first
    std::exception_ptr error;
  };
  std::vector<Work> work;
  Caches& c = caches();
  std::vector<size_t> unknown;
  {
    std::lock_guard lock(c.mutex);
    for (size_t i = 0; i < requests.size(); ++i) {
      Variant v{requests[i].device->id(), settings, requests[i].alias};
      if ((programs[i] = find(c, requests[i], v)))
        ++c.stats.program_hits;
      else
        unknown.push_back(i);
    }
  }
  std::map<std::pair<ContentKey, Variant>, size_t> missing;
  for (size_t i : unknown) {
    Variant v{requests[i].device->id(), settings, requests[i].alias};
    ContentKey key = semantic_key(requests[i].sink);
    std::lock_guard lock(c.mutex);
    if (auto it = c.by_content.find({key, v}); it != c.by_content.end()) {
      ++c.stats.program_hits;
      programs[i] = it->second;
      c.by_node.emplace(std::pair(requests[i].sink.id(), v), KnownSink{requests[i].sink, it->second});
      continue;
    }
    auto [it, fresh] = missing.emplace(std::pair(key, v), work.size());
    if (fresh)
      work.push_back({v, key, {}, nullptr}), ++c.stats.program_misses;
    else
      ++c.stats.program_hits;
    work[it->second].users.push_back(i);
  }
  if (work.empty()) return programs;

  std::mutex progress_mutex;
  size_t done = 0;
  if (progress) progress(0, work.size());
  auto compile_one = [&](size_t w) {
    Work& item = work[w];
    const Request& r = requests[item.users[0]];
    try {
      auto [program, cached] = make_program
                                   ? std::pair(checked(make_program(*r.device, r.sink, r.alias)), false)
                                   : cached_or_compiled(r, compiled != nullptr);
      std::lock_guard lock(c.mutex);
      if (compiled && !cached) ++*compiled;
      program = c.by_content.emplace(std::pair(item.key, item.variant), program).first->second;
      for (size_t i : item.users) {
        programs[i] = program;
        c.by_node.emplace(std::pair(requests[i].sink.id(), item.variant),
                          KnownSink{requests[i].sink, program});
      }
    } catch (...) {
      item.error = std::current_exception();
    }
    std::lock_guard lock(progress_mutex);
    ++done;
    if (progress) progress(done, work.size());
  };
  if (make_program)
    for (size_t w = 0; w < work.size(); ++w) compile_one(w);
  else
    parallel_for(work.size(), compile_threads(), compile_one);
  for (const Work& item : work)
    if (item.error) std::rethrow_exception(item.error);
  return programs;
}

Device& device_of(std::span<const UOp> arguments, Device& ambient) {
  if (arguments.empty()) return ambient;
  std::vector<std::string> names = argument_devices(arguments[0]);
  return device_named(names.empty() ? "" : names[0], ambient);
}

UOp with_body(const UOp& call, const UOp& body) {
  std::vector<UOp> src(call.src().begin(), call.src().end());
  src[0] = body;
  return with_sources(call, src);
}

// The kernels among the calls, and the position of each one's call.
std::vector<Request> requests_of(const std::vector<UOp>& calls, Device& ambient, std::optional<int> beam,
                                 std::vector<size_t>& owner) {
  std::vector<Request> requests;
  int width = beam.value_or(int(Config::current().beam));
  for (size_t i = 0; i < calls.size(); ++i) {
    UOp sink = calls[i].src(0);
    if (!sink.is(Op::SINK)) continue;
    if (width >= 1 && beam_of(sink) == 0) sink = with_beam(sink, width);
    std::vector<UOp> arguments = buffer_arguments(calls[i]);
    requests.push_back({sink, &device_of(arguments, ambient), may_alias(sink, arguments)});
    owner.push_back(i);
  }
  return requests;
}

} // namespace

int beam_of(const UOp& sink) {
  std::span<const int64_t> ints = sink.arg().ints();
  return ints.size() > 1 ? int(ints[1]) : 0;
}

UOp with_beam(const UOp& sink, int beam) {
  std::vector<int64_t> ints(sink.arg().ints().begin(), sink.arg().ints().end());
  ints.resize(std::max<size_t>(ints.size(), 2));
  ints[1] = beam;
  std::vector<std::string> texts(sink.arg().texts().begin(), sink.arg().texts().end());
  return make(Op::SINK, DType::Void, sink.src(), Arg(std::move(ints), std::move(texts)));
}

UOp compile_kernel(Device& device, const ToProgram& make_program, const UOp& sink, bool may_alias) {
  return compile_requests({{sink, &device, may_alias}}, make_program, {})[0];
}

UOp compile_linear(Device& ambient, const ToProgram& make_program, const UOp& linear, std::optional<int> beam,
                   const Progress& progress, size_t* compiled) {
  if (!linear.is(Op::LINEAR)) throw InvalidArgument("expected LINEAR to compile, got " + print_line(linear));
  std::vector<UOp> calls = calls_of(linear);
  std::vector<size_t> owner;
  std::vector<Request> requests = requests_of(calls, ambient, beam, owner);
  std::vector<UOp> programs = compile_requests(requests, make_program, progress, compiled);
  for (size_t r = 0; r < requests.size(); ++r) calls[owner[r]] = with_body(calls[owner[r]], programs[r]);
  for (UOp& call : calls) {
    if (!call.src(0).is(Op::PROGRAM) || !program_entry(call.src(0)).local_free) continue;
    UOp tuned = with_tuned_local_size(device_of(buffer_arguments(call), ambient), call.src(0));
    if (tuned != call.src(0)) call = with_body(call, tuned);
  }
  return std::ranges::equal(calls, linear.src()) ? linear : with_sources(linear, calls);
}

void cache_kernels(Device& ambient, const UOp& linear) {
  std::vector<size_t> owner;
  if (Config::current().compile_cache == 0) return;
  for (const Request& r : requests_of(calls_of(linear), ambient, {}, owner)) cached_or_compiled(r, true);
}

CacheStats cache_stats() {
  CacheStats stats;
  {
    std::lock_guard lock(caches().mutex);
    stats = caches().stats;
  }
  RuntimeStats loaded = runtime_stats();
  stats.runtime_hits = loaded.hits, stats.runtime_misses = loaded.misses;
  return stats;
}

void clear_caches() {
  Caches& c = caches();
  decltype(c.by_node) nodes; // destroyed without the lock
  decltype(c.by_content) contents;
  {
    std::lock_guard lock(c.mutex);
    nodes.swap(c.by_node), contents.swap(c.by_content);
    c.stats = {};
  }
  nodes.clear(), contents.clear();
  clear_runtimes();
  clear_local_sizes();
  sweep_program_table();
}

} // namespace tolk::engine
