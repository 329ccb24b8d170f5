// Conformance cases on graphs.
#include "session.h"

#include <cstring>
#include <fmt/format.h>
#include <numeric>

#include "case.h"
#include "kernels.h"
#include "slow.h"

namespace conformance {
namespace {

// A graph of one device, with nodes that each follow the one before.
class Graph {
public:
  Graph(Session& s, uint32_t flags) : s_(s) {
    tolk_device* device = s.device();
    ok(vt().create(&device, 1, flags, &graph_), "graph.create");
  }
  ~Graph() {
    s_.plugin().stream.synchronize(s_.stream(), TOLK_FOREVER);
    vt().destroy(graph_);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  tolk_status add(tolk_kernel* kernel, std::vector<tolk_ref> refs, std::vector<uint64_t> values,
                  uint32_t groups) {
    tolk_launch l{};
    l.struct_size = sizeof l;
    l.grid[0] = groups;
    l.grid[1] = l.grid[2] = l.local[0] = l.local[1] = l.local[2] = 1;
    l.buffer_count = static_cast<uint32_t>(refs.size()), l.value_count = static_cast<uint32_t>(values.size());
    l.buffers = refs.data(), l.values = values.data();
    const tolk_status status = vt().add_kernel(graph_, 0, kernel, &l, &last_, nodes_ ? 1 : 0);
    std::fill(refs.begin(), refs.end(), tolk_ref{}); // contents of a launch are copied
    std::fill(values.begin(), values.end(), 0x5555);
    return counted(status);
  }
  tolk_status copy(tolk_ref to, tolk_ref from) {
    return counted(vt().add_copy(graph_, 0, to, from, &last_, nodes_ ? 1 : 0));
  }
  tolk_status fill(tolk_ref to, uint64_t pattern, uint32_t width) {
    return counted(vt().add_fill(graph_, 0, to, pattern, width, &last_, nodes_ ? 1 : 0));
  }
  tolk_status commit() { return vt().commit(graph_); }
  tolk_status update(const std::vector<tolk_patch>& patches) {
    return vt().update(graph_, patches.data(), static_cast<uint32_t>(patches.size()));
  }
  void launch() {
    tolk_stream* stream = s_.stream();
    ok(vt().launch(graph_, &stream, nullptr), "graph.launch");
  }

private:
  const tolk_graph_vt& vt() const { return s_.plugin().graph; }
  tolk_status counted(tolk_status status) {
    if (status == TOLK_OK) last_ = nodes_++;
    return status;
  }
  Session& s_;
  tolk_graph* graph_ = nullptr;
  uint32_t nodes_ = 0, last_ = 0;
};

struct Words {
  Session& s;
  Owned<tolk_buffer> buffer;
  uint32_t count;
  Words(Session& session, uint32_t n, int32_t value) : s(session), buffer(session.buffer(n * 4)), count(n) {
    set(value);
  }
  void set(int32_t value) { s.write(ref(), std::vector<int32_t>(count, value).data()); }
  tolk_ref ref() const { return {buffer.get(), 0, count * 4ull}; }
  void all_are(int32_t wanted, const std::string& what) {
    std::vector<int32_t> found(count);
    const Bytes bytes = s.read(ref());
    std::memcpy(found.data(), bytes.data(), bytes.size());
    for (uint32_t i = 0; i < count; i++)
      expect(found[i] == wanted, fmt::format("{} {}", wanted, what),
             fmt::format("{} at element {}", found[i], i));
  }
};

tolk_patch buffer_patch(uint32_t node, uint32_t index, tolk_ref ref) {
  tolk_patch p{};
  uint32_t n = 0;
  tolk_set_buf(&p, &n, node, index, ref);
  return p;
}
tolk_patch value_patch(uint32_t node, uint32_t index, uint64_t value) {
  tolk_patch p{};
  uint32_t n = 0;
  tolk_set_val(&p, &n, node, index, value);
  return p;
}

void one_node(Session& s) {
  Words data(s, 16, 1);
  Loaded kernel = s.kernel(add_value());
  Graph g(s, 0);
  ok(g.add(kernel.kernel, {data.ref()}, {5}, 16), "add_kernel");
  ok(g.commit(), "commit");
  for (int i = 1; i <= 3; i++) {
    g.launch();
    s.sync();
    data.all_are(1 + 5 * i, fmt::format("after {} launches of a graph", i));
  }
}

void chain(Session& s) {
  Words data(s, 16, 0);
  Loaded kernel = s.kernel(add_value());
  Graph g(s, 0);
  const uint32_t n = s.caps().graph_nodes_max ? std::min(s.caps().graph_nodes_max, 300u) : 300;
  for (uint32_t i = 0; i < n; i++) ok(g.add(kernel.kernel, {data.ref()}, {i}, 16), "add_kernel");
  ok(g.commit(), "commit");
  g.launch();
  g.launch();
  s.sync();
  data.all_are(static_cast<int32_t>(n * (n - 1)), "after two launches of a chain");
}

void copy_node(Session& s) {
  Words a(s, 64, 3), b(s, 64, 0), c(s, 64, 0);
  Loaded kernel = s.kernel(add_to());
  Graph g(s, 0);
  ok(g.copy(b.ref(), a.ref()), "add_copy");
  ok(g.add(kernel.kernel, {c.ref(), b.ref()}, {4}, 64), "add_kernel");
  ok(g.copy(a.ref(), c.ref()), "add_copy");
  ok(g.commit(), "commit");
  g.launch(), g.launch();
  s.sync();
  a.all_are(11, "after two rounds of copy, kernel, copy");
}

void fill_node(Session& s) {
  Words a(s, 64, 3);
  Loaded kernel = s.kernel(add_value());
  Graph g(s, 0);
  ok(g.fill({a.buffer.get(), 64, 128}, 9, 4), "add_fill");
  ok(g.add(kernel.kernel, {a.ref()}, {1}, 64), "add_kernel");
  ok(g.commit(), "commit");
  g.launch();
  s.sync();
  const Bytes found = s.read(a.ref());
  for (uint32_t i = 0; i < 64; i++) {
    const uint32_t word = word_of(Bytes(found.begin() + i * 4, found.begin() + i * 4 + 4)),
                   wanted = i >= 16 && i < 48 ? 10 : 4;
    expect(word == wanted, fmt::format("{} at element {} after a fill of 16 to 47", wanted, i),
           std::to_string(word));
  }
}

void update_buffer(Session& s) {
  Words in(s, 16, 1), out(s, 16, 0), in2(s, 16, 100), out2(s, 16, 0);
  Loaded kernel = s.kernel(add_to());
  Graph g(s, TOLK_GRAPH_UPDATABLE);
  ok(g.add(kernel.kernel, {out.ref(), in.ref()}, {1}, 16), "add_kernel");
  ok(g.commit(), "commit");
  g.launch();
  s.sync();
  ok(g.update({buffer_patch(0, 1, in2.ref())}), "update of an input");
  in.set(-5);
  g.launch();
  s.sync();
  out.all_are(101, "after the input was patched");
  out.set(-9);
  ok(g.update({buffer_patch(0, 0, out2.ref())}), "update of an output");
  g.launch();
  s.sync();
  out2.all_are(101, "in the new output");
  out.all_are(-9, "in the old output, which is no longer written");
}

void update_offset(Session& s) {
  if ((s.caps().flags & TOLK_CAP_NO_OFFSET_VIEWS) || s.caps().offset_align > 64)
    throw Skipped{"refs at offsets of 64"};
  auto in = s.buffer(256);
  std::vector<int32_t> numbers(64);
  std::iota(numbers.begin(), numbers.end(), 0);
  s.write({in.get(), 0, 256}, numbers.data());
  Words out(s, 1, 0);
  Loaded kernel = s.kernel(add_to());
  Graph g(s, TOLK_GRAPH_UPDATABLE);
  ok(g.add(kernel.kernel, {out.ref(), {in.get(), 0, 4}}, {1}, 1), "add_kernel");
  ok(g.commit(), "commit");
  for (uint64_t offset : {64ull, 192ull, 0ull, 128ull}) {
    ok(g.update({buffer_patch(0, 1, {in.get(), offset, 4})}), "update of an offset");
    g.launch();
    s.sync();
    out.all_are(static_cast<int32_t>(offset / 4) + 1, fmt::format("from offset {}", offset));
  }
}

void update_value(Session& s) {
  if (!(s.caps().graph & TOLK_GRAPH_UPDATE_VALUES)) throw Skipped{"updates of values"};
  Words a(s, 8, 0), b(s, 8, 0);
  Loaded kernel = s.kernel(weighted(1, 3));
  Graph g(s, TOLK_GRAPH_UPDATABLE);
  for (int i = 0; i < 2; i++) ok(g.add(kernel.kernel, {b.ref(), a.ref()}, {1, 2, 3}, 8), "add_kernel");
  ok(g.commit(), "commit");
  int32_t now[3] = {1, 2, 3};
  for (int round = 0; round < 100; round++) {
    const int slot = round % 3;
    now[slot] = round * 7 % 500 - 250;
    for (uint32_t node = 0; node < 2; node++)
      ok(g.update({value_patch(node, static_cast<uint32_t>(slot),
                               static_cast<uint64_t>(static_cast<int64_t>(now[slot])))}),
         "update of a value");
    g.launch();
    s.sync();
    b.all_are(now[0] * 100 + now[1] * 101 + now[2] * 102,
              fmt::format("in replay {} after values were patched", round));
  }
}

void update_dims(Session& s) {
  if (!(s.caps().graph & TOLK_GRAPH_UPDATE_SIZES)) throw Skipped{"updates of sizes"};
  Words data(s, 64, 0);
  Loaded kernel = s.kernel(add_value());
  Graph g(s, TOLK_GRAPH_UPDATABLE);
  ok(g.add(kernel.kernel, {data.ref()}, {1}, 8), "add_kernel");
  ok(g.commit(), "commit");
  for (uint32_t groups : {64u, 3u, 17u}) {
    data.set(0);
    tolk_patch p{};
    uint32_t n = 0;
    const uint32_t grid[3] = {groups, 1, 1}, local[3] = {1, 1, 1};
    tolk_set_dims(&p, &n, 0, grid, local);
    ok(g.update({p}), "update of sizes");
    g.launch();
    s.sync();
    const Bytes found = s.read(data.ref());
    for (uint32_t i = 0; i < 64; i++)
      expect(found[i * 4] == (i < groups ? 1 : 0),
             fmt::format("{} groups run after an update of sizes", groups),
             fmt::format("{} at element {}", found[i * 4], i));
  }
}

// A patch while a launch runs belongs to the next launch.
void not_retroactive(Session& s) {
  Slow slow(s);
  Words in(s, 1, 10), later(s, 1, 20), out(s, 1, 0), kept(s, 1, 0);
  Loaded add = s.kernel(add_to());
  Graph g(s, TOLK_GRAPH_UPDATABLE);
  const uint32_t x = 3;
  s.write(slow.input(), &x);
  ok(g.add(slow.kernel(), {slow.result(), slow.input()}, {static_cast<uint64_t>(slow.rounds())}, 1),
     "add_kernel");
  ok(g.add(add.kernel, {out.ref(), in.ref()}, {1}, 1), "add_kernel");
  ok(g.commit(), "commit");
  g.launch();
  const tolk_status status = g.update({buffer_patch(1, 1, later.ref())});
  s.sync();
  ok(status, "update while a launch runs");
  out.all_are(11, "from the launch that ran before the update");
  g.launch();
  s.sync();
  out.all_are(21, "from the launch after the update");
}

void update_bad(Session& s) {
  Words in(s, 16, 1), out(s, 16, 0), other(s, 16, 50);
  Loaded kernel = s.kernel(add_to());
  Graph g(s, TOLK_GRAPH_UPDATABLE);
  ok(g.add(kernel.kernel, {out.ref(), in.ref()}, {1}, 16), "add_kernel");
  ok(g.commit(), "commit");
  refused(g.update({buffer_patch(0, 1, other.ref()), buffer_patch(7, 0, other.ref())}), TOLK_E_INVALID,
          "update with a node that does not exist");
  g.launch();
  s.sync();
  out.all_are(2, "after a list of patches that was refused as a whole");
}

void double_commit(Session& s) {
  Words data(s, 16, 1);
  Loaded kernel = s.kernel(add_value());
  Graph g(s, 0);
  ok(g.add(kernel.kernel, {data.ref()}, {1}, 16), "add_kernel");
  ok(g.commit(), "commit");
  refused(g.commit(), TOLK_E_INVALID, "the second commit");
}

void replay(Session& s) {
  Words data(s, 4, 0);
  Loaded kernel = s.kernel(add_value());
  Graph g(s, 0);
  ok(g.add(kernel.kernel, {data.ref()}, {1}, 4), "add_kernel");
  ok(g.commit(), "commit");
  for (int i = 0; i < 10; i++) g.launch();
  s.sync();
  const uint64_t blocks = s.host().live_allocations;
  for (int i = 0; i < 990; i++) g.launch();
  s.sync();
  data.all_are(1000, "after as many replays");
  expect(s.host().live_allocations <= blocks + 4,
         fmt::format("{} blocks of host.mem_alloc after 1000 replays", blocks),
         std::to_string(s.host().live_allocations));
}

void interleave(Session& s) {
  Words data(s, 8, 1), other(s, 8, 0);
  Loaded add = s.kernel(add_value()), to = s.kernel(add_to());
  Graph g(s, 0);
  ok(g.add(to.kernel, {other.ref(), data.ref()}, {10}, 8), "add_kernel");
  ok(g.commit(), "commit");
  for (int i = 0; i < 20; i++) {
    g.launch();
    s.launch(to.kernel, {data.ref(), other.ref()}, {1}, 8);
  }
  s.sync();
  data.all_are(221, "after graphs and launches in turn");
}

void two_instances(Session& s) {
  Words data(s, 8, 0);
  Loaded kernel = s.kernel(add_value());
  Graph one(s, TOLK_GRAPH_UPDATABLE), two(s, TOLK_GRAPH_UPDATABLE);
  ok(one.add(kernel.kernel, {data.ref()}, {1}, 8), "add_kernel");
  ok(two.add(kernel.kernel, {data.ref()}, {100}, 8), "add_kernel");
  ok(one.commit(), "commit");
  ok(two.commit(), "commit");
  for (int i = 0; i < 5; i++) one.launch(), two.launch();
  s.sync();
  data.all_are(505, "after two graphs over one kernel and buffer in turn");
}

void destroy_after_use(Session& s) {
  Words data(s, 8, 0);
  Loaded kernel = s.kernel(add_value());
  for (int i = 0; i < 5; i++) {
    Graph g(s, 0);
    ok(g.add(kernel.kernel, {data.ref()}, {1}, 8), "add_kernel");
    ok(g.commit(), "commit");
    g.launch();
  }
  s.launch(kernel.kernel, {data.ref()}, {10}, 8);
  s.sync();
  data.all_are(15, "from a kernel whose graphs were destroyed");
}

constexpr uint32_t kNeeds = kDevice | kGraph, kRuns = kNeeds | kValues;
constexpr Case kCases[] = {
    {"graph.one_node", Tier::Optional, kRuns, one_node},
    {"graph.chain_1000", Tier::Optional, kRuns, chain},
    {"graph.copy_node", Tier::Optional, kRuns | kGraphCopy, copy_node},
    {"graph.fill_node", Tier::Optional, kRuns | kGraphFill, fill_node},
    {"graph.update_buffer", Tier::Optional, kRuns | kUpdate, update_buffer},
    {"graph.update_offset_only", Tier::Optional, kRuns | kUpdate, update_offset},
    {"graph.update_value", Tier::Optional, kRuns | kUpdate, update_value},
    {"graph.update_dims", Tier::Optional, kRuns | kUpdate, update_dims},
    {"graph.update_not_retroactive", Tier::Optional, kRuns | kUpdate, not_retroactive},
    {"graph.update_bad_atomic", Tier::Optional, kRuns | kUpdate, update_bad},
    {"graph.double_commit", Tier::Optional, kNeeds, double_commit},
    {"graph.replay_10000", Tier::Optional, kRuns, replay},
    {"graph.two_instances", Tier::Optional, kRuns, two_instances},
    {"graph.destroy_after_use", Tier::Optional, kRuns, destroy_after_use},
    {"graph.interleave_eager", Tier::Optional, kRuns, interleave},
};

} // namespace

std::span<const Case> graph_cases() { return kCases; }

} // namespace conformance
