"""Where tolk and ONNX Runtime may differ, for fuzz_ort.py: the table of docs/onnx-differences.md, whose headings are its keys.

A row decides from a fuzz_nodes.Case, and from what the comparison or tolk said, whether it explains the difference. It is as
narrow as its heading says: what it does not describe counts as a failure."""

import math
import os
import re

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "onnx-differences.md")
LIMITS = {"bool": (0, 1), "i8": (-(2**7), 2**7 - 1), "u8": (0, 2**8 - 1), "i16": (-(2**15), 2**15 - 1), "u16": (0, 2**16 - 1),
          "i32": (-(2**31), 2**31 - 1), "u32": (0, 2**32 - 1), "i64": (-(2**63), 2**63 - 1), "u64": (0, 2**64 - 1)}
CODES = {1: "f32", 2: "u8", 3: "i8", 4: "u16", 5: "i16", 6: "i32", 7: "i64", 10: "f16", 11: "f64", 12: "u32", 13: "u64"}
DIFFERENCES, REFUSALS = {}, {}


def row(table, heading, *operators):
    """A row of the table for these operators, or without any for all."""
    def keep(function):
        table.setdefault(heading, []).append((operators, function))
        return function
    return keep


def floats(case):
    return [v for t in case.values if t is not None and t.dtype in ("f32", "f64", "f16") for v in t.values]


def input_of(case, i):
    return case.values[i] if i < len(case.values) else None


@row(DIFFERENCES, "Casts of floats that the integer type does not hold", "Cast", "CastLike")
def _(case, _):
    x = case.values[0]
    to = CODES.get(case.attributes.get("to")) if case.name == "Cast" else case.values[1].dtype
    if to not in LIMITS or x.dtype not in ("f32", "f64", "f16"):
        return False
    low, high = LIMITS[to]
    return any(not math.isfinite(v) or not low <= math.trunc(v) <= high for v in x.values)


@row(DIFFERENCES, "Powers that the integer type does not hold", "Pow")
def _(case, _):
    base, exponent = case.values[:2]
    if base.dtype not in LIMITS:
        return False
    low, high = LIMITS[base.dtype]

    def fits(b, e):
        try:
            power = b ** e
        except (ZeroDivisionError, OverflowError):
            return False
        # Beyond 2^53 the double in between rounds.
        return isinstance(power, (int, float)) and math.isfinite(power) and max(low, -(2**53)) <= power <= min(high, 2**53)
    return any(not fits(b, e) for b in set(base.values) for e in set(exponent.values))


@row(DIFFERENCES, "Products that the integer type does not hold", "ReduceProd")
def _(case, _):
    x = case.values[0]
    return x.dtype in LIMITS and math.prod(max(1, abs(v)) for v in x.values) > LIMITS[x.dtype][1]


@row(DIFFERENCES, "A negative scale of the result", "QLinearSoftmax")
def _(case, _):
    return case.values[3].values[0] < 0


@row(DIFFERENCES, "NaN among what is compared", "MaxPool", "GlobalMaxPool", "ArgMax", "ArgMin", "Hardmax", "Unique", "TopK",
     "ScatterElements", "ScatterND", "ReduceMax", "ReduceMin")
def _(case, _):
    scatter = case.name.startswith("Scatter") and case.attributes.get("reduction") not in ("max", "min")
    return not scatter and any(math.isnan(v) for v in floats(case))


@row(DIFFERENCES, "NaN in a sum of exponentials", "ReduceLogSumExp", "Softmax", "LogSoftmax")
def _(case, _):
    return any(math.isnan(v) for v in floats(case))


@row(DIFFERENCES, "Reductions of no elements", *(f"Reduce{n}" for n in ("Sum", "SumSquare", "L1", "L2", "LogSum", "LogSumExp",
                                                                        "Prod")))
def _(case, _):
    return 0 in case.values[0].shape


@row(DIFFERENCES, "Infinities in a folded normalisation", "InstanceNormalization", "BatchNormalization")
def _(case, _):
    return not all(map(math.isfinite, floats(case)))


@row(DIFFERENCES, "A window of infinities", "MaxPool", "GlobalMaxPool")
def _(case, _):
    return any(math.isinf(v) for v in floats(case))


@row(DIFFERENCES, "NaN and infinity beside a window", "LRN")
def _(case, _):
    return not all(map(math.isfinite, floats(case)))


@row(DIFFERENCES, "SAME_UPPER and SAME_LOWER with dilations", "LpPool", "AveragePool", "MaxPool", "Conv")
def _(case, _):
    return case.attributes.get("auto_pad", "")[:4] == "SAME" and any(v > 1 for v in case.attributes.get("dilations", []))


@row(DIFFERENCES, "SAME_UPPER and SAME_LOWER with strides longer than the kernel", "ConvTranspose")
def _(case, _):
    spans = [(k - 1) * d + 1 for k, d in zip(case.values[1].shape[2:], case.attributes.get("dilations", [1] * 9))]
    return case.attributes.get("auto_pad", "")[:4] == "SAME" and any(s > k for s,
                                                                     k in zip(case.attributes.get("strides", []), spans))


@row(DIFFERENCES, "SAME_UPPER and SAME_LOWER with strides longer than the kernel", "LpPool", "AveragePool", "MaxPool")
def _(case, _):
    spans = [(k - 1) * d + 1 for k, d in zip(case.attributes["kernel_shape"], case.attributes.get("dilations", [1] * 9))]
    return case.attributes.get("auto_pad", "")[:4] == "SAME" and any(s > k for s, k in zip(case.attributes.get("strides", []),
                                                                                           spans))


@row(DIFFERENCES, "Windows longer than the input", "MaxPool", "AveragePool", "LpPool")
def _(case, wrong):
    spans = [(k - 1) * d + 1 for k, d in zip(case.attributes["kernel_shape"], case.attributes.get("dilations", [1] * 9))]
    return "the shape is" in wrong and any(s > n for s, n in zip(spans, case.values[0].shape[2:]))


@row(DIFFERENCES, "Causal attention to more keys than queries", "MultiHeadAttention")
def _(case, _):
    if not case.attributes.get("unidirectional", 0):
        return False
    q, k, past = case.values[0].shape, input_of(case, 1), input_of(case, 6)
    if k is None:
        return False
    keys = k.shape[2] if len(k.shape) == 4 else k.shape[1]
    return q[1] + (past.shape[2] if past else 0) < keys


@row(DIFFERENCES, "Booleans as text", "Cast", "CastLike")
def _(case, wrong):
    return case.values[0].dtype == "bool" and ('"False"' in wrong or '"True"' in wrong)


@row(DIFFERENCES, "Values of f16 that do not vary", "MeanVarianceNormalization")
def _(case, wrong):
    return case.values[0].dtype == "f16" and re.search(r": 0, expected -?nan", wrong) is not None


@row(DIFFERENCES, "NaN and infinity in a quantised range", "DynamicQuantizeLinear")
def _(case, _):
    return not all(map(math.isfinite, case.values[0].values))


@row(DIFFERENCES, "Windows of one element", "HannWindow", "HammingWindow", "BlackmanWindow")
def _(case, _):
    return case.values[0].values == [1] and not case.attributes.get("periodic", 1)


@row(DIFFERENCES, "post_transform of one target", "LinearRegressor")
def _(case, _):
    return case.attributes.get("targets", 1) == 1 and case.attributes.get("post_transform", "NONE") != "NONE"


@row(DIFFERENCES, "Splitting the empty string", "StringSplit")
def _(case, _):
    return bool(case.attributes.get("delimiter")) and "" in case.values[0].values


@row(DIFFERENCES, "The largest end with a negative step", "Slice")
def _(case, _):
    ends, steps = input_of(case, 2), input_of(case, 4)
    return bool(ends and steps) and any(e in (2**31 - 1, 2**63 - 1) and s < 0 for e, s in zip(ends.values, steps.values))


@row(DIFFERENCES, "Two classes that leaves vote for both", "TreeEnsembleClassifier")
def _(case, _):
    labels = case.attributes.get("classlabels_strings", case.attributes.get("classlabels_int64s", []))
    return len(labels) == 2 and len(set(case.attributes.get("class_ids", []))) == 2


@row(DIFFERENCES, "Base values of targets that no leaf votes for", "TreeEnsembleRegressor", "TreeEnsembleClassifier")
def _(case, _):
    classes = case.name == "TreeEnsembleClassifier"
    nodes, ids = case.attributes.get("class_nodeids" if classes else "target_nodeids",
                                     []), set(case.attributes.get("class_ids" if classes else "target_ids", []))
    return bool(nodes) and len(nodes) % max(1,
                                            len(ids)) != 0 or any(i not in ids for i in range(case.attributes.get("n_targets",
                                                                                                                  1)))


@row(DIFFERENCES, "Infinity and a bound that is left out", "Clip")
def _(case, _):
    return any(math.isinf(v) for v in case.values[0].values) and None in [input_of(case, 1), input_of(case, 2)]


@row(DIFFERENCES, "Rows of strings", "Gather")
def _(case, _):
    x = case.values[0]
    axis = case.attributes.get("axis", 0) % max(1, len(x.shape))
    return x.dtype == "string" and math.prod(x.shape[axis + 1:]) > 1


@row(DIFFERENCES, "Rows of strings", "Unique")
def _(case, _):
    return case.values[0].dtype == "string" and "axis" in case.attributes


@row(DIFFERENCES, "The position of an extreme among no elements", "ArgMax", "ArgMin")
def _(case, wrong):
    return 0 in case.values[0].shape and not case.attributes.get("keepdims", 1) and "the shape is" in wrong


@row(DIFFERENCES, "Saturating products of u8 and i8", "MatMulInteger", "QLinearMatMul", "DynamicQuantizeMatMul",
     "MatMulIntegerToFloat", "QGemm",
     "ConvInteger", "QLinearConv", "QAttention")
def _(case, _):
    return any(t is not None and t.dtype == "i8" and any(abs(v) > 64 for v in t.values) for t in case.values)


@row(DIFFERENCES, "Features of more than two axes", "Imputer", "Scaler", "ArrayFeatureExtractor")
def _(case, _):
    return len(case.values[0].shape) > 2


@row(DIFFERENCES, "A category that is listed twice", "OneHotEncoder", "LabelEncoder")
def _(case, _):
    lists = [v for k, v in case.attributes.items() if k.startswith(("cats_", "keys_"))]
    return any(len(set(v)) < len(v) for v in lists)


# Rounding of f32 sums whose terms cancel: how far apart two right results may lie, beyond the relative tolerance.
NORMALISED = ("InstanceNormalization", "GroupNormalization", "LayerNormalization", "MeanVarianceNormalization",
              "BatchNormalization")
ROUNDED = {"DFT": 1e-5, **dict.fromkeys(("Gelu", "FastGelu", "QuickGelu", "BiasGelu", "AffineGrid", *NORMALISED), 1e-6)}


@row(DIFFERENCES, "Results next to zero", *ROUNDED)
def _(case, wrong):
    found = re.search(r"difference ([\d.e+-]+)", wrong)
    return bool(found) and float(found.group(1)) <= ROUNDED[case.name]


@row(DIFFERENCES, "Ties of a rounded mean", "QLinearAveragePool", "QLinearGlobalAveragePool")
def _(case, wrong):
    found = re.search(r"difference ([\d.e+-]+)", wrong)
    return bool(found) and float(found.group(1)) <= 1


@row(REFUSALS, "Refused: more than one value of Constant", "Constant")
def _(case, reason):
    return "more than one attribute" in reason


@row(REFUSALS, "Refused: inputs whose shape contradicts the node", "NonMaxSuppression", "QLinearSoftmax", "QLinearSigmoid",
     "QLinearLeakyRelu", "QLinearAdd", "QLinearMul", "QLinearConcat", "QLinearConv", "QLinearMatMul", "QLinearWhere",
     "QLinearAveragePool", "QLinearGlobalAveragePool", "QGemm", "QAttention", "Clip",
     "GroupNormalization", "ArrayFeatureExtractor", "DynamicQuantizeMatMul", "MatMulIntegerToFloat")
def _(case, reason):
    return re.search(r"must have one element|do(es)? not broadcast|must be one number|must have \d+ elements", reason) is not None


@row(REFUSALS, "Refused: features of more than two axes", "FeatureVectorizer", "TreeEnsembleClassifier", "TreeEnsembleRegressor",
     "LinearClassifier", "LinearRegressor", "SVMClassifier", "SVMRegressor", "Normalizer")
def _(case, reason):
    return any(t is not None and len(t.shape) > 2 for t in case.values)


@row(REFUSALS, "Refused: coefficients that do not fit the features", "LinearRegressor", "LinearClassifier", "SVMRegressor",
     "SVMClassifier", "Scaler", "Imputer")
def _(case, reason):
    return re.search(r"do not fit|has \d+ entries for|there are \d+ coefficients", reason) is not None


@row(REFUSALS, "Refused: attributes of another kind")
def _(case, reason):
    return re.search(r"the attribute \w+ must be (a|an) [a-z ]+, it is", reason) is not None


@row(REFUSALS, "Refused: attributes out of range")
def _(case, reason):
    return re.search(r"the attribute \w+ must be \S+ (or more|to \S+), it has", reason) is not None


@row(REFUSALS, "Refused: a condition that is longer than the axis", "Compress")
def _(case, reason):
    return re.search(r"the condition has \d+ elements, the axis \d+", reason) is not None


@row(REFUSALS, "Refused: slopes that do not broadcast to the input", "PRelu")
def _(case, reason):
    return re.search(r"input 1 .* does not broadcast to the input", reason) is not None


@row(REFUSALS, "Refused: categories of another type", "OneHotEncoder")
def _(case, reason):
    return "the categories' type does not fit the input's" in reason


@row(REFUSALS, "Refused: inputs that contradict inputdimensions", "FeatureVectorizer")
def _(case, reason):
    return "does not fit inputdimensions" in reason


@row(REFUSALS, "Refused: a reduction that does not exist", "SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss",
     "ScatterElements", "ScatterND")
def _(case, reason):
    return re.search(r"the attribute reduction must be one of", reason) is not None


@row(REFUSALS, "Refused: axes that the input does not have", "MeanVarianceNormalization", "ReduceSum", "ReduceMax", "ReduceMin",
     "ReduceProd", "ReduceMean",
     "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare")
def _(case, reason):
    return re.search(r"there are \d+ axes|names before already", reason) is not None


def lookup(table, case, text):
    for heading, rows in table.items():
        if any((case.name in operators or not operators) and explains(case, text) for operators, explains in rows):
            return heading
    return ""


def difference_of(case, wrong):
    """The heading that explains why results differ, or ""."""
    return lookup(DIFFERENCES, case, wrong)


def refusal_of(case, reason):
    """The heading that explains why tolk refuses what ONNX Runtime takes, or ""."""
    return lookup(REFUSALS, case, reason)


def check_page():
    """Table and page have the same headings."""
    with open(PAGE, encoding="utf-8") as file:
        written = set(re.findall(r"^### (.+)$", file.read(), re.M))
    listed = set(DIFFERENCES) | set(REFUSALS)
    if written != listed:
        raise SystemExit(f"docs/onnx-differences.md and ort_differences.py do not agree: {sorted(written ^ listed)}")
