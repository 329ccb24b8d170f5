// Deep and wide graphs: every walk is iterative, and work grows with the graph. The deep cases run on a small
// stack.
#include <boost/test/unit_test.hpp>

#include <functional>
#include <pthread.h>

#include "tolk/uop/arena.h"
#include "tolk/uop/build.h"
#include "tolk/uop/key.h"
#include "tolk/uop/print.h"
#include "tolk/uop/rewrite.h"
#include "tolk/uop/spec.h"
#include "tolk/uop/symbolic/symbolic.h"
#include "tolk/uop/traverse.h"

using namespace tolk;

namespace {

constexpr int kDeep = 200'000;
constexpr size_t kSmallStack = 256 * 1024;

// Runs `body` in a thread with 256 KB of stack.
void with_small_stack(const std::function<void()>& body) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kSmallStack);
  pthread_t thread;
  auto run = [](void* p) -> void* {
    (*static_cast<const std::function<void()>*>(p))();
    return nullptr;
  };
  BOOST_REQUIRE(
      pthread_create(&thread, &attributes, run, const_cast<void*>(static_cast<const void*>(&body))) == 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

UOp chain(int length) {
  UOp x = reshape(buffer_node(70, DType::F32, 16, "CPU"), {4, 4});
  UOp one = constant(DType::F32, 1.0);
  for (int i = 0; i < length; ++i) x = i % 2 ? alu(Op::MUL, x, one) : alu(Op::EXP, x);
  return x;
}

void walk_everything(const UOp& root) {
  BOOST_TEST(toposort(root).size() > size_t(kDeep));
  BOOST_TEST(to_string(shape_of(root)) == "(4,4)");
  UOp source = buffer_node(71, DType::F32, 16, "CPU");
  UOpMap map;
  map.emplace(toposort(root).front(), source);
  BOOST_TEST((substitute(root, map) != root));
  BOOST_TEST(contains(root, toposort(root).front()));
  BOOST_TEST((graph_key(root) != graph_key(substitute(root, map))));
  UOp simple = simplify(root);
  BOOST_TEST(toposort(simple).size() < toposort(root).size());
  BOOST_TEST((rewrite(root, symbolic_rules()) == simple));
  verify(root, Stage::TensorGraph);
  BOOST_TEST((parse_graph(print(root)) == root));
}

// Rules that fire while the graph is simplified.
uint64_t applications(const std::function<UOp()>& make_graph) {
  Arena arena;
  ArenaScope scope(&arena);
  UOp root = make_graph();
  uint64_t before = simplification_steps();
  simplify(root);
  return simplification_steps() - before;
}

} // namespace

BOOST_AUTO_TEST_CASE(every_walk_survives_a_chain_of_200000_nodes) {
  with_small_stack([] {
    walk_everything(chain(kDeep));
    Arena arena;
    UOp outside = chain(kDeep);
    ArenaScope scope(&arena);
    UOp inside = import_graph(outside);
    BOOST_TEST(arena.size() == toposort(inside).size());
  });
}

BOOST_AUTO_TEST_CASE(simplification_survives_deep_index_arithmetic) {
  with_small_stack([] {
    Arena arena;
    ArenaScope scope(&arena);
    UOp x = variable("x", 0, 9), gate = less(x, index_const(5));
    UOp deep_where = x, deep_sum = x, deep_and = gate, deep_gather = x;
    for (int i = 0; i < 20'000; ++i) {
      deep_where = where(less(deep_where, index_const(i)), x, deep_where + 1);
      deep_sum = alu(Op::ADD, deep_sum, index_const(i % 7));
      deep_and = alu(Op::AND, deep_and, less(x, index_const(i % 9)));
      deep_gather = cast(load(param_node(1, DType::I32, 100), deep_gather), DType::Index) * 2 + x;
    }
    simplify(deep_where);
    BOOST_TEST(print_expr(simplify(deep_sum)).substr(0, 2) == "x+");
    simplify(deep_and);
    simplify(deep_gather);
    simplify_under(deep_gather, gate);
  });
}

BOOST_AUTO_TEST_CASE(shared_subgraphs_are_visited_once) {
  UOp x = buffer_node(72, DType::F32, 16, "CPU");
  for (int i = 0; i < 64; ++i) x = alu(Op::ADD, alu(Op::MUL, x, x), x); // 3^64 paths
  BOOST_TEST(toposort(x).size() == 129u);
  BOOST_TEST(to_string(shape_of(x)) == "(16)");
  simplify(x);
  verify(x, Stage::TensorGraph);
  graph_key(x);
}

BOOST_AUTO_TEST_CASE(work_doubles_when_the_graph_doubles) {
  auto chain_of_reshapes = [](int n) {
    return [n] {
      std::vector<UOp> parts;
      for (int i = 0; i < n; ++i) {
        UOp a = range_node(60 + i, 2 * i, AxisType::Loop), b = range_node(60, 2 * i + 1, AxisType::Loop);
        UOp flat = a * 60 + b;
        parts.push_back(floordiv(flat, index_const(12)) * 12 + floormod(flat, index_const(12)));
      }
      return sink(parts);
    };
  };
  auto elementwise = [](int n) {
    return [n] {
      return import_graph([&] {
        ArenaScope global(nullptr);
        return chain(n);
      }());
    };
  };
  auto fan_out = [](int n) {
    return [n] {
      UOp x = load(param_node(1, DType::F32, 16), variable("x", 0, 15));
      for (int i = 0; i < n; ++i) {
        UOp y = alu(Op::MUL, x, constant(DType::F32, 1.0));
        for (int k = 0; k < 4; ++k) y = alu(Op::ADD, alu(Op::MUL, y, x), y);
        x = y;
      }
      return x;
    };
  };
  auto divisions = [](int n) {
    return [n] {
      UOp x = variable("x", 0, 1'000'000);
      UOp sum = x;
      for (int i = 0; i < n; ++i)
        sum = where(less(floordiv(sum, index_const(3)), index_const(i + 5)), x,
                    floormod(sum + i, index_const(1000 + i)));
      return sum;
    };
  };
  for (const auto& graph : {std::function<std::function<UOp()>(int)>(chain_of_reshapes),
                            std::function<std::function<UOp()>(int)>(elementwise),
                            std::function<std::function<UOp()>(int)>(fan_out),
                            std::function<std::function<UOp()>(int)>(divisions)}) {
    uint64_t once = applications(graph(400)), twice = applications(graph(800));
    BOOST_TEST(twice < 3 * once, once << " against " << twice);
    BOOST_TEST(once >= 200u);
  }
}

BOOST_AUTO_TEST_CASE(asking_again_costs_nothing) {
  Arena arena;
  ArenaScope scope(&arena);
  UOp a = range_node(60, 0, AxisType::Loop), flat = a * 60 + range_node(60, 1, AxisType::Loop);
  UOp e = floordiv(flat, index_const(12)) * 12 + floormod(flat, index_const(12));
  UOp once = simplify(e);
  uint64_t steps = simplification_steps();
  BOOST_TEST(steps > 0u);
  BOOST_TEST((simplify(e) == once));
  BOOST_TEST((simplify(once) == once));
  BOOST_TEST((simplify(once + 0) == once));
  BOOST_TEST(simplification_steps() == steps);
}
