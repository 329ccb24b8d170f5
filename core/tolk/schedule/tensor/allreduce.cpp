#include "tolk/schedule/tensor/allreduce.h"

#include <algorithm>

#include "tolk/uop/build.h"

namespace tolk::schedule {
namespace {

// The number of elements from which chunks outweigh their additional calls.
constexpr int64_t kManyElements = 256'000;

enum class Way { Naive, Ring, AllToAll };

Way way_for(const UOp& part, size_t count, const Options& options) {
  for (const SInt& d : shape_of(part))
    if (!d.is_const()) return Way::Naive;
  bool many = count > 2 && max_numel(shape_of(part)) > kManyElements;
  if (options.all_to_all >= 2 || (options.all_to_all == 1 && many)) return Way::AllToAll;
  if (options.ring >= 2 || (options.ring == 1 && many)) return Way::Ring;
  return Way::Naive;
}

struct Chunk {
  int64_t begin, size;
};
// As equal as units of up to 32 elements allow, larger ones first. Fewer than `count` when there is too
// little.
std::vector<Chunk> chunks_of(int64_t elements, int64_t count) {
  int64_t unit = 32;
  while (elements % unit != 0) unit /= 2;
  int64_t units = elements / unit;
  std::vector<Chunk> chunks;
  for (int64_t i = 0, begin = 0; i < count; ++i) {
    int64_t size = (units / count + (i < units % count)) * unit;
    if (size > 0) chunks.push_back({begin, size});
    begin += size;
  }
  return chunks;
}

class Chunked {
public:
  Chunked(std::span<const UOp> parts, Op op, const std::vector<std::string>& devices)
      : op_(op), devices_(devices) {
    for (const UOp& part : parts) flat_.push_back(reshape(part, {numel(shape_of(part))}));
  }

  UOp run(const Shape& shape, bool ring) const {
    std::vector<UOp> combined;
    size_t position = 0;
    for (const Chunk& chunk : chunks_of(numel(shape_of(flat_[0])).value(), int64_t(flat_.size()))) {
      combined.push_back(ring ? around(chunk, position) : directly(chunk, position));
      ++position;
    }
    return reshape(joined_parts(combined, 0), shape);
  }

private:
  UOp piece(size_t position, const Chunk& chunk) const {
    return shrink(flat_[position], {chunk.begin}, {chunk.size});
  }

  // The chunk starts at its position, each next adds its own; the last has the result, which goes on around.
  UOp around(const Chunk& chunk, size_t start) const {
    size_t count = flat_.size();
    UOp sum = piece(start, chunk);
    for (size_t step = 1; step < count; ++step) {
      size_t to = (start + step) % count;
      sum = alu(op_, copy_to(sum, devices_[to]), piece(to, chunk));
    }
    std::vector<UOp> results(count);
    size_t at = (start + count - 1) % count;
    results[at] = contiguous(sum);
    for (size_t step = 1; step < count; ++step) {
      size_t next = (at + 1) % count;
      results[next] = copy_to(results[at], devices_[next]);
      at = next;
    }
    return mstack(results);
  }

  UOp directly(const Chunk& chunk, size_t owner) const {
    UOp sum;
    for (size_t i = 0; i < flat_.size(); ++i) {
      UOp received = copy_to(piece(i, chunk), devices_[owner]);
      sum = sum ? alu(op_, sum, received) : received;
    }
    return handed_out(contiguous(sum), devices_);
  }

  Op op_;
  const std::vector<std::string>& devices_;
  std::vector<UOp> flat_;
};

} // namespace

UOp joined_parts(std::span<const UOp> parts, int axis) {
  if (parts.size() == 1) return parts[0];
  const Shape& first = shape_of(parts[0]);
  SInt total = 0;
  for (const UOp& part : parts) total = total + shape_of(part)[size_t(axis)];
  Shape line(first.size(), SInt(1)), shape = first;
  line[size_t(axis)] = total, shape[size_t(axis)] = total;
  UOp place = expand(reshape(iota(DType::I64, total), line), shape), out;
  SInt begin = 0;
  for (const UOp& part : parts) {
    SInt size = shape_of(part)[size_t(axis)];
    Shape before(first.size(), SInt(0)), after = before;
    before[size_t(axis)] = begin, after[size_t(axis)] = total - begin - size;
    UOp placed = pad(part, before, after);
    out = out ? where(less(place, cast(begin.uop(), DType::I64)), out, placed) : placed;
    begin = begin + size;
  }
  return out;
}

UOp handed_out(const UOp& part, const std::vector<std::string>& devices) {
  std::vector<UOp> copies;
  for (const std::string& device : devices) copies.push_back(copy_to(part, device));
  return mstack(copies);
}

UOp lowered_allreduce(std::span<const UOp> parts, Op op, const std::vector<std::string>& devices,
                      const Options& options) {
  Way way = way_for(parts[0], parts.size(), options);
  if (way != Way::Naive && max_numel(shape_of(parts[0])) > 0)
    return Chunked(parts, op, devices).run(shape_of(parts[0]), way == Way::Ring);
  UOp sum;
  for (const UOp& part : parts) {
    UOp everywhere = handed_out(part, devices);
    sum = sum ? alu(op, sum, everywhere) : everywhere;
  }
  return sum;
}

} // namespace tolk::schedule
