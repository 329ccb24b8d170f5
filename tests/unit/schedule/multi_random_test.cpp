// Random graphs over inputs that lie on several devices, in parts or whole: what the schedule computes equals
// the graph over the same inputs on one device, computed node by node.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "multi_support.h"
#include "random_graph.h"

using namespace mini;
using namespace support;

namespace {

bool close(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b || std::abs(a - b) <= 1e-9 * (1 + std::abs(a));
}

// The input on the devices: in parts along some axis that allows it, or whole.
T distributed(const T& x, const Devices& on, std::mt19937& random, std::string& how) {
  std::vector<int64_t> axes;
  for (int i = 0; i < x.rank(); ++i)
    if (x.size(i).value() % int64_t(on.size()) == 0) axes.push_back(i);
  if (axes.empty() || random() % 5 == 0) {
    how += " whole";
    return replicate(x, on);
  }
  int64_t axis = axes[random() % axes.size()];
  how += " axis " + std::to_string(axis);
  return shard(x, on, axis);
}

} // namespace

BOOST_AUTO_TEST_CASE(sharded_inputs_give_what_whole_ones_do) {
  // TOLK_FUZZ_SEEDS=FIRST:LAST runs others.
  uint32_t first = 1, last = 400;
  if (const char* range = std::getenv("TOLK_FUZZ_SEEDS")) std::sscanf(range, "%u:%u", &first, &last);
  size_t with_parts = 0;
  for (uint32_t seed = first; seed <= last; ++seed) {
    std::mt19937 random(seed);
    random_graph::Graph g = random_graph::make(seed, 3 + int(seed % 12));
    Devices on = devices(2 + random() % 3);
    host::Memory memory;
    std::vector<T> inputs;
    std::string how = "seed " + std::to_string(seed) + ", " + tolk::join_devices(on) + ":";
    for (const T& t : g.inputs) {
      UOp buffer = storage(t);
      std::vector<double> data;
      for (int64_t i = 0; i < tolk::elements_of(buffer); ++i)
        data.push_back(t.dtype() == DType::F64 ? double(int(random() % 4001) - 2000) / 1000
                                               : double(int(random() % 7) - 2));
      memory.fill(buffer, data);
      inputs.push_back(distributed(t, on, random, how));
    }
    std::vector<T> roots = random_graph::make(seed, 3 + int(seed % 12), false, inputs).roots;
    auto o = options();
    o.ring = seed % 3 == 1 ? 2 : 0, o.all_to_all = seed % 3 == 2 ? 2 : 0;
    o.memory_plan = seed % 2 == 0;
    BOOST_TEST_CHECKPOINT(how);
    try {
      auto s = schedule(roots, o);
      host::run_linear(s.linear, memory);
      for (size_t r = 0; r < roots.size(); ++r) {
        std::vector<double> expected = values(g.roots[r].u, memory), got = whole(s.results[r], memory);
        with_parts += s.results[r].is(Op::MULTI);
        BOOST_TEST((tolk::schedule::sharding_of(roots[r].u).sharded()) == s.results[r].is(Op::MULTI), how);
        BOOST_REQUIRE(tolk::shape_of(s.results[r]) == g.roots[r].shape());
        BOOST_REQUIRE_EQUAL(got.size(), expected.size());
        for (size_t i = 0; i < got.size(); ++i)
          BOOST_REQUIRE_MESSAGE(close(got[i], expected[i]), how << ", root " << r << " element " << i << ": "
                                                                << got[i] << ", expected " << expected[i]
                                                                << "\n"
                                                                << tolk::print(g.roots[r].u));
      }
    } catch (const std::exception& e) {
      BOOST_FAIL(how << ": " << e.what() << "\n" << tolk::print(roots[0].u));
    }
  }
  BOOST_TEST(with_parts > (last - first) / 8); // the test is about something
}

BOOST_AUTO_TEST_CASE(stores_to_random_boxes_of_sharded_state) {
  uint32_t first = 1, last = 200;
  if (const char* range = std::getenv("TOLK_FUZZ_SEEDS")) std::sscanf(range, "%u:%u", &first, &last);
  for (uint32_t seed = first; seed <= last; ++seed) {
    std::mt19937 random(seed);
    auto below = [&](int n) { return int(random() % uint32_t(n)); };
    Devices on = devices(size_t(2 + below(3)));
    auto count = int64_t(on.size());
    Shape shape{below(3) + 1, below(3) + 1, below(3) + 1};
    auto axis = size_t(below(3));
    shape[axis] = count * (below(2) + 1);
    host::Memory memory;
    T plain = buffer(shape, DType::F64), other = buffer(shape, DType::F64);
    memory.fill(storage(plain), ramp(tolk::numel(shape).value()));
    memory.fill(storage(other), ramp(tolk::numel(shape).value(), 100));
    std::string how = "seed " + std::to_string(seed) + ", " + tolk::join_devices(on);
    T state{run({shard(plain, on, int64_t(axis))}, memory).results[0]};
    T other_there = below(2) ? replicate(other, on) : shard(other, on, int64_t(axis));
    for (int step = 0; step < 4; ++step) {
      Shape begin, size;
      for (const SInt& d : shape) {
        int64_t keep = below(int(d.value())) + 1;
        begin.emplace_back(below(int(d.value() - keep) + 1)), size.emplace_back(keep);
      }
      int kind = below(5), turned = below(3);
      // What is stored, over the state and another value.
      auto value = [&](const T& x, const T& y) {
        T box = shrink(x, begin, size);
        if (kind == 0) return box * 0.5 + 1;
        if (kind == 1) return flip(box, {turned}) - 1;
        if (kind == 2) return shrink(y, begin, size);
        if (kind == 3) return box + sum(x, {0, 1, 2}, true);
        return full(size, double(step), DType::F64);
      };
      std::vector<double> written = values(value(plain, other).u, memory);
      T target = shrink(state, begin, size);
      try {
        run({assign(target, value(state, other_there))}, memory);
      } catch (const std::exception& e) {
        BOOST_FAIL(how << ", step " << step << ", kind " << kind << ": " << e.what());
      }
      size_t next = 0;
      for (int64_t i = 0; i < size[0].value(); ++i)
        for (int64_t j = 0; j < size[1].value(); ++j)
          for (int64_t k = 0; k < size[2].value(); ++k) {
            int64_t at =
                ((begin[0].value() + i) * shape[1].value() + begin[1].value() + j) * shape[2].value() +
                begin[2].value() + k;
            memory.set(storage(plain), at, {0, written[next++]});
          }
      std::vector<double> got = whole(state.u, memory), expected = values(plain.u, memory);
      BOOST_REQUIRE_MESSAGE(got == expected, how << ", step " << step << ", kind " << kind);
    }
  }
}
