// Conformance cases on devices and their capabilities.
#include "session.h"

#include <bit>
#include <cstring>
#include <dirent.h>
#include <fmt/format.h>
#include <regex>
#include <thread>

#include "case.h"
#include "kernels.h"
#include "tolk/loader/clamp.h"

namespace conformance {
namespace {

uint32_t count(Session& s) {
  uint32_t n = 0;
  ok(s.plugin().table.device_count(s.plugin().self, &n), "device_count");
  return n;
}

void count_stable(Session& s) {
  const uint32_t first = count(s);
  auto ask = [&] {
    bool same = true;
    for (int i = 0; i < 100; i++) {
      uint32_t n = first + 1;
      same = same && s.plugin().table.device_count(s.plugin().self, &n) == TOLK_OK && n == first;
    }
    return same;
  };
  expect(ask(), fmt::format("device_count {} at every call", first), "another answer");
  bool same[8] = {};
  std::vector<std::thread> threads;
  for (bool& result : same) threads.emplace_back([&] { result = ask(); });
  for (std::thread& t : threads) t.join();
  for (bool result : same)
    expect(result, fmt::format("device_count {} on eight threads", first), "another answer");
}

void info_each(Session& s) {
  for (uint32_t i = 0; i < count(s); i++) {
    const tolk_device_info* given = nullptr;
    ok(s.plugin().table.device_info(s.plugin().self, i, &given), "device_info");
    expect(given != nullptr, "a record from device_info", "NULL");
    const tolk_device_info info = tolk::clamp_copy(given);
    expect(given->struct_size >= 56, "struct_size of tolk_device_info through its name",
           std::to_string(given->struct_size));
    expect(info.kind <= TOLK_KIND_EMULATED, "a kind of device.h", std::to_string(info.kind));
    expect(info.name && *info.name, "a name of the device", "none");
  }
}

void open_range(Session& s) {
  count(s);
  const tolk_device_info info = s.info();
  const bool endless =
      (info.flags & TOLK_DEVICE_REOPENABLE) && (info.kind == TOLK_KIND_CPU || info.kind == TOLK_KIND_NULL);
  if (endless) throw Skipped{"a fixed number of devices"};
  for (uint32_t index : {count(s), UINT32_MAX}) {
    tolk_device* device = nullptr;
    refused(s.plugin().table.device_open(s.plugin().self, index, &device), TOLK_E_NOT_FOUND,
            "device_open beyond the count");
  }
}

void identity_unique(Session& s) {
  std::vector<std::array<uint8_t, 16>> seen;
  for (uint32_t i = 0; i < count(s); i++) {
    const tolk_device_info* given = nullptr;
    ok(s.plugin().table.device_info(s.plugin().self, i, &given), "device_info");
    std::array<uint8_t, 16> uuid;
    std::memcpy(uuid.data(), tolk::clamp_copy(given).uuid, 16);
    if (uuid == std::array<uint8_t, 16>{}) continue;
    expect(std::find(seen.begin(), seen.end(), uuid) == seen.end(), "another uuid for each device",
           "the same twice");
    seen.push_back(uuid);
  }
}

int entries_of(const char* folder) {
  int n = 0;
  if (DIR* dir = opendir(folder)) {
    while (readdir(dir)) n++; // NOLINT(concurrency-mt-unsafe): a stream of this function alone
    closedir(dir);
  }
  return n;
}

// Descriptors, threads and what the plugin took from the host do not grow.
void open_close(Session& s) {
  const tolk::Plugin& p = s.plugin();
  count(s);
  auto cycle = [&] {
    tolk_device* device = nullptr;
    ok(p.table.device_open(p.self, 0, &device), "device_open");
    const tolk_caps* caps = nullptr;
    ok(p.device.caps(device, &caps), "caps");
    p.device.close(device);
  };
  for (int i = 0; i < 3; i++) cycle();
  const int files = entries_of("/proc/self/fd"), threads = entries_of("/proc/self/task");
  const uint64_t blocks = s.host().live_allocations;
  for (int i = 0; i < 20; i++) cycle();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  expect(entries_of("/proc/self/fd") <= files, fmt::format("{} open files after 20 cycles", files),
         std::to_string(entries_of("/proc/self/fd")));
  expect(entries_of("/proc/self/task") <= threads, fmt::format("{} threads after 20 cycles", threads),
         std::to_string(entries_of("/proc/self/task")));
  expect(s.host().live_allocations == blocks,
         fmt::format("{} blocks of host.mem_alloc after 20 cycles", blocks),
         std::to_string(s.host().live_allocations));
}

void open_twice(Session& s) {
  tolk_device* second = nullptr;
  const tolk_status status = s.plugin().table.device_open(s.plugin().self, 0, &second);
  if (status == TOLK_E_BUSY) return;
  ok(status, "the second device_open of one index");
  expect(second && second != s.device(), "an independent device from the second open", "the same handle");
  s.plugin().device.close(second);
  auto buffer = s.buffer(64); // the first still works
}

void caps_sane(Session& s) {
  const tolk_caps& c = s.caps();
  const std::pair<const char*, uint64_t> alignments[] = {{"buffer_align", c.buffer_align},
                                                         {"offset_align", c.offset_align},
                                                         {"copy_align", c.copy_align},
                                                         {"map_align", c.map_align},
                                                         {"import_align", c.import_align}};
  for (const auto& [name, value] : alignments)
    expect((value & (value - 1)) == 0, fmt::format("caps.{} a power of two", name), std::to_string(value));
  for (int axis = 0; axis < 3; axis++) {
    expect(c.grid_max[axis] > 0, fmt::format("caps.grid_max[{}] at least 1", axis), "0");
    expect(c.local_max[axis] > 0, fmt::format("caps.local_max[{}] at least 1", axis), "0");
  }
  expect(c.local_product_max > 0, "caps.local_product_max at least 1", "0");
  expect(c.buffer_kinds & (1u << TOLK_BUFFER_DEVICE), "the kind DEVICE in caps.buffer_kinds",
         std::to_string(c.buffer_kinds));
  expect(c.dtype_storage != 0, "a dtype in caps.dtype_storage", "none");
  expect(c.dtype_storage >> TOLK_DTYPE_COUNT == 0 && c.dtype_alu >> TOLK_DTYPE_COUNT == 0, "known dtypes",
         "unknown bits");
  expect((c.streams_max > 0) == (s.raw().stream.create != nullptr),
         "caps.streams_max above 0 exactly with stream.create", std::to_string(c.streams_max));
  if (c.graph) expect(s.raw().graph.create != nullptr, "graph.create when caps.graph is set", "NULL");
  if (c.graph & (TOLK_GRAPH_UPDATE_BUFFERS | TOLK_GRAPH_UPDATE_VALUES | TOLK_GRAPH_UPDATE_SIZES))
    expect(s.raw().graph.update != nullptr, "graph.update when caps.graph has updates", "NULL");
  if (c.flags & TOLK_CAP_EVENT_TIMING)
    expect(s.raw().stream.event_elapsed != nullptr, "event_elapsed with the flag EVENT_TIMING", "NULL");
}

void caps_idempotent(Session& s) {
  const tolk_caps* again = nullptr;
  ok(s.plugin().device.caps(s.device(), &again), "caps");
  const tolk_caps second = tolk::clamp_copy(again);
  expect(std::memcmp(&second, &s.caps(), sizeof second) == 0, "the same capabilities at the second call",
         "other bytes");
}

void targets_known(Session& s) {
  for (const tolk_target& t : s.targets()) {
    expect(t.struct_size >= 40, "a struct_size of tolk_target through its dialect",
           std::to_string(t.struct_size));
    expect(t.kind >= TOLK_TARGET_SOURCE && t.kind <= TOLK_TARGET_NATIVE, "a kind of target.h",
           std::to_string(t.kind));
    expect(t.dialect && (*t.dialect || !s.computes()), "a dialect", "none");
    expect((t.flags & TOLK_TARGET_LOAD_DIRECT) || s.raw().program.compile,
           "compile for a target without LOAD_DIRECT", "NULL");
  }
}

void targets_usable(Session& s) {
  const std::vector<int32_t> in = {1, -2, 3, 2147483647};
  Bytes bytes(16), wanted(16);
  std::memcpy(bytes.data(), in.data(), 16);
  const std::vector<int32_t> out = {6, 3, 8, -2147483644};
  std::memcpy(wanted.data(), out.data(), 16);
  const Bytes found = s.run(add_to(), 16, {bytes}, 4, {5});
  if (s.computes()) expect_bytes(wanted, found, "the sum of a vector and 5");
}

void peer_matrix(Session& s) {
  uint32_t flags = 0xffffffff;
  ok(s.plugin().device.peer(s.device(), s.device(), &flags), "peer");
  expect((flags & ~7u) == 0, "known bits from peer", fmt::format("{:#x}", flags));
}

void clock_monotone(Session& s) {
  uint64_t device = 0, host = 0, last = 0;
  for (int i = 0; i < 100000; i++) {
    ok(s.plugin().device.clock(s.device(), &device, &host), "clock");
    expect(device >= last, "a device clock that never runs backwards",
           fmt::format("{} after {}", device, last));
    last = device;
  }
  uint64_t begin_device = 0, begin_host = 0;
  ok(s.plugin().device.clock(s.device(), &begin_device, &begin_host), "clock");
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  ok(s.plugin().device.clock(s.device(), &device, &host), "clock");
  const double ratio = static_cast<double>(device - begin_device) / static_cast<double>(host - begin_host);
  expect(ratio > 0.98 && ratio < 1.02, "a device clock that counts nanoseconds as the host's does",
         fmt::format("{:.4f} of them", ratio));
}

void pci_syntax(Session& s) {
  const tolk_device_info info = s.info();
  if (!info.pci_id || !*info.pci_id) throw Skipped{"a pci_id"};
  expect(std::regex_match(info.pci_id, std::regex("[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\\.[0-7]")),
         "a pci_id of the form domain:bus:device.function", info.pci_id);
}

// Texts of the plugin live until shutdown and stay as they are.
void plugin_strings(Session& s) {
  count(s);
  const char* name = s.info().name;
  const std::string before = name;
  s.open();
  {
    auto buffer = s.buffer(64);
  }
  s.close();
  expect(name == before && s.plugin().name == s.table()->name, "texts that stay as they are until shutdown",
         name);
}

constexpr Case kCases[] = {
    {"enum.count_stable", Tier::Required, kNothing, count_stable},
    {"enum.info_each", Tier::Required, kNothing, info_each},
    {"enum.open_range", Tier::Required, kNothing, open_range},
    {"enum.identity_unique", Tier::Required, kNothing, identity_unique},
    {"enum.open_close_100", Tier::Required, kNothing, open_close},
    {"enum.open_twice", Tier::Required, kDevice, open_twice},
    {"enum.caps_sane", Tier::Required, kDevice, caps_sane},
    {"enum.caps_idempotent", Tier::Required, kDevice, caps_idempotent},
    {"enum.targets_known", Tier::Required, kDevice, targets_known},
    {"enum.targets_usable", Tier::Required, kDevice, targets_usable},
    {"enum.peer_matrix", Tier::Optional, kDevice, peer_matrix},
    {"enum.pci_syntax", Tier::Required, kDevice, pci_syntax},
    {"life.plugin_strings", Tier::Required, kNothing, plugin_strings},
    {"time.monotone", Tier::Required, kDevice | kClock, clock_monotone},
};

} // namespace

std::span<const Case> device_cases() { return kCases; }

} // namespace conformance
