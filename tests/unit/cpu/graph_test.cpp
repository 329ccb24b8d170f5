// The graph table against plain arithmetic: order, changes, work that runs together, refusals, times.
#include <random>

#include <boost/test/unit_test.hpp>

#include "ints.h"

namespace tolk::test {
namespace {

const tolk_graph_vt& table() { return *plugin().graph; }

class Graph {
public:
  explicit Graph(uint32_t devices = 1, uint32_t flags = TOLK_GRAPH_UPDATABLE) {
    std::vector<tolk_device*> all(devices, device());
    BOOST_REQUIRE_EQUAL(table().create(all.data(), devices, flags, &graph), TOLK_OK);
  }
  ~Graph() { table().destroy(graph); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  tolk_status try_kernel(const LoadedKernel& k, std::vector<tolk_ref> refs, std::vector<uint64_t> values,
                         std::vector<uint32_t> after = {}, uint32_t tiles = 1, uint32_t where = 0) {
    tolk_launch launch{};
    launch.struct_size = sizeof launch;
    for (int i = 0; i < 3; ++i) launch.grid[i] = launch.local[i] = 1;
    launch.grid[0] = tiles;
    launch.buffer_count = uint32_t(refs.size());
    launch.buffers = refs.data();
    launch.value_count = uint32_t(values.size());
    launch.values = values.data();
    return table().add_kernel(graph, where, k.handle(), &launch, after.data(), uint32_t(after.size()));
  }
  void kernel(const LoadedKernel& k, std::vector<tolk_ref> refs, uint64_t value,
              std::vector<uint32_t> after = {}, uint32_t tiles = 1, uint32_t where = 0) {
    BOOST_REQUIRE_EQUAL(try_kernel(k, std::move(refs), {value}, std::move(after), tiles, where), TOLK_OK);
  }
  void commit() { BOOST_REQUIRE_EQUAL(table().commit(graph), TOLK_OK); }
  void launch() { BOOST_REQUIRE_EQUAL(table().launch(graph, nullptr, nullptr), TOLK_OK); }
  tolk_status update(std::vector<tolk_patch> patches) {
    return table().update(graph, patches.data(), uint32_t(patches.size()));
  }
  tolk_graph* graph = nullptr;
};

tolk_patch buffer_patch(uint32_t node, uint32_t index, tolk_ref ref) {
  tolk_patch p{};
  uint32_t count = 0;
  tolk_set_buf(&p, &count, node, index, ref);
  return p;
}
tolk_patch value_patch(uint32_t node, uint32_t index, uint64_t value) {
  tolk_patch p{};
  uint32_t count = 0;
  tolk_set_val(&p, &count, node, index, value);
  return p;
}
tolk_patch tiles_patch(uint32_t node, uint32_t tiles) {
  tolk_patch p{};
  uint32_t count = 0, grid[3] = {tiles, 1, 1}, local[3] = {1, 1, 1};
  tolk_set_dims(&p, &count, node, grid, local);
  return p;
}

// Random programs of kernels (of one tile and of several), copies and fills over a few buffers; the
// dependencies are those of the accesses. Launched often enough that what was found independent runs
// together. The reference is the program in order, in plain arithmetic.
BOOST_AUTO_TEST_CASE(random_programs_give_what_their_order_says) {
  constexpr size_t kCount = 16384, kBuffers = 9;
  LoadedKernel whole(mix_kernel("e_whole", kCount)), quarter(mix_kernel("e_quarter", kCount / 4));
  std::mt19937 random(11);
  for (int round = 0; round < 12; ++round) {
    std::vector<std::unique_ptr<Ints>> buffers;
    std::vector<std::vector<uint32_t>> expected, touched(kBuffers);
    std::vector<int> writer(kBuffers, -1);
    for (size_t i = 0; i < kBuffers; ++i) {
      buffers.push_back(std::make_unique<Ints>(kCount, uint32_t(random() % 100)));
      expected.push_back(buffers.back()->data);
    }
    struct Item {
      int what;
      size_t to, x, y;
      uint32_t value;
    };
    std::vector<Item> items;
    Graph g(2);
    for (uint32_t node = 0; node < 40; ++node) {
      Item item{int(random() % 8), random() % kBuffers, random() % kBuffers, random() % kBuffers,
                uint32_t(random() % 1000)};
      if (item.what == 1 && item.to == item.x) item.what = 0;
      std::vector<uint32_t> after = touched[item.to];
      std::vector<size_t> reads;
      if (item.what != 2) reads.push_back(item.x);
      if (item.what != 1 && item.what != 2) reads.push_back(item.y);
      for (size_t r : reads)
        if (writer[r] >= 0) after.push_back(uint32_t(writer[r]));
      tolk_ref to = buffers[item.to]->ref(), x = buffers[item.x]->ref(), y = buffers[item.y]->ref();
      uint32_t where = node % 2; // two devices share memory and workers
      if (item.what == 1)
        BOOST_REQUIRE_EQUAL(table().add_copy(g.graph, where, to, x, after.data(), uint32_t(after.size())),
                            TOLK_OK);
      else if (item.what == 2)
        BOOST_REQUIRE_EQUAL(
            table().add_fill(g.graph, where, to, item.value, 4, after.data(), uint32_t(after.size())),
            TOLK_OK);
      else if (item.what == 3)
        g.kernel(quarter, {to, x, y}, item.value, after, 4, where);
      else
        g.kernel(whole, {to, x, y}, item.value, after, 1, where);
      for (size_t r : reads) touched[r].push_back(node);
      touched[item.to] = {node};
      writer[item.to] = int(node);
      items.push_back(item);
    }
    g.commit();
    for (int launch = 0; launch < 10; ++launch) {
      g.launch();
      for (const Item& item : items)
        for (size_t i = 0; i < kCount; ++i) {
          uint32_t x = expected[item.x][i], y = expected[item.y][i];
          expected[item.to][i] = item.what == 1 ? x : item.what == 2 ? item.value : x * 3 + y + item.value;
        }
      for (size_t b = 0; b < kBuffers; ++b) BOOST_TEST((buffers[b]->data == expected[b]));
    }
  }
}

BOOST_AUTO_TEST_CASE(changes_are_seen_by_the_next_launch_all_or_none) {
  constexpr size_t kCount = 8;
  LoadedKernel k(mix_kernel("e_mix", kCount)), one(mix_kernel("e_one", 1));
  Ints a(kCount, 1), b(kCount, 2), c(kCount, 0), d(kCount, 0), e(kCount, 7);
  Graph g;
  g.kernel(k, {c.ref(), a.ref(), b.ref()}, 10);          // c = 3a + b + 10
  g.kernel(one, {d.ref(), c.ref(), c.ref()}, 0, {0}, 4); // d = 4c for the first four
  uint32_t after[] = {1};
  BOOST_REQUIRE_EQUAL(table().add_copy(g.graph, 0, e.part(4, 4), d.part(0, 4), after, 1), TOLK_OK);
  BOOST_CHECK_EQUAL(g.update({value_patch(0, 0, 1)}), TOLK_E_INVALID); // not committed
  BOOST_CHECK_EQUAL(table().launch(g.graph, nullptr, nullptr), TOLK_E_INVALID);
  g.commit();
  BOOST_CHECK_EQUAL(table().commit(g.graph), TOLK_E_INVALID);
  g.launch();
  BOOST_CHECK_EQUAL(c.data[7], 15u);
  BOOST_CHECK_EQUAL(d.data[3], 60u);
  BOOST_CHECK_EQUAL(d.data[4], 0u);
  BOOST_CHECK_EQUAL(e.data[3], 7u);
  BOOST_CHECK_EQUAL(e.data[7], 60u);
  // One bad change and none happens.
  for (tolk_patch bad : {value_patch(0, 1, 0), value_patch(2, 0, 0), buffer_patch(0, 3, a.ref()),
                         buffer_patch(9, 0, a.ref()), buffer_patch(2, 1, d.ref()), tiles_patch(2, 1),
                         tiles_patch(0, 0), buffer_patch(0, 0, {a.ref().buffer, 16, 32})})
    BOOST_CHECK_MESSAGE(g.update({value_patch(0, 0, 500), bad}) < 0, last_error());
  tolk_patch unknown = value_patch(0, 0, 0);
  unknown.kind = 77;
  BOOST_CHECK_EQUAL(g.update({unknown}), TOLK_E_INVALID);
  tolk_ref odd = {a.ref().buffer, 2, 16};
  BOOST_CHECK_EQUAL(g.update({buffer_patch(1, 1, odd)}), TOLK_E_INVALID); // not aligned to its dtype
  g.launch();
  BOOST_CHECK_EQUAL(c.data[7], 15u);
  BOOST_CHECK_EQUAL(g.update({value_patch(0, 0, 20), buffer_patch(0, 1, b.ref()), tiles_patch(1, 8),
                              buffer_patch(2, 1, d.part(4, 4))}),
                    TOLK_OK);
  g.launch();
  BOOST_CHECK_EQUAL(c.data[7], 28u); // 3 * 2 + 2 + 20
  BOOST_CHECK_EQUAL(d.data[7], 112u);
  BOOST_CHECK_EQUAL(e.data[7], 112u);
  BOOST_CHECK_EQUAL(g.update({tiles_patch(1, 1), buffer_patch(1, 0, a.ref())}), TOLK_OK);
  g.launch();
  BOOST_CHECK_EQUAL(a.data[0], 112u);
  BOOST_CHECK_EQUAL(a.data[1], 1u);
}

BOOST_AUTO_TEST_CASE(nodes_that_do_not_fit_are_refused) {
  LoadedKernel k(mix_kernel("e_mix", 8));
  Ints a(8, 1), b(8, 1);
  Graph g;
  BOOST_CHECK_EQUAL(g.try_kernel(k, {a.ref(), a.ref()}, {0}), TOLK_E_INVALID);
  BOOST_CHECK_EQUAL(g.try_kernel(k, {a.ref(), a.ref(), b.ref()}, {}), TOLK_E_INVALID);
  BOOST_CHECK_EQUAL(g.try_kernel(k, {a.ref(), a.ref(), b.ref()}, {0}, {0}), TOLK_E_INVALID);
  BOOST_CHECK_EQUAL(g.try_kernel(k, {a.ref(), a.ref(), b.ref()}, {0}, {}, 1, 1), TOLK_E_INVALID);
  BOOST_CHECK_EQUAL(g.try_kernel(k, {a.ref(), a.ref(), {b.ref().buffer, 8, 32}}, {0}), TOLK_E_INVALID);
  BOOST_CHECK_EQUAL(g.try_kernel(k, {a.ref(), a.ref(), {b.ref().buffer, 1, 8}}, {0}), TOLK_E_INVALID);
  BOOST_CHECK_EQUAL(g.try_kernel(k, {a.ref(), a.ref(), b.ref()}, {0}, {}, 0), TOLK_E_LIMIT);
  BOOST_CHECK_EQUAL(table().add_copy(g.graph, 0, a.part(0, 4), a.part(2, 4), nullptr, 0), TOLK_E_INVALID);
  BOOST_CHECK_EQUAL(table().add_copy(g.graph, 0, a.part(0, 4), b.part(0, 2), nullptr, 0), TOLK_E_INVALID);
  BOOST_CHECK_EQUAL(table().add_copy(g.graph, 0, a.part(6, 4), b.part(0, 4), nullptr, 0), TOLK_E_INVALID);
  BOOST_CHECK_EQUAL(table().add_fill(g.graph, 0, a.ref(), 0, 3, nullptr, 0), TOLK_E_INVALID);
  BOOST_CHECK_EQUAL(table().add_fill(g.graph, 0, {a.ref().buffer, 2, 8}, 0, 4, nullptr, 0), TOLK_E_INVALID);
  g.commit(); // nothing was added, and an empty graph is one too
  g.launch();
  BOOST_CHECK_EQUAL(g.try_kernel(k, {a.ref(), a.ref(), b.ref()}, {0}), TOLK_E_INVALID);
}

BOOST_AUTO_TEST_CASE(a_timed_graph_knows_when_each_node_ran) {
  LoadedKernel k(mix_kernel("e_mix", 8));
  Ints a(8, 1), b(8, 1);
  Graph g(1, TOLK_GRAPH_TIMED), plain;
  for (Graph* graph : {&g, &plain}) {
    for (uint32_t i = 0; i < 5; ++i)
      graph->kernel(k, {a.ref(), a.ref(), b.ref()}, 0, i ? std::vector{i - 1} : std::vector<uint32_t>{});
    graph->commit();
  }
  uint64_t begin[5], end[5], total = 0;
  BOOST_CHECK_EQUAL(table().node_times(g.graph, begin, end), TOLK_E_UNSUPPORTED); // not launched
  BOOST_REQUIRE_EQUAL(table().launch(g.graph, nullptr, &total), TOLK_OK);
  BOOST_REQUIRE_EQUAL(table().node_times(g.graph, begin, end), TOLK_OK);
  for (int i = 0; i < 5; ++i) {
    BOOST_CHECK(begin[i] <= end[i]);
    BOOST_CHECK(i == 0 || end[i - 1] <= begin[i]);
  }
  BOOST_CHECK(end[4] - begin[0] <= total);
  plain.launch();
  BOOST_CHECK_EQUAL(table().node_times(plain.graph, begin, end), TOLK_E_UNSUPPORTED);
}

BOOST_AUTO_TEST_CASE(chained_and_independent_kernels_of_all_sizes_give_their_results) {
  LoadedKernel small(mix_kernel("e_small", 256)), large(mix_kernel("e_large", 5000));
  Ints a(256, 1), b(256, 1);
  Graph chain;
  for (uint32_t i = 0; i < 200; ++i)
    chain.kernel(small, {a.ref(), a.ref(), b.ref()}, 1, i ? std::vector{i - 1} : std::vector<uint32_t>{});
  chain.commit();
  Graph wide;
  std::vector<std::unique_ptr<Ints>> out;
  Ints in(5000, 2);
  for (uint32_t i = 0; i < 16; ++i) {
    out.push_back(std::make_unique<Ints>(5000, 0));
    wide.kernel(large, {out.back()->ref(), in.ref(), in.ref()}, i);
  }
  wide.commit();
  for (int round = 0; round < 20; ++round) chain.launch(), wide.launch();
  Graph ordered;
  for (uint32_t i = 0; i < 16; ++i)
    ordered.kernel(large, {out[i]->ref(), in.ref(), in.ref()}, i,
                   i ? std::vector{i - 1} : std::vector<uint32_t>{});
  ordered.commit();
  for (int round = 0; round < 20; ++round) ordered.launch();
  for (uint32_t i = 0; i < 16; ++i) BOOST_TEST(out[i]->data[4999] == 8 + i);
}

} // namespace
} // namespace tolk::test
