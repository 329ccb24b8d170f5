// Two independent ways to compute a graph on the host, in the arithmetic of its dtypes: the tensor graph node
// by node on dense arrays, and a schedule call by call, its kernels loop by loop, on bytes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "tolk/uop/eval.h"
#include "tolk/uop/shape.h"
#include "tolk/uop/uop.h"

namespace host {

using Values = std::vector<tolk::Scalar>;
using Variables = std::map<std::string, int64_t>;

// Bytes of every BUFFER by slot and position in its device tuple. Buffers appear at first use, filled with a
// pattern that is no sensible value.
class Memory {
public:
  std::vector<uint8_t>& bytes(const tolk::UOp& buffer, int64_t position = 0);
  // Elements of a BUFFER, or of SLICEs and MSELECTs over one.
  tolk::Scalar get(const tolk::UOp& storage, int64_t index);
  void set(const tolk::UOp& storage, int64_t index, const tolk::Scalar& value);
  // A BUFFER's elements as doubles.
  void fill(const tolk::UOp& storage, const std::vector<double>& values);

private:
  std::map<std::pair<int64_t, int64_t>, std::vector<uint8_t>> by_slot_;
};

// Elements of a tensor-level node, row-major. Reads BUFFERs as they are now; AFTERs are not known.
Values value_of(const tolk::UOp& u, Memory& memory, const Variables& variables = {});

// Runs a LINEAR, calls on device tuples position by position. Every kernel's arguments must be on one device,
// and every index of every load and store is checked against the storage. Returns the number of
// loop iterations.
int64_t run_linear(const tolk::UOp& linear, Memory& memory, const Variables& variables = {});

std::vector<double> as_doubles(const Values& values, tolk::DType dtype);

} // namespace host
