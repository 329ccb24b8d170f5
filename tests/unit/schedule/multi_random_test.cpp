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
