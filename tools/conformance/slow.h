// Work that takes long enough to be met while it runs.
#pragma once

#include "session.h"

namespace conformance {

// A stir kernel with its buffers, and a number of rounds that takes some 60 ms on this device.
class Slow {
public:
  explicit Slow(Session& s);
  void start(tolk_stream* stream, uint32_t x);
  tolk_ref result() const { return {out_.get(), 0, 4}; }
  tolk_ref input() const { return {in_.get(), 0, 4}; }
  tolk_kernel* kernel() const { return loaded_.kernel; }
  int32_t rounds() const { return rounds_; }
  uint64_t took_ns() const { return took_; } // by one start and what it takes to finish
  uint32_t wanted(uint32_t x) const;

private:
  Session& s_;
  Loaded loaded_;
  Owned<tolk_buffer> in_, out_;
  int32_t rounds_ = 20;
  uint64_t took_ = 0;
};

uint32_t word_of(const Bytes& bytes);

} // namespace conformance
