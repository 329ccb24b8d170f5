// THREEFRY: Threefry-2x32 with 20 rounds, of a 64-bit counter and key.
#include "tolk/codegen/decompose/decompose.h"
#include "tolk/uop/build.h"

namespace tolk::codegen {
namespace {

UOp threefry(const Match& m) {
  static constexpr int kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const UOp &counter = m[0], &key = m[1];
  int lanes = counter.lanes();
  auto u32 = [&](int64_t v) { return constant(DType::U32, v, lanes); };
  auto low = [&](const UOp& u) { return cast(u, DType::U32); };
  auto high = [&](const UOp& u) {
    return cast(alu(Op::SHR, u, constant(DType::U64, int64_t{32}, lanes)), DType::U32);
  };
  auto rotated = [&](const UOp& u, int by) {
    return alu(Op::OR, alu(Op::SHL, u, u32(by)), alu(Op::SHR, u, u32(32 - by)));
  };
  UOp k[3] = {low(key), high(key), {}};
  k[2] = alu(Op::XOR, alu(Op::XOR, k[0], k[1]), u32(0x1BD11BDA));
  UOp x0 = low(counter) + k[0], x1 = high(counter) + k[1];
  for (int block = 0; block < 5; ++block) {
    for (int by : kRotations[block % 2]) {
      x0 = x0 + x1;
      x1 = alu(Op::XOR, rotated(x1, by), x0);
    }
    x0 = x0 + k[(block + 1) % 3];
    x1 = x1 + (k[(block + 2) % 3] + u32(block + 1));
  }
  return alu(Op::OR, alu(Op::SHL, cast(x1, DType::U64), constant(DType::U64, int64_t{32}, lanes)),
             cast(x0, DType::U64));
}

} // namespace

std::vector<Rule> random_rules() {
  using namespace pat;
  return {{"threefry", op(Op::THREEFRY, any(0), any(1)), threefry}};
}

} // namespace tolk::codegen
