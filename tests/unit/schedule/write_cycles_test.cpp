// Write-after-read cycles of stores: what is copied, how often, and that every reader sees the state it names.
#include <boost/test/unit_test.hpp>
#include <ctime>
#include <functional>
#include <random>

#include "multi_support.h"
#include "tolk/schedule/order/write_cycles.h"

using namespace mini;
using namespace support;
using tolk::schedule::Edge;
using tolk::schedule::Hazard;

namespace {

using V = std::vector<double>;

T in(const Shape& shape) { return buffer(shape, DType::F64); }

// Schedules, with and without a memory plan, and compares what the storage holds afterwards.
void expect(const std::vector<T>& roots, const std::vector<std::pair<T, V>>& inputs,
            const std::vector<std::pair<T, V>>& wanted, size_t calls) {
  for (bool plan : {true, false}) {
    auto o = options();
    o.memory_plan = plan;
    auto s = schedule(roots, o);
    BOOST_TEST(s.linear.nsrc() == calls, listing(s.linear));
    host::Memory memory;
    for (const auto& [t, v] : inputs) memory.fill(storage(t), v);
    host::run_linear(s.linear, memory, s.vars);
    for (const auto& [t, v] : wanted) {
      BOOST_TEST_INFO(listing(s.linear));
      BOOST_TEST(values(storage(t), memory) == v, boost::test_tools::per_element());
    }
  }
}

// Processor time of scheduling them without a cache, the best of three.
double seconds(const std::vector<T>& roots) {
  double best = 1e9;
  for (int i = 0; i < 3; ++i) {
    std::clock_t begin = std::clock();
    schedule(roots);
    best = std::min(best, double(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  return best;
}

// Whether eight times the work takes less than 24 times the time; a quadratic pass takes 64 times. Other processes
// disturb caches, so the best of five comparisons counts.
bool grows_slowly(const std::function<std::vector<T>(int)>& graph, int small) {
  for (int trial = 0; trial < 5; ++trial)
    if (seconds(graph(8 * small)) < 24 * seconds(graph(small)) + 0.1) return true;
  return false;
}

// Elements that the calls write to temporaries.
int64_t temporary_elements(const UOp& linear) {
  int64_t sum = 0;
  for (const UOp& call : linear.src())
    if (const UOp& to = call.src(1); to.is(Op::BUFFER) && tolk::slot_of(to) < 0) sum += tolk::elements_of(to);
  return sum;
}

int64_t temporary_elements(const std::vector<T>& roots) {
  auto o = options();
  o.memory_plan = false;
  return temporary_elements(schedule(roots, o).linear);
}

} // namespace

BOOST_AUTO_TEST_CASE(two_stores_of_each_others_old_contents_take_one_kernel_more) {
  T a = in({3}), b = in({3}), x = b + 1, y = a + 1;
  expect({assign(a, x), assign(b, y)}, {{a, {1, 2, 3}}, {b, {4, 5, 6}}}, {{a, {5, 6, 7}}, {b, {2, 3, 4}}}, 3);
}

BOOST_AUTO_TEST_CASE(a_plain_swap_needs_no_copy_by_hand) {
  T a = in({3}), b = in({3});
  expect({assign(a, b), assign(b, a)}, {{a, {1, 2, 3}}, {b, {4, 5, 6}}}, {{a, {4, 5, 6}}, {b, {1, 2, 3}}}, 3);
  T c = in({2, 3});
  T d = in({3, 2});
  expect({assign(c, transpose(d)), assign(d, transpose(c))}, {{c, ramp(6)}, {d, ramp(6, 10)}},
         {{c, {10, 12, 14, 11, 13, 15}}, {d, {0, 3, 1, 4, 2, 5}}}, 3);
}

BOOST_AUTO_TEST_CASE(a_ring_of_stores_takes_one_kernel_more_however_long) {
  for (int n : {3, 4, 9, 40}) {
    std::vector<T> ring, roots;
    std::vector<std::pair<T, V>> inputs, wanted;
    for (int i = 0; i < n; ++i) ring.push_back(in({2}));
    for (int i = 0; i < n; ++i) {
      int from = (i + 1) % n;
      roots.push_back(assign(ring[size_t(i)], ring[size_t(from)] + 1));
      inputs.push_back({ring[size_t(i)], {double(i), double(10 * i)}});
      wanted.push_back({ring[size_t(i)], {from + 1.0, 10.0 * from + 1}});
    }
    expect(roots, inputs, wanted, size_t(n) + 1);
  }
}

BOOST_AUTO_TEST_CASE(parameters_that_all_read_each_other_take_one_kernel_less_than_twice_their_number) {
  for (int n : {2, 3, 7}) {
    std::vector<T> p, roots;
    std::vector<std::pair<T, V>> inputs, wanted;
    T total = p.emplace_back(in({4}));
    for (int i = 1; i < n; ++i) total = total + p.emplace_back(in({4}));
    V sum(4, 0);
    for (int i = 0; i < n; ++i) {
      inputs.push_back({p[size_t(i)], ramp(4, i * i)});
      for (int k = 0; k < 4; ++k) sum[size_t(k)] += i * i + k;
    }
    for (int i = 0; i < n; ++i) {
      // Different for each: a value of its own rather than one that all share.
      roots.push_back(assign(p[size_t(i)], p[size_t(i)] - total * double(i + 2)));
      V want = ramp(4, i * i);
      for (size_t k = 0; k < 4; ++k) want[k] -= sum[k] * double(i + 2);
      wanted.push_back({p[size_t(i)], want});
    }
    expect(roots, inputs, wanted, size_t(2 * n - 1));
  }
}

BOOST_AUTO_TEST_CASE(the_store_on_every_cycle_goes_through_a_temporary) {
  // A hub that reads all others and is read by them: one copy for it, not one for each of them.
  T hub = in({4});
  std::vector<T> others, roots;
  T total = hub;
  std::vector<std::pair<T, V>> inputs{{hub, {1, 2, 3, 4}}}, wanted;
  for (int i = 0; i < 5; ++i) {
    others.push_back(in({4}));
    total = total + others.back();
    roots.push_back(assign(others.back(), hub * double(i)));
    inputs.push_back({others.back(), V(4, i)});
    wanted.push_back({others.back(), {1.0 * i, 2.0 * i, 3.0 * i, 4.0 * i}});
  }
  roots.push_back(assign(hub, total));
  wanted.push_back({hub, {11, 12, 13, 14}});
  expect(roots, inputs, wanted, 7);
}

BOOST_AUTO_TEST_CASE(the_fewest_bytes_are_copied) {
  // One element of a, the large one, is what b needs of it.
  T a = in({1000}), b = in({1000});
  auto first = [](const T& x) { return shrink(x, {0}, {1}); };
  BOOST_TEST(temporary_elements({assign(a, a + b), assign(b, b + expand(first(a), {1000}))}) == 1);
  // Of two stores the smaller one waits.
  T c = in({6, 5}), d = in({5});
  BOOST_TEST(temporary_elements({assign(c, c + expand(mini::reshape(d, {1, 5}), {6, 5})),
                                 assign(d, d + shrink(mini::reshape(c, {30}), {7}, {5}))}) == 5);
  T e = in({6, 5}), f = in({5}), whole = mini::reshape(e, {30});
  T sums = sum(e, {0}); // reads all of e; what waits is the store of five elements
  expect({assign(e, e + expand(mini::reshape(f, {1, 5}), {6, 5})), assign(f, sums)},
         {{e, ramp(30)}, {f, ramp(5)}},
         {{e,
           [] {
             V want;
             for (int i = 0; i < 30; ++i) want.push_back(i + i % 5);
             return want;
           }()},
          {f, {75, 81, 87, 93, 99}}},
         3);
}

BOOST_AUTO_TEST_CASE(a_kernel_that_reads_before_and_after_a_store_reads_a_copy_of_the_old) {
  T a = in({3}), out = in({3});
  expect({assign(out, a + assign(a, a * 2.0))}, {{a, {1, 2, 3}}, {out, V(3, 0)}},
         {{a, {2, 4, 6}}, {out, {3, 6, 9}}}, 3);
  // Three states, two of which are gone when the kernel runs.
  T b = in({2}), b1 = assign(b, b + 1), b2 = assign(b1, b1 * 10.0);
  auto s = schedule({b + b1 + b2});
  BOOST_TEST(s.linear.nsrc() == 5U);
  host::Memory memory;
  memory.fill(storage(b), {1, 2});
  host::run_linear(s.linear, memory);
  BOOST_TEST(values(s.results[0], memory) == (V{1 + 2 + 20, 2 + 3 + 30}), boost::test_tools::per_element());
  // Only what it reads of the old contents is copied.
  T big = in({100}), head = shrink(big, {3}, {2}), after = assign(big, big + 1);
  BOOST_TEST(temporary_elements({head + shrink(after, {5}, {2})}) == 2);
}

BOOST_AUTO_TEST_CASE(parts_of_one_buffer_change_places) {
  T a = in({8}), low = shrink(a, {0}, {4}), high = shrink(a, {4}, {4});
  UOp first = tolk::store_to(low.u, high.u);
  UOp written = tolk::after(low.u, std::span(&first, 1));
  T whole{tolk::after(a.u, std::span(&written, 1))};
  expect({assign(shrink(whole, {4}, {4}), low + 0.5)}, {{a, ramp(8)}},
         {{a, {4, 5, 6, 7, 0.5, 1.5, 2.5, 3.5}}}, 3);
}

BOOST_AUTO_TEST_CASE(thousands_of_writes_to_one_buffer_take_linear_work) {
  auto writes = [](int n) {
    T at = in({4, 8});
    for (int i = 0; i < n; ++i) {
      T row = assign(shrink(at, {i % 4, 0}, {1, 8}), full({1, 8}, i, DType::F64));
      at = assign(T{tolk::after(at.u, std::span(&row.u, 1))}, flip(at, {0}) + 1);
    }
    return std::vector<T>{at};
  };
  BOOST_TEST(grows_slowly(writes, 300));
}

BOOST_AUTO_TEST_CASE(parts_that_were_written_side_by_side_are_states_of_their_own) {
  auto after = [](const T& t, const std::vector<T>& effects) {
    std::vector<UOp> nodes;
    for (const T& e : effects) nodes.push_back(e.u);
    return T{tolk::after(t.u, nodes)};
  };
  auto filled = [](double x) { return full({4}, x, DType::F64); };
  for (bool nested : {false, true})
    for (bool first : {true, false}) {
      T a = in({8}), low = shrink(a, {0}, {4}), high = shrink(a, {4}, {4});
      T low_1 = assign(low, filled(100)), high_1 = assign(high, filled(200));
      // Both are behind the whole, however it is put together.
      T both = nested ? after(after(a, {low_1}), {high_1}) : after(a, {low_1, high_1});
      T again = assign(shrink(both, {0}, {4}), filled(300));
      std::vector<T> roots{low_1 + 1, both + 2, again};
      if (!first) std::swap(roots[0], roots[2]);
      auto s = schedule(roots);
      host::Memory memory;
      memory.fill(storage(a), ramp(8));
      host::run_linear(s.linear, memory);
      BOOST_TEST_CONTEXT(listing(s.linear)) {
        BOOST_TEST(values(s.results[first ? 0 : 2], memory) == V(4, 101), boost::test_tools::per_element());
        BOOST_TEST(values(s.results[1], memory) == (V{102, 102, 102, 102, 202, 202, 202, 202}),
                   boost::test_tools::per_element());
        BOOST_TEST(values(storage(a), memory) == (V{300, 300, 300, 300, 200, 200, 200, 200}),
                   boost::test_tools::per_element());
      }
    }
}

BOOST_AUTO_TEST_CASE(waiting_for_a_store_elsewhere_changes_no_state) {
  T a = in({4}), b = in({4});
  T written = assign(b, full({4}, 5.0, DType::F64));
  T later{tolk::after(a.u, std::span(&written.u, 1))};
  for (bool first : {true, false}) {
    std::vector<T> roots{later + written, assign(a, full({4}, 9.0, DType::F64))};
    if (!first) std::swap(roots[0], roots[1]);
    auto s = schedule(roots);
    host::Memory memory;
    memory.fill(storage(a), ramp(4)), memory.fill(storage(b), ramp(4));
    host::run_linear(s.linear, memory);
    BOOST_TEST_INFO(listing(s.linear));
    BOOST_TEST(values(s.results[first ? 0 : 1], memory) == (V{5, 6, 7, 8}), boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(values_of_a_bitcast_storage_wait_like_others) {
  T a = buffer({2}, DType::I64);
  T as_float{tolk::bitcast(a.u, DType::F64)};
  T written = assign(as_float, full({2}, 1.5, DType::F64));
  auto s = schedule({written + 1, as_float + 2});
  host::Memory memory;
  memory.fill(storage(a), {0, 0});
  host::run_linear(s.linear, memory);
  BOOST_TEST(values(s.results[0], memory) == (V{2.5, 2.5}), boost::test_tools::per_element());
  BOOST_TEST(values(s.results[1], memory) == (V{2, 2}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(sizes_that_are_known_later_are_swapped_too) {
  tolk::UOp n = tolk::variable("n", 1, 6), bound = tolk::bind(n, 4);
  T a = in({6}), b = in({6});
  auto rows = [&](const T& x) { return shrink(x, {0}, {SInt(bound)}); };
  T x = rows(b) + 1, y = rows(a) + 1;
  expect({assign(rows(a), x), assign(rows(b), y)}, {{a, ramp(6)}, {b, ramp(6, 10)}},
         {{a, {11, 12, 13, 14, 4, 5}}, {b, {1, 2, 3, 4, 14, 15}}}, 3);
  T old = rows(a) + rows(assign(a, a * 3.0));
  auto s = schedule({old});
  BOOST_TEST(s.linear.nsrc() == 3U);
  host::Memory memory;
  memory.fill(storage(a), ramp(6));
  host::run_linear(s.linear, memory, s.vars);
  BOOST_TEST(values(s.results[0], memory, s.vars) == (V{0, 4, 8, 12}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(indices_that_a_store_overwrites_are_read_before) {
  T data = in({4}), at = buffer({4}, DType::I32);
  T picked = gather(data, at, 0), next = cast(data, DType::I32);
  expect({assign(data, picked), assign(at, next)}, {{data, {3, 2, 1, 0}}, {at, {1, 1, 3, 0}}},
         {{data, {2, 2, 0, 3}}, {at, {3, 2, 1, 0}}}, 3); // the gather cannot be in place anyway
}

BOOST_AUTO_TEST_CASE(storage_on_two_devices_changes_places) {
  T a = in({4}), b = buffer({4}, DType::F64, "CPU:1");
  T here{tolk::copy_to(b.u, "CPU")}, there{tolk::copy_to(a.u, "CPU:1")};
  expect({assign(a, here), assign(b, there)}, {{a, ramp(4)}, {b, ramp(4, 10)}},
         {{a, ramp(4, 10)}, {b, ramp(4)}}, 3);
  // The old contents of what is copied elsewhere.
  T c = in({4}), out = in({4});
  T elsewhere{tolk::copy_to(shrink(c, {1}, {2}).u, "CPU:1")}, back{tolk::copy_to((elsewhere + 1).u, "CPU")};
  expect({assign(shrink(out, {0}, {2}), back + shrink(assign(c, c * 2.0), {1}, {2}))},
         {{c, ramp(4)}, {out, V(4, 0)}}, {{c, {0, 2, 4, 6}}, {out, {4, 7, 0, 0}}}, 5);
}

BOOST_AUTO_TEST_CASE(the_host_which_computes_nothing_changes_places_with_a_device) {
  for (bool host_first : {true, false}) {
    T h = buffer({4}, DType::F64, "HOST"), d = in({4});
    T to_host{tolk::copy_to(d.u, "HOST")}, to_device{tolk::copy_to(h.u, "CPU")};
    std::vector<T> roots{assign(h, to_host), assign(d, to_device)};
    if (!host_first) std::swap(roots[0], roots[1]);
    expect(roots, {{h, ramp(4)}, {d, ramp(4, 10)}}, {{h, ramp(4, 10)}, {d, ramp(4)}}, 3);
  }
}

// Each is overwritten from the old contents of its two neighbours.
std::vector<T> neighbours(const std::vector<T>& ring) {
  size_t n = ring.size();
  std::vector<T> roots;
  for (size_t i = 0; i < n; ++i)
    roots.push_back(assign(ring[i], ring[(i + 1) % n] * 2.0 - ring[(i + n - 1) % n]));
  return roots;
}

BOOST_AUTO_TEST_CASE(every_second_store_of_neighbours_waits_and_thousands_take_linear_work) {
  auto ring = [](int n) {
    std::vector<T> all;
    for (int i = 0; i < n; ++i) all.push_back(in({2}));
    return all;
  };
  std::vector<T> few = ring(20);
  std::vector<std::pair<T, V>> inputs, wanted;
  for (int i = 0; i < 20; ++i) {
    inputs.push_back({few[size_t(i)], {double(i * i), double(i)}});
    double next = (i + 1) % 20, last = (i + 19) % 20;
    wanted.push_back({few[size_t(i)], {2 * next * next - last * last, 2 * next - last}});
  }
  expect(neighbours(few), inputs, wanted, 30);
  BOOST_TEST(schedule(neighbours(ring(3000))).linear.nsrc() == 4500u);
  BOOST_TEST(grows_slowly([&](int n) { return neighbours(ring(n)); }, 500));
}

BOOST_AUTO_TEST_CASE(one_value_of_many_old_and_new_contents_is_scheduled_once_more_not_once_for_each) {
  auto products = [](int n) {
    T total = in({2});
    for (int i = 0; i < n; ++i) {
      T a = in({2});
      total = total + a * assign(a, a * 2.0);
    }
    return std::vector<T>{total};
  };
  BOOST_TEST(schedule(products(100)).linear.nsrc() == 201u);
  BOOST_TEST(grows_slowly(products, 50));
}

BOOST_AUTO_TEST_CASE(storage_on_several_devices_at_once_is_swapped) {
  Devices on = devices(2);
  for (int64_t axis : {0, 1}) {
    host::Memory memory;
    T x = in({4, 6}), y = in({4, 6});
    memory.fill(storage(x), ramp(24)), memory.fill(storage(y), ramp(24, 100));
    T a{run({shard(x, on, axis)}, memory).results[0]}, b{run({shard(y, on, axis)}, memory).results[0]};
    auto s = run({assign(a, b + 1), assign(b, a + 2)}, memory);
    BOOST_TEST(s.linear.nsrc() == 3U, listing(s.linear));
    BOOST_TEST(whole(a.u, memory) == ramp(24, 101), boost::test_tools::per_element());
    BOOST_TEST(whole(b.u, memory) == ramp(24, 2), boost::test_tools::per_element());
    auto both = run({a + assign(a, a * 2.0)}, memory);
    V want;
    for (int i = 0; i < 24; ++i) want.push_back(3.0 * (101 + i));
    BOOST_TEST(whole(both.results[0], memory) == want, boost::test_tools::per_element());
    // Every position needs the others' old parts.
    T c{run({shard(x, on, axis)}, memory).results[0]}, d{run({replicate(y, on)}, memory).results[0]};
    run({assign(c, c + d), assign(d, replicate(T{c.u} * 2.0, on))}, memory);
    want.clear();
    for (int i = 0; i < 24; ++i) want.push_back(100 + 2.0 * i);
    BOOST_TEST(whole(c.u, memory) == want, boost::test_tools::per_element());
    for (double& w : want) w -= 100;
    BOOST_TEST(whole(d.u, memory) == want, boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(a_cached_schedule_makes_the_same_copies) {
  tolk::schedule::clear_schedule_cache();
  auto o = options();
  o.cache = true;
  std::string first;
  for (int i = 0; i < 3; ++i) {
    auto before = tolk::schedule::schedule_cache_counters();
    T a = in({3}), b = in({3}), c = in({3});
    auto s = schedule({assign(a, b + c), assign(b, a + c), assign(c, a + assign(in({3}), a * 2.0))}, o);
    BOOST_TEST(tolk::schedule::schedule_cache_counters().hits - before.hits == size_t(i > 0));
    if (i == 0) first = listing(s.linear);
    BOOST_TEST(listing(s.linear) == first);
    host::Memory memory;
    memory.fill(storage(a), {1, 2, 3}), memory.fill(storage(b), {10, 20, 30}),
        memory.fill(storage(c), V(3, i));
    host::run_linear(s.linear, memory);
    BOOST_TEST(values(storage(a), memory) == (V{10. + i, 20. + i, 30. + i}),
               boost::test_tools::per_element());
    BOOST_TEST(values(storage(b), memory) == (V{1. + i, 2. + i, 3. + i}), boost::test_tools::per_element());
    BOOST_TEST(values(storage(c), memory) == (V{3, 6, 9}), boost::test_tools::per_element());
  }
}

// Programs of reads and writes drawn at random, against plain vectors: a handle means what its storage held
// when it was made, whatever is written later.
BOOST_AUTO_TEST_CASE(every_handle_means_what_was_there_when_it_was_made) {
  int with_copies = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    std::mt19937 random(seed);
    auto below = [&](size_t n) { return random() % n; };
    constexpr int64_t n = 6;
    struct Value {
      T t;
      V v;
    };
    std::vector<Value> state, known;
    std::vector<T> storages;
    host::Memory memory;
    for (size_t i = 0; i < 2 + below(3); ++i) {
      T b = in({n});
      V v = ramp(n, double(10 * i));
      memory.fill(storage(b), v);
      state.push_back({b, v}), known.push_back({b, v}), storages.push_back(b);
    }
    auto any = [&]() -> Value { return below(3) ? known[below(known.size())] : state[below(state.size())]; };
    std::vector<Value> asked;
    for (size_t step = 0; step < 3 + below(10); ++step) {
      Value a = any(), b = any(), made;
      switch (below(7)) {
      case 0:
        made = {a.t + b.t, a.v};
        for (size_t k = 0; k < n; ++k) made.v[k] += b.v[k];
        break;
      case 1:
        made = {flip(a.t, {0}) * 2.0, V(a.v.rbegin(), a.v.rend())};
        for (double& x : made.v) x *= 2;
        break;
      case 2: {
        double total = 0;
        for (double x : a.v) total += x;
        made = {b.t - expand(sum(a.t, {0}, true), {n}), b.v};
        for (double& x : made.v) x -= total;
        break;
      }
      case 3: { // of a part
        size_t to = below(state.size()), begin = below(4), from = below(4);
        Value& s = state[to];
        T part = shrink(s.t, {int64_t(begin)}, {3});
        T written = assign(part, shrink(a.t, {int64_t(from)}, {3}) + 1);
        V v = s.v;
        for (size_t k = 0; k < 3; ++k) v[begin + k] = a.v[from + k] + 1;
        s = {T{tolk::after(s.t.u, std::span(&written.u, 1))}, v};
        continue;
      }
      case 4: { // of both halves, side by side
        Value& s = state[below(state.size())];
        std::vector<UOp> halves;
        V v = s.v;
        for (int64_t begin : {0, 3}) {
          T half = assign(shrink(s.t, {begin}, {3}), shrink(b.t, {3 - begin}, {3}) * 2.0);
          V alone(n, 0);
          for (size_t k = 0; k < 3; ++k) alone[k] = v[size_t(begin) + k] = b.v[size_t(3 - begin) + k] * 2;
          if (below(2)) known.push_back({pad(half, {0}, {3}), alone});
          halves.push_back(half.u);
        }
        s = {T{tolk::after(s.t.u, halves)}, v};
        continue;
      }
      default: {
        size_t to = below(state.size());
        V v = a.v;
        for (size_t k = 0; k < n; ++k) v[k] = a.v[k] - b.v[n - 1 - k];
        state[to] = {assign(state[to].t, a.t - flip(b.t, {0})), v};
        if (below(2)) known.push_back(state[to]);
        continue;
      }
      }
      known.push_back(made);
      if (below(2)) asked.push_back(made);
    }
    std::vector<T> roots;
    for (const Value& a : asked) roots.push_back(a.t + 0.25);
    for (const Value& s : state) roots.push_back(s.t);
    std::shuffle(roots.begin() + std::ptrdiff_t(asked.size()), roots.end(), random);
    auto o = options();
    o.max_kernel_buffers = buffer_limit(seed % 3 == 0 ? 4 : 0);
    auto s = schedule(roots, o);
    if (!o.max_kernel_buffers.empty())
      for (const UOp& call : s.linear.src()) BOOST_REQUIRE(call.nsrc() - 1 <= 4u);
    host::run_linear(s.linear, memory);
    BOOST_TEST_CONTEXT("seed " << seed << "\n" << listing(s.linear)) {
      for (size_t i = 0; i < asked.size(); ++i) {
        V want = asked[i].v;
        for (double& x : want) x += 0.25;
        BOOST_TEST(values(s.results[i], memory) == want, boost::test_tools::per_element());
      }
      for (size_t i = 0; i < state.size(); ++i)
        BOOST_TEST(values(storage(storages[i]), memory) == state[i].v, boost::test_tools::per_element());
    }
    with_copies += temporary_elements(roots) > 0;
  }
  BOOST_TEST(with_copies > 100);
}

// ---- cycles of edges alone

namespace {

// Whether the kernels have an order, by trying: kernels and their stores, which are apart for `through`.
bool orderable(const std::vector<Edge>& edges, size_t items, const std::vector<int>& through) {
  std::vector<int> write(items);
  int vertices = int(items);
  for (size_t i = 0; i < items; ++i)
    write[i] = std::count(through.begin(), through.end(), int(i)) ? vertices++ : int(i);
  std::vector<std::pair<int, int>> arcs;
  for (const Edge& e : edges)
    arcs.emplace_back(e.hazard == Hazard::WriteAfterRead ? e.first : write[size_t(e.first)],
                      e.hazard == Hazard::ReadAfterWrite ? e.then : write[size_t(e.then)]);
  for (size_t i = 0; i < items; ++i) arcs.emplace_back(int(i), write[i]);
  std::vector<bool> done(size_t(vertices), false);
  for (bool more = true; more;) {
    more = false;
    for (int v = 0; v < vertices; ++v) {
      bool ready = !done[size_t(v)];
      for (auto [from, to] : arcs) ready &= to != v || from == v || done[size_t(from)];
      if (ready) done[size_t(v)] = more = true;
    }
  }
  return std::count(done.begin(), done.end(), false) == 0;
}

} // namespace

BOOST_AUTO_TEST_CASE(cycles_are_broken_by_no_unnecessary_copy) {
  std::mt19937 random(3);
  size_t broken = 0, extra = 0;
  for (int round = 0; round < 300; ++round) {
    size_t items = 2 + random() % 7;
    std::vector<Edge> edges;
    for (size_t k = 0; k < items * (1 + random() % 3); ++k) {
      int a = int(random() % items), b = int(random() % items);
      if (a != b) edges.push_back({a, b, Hazard::WriteAfterRead, b});
    }
    std::vector<double> bytes;
    for (size_t i = 0; i < items; ++i) bytes.push_back(double(1 + random() % 100));
    auto dear = [](int, std::span<const int>) { return 1e9; };
    auto result = tolk::schedule::break_cycles(edges, bytes, dear);
    BOOST_TEST(result.snapshots.empty());
    BOOST_REQUIRE(orderable(edges, items, result.through));
    BOOST_TEST(result.through.empty() == orderable(edges, items, {}));
    size_t fewest = items;
    for (unsigned set = 0; set < 1u << items; ++set) {
      std::vector<int> some;
      for (size_t i = 0; i < items; ++i)
        if (set >> i & 1) some.push_back(int(i));
      if (some.size() < fewest && orderable(edges, items, some)) fewest = some.size();
    }
    for (int left_out : result.through) {
      std::vector<int> rest = result.through;
      std::erase(rest, left_out);
      BOOST_TEST(!orderable(edges, items, rest));
    }
    broken += fewest, extra += result.through.size() - fewest;
    // Equal input, equal answer.
    BOOST_TEST(tolk::schedule::break_cycles(edges, bytes, dear).through == result.through);
  }
  BOOST_TEST_MESSAGE(broken << " at least, " << extra << " more");
  BOOST_TEST(broken > 100U);
  BOOST_TEST(extra * 4 < broken); // bytes, not numbers, decide
}

BOOST_AUTO_TEST_CASE(contents_are_copied_where_that_is_cheaper_or_the_only_way) {
  std::vector<Edge> swap{{0, 1, Hazard::WriteAfterRead, 7}, {1, 0, Hazard::WriteAfterRead, 8}};
  std::vector<double> bytes{100, 100};
  auto copy = [](int contents, std::span<const int>) { return contents == 8 ? 10.0 : 1000.0; };
  auto result = tolk::schedule::break_cycles(swap, bytes, copy);
  BOOST_TEST(result.through.empty());
  BOOST_REQUIRE_EQUAL(result.snapshots.size(), 1U);
  BOOST_TEST(result.snapshots[0].contents == 8);
  BOOST_TEST(result.snapshots[0].readers == std::vector<int>{1}, boost::test_tools::per_element());
  // Item 1 reads what item 0 made, and what it overwrote.
  std::vector<Edge> both{{0, 1, Hazard::ReadAfterWrite, 9}, {1, 0, Hazard::WriteAfterRead, 7}};
  result = tolk::schedule::break_cycles(both, bytes, copy);
  BOOST_REQUIRE_EQUAL(result.snapshots.size(), 1U);
  BOOST_TEST(result.snapshots[0].contents == 7);
  BOOST_TEST(tolk::schedule::break_cycles({}, bytes, copy).through.empty());
}
