// Programs with one mistake each: the message names the argument, what was found and what was expected.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "device_runs.h"
#include "tolk/base/error.h"
#include "tolk/tensor/gradient.h"
#include "tolk/tensor/tensor.h"

using namespace tolk;

namespace {

struct Mistake {
  const char* program;
  std::function<void()> run;
  std::vector<std::string> named; // parts of the message
};

Tensor floats(const Shape& shape) { return Tensor::ones(shape).contiguous(); }
Tensor indices() { return Tensor::from(std::vector<int64_t>{0, 1}, {2}); }

void check(const std::vector<Mistake>& mistakes) {
  DeviceScope scope("INTERP");
  for (const Mistake& m : mistakes) {
    std::string text = "nothing was thrown";
    try {
      m.run();
    } catch (const Error& e) {
      text = e.what();
    }
    for (const std::string& part : m.named)
      BOOST_CHECK_MESSAGE(text.find(part) != std::string::npos,
                          m.program << " does not name \"" << part << "\": " << text);
  }
}

constexpr int64_t kHuge = int64_t(1) << 40;

} // namespace

BOOST_AUTO_TEST_CASE(mistakes_in_shapes_are_named) {
  check({
      {"add", [] { (void)(floats({2, 3}) + floats({4})); }, {"(2,3)", "(4)", "3 and 4 differ"}},
      {"matmul",
       [] { (void)floats({2, 3}).matmul(floats({4, 5})); },
       {"matmul", "(2,3)", "(4,5)", "(3)", "(4)"}},
      {"matmul of a scalar",
       [] { (void)floats({2, 3}).matmul(floats({})); },
       {"matmul", "()", "at least one axis"}},
      {"reshape", [] { (void)floats({2, 3}).reshape({4, 2}); }, {"reshape", "(2,3)", "(4,2)", "6", "8"}},
      {"view", [] { (void)floats({2, 3}).view({-1, -1}); }, {"reshape", "only one size may be -1"}},
      {"expand", [] { (void)floats({2, 3}).expand({2, 4}); }, {"expand", "(2,3)", "(2,4)"}},
      {"concat",
       [] { (void)Tensor::concat({floats({2, 3}), floats({3, 4})}, 0); },
       {"concat", "(2,3)", "(3,4)", "axis 0"}},
      {"where", [] { (void)floats({2}).where(floats({2}), floats({2})); }, {"where", "bool", "f32"}},
      {"assign",
       [] {
         Tensor t = floats({2}).realize();
         t.assign(floats({3}));
       },
       {"assign", "(2)", "(3)"}},
      {"pad", [] { (void)floats({2, 3}).pad({{1, 1}}); }, {"pad", "2 axes", "1"}},
      {"split", [] { (void)floats({5}).split({2, 2}, 0); }, {"split", "4", "5"}},
      {"conv",
       [] { (void)floats({1, 3, 8}).conv(floats({4, 2, 3}), {}, {}); },
       {"conv", "channels", "3", "2"}},
      {"conv larger than its input",
       [] { (void)floats({1, 1, 2}).conv(floats({1, 1, 3}), {}, {}); },
       {"conv", "kernel 3", "2"}},
      {"stride 0",
       [] { (void)floats({1, 1, 8}).conv(floats({1, 1, 3}), {}, {{0}, {}, {}, 1}); },
       {"conv", "stride", "0", "spatial axis 0"}},
      {"pool",
       [] { (void)floats({1, 1, 8}).max_pool({{0}, {}, {}, {}, false}); },
       {"pooling", "kernel", "0"}},
      {"pool of a matrix",
       [] { (void)floats({8, 8}).max_pool({{2, 2}, {}, {}, {}, false}); },
       {"pooling", "rank 4", "(8,8)"}},
  });
}

BOOST_AUTO_TEST_CASE(mistakes_in_axes_and_indices_are_named) {
  check({
      {"sum", [] { (void)floats({2, 3}).sum({2}); }, {"sum", "axis 2", "-2 .. 1"}},
      {"sum twice", [] { (void)floats({2, 3}).sum({1, -1}); }, {"sum", "axis -1", "twice"}},
      {"softmax", [] { (void)floats({2}).softmax(1); }, {"axis 1", "-1 .. 0"}},
      {"squeeze", [] { (void)floats({2, 3}).squeeze(0); }, {"squeeze", "axis 0", "(2,3)"}},
      {"permute", [] { (void)floats({2, 3}).permute({0, 0}); }, {"permute", "(2,3)", "once"}},
      {"narrow", [] { (void)floats({4}).narrow(0, 3, 2); }, {"axis 0", "[3, +2)", "(4)"}},
      {"narrow beyond 2^63",
       [] { (void)floats({4}).narrow(0, 1, INT64_MAX); },
       {"axis 0", "9223372036854775807", "(4)"}},
      {"slice", [] { (void)floats({4}).slice(0, 0, 4, 0); }, {"slice", "step", "0"}},
      {"topk", [] { (void)floats({4}).topk(5); }, {"topk", "k is 5", "4"}},
      {"gather", [] { (void)floats({4}).gather(floats({2}), 0); }, {"gather", "indices", "integers", "f32"}},
      {"gather_elements",
       [] { (void)floats({4, 4}).gather_elements(indices(), 0); },
       {"gather_elements", "(2)", "(4,4)"}},
      {"scatter_elements",
       [] { (void)floats({4}).scatter_elements(indices(), floats({3}), 0); },
       {"scatter_elements", "(2)", "(3)"}},
      {"one_hot", [] { (void)indices().one_hot(-1); }, {"one_hot", "-1", "negative"}},
  });
}

BOOST_AUTO_TEST_CASE(mistakes_in_sizes_are_named) {
  check({
      {"zeros", [] { (void)Tensor::zeros({2, -3}); }, {"size -3", "axis 1", "negative"}},
      {"zeros of 2^80",
       [] { (void)Tensor::zeros({kHuge, kHuge}); },
       {"(1099511627776,1099511627776)", "2^62"}},
      {"empty", [] { (void)Tensor::empty({-1}); }, {"empty", "size -1", "negative"}},
      {"empty of 2^80", [] { (void)Tensor::empty({kHuge, kHuge}); }, {"empty", "2^62"}},
      {"arange", [] { (void)Tensor::arange(-2); }, {"arange", "size -2", "negative"}},
      {"arange of u8", [] { (void)Tensor::arange(300, DType::U8); }, {"arange", "u8", "299"}},
      {"expand to 2^80", [] { (void)floats({1, 1}).expand({kHuge, kHuge}); }, {"expand", "2^62"}},
      {"pad beyond 2^62",
       [] { (void)floats({4}).pad({{INT64_MAX, 1}}); },
       {"pad", "9223372036854775807", "axis 0"}},
      {"pad of many axes", [] { (void)floats({4, 4}).pad({{kHuge, 0}, {kHuge, 0}}); }, {"pad", "2^62"}},
      {"repeat", [] { (void)floats({4}).repeat({-1}); }, {"repeat", "-1"}},
      {"repeat of 2^80", [] { (void)floats({4, 4}).repeat({kHuge, kHuge}); }, {"repeat", "2^62"}},
      {"from", [] { (void)Tensor::from(std::vector<float>{1, 2, 3}, {2, 2}); }, {"(2,2)", "16 bytes", "12"}},
      {"window",
       [] { (void)floats({4}).window(0, int64_t(1) << 62, int64_t(1) << 62, 1, 1); },
       {"window", "(4)"}},
      {"one_hot of 2^80", [] { (void)indices().expand({kHuge, 2}).one_hot(kHuge); }, {"2^62"}},
  });
}

BOOST_AUTO_TEST_CASE(mistakes_in_dtypes_devices_and_handles_are_named) {
  check({
      {"bitcast", [] { (void)floats({2}).bitcast(DType::F64); }, {"bitcast", "f32", "f64", "equal width"}},
      {"negative bool", [] { (void)Tensor::ones({2}, DType::BOOL).neg(); }, {"bool", "logical_not"}},
      {"shift", [] { (void)floats({2}).shl(indices()); }, {"shl", "integer", "f32"}},
      {"number", [] { (void)(Tensor::ones({2}, DType::I8) + 1000); }, {"1000", "i8", "-128 to 127"}},
      {"undefined", [] { (void)Tensor().sum(); }, {"undefined"}},
      {"moved",
       [] {
         Tensor a = floats({2});
         Tensor b = std::move(a);
         (void)(a + b);
       },
       {"undefined", "moved from"}}, // NOLINT
      {"device", [] { (void)floats({2}).to("NOSUCH").data(); }, {"NOSUCH"}},
      {"shard", [] { (void)floats({3}).shard({"INTERP", "INTERP"}, 0); }, {"3", "2"}},
      {"shard axis", [] { (void)floats({4}).shard({"INTERP", "INTERP"}, 1); }, {"axis 1"}},
      {"gradient of an integer",
       [] {
         std::vector<Tensor> w{indices().realize()};
         (void)gradient(indices().sum(), w);
       },
       {"i64"}},
      {"gradient without a seed",
       [] {
         std::vector<Tensor> w{floats({2}).realize()};
         (void)gradient(w[0] * 2.0, w);
       },
       {"(2)", "seed"}},
      {"item", [] { (void)floats({2}).item(); }, {"item", "(2)"}},
  });
}
