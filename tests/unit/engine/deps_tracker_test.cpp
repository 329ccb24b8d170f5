// Dependencies from byte ranges, against a byte-by-byte model.
#include <random>
#include <set>

#include <boost/test/unit_test.hpp>

#include "graph_support.h"
#include "tolk/engine/graph/deps_tracker.h"

using namespace tolk;
using engine::DepsTracker;
using Access = tolk::engine::StorageUse;
using Tokens = std::vector<uint32_t>;

namespace {

Access reads(uint64_t begin, uint64_t end, uint64_t base = 1) { return {{base, begin, end}, false}; }
Access writes(uint64_t begin, uint64_t end, uint64_t base = 1) { return {{base, begin, end}, true}; }

Tokens access(DepsTracker& tracker, std::vector<Access> accesses, uint32_t token) {
  return tracker.access(accesses, token);
}

} // namespace

BOOST_AUTO_TEST_CASE(byte_ranges_split, *boost::unit_test::label("P-13")) {
  DepsTracker t;
  BOOST_TEST((access(t, {writes(0, 12)}, 0) == Tokens{}));
  BOOST_TEST((access(t, {writes(4, 8)}, 1) == Tokens{0}));
  BOOST_TEST((access(t, {reads(0, 4)}, 2) == Tokens{0}));
  BOOST_TEST((access(t, {reads(8, 12)}, 3) == Tokens{0}));
  BOOST_TEST((access(t, {reads(4, 8)}, 4) == Tokens{1}));
  BOOST_TEST((access(t, {reads(0, 12)}, 5) == Tokens{0, 1}));
  // A write waits for the readers of its bytes, and for nobody else.
  BOOST_TEST((access(t, {writes(8, 12)}, 6) == Tokens{0, 3, 5}));
  BOOST_TEST((access(t, {writes(8, 10), reads(10, 11)}, 7) == Tokens{6}));
}

BOOST_AUTO_TEST_CASE(disjoint_slices_of_one_arena_are_independent, *boost::unit_test::label("GR-18")) {
  DepsTracker t;
  access(t, {writes(0, 64), reads(0, 64, 2)}, 0);
  BOOST_TEST((access(t, {writes(64, 128), reads(0, 64, 2)}, 1) == Tokens{}));
  BOOST_TEST((access(t, {writes(128, 192), reads(63, 65)}, 2) == Tokens{0, 1}));
  // The same in a recorded graph: two kernels that write parts of one arena.
  using namespace tolk::test;
  Device& d = tb().open();
  auto edges = [&](int64_t first, int64_t second) {
    UOp arena = temporary(d.name(), 3 * kCount * 4, DType::U8), a = stored(d.name(), ramp(0));
    auto part = [&](int64_t begin) { return slice_node(arena, DType::I32, begin * kCount * 4, kCount); };
    UOp list = batched(d, {call_of(add_body(1), {part(first), a}), call_of(add_body(2), {part(second), a})});
    BOOST_TEST(text_of(sizes_of(list)) == "2");
    tb_counters before = tb().counters(d);
    engine::BufferBinding binding(d);
    engine::run_linear(binding, list, jit_run());
    tb_counters after = tb().counters(d);
    BOOST_TEST(after.graph_kernels - before.graph_kernels == 2u);
    return after.graph_edges - before.graph_edges;
  };
  BOOST_TEST(edges(0, 1) == 0u);
  BOOST_TEST(edges(2, 0) == 0u);
  BOOST_TEST(edges(1, 1) == 1u);
}

BOOST_AUTO_TEST_CASE(an_operation_does_not_wait_for_itself) {
  DepsTracker t;
  BOOST_TEST((access(t, {reads(0, 8), writes(0, 8), reads(4, 8)}, 0) == Tokens{}));
  BOOST_TEST((access(t, {reads(0, 8), writes(0, 8)}, 1) == Tokens{0}));
  BOOST_TEST((access(t, {reads(3, 3), writes(5, 5)}, 2) == Tokens{})); // nothing is accessed
  BOOST_TEST((access(t, {reads(0, 8)}, 3) == Tokens{1}));
}

BOOST_AUTO_TEST_CASE(partial_overwrites_keep_the_order_of_the_rest) {
  DepsTracker t;
  access(t, {writes(0, 16)}, 0); // a copy to all of it
  access(t, {writes(0, 8)}, 1);  // a copy to the lower half
  BOOST_TEST((access(t, {reads(8, 16)}, 2) == Tokens{0}));
  access(t, {reads(0, 16)}, 3);
  BOOST_TEST((access(t, {writes(0, 4)}, 4) == Tokens{1, 3}));
  BOOST_TEST((access(t, {writes(8, 16)}, 5) == Tokens{0, 2, 3}));
}

// The order that the dependencies make, directly or over others, covers exactly what a model with one writer
// and a set of readers for every byte asks for.
BOOST_AUTO_TEST_CASE(random_accesses_agree_with_a_model_of_bytes) {
  constexpr uint64_t kBytes = 24;
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    DepsTracker tracker;
    struct Byte {
      std::vector<uint32_t> writers, readers;
    };
    std::vector<std::vector<Byte>> bytes(2, std::vector<Byte>(kBytes));
    std::vector<std::set<uint32_t>> before; // all that an operation waits for, directly or not
    for (uint32_t token = 0; token < 25; ++token) {
      std::vector<Access> accesses;
      for (uint32_t i = 0; i < 1 + random() % 3; ++i) {
        uint64_t begin = random() % kBytes, end = begin + random() % (kBytes - begin + 1);
        accesses.push_back({{random() % 2, begin, end}, random() % 2 == 0});
      }
      std::set<uint32_t> wanted, all;
      for (const Access& a : accesses)
        for (uint64_t b = a.range.begin; b < a.range.end; ++b) {
          const Byte& byte = bytes[a.range.base][b];
          wanted.insert(byte.writers.begin(), byte.writers.end());
          if (a.written) wanted.insert(byte.readers.begin(), byte.readers.end());
        }
      Tokens deps = tracker.access(accesses, token);
      BOOST_TEST(std::is_sorted(deps.begin(), deps.end()));
      for (uint32_t d : deps) {
        BOOST_TEST(wanted.contains(d)); // no order that nothing asks for
        all.insert(d);
        all.insert(before[d].begin(), before[d].end());
      }
      for (uint32_t w : wanted) BOOST_TEST(all.contains(w));
      for (const Access& a : accesses)
        for (uint64_t b = a.range.begin; b < a.range.end; ++b)
          (a.written ? bytes[a.range.base][b].writers : bytes[a.range.base][b].readers).push_back(token);
      before.push_back(all);
    }
  }
}
