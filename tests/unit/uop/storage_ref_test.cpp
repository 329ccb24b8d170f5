// What lies below a node: storage, version, bytes and views.
#include <boost/test/unit_test.hpp>

#include <numeric>
#include <random>

#include "tolk/uop/arena.h"
#include "tolk/uop/storage_ref.h"

using namespace tolk;

namespace {

UOp storage(int64_t elements, DType dtype = DType::F32, const std::string& device = "CPU") {
  return buffer_node(fresh_user_slot(), dtype, elements, device);
}

// The position in storage of every element of a chain of movements, computed element by element.
std::vector<int64_t> positions(const UOp& u) {
  if (u.is(ops::Storage)) {
    std::vector<int64_t> all(static_cast<size_t>(elements_of(u)));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  std::vector<int64_t> below = positions(u.src(0)), out;
  const Shape &from = shape_of(u.src(0)), &shape = shape_of(u);
  if (u.is(Op::RESHAPE)) return below;
  std::vector<int64_t> at(shape.size(), 0);
  int64_t count = numel(shape).value();
  for (int64_t n = 0; n < count; ++n) {
    int64_t rest = n;
    for (size_t i = shape.size(); i-- > 0;) at[i] = rest % shape[i].value(), rest /= shape[i].value();
    std::vector<int64_t> source(from.size());
    for (size_t i = 0; i < from.size(); ++i) {
      if (u.is(Op::EXPAND)) source[i] = from[i] == 1 ? 0 : at[i];
      if (u.is(Op::SHRINK)) source[i] = at[i] + u.src(1 + i).const_int();
      if (u.is(Op::FLIP)) source[i] = u.arg().word >> i & 1 ? from[i].value() - 1 - at[i] : at[i];
      if (u.is(Op::PERMUTE)) source[size_t(u.arg().i(i))] = at[i];
      if (u.is(Op::WINDOW)) {
        auto axis = size_t(u.arg().i(0));
        source[i] = i < axis ? at[i] : i > axis ? at[i + 1] : at[i] * u.arg().i(1) + at[i + 1] * u.arg().i(2);
      }
    }
    int64_t flat = 0;
    for (size_t i = 0; i < from.size(); ++i) flat = flat * from[i].value() + source[i];
    out.push_back(below[size_t(flat)]);
  }
  return out;
}

// A random movement that is no PAD.
UOp moved(const UOp& u, std::mt19937& random) {
  auto below = [&](int64_t n) { return int64_t(random() % uint64_t(n)); };
  const Shape& shape = shape_of(u);
  size_t rank = shape.size();
  switch (random() % 6) {
  case 0: {
    int64_t count = numel(shape).value(), divisor = 1 + below(count);
    while (count % divisor) --divisor;
    return reshape(u, {SInt(1), SInt(divisor), SInt(count / divisor)});
  }
  case 1: {
    std::vector<int64_t> order(rank);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    return permute(u, order);
  }
  case 2: {
    Shape wide = shape;
    for (SInt& d : wide)
      if (d == 1 && random() % 2) d = 2;
    return numel(wide).value() <= 64 ? expand(u, wide) : u;
  }
  case 3: {
    Shape begin, size;
    for (const SInt& d : shape) {
      int64_t b = random() % 2 ? 0 : below(d.value());
      begin.emplace_back(b), size.emplace_back(random() % 2 ? d.value() - b : 1 + below(d.value() - b));
    }
    return shrink(u, begin, size);
  }
  case 4:
    return flip(u, random() & ((uint64_t(1) << rank) - 1));
  default: {
    auto axis = size_t(below(int64_t(rank)));
    int64_t n = shape[axis].value(), k = 1 + below(n);
    return rank < 5 ? window(u, int(axis), n - k + 1, k, 1, 1) : u;
  }
  }
}

UOp after_effect(const UOp& view) { return after_write(view, store_to(view, zero_of(view.dtype()))); }

} // namespace

BOOST_AUTO_TEST_CASE(every_movement_but_pad_is_a_view) {
  BOOST_TEST((ops::View | OpSet(Op::PAD)).contains(ops::Movement));
  BOOST_TEST(!ops::View.has(Op::PAD));
  for (Op op : {Op::BITCAST, Op::DETACH, Op::CONTIGUOUS_BACKWARD, Op::MULTI}) BOOST_TEST(ops::View.has(op));
  for (Op op : {Op::CAST, Op::CONTIGUOUS, Op::GATHER, Op::COPY, Op::AFTER, Op::SLICE, Op::MSELECT})
    BOOST_TEST(!ops::View.has(op));
}

BOOST_AUTO_TEST_CASE(a_chain_gives_storage_views_and_version) {
  UOp b = storage(24);
  UOp state = view_at(b, 7), six = reshape(state, {4, 6}), cut = shrink(six, {1, 0}, {2, 6}),
      top = flip(cut, 2);
  StorageRef ref = storage_ref(top);
  BOOST_TEST((ref.base == b));
  BOOST_TEST((ref.storage == b));
  BOOST_TEST(ref.version == 7u);
  BOOST_TEST((ref.after == state));
  BOOST_TEST(!ref.write);
  BOOST_TEST(ref.byte_offset == 0);
  BOOST_TEST((ref.views == std::vector<UOp>{top, cut, six}));
  BOOST_TEST((with_views(ref.views, state) == top));
  UOp other = storage(24);
  BOOST_TEST((with_views(ref.views, other) == flip(shrink(reshape(other, {4, 6}), {1, 0}, {2, 6}), 2)));
}

BOOST_AUTO_TEST_CASE(a_walk_stops_where_it_is_told_to) {
  UOp b = storage(6), state = view_at(b, 3), write = after_effect(reshape(state, {2, 3}));
  UOp top = permute(write, {1, 0});
  BOOST_TEST((below_views(top, Through::Views) == write));
  BOOST_TEST((below_views(top, Through::States) == write));
  BOOST_TEST((below_views(top, Through::Writes) == b));
  BOOST_TEST((below_views(write.src(0), Through::Views) == state));
  BOOST_TEST((below_views(write.src(0), Through::States) == b));
  StorageRef ref = storage_ref(top);
  BOOST_TEST((ref.write == write));
  BOOST_TEST(ref.version == version_named(write));
  BOOST_TEST(!storage_ref(top, Through::States));
  UOp padded = pad(state, {1}, {1}), value = alu(Op::NEG, b);
  BOOST_TEST((below_views(padded) == padded));
  BOOST_TEST((below_views(padded, Through::States | Through::Pads) == b));
  BOOST_TEST((below_views(padded, Through::Views | Through::Pads) == state));
  BOOST_TEST(!storage_ref(flip(value, 1)));
  BOOST_TEST((storage_ref(flip(value, 1)).below == value));
}

BOOST_AUTO_TEST_CASE(slices_add_up_to_an_offset_in_the_base) {
  UOp b = storage(64), inner = slice_node(b, DType::F32, 32, 32), outer = slice_node(inner, DType::U8, 16, 8);
  StorageRef ref = storage_ref(reshape(view_at(outer, 5), {2, 4}));
  BOOST_TEST((ref.storage == outer));
  BOOST_TEST((ref.base == b));
  BOOST_TEST(ref.byte_offset == 48);
  BOOST_TEST(ref.offset_known);
  BOOST_TEST(ref.version == 5u);
  BOOST_TEST((slice_over(outer, inner) == slice_node(b, DType::U8, 48, 8)));
  UOp sources[] = {inner, variable("n", 0, 8)};
  UOp symbolic = make(Op::SLICE, DType::U8, sources, Arg({4, 8}));
  ref = storage_ref(symbolic);
  BOOST_TEST(ref.byte_offset == 36);
  BOOST_TEST(!ref.offset_known);
  UOp joined[] = {storage(4), storage(4)};
  BOOST_TEST(!storage_ref(slice_node(mstack(joined), DType::F32, 0, 2)).base);
}

BOOST_AUTO_TEST_CASE(a_walk_follows_what_stands_for_a_node) {
  static UOp stored, computed;
  stored = reshape(storage(6), {2, 3});
  computed = alu(Op::NEG, reshape(storage(6), {2, 3}));
  NodeForm form = [](const UOp& u) { return u == computed ? stored : u; };
  UOp top = permute(computed, {1, 0});
  BOOST_TEST(!storage_ref(top));
  StorageRef ref = storage_ref(top, Through::Writes, form);
  BOOST_TEST((ref.base == stored.src(0)));
  BOOST_TEST((with_views(ref.views, ref.base) == permute(stored, {1, 0})));
  stored = computed = UOp();
}

BOOST_AUTO_TEST_CASE(versions_replace_one_another_and_keep_the_views) {
  UOp b = storage(6), view = flip(pad(reshape(b, {2, 3}), {0, 1}, {0, 0}), 1);
  UOp second = view_at(view, 2);
  BOOST_TEST(storage_ref(second, Through::States | Through::Pads).version == 2u);
  BOOST_TEST((view_at(second, 9) == view_at(view, 9)));
  BOOST_TEST((without_states(second) == view));
  BOOST_TEST((buffer_below(second) == b));
  BOOST_TEST(!buffer_below(alu(Op::NEG, b)));
  BOOST_TEST((storage_of(second) == b));
  // Reshapes merge: a chain that is put over reshaped storage again and again does not grow.
  UOp flat = reshape(view_at(b, 3), {3, 2});
  BOOST_TEST((with_views(std::vector<UOp>{reshape(b, {2, 3})}, flat) == reshape(view_at(b, 3), {2, 3})));
}

BOOST_AUTO_TEST_CASE(a_dense_range_has_the_positions_of_its_elements) {
  int dense = 0, other = 0;
  for (uint32_t seed = 1; seed <= 3000; ++seed) {
    std::mt19937 random(seed);
    UOp b = storage(24), u = reshape(b, {2, 3, 4});
    for (int i = 0; i < 4; ++i) u = moved(u, random);
    std::vector<int64_t> all = positions(u);
    bool consecutive = true;
    for (size_t i = 0; i < all.size(); ++i) consecutive &= all[i] == all[0] + int64_t(i);
    std::optional<DenseRange> range = dense_range(u);
    ++(range ? dense : other);
    if (!range) continue; // it may miss some, and must not make one up
    BOOST_REQUIRE_MESSAGE(consecutive, "seed " << seed << " is not dense");
    BOOST_REQUIRE_MESSAGE(range->byte_offset == all[0] * 4, "seed " << seed << " begins elsewhere");
    BOOST_REQUIRE(range->elements == int64_t(all.size()));
    BOOST_REQUIRE((range->storage == b));
  }
  BOOST_TEST(dense > 300);
  BOOST_TEST(other > 300);
}

BOOST_AUTO_TEST_CASE(a_dense_range_is_storage_or_a_slice_of_its_base) {
  UOp b = storage(24), whole = reshape(view_at(b, 4), {4, 6});
  BOOST_TEST((storage_node(*dense_range(whole)) == b));
  UOp rows = shrink(whole, {1, 0}, {2, 6});
  BOOST_TEST((storage_node(*dense_range(rows)) == slice_node(b, DType::F32, 24, 12)));
  UOp part = slice_node(b, DType::F32, 8, 12), two = shrink(part, {2}, {2});
  BOOST_TEST((storage_node(*dense_range(two)) == slice_node(b, DType::F32, 16, 2)));
  BOOST_TEST((storage_node(*dense_range(bitcast(b, DType::I32))) == slice_node(b, DType::I32, 0, 24)));
  BOOST_TEST(!dense_range(shrink(whole, {0, 1}, {2, 2})));
  BOOST_TEST(!dense_range(pad(b, {1}, {0})));
  UOp value = contiguous(alu(Op::NEG, b));
  BOOST_TEST(!dense_range(value));
  BOOST_TEST((dense_range(reshape(value, {4, 6}), Op::CONTIGUOUS)->storage == value));
}

BOOST_AUTO_TEST_CASE(arguments_cover_parts_of_their_bases) {
  UOp b = storage(8, DType::F32, "A,B"), p = param_node(0, DType::F32, 16, "C");
  std::vector<StoragePart> parts = storage_parts(slice_node(mselect(b, 1), DType::F32, 8, 4));
  BOOST_REQUIRE(parts.size() == 1u);
  BOOST_TEST((parts[0].base == b));
  BOOST_TEST(parts[0].begin == 8);
  BOOST_TEST(parts[0].end == 24);
  BOOST_TEST(parts[0].position == 1);
  BOOST_TEST(parts[0].sliced);
  UOp joined[] = {p, slice_node(mselect(b, 0), DType::F32, 4, 4)};
  parts = storage_parts(slice_node(mstack(joined), DType::F32, 4, 2));
  BOOST_REQUIRE(parts.size() == 2u);
  BOOST_TEST((parts[0].base == p));
  BOOST_TEST(parts[0].begin == 4);
  BOOST_TEST(parts[0].end == 12);
  BOOST_TEST((parts[1].base == b));
  BOOST_TEST(parts[1].begin == 8);
  BOOST_TEST(parts[1].end == 16);
  BOOST_TEST(parts[1].position == 0);
  UOp sources[] = {p, variable("n", 0, 8)};
  parts = storage_parts(make(Op::SLICE, DType::F32, sources, Arg({4, 2})));
  BOOST_TEST(!parts[0].exact);
  BOOST_TEST(parts[0].begin == 0);
  BOOST_TEST(parts[0].end == StoragePart::kEnd);
}

BOOST_AUTO_TEST_CASE(arguments_overlap_where_they_share_bytes) {
  UOp b = storage(16), c = storage(16), two = storage(8, DType::F32, "A,B");
  auto slice = [](const UOp& base, int64_t begin, int64_t n) {
    return slice_node(base, DType::F32, begin, n);
  };
  BOOST_TEST(may_overlap(b, slice(b, 60, 1)));
  BOOST_TEST(may_overlap(slice(b, 0, 5), slice(b, 16, 4)));
  BOOST_TEST(!may_overlap(slice(b, 0, 4), slice(b, 16, 4)));
  BOOST_TEST(!may_overlap(b, c));
  BOOST_TEST(!may_overlap(mselect(two, 0), mselect(two, 1)));
  BOOST_TEST(may_overlap(two, mselect(two, 1)));
  UOp joined[] = {c, b}, sources[] = {b, variable("n", 0, 8)};
  BOOST_TEST(may_overlap(mstack(joined), slice(b, 8, 1)));
  BOOST_TEST(may_overlap(make(Op::SLICE, DType::F32, sources, Arg({0, 1})), slice(b, 60, 1)));
}

BOOST_AUTO_TEST_CASE(arguments_move_to_other_storage) {
  UOp b = storage(16, DType::F32, "A"), c = storage(16, DType::F32, "B"),
      p = param_node(0, DType::F32, 16, "A");
  UOp arena = storage(64, DType::F32, "A"), place = slice_node(arena, DType::F32, 128, 16);
  auto move = [&](const UOp& u) { return u == b ? place : u == p ? c : UOp(); };
  BOOST_TEST((with_storage(slice_node(b, DType::U8, 8, 4), move) == slice_node(arena, DType::U8, 136, 4)));
  UOp parts[] = {b, c}, moved_parts[] = {place, c};
  BOOST_TEST((with_storage(mstack(parts), move) == mstack(moved_parts)));
  BOOST_TEST((with_storage(p, move) == c));
  BOOST_TEST((with_storage(mstack(moved_parts), move) == mstack(moved_parts)));
}
