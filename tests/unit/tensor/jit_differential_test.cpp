// Random functions with state, run plainly, captured, and captured with pruning: every result and every state
// must be the same after every call. Integers, so that equal means equal.
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "device_runs.h"
#include "jit_support.h"
#include "tolk/tensor/jit.h"

using namespace tolk;
using namespace jit_test;

namespace {

using Ints = std::vector<int32_t>;
constexpr int64_t kSize = 6;

Tensor ints(const Ints& values) { return Tensor::from(values, {int64_t(values.size())}).realize(); }

// A program as data, so that every executor runs the same one.
struct Step {
  enum Kind { Compute, Store, Realize, Update, UpdatePart, Copy } kind;
  int op, a, b;   // operands: see Machine::operand
  int64_t number; // a constant, or where a part begins
};
struct Program {
  std::vector<Step> steps;
  int results;
};

Program random_program(std::mt19937& random) {
  auto pick = [&](int n) { return int(random() % uint32_t(n)); };
  Program p;
  int count = 4 + pick(9);
  for (int i = 0; i < count; ++i) {
    static constexpr Step::Kind kinds[] = {Step::Compute,    Step::Compute, Step::Compute, Step::Store,
                                           Step::Realize,    Step::Realize, Step::Update,  Step::Update,
                                           Step::UpdatePart, Step::Copy};
    p.steps.push_back({kinds[pick(10)], pick(5), pick(100), pick(100), pick(4)});
  }
  p.results = 1 + pick(3);
  return p;
}

// What the program works on besides its inputs; one for each executor.
struct Machine {
  explicit Machine(const Program& program, bool prune = false) : program(program) {
    for (int i = 0; i < 2; ++i) {
      Ints w, s;
      for (int k = 0; k < kSize; ++k) w.push_back(3 * i + k - 2), s.push_back(10 * i - k);
      weights.push_back(ints(w)), states.push_back(ints(s));
    }
    JitOptions options;
    options.prune = prune;
    jit.emplace([this](Tensor x, std::vector<Tensor> more) { return body(x, more); }, options);
  }

  std::vector<Tensor> body(const Tensor& x, const std::vector<Tensor>& more) {
    std::vector<Tensor> values{x, more[0], weights[0], weights[1]};
    auto operand = [&](int index) {
      auto n = int(values.size() + states.size());
      index %= n;
      return index < int(values.size()) ? values[size_t(index)] : states[size_t(index) - values.size()];
    };
    auto computed = [&](const Step& s) {
      Tensor a = operand(s.a), b = operand(s.b);
      switch (s.op) {
      case 0:
        return a + b;
      case 1:
        return a - b * s.number;
      case 2:
        return a.maximum(b) + s.number;
      case 3:
        return a.flip({0}) ^ b;
      default:
        return a.sum({0}, true).expand({kSize}) + b;
      }
    };
    for (const Step& s : program.steps) {
      switch (s.kind) {
      case Step::Compute:
        values.push_back(computed(s));
        break;
      case Step::Store:
        values.push_back(computed(s).contiguous());
        break;
      case Step::Realize:
        values.push_back(computed(s).realize());
        break;
      case Step::Copy:
        values.push_back(computed(s).clone());
        break;
      case Step::Update: {
        Tensor::realize(values); // what is built on the old contents, while they are there
        Tensor& state = states[size_t(s.op) % 2];
        state.assign(computed(s).contiguous());
        if (s.a % 2) state.realize(); // or whenever something needs it, at the end of the function at last
        break;
      }
      case Step::UpdatePart: {
        Tensor::realize(values);
        Tensor part = states[size_t(s.op) % 2].narrow(0, s.number, 2);
        part.assign(computed(s).realize().narrow(0, 1, 2));
        if (s.a % 2) part.realize();
        break;
      }
      }
    }
    std::vector<Tensor> out(values.end() - program.results, values.end());
    // Results that are views of inputs or weights would name the storage of the capture.
    for (Tensor& t : out) t = t + 1;
    Tensor::realize(out);
    return out;
  }

  Program program;
  std::vector<Tensor> weights, states;
  std::optional<Jit<std::vector<Tensor>(Tensor, std::vector<Tensor>)>> jit;
};

std::vector<Ints> contents(const std::vector<Tensor>& tensors) {
  std::vector<Ints> out;
  for (const Tensor& t : tensors) out.push_back(t.values<int32_t>());
  return out;
}

std::string describe(const Program& p) {
  std::string text;
  for (const Step& s : p.steps)
    text += std::to_string(s.kind) + "(" + std::to_string(s.op) + " " + std::to_string(s.a) + " " +
            std::to_string(s.b) + " " + std::to_string(s.number) + ") ";
  return text + "-> " + std::to_string(p.results);
}

void compare(uint32_t seed) {
  std::mt19937 random(seed);
  Program program = random_program(random);
  Machine plain(program), captured(program), pruned(program, true);
  std::vector<Tensor> last[3];
  bool prunes = true;
  for (int call = 0; call < 6; ++call) {
    // Now and then an output of the call before is the next input.
    bool feed_back = call > 2 && random() % 3 == 0;
    Ints x, more;
    for (int k = 0; k < kSize; ++k)
      x.push_back(int32_t(random() % 21) - 10), more.push_back(int32_t(random() % 9));
    auto input = [&](int executor) { return feed_back ? last[executor][0] : ints(x); };
    last[0] = plain.body(input(0), {ints(more)});
    last[1] = (*captured.jit)(input(1), {ints(more)});
    try {
      if (prunes) last[2] = (*pruned.jit)(input(2), {ints(more)});
    } catch (const JitError& e) {
      BOOST_REQUIRE(has(e.what(), "didn't JIT anything!")); // no kernel depends on an input
      prunes = false;
    }
    BOOST_TEST_INFO("seed " << seed << ", call " << call + 1 << (feed_back ? ", fed back: " : ": ")
                            << describe(program));
    BOOST_TEST((contents(last[1]) == contents(last[0])));
    BOOST_TEST_INFO("seed " << seed << ", call " << call + 1 << ": " << describe(program));
    BOOST_TEST((contents(captured.states) == contents(plain.states)));
    if (prunes) {
      BOOST_TEST_INFO("pruned, seed " << seed << ", call " << call + 1 << ": " << describe(program));
      BOOST_TEST((contents(last[2]) == contents(last[0])));
      BOOST_TEST_INFO("pruned, seed " << seed << ", call " << call + 1 << ": " << describe(program));
      BOOST_TEST((contents(pruned.states) == contents(plain.states)));
    }
    if (call == 4) {
      // What every replay overwrites is lost, results and states; the next call makes it again.
      captured.jit->replay()->free_intermediates();
      if (prunes) pruned.jit->replay()->free_intermediates();
      break;
    }
  }
  Ints x(kSize, 7), more(kSize, -3);
  last[0] = plain.body(ints(x), {ints(more)});
  last[1] = (*captured.jit)(ints(x), {ints(more)});
  BOOST_TEST_INFO("seed " << seed << ", after free_intermediates: " << describe(program));
  BOOST_TEST((contents(last[1]) == contents(last[0])));
  BOOST_TEST((contents(captured.states) == contents(plain.states)));
  if (prunes) {
    last[2] = (*pruned.jit)(ints(x), {ints(more)});
    BOOST_TEST_INFO("pruned, seed " << seed << ", after free_intermediates: " << describe(program));
    BOOST_TEST((contents(last[2]) == contents(last[0])));
  }
}

} // namespace

BOOST_AUTO_TEST_CASE(random_functions_give_the_same_plain_captured_and_pruned) {
  on_each_device([](const std::string& device) {
    uint32_t programs = device == "CPU" ? 40 : 25;
    for (uint32_t seed = 1; seed <= programs; ++seed) compare(seed);
  });
}

BOOST_AUTO_TEST_CASE(captures_of_several_threads_do_not_meet) {
  on_each_device([](const std::string&) {
    Config config = Config::current();
    std::vector<int> wrong(4, 0);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        ScopedConfig scope(config);
        Tensor state = ints({0, 0});
        Jit f([&](Tensor x) {
          state.assign(state + x).realize();
          return (x * (t + 2)).contiguous() + 1;
        });
        for (int i = 0; i < 20; ++i)
          wrong[size_t(t)] += f(ints({i, -i})).values<int32_t>() != Ints{i * (t + 2) + 1, -i * (t + 2) + 1};
        wrong[size_t(t)] += state.values<int32_t>() != Ints{190, -190};
      });
    for (std::thread& thread : threads) thread.join();
    BOOST_TEST((wrong == std::vector<int>(4, 0)));
  });
}
