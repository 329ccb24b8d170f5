// Every sample kernel, in every form that the opts can give it, computes what its AST means.
#include <boost/test/unit_test.hpp>

#include "harness.h"
#include "samples.h"

using namespace tolk_test;
using tolk::codegen::Target;

BOOST_AUTO_TEST_SUITE(differential)

static Fill fill_of(const Sample& s) { return s.tolerance > 0 ? Fill::Unit : Fill::Small; }

BOOST_AUTO_TEST_CASE(unoptimised_kernels_compute_their_ast) {
  for (const Sample& s : all_samples()) BOOST_TEST_CONTEXT(s.name) {
      check_plain(s.ast, avx2_target(), s.tolerance, fill_of(s), s.variables);
      check_plain(s.ast, bare_target(), s.tolerance, fill_of(s), s.variables);
    }
}

BOOST_AUTO_TEST_CASE(kernels_with_chosen_opts_compute_their_ast) {
  for (const Sample& s : all_samples()) BOOST_TEST_CONTEXT(s.name) {
      check_heuristic(s.ast, avx2_target(), s.tolerance, fill_of(s), s.variables);
      check_heuristic(s.ast, scalar_target(), s.tolerance, fill_of(s), s.variables);
      for (const Target& target : group_targets())
        check_heuristic(s.ast, target, s.tolerance, fill_of(s), s.variables);
    }
}

BOOST_AUTO_TEST_CASE(kernels_with_random_opts_compute_their_ast) {
  std::mt19937_64 random(7);
  for (const Sample& s : all_samples())
    for (int trial = 0; trial < rounds(20); ++trial) BOOST_TEST_CONTEXT(s.name) {
        check(s.ast, avx2_target(), random_opts(s.ast, random), s.tolerance, fill_of(s), s.variables);
      }
}

BOOST_AUTO_TEST_SUITE_END()
