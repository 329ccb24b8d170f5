#include "tolk/schedule/memory/arena_layout.h"

#include <boost/test/unit_test.hpp>
#include <random>
#include <set>

#include "tolk/base/error.h"

using tolk::schedule::assign_offsets;
using tolk::schedule::Block;
using tolk::schedule::check_layout;
using tolk::schedule::Layout;

namespace {

int64_t most_alive(const std::vector<Block>& blocks) {
  std::set<int> begins;
  for (const Block& b : blocks) begins.insert(b.first);
  int64_t most = 0;
  for (int at : begins) {
    int64_t sum = 0;
    for (const Block& b : blocks)
      if (b.first <= at && at <= b.last) sum += (b.bytes + 255) / 256 * 256;
    most = std::max(most, sum);
  }
  return most;
}

} // namespace

BOOST_AUTO_TEST_CASE(a_chain_of_equal_blocks_needs_two_places) {
  std::vector<Block> blocks;
  for (int i = 0; i < 5; ++i) blocks.push_back({i, i + 1, 1000});
  Layout layout = assign_offsets(blocks);
  BOOST_TEST(layout.bytes == 2048);
  check_layout(blocks, layout);
}

BOOST_AUTO_TEST_CASE(three_blocks_alive_at_once_need_three_places) {
  Layout layout = assign_offsets(std::vector<Block>{{0, 2, 256}, {1, 3, 256}, {2, 4, 256}});
  BOOST_TEST(layout.bytes == 768);
}

BOOST_AUTO_TEST_CASE(sizes_from_one_byte_to_two_to_the_forty) {
  std::vector<Block> blocks{
      {0, 1, 1}, {1, 2, int64_t(1) << 40}, {2, 3, 32}, {0, 3, 6}, {3, 4, int64_t(1) << 45}};
  Layout layout = assign_offsets(blocks);
  check_layout(blocks, layout);
  for (int64_t offset : layout.offsets) BOOST_TEST(offset % 256 == 0);
  BOOST_TEST(assign_offsets({}).bytes == 0);
}

BOOST_AUTO_TEST_CASE(sums_beyond_63_bits_are_refused) {
  std::vector<Block> blocks(3, Block{0, 1, int64_t(1) << 62});
  BOOST_CHECK_EXCEPTION(assign_offsets(blocks), tolk::InvalidArgument, [](const tolk::InvalidArgument& e) {
    return std::string(e.what()).find("too large") != std::string::npos;
  });
  blocks.assign(1, Block{0, 1, INT64_MAX});
  BOOST_CHECK_THROW(assign_offsets(blocks), tolk::InvalidArgument);
}

BOOST_AUTO_TEST_CASE(random_lifetimes_never_overlap_and_little_is_wasted) {
  std::mt19937 random(1);
  double wasted = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<Block> blocks;
    int n = 1 + int(random() % 60), span = 1 + int(random() % 30);
    for (int i = 0; i < n; ++i) {
      int first = int(random() % 50);
      blocks.push_back({first, first + int(random() % uint32_t(span)), int64_t(random() % 5000) + 1});
    }
    Layout layout = assign_offsets(blocks);
    BOOST_REQUIRE_NO_THROW(check_layout(blocks, layout));
    BOOST_REQUIRE(assign_offsets(blocks).offsets == layout.offsets);
    int64_t least = most_alive(blocks);
    BOOST_REQUIRE_GE(layout.bytes, least);
    wasted += double(layout.bytes - least) / double(least);
  }
  BOOST_TEST(wasted / 300 < 0.06);
}

BOOST_AUTO_TEST_CASE(the_check_finds_every_kind_of_fault) {
  std::vector<Block> blocks{{0, 2, 300}, {1, 3, 300}, {3, 4, 300}};
  Layout good = assign_offsets(blocks);
  BOOST_CHECK_NO_THROW(check_layout(blocks, good));
  auto broken = [&](auto change) {
    Layout bad = good;
    change(bad);
    BOOST_CHECK_THROW(check_layout(blocks, bad), tolk::InternalError);
  };
  broken([](Layout& l) { l.offsets[1] = l.offsets[0]; });
  broken([](Layout& l) { l.offsets[1] = l.offsets[0] + 256; });
  broken([](Layout& l) { l.offsets[0] += 8; });
  broken([](Layout& l) { l.bytes -= 512; });
  broken([](Layout& l) { l.offsets[0] = -256; });
  broken([](Layout& l) { l.offsets.pop_back(); });
}

BOOST_AUTO_TEST_CASE(every_candidate_is_a_layout_and_the_smallest_is_taken) {
  std::mt19937 random(11);
  int tlsf_best = 0, sizes_best = 0, time_best = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<Block> blocks;
    int n = 1 + int(random() % 60), longest = 1 + int(random() % 30);
    int64_t alignment = round % 3 == 0 ? 4096 : 256;
    for (int i = 0; i < n; ++i) {
      int first = int(random() % 50);
      blocks.push_back({first, first + int(random() % uint32_t(longest)), int64_t(random() % 9000)});
    }
    auto all = tolk::schedule::layout_candidates(blocks, alignment);
    Layout taken = assign_offsets(blocks, alignment);
    for (const Layout& layout : {all.largest_first, all.best_fit, all.tlsf}) {
      BOOST_REQUIRE_NO_THROW(check_layout(blocks, layout, alignment));
      BOOST_REQUIRE_LE(taken.bytes, layout.bytes);
    }
    tlsf_best += all.tlsf.bytes == taken.bytes, sizes_best += all.largest_first.bytes == taken.bytes;
    time_best += all.best_fit.bytes == taken.bytes;
  }
  // None of them is there for nothing.
  BOOST_TEST(sizes_best > 0);
  BOOST_TEST(time_best > 0);
  BOOST_TEST(tlsf_best > 0);
}

// Blocks that all meet each other need no search, however many they are.
BOOST_AUTO_TEST_CASE(blocks_that_meet_all_others_are_laid_side_by_side) {
  std::vector<Block> blocks;
  for (int i = 0; i < 200000; ++i) blocks.push_back({i % 3000, 3000 + i % 7, 1 + (i * 7919LL) % 5000});
  auto all = tolk::schedule::layout_candidates(blocks);
  BOOST_REQUIRE_EQUAL(all.largest_first.offsets.size(), blocks.size());
  check_layout(blocks, all.largest_first);
  BOOST_TEST(all.largest_first.bytes == most_alive(blocks));
  // Around others, of which those that do not meet share their bytes.
  std::vector<Block> mixed{{0, 9, 1000}, {0, 3, 3000}, {4, 9, 5000}, {3, 4, 100}, {5, 6, 700}};
  all = tolk::schedule::layout_candidates(mixed);
  check_layout(mixed, all.largest_first);
  BOOST_TEST(all.largest_first.bytes == most_alive(mixed));
}

// Lists of those that meet, and one list of all: the same layout, whichever is quicker.
BOOST_AUTO_TEST_CASE(many_and_few_meetings_are_laid_out_by_the_same_rule) {
  std::mt19937 random(17);
  for (int longest : {2, 8, 30, 100, 200}) {
    std::vector<Block> blocks;
    for (int i = 0; i < 400; ++i)
      blocks.push_back({i, i + 1 + int(random() % uint32_t(longest)), 1 + int64_t(random() % 9000)});
    Layout layout = tolk::schedule::layout_candidates(blocks).largest_first;
    check_layout(blocks, layout);
    // The rule, by trying every multiple of the alignment.
    std::vector<size_t> order(blocks.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::stable_sort(order, [&](size_t a, size_t b) { return blocks[a].bytes > blocks[b].bytes; });
    std::vector<int64_t> want(blocks.size(), -1);
    for (size_t i : order) {
      auto free = [&](int64_t at) {
        for (size_t k = 0; k < blocks.size(); ++k)
          if (want[k] >= 0 && blocks[k].first <= blocks[i].last && blocks[i].first <= blocks[k].last &&
              want[k] < at + blocks[i].bytes && at < want[k] + blocks[k].bytes)
            return false;
        return true;
      };
      want[i] = 0;
      int64_t at = 0;
      for (want[i] = -1; !free(at);) at += 256;
      want[i] = at;
    }
    BOOST_TEST(layout.offsets == want, boost::test_tools::per_element());
  }
}

// Thousands of blocks that meet most others are not compared one by one.
BOOST_AUTO_TEST_CASE(too_many_pairs_leave_out_the_layout_by_size) {
  std::vector<Block> blocks{{0, 0, 100}};
  for (int i = 0; i < 4000; ++i) blocks.push_back({1 + i % 3000, 3000 + i % 7, 1 + (i * 7919) % 5000});
  auto all = tolk::schedule::layout_candidates(blocks);
  BOOST_TEST(all.largest_first.offsets.empty());
  Layout taken = assign_offsets(blocks);
  check_layout(blocks, taken);
  BOOST_TEST(taken.bytes == std::min(all.best_fit.bytes, all.tlsf.bytes));
  // Times far apart are as good as near ones.
  std::vector<Block> sparse{{0, 1, 300}, {2000000000, 2000000001, 300}, {1, 2000000000, 500}};
  check_layout(sparse, assign_offsets(sparse));
  BOOST_TEST(assign_offsets(sparse).bytes == 1024);
}
