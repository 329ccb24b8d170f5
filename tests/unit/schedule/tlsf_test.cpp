#include "tolk/schedule/memory/tlsf.h"

#include <boost/test/unit_test.hpp>
#include <map>
#include <random>

#include "tolk/base/error.h"

using tolk::schedule::Tlsf;

BOOST_AUTO_TEST_CASE(tlsf_places_joins_splits_and_refuses, *boost::unit_test::label("MP-14")) {
  Tlsf memory(1024, 16);
  BOOST_TEST(memory.allocate(32) == 0);
  BOOST_TEST(memory.allocate(64) == 32);
  memory.release(0);
  BOOST_TEST(memory.allocate(32) == 0);
  BOOST_TEST(memory.peak() == 96);
  BOOST_CHECK_THROW(memory.allocate(2048), tolk::OutOfMemory);
  {
    Tlsf joins(1024, 16);
    int64_t a = joins.allocate(32), b = joins.allocate(32), fence = joins.allocate(16);
    BOOST_TEST(a == 0);
    BOOST_TEST(b == 32);
    joins.release(a), joins.release(b);
    BOOST_TEST(joins.allocate(64) == 0); // one block of both, in whichever order they were freed
    BOOST_TEST(fence == 64);
  }
  {
    Tlsf splits(1024, 16);
    BOOST_TEST(splits.allocate(128) == 0);
    BOOST_TEST(splits.allocate(16) == 128);
    splits.release(0);
    BOOST_TEST(splits.allocate(32) == 0);
    BOOST_TEST(splits.allocate(32) == 32);
  }
  {
    // Three free blocks of one size, fenced: the one that was freed first is taken first.
    Tlsf ages(4096, 16);
    std::vector<int64_t> blocks;
    for (int i = 0; i < 6; ++i) blocks.push_back(ages.allocate(64));
    ages.release(blocks[2]), ages.release(blocks[4]), ages.release(blocks[0]);
    BOOST_TEST(ages.allocate(64) == blocks[2]);
    BOOST_TEST(ages.allocate(64) == blocks[4]);
    BOOST_TEST(ages.allocate(64) == blocks[0]);
  }
}

BOOST_AUTO_TEST_CASE(the_whole_and_nothing_can_be_had) {
  Tlsf memory(1024, 16);
  BOOST_TEST(memory.allocate(1024) == 0);
  BOOST_CHECK_THROW(memory.allocate(1), tolk::OutOfMemory);
  memory.release(0);
  BOOST_TEST(memory.allocate(0) == 0); // takes a block
  BOOST_TEST(memory.allocate(1) == 16);
  BOOST_CHECK_THROW(Tlsf(0).allocate(1), tolk::OutOfMemory);
}

BOOST_AUTO_TEST_CASE(mistakes_are_refused) {
  Tlsf memory(1024, 16);
  memory.allocate(64);
  BOOST_CHECK_THROW(memory.release(16), tolk::InvalidArgument);
  memory.release(0);
  BOOST_CHECK_THROW(memory.release(0), tolk::InvalidArgument);
  BOOST_CHECK_THROW(memory.allocate(-1), tolk::InvalidArgument);
  BOOST_CHECK_THROW(memory.allocate(16, 24), tolk::InvalidArgument);
  BOOST_CHECK_THROW(Tlsf(64, 0), tolk::InvalidArgument);
  BOOST_CHECK_THROW(Tlsf(64, 16, 24), tolk::InvalidArgument);
  BOOST_CHECK_THROW(Tlsf(-1), tolk::InvalidArgument);
}

// Against a list of what is in use: never two at one place, all of it there again in the end.
BOOST_AUTO_TEST_CASE(random_requests_never_overlap_and_everything_comes_back) {
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    int64_t whole = 16384;
    Tlsf memory(whole, 16, 1 << random() % 6);
    std::map<int64_t, int64_t> used; // begin to end
    int64_t highest = 0;
    for (int step = 0; step < 400; ++step) {
      if (used.empty() || random() % 5 < 3) {
        int64_t bytes = int64_t(random() % 900), align = int64_t(1) << random() % 8, begin;
        try {
          begin = memory.allocate(bytes, align);
        } catch (const tolk::OutOfMemory&) {
          continue;
        }
        int64_t end = begin + std::max<int64_t>(bytes, 16);
        BOOST_REQUIRE_EQUAL(begin % align, 0);
        BOOST_REQUIRE(begin >= 0 && end <= whole);
        auto next = used.lower_bound(begin);
        BOOST_REQUIRE(next == used.end() || end <= next->first);
        BOOST_REQUIRE(next == used.begin() || std::prev(next)->second <= begin);
        used[begin] = end, highest = std::max(highest, end);
      } else {
        auto it = std::next(used.begin(), int(random() % used.size()));
        memory.release(it->first);
        used.erase(it);
      }
      BOOST_REQUIRE_EQUAL(memory.peak(), highest);
    }
    while (!used.empty()) {
      auto it = std::next(used.begin(), int(random() % used.size()));
      memory.release(it->first);
      used.erase(it);
    }
    BOOST_REQUIRE_EQUAL(memory.allocate(whole), 0);
  }
}
