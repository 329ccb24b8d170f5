// Conformance cases on compilation, loading and launches.
#include "session.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <numeric>
#include <random>
#include <thread>

#include "case.h"
#include "kernels.h"
#include "tolk/base/clock.h"

namespace conformance {
namespace {

Bytes of(const std::vector<int32_t>& numbers) {
  Bytes bytes(numbers.size() * 4);
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

void source_errors(Session& s, const std::string& text) {
  if (s.target().kind == TOLK_TARGET_KERNEL_IR || (s.target().flags & TOLK_TARGET_LOAD_DIRECT))
    throw Skipped{"a compiler of text"};
  tolk_source source{};
  source.struct_size = sizeof source;
  source.text = {text.data(), text.size()};
  source.entry = "wrong";
  source.options = "";
  tolk_blob *binary = nullptr, *log = nullptr;
  const tolk_status status = s.plugin().program.compile(s.plugin().self, &s.target(), &source, &binary, &log);
  const std::string bytes = tolk::take_blob(binary), words = tolk::take_blob(log);
  refused(status, TOLK_E_COMPILE, "compile of a wrong source");
  expect(bytes.empty(), "no binary from a failed compile", fmt::format("{} bytes", bytes.size()));
  expect(!words.empty(), "a log from a failed compile", "none");
}

void syntax_error(Session& s) { source_errors(s, "this is no program of any language {\n"); }

void deterministic(Session& s) {
  std::string first, second;
  ok(s.compile(add_to(), first), "compile");
  ok(s.compile(add_to(), second), "compile");
  expect(!first.empty(), "a binary from compile", "none");
  expect(first.size() == second.size(), "binaries of one size from one source",
         fmt::format("{} and {} bytes", first.size(), second.size()));
}

void parallel(Session& s) {
  std::vector<std::string> binaries(32), found(32);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 8; t++)
    threads.emplace_back([&, t] {
      for (size_t i = t; i < 32; i += 8) try {
          ok(s.compile(add_to(fmt::format("kernel_{}", i).c_str()), binaries[i]), "compile");
        } catch (const Failed& failure) {
          found[i] = failure.text;
        }
    });
  for (std::thread& t : threads) t.join();
  for (size_t i = 0; i < 32; i++) {
    expect(found[i].empty(), "compilations on eight threads", found[i]);
    const tolk::KernelIR kernel = add_to(fmt::format("kernel_{}", i).c_str());
    tolk_program* program = nullptr;
    ok(s.load(kernel, binaries[i], &program), "load of a kernel compiled in parallel");
    tolk_kernel* handle = nullptr;
    const tolk_status status = s.plugin().program.get_kernel(program, kernel.name.c_str(), &handle);
    s.plugin().program.unload(program);
    ok(status, "get_kernel of a kernel compiled in parallel");
  }
}

void names(Session& s) {
  for (const std::string& name : {std::string("k"), std::string(255, 'n'), std::string("a_1_B2")}) {
    Loaded loaded = s.kernel(add_to(name.c_str()));
    expect(loaded.kernel != nullptr, "a kernel of this name", "NULL");
  }
}

void garbage(Session& s) {
  if (s.target().flags & TOLK_TARGET_LOAD_DIRECT && s.target().kind == TOLK_TARGET_KERNEL_IR)
    throw Skipped{"binaries of bytes"};
  std::string good;
  ok(s.compile(add_to(), good), "compile");
  std::mt19937_64 random(s.seed());
  auto refuse = [&](const std::string& bytes, const std::string& what) {
    tolk_program* program = nullptr;
    const tolk_status status = s.load(add_to(), bytes, &program);
    if (status == TOLK_OK && program) s.plugin().program.unload(program);
    refused(status, TOLK_E_BAD_BINARY, ("load of " + what).c_str());
  };
  refuse("", "no bytes");
  refuse("no binary of this plugin", "a text");
  for (size_t i = 1; i < 20; i++)
    refuse(good.substr(0, good.size() * i / 20),
           fmt::format("the first {} of {} bytes", good.size() * i / 20, good.size()));
}

// Any damage is refused or harmless, and never a crash: the loaded program is not run.
void damaged(Session& s) {
  if (s.target().flags & TOLK_TARGET_LOAD_DIRECT) throw Skipped{"binaries of the plugin's own"};
  std::string good;
  ok(s.compile(add_to(), good), "compile");
  std::mt19937_64 random(s.seed());
  for (int i = 0; i < 100; i++) {
    std::string bad = good;
    bad[random() % bad.size()] ^= static_cast<char>(1u << (random() % 8));
    tolk_program* program = nullptr;
    const tolk_status status = s.load(add_to(), bad, &program);
    if (status == TOLK_OK && program) s.plugin().program.unload(program);
    if (status != TOLK_OK) refused(status, TOLK_E_BAD_BINARY, "load of a binary with one bit changed");
  }
}

void load_twice(Session& s) {
  auto data = s.buffer(16);
  s.write({data.get(), 0, 16}, of({1, 2, 3, 4}).data());
  Loaded first = s.kernel(add_value());
  {
    Loaded second = s.kernel(add_value());
    expect(first.program.get() != second.program.get(), "two programs from one binary", "one handle");
    expect(first.kernel != second.kernel, "a kernel of its own in each program", "one handle");
    s.launch(second.kernel, {{data.get(), 0, 16}}, {10}, 4);
    s.sync();
  }
  s.launch(first.kernel, {{data.get(), 0, 16}}, {100}, 4);
  s.sync();
  if (s.computes())
    expect_bytes(of({111, 112, 113, 114}), s.read(data.get(), 16),
                 "sums after one of two programs was unloaded");
}

void entry_missing(Session& s) {
  Loaded loaded = s.kernel(add_to());
  tolk_kernel* kernel = nullptr;
  refused(s.plugin().program.get_kernel(loaded.program.get(), "absent", &kernel), TOLK_E_NOT_FOUND,
          "get_kernel of an absent name");
}

void same_handle(Session& s) {
  Loaded loaded = s.kernel(add_to());
  for (int i = 0; i < 10; i++) {
    tolk_kernel* again = nullptr;
    const std::string name = "add_to"; // its address differs from that of the first call
    ok(s.plugin().program.get_kernel(loaded.program.get(), name.c_str(), &again), "get_kernel");
    expect(again == loaded.kernel, "the same kernel for the same name", "another handle");
  }
}

void unload_reload(Session& s) {
  std::string binary;
  ok(s.compile(add_to(), binary), "compile");
  auto cycle = [&] {
    tolk_program* program = nullptr;
    ok(s.load(add_to(), binary, &program), "load");
    s.plugin().program.unload(program);
  };
  for (int i = 0; i < 3; i++) cycle();
  const uint64_t blocks = s.host().live_allocations;
  for (int i = 0; i < 100; i++) cycle();
  expect(s.host().live_allocations <= blocks,
         fmt::format("{} blocks of host.mem_alloc after 100 loads", blocks),
         std::to_string(s.host().live_allocations));
}

void info(Session& s) {
  Loaded loaded = s.kernel(add_to());
  struct {
    tolk_kernel_info info;
    uint8_t guard[64];
  } place;
  std::memset(&place, 0xa5, sizeof place);
  place.info.struct_size = sizeof place.info;
  ok(s.plugin().program.kernel_info(loaded.kernel, &place.info), "kernel_info");
  for (uint8_t byte : place.guard)
    expect(byte == 0xa5, "no write beyond struct_size of tolk_kernel_info", "one");
  expect(place.info.struct_size == sizeof place.info, "struct_size left alone",
         std::to_string(place.info.struct_size));
}

void args(Session& s, uint32_t inputs, uint32_t values) {
  std::vector<Bytes> from;
  std::vector<uint64_t> with;
  std::vector<int32_t> wanted(8, 0);
  for (uint32_t k = 0; k < inputs; k++) {
    std::vector<int32_t> numbers(8);
    for (size_t i = 0; i < 8; i++)
      numbers[i] = static_cast<int32_t>(i * 1000 + k * 7 + 1),
      wanted[i] += numbers[i] * static_cast<int32_t>(k + 1);
    from.push_back(of(numbers));
  }
  for (uint32_t k = 0; k < values; k++) {
    const int64_t v = k % 2 ? -static_cast<int64_t>(k) - 5 : static_cast<int64_t>(k) + 3;
    with.push_back(static_cast<uint64_t>(v));
    for (int32_t& w : wanted) w += static_cast<int32_t>(v) * static_cast<int32_t>(k + 100);
  }
  const Bytes found = s.run(weighted(inputs, values), 32, from, 8, with);
  if (s.computes())
    expect_bytes(of(wanted), found, fmt::format("a kernel of {} inputs and {} values", inputs, values));
}

uint32_t limit(uint64_t cap, uint32_t otherwise) {
  return cap ? static_cast<uint32_t>(std::min<uint64_t>(cap, otherwise)) : otherwise;
}

void args_order(Session& s) {
  for (const auto& [inputs, values] : {std::pair{1u, 0u}, {2u, 1u}, {3u, 2u}, {5u, 4u}, {7u, 3u}})
    if (inputs + 1 <= limit(s.caps().max_buffer_args, 64) &&
        values <= limit(s.caps().max_scalar_bytes / 8, 64))
      args(s, inputs, values);
}

void args_max(Session& s) {
  args(s, limit(s.caps().max_buffer_args, 32) - 1, limit(s.caps().max_scalar_bytes / 8, 16));
}

void same_buffer_twice(Session& s) {
  auto data = s.buffer(64);
  s.write({data.get(), 0, 64}, of(std::vector<int32_t>(16, 5)).data());
  Loaded kernel = s.kernel(add_to());
  s.launch(kernel.kernel, {{data.get(), 0, 64}, {data.get(), 0, 64}}, {2}, 16);
  s.sync();
  expect_bytes(of(std::vector<int32_t>(16, 7)), s.read(data.get(), 64), "a kernel whose input is its output");
}

void values_width(Session& s) {
  using tolk::DType;
  for (DType dtype : {DType::I8, DType::U8, DType::I16, DType::U16, DType::I32, DType::U32, DType::I64}) {
    if (!(s.caps().dtype_storage >> static_cast<int>(dtype) & 1)) continue;
    if (tolk::bits(dtype) == 64 && !(s.caps().flags & TOLK_CAP_SCALAR_SLOTS_64)) continue;
    const uint64_t size = static_cast<uint64_t>(tolk::bits(dtype)) / 8;
    for (uint64_t value :
         {uint64_t{1}, uint64_t{0x0123456789abcdef}, UINT64_MAX, uint64_t{1} << (size * 8 - 1)}) {
      if (tolk::bits(dtype) < 64) {
        value &= (uint64_t{1} << (size * 8)) - 1;
        if (tolk::is_signed(dtype) && (value >> (size * 8 - 1))) value |= ~((uint64_t{1} << (size * 8)) - 1);
      }
      Bytes wanted(size);
      std::memcpy(wanted.data(), &value, size);
      if (Bytes found = s.run(store_value(dtype), size, {}, 1, {value}); s.computes())
        expect_bytes(wanted, found, fmt::format("the value {:#x} of dtype {}", value, tolk::name(dtype)));
    }
  }
}

// Many launches from one place on the stack, each with other contents.
void not_kept(Session& s) {
  Loaded kernel = s.kernel(add_value());
  auto data = s.buffer(4);
  s.write({data.get(), 0, 4}, of({0}).data());
  for (uint64_t i = 1; i <= 100; i++) s.launch(kernel.kernel, {{data.get(), 0, 4}}, {i}, 1);
  s.sync();
  expect_bytes(of({5050}), s.read(data.get(), 4),
               "the sum of 1 to 100 by launches whose arguments are overwritten at once");
}

void grid_shapes(Session& s) {
  for (uint32_t groups : {1u, 2u, 3u, 31u, 32u, 33u, 100u, 1000u, 4099u}) {
    if (groups > s.caps().grid_max[0]) continue;
    Loaded kernel = s.kernel(add_value());
    auto data = s.buffer(groups * 4 + 64);
    std::vector<int32_t> numbers(groups + 16, 3);
    s.write({data.get(), 0, numbers.size() * 4}, of(numbers).data());
    s.launch(kernel.kernel, {{data.get(), 0, groups * 4}}, {1}, groups);
    s.sync();
    std::fill_n(numbers.begin(), groups, 4);
    expect_bytes(of(numbers), s.read(data.get(), numbers.size() * 4),
                 fmt::format("each of {} groups run once", groups));
  }
}

void wait_time(Session& s) {
  Loaded kernel = s.kernel(stir());
  auto in = s.buffer(4), out = s.buffer(4);
  s.write({in.get(), 0, 4}, of({7}).data());
  const tolk_ref refs[2] = {{out.get(), 0, 4}, {in.get(), 0, 4}};
  uint64_t times[2] = {};
  for (int i = 0; i < 2; i++) {
    const uint64_t value = i == 0 ? 10 : 30000;
    tolk_launch l{};
    l.struct_size = sizeof l;
    for (int axis = 0; axis < 3; axis++) l.grid[axis] = l.local[axis] = 1;
    l.buffer_count = 2, l.value_count = 1, l.buffers = refs, l.values = &value;
    times[i] = UINT64_MAX;
    l.device_ns = &times[i];
    const uint64_t begin = tolk::now_ns();
    ok(s.plugin().program.launch(s.stream(), kernel.kernel, &l), "launch with device_ns");
    const uint64_t wall = tolk::now_ns() - begin;
    expect(times[i] != UINT64_MAX, "a time in device_ns", "none");
    expect(times[i] <= wall, fmt::format("device_ns at most the {} ns of the call", wall),
           std::to_string(times[i]));
    if (!s.computes()) continue;
    Bytes bytes(4, 0xcd); // done at return: the result is there
    ok(s.plugin().stream.copy_out(s.stream(), bytes.data(), refs[0], 0), "copy_out");
    uint32_t found;
    std::memcpy(&found, bytes.data(), 4);
    expect(found == stirred(7, static_cast<int32_t>(value)), "the result of the timed launch",
           std::to_string(found));
  }
  if (s.computes())
    expect(times[1] > times[0], fmt::format("more than {} ns for 3000 times the work", times[0]),
           std::to_string(times[1]));
}

void many_alive(Session& s) {
  std::vector<Loaded> alive;
  auto data = s.buffer(4);
  s.write({data.get(), 0, 4}, of({0}).data());
  for (int i = 0; i < 50; i++) alive.push_back(s.kernel(add_value()));
  for (Loaded& loaded : alive) s.launch(loaded.kernel, {{data.get(), 0, 4}}, {1}, 1);
  s.sync();
  if (s.computes()) expect_bytes(of({50}), s.read(data.get(), 4), "one launch of each of 50 programs");
}

constexpr Case kCases[] = {
    {"comp.syntax_error", Tier::Required, kDevice | kCompile | kValues, syntax_error},
    {"comp.deterministic", Tier::Required, kDevice | kCompile, deterministic},
    {"comp.parallel_16", Tier::Required, kDevice | kCompile, parallel},
    {"comp.names", Tier::Required, kDevice, names},
    {"prog.load_garbage", Tier::Required, kDevice | kValues, garbage},
    {"prog.load_damaged", Tier::Required, kDevice | kValues, damaged},
    {"prog.load_twice", Tier::Required, kDevice, load_twice},
    {"prog.entry_missing", Tier::Required, kDevice, entry_missing},
    {"prog.kernel_same_handle", Tier::Required, kDevice, same_handle},
    {"prog.unload_reload_1000", Tier::Required, kDevice, unload_reload},
    {"prog.info", Tier::Optional, kDevice | kInfo, info},
    {"prog.args_order", Tier::Required, kDevice | kValues, args_order},
    {"prog.args_max", Tier::Required, kDevice | kValues, args_max},
    {"prog.args_same_buffer_twice", Tier::Required, kDevice | kValues, same_buffer_twice},
    {"prog.values_width", Tier::Required, kDevice, values_width},
    {"prog.values_not_kept", Tier::Required, kDevice | kValues, not_kept},
    {"prog.grid_shapes", Tier::Required, kDevice | kValues, grid_shapes},
    {"prog.wait_time", Tier::Required, kDevice, wait_time},
    {"prog.many_kernels_alive", Tier::Required, kDevice, many_alive},
};

} // namespace

std::span<const Case> program_cases() { return kCases; }

} // namespace conformance
