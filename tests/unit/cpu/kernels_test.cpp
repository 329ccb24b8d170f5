// Kernels with memory, loops and branches, on arrays that end at unmapped pages.
#include <chrono>
#include <cmath>
#include <cstdlib>

#include <boost/test/unit_test.hpp>

#include "cpu_plugin.h"
#include "exact.h"
#include "kernel_builder.h"
#include "sample_kernels.h"

namespace tolk::test {
namespace {

using Id = KernelBuilder::Id;

// Small multiples of 1/4: sums of thousands of products of them are exact, so any order gives the same bits.
void fill(std::span<float> values, unsigned salt) {
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(static_cast<int>((i * 7 + salt * 13) % 31) - 15) * 0.25f;
}

BOOST_AUTO_TEST_CASE(an_elementwise_kernel_with_a_tail) {
  for (int n : {1, 7, 8, 9, 64, 100}) {
    KernelBuilder b("e_tail");
    Id out = b.buffer(DType::F32, true), x = b.buffer(DType::F32, false);
    Id at = b.imul(b.tile(), b.index(8));
    std::vector<Id> lanes;
    for (int lane = 0; lane < 8; ++lane) lanes.push_back(b.iadd(at, b.index(lane)));
    Id gate = b.compare(TOLK_IR_CMPLT, b.build(lanes), b.constant(DType::I32, static_cast<uint64_t>(n), 8));
    Id v = b.load(x, at, 8, gate, b.constant(DType::F32, 0, 8));
    b.store(out, at, b.add(v, v), gate);
    GuardedBytes in(static_cast<size_t>(n) * 4), result(static_cast<size_t>(n) * 4);
    fill(in.as<float>(), 1);
    LoadedKernel(b.kernel).run({result, in}, static_cast<uint32_t>((n + 7) / 8));
    for (int i = 0; i < n; ++i) BOOST_CHECK_EQUAL(result.as<float>()[i], 2 * in.as<float>()[i]);
  }
}

BOOST_AUTO_TEST_CASE(vector_accumulators_sum_rows) {
  GuardedBytes x(16 * 32 * 4), out(16 * 4);
  fill(x.as<float>(), 2);
  LoadedKernel(row_sum()).run({out, x}, 16);
  for (size_t row = 0; row < 16; ++row) {
    float sum = 0;
    for (size_t i = 0; i < 32; ++i) sum += x.as<float>()[row * 32 + i];
    BOOST_CHECK_EQUAL(out.as<float>()[row], sum);
  }
}

BOOST_AUTO_TEST_CASE(a_loop_over_a_value_runs_as_often_as_it_says_also_never) {
  GuardedBytes x(1000 * 4), out(4);
  for (size_t i = 0; i < 1000; ++i) x.as<int32_t>()[i] = static_cast<int32_t>(i % 7) - 3;
  LoadedKernel kernel(guarded_sum());
  for (uint64_t n : {0, 1, 2, 999, 1000}) {
    kernel.run({out, x}, 1, {n});
    int32_t sum = 100;
    for (size_t i = 0; i < n; ++i) sum += x.as<int32_t>()[i] > 0 ? x.as<int32_t>()[i] : 0;
    BOOST_CHECK_EQUAL(out.as<int32_t>()[0], sum);
  }
}

BOOST_AUTO_TEST_CASE(a_register_tile_multiplies_matrices) {
  std::vector<float> a(4096), b(4096), c(4096, 99), expected(4096);
  fill(a, 3);
  fill(b, 4);
  for (size_t i = 0; i < 64; ++i)
    for (size_t j = 0; j < 64; ++j)
      for (size_t k = 0; k < 64; ++k) expected[i * 64 + j] += a[i * 64 + k] * b[k * 64 + j];
  LoadedKernel kernel(matmul_tile());
  kernel.run({c, a, b}, 64);
  BOOST_CHECK(c == expected);
  double best = 1e9;
  for (int round = 0; round < 20; ++round) {
    auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 10; ++i) kernel.run({c, a, b}, 64);
    std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
    best = std::min(best, spent.count() / 10);
  }
  BOOST_TEST_MESSAGE("64x64x64 on 2 threads: " << best * 1e6 << " us, " << 2 * 64 * 64 * 64 / best / 1e9
                                               << " GFLOP/s");
}

BOOST_AUTO_TEST_CASE(gates_keep_the_processor_away_from_memory) {
  // Both ends: the first tile reads from index -3, n is not a multiple of 8.
  for (bool may_alias : {false, true}) {
    LoadedKernel kernel(gated_copy(), may_alias);
    for (int n : {0, 3, 13, 16}) {
      for (bool at_start : {true, false}) {
        auto count = static_cast<size_t>(n);
        GuardedBytes x(count * 4, at_start), flags(64);
        std::vector<float> out(64, -7), expected(64, -7);
        fill(x.as<float>(), 5);
        for (auto& f : flags.as<uint8_t>()) f = 0;
        std::vector<uint8_t> expected_flags(64, 0);
        // A kernel that a host would not make: the last store reads x[8i .. 8i+7] where i < n, so give only
        // one tile.
        for (size_t i = 0; i < 1; ++i) {
          for (int lane = 0; lane < 8; ++lane) {
            int from = static_cast<int>(i) * 8 - 3 + lane;
            bool gate = from >= 0 && from < n;
            float v = gate ? x.as<float>()[static_cast<size_t>(from)] : 2.0f;
            if (v > 2.0f) expected[i * 8 + static_cast<size_t>(lane)] = v;
            uint8_t old = gate ? 0 : 1;
            if (gate) expected_flags[i * 8 + static_cast<size_t>(lane)] = old != 1;
          }
          if (static_cast<int>(i) < n) expected[i] = x.as<float>()[i];
        }
        if (n > 0 && n < 8) continue; // the last store's vector would not fit
        for (size_t lane = 0; n >= 8 && lane < 8; ++lane) expected[lane] = x.as<float>()[lane];
        kernel.run({out, x, flags}, 1, {static_cast<uint64_t>(n)});
        BOOST_CHECK(out == expected);
        BOOST_CHECK(std::equal(expected_flags.begin(), expected_flags.end(), flags.data()));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_closed_gate_reads_nothing_even_where_there_is_no_memory_at_all) {
  for (uint16_t lanes : {uint16_t{1}, uint16_t{8}, uint16_t{32}}) {
    KernelBuilder b("e_closed");
    Id out = b.buffer(DType::F64, true), x = b.buffer(DType::F64, false), y = b.buffer(DType::F64, false);
    Id n = b.value(DType::I32, 0, 1), at = b.index(0);
    Id gate = b.compare(TOLK_IR_CMPLT, at, n), alt = b.constant(DType::F64, 0x4000000000000000, lanes);
    b.store(out, at, b.add(b.load(x, at, lanes, gate, alt), b.load(y, at, lanes)));
    std::vector<double> ones(lanes, 1), result(lanes, 0);
    GuardedBytes nothing(0), full(lanes * 8);
    for (double& v : full.as<double>()) v = 5;
    LoadedKernel kernel(b.kernel);
    kernel.run({result, nothing, ones}, 1, {0});
    BOOST_CHECK(result == std::vector<double>(lanes, 3));
    kernel.run({result, full, ones}, 1, {1});
    BOOST_CHECK(result == std::vector<double>(lanes, 6));
  }
}

BOOST_AUTO_TEST_CASE(gathers_and_scatters_go_lane_by_lane) {
  // Index -1 means "nothing"; equal indices in one vector: the last lane wins.
  GuardedBytes x(6 * 4, true), where(8 * 4);
  fill(x.as<float>(), 6);
  std::vector<int32_t> indices = {5, -1, 0, 5, -1, -1, 3, 2};
  std::copy(indices.begin(), indices.end(), where.as<int32_t>().begin());
  GuardedBytes out(8 * 4);
  std::vector<float> expected(8, 0);
  for (auto& f : out.as<float>()) f = 0;
  auto xs = x.as<float>();
  for (size_t at : {size_t{0}, size_t{4}}) {
    float v[4], all[4];
    for (size_t lane = 0; lane < 4; ++lane) {
      int32_t index = indices[at + lane];
      v[lane] = index >= 0 ? xs[static_cast<size_t>(index)] : 3.0f;
      all[lane] = xs[static_cast<size_t>(std::max(index, 0))];
    }
    for (size_t lane = 0; lane < 4; ++lane) expected[at + 3 - lane] = v[lane];
    for (size_t lane = 0; lane < 4; ++lane)
      if (indices[at + lane] >= 0) expected[static_cast<size_t>(indices[at + lane])] = v[lane] + v[lane];
    float mixed[4] = {all[3], v[0], all[0], v[3]};
    for (size_t lane = 0; lane < 4; ++lane)
      if (indices[at + lane] >= 0) expected[at + lane] = mixed[lane];
  }
  LoadedKernel(gather_scatter()).run({out, x, where});
  BOOST_CHECK(std::equal(expected.begin(), expected.end(), out.as<float>().begin()));
}

BOOST_AUTO_TEST_CASE(work_group_storage_and_indexed_registers) {
  std::vector<int16_t> x(48), out(48), expected(48);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<int16_t>(static_cast<int>(i * 37 % 101) - 50);
  LoadedKernel(shared_transpose()).run({out, x}, 3);
  for (size_t tile = 0; tile < 3; ++tile)
    for (size_t r = 0; r < 4; ++r)
      for (size_t c = 0; c < 4; ++c)
        expected[tile * 16 + r * 4 + c] = static_cast<int16_t>(std::abs(x[tile * 16 + c * 4 + r]));
  BOOST_CHECK(out == expected);
}

BOOST_AUTO_TEST_CASE(integer_index_arithmetic_and_wrapping_values) {
  std::vector<int32_t> x = {0, 1, -1, 7, -8, 2147483647, -2147483647 - 1, 100}, out(8), expected(8);
  std::vector<uint8_t> bytes = {9, 0, 200, 128, 255, 5, 6, 7}, expected_bytes = bytes;
  for (size_t i = 0; i < 8; ++i) {
    auto q = static_cast<int32_t>(0u - static_cast<uint32_t>(x[i]));
    int32_t r = x[i] % 7;
    auto s = static_cast<int32_t>(static_cast<uint32_t>(q) << 3);
    expected[i] =
        static_cast<int32_t>(static_cast<uint32_t>(s | (r < 0 ? -1 : 0)) - static_cast<uint32_t>(i));
  }
  for (size_t i = 0; i < 8; ++i) {
    uint8_t byte = expected_bytes[i % 5], negated = static_cast<uint8_t>(-byte);
    expected_bytes[i] = negated ? static_cast<uint8_t>(byte / negated) : 0;
  }
  LoadedKernel(integer_mix()).run({out, x, bytes});
  BOOST_CHECK(out == expected);
  BOOST_CHECK(bytes == expected_bytes);
}

BOOST_AUTO_TEST_CASE(bool_memory_is_a_byte_and_anything_but_zero_is_true) {
  for (uint16_t lanes : {uint16_t{1}, uint16_t{8}}) {
    KernelBuilder b("e_bool");
    Id out = b.buffer(DType::BOOL, true), x = b.buffer(DType::BOOL, false);
    Id at = b.imul(b.tile(), b.index(lanes));
    Id v = b.load(x, at, lanes);
    b.store(out, at, b.op(TOLK_IR_XOR, {v, b.constant(DType::BOOL, 1, lanes)}));
    std::vector<uint8_t> in = {0, 1, 2, 255, 128, 0, 1, 0}, result(8, 77);
    LoadedKernel(b.kernel).run({result, in}, 8u / lanes);
    BOOST_CHECK(result == (std::vector<uint8_t>{1, 0, 0, 0, 0, 1, 0, 1}));
  }
}

BOOST_AUTO_TEST_CASE(value_parameters_of_every_integer_dtype_ignore_the_upper_bits_of_their_slot) {
  DType types[] = {DType::I8,  DType::U8,  DType::I16, DType::U16,
                   DType::I32, DType::U32, DType::I64, DType::U64};
  KernelBuilder b("e_values");
  std::vector<Id> out, in;
  for (DType t : types) out.push_back(b.buffer(t, true));
  for (DType t : types) in.push_back(b.value(t, is_signed(t) ? -100 : 0, 100));
  Id zero = b.index(0);
  for (size_t i = 0; i < in.size(); ++i) b.store(out[i], zero, in[i]);
  std::vector<uint64_t> result(8, 0);
  auto at = [&](size_t i) { return std::span<uint64_t>(&result[i], 1); };
  uint64_t junk = 0xabcdef1234567800;
  LoadedKernel(b.kernel).run({at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7)}, 1,
                             {junk | 0x9c, junk | 0x64, (junk & ~uint64_t{0xffff}) | 0xff9c,
                              (junk & ~uint64_t{0xffff}) | 100, (junk & ~uint64_t{0xffffffff}) | 0xffffff9c,
                              (junk & ~uint64_t{0xffffffff}) | 100, static_cast<uint64_t>(-100), 100});
  std::vector<uint64_t> expected = {0x9c, 0x64, 0xff9c, 100, 0xffffff9c, 100, static_cast<uint64_t>(-100),
                                    100};
  BOOST_CHECK(result == expected);
}

BOOST_AUTO_TEST_CASE(overlapping_buffers_are_allowed_when_the_kernel_says_so) {
  // out[i] = x[i] + x[i]; then out and x are one array shifted by one element: each tile reads the last one's
  // result.
  KernelBuilder b("e_alias");
  Id out = b.buffer(DType::F32, true), x = b.buffer(DType::F32, false);
  Id i = b.loop(6);
  Id v = b.load(x, i);
  b.store(out, i, b.add(v, v));
  b.end(i);
  std::vector<float> data = {1, 0, 0, 0, 0, 0, 0};
  LoadedKernel(b.kernel, true).run({std::span<float>(data).subspan(1), std::span<float>(data).first(6)});
  BOOST_CHECK(data == (std::vector<float>{1, 2, 4, 8, 16, 32, 64}));
}

} // namespace
} // namespace tolk::test
