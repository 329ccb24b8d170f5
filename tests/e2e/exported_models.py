#!/usr/bin/env python3
"""Models in the form that exporters write: exported_models.py TOLK_RUN DEVICE WORK [NAME...]

Scikit-learn's converter (tree ensembles of 100 trees, pipelines around linear models, support vector machines) and quantised
transformer blocks (QDQ, MatMulNBits, dynamic quantisation, com.microsoft's fused forms). What Python computes in float64 is the
expected value of the first kind. With ONNXRUNTIME_NODE, the folder of the npm package onnxruntime-node, every model must also
equal ONNX Runtime; the transformers are compared with nothing else. The tolerance is 1e-3, relative."""

import math
import os
import random
import shutil
import struct
import sys

from fuzz_nodes import Tool
from fuzz_ort import Referee
from onnx_writer import Tensor, graph, model, node, scalar, tensor, vector, write_case

ML, MS = "ai.onnx.ml", "com.microsoft"
ROWS, FEATURES, TREES = 7, 6, 100


def f32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def draw(rng, *shape, scale=1.0):
    return [f32(rng.gauss(0, scale)) for _ in range(math.prod(shape))]


def rows_of(values, width):
    return [values[i:i + width] for i in range(0, len(values), width)]


def softmax(scores):
    powers = [math.exp(s - max(scores)) for s in scores]
    return [p / sum(powers) for p in powers]


def logistic(value):
    return 1 / (1 + math.exp(-value))


def case(nodes, inputs, outputs, initializers=None, expected=None, zipped=False, opset=17):
    """`inputs`: name -> Tensor; `expected`: a Tensor by output, or None: ask ONNX Runtime, which has no maps (`zipped`)."""
    main = graph(nodes, {n: (t.dtype, t.shape) for n, t in inputs.items()}, {o: None for o in outputs}, initializers)
    return model(main, opset), inputs, expected, zipped


# ---- scikit-learn

class Forest:
    """Trees of depth 4 in the attributes of TreeEnsemble*; leaves hold `width` weights."""

    MODES = {"BRANCH_LEQ": lambda a, b: a <= b, "BRANCH_LT": lambda a, b: a < b, "BRANCH_GT": lambda a, b: a > b}

    def __init__(self, rng, width, mode="BRANCH_LEQ", positive=False):
        self.nodes, self.leaves = [], []  # (tree, node, feature, value, mode, true, false); (tree, node, [weight])
        self.mode = self.MODES[mode]
        for tree in range(TREES):
            self.grow(rng, tree, 0, 4, width, mode, positive)
        self.children = {(t, n): (feature, value, yes, no) for t, n, feature, value, m, yes, no in self.nodes if m != "LEAF"}
        self.weights = {(t, n): w for t, n, w in self.leaves}

    def grow(self, rng, tree, number, depth, width, mode, positive):
        if depth == 0 or (depth < 3 and rng.random() < 0.2):
            weights = draw(rng, width, scale=0.1)
            self.nodes.append((tree, number, 0, 0.0, "LEAF", 0, 0))
            self.leaves.append((tree, number, [abs(w) for w in weights] if positive else weights))
            return
        yes, no = 2 * number + 1, 2 * number + 2
        self.nodes.append((tree, number, rng.randrange(FEATURES), f32(rng.gauss(0, 0.7)), mode, yes, no))
        self.grow(rng, tree, yes, depth - 1, width, mode, positive)
        self.grow(rng, tree, no, depth - 1, width, mode, positive)

    def attributes(self, kind):
        names = ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")
        out = {f"nodes_{n}": list(column) for n, column in zip(names, zip(*self.nodes))}
        flat = [(t, n, i, w) for t, n, weights in self.leaves for i, w in enumerate(weights)]
        for n, column in zip(("treeids", "nodeids", "ids", "weights"), zip(*flat)):
            out[f"{kind}_{n}"] = list(column)
        return out

    def reached(self, row):
        for tree in range(TREES):
            number = 0
            while (tree, number) in self.children:
                feature, value, yes, no = self.children[tree, number]
                number = yes if self.mode(row[feature], value) else no
            yield self.weights[tree, number]


def features(rng):
    values = draw(rng, ROWS, FEATURES)
    return values, {"x": tensor("f32", [ROWS, FEATURES], values)}


def regressor(aggregate, fold, **attributes):
    rng = random.Random(aggregate)
    forest, base = Forest(rng, 2, **attributes), draw(rng, 2)
    values, inputs = features(rng)
    want = [fold(column) + b for row in rows_of(values, FEATURES) for column, b in zip(zip(*forest.reached(row)), base)]
    made = node("TreeEnsembleRegressor", ["x"], ["y"], domain=ML, n_targets=2, aggregate_function=aggregate, base_values=base,
                **forest.attributes("target"))
    return case([made], inputs, ["y"], expected=[tensor("f32", [ROWS, 2], want)])


def model_gradient_boosting_regressor():
    return regressor("SUM", sum)


def model_random_forest_regressor():
    return regressor("AVERAGE", lambda c: sum(c) / TREES, mode="BRANCH_LT")


def model_trees_of_least_values():
    return regressor("MIN", min)


def model_trees_of_largest_values():
    return regressor("MAX", max, mode="BRANCH_GT")


def classifier(name, width, transform, of_scores, labels, positive=False):
    rng = random.Random(name)
    forest = Forest(rng, width, positive=positive)
    values, inputs = features(rng)
    scores = [of_scores([sum(c) for c in zip(*forest.reached(row))]) for row in rows_of(values, FEATURES)]
    kind = {"classlabels_strings": labels} if isinstance(labels[0], str) else {"classlabels_int64s": labels}
    made = node("TreeEnsembleClassifier", ["x"], ["label", "p"], domain=ML, post_transform=transform,
                **forest.attributes("class"), **kind)
    best = [labels[max(range(len(s)), key=lambda i, s=s: s[i])] for s in scores]
    return case([made], inputs, ["label", "p"],
                expected=[vector("string" if isinstance(labels[0], str) else "i64", best),
                          tensor("f32", [ROWS, len(labels)], [v for s in scores for v in s])])


def model_random_forest_classifier():
    return classifier("forest", 3, "NONE", lambda s: s, [4, 5, 9], positive=True)


def model_gradient_boosting_classifier_of_text_labels():
    return classifier("boosting", 4, "SOFTMAX", softmax, ["ant", "bee", "cat", "dog"])


def model_gradient_boosting_of_two_classes():
    # One weight a leaf: the score of the second class.
    return classifier("two", 1, "LOGISTIC", lambda s: [1 - logistic(s[0]), logistic(s[0])], [0, 1])


def logistic_regression(labels, zipped):
    """StandardScaler and LogisticRegression: the scores' logistic function, divided by their sum, as one map a row."""
    rng, classes = random.Random(f"pipeline {labels} {zipped}"), len(labels)
    values, inputs = features(rng)
    offset, scale = draw(rng, FEATURES), [abs(v) + 0.5 for v in draw(rng, FEATURES)]
    weights, intercepts = draw(rng, classes, FEATURES), draw(rng, classes)
    want = []
    for row in rows_of(values, FEATURES):
        row = [(v - o) * f32(s) for v, o, s in zip(row, offset, scale)]
        scores = [logistic(sum(a * b for a, b in zip(row, w)) + c) for w, c in zip(rows_of(weights, FEATURES), intercepts)]
        want.append([s / sum(scores) for s in scores])
    text = isinstance(labels[0], str)
    nodes = [node("Scaler", ["x"], ["scaled"], domain=ML, offset=offset, scale=scale),
             node("LinearClassifier", ["scaled"], ["label", "raw"], domain=ML, coefficients=weights, intercepts=intercepts,
                  multi_class=1, post_transform="LOGISTIC",
                  **{"classlabels_strings" if text else "classlabels_ints": labels}),
             node("Normalizer", ["raw"], ["p"], domain=ML, norm="L1")]
    if zipped:
        nodes.append(node("ZipMap", ["p"], ["maps"], domain=ML,
                          **{"classlabels_strings" if text else "classlabels_int64s": labels}))
    best = [labels[max(range(classes), key=lambda i, s=s: s[i])] for s in want]
    return case(nodes, inputs, ["label", "p"] + (["maps"] if zipped else []),
                expected=[vector("string" if text else "i64", best),
                          tensor("f32", [ROWS, classes], [v for s in want for v in s])], zipped=zipped)


def model_scaler_and_logistic_regression():
    return logistic_regression([1, 2, 3], False)


def model_scaler_and_logistic_regression_with_maps():
    return logistic_regression(["no", "perhaps", "yes"], True)


def model_imputer_and_linear_regression():
    rng = random.Random("imputer")
    values, inputs = features(rng)
    for at in (1, 8, 20):
        inputs["x"].values[at] = math.nan
    means, weights = draw(rng, FEATURES), draw(rng, FEATURES)
    filled = [means[i % FEATURES] if math.isnan(v) else v for i, v in enumerate(inputs["x"].values)]
    want = [sum(a * b for a, b in zip(row, weights)) + 0.25 for row in rows_of(filled, FEATURES)]
    nodes = [node("Imputer", ["x"], ["filled"], domain=ML, imputed_value_floats=means, replaced_value_float=math.nan),
             node("LinearRegressor", ["filled"], ["y"], domain=ML, coefficients=weights, intercepts=[0.25], targets=1)]
    return case(nodes, inputs, ["y"], expected=[tensor("f32", [ROWS, 1], want)])


def model_one_hot_columns_and_logistic_regression():
    """A column of text and one of numbers, joined, as ColumnTransformer writes it; two classes."""
    rng, words = random.Random("columns"), ["red", "green", "blue"]
    texts, numbers = [rng.choice(words) for _ in range(ROWS)], draw(rng, ROWS)
    weights = draw(rng, 4)
    want = []
    for word, number in zip(texts, numbers):
        score = sum(w for w, known in zip(weights, words) if known == word) + weights[3] * number - 0.1
        want += [1 - logistic(score), logistic(score)]
    nodes = [node("OneHotEncoder", ["color"], ["hot"], domain=ML, cats_strings=words, zeros=1),
             node("Reshape", ["hot", "shape"], ["flat"]), node("Concat", ["flat", "size"], ["all"], axis=1),
             node("LinearClassifier", ["all"], ["label", "p"], domain=ML, coefficients=[-w for w in weights] + weights,
                  intercepts=[0.1, -0.1], classlabels_ints=[0, 1], multi_class=0, post_transform="LOGISTIC")]
    return case(nodes, {"color": tensor("string", [ROWS, 1], texts), "size": tensor("f32", [ROWS, 1], numbers)}, ["label", "p"],
                {"shape": vector("i64", [ROWS, 3])},
                expected=[vector("i64", [int(b > a) for a, b in rows_of(want, 2)]), tensor("f32", [ROWS, 2], want)])


def kernel_of(name, gamma, coef0, degree):
    dot = lambda a, b: sum(x * y for x, y in zip(a, b))
    return {"LINEAR": dot, "POLY": lambda a, b: (gamma * dot(a, b) + coef0) ** degree,
            "RBF": lambda a, b: math.exp(-gamma * sum((x - y) ** 2 for x, y in zip(a, b))),
            "SIGMOID": lambda a, b: math.tanh(gamma * dot(a, b) + coef0)}[name]


def support_vector_regression(name):
    rng, vectors, parameters = random.Random(name), 9, [0.25, 0.5, 3.0]
    values, inputs = features(rng)
    support, weights = draw(rng, vectors, FEATURES), draw(rng, vectors)
    kernel = kernel_of(name, *parameters)
    want = [sum(w * kernel(row, s) for w, s in zip(weights, rows_of(support, FEATURES))) + 0.5
            for row in rows_of(values, FEATURES)]
    made = node("SVMRegressor", ["x"], ["y"], domain=ML, kernel_type=name, kernel_params=parameters, support_vectors=support,
                coefficients=weights, n_supports=vectors, rho=[0.5])
    return case([made], inputs, ["y"], expected=[tensor("f32", [ROWS, 1], want)])


def model_support_vector_regression_linear():
    return support_vector_regression("LINEAR")


def model_support_vector_regression_polynomial():
    return support_vector_regression("POLY")


def model_support_vector_regression_radial():
    return support_vector_regression("RBF")


def model_support_vector_regression_sigmoid():
    return support_vector_regression("SIGMOID")


def support_vector_classes(probabilities, counts):
    rng, classes = random.Random(f"svc {probabilities}"), len(counts)
    _, inputs = features(rng)
    pairs = classes * (classes - 1) // 2
    given = {"prob_a": [-1.5, -1.2, -0.8][:pairs], "prob_b": [0.1, -0.05, 0.2][:pairs]} if probabilities else {}
    made = node("SVMClassifier", ["x"], ["label", "p"], domain=ML, kernel_type="RBF", kernel_params=[0.3, 0.0, 3.0],
                support_vectors=draw(rng, sum(counts), FEATURES), coefficients=draw(rng, classes - 1, sum(counts)),
                vectors_per_class=counts, rho=[0.1, -0.2, 0.05][:pairs],
                classlabels_ints=list(range(classes)), post_transform="NONE", **given)
    return case([made], inputs, ["label", "p"])


def model_support_vector_classes_with_probabilities():
    return support_vector_classes(True, [4, 3, 5])


def model_two_support_vector_classes_with_probabilities():
    return support_vector_classes(True, [4, 5])


def model_two_support_vector_classes_with_scores():
    return support_vector_classes(False, [5, 4])


def model_support_vector_classes_with_scores():
    return support_vector_classes(False, [4, 3, 5])


# ---- quantised transformer blocks: two heads, a hidden size of 32, six tokens

HIDDEN, HEADS, TOKENS = 32, 2, 6


class Block:
    """One attention block and its feed-forward part; `linear` says how a weight is applied."""

    def __init__(self, name, linear):
        self.rng, self.linear = random.Random(name), linear
        self.nodes, self.initializers, self.count = [], {}, 0

    def constant(self, value):
        self.count += 1
        self.initializers[f"c{self.count}"] = value
        return f"c{self.count}"

    def add(self, op, *inputs, outputs=1, domain="", **attributes):
        self.count += 1
        names = [f"v{self.count}_{k}" for k in range(outputs)]
        self.nodes.append(node(op, inputs, names, domain=domain, **attributes))
        return names[0] if outputs == 1 else names

    def weight(self, rows, columns):
        return draw(self.rng, rows, columns, scale=rows ** -0.5)

    def normalized(self, x):
        return self.add("LayerNormalization", x, self.constant(vector("f32", [1.0] * HIDDEN)),
                        self.constant(vector("f32", [0.0] * HIDDEN)), axis=-1)

    def heads(self, x):
        split = self.add("Reshape", x, self.constant(vector("i64", [1, TOKENS, HEADS, HIDDEN // HEADS])))
        return self.add("Transpose", split, perm=[0, 2, 1, 3])

    def attention(self, x):
        q, k, v = (self.heads(self.linear(self, x, HIDDEN, HIDDEN)) for _ in range(3))
        scores = self.add("MatMul", q, self.add("Transpose", k, perm=[0, 1, 3, 2]))
        scores = self.add("Mul", scores, self.constant(scalar("f32", (HIDDEN // HEADS) ** -0.5)))
        mixed = self.add("Transpose", self.add("MatMul", self.add("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
        return self.add("Reshape", mixed, self.constant(vector("i64", [1, TOKENS, HIDDEN])))

    def made(self, attention=None):
        x = "x"
        mixed = (attention or Block.attention)(self, self.normalized(x))
        x = self.add("Add", x, self.linear(self, mixed, HIDDEN, HIDDEN))
        wide = self.linear(self, self.normalized(x), HIDDEN, 2 * HIDDEN)
        erf = self.add("Erf", self.add("Mul", wide, self.constant(scalar("f32", 2 ** -0.5))))
        half = self.add("Mul", wide, self.constant(scalar("f32", 0.5)))
        wide = self.add("Mul", half, self.add("Add", erf, self.constant(scalar("f32", 1))))
        last = self.add("Add", x, self.linear(self, wide, 2 * HIDDEN, HIDDEN))
        inputs = {"x": tensor("f32", [1, TOKENS, HIDDEN], draw(self.rng, TOKENS, HIDDEN))}
        return case(self.nodes, inputs, [last], self.initializers, opset=21)


def rounded_weight(block, rows, columns, axis=None):
    """int8 values and scales of a weight: one for all, or one for each column (axis 1). 7 bits, which exporters call a reduced
    range: two products of u8 and i8 then fit the 16 bits in which ONNX Runtime adds them on processors without VNNI."""
    w = block.weight(rows, columns)
    if axis is None:
        scales = [f32(max(map(abs, w)) / 63)] * columns
    else:
        scales = [f32(max(abs(w[r * columns + c]) for r in range(rows)) / 63) for c in range(columns)]
    return [max(-63, min(63, round(v / scales[i % columns]))) for i, v in enumerate(w)], scales


def qdq(block, x, rows, columns):
    scale, zero = block.constant(scalar("f32", 0.05)), block.constant(scalar("u8", 128))
    x = block.add("DequantizeLinear", block.add("QuantizeLinear", x, scale, zero), scale, zero)
    values, scales = rounded_weight(block, rows, columns, axis=1)
    w = block.add("DequantizeLinear", block.constant(tensor("i8", [rows, columns], values)),
                  block.constant(vector("f32", scales)), block.constant(vector("i8", [0] * columns)), axis=1)
    return block.add("Add", block.add("MatMul", x, w), block.constant(vector("f32", draw(block.rng, columns, scale=0.1))))


def dynamic(block, x, rows, columns):
    quantized, scale, zero = block.add("DynamicQuantizeLinear", x, outputs=3)
    values, scales = rounded_weight(block, rows, columns)
    product = block.add("MatMulInteger", quantized, block.constant(tensor("i8", [rows, columns], values)), zero,
                        block.constant(scalar("i8", 0)))
    both = block.add("Mul", scale, block.constant(scalar("f32", scales[0])))
    return block.add("Mul", block.add("Cast", product, to=1), both)


def fused_dynamic(block, x, rows, columns):
    values, scales = rounded_weight(block, rows, columns, axis=1)
    return block.add("DynamicQuantizeMatMul", x, block.constant(tensor("i8", [rows, columns], values)),
                     block.constant(vector("f32", scales)), block.constant(vector("i8", [0] * columns)),
                     block.constant(vector("f32", draw(block.rng, columns, scale=0.1))), domain=MS)


def n_bits(bits, size, with_zeros):
    def linear(block, x, rows, columns):
        blocks, rng = rows // size, block.rng
        packed = [rng.randrange(256) for _ in range(columns * blocks * size * bits // 8)]
        inputs = [x, block.constant(tensor("u8", [columns, blocks, size * bits // 8], packed)),
                  block.constant(vector("f32", [abs(v) for v in draw(rng, columns * blocks, scale=0.5 / 2 ** bits)]))]
        if with_zeros:
            bytes_each = (blocks * bits + 7) // 8
            inputs.append(block.constant(vector("u8", [rng.randrange(256) for _ in range(columns * bytes_each)])))
        return block.add("MatMulNBits", *inputs, domain=MS, K=rows, N=columns, bits=bits, block_size=size)
    return linear


def fused_attention(block, x):
    quantized, scale, zero = block.add("DynamicQuantizeLinear", x, outputs=3)
    values, scales = rounded_weight(block, HIDDEN, 3 * HIDDEN)
    return block.add("QAttention", quantized, block.constant(tensor("i8", [HIDDEN, 3 * HIDDEN], values)),
                     block.constant(vector("f32", draw(block.rng, 3 * HIDDEN, scale=0.1))), scale,
                     block.constant(scalar("f32", scales[0])), "", zero, block.constant(scalar("i8", 0)), domain=MS,
                     num_heads=HEADS)


def model_transformer_qdq():
    return Block("qdq", qdq).made()


def model_transformer_dynamic():
    return Block("dynamic", dynamic).made()


def model_transformer_dynamic_fused():
    return Block("fused", fused_dynamic).made()


def model_transformer_quantised_attention():
    return Block("attention", dynamic).made(fused_attention)


def model_transformer_4_bits():
    return Block("4 bits", n_bits(4, 16, False)).made()


def model_transformer_4_bits_with_zero_points():
    return Block("4 bits, zeros", n_bits(4, 32, True)).made()


def model_transformer_8_bits():
    return Block("8 bits", n_bits(8, 32, False)).made()


# ---- running them

def differences(want, other):
    """Where two lists of Tensors differ by more than 1e-3; empty: nowhere."""
    for number, (a, b) in enumerate(zip(want, other)):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"output {number}: {a.dtype} {a.shape}, {b.dtype} {b.shape}"
        for i, (x, y) in enumerate(zip(a.values, b.values)):
            same = x == y if a.dtype in ("string", "i64") else abs(x - y) <= 1e-3 * abs(x) + 1e-5
            if not same:
                return f"output {number}, element {i}: {x}, {y}"
    return ""


def wrong_with(name, folder, runner, referee):
    """(what is wrong or empty, whether anything was compared)."""
    content, inputs, expected, zipped = globals()[name]()
    write_case(folder, content, list(inputs.values()), expected or [scalar("f32", 0)])
    found = referee.ask(os.path.join(folder, "model.onnx"), inputs) if referee and not zipped else None
    if referee and not zipped and found is None:
        return "ONNX Runtime refuses it", True
    if found and expected and (difference := differences(expected, found)):
        return f"float64 and ONNX Runtime differ: {difference}", True
    if not found and not expected:
        return "", False
    write_case(folder, content, list(inputs.values()), expected or found)
    report = runner.ask(folder)
    if isinstance(report, str):
        return report, True
    return ("" if report["status"] == "pass" else report["reason"]), True


def main():
    tool, device, work, wanted = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
    shutil.rmtree(work, ignore_errors=True)
    package = os.environ.get("ONNXRUNTIME_NODE", "")
    referee = Referee(os.path.abspath(package)) if os.path.exists(package) else None
    runner, passed, failed, left = Tool(tool, device), 0, 0, []
    for name in [n for n in globals() if n.startswith("model_") and (not wanted or n in wanted)]:
        wrong, compared = wrong_with(name, os.path.join(work, name), runner, referee)
        passed, failed = passed + (compared and not wrong), failed + bool(wrong)
        left += [] if compared else [name]
        if wrong:
            print(f"{name}: {wrong}")
    runner.close()
    if referee:
        referee.close()
    print(f"{passed} passed, {failed} failed" + (f"; not compared without ONNX Runtime: {', '.join(left)}" if left else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
