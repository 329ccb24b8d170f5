// Conformance cases on device memory.
#include "session.h"

#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <numeric>

#include "case.h"
#include "kernels.h"

namespace conformance {
namespace {

uint64_t copyable(Session& s, uint64_t size) {
  const uint64_t align = std::max<uint64_t>(1, s.caps().copy_align);
  return (size + align - 1) / align * align;
}

void create_sizes(Session& s) {
  for (uint64_t size :
       {1ull, 3ull, 63ull, 64ull, 65ull, 4095ull, 4097ull, 65537ull, 1ull << 20, (1ull << 24) + 1}) {
    size = copyable(s, size);
    auto buffer = s.buffer(size);
    const Bytes bytes = random_bytes(std::min<uint64_t>(size, 4096) / copyable(s, 1) * copyable(s, 1), size);
    const uint64_t end = size - bytes.size();
    s.write({buffer.get(), end / copyable(s, 1) * copyable(s, 1), bytes.size()}, bytes.data());
    if (s.computes()) expect_bytes(bytes, s.read({buffer.get(), end, bytes.size()}), "the end of a buffer");
  }
}

void zero_size(Session& s) {
  auto buffer = s.buffer(0);
  s.write({buffer.get(), 0, 0}, nullptr);
  ok(s.plugin().stream.copy_out(s.stream(), nullptr, {buffer.get(), 0, 0}, 0), "copy_out of no bytes");
}

void align(Session& s) {
  for (uint64_t wanted : {uint64_t{0}, uint64_t{256}, uint64_t{4096}}) {
    tolk_buffer* buffer = nullptr;
    ok(s.create(1000, 0, TOLK_BUFFER_DEVICE, wanted, &buffer), "buffer.create");
    void* pointer = nullptr;
    const tolk_status status = s.plugin().buffer.map(buffer, 0, 1000, TOLK_MAP_READ, &pointer);
    const uint64_t needed = std::max({wanted, s.caps().buffer_align, uint64_t{1}});
    if (status == TOLK_OK) s.plugin().buffer.unmap(buffer, pointer);
    s.plugin().buffer.destroy(buffer);
    if (status == TOLK_E_UNSUPPORTED) throw Skipped{"map of device memory"};
    ok(status, "map");
    expect(reinterpret_cast<uintptr_t>(pointer) % needed == 0,
           fmt::format("an address that is a multiple of {}", needed), fmt::format("{}", pointer));
  }
}

void kinds(Session& s) {
  for (uint32_t kind = TOLK_BUFFER_DEVICE; kind <= TOLK_BUFFER_DEVICE_WRITABLE; kind++) {
    tolk_buffer* buffer = nullptr;
    const tolk_status status = s.create(4096, 0, kind, 0, &buffer);
    if (s.caps().buffer_kinds & (1u << kind)) {
      ok(status, fmt::format("buffer.create of kind {}, which caps.buffer_kinds has", kind).c_str());
      s.plugin().buffer.destroy(buffer);
    } else {
      refused(status, TOLK_E_UNSUPPORTED, "buffer.create of a kind that caps.buffer_kinds lacks");
    }
  }
}

// An impossible size is a normal answer: the code by which the host knows to free its caches and ask again.
void huge_refused(Session& s) {
  for (uint64_t size : {uint64_t{1} << 62, UINT64_MAX - 4096, UINT64_MAX}) {
    tolk_buffer* buffer = nullptr;
    const tolk_status status = s.create(size, 0, TOLK_BUFFER_DEVICE, 0, &buffer);
    if (status == TOLK_E_LIMIT && s.caps().max_buffer_bytes && size > s.caps().max_buffer_bytes) continue;
    refused(status, TOLK_E_DEVICE_OOM, "buffer.create of an impossible size");
    expect(buffer == nullptr, "no buffer from a failed create", "a handle");
  }
  auto after = s.buffer(4096);
}

void many_small(Session& s) {
  std::vector<Owned<tolk_buffer>> all;
  for (int i = 0; i < 3000; i++) {
    tolk_buffer* made = nullptr;
    const tolk_status status = s.create(256, 0, TOLK_BUFFER_DEVICE, 0, &made);
    if (status == TOLK_E_DEVICE_OOM) break;
    ok(status, "buffer.create");
    all.push_back({made, [&s](tolk_buffer* b) { s.plugin().buffer.destroy(b); }});
  }
  expect(all.size() >= 64, "64 buffers of 256 bytes", std::to_string(all.size()));
}

void independent(Session& s) {
  std::vector<Owned<tolk_buffer>> buffers;
  std::vector<Bytes> contents;
  for (uint64_t size : {1000ull, 64ull, 129ull, 4097ull, 1ull, 257ull, 1023ull, 72ull}) {
    buffers.push_back(s.buffer(copyable(s, size)));
    contents.push_back(random_bytes(copyable(s, size), size));
  }
  for (size_t i = 0; i < buffers.size(); i++)
    s.write({buffers[i].get(), 0, contents[i].size()}, contents[i].data());
  for (size_t i = 0; i < buffers.size(); i++)
    expect_bytes(contents[i], s.read(buffers[i].get(), contents[i].size()),
                 fmt::format("buffer {} after writes to others", i));
}

void zeroed_flag(Session& s) {
  for (int round = 0; round < 4; round++) {
    const Bytes dirt(8192, 0x5a);
    {
      auto dirty = s.buffer(8192);
      s.write({dirty.get(), 0, 8192}, dirt.data());
    }
    auto buffer = s.buffer(8192, TOLK_BUFFER_ZEROED);
    expect_bytes(Bytes(8192), s.read(buffer.get(), 8192), "zero bytes of a ZEROED buffer");
  }
}

void destroy_order(Session& s) {
  std::vector<tolk_buffer*> buffers(30);
  for (int round = 0; round < 3; round++) {
    for (tolk_buffer*& b : buffers) ok(s.create(1024, 0, TOLK_BUFFER_DEVICE, 0, &b), "buffer.create");
    if (round == 1) std::reverse(buffers.begin(), buffers.end());
    if (round == 2) std::swap(buffers[3], buffers[20]), std::swap(buffers[7], buffers[11]);
    for (tolk_buffer* b : buffers) s.plugin().buffer.destroy(b);
  }
}

// A kernel sees element k of a ref at its offset, and writes nothing beside it.
void offset_ref(Session& s) {
  if (s.caps().flags & TOLK_CAP_NO_OFFSET_VIEWS) throw Skipped{"refs with offsets"};
  const uint64_t step = std::max<uint64_t>({s.caps().offset_align, s.caps().copy_align, 4});
  std::vector<int32_t> numbers(2048);
  std::iota(numbers.begin(), numbers.end(), 0);
  auto in = s.buffer(8192), out = s.buffer(8192);
  Loaded kernel = s.kernel(add_to());
  s.write({in.get(), 0, 8192}, numbers.data());
  for (uint64_t offset = 0; offset <= 4096;
       offset += std::max(step, (offset < 64 ? step : 260 / step * step + step))) {
    const std::vector<int32_t> poison(2048, -7);
    s.write({out.get(), 0, 8192}, poison.data());
    const uint64_t other = (4096 - offset) / step * step;
    s.launch(kernel.kernel, {{out.get(), other, 16}, {in.get(), offset, 16}}, {1000}, 4);
    s.sync();
    std::vector<int32_t> wanted = poison, found(2048);
    for (uint64_t i = 0; i < 4; i++) wanted[other / 4 + i] = numbers[offset / 4 + i] + 1000;
    const Bytes bytes = s.read(out.get(), 8192);
    std::memcpy(found.data(), bytes.data(), 8192);
    for (size_t i = 0; i < found.size(); i++)
      expect(found[i] == wanted[i],
             fmt::format("{} at element {} of the output at offset {}, input at offset {}", wanted[i], i,
                         other, offset),
             std::to_string(found[i]));
  }
}

void map_rw(Session& s) {
  for (uint32_t kind = TOLK_BUFFER_DEVICE; kind <= TOLK_BUFFER_DEVICE_WRITABLE; kind++) {
    if (!(s.caps().buffer_kinds & (1u << kind))) continue;
    auto buffer = s.buffer(4096, 0, kind);
    void* pointer = nullptr;
    const tolk_status status =
        s.plugin().buffer.map(buffer.get(), 256, 1024, TOLK_MAP_READ | TOLK_MAP_WRITE, &pointer);
    if (kind == TOLK_BUFFER_DEVICE && status == TOLK_E_UNSUPPORTED && s.info().kind != TOLK_KIND_CPU)
      continue;
    if (kind == TOLK_BUFFER_DEVICE && status == TOLK_E_UNSUPPORTED) continue; // said by map_unmappable
    ok(status, "map");
    const Bytes bytes = random_bytes(1024, kind);
    std::memcpy(pointer, bytes.data(), 1024);
    ok(s.plugin().buffer.unmap(buffer.get(), pointer), "unmap");
    expect_bytes(bytes, s.read({buffer.get(), 256, 1024}), "bytes written through a map");
    const Bytes next = random_bytes(1024, kind + 99);
    s.write({buffer.get(), 256, 1024}, next.data());
    ok(s.plugin().buffer.map(buffer.get(), 0, 4096, TOLK_MAP_READ, &pointer), "map");
    Bytes seen(1024);
    std::memcpy(seen.data(), static_cast<const uint8_t*>(pointer) + 256, 1024);
    ok(s.plugin().buffer.unmap(buffer.get(), pointer), "unmap");
    expect_bytes(next, seen, "copied bytes seen through a map");
  }
}

void map_discard(Session& s) {
  if (!(s.caps().buffer_kinds & (1u << TOLK_BUFFER_STAGING))) throw Skipped{"buffers of kind STAGING"};
  auto buffer = s.buffer(4096, 0, TOLK_BUFFER_STAGING);
  Bytes bytes = random_bytes(4096, 5);
  s.write({buffer.get(), 0, 4096}, bytes.data());
  void* pointer = nullptr;
  ok(s.plugin().buffer.map(buffer.get(), 1024, 512, TOLK_MAP_WRITE | TOLK_MAP_DISCARD, &pointer), "map");
  std::memset(pointer, 9, 512);
  ok(s.plugin().buffer.unmap(buffer.get(), pointer), "unmap");
  std::fill_n(bytes.begin() + 1024, 512, 9);
  expect_bytes(bytes, s.read(buffer.get(), 4096), "the neighbours of a discarded range");
}

struct Import {
  void* block = nullptr;
  int released = 0;
  ~Import() { std::free(block); }
};

void import_host(Session& s) {
  Import memory;
  const uint64_t size = std::max<uint64_t>(16384, s.caps().import_align);
  memory.block = std::aligned_alloc(std::max<uint64_t>(4096, s.caps().import_align), size);
  const Bytes bytes = random_bytes(size, 11);
  std::memcpy(memory.block, bytes.data(), size);
  tolk_buffer_desc desc{};
  desc.struct_size = sizeof desc;
  desc.kind = TOLK_BUFFER_STAGING;
  desc.usage = TOLK_USAGE_KERNEL_READ | TOLK_USAGE_KERNEL_WRITE;
  desc.size = size;
  tolk_buffer* buffer = nullptr;
  ok(s.plugin().buffer.import_handle(
         s.device(), &desc, TOLK_HANDLE_HOST_POINTER, reinterpret_cast<uintptr_t>(memory.block),
         [](void* arg) { static_cast<Import*>(arg)->released++; }, &memory, &buffer),
     "import_handle");
  const Bytes found = s.read(buffer, size);
  const int early = memory.released;
  s.plugin().buffer.destroy(buffer);
  if (s.computes()) expect_bytes(bytes, found, "imported memory");
  expect(early == 0, "release not called before destroy", fmt::format("{} calls", early));
  expect(memory.released == 1, "release called once by destroy", fmt::format("{} calls", memory.released));
}

void import_bad(Session& s) {
  Import memory;
  tolk_buffer_desc desc{};
  desc.struct_size = sizeof desc;
  desc.kind = TOLK_BUFFER_STAGING;
  desc.size = 4096;
  tolk_buffer* buffer = nullptr;
  const tolk_status status = s.plugin().buffer.import_handle(
      s.device(), &desc, 4711, 0, [](void* arg) { static_cast<Import*>(arg)->released++; }, &memory, &buffer);
  expect(status < 0, "an error from import_handle of an unknown type", std::to_string(status));
  expect(memory.released == 0, "release not called when import fails",
         fmt::format("{} calls", memory.released));
}

void accounting(Session& s) {
  auto cycle = [&] {
    auto a = s.buffer(1 << 16), b = s.buffer(100);
    s.write({a.get(), 0, 64}, Bytes(64).data());
    s.sync();
  };
  for (int i = 0; i < 3; i++) cycle();
  const uint64_t blocks = s.host().live_allocations, bytes = s.host().live_bytes;
  for (int i = 0; i < 100; i++) cycle();
  expect(s.host().live_allocations <= blocks,
         fmt::format("{} blocks of host.mem_alloc after 100 cycles", blocks),
         std::to_string(s.host().live_allocations));
  expect(s.host().live_bytes <= bytes, fmt::format("{} bytes of host.mem_alloc after 100 cycles", bytes),
         std::to_string(s.host().live_bytes));
}

tolk_memory memory_of(Session& s) {
  struct {
    tolk_memory m;
    uint8_t guard[64];
  } place;
  std::memset(&place, 0xa5, sizeof place);
  place.m.struct_size = sizeof place.m;
  ok(s.plugin().device.memory(s.device(), &place.m), "memory");
  for (uint8_t byte : place.guard) expect(byte == 0xa5, "no write beyond struct_size of tolk_memory", "one");
  expect(place.m.struct_size == sizeof place.m, "struct_size left alone",
         std::to_string(place.m.struct_size));
  return place.m;
}

void counters(Session& s) {
  const tolk_memory before = memory_of(s);
  {
    auto a = s.buffer(1 << 20), b = s.buffer(1 << 20);
    const tolk_memory during = memory_of(s);
    expect(during.used_bytes >= before.used_bytes + (2 << 20), "used_bytes grown by 2 MiB",
           std::to_string(during.used_bytes - before.used_bytes));
    expect(during.buffer_count >= before.buffer_count + 2 || during.buffer_count == 0,
           "buffer_count grown by 2", std::to_string(during.buffer_count));
    expect(during.peak_bytes == 0 || during.peak_bytes >= during.used_bytes,
           "peak_bytes not below used_bytes", std::to_string(during.peak_bytes));
  }
  for (int i = 0; i < 50; i++) {
    auto c = s.buffer(1 << 16);
  }
  const tolk_memory after = memory_of(s);
  expect(after.used_bytes == before.used_bytes, fmt::format("used_bytes {} as before", before.used_bytes),
         std::to_string(after.used_bytes));
  expect(after.buffer_count == before.buffer_count,
         fmt::format("buffer_count {} as before", before.buffer_count), std::to_string(after.buffer_count));
}

void free_total(Session& s) {
  const tolk_memory m = memory_of(s);
  if (m.total_bytes)
    expect(m.free_bytes <= m.total_bytes, "free_bytes at most total_bytes", std::to_string(m.free_bytes));
}

void out_smaller(Session& s) {
  uint8_t place[sizeof(tolk_memory)];
  std::memset(place, 0xa5, sizeof place);
  const uint32_t size = 16;
  std::memcpy(place, &size, sizeof size);
  ok(s.plugin().device.memory(s.device(), reinterpret_cast<tolk_memory*>(place)),
     "memory with a short struct");
  for (size_t i = size; i < sizeof place; i++)
    expect(place[i] == 0xa5, "no write beyond a struct_size of 16", fmt::format("a write at byte {}", i));
}

// A descriptor of a newer host: what lies beyond the known size is not read.
void desc_bigger(Session& s) {
  struct {
    tolk_buffer_desc desc;
    uint8_t tail[64];
  } place{};
  std::memset(place.tail, 0xaa, sizeof place.tail);
  place.desc.struct_size = sizeof place;
  place.desc.kind = TOLK_BUFFER_DEVICE;
  place.desc.size = 4096;
  tolk_buffer* buffer = nullptr;
  ok(s.plugin().buffer.create(s.device(), &place.desc, &buffer), "buffer.create with a longer descriptor");
  s.plugin().buffer.destroy(buffer);
}

// The last element of a buffer, by a copy and by a kernel.
void range_end(Session& s) {
  Loaded kernel = s.kernel(add_value());
  for (uint64_t size : {4ull, 64ull, 4096ull, 65536ull + 4}) {
    auto buffer = s.buffer(size, TOLK_BUFFER_ZEROED);
    const uint64_t step = std::max<uint64_t>({s.caps().offset_align, s.caps().copy_align, 4}),
                   at = (size - 4) / step * step;
    if ((s.caps().flags & TOLK_CAP_NO_OFFSET_VIEWS) && at) continue;
    const int32_t five = 5;
    s.write({buffer.get(), at, 4}, &five);
    s.launch(kernel.kernel, {{buffer.get(), at, 4}}, {2}, 1);
    s.sync();
    int32_t found = 0;
    std::memcpy(&found, s.read({buffer.get(), at, 4}).data(), 4);
    expect(found == 7, fmt::format("7 at the end of {} bytes", size), std::to_string(found));
  }
}

void map_partial(Session& s) {
  if (!(s.caps().buffer_kinds & (1u << TOLK_BUFFER_STAGING))) throw Skipped{"buffers of kind STAGING"};
  auto buffer = s.buffer(4096, 0, TOLK_BUFFER_STAGING);
  Bytes bytes = random_bytes(4096, 6);
  s.write({buffer.get(), 0, 4096}, bytes.data());
  void *first = nullptr, *second = nullptr;
  ok(s.plugin().buffer.map(buffer.get(), 0, 2048, TOLK_MAP_READ | TOLK_MAP_WRITE, &first), "map");
  ok(s.plugin().buffer.map(buffer.get(), 1024, 2048, TOLK_MAP_READ | TOLK_MAP_WRITE, &second),
     "a map that overlaps another");
  static_cast<uint8_t*>(first)[1500] = bytes[1500] = 1;
  static_cast<uint8_t*>(second)[1000] = bytes[2024] = 2;
  ok(s.plugin().buffer.unmap(buffer.get(), first), "unmap");
  ok(s.plugin().buffer.unmap(buffer.get(), second), "unmap");
  expect_bytes(bytes, s.read(buffer.get(), 4096), "bytes written through two overlapping maps");
}

void chain_ignorable(Session& s) {
  const tolk_chain unknown{0x7ffffff0, sizeof unknown, nullptr};
  tolk_buffer_desc desc{};
  desc.struct_size = sizeof desc;
  desc.kind = TOLK_BUFFER_DEVICE;
  desc.size = 64;
  desc.next = &unknown;
  tolk_buffer* buffer = nullptr;
  ok(s.plugin().buffer.create(s.device(), &desc, &buffer),
     "buffer.create with an unknown chain type below 2^31");
  s.plugin().buffer.destroy(buffer);
}

// A host of a later version: its tail is not written.
void out_bigger(Session& s) {
  struct {
    tolk_memory memory;
    uint8_t tail[64];
  } place;
  std::memset(&place, 0xa5, sizeof place);
  place.memory.struct_size = sizeof place;
  ok(s.plugin().device.memory(s.device(), &place.memory), "memory with a longer struct");
  for (uint8_t byte : place.tail) expect(byte == 0xa5, "an untouched tail of a longer struct", "a write");
  expect(place.memory.struct_size == sizeof place, "struct_size left alone",
         std::to_string(place.memory.struct_size));
}

constexpr Case kCases[] = {
    {"buf.create_sizes", Tier::Required, kDevice, create_sizes},
    {"buf.zero_size", Tier::Required, kDevice, zero_size},
    {"buf.align", Tier::Required, kDevice | kMap, align},
    {"buf.kinds", Tier::Required, kDevice, kinds},
    {"buf.huge_refused", Tier::Required, kDevice, huge_refused},
    {"buf.many_small", Tier::Required, kDevice, many_small},
    {"buf.independent", Tier::Required, kDevice | kValues, independent},
    {"buf.zeroed_flag", Tier::Required, kDevice | kValues, zeroed_flag},
    {"buf.destroy_order", Tier::Required, kDevice, destroy_order},
    {"buf.offset_ref", Tier::Required, kDevice | kValues, offset_ref},
    {"buf.map_rw", Tier::Optional, kDevice | kMap | kValues, map_rw},
    {"buf.map_discard", Tier::Optional, kDevice | kMap | kValues, map_discard},
    {"buf.import_host", Tier::Optional, kDevice | kImport, import_host},
    {"buf.import_misaligned", Tier::Optional, kDevice | kImport, import_bad},
    {"buf.accounting", Tier::Required, kDevice, accounting},
    {"mem.counters", Tier::Optional, kDevice | kMemory, counters},
    {"mem.free_le_total", Tier::Optional, kDevice | kMemory, free_total},
    {"buf.range_end", Tier::Required, kDevice | kValues, range_end},
    {"buf.map_partial", Tier::Optional, kDevice | kMap | kValues, map_partial},
    {"abi.chain_unknown_ignorable", Tier::Required, kDevice, chain_ignorable},
    {"abi.out_bigger", Tier::Required, kDevice | kMemory, out_bigger},
    {"abi.out_smaller", Tier::Required, kDevice | kMemory, out_smaller},
    {"abi.desc_bigger_poison", Tier::Required, kDevice, desc_bigger},
};

} // namespace

std::span<const Case> buffer_cases() { return kCases; }

} // namespace conformance
