// Faults that others have had, as scenarios (the kinds: index width, NaN, graph rewriting).
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "device_runs.h"
#include "tolk/codegen/codegen.h"
#include "tolk/device/registry.h"
#include "tolk/engine/compile/targets.h"
#include "tolk/schedule/schedule.h"
#include "tolk/tensor/tensor.h"
#include "tolk/uop/build.h"

using namespace tolk;

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// dtypes in which the kernels of a tensor count loops and address memory.
std::set<DType> index_dtypes(const Tensor& t) {
  UOp root = t.contiguous().node();
  schedule::Options options;
  options.default_device = "CPU";
  schedule::Schedule s = schedule::create_schedule(std::span(&root, 1), options);
  std::set<DType> found;
  for (const UOp& call : s.linear.src()) {
    if (!call.src(0).is(Op::SINK)) continue;
    Device& cpu = device("CPU");
    codegen::Kernel kernel = codegen::compile(call.src(0), engine::codegen_target(cpu, cpu.target_index()));
    for (const tolk_ir_op& op : kernel.ir.ops) {
      if (op.opcode == TOLK_IR_RANGE) found.insert(DType(op.dtype));
      if (op.opcode == TOLK_IR_LOAD || op.opcode == TOLK_IR_STORE)
        found.insert(DType(kernel.ir.ops[kernel.ir.sources_of(op)[1]].dtype));
    }
  }
  return found;
}

} // namespace

BOOST_AUTO_TEST_CASE(index_arithmetic_is_as_wide_as_the_view_needs) {
  DeviceScope scope("CPU");
  Tensor one = Tensor::from(std::vector<uint8_t>{1}, {1, 1});
  BOOST_TEST(one.expand({70000, 70000}).cast(DType::I64).sum().item() == 4900000000.0);
  Tensor row = Tensor::arange(3, DType::I64).contiguous().reshape({1, 3});
  std::vector<int64_t> sums = row.expand({(int64_t(1) << 30) + 1, 3}).sum({0}).values<int64_t>();
  BOOST_TEST((sums == std::vector<int64_t>{0, 1073741825, 2147483650}));
  BOOST_TEST(index_dtypes(Tensor::arange(int64_t(5) << 30, DType::I64) + 1).contains(DType::I64));
  Tensor small = Tensor::from(std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, {4, 3});
  BOOST_TEST(!index_dtypes(small.transpose(0, 1) + 1.0).contains(DType::I64));
  BOOST_TEST(!index_dtypes(small.sum()).contains(DType::I64));
}

BOOST_AUTO_TEST_CASE(extremes_give_nan_whatever_the_order_and_length) {
  on_each_device([](const std::string& device) {
    for (int n = 2; n <= 65; ++n)
      for (bool first : {true, false}) {
        std::vector<float> v(size_t(n), 1.f);
        v[first ? 0 : size_t(n) - 1] = kNaN;
        Tensor x = Tensor::from(v, {n}), ones = Tensor::ones({n});
        BOOST_CHECK_MESSAGE(std::isnan(x.max().item()) && std::isnan(x.min().item()), device << " " << n);
        std::vector<float> a = x.maximum(ones).values<float>(), b = ones.maximum(x).values<float>(),
                           c = x.minimum(ones).values<float>();
        size_t at = first ? 0 : size_t(n) - 1;
        BOOST_CHECK_MESSAGE(std::isnan(a[at]) && std::isnan(b[at]) && std::isnan(c[at]),
                            device << " elementwise " << n);
      }
    // The folded form agrees with the computed one.
    Tensor nan = Tensor::constant(DType::F32, double(kNaN)), one = Tensor::constant(DType::F32, 1);
    BOOST_TEST(std::isnan(nan.maximum(one).item()));
    BOOST_TEST(std::isnan(one.maximum(nan).item()));
  });
}

BOOST_AUTO_TEST_CASE(reading_constants_first_changes_nothing) {
  on_each_device([](const std::string& device) {
    const std::vector<float> av = {1, 2, 3, 4}, bv = {2, 3, 4, 5}, want = {2, 6, 12, 20};
    // Steps: 0 read a, 1 read b, 2 build c, 3 read c; c is read after it is built.
    std::vector<int> order = {0, 1, 2, 3};
    do {
      if (std::find(order.begin(), order.end(), 2) > std::find(order.begin(), order.end(), 3)) continue;
      Tensor a = Tensor::from(av, {4}), b = Tensor::from(bv, {4}), c;
      for (int step : order) {
        if (step == 0) BOOST_TEST(a.values<float>() == av);
        if (step == 1) BOOST_TEST(b.values<float>() == bv);
        if (step == 2) c = a * b;
        if (step == 3) BOOST_CHECK_MESSAGE(c.values<float>() == want, device);
      }
    } while (std::next_permutation(order.begin(), order.end()));
  });
}

BOOST_AUTO_TEST_CASE(loops_of_two_results_do_not_interfere) {
  on_each_device([](const std::string& device) {
    Tensor a = Tensor::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3}),
           b = Tensor::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {3, 2});
    for (bool swapped : {false, true}) {
      Tensor rows = swapped ? b.sum({1}) : a.sum({1}), columns = swapped ? a.sum({0}) : b.sum({0});
      std::vector<Tensor> both = {rows, columns};
      Tensor::realize(both);
      BOOST_CHECK_MESSAGE(
          (both[0].values<float>() == (swapped ? std::vector<float>{3, 7, 11} : std::vector<float>{6, 15})),
          device);
      BOOST_CHECK_MESSAGE(
          (both[1].values<float>() == (swapped ? std::vector<float>{5, 7, 9} : std::vector<float>{9, 12})),
          device);
    }
    // Both in one kernel.
    std::vector<float> fused = (a.sum({1}) + b.sum({0})).values<float>();
    BOOST_CHECK_MESSAGE((fused == std::vector<float>{15, 27}), device);
  });
}

BOOST_AUTO_TEST_CASE(padding_before_an_average_counts_as_data) {
  on_each_device([](const std::string& device) {
    Tensor x = Tensor::ones({1, 1, 3, 3}).contiguous();
    Tensor::Pool plain{{3, 3}, {}, {}, {}, false}, padded{{3, 3}, {}, {}, {{1, 1}, {1, 1}}, false};
    std::vector<float> outer = x.pad({{0, 0}, {0, 0}, {1, 1}, {1, 1}}).avg_pool(plain, false).values<float>();
    std::vector<float> want = {4, 6, 4, 6, 9, 6, 4, 6, 4};
    for (size_t i = 0; i < 9; ++i) BOOST_CHECK_MESSAGE(std::abs(outer[i] - want[i] / 9) < 1e-7, device);
    BOOST_CHECK_MESSAGE((x.avg_pool(padded, false).values<float>() == std::vector<float>(9, 1.f)), device);
    std::vector<float> counted = x.avg_pool(padded, true).values<float>();
    for (size_t i = 0; i < 9; ++i) BOOST_CHECK_MESSAGE(std::abs(counted[i] - want[i] / 9) < 1e-7, device);
  });
}
