// Random graphs: what a schedule computes equals the tensor graph computed node by node, with values stored
// where fusion chooses, after every operation, under a limit of buffers, with reductions split at once, and
// without a memory plan.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "random_graph.h"
#include "schedule_support.h"

using namespace mini;
using namespace support;

namespace {

void fill(const random_graph::Graph& g, host::Memory& memory, uint32_t seed) {
  std::mt19937 random(seed);
  for (const T& t : g.inputs) {
    UOp buffer = storage(t);
    std::vector<double> values;
    for (int64_t i = 0; i < tolk::elements_of(buffer); ++i)
      values.push_back(t.dtype() == DType::F64 ? double(int(random() % 4001) - 2000) / 1000
                                               : double(int(random() % 7) - 2));
    memory.fill(buffer, values);
  }
}

bool close(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b || std::abs(a - b) <= 1e-9 * (1 + std::abs(a));
}

void compare(const random_graph::Graph& g, uint32_t seed, const tolk::schedule::Options& o, const char* how) {
  host::Memory memory;
  fill(g, memory, seed);
  std::vector<std::vector<double>> expected;
  for (const T& root : g.roots) expected.push_back(values(root.u, memory));
  auto s = schedule(g.roots, o);
  try {
    host::run_linear(s.linear, memory);
  } catch (const std::exception& e) {
    BOOST_FAIL("seed " << seed << ", " << how << ": " << e.what() << "\n" << tolk::print(g.roots[0].u));
  }
  for (size_t r = 0; r < g.roots.size(); ++r) {
    BOOST_REQUIRE(tolk::shape_of(s.results[r]) == g.roots[r].shape());
    std::vector<double> got = values(s.results[r], memory);
    BOOST_REQUIRE_EQUAL(got.size(), expected[r].size());
    for (size_t i = 0; i < got.size(); ++i)
      BOOST_REQUIRE_MESSAGE(close(got[i], expected[r][i]), "seed " << seed << ", " << how << ", root " << r
                                                                   << " element " << i << ": " << got[i]
                                                                   << ", expected " << expected[r][i] << "\n"
                                                                   << tolk::print(g.roots[r].u));
  }
}

} // namespace

BOOST_AUTO_TEST_CASE(schedules_compute_what_the_graph_says) {
  // TOLK_FUZZ_SEEDS=FIRST:LAST runs others.
  uint32_t first = 1, last = 400;
  if (const char* range = std::getenv("TOLK_FUZZ_SEEDS")) std::sscanf(range, "%u:%u", &first, &last);
  for (uint32_t seed = first; seed <= last; ++seed) {
    BOOST_TEST_CHECKPOINT("seed " << seed);
    random_graph::Graph g = random_graph::make(seed, 4 + int(seed % 20));
    compare(g, seed, options(), "fused");
    tolk::schedule::Options o = options();
    o.max_kernel_buffers = buffer_limit(4);
    o.memory_plan = false;
    compare(g, seed, o, "4 buffers");
    o = options();
    o.reduce_split_threshold = 8;
    compare(g, seed, o, "split reductions");
    random_graph::Graph stored = random_graph::make(seed, 4 + int(seed % 20), true, g.inputs);
    compare(stored, seed, options(), "stored after every operation");
  }
}
