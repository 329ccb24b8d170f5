// Random programs on several devices whose work runs behind the host, against the same program on plain
// vectors: whatever order the streams find, the values are those of running one operation after the other.
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include <random>

#include "device_test.h"
#include "test_backend.h"
#include "test_kernels.h"

using namespace tolk;
using namespace tolk::test;

namespace {

constexpr size_t kCount = 48;

struct Value {
  BufferRef buffer;
  std::vector<int32_t> expected;
  size_t place; // index of the device
};

struct Place {
  Device* device;
  TestBackend* backend;
  ProgramRef add, accumulate;
};

class RandomProgram {
public:
  RandomProgram(uint32_t seed, bool synchronous_too) : random_(seed) {
    tb().reset();
    tb("YDEV").reset();
    auto streams = [](tb_options& o) { o.streams = 1; };
    auto no_peers = [](tb_options& o) {
      o.streams = 1;
      o.copy_hook = o.host_map = 0;
    };
    for (auto& set : {std::function<void(tb_options&)>(streams), std::function<void(tb_options&)>(streams),
                      std::function<void(tb_options&)>(no_peers)})
      places_.push_back({&tb().open(set), &tb(), nullptr, nullptr});
    places_.push_back({&tb("YDEV").open(streams), &tb("YDEV"), nullptr, nullptr});
    if (synchronous_too) places_.push_back({&tb().open(), &tb(), nullptr, nullptr});
    for (Place& p : places_) p.add = add_kernel(*p.device, 3), p.accumulate = accumulate_kernel(*p.device);
    for (size_t i = 0; i < 3 * places_.size(); i++) values_.push_back(fresh(i % places_.size()));
  }

  void run(int steps) {
    for (int i = 0; i < steps; i++) {
      Value& v = values_[pick(values_.size())];
      switch (pick(10)) {
      case 0:
      case 1:
      case 2: { // v = w + 3 on v's device
        Value& w = neighbour(v);
        launch(places_[v.place].add, {v.buffer, w.buffer});
        std::vector<int32_t> from = w.expected;
        for (size_t k = 0; k < kCount; k++) v.expected[k] = from[k] + 3;
        break;
      }
      case 3: { // v += w[0] + i
        Value& w = neighbour(v);
        if (&w == &v) break;
        launch(places_[v.place].accumulate, {v.buffer, w.buffer}, {i});
        for (int32_t& x : v.expected) x += w.expected[0] + i;
        break;
      }
      case 4:
      case 5: { // across
        Value& w = values_[pick(values_.size())];
        copy_buffer(*v.buffer, *w.buffer);
        v.expected = w.expected;
        break;
      }
      case 6: { // a part
        Value& w = values_[pick(values_.size())];
        size_t n = 1 + pick(kCount / 2), to = pick(kCount - n), from = pick(kCount - n);
        copy_buffer(*view_buffer(v.buffer, DType::I32, n, 4 * to),
                    *view_buffer(w.buffer, DType::I32, n, 4 * from));
        std::vector<int32_t> source = w.expected;
        for (size_t k = 0; k < n; k++) v.expected[to + k] = source[from + k];
        break;
      }
      case 7: // freed while it is used; its block serves the next
        renew(v, i);
        break;
      case 8:
        fill_buffer(*v.buffer, uint64_t(i), 4);
        v.expected.assign(kCount, i);
        break;
      default:
        if (pick(3) == 0) check(v);
      }
      Place& p = places_[pick(places_.size())];
      if (pick(20) == 0) p.backend->delay(*p.device, pick(300), pick(300));
    }
    for (Value& v : values_) check(v);
  }

  void finish() {
    values_.clear();
    for (Place& p : places_) {
      p.device->synchronize();
      p.device->trim();
      BOOST_TEST(p.device->memory().live_bytes == 0u);
      BOOST_TEST(p.backend->counters(*p.device).live_buffers == 0u);
    }
  }

private:
  size_t pick(size_t below) { return random_() % below; }
  Value fresh(size_t place) {
    std::vector<int32_t> values(kCount);
    for (int32_t& x : values) x = int32_t(pick(1000));
    return {int_buffer(*places_[place].device, values), values, place};
  }
  // Frees the buffer, mostly just after another device began to read it, and takes another one at once.
  void renew(Value& v, int32_t value) {
    Value& reader = values_[pick(values_.size())];
    if (&reader != &v) {
      copy_buffer(*reader.buffer, *v.buffer);
      reader.expected = v.expected;
    }
    v.buffer.reset();
    BufferOptions options;
    options.cached = pick(3) != 0; // else the backend really frees, and fills with rubbish
    v.buffer = make_buffer(*places_[v.place].device, DType::I32, kCount, options);
    fill_buffer(*v.buffer, uint64_t(value), 4);
    v.expected.assign(kCount, value);
  }
  Value& neighbour(const Value& v) {
    while (true) {
      Value& w = values_[pick(values_.size())];
      if (w.place == v.place) return w;
    }
  }
  void check(Value& v) { BOOST_TEST(ints(*v.buffer) == v.expected, boost::test_tools::per_element()); }

  std::mt19937 random_;
  std::vector<Place> places_;
  std::vector<Value> values_;
};

} // namespace

BOOST_DATA_TEST_CASE(random_programs_match_one_operation_after_the_other, boost::unit_test::data::xrange(12),
                     seed) {
  RandomProgram program(uint32_t(seed), seed % 3 == 0);
  program.run(1000);
  program.finish();
}
