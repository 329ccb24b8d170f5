// Work that takes long enough to be met while it runs.
#include "slow.h"

#include <algorithm>
#include <cstring>

#include "case.h"
#include "kernels.h"
#include "tolk/base/clock.h"

namespace conformance {

Slow::Slow(Session& s) : s_(s), loaded_(s.kernel(stir())), in_(s.buffer(4)), out_(s.buffer(4)) {
  constexpr uint64_t kWanted = 60'000'000;
  for (int i = 0; i < 8; i++) {
    const uint64_t begin = tolk::now_ns();
    start(s.stream(), 1);
    s.sync();
    took_ = std::max<uint64_t>(1000, tolk::now_ns() - begin);
    if (took_ > kWanted / 2) break;
    rounds_ = static_cast<int32_t>(std::min<uint64_t>(
        kStirRounds, static_cast<uint64_t>(rounds_) * std::min<uint64_t>(20, kWanted / took_ + 1)));
  }
}

void Slow::start(tolk_stream* stream, uint32_t x) {
  s_.write(input(), &x, stream);
  s_.launch(loaded_.kernel, {result(), input()}, {static_cast<uint64_t>(rounds_)}, 1, stream);
}

uint32_t Slow::wanted(uint32_t x) const { return stirred(x, rounds_); }

uint32_t word_of(const Bytes& bytes) {
  uint32_t word = 0;
  std::memcpy(&word, bytes.data(), std::min<size_t>(4, bytes.size()));
  return word;
}

} // namespace conformance
