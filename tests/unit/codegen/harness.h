// Runs compiled kernels on the reference interpreter and compares them with the direct evaluation of their
// AST.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "ast_eval.h"
#include "tolk/codegen/codegen.h"

namespace tolk_test {

// A machine with AVX2 and every function, one without any function, a scalar one.
tolk::codegen::Target avx2_target();
tolk::codegen::Target bare_target();
tolk::codegen::Target scalar_target();
// Devices with work-groups: a discrete GPU, an integrated one, a software one, and one with limits that few kernels fit.
std::vector<tolk::codegen::Target> group_targets();

// The buffers of an AST, filled. Small: integers of -4 .. 4 in every dtype (0 .. 8 in unsigned ones), so that
// sums and products of a few dozen are exact in any order. Unit: floats in [-1, 1).
enum class Fill { Small, Unit };
std::vector<Data> make_buffers(const tolk::UOp& ast, uint64_t seed, Fill fill = Fill::Small);

// The elements as a device holds them.
std::vector<std::byte> bytes_of(const Data& data);

// Runs the kernel on the interpreter, which faults on every access outside of a buffer.
void run(const tolk::codegen::Kernel& kernel, std::vector<Data>& buffers,
         const std::vector<int64_t>& variables = {});

// Compiles as told, runs, and requires the result of the evaluator: integers bit for bit, floats within
// `tolerance` of the larger of 1 and the value (0: bit for bit).
void check(const tolk::UOp& ast, const tolk::codegen::Target& target,
           const std::vector<tolk::codegen::Opt>& opts, double tolerance = 0, Fill fill = Fill::Small,
           const std::vector<int64_t>& variables = {});
void check_plain(const tolk::UOp& ast, const tolk::codegen::Target& target, double tolerance = 0,
                 Fill fill = Fill::Small, const std::vector<int64_t>& variables = {});
void check_heuristic(const tolk::UOp& ast, const tolk::codegen::Target& target, double tolerance = 0,
                     Fill fill = Fill::Small, const std::vector<int64_t>& variables = {});

// `usual`, or what TOLK_TEST_ROUNDS says: how often a random test repeats.
int rounds(int usual);

// A random list of opts that fit the AST.
std::vector<tolk::codegen::Opt> random_opts(const tolk::UOp& ast, std::mt19937_64& random);

} // namespace tolk_test
