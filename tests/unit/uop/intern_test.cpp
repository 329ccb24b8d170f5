// Nodes: identity, lifetime, threads, arenas.
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <limits>
#include <thread>

#include "tolk/base/error.h"
#include "tolk/uop/arena.h"
#include "tolk/uop/build.h"
#include "tolk/uop/state.h"
#include "tolk/uop/traverse.h"

using namespace tolk;

namespace {

UOp sample(int salt) {
  UOp x = buffer_node(1000 + salt, DType::F32, 32, "CPU"), m = reshape(x, {4, 8});
  UOp scaled = alu(Op::MUL, m, constant(DType::F32, 1.5));
  return reduce_axis(Op::ADD, alu(Op::ADD, scaled, alu(Op::EXP, m)), 2);
}

// Small constants of integers live for ever; what is counted is the rest.
struct Baseline {
  Baseline() {
    sample(0);
    before = global_node_count();
  }
  size_t before;
  size_t now() const { return global_node_count() - before; }
};

class Counter : public UOpAttachment {
public:
  explicit Counter(int& alive) : alive_(alive) { ++alive_; }
  ~Counter() override { --alive_; }

private:
  int& alive_;
};

} // namespace

BOOST_AUTO_TEST_CASE(equal_nodes_are_one_node) {
  UOp a = sample(1), b = sample(1);
  BOOST_TEST((a == b));
  BOOST_TEST(a.node() == b.node());
  BOOST_TEST((sample(2) != a));
}

BOOST_AUTO_TEST_CASE(every_part_of_a_node_is_part_of_its_identity) {
  UOp x = buffer_node(1, DType::F32, 8, "CPU"), y = buffer_node(2, DType::F32, 8, "CPU");
  std::vector<UOp> all = {make(Op::ADD, DType::F32, {x, y}),
                          make(Op::ADD, DType::F32, {y, x}),
                          make(Op::MUL, DType::F32, {x, y}),
                          make(Op::ADD, DType::F64, {x, y}),
                          make(Op::ADD, DType::F32, {x, y}, {}, 4),
                          make(Op::ADD, DType::F32, {x, y}, Arg(1)),
                          make(Op::ADD, DType::F32, {x, y}, Arg(std::vector<int64_t>{})),
                          make(Op::ADD, DType::F32, {x, y}, Arg(std::vector<int64_t>{1})),
                          make(Op::ADD, DType::F32, {x, y}, Arg({1}, {"a"})),
                          make(Op::ADD, DType::F32, {x, x})};
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t j = 0; j < i; ++j) BOOST_TEST((all[i] != all[j]), i << " and " << j);
}

BOOST_AUTO_TEST_CASE(constants_are_told_apart_by_their_bits) {
  BOOST_TEST((constant(DType::F32, 0.0) != constant(DType::F32, -0.0)));
  double nan = std::numeric_limits<double>::quiet_NaN();
  BOOST_TEST((constant(DType::F32, nan) == constant(DType::F32, -nan)));
  BOOST_TEST((constant(DType::F32, nan) == constant(DType::F32, std::nan("77"))));
  BOOST_TEST((constant(DType::F32, 0.1) == constant(DType::F32, double(0.1f))));
  BOOST_TEST((constant(DType::F64, 0.1) != constant(DType::F64, double(0.1f))));
  BOOST_TEST((constant(DType::U8, 300) == constant(DType::U8, 44)));
  BOOST_TEST((constant(DType::I8, 200) == constant(DType::I8, -56)));
  BOOST_TEST((constant(DType::I32, 1) != constant(DType::I64, 1)));
}

BOOST_AUTO_TEST_CASE(large_integers_round_once_into_a_float) {
  // 2^54 + 2^30 + 1: by way of a double the last bit is lost, and the tie goes to even.
  int64_t v = (int64_t(1) << 54) + (int64_t(1) << 30) + 1;
  BOOST_TEST(constant(DType::F32, v).const_float() == double(float(v)));
  BOOST_TEST(double(float(v)) != double(float(double(v))));
}

BOOST_AUTO_TEST_CASE(a_node_goes_with_its_last_handle) {
  Baseline base;
  {
    UOp a = sample(7);
    BOOST_TEST(base.now() > 0u);
    UOp b = a, c = std::move(a);
    b = UOp();
    BOOST_TEST((c == sample(7)));
  }
  BOOST_TEST(base.now() == 0u);
}

BOOST_AUTO_TEST_CASE(an_attachment_dies_with_its_node) {
  int alive = 0;
  {
    UOp x = buffer_node(90001, DType::F32, 4, "CPU");
    BOOST_TEST(x.set_attachment(std::make_unique<Counter>(alive)));
    BOOST_TEST(!x.set_attachment(std::make_unique<Counter>(alive)));
    BOOST_TEST(alive == 1);
    UOp again = buffer_node(90001, DType::F32, 4, "CPU");
    BOOST_TEST(again.attachment() == x.attachment());
  }
  BOOST_TEST(alive == 0);
}

BOOST_AUTO_TEST_CASE(a_chain_of_200000_nodes_is_freed_without_recursion) {
  Baseline base;
  {
    UOp x = buffer_node(90002, DType::F32, 4, "CPU");
    for (int i = 0; i < 200'000; ++i) x = alu(Op::NEG, x);
  }
  BOOST_TEST(base.now() == 0u);
}

BOOST_AUTO_TEST_CASE(threads_that_make_and_drop_the_same_nodes_agree) {
  Baseline base;
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 6; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 3000; ++i) {
        UOp a = sample(100 + i % 7), b = sample(100 + i % 7), c = sample(100 + (i + t) % 5);
        if (a != b || shape_of(a) != shape_of(b) || c.nsrc() != 1) ++wrong;
        UOp v = variable("shared " + std::to_string(i % 3), 0, 7), w = v;
        if (var_name(w) != "shared " + std::to_string(i % 3)) ++wrong;
      }
    });
  for (std::thread& t : threads) t.join();
  BOOST_TEST(wrong == 0);
  BOOST_TEST(base.now() == 0u);
}

// Slots, states, constants, names and offsets that are never seen again leave nothing behind.
BOOST_AUTO_TEST_CASE(a_million_short_lived_nodes_leave_the_tables_as_they_were) {
  Baseline base;
  size_t args = interned_arg_count(), most_nodes = 0, most_args = 0;
  UOp whole = buffer_node(90003, DType::I8, 1 << 30, "CPU");
  for (int i = 0; i < 1'000'000; ++i) {
    switch (i % 5) {
    case 0:
      view_at(buffer_node(100'000 + i, DType::F32, 32, "CPU"), fresh_version());
      break;
    case 1:
      constant(DType::I64, int64_t(i) * 7919 + 1'000'003);
      break;
    case 2:
      constant(DType::F32, 1.0 + i);
      break;
    case 3:
      variable("v" + std::to_string(i), 0, i);
      break;
    default:
      slice_node(whole, DType::I8, i, 1);
    }
    if (i % 1000 == 0) {
      most_nodes = std::max(most_nodes, base.now());
      most_args = std::max(most_args, interned_arg_count());
    }
  }
  whole = UOp();
  BOOST_TEST(most_nodes < 30U); // some of the constants are powers of two
  BOOST_TEST(most_args <= args + 3);
  BOOST_TEST(interned_arg_count() == args);
}

BOOST_AUTO_TEST_CASE(list_forms_live_as_long_as_a_node_or_copy_that_names_them) {
  size_t before = interned_arg_count();
  {
    UOp again;
    Arg kept;
    {
      UOp x = variable("lives on", 3, 5);
      again = x, kept = x.arg();
      Arg other = kept, moved = std::move(other);
      BOOST_TEST((moved == kept));
      BOOST_TEST(!other.data); // NOLINT: a moved-from argument is empty
      other = moved;
      BOOST_TEST((other == kept));
      BOOST_TEST(interned_arg_count() == before + 1);
    }
    again = UOp();
    BOOST_TEST(kept.text() == "lives on");
    BOOST_TEST((Arg({3, 5, 1}, {"lives on"}) == kept));
    Arena arena;
    UOp inside;
    {
      ArenaScope scope(&arena);
      for (int i = 0; i < 1000; ++i) inside = variable("in an arena " + std::to_string(i), 0, 1);
    }
    BOOST_TEST(var_name(inside) == "in an arena 999");
    BOOST_TEST(interned_arg_count() == before + 1001);
  }
  BOOST_TEST(interned_arg_count() == before);
  // Many at once, dropped in another order: what is left is still found.
  std::vector<Arg> all;
  for (int64_t i = 0; i < 20'000; ++i)
    all.emplace_back(std::vector<int64_t>{i, -i}, std::vector<std::string>{});
  for (size_t i = 0; i < all.size(); ++i)
    if (i * 7919 % 20'000 % 3) all[i * 7919 % 20'000] = Arg();
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i].data) BOOST_REQUIRE((Arg(std::vector<int64_t>{int64_t(i), -int64_t(i)}) == all[i]));
  all.clear();
  BOOST_TEST(interned_arg_count() == before);
}

BOOST_AUTO_TEST_CASE(a_wrong_number_of_sources_is_refused) {
  UOp x = buffer_node(1, DType::F32, 8, "CPU");
  BOOST_CHECK_THROW(make(Op::ADD, DType::F32, {x}), InternalError);
  BOOST_CHECK_THROW(make(Op::NEG, DType::F32, {x, x}), InternalError);
  BOOST_CHECK_THROW(make(Op::CONST, DType::F32, {x}), InternalError);
}

BOOST_AUTO_TEST_CASE(arenas_keep_nodes_apart_and_number_them_densely) {
  Baseline base;
  UOp outside = sample(3);
  size_t counted = base.now();
  {
    Arena arena;
    ArenaScope scope(&arena);
    UOp inside = import_graph(outside);
    BOOST_TEST(inside.in_arena());
    BOOST_TEST(!outside.in_arena());
    BOOST_TEST((import_graph(outside) == inside));
    BOOST_TEST(inside.hash() == outside.hash());
    BOOST_TEST(arena.size() == toposort(inside).size());
    BOOST_TEST(inside.id() < arena.size());
    {
      ArenaScope global(nullptr);
      BOOST_TEST((import_graph(inside) == outside));
    }
    BOOST_TEST(current_arena() == &arena);
  }
  BOOST_TEST(current_arena() == nullptr);
  BOOST_TEST(base.now() == counted);
}

BOOST_AUTO_TEST_CASE(sources_are_older_than_their_users) {
  for (const UOp& u : toposort(sample(4)))
    for (const UOp& s : u.src()) BOOST_TEST(s.id() < u.id());
}
