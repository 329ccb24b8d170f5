#include "multi_support.h"

#include <boost/test/unit_test.hpp>
#include <cstring>

std::vector<double> support::whole(const tolk::UOp& result, host::Memory& memory) {
  std::string device = tolk::device_of(result);
  if (!tolk::is_multi(device)) return values(result, memory);
  size_t count = tolk::split_devices(device).size();
  if (!result.is(tolk::Op::MULTI)) {
    std::vector<double> first = part(result, 0, memory);
    for (size_t i = 1; i < count; ++i) {
      std::vector<double> other = part(result, i, memory);
      BOOST_TEST(other.size() == first.size());
      BOOST_TEST(std::memcmp(other.data(), first.data(), first.size() * sizeof(double)) == 0);
    }
    return first;
  }
  const tolk::Shape &shape = tolk::shape_of(result), &small = tolk::shape_of(result.src(0));
  auto axis = size_t(tolk::multi_axis(result));
  int64_t inner = 1, width = small[axis].value(), outer = 1;
  for (size_t i = 0; i < axis; ++i) outer *= shape[i].value();
  for (size_t i = axis + 1; i < shape.size(); ++i) inner *= shape[i].value();
  std::vector<double> out(size_t(tolk::numel(shape).value()));
  for (size_t p = 0; p < count; ++p) {
    std::vector<double> mine = part(result, p, memory);
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t k = 0; k < width * inner; ++k)
        out[size_t((o * int64_t(count) + int64_t(p)) * width * inner + k)] =
            mine[size_t(o * width * inner + k)];
  }
  return out;
}
