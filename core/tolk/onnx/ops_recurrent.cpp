// RNN, GRU and LSTM, unrolled over time.
#include <algorithm>
#include <functional>

#include "tolk/base/error.h"
#include "tolk/onnx/importer.h"
#include "tolk/onnx/ops_activation.h"

namespace tolk::onnx {
namespace {

using Values = std::vector<GraphValue>;

// The functions of `names`. activation_alpha and activation_beta are consumed, in order, by those that take one.
std::vector<Activation> activations_of(OpCall& op, const std::vector<std::string>& names) {
  std::vector<float> alphas = op.node.numbers("activation_alpha"), betas = op.node.numbers("activation_beta");
  size_t next_alpha = 0, next_beta = 0;
  std::vector<Activation> functions;
  for (const std::string& name : names) {
    const ActivationRow& row = activation_row(op, name);
    double alpha = row.alpha, beta = row.beta;
    if (row.takes_alpha && next_alpha < alphas.size()) alpha = alphas[next_alpha++];
    if (row.takes_beta && next_beta < betas.size()) beta = betas[next_beta++];
    functions.push_back(activation_of(row, alpha, beta));
  }
  return functions;
}

// What the three kinds share: directions, layout, sequence lengths, clipping, and the iteration over time.
struct Layer {
  OpCall& op;
  Tensor x, w, r, bias, lengths; // x (T, N, I); w (D, G*H, I); r (D, G*H, H); bias (D, 2*G*H)
  int64_t steps, batch, hidden, directions, gates;
  bool batch_first;
  std::vector<Activation> functions;

  Layer(OpCall& call, int64_t gate_count, const std::vector<std::string>& defaults, size_t per_direction)
      : op(call), gates(gate_count) {
    batch_first = op.node.integer("layout", 0) != 0;
    x = batch_first ? op.in(0).transpose(0, 1) : op.in(0);
    w = op.in(1), r = op.in(2);
    if (x.rank() != 3 || w.rank() != 3 || r.rank() != 3) op.fail("X, W and R must have three axes");
    steps = x.size(0).value("a recurrent layer"), batch = x.size(1).value("a recurrent layer");
    directions = w.size(0).value("a recurrent layer"), hidden = r.size(2).value("a recurrent layer");
    std::string way = op.node.text("direction", "forward");
    if ((way == "bidirectional") != (directions == 2))
      op.fail("direction " + way + " does not fit weights for " + std::to_string(directions) + " directions");
    check_shapes();
    bias = op.has(3) ? op.in(3) : Tensor::zeros({directions, 2 * gates * hidden}, x.dtype());
    if (op.has(4)) lengths = op.in(4).cast(DType::I64).reshape({batch, 1});
    std::vector<std::string> names = op.node.texts("activations");
    for (int64_t d = 0; d < directions && op.node.texts("activations").empty(); ++d)
      names.insert(names.end(), defaults.begin(), defaults.end());
    if (names.size() != per_direction * size_t(directions))
      op.fail("activations must name " + std::to_string(per_direction) + " functions a direction");
    functions = activations_of(op, names);
  }
  void check_shape(size_t input, const Tensor& given, const Shape& wanted) const {
    if (!(given.shape() == wanted))
      op.fail("input " + std::to_string(input) + " has the shape " + to_string(given.shape()) + ", " +
              to_string(wanted) + " is needed");
  }
  void check_shapes() const {
    int64_t size = op.node.integer("hidden_size", hidden);
    if (size != hidden)
      op.fail("hidden_size is " + std::to_string(size) + ", the weights are for " + std::to_string(hidden));
    if (directions < 1 || hidden < 1) op.fail("the weights are empty");
    check_shape(1, w, {directions, gates * hidden, x.size(2)});
    check_shape(2, r, {directions, gates * hidden, hidden});
    if (op.has(3)) check_shape(3, op.in(3), {directions, 2 * gates * hidden});
    if (op.has(4)) check_shape(4, op.in(4), {batch});
    Shape state = batch_first ? Shape{batch, directions, hidden} : Shape{directions, batch, hidden};
    for (size_t input : {5, 6})
      if (op.has(input)) check_shape(input, op.in(input), state);
    if (op.has(7)) check_shape(7, op.in(7), {directions, 3 * hidden});
  }
  bool reversed(int64_t d) const { return d == 1 || op.node.text("direction", "forward") == "reverse"; }
  Tensor weight(const Tensor& t, int64_t d) const { return t.narrow(0, d, 1).squeeze(0); }
  // Bias number k (0 input, 1 recurrent) of a direction: (G*H).
  Tensor bias_of(int64_t d, int64_t k) const {
    return weight(bias, d).narrow(0, k * gates * hidden, gates * hidden);
  }
  Tensor gate(const Tensor& all, int64_t g) const { return all.narrow(-1, g * hidden, hidden); }
  Tensor clipped(const Tensor& t) const {
    if (!op.node.find("clip")) return t;
    double c = op.node.number("clip", 0);
    return t.clip(like(t, -c), like(t, c));
  }
  Tensor initial(size_t input, int64_t d) const {
    if (!op.has(input)) return Tensor::zeros({batch, hidden}, x.dtype());
    Tensor h = batch_first ? op.in(input).transpose(0, 1) : op.in(input);
    return weight(h, d);
  }

  // Runs `step(x_t projected, states)` over time for every direction; states[0] is what is put out.
  using Step = std::function<std::vector<Tensor>(int64_t d, const Tensor& projected,
                                                 const std::vector<Tensor>& states)>;
  Values run(const std::vector<size_t>& state_inputs, const Step& step) {
    std::vector<Tensor> sequences;                                // (T, N, H) a direction
    std::vector<std::vector<Tensor>> finals(state_inputs.size()); // (N, H) a direction
    for (int64_t d = 0; d < directions; ++d) {
      std::vector<Tensor> states;
      for (size_t input : state_inputs) states.push_back(initial(input, d));
      // The input's share of every gate at once, for all times: one product.
      Tensor projected =
          (x.reshape({steps * batch, x.size(2)}).matmul(weight(w, d).transpose(0, 1)) + bias_of(d, 0))
              .reshape({steps, batch, gates * hidden});
      projected = projected.contiguous();
      std::vector<Tensor> outputs(static_cast<size_t>(steps));
      for (int64_t i = 0; i < steps; ++i) {
        int64_t t = reversed(d) ? steps - 1 - i : i;
        std::vector<Tensor> next = step(d, projected.narrow(0, t, 1).squeeze(0), states);
        Tensor out = next[0];
        if (lengths.defined()) {
          // Past a sequence's end its state rests and its output is 0.
          Tensor live = Tensor::constant(DType::I64, t) < lengths;
          for (size_t k = 0; k < states.size(); ++k) next[k] = live.where(next[k], states[k]);
          out = live.where(out, like(out, 0));
        }
        for (Tensor& s : next) s = s.contiguous();
        outputs[size_t(t)] = lengths.defined() ? out : next[0];
        states = std::move(next);
      }
      sequences.push_back(steps ? Tensor::stack(outputs, 0) : Tensor::zeros({0, batch, hidden}, x.dtype()));
      for (size_t k = 0; k < states.size(); ++k) finals[k].push_back(states[k]);
    }
    Tensor y = Tensor::stack(sequences, 1); // (T, D, N, H)
    Values results{batch_first ? y.permute({2, 0, 1, 3}) : y};
    for (auto& f : finals) {
      Tensor last = Tensor::stack(f, 0);
      results.emplace_back(batch_first ? last.transpose(0, 1) : last);
    }
    return results;
  }
};

Values rnn(OpCall& op) {
  Layer layer(op, 1, {"Tanh"}, 1);
  return layer.run({5}, [&](int64_t d, const Tensor& projected, const std::vector<Tensor>& s) {
    Tensor sum = projected + s[0].matmul(layer.weight(layer.r, d).transpose(0, 1)) + layer.bias_of(d, 1);
    return std::vector<Tensor>{layer.functions[size_t(d)](layer.clipped(sum))};
  });
}

Values gru(OpCall& op) {
  Layer layer(op, 3, {"Sigmoid", "Tanh"}, 2);
  bool before = op.node.integer("linear_before_reset", 0) == 0;
  return layer.run({5}, [&](int64_t d, const Tensor& projected, const std::vector<Tensor>& s) {
    const Activation &f = layer.functions[size_t(2 * d)], &g = layer.functions[size_t(2 * d + 1)];
    int64_t h = layer.hidden;
    Tensor r = layer.weight(layer.r, d).transpose(0, 1), rb = layer.bias_of(d, 1); // (H, 3H): z r h
    Tensor zr = s[0].matmul(r.narrow(1, 0, 2 * h)) + rb.narrow(0, 0, 2 * h);
    Tensor z = f(layer.clipped(layer.gate(projected, 0) + layer.gate(zr, 0)));
    Tensor reset = f(layer.clipped(layer.gate(projected, 1) + layer.gate(zr, 1)));
    Tensor rh = r.narrow(1, 2 * h, h), rbh = rb.narrow(0, 2 * h, h);
    Tensor inner = before ? (reset * s[0]).matmul(rh) + rbh : reset * (s[0].matmul(rh) + rbh);
    Tensor candidate = g(layer.clipped(layer.gate(projected, 2) + inner));
    return std::vector<Tensor>{(like(z, 1) - z) * candidate + z * s[0]};
  });
}

Values lstm(OpCall& op) {
  Layer layer(op, 4, {"Sigmoid", "Tanh", "Tanh"}, 3);
  bool couple = op.node.integer("input_forget", 0) != 0;
  return layer.run({5, 6}, [&](int64_t d, const Tensor& projected, const std::vector<Tensor>& s) {
    const Activation *f = &layer.functions[size_t(3 * d)], *g = f + 1, *h = f + 2;
    Tensor all =
        projected + s[0].matmul(layer.weight(layer.r, d).transpose(0, 1)) + layer.bias_of(d, 1); // i o f c
    Tensor peephole = op.has(7) ? layer.weight(op.in(7), d) : Tensor();
    auto peep = [&](const Tensor& gate, int64_t k, const Tensor& cell) {
      return peephole.defined() ? gate + peephole.narrow(0, k * layer.hidden, layer.hidden) * cell : gate;
    };
    Tensor i = (*f)(layer.clipped(peep(layer.gate(all, 0), 0, s[1])));
    Tensor forget = couple ? like(i, 1) - i : (*f)(layer.clipped(peep(layer.gate(all, 2), 2, s[1])));
    Tensor cell = forget * s[1] + i * (*g)(layer.clipped(layer.gate(all, 3)));
    Tensor o = (*f)(layer.clipped(peep(layer.gate(all, 1), 1, cell)));
    return std::vector<Tensor>{o * (*h)(cell), cell};
  });
}

constexpr OpRow kRows[] = {
    {"", "RNN", 1, rnn},
    {"", "GRU", 1, gru},
    {"", "LSTM", 1, lstm},
};

} // namespace

std::span<const OpRow> recurrent_ops() { return kRows; }

} // namespace tolk::onnx
