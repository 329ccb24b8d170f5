// Conformance cases on copies and fills.
#include "session.h"

#include <cstring>
#include <fmt/format.h>
#include <random>

#include "case.h"
#include "kernels.h"

namespace conformance {
namespace {

// A buffer of known bytes and a copy of them here, on which the same operations are done.
struct Mirror {
  Session& s;
  Owned<tolk_buffer> buffer;
  Bytes bytes;
  Mirror(Session& session, uint64_t size, uint64_t seed)
      : s(session), buffer(session.buffer(size)), bytes(random_bytes(size, seed)) {
    s.write(ref(0, size), bytes.data());
  }
  tolk_ref ref(uint64_t offset, uint64_t size) const { return {buffer.get(), offset, size}; }
  void check(const std::string& what) { expect_bytes(bytes, s.read(buffer.get(), bytes.size()), what); }
};

uint64_t unit(Session& s) { return std::max<uint64_t>(1, s.caps().copy_align); }

void roundtrip(Session& s) {
  Mirror m(s, 1 << 18, 1);
  std::mt19937_64 random(s.seed());
  for (uint64_t size : {1ull, 2ull, 3ull, 7ull, 63ull, 64ull, 65ull, 127ull, 1000ull, 4095ull, 4097ull,
                        65537ull, 131071ull}) {
    const uint64_t n = (size + unit(s) - 1) / unit(s) * unit(s);
    for (uint64_t place : {uint64_t{0}, 1 + random() % 100, random() % 100000}) {
      const uint64_t offset = place / unit(s) * unit(s);
      const Bytes part = random_bytes(n, random());
      s.write(m.ref(offset, n), part.data());
      std::copy(part.begin(), part.end(), m.bytes.begin() + static_cast<ptrdiff_t>(offset));
      expect_bytes(part, s.read(m.ref(offset, n)), fmt::format("a copy of {} bytes at offset {}", n, offset));
    }
    m.check(fmt::format("the whole buffer after copies of {} bytes", n));
  }
}

void unaligned_host(Session& s) {
  Mirror m(s, 8192, 2);
  Bytes from = random_bytes(4096 + 16, 3), to(4096 + 16, 0xee);
  for (size_t shift = 0; shift < 8; shift++) {
    ok(s.plugin().stream.copy_in(s.stream(), m.ref(4096, 4096), from.data() + shift, 0),
       "copy_in from an odd address");
    ok(s.plugin().stream.copy_out(s.stream(), to.data() + shift, m.ref(4096, 4096), 0),
       "copy_out to an odd address");
    expect(std::equal(from.begin() + static_cast<ptrdiff_t>(shift),
                      from.begin() + static_cast<ptrdiff_t>(shift + 4096),
                      to.begin() + static_cast<ptrdiff_t>(shift)),
           "the bytes through odd host addresses", "others");
    expect(to[shift + 4096] == 0xee, "no byte beyond the end of host memory written", "one");
    for (size_t i = 0; i < shift; i++) expect(to[i] == 0xee, "no byte before host memory written", "one");
    std::fill(to.begin(), to.end(), 0xee);
  }
}

void zero(Session& s) {
  Mirror m(s, 4096, 4);
  for (uint64_t offset : {uint64_t{0}, uint64_t{4096}}) {
    ok(s.plugin().stream.copy_in(s.stream(), m.ref(offset, 0), nullptr, 0), "copy_in of no bytes");
    ok(s.plugin().stream.copy_out(s.stream(), nullptr, m.ref(offset, 0), 0), "copy_out of no bytes");
  }
  if (s.computes()) m.check("a buffer after copies of no bytes");
}

void source_reuse(Session& s) {
  auto buffer = s.buffer(1 << 20);
  for (int round = 0; round < 5; round++) {
    Bytes bytes = random_bytes(1 << 20, static_cast<uint64_t>(round));
    const Bytes kept = bytes;
    s.write({buffer.get(), 0, bytes.size()}, bytes.data());
    std::fill(bytes.begin(), bytes.end(), 0xff);
    expect_bytes(kept, s.read(buffer.get(), kept.size()),
                 "bytes of a blocking copy_in whose source changes afterwards");
  }
}

void async_in_order(Session& s) {
  auto buffer = s.buffer(4096);
  std::vector<Bytes> sources;
  for (uint64_t i = 0; i < 200; i++) sources.push_back(random_bytes(4096, i));
  for (const Bytes& bytes : sources)
    ok(s.plugin().stream.copy_in(s.stream(), {buffer.get(), 0, 4096}, bytes.data(), TOLK_COPY_ASYNC),
       "copy_in ASYNC");
  Bytes out(4096, 0xcd);
  ok(s.plugin().stream.copy_out(s.stream(), out.data(), {buffer.get(), 0, 4096}, TOLK_COPY_ASYNC),
     "copy_out ASYNC");
  s.sync();
  expect_bytes(sources.back(), out, "the last of 200 asynchronous copies");
}

void async_then_kernel(Session& s) {
  Loaded kernel = s.kernel(add_to());
  auto in = s.buffer(4096), out = s.buffer(4096);
  std::vector<int32_t> numbers(1024, 41), found(1024, -1);
  const tolk_ref from{in.get(), 0, 4096}, to{out.get(), 0, 4096};
  ok(s.plugin().stream.copy_in(s.stream(), from, numbers.data(), TOLK_COPY_ASYNC), "copy_in ASYNC");
  s.launch(kernel.kernel, {to, from}, {1}, 1024);
  ok(s.plugin().stream.copy_out(s.stream(), found.data(), to, TOLK_COPY_ASYNC), "copy_out ASYNC");
  s.sync();
  for (int32_t x : found) expect(x == 42, "42 after copy, kernel and copy on one stream", std::to_string(x));
}

void d2d(Session& s) {
  Mirror a(s, 70000, 5), b(s, 70000, 6);
  for (uint64_t size : {1ull, 64ull, 65ull, 4097ull, 30001ull}) {
    const uint64_t n = (size + unit(s) - 1) / unit(s) * unit(s), from = 17 * unit(s), to = 33 * unit(s);
    ok(s.plugin().stream.copy(s.stream(), b.ref(to, n), a.ref(from, n)), "copy");
    std::copy_n(a.bytes.begin() + static_cast<ptrdiff_t>(from), n,
                b.bytes.begin() + static_cast<ptrdiff_t>(to));
    const uint64_t half = from + 35000 / unit(s) * unit(s);
    ok(s.plugin().stream.copy(s.stream(), a.ref(half, n), a.ref(from, n)), "copy within a buffer");
    std::copy_n(Bytes(a.bytes).begin() + static_cast<ptrdiff_t>(from), n,
                a.bytes.begin() + static_cast<ptrdiff_t>(half));
    s.sync();
    b.check(fmt::format("the destination of a copy of {} bytes", n));
    a.check(fmt::format("a buffer after a copy of {} bytes inside it", n));
  }
}

void d2d_overlap(Session& s) {
  Mirror m(s, 4096, 7);
  refused(s.plugin().stream.copy(s.stream(), m.ref(64 * unit(s), 1024), m.ref(0, 1024)), TOLK_E_INVALID,
          "copy of overlapping ranges");
}

void d2d_size(Session& s) {
  Mirror m(s, 8192, 8);
  refused(s.plugin().stream.copy(s.stream(), m.ref(4096, 1024), m.ref(0, 2048)), TOLK_E_INVALID,
          "copy of ranges of two sizes");
}

void fill_patterns(Session& s) {
  Mirror m(s, 8192, 9);
  for (uint32_t width : {1u, 2u, 4u, 8u})
    for (uint64_t size : {8ull, 64ull, 1000ull, 4096ull}) {
      const uint64_t pattern = 0x0123456789abcdef * width, offset = 1024 + width * 8;
      ok(s.plugin().stream.fill(s.stream(), m.ref(offset, size), pattern, width), "fill");
      for (uint64_t i = 0; i < size; i++)
        m.bytes[offset + i] = static_cast<uint8_t>(pattern >> (8 * (i % width)));
      s.sync();
      m.check(fmt::format("a fill of {} bytes with a pattern of {}", size, width));
    }
}

// Without `copy` the host goes through its own memory: both ways give the same.
void bounce(Session& s) {
  Mirror a(s, 4096, 10), b(s, 4096, 11);
  ok(s.plugin().stream.copy(s.stream(), b.ref(0, 4096), a.ref(0, 4096)), "copy");
  s.sync();
  expect_bytes(s.read(a.buffer.get(), 4096), s.read(b.buffer.get(), 4096),
               "a native copy against one through the host");
}

constexpr Case kCases[] = {
    {"xfer.roundtrip", Tier::Required, kDevice | kValues, roundtrip},
    {"xfer.unaligned_host", Tier::Required, kDevice | kValues, unaligned_host},
    {"xfer.zero", Tier::Required, kDevice, zero},
    {"xfer.blocking_source_reuse", Tier::Required, kDevice | kValues, source_reuse},
    {"xfer.async_in_order", Tier::Optional, kDevice | kValues | kStreams, async_in_order},
    {"xfer.async_then_kernel", Tier::Optional, kDevice | kValues | kStreams, async_then_kernel},
    {"xfer.d2d", Tier::Optional, kDevice | kValues | kCopy, d2d},
    {"xfer.d2d_overlap", Tier::Optional, kDevice | kCopy, d2d_overlap},
    {"xfer.d2d_size_mismatch", Tier::Optional, kDevice | kCopy, d2d_size},
    {"xfer.fill_patterns", Tier::Optional, kDevice | kValues | kFill, fill_patterns},
    {"xfer.bounce_equals_native", Tier::Required, kDevice | kValues | kCopy, bounce},
};

} // namespace

std::span<const Case> copy_cases() { return kCases; }

} // namespace conformance
