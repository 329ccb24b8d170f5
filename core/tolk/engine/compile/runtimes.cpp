#include "tolk/engine/compile/runtimes.h"

#include <map>
#include <mutex>

#include "tolk/base/error.h"
#include "tolk/base/hash.h"
#include "tolk/device/device.h"

namespace tolk::engine {
namespace {

struct Runtimes {
  std::mutex mutex;
  std::map<std::pair<ContentKey, uint32_t>, ProgramRef> loaded;
  RuntimeStats stats;
};
Runtimes& runtimes() {
  static auto* all = new Runtimes; // leaked: programs may outlive static destructors
  return *all;
}

ProgramRef load(Device& device, const ProgramEntry& entry) {
  KernelSource source = kernel_source(entry);
  tolk_kernel_ir view;
  if (entry.kernel) {
    view = entry.kernel->ir.view();
    source.ir = &view;
  }
  return device.load(source, entry.binary);
}

// Null when the program is not loaded.
ProgramRef find(Device& device, const ProgramEntry& entry) {
  Runtimes& r = runtimes();
  std::lock_guard lock(r.mutex);
  auto it = r.loaded.find({entry.code_key, device.id()});
  return it == r.loaded.end() ? nullptr : it->second;
}

ProgramRef load_and_keep(Device& device, const ProgramEntry& entry) {
  ProgramRef loaded = load(device, entry);
  Runtimes& r = runtimes();
  std::lock_guard lock(r.mutex);
  ++r.stats.misses;
  return r.loaded.emplace(std::pair(entry.code_key, device.id()), std::move(loaded)).first->second;
}

} // namespace

KernelSource kernel_source(const ProgramEntry& entry) {
  KernelSource source;
  source.target_index = entry.target_index;
  source.entry = entry.info.name;
  source.params = entry.params;
  source.flags = entry.flags;
  source.shared_bytes = entry.info.shared_bytes;
  for (size_t i = 0; i < 3; ++i)
    source.local[i] = entry.local_free || entry.local[i] ? 0 : uint32_t(entry.info.local[i]);
  return source;
}

ProgramRef get_runtime(Device& device, const UOp& program, bool cache) {
  const ProgramEntry& entry = program_entry(program);
  if (!entry.has_binary())
    throw InvalidArgument("PROGRAM is missing its compiled binary: " + entry.info.name);
  if (!cache) return load(device, entry);
  if (ProgramRef known = find(device, entry)) {
    std::lock_guard lock(runtimes().mutex);
    ++runtimes().stats.hits;
    return known;
  }
  return load_and_keep(device, entry);
}

void load_runtime(Device& device, const UOp& program) {
  const ProgramEntry& entry = program_entry(program);
  if (!find(device, entry)) load_and_keep(device, entry);
}

RuntimeStats runtime_stats() {
  std::lock_guard lock(runtimes().mutex);
  return runtimes().stats;
}

void clear_runtimes() {
  Runtimes& r = runtimes();
  decltype(r.loaded) dropped; // destroyed without the lock
  std::lock_guard lock(r.mutex);
  dropped.swap(r.loaded);
  r.stats = {};
}

} // namespace tolk::engine
