// The body without its storage, and what it is keyed by.
#include <boost/test/unit_test.hpp>

#include "schedule_support.h"
#include "tolk/base/error.h"
#include "tolk/schedule/cache.h"
#include "tolk/schedule/tensor/parametrize.h"
#include "tolk/schedule/tensor/realized.h"
#include "tolk/uop/arena.h"

using namespace mini;
using namespace support;

namespace {

void alter(bool& b) { b = !b; }
template <std::integral T> void alter(T& number) { ++number; }
void alter(std::string& text) { text += "X"; }
void alter(tolk::schedule::BufferLimits& limits) { limits["CPU"] = 8; }
void alter(tolk::schedule::ViewLimitsTable& limits) { limits["CPU"].alignment = 512; }

struct Called {
  tolk::ContentKey key;
  std::vector<UOp> arguments;
  tolk::schedule::VarVals vars;
};

Called called(const std::vector<T>& roots, const tolk::schedule::Options& o = options()) {
  std::vector<UOp> nodes;
  for (const T& t : roots) nodes.push_back(t.u);
  tolk::Arena arena;
  tolk::ArenaScope scope(&arena);
  auto c = tolk::schedule::parametrize(nodes);
  return {tolk::schedule::schedule_key(c.body.sink, o), c.arguments, c.vars};
}

T in(const Shape& shape, DType dtype = DType::F32) { return buffer(shape, dtype); }

} // namespace

BOOST_AUTO_TEST_CASE(storage_is_numbered_in_the_order_it_is_met) {
  T a = in({4}), b = in({4}), c = in({4});
  Called call = called({b * (a + b), c + a});
  BOOST_REQUIRE_EQUAL(call.arguments.size(), 3u);
  BOOST_TEST((call.arguments[0] == storage(b)));
  BOOST_TEST((call.arguments[1] == storage(a)));
  BOOST_TEST((call.arguments[2] == storage(c)));
}

BOOST_AUTO_TEST_CASE(equal_computations_on_other_storage_have_equal_keys) {
  BOOST_TEST((called({in({4}) + 1}).key == called({in({4}) + 1}).key));
  T x = in({4});
  BOOST_TEST((called({x + x}).key != called({in({4}) + in({4})}).key));
  BOOST_TEST((called({in({4}) + 1}).key != called({in({5}) + 1}).key));
  BOOST_TEST((called({in({4}) + 1}).key != called({in({4}, DType::F64) + 1}).key));
  BOOST_TEST((called({in({4}) + 1}).key != called({in({4}) + 2}).key));
  BOOST_TEST((called({in({4}) + 1}).key != called({buffer({4}, DType::F32, "CPU:1") + 1}).key));
}

BOOST_AUTO_TEST_CASE(slices_at_other_offsets_have_equal_keys) {
  UOp b = tolk::buffer_node(tolk::fresh_user_slot(), DType::F32, 16, "CPU");
  T low{tolk::slice_node(b, DType::F32, 0, 4)}, high{tolk::slice_node(b, DType::F32, 32, 4)};
  Called a = called({low + 1}), c = called({high + 1});
  BOOST_TEST((a.key == c.key));
  BOOST_REQUIRE_EQUAL(a.arguments.size(), 1u);
  BOOST_TEST((c.arguments[0] == high.u));
  // In a graph that writes the buffer, where they are matters.
  BOOST_TEST((called({assign(low, high)}).key !=
              called({assign(low, T{tolk::slice_node(b, DType::F32, 48, 4)})}).key));
}

BOOST_AUTO_TEST_CASE(every_option_but_the_cache_is_in_the_key) {
  T x = in({4});
  auto base = called({x + 1}).key;
  auto with = [&](auto change) {
    auto o = options();
    change(o);
    return called({x + 1}, o).key;
  };
#define TOLK_OPTION(type, name, value) BOOST_TEST((with([](auto& o) { alter(o.name); }) != base), #name);
#include "tolk/schedule/options.def"
  BOOST_TEST((with([](auto& o) { o.cache = !o.cache; }) == base));
}

BOOST_AUTO_TEST_CASE(values_of_variables_are_no_part_of_the_key) {
  UOp n = tolk::variable("n", 1, 8);
  T x = in({8, 4});
  auto rows = [&](int64_t value) { return sum(shrink(x, {0, 0}, {SInt(tolk::bind(n, value)), 4}), {0}); };
  Called a = called({rows(3)}), b = called({rows(5)});
  BOOST_TEST((a.key == b.key));
  BOOST_TEST(a.vars.at("n") == 3);
  BOOST_TEST(b.vars.at("n") == 5);
  // Its bounds are.
  UOp m = tolk::variable("n", 1, 7);
  BOOST_TEST((called({sum(shrink(x, {0, 0}, {SInt(tolk::bind(m, 3)), 4}), {0})}).key != a.key));
}

BOOST_AUTO_TEST_CASE(two_values_of_one_variable_are_refused_by_name) {
  UOp n = tolk::variable("n", 1, 8);
  T x = in({8});
  T a = sum(shrink(x, {0}, {SInt(tolk::bind(n, 3))})), b = sum(shrink(x, {0}, {SInt(tolk::bind(n, 4))}));
  BOOST_CHECK_EXCEPTION(called({a + b}), tolk::InvalidArgument, [](const tolk::InvalidArgument& e) {
    return std::string(e.what()).find("bind mismatch on n, 3 != 4") == 0;
  });
}

BOOST_AUTO_TEST_CASE(realised_values_are_arguments) {
  T x = in({4}), y = x + 1;
  T stored = in({4});
  tolk::schedule::set_realized(y.u, stored.u);
  Called c = called({y * 2.0});
  BOOST_REQUIRE_EQUAL(c.arguments.size(), 1u);
  BOOST_TEST((c.arguments[0] == storage(stored)));
}
