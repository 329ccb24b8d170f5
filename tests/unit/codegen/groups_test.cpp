// What the heuristic makes of kernels on devices with work-groups: limits are kept, work-items are busy, and neighbours
// write neighbouring elements.
#include <boost/test/unit_test.hpp>

#include "harness.h"
#include "samples.h"
#include "tolk/codegen/opt/bodies.h"

using namespace tolk_test;
using namespace tolk;
using namespace tolk::codegen;

namespace {

struct Case {
  const char* name;
  UOp ast;
  int64_t elements; // of the result
};

std::vector<Case> kernels() {
  std::vector<Case> all;
  for (int64_t n : {1, 2, 7, 31, 64, 100, 127, 128, 1000, 1 << 12, 100003, 1 << 20, 1 << 24})
    all.push_back({"add", add(n), n});
  for (int64_t n : {8, 33, 64, 100, 256, 512, 1024, 2048}) all.push_back({"matmul", matmul(n, n, n), n * n});
  for (int64_t n : {1, 17, 300}) all.push_back({"matmul of rows", matmul(n, 384, 768, true), n * 384});
  for (int64_t n : {1, 6, 64, 1000, 4096}) all.push_back({"row sums", row_reduce(Op::ADD, n, 1024), n});
  for (int64_t n : {1, 6, 64, 1000, 4096})
    all.push_back({"column maxima", column_reduce(Op::MAX, 512, n), n});
  for (int64_t n : {7, 14, 28, 56, 112})
    all.push_back({"convolution", convolution(1, 16, 32, n, 3, 1, 1), 32 * n * n});
  for (int64_t n : {5, 300000}) all.push_back({"exp", unary(Op::EXP, n, DType::F32), n});
  return all;
}

bool compute_products(const UOp& ast) {
  std::vector<Nest> nests = nests_of(ast);
  return !nests.empty() && nests[0].bodies[0].multiplies_adds;
}

// Work-items that share one result.
int64_t sharers(const Kernel& k) {
  for (const std::string& opt : k.info.opts)
    if (opt.starts_with("GROUP(")) return std::stoll(opt.substr(opt.find(',') + 1));
  return 1;
}

} // namespace

BOOST_AUTO_TEST_SUITE(groups)

BOOST_AUTO_TEST_CASE(launches_keep_the_limits_and_fill_the_device) {
  BOOST_TEST(kernels().size() >= 40u);
  for (const Target& target : group_targets())
    for (const Case& c : kernels()) {
      Kernel k = compile(c.ast, target);
      BOOST_TEST_CONTEXT(target.arch << ", " << c.name << " of " << c.elements << ": grid " << k.info.grid[0]
                                     << ", local " << k.info.local[0]) {
        BOOST_TEST(k.info.grid[0] <= target.group_max[0]);
        BOOST_TEST(k.info.local[0] <= std::min(target.local_max[0], target.local_product_max));
        for (int axis : {1, 2}) BOOST_TEST((k.info.grid[axis] == 1 && k.info.local[axis] == 1));
        int64_t items = k.info.grid[0] * k.info.local[0] / sharers(k);
        BOOST_TEST(uint64_t(k.info.shared_bytes) <= target.shared_bytes);
        if (target.group_max[0] < 65535) continue;
        // At most four elements for a work-item, of products four rows of them, and not many work-items that only wait.
        BOOST_TEST(items * (compute_products(c.ast) ? 16 : 4) >= c.elements);
        BOOST_TEST(items <= c.elements + c.elements / 4 + 128);
        // A group of several subgroups, unless the result has fewer elements or no such divisor.
        if (c.elements >= 4096) BOOST_TEST(k.info.local[0] >= std::min<int64_t>(32, target.local_max[0]));
      }
    }
}

// The index of every store has the work-item's number with the factor 1.
BOOST_AUTO_TEST_CASE(neighbouring_work_items_write_neighbouring_elements) {
  const Target target = group_targets()[0];
  for (const UOp& ast : {add(1 << 12), matmul(64, 64, 8), column_reduce(Op::ADD, 16, 512)}) {
    Kernel k = compile(ast, target);
    std::vector<Data> buffers = make_buffers(ast, 1);
    std::vector<Data> first = buffers;
    BOOST_TEST(k.info.local[0] > 1);
    Kernel one = k;
    one.info.grid[0] = 1; // the first group alone writes a prefix of the first row
    double mark = 12345;
    for (double& x : buffers[0].floats) x = mark;
    run(one, buffers);
    auto written = int64_t(std::ranges::count_if(buffers[0].floats, [&](double x) { return x != mark; }));
    int64_t neighbours = std::min<int64_t>(k.info.local[0] / sharers(k), 64);
    BOOST_TEST(neighbours >= 32);
    BOOST_TEST(written >= neighbours);
    for (size_t i = 0; i < size_t(neighbours); ++i) BOOST_TEST(buffers[0].floats[i] != mark);
  }
}

// A work-item of a large product computes a tile of it; of a small one fewer elements, so that the device is busy.
BOOST_AUTO_TEST_CASE(work_items_compute_tiles_of_products_that_have_enough_of_them) {
  auto per_item = [](const UOp& ast, int64_t elements, const Target& target) {
    Kernel k = compile(ast, target);
    return elements / (k.info.grid[0] * k.info.local[0]);
  };
  const Target discrete = group_targets()[0], software = group_targets()[2];
  BOOST_TEST(per_item(matmul(512, 512, 64), 512 * 512, discrete) == 16);
  BOOST_TEST(per_item(matmul(128, 128, 64), 128 * 128, discrete) == 4);
  BOOST_TEST(per_item(matmul(32, 32, 64), 32 * 32, discrete) <= 1);
  BOOST_TEST(per_item(matmul(128, 128, 64), 128 * 128, software) == 16);
  BOOST_TEST(per_item(add(1 << 20), 1 << 20, discrete) <= 4); // not a product
}

// Few results, or rows that lie in memory one after the other: work-items share the reduction.
BOOST_AUTO_TEST_CASE(work_items_share_reductions_that_would_leave_the_device_idle) {
  const Target discrete = group_targets()[0], software = group_targets()[2];
  auto shared = [](const UOp& ast, const Target& target) { return sharers(compile(ast, target)); };
  BOOST_TEST(shared(row_reduce(Op::ADD, 1, 1 << 14), discrete) == 128);
  BOOST_TEST(shared(row_reduce(Op::ADD, 1, 1 << 14), software) == 128);
  BOOST_TEST(shared(row_reduce(Op::MAX, 64, 1 << 14), software) == 8); // 64 subgroups of 8 for 64 results
  BOOST_TEST(shared(row_reduce(Op::ADD, 4096, 1024), discrete) == 128);
  BOOST_TEST(shared(row_reduce(Op::ADD, 4096, 1024), software) ==
             1); // enough results, and nothing to coalesce
  BOOST_TEST(shared(column_reduce(Op::ADD, 1024, 4096), discrete) == 1);
  BOOST_TEST(shared(matmul(300, 384, 768, true), discrete) == 1); // the weights are read 300 times
  BOOST_TEST(shared(matmul(1, 384, 768, true), discrete) == 128);
  BOOST_TEST(shared(row_reduce(Op::ADD, 1, 8), discrete) == 1); // too few terms
  // Neighbours read neighbours: the work-items that share a row are those of the fastest number.
  std::vector<std::string> opts = compile(row_reduce(Op::ADD, 4096, 1024), discrete).info.opts;
  std::erase_if(opts,
                [](const std::string& o) { return !o.starts_with("LOCAL") && !o.starts_with("GROUP"); });
  BOOST_TEST(opts.back().starts_with("GROUP"));
  opts = compile(column_reduce(Op::ADD, 1024, 64), discrete).info.opts;
  std::erase_if(opts,
                [](const std::string& o) { return !o.starts_with("LOCAL") && !o.starts_with("GROUP"); });
  BOOST_TEST(opts.back().starts_with("LOCAL"));
}

BOOST_AUTO_TEST_SUITE_END()
