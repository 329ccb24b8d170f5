// Losses over class scores.
#include "tolk/base/error.h"
#include "tolk/onnx/importer.h"

namespace tolk::onnx {
namespace {

using Values = std::vector<GraphValue>;

// -log p of the target class, weighted and reduced. log_p (N, C, ...), target (N, ...).
Tensor negative_log_likelihood(OpCall& op, const Tensor& log_p, const Tensor& target, const Tensor& weight) {
  Shape wanted = log_p.shape();
  if (wanted.size() >= 2) wanted.erase(wanted.begin() + 1);
  if (log_p.rank() < 2 || !(target.shape() == wanted))
    op.fail("targets " + to_string(target.shape()) + " do not fit scores " + to_string(log_p.shape()) +
            ", whose axis 1 are the classes");
  if (weight.defined() && !(weight.numel() == log_p.size(1)))
    op.fail("weights " + to_string(weight.shape()) + " must have an element for each class of " +
            to_string(log_p.shape()));
  DType wide = sum_dtype(log_p.dtype());
  Tensor t = target.cast(DType::I64), ignored;
  if (!op.node.find("ignore_index")) op.check_positions(1, log_p.size(1));
  if (op.node.find("ignore_index")) ignored = equal(t, op.node.integer("ignore_index", 0));
  Tensor safe = ignored.defined() ? ignored.where(Tensor::constant(DType::I64, 0), t) : t;
  Tensor loss = log_p.cast(wide).gather_elements(safe.unsqueeze(1), 1).squeeze(1).neg();
  Tensor w = weight.defined() ? weight.cast(wide).gather(safe, 0) : Tensor::ones(t.shape(), wide);
  if (ignored.defined()) w = ignored.where(like(w, 0), w);
  loss = loss * w;
  std::string how = op.node.text("reduction", "mean");
  if (how == "none") return loss.cast(log_p.dtype());
  if (how == "sum") return loss.sum().cast(log_p.dtype());
  if (how != "mean") op.fail("reduction \"" + how + "\" is not one of none, sum, mean");
  return (loss.sum() / w.sum()).cast(log_p.dtype());
}

Values nll_loss(OpCall& op) {
  return {negative_log_likelihood(op, op.in(0), op.in(1), op.in_or(2, Tensor()))};
}

Values softmax_cross_entropy(OpCall& op) {
  if (op.in(0).rank() < 2) op.fail("scores " + to_string(op.in(0).shape()) + " have no axis of classes");
  Tensor log_p = op.in(0).log_softmax(1);
  return {negative_log_likelihood(op, log_p, op.in(1), op.in_or(2, Tensor())), log_p};
}

constexpr OpRow kRows[] = {
    {"", "NegativeLogLikelihoodLoss", 12, nll_loss},
    {"", "SoftmaxCrossEntropyLoss", 12, softmax_cross_entropy},
};

} // namespace

std::span<const OpRow> loss_ops() { return kRows; }

} // namespace tolk::onnx
