"""Recipes of node_drawing.py: control flow, images and signals, losses, strings, ai.onnx.ml."""

import math

from node_drawing import recipe
from onnx_writer import Tensor, graph, node

# ---- control

@recipe("If")
def _(d):
    shape = d.shape()
    branch = lambda: graph([node("Constant", [], ["q"], value=d.tensor("f32", shape))], {}, {"q": ("f32", shape)})
    return [d.tensor("bool", d.one_of([], [1]))], {"then_branch": branch(), "else_branch": branch()}


@recipe("Loop")
def _(d):
    shape = d.shape(0, 3)
    body = graph([node("Add", ["v", "k"], ["w"]), node("Less", ["i", "m"], ["more"]), node("Mul", ["w", "w"], ["out"])],
                 {"i": ("i64", []), "go": ("bool", []), "v": ("f32", shape)},
                 {"more": ("bool", []), "w": ("f32", shape), "out": ("f32", shape)},
                 {"k": Tensor("f32", [], [0.5]), "m": Tensor("i64", [], [d.rng.randint(0, 4)])})
    trips = d.fixed("i64", [], [d.rng.randint(0, 5)]) if d.chance(0.7) else None
    return [trips, d.fixed("bool", [], [d.chance(0.9)]) if d.chance() else None,
            d.tensor("f32", shape, special=0)], {"body": body}, 2


@recipe("Scan")
def _(d):
    shape, t = d.shape(0, 2), d.rng.randint(1, 4)
    body = graph([node("Add", ["v", "x"], ["w"]), node("Mul", ["w", "x"], ["out"])], {"v": ("f32", shape), "x": ("f32", shape)},
                 {"w": ("f32", shape), "out": ("f32", shape)})
    attributes = d.some(scan_input_directions=[d.rng.randint(0, 1)], scan_output_directions=[d.rng.randint(0, 1)])
    return [d.tensor("f32", shape, special=0), d.tensor("f32", [t, *shape], special=0)], {"body": body, "num_scan_inputs": 1,
                                                                                          **attributes}, 2


# ---- images and signals

@recipe("Resize")
def _(d):
    x, mode = d.tensor(d.one_of("f32", "f32", "u8"), [1, 1, *d.shape(2, 2, (2, 3, 4, 5))], special=0), d.one_of("nearest",
                                                                                                                "linear", "cubic")
    attributes = {"mode": mode, **d.some(coordinate_transformation_mode=d.one_of("half_pixel", "asymmetric", "align_corners",
                                                                                 "pytorch_half_pixel"))}
    if mode == "nearest":
        attributes.update(d.some(nearest_mode=d.one_of("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")))
    elif mode == "cubic":
        x.dtype, x.values = "f32", [float(v) for v in x.values]
        attributes.update(d.some(cubic_coeff_a=-0.5, exclude_outside=d.rng.randint(0, 1)))
    factors = [d.one_of(0.5, 1.0, 1.5, 2.0, 0.75) for _ in range(2)]
    if d.chance():
        return [x, None, d.fixed("f32", [4], [1.0, 1.0, *factors])], attributes
    return [x, None, None, d.ints([1, 1, *[d.rng.randint(1, 8) for _ in range(2)]])], attributes


@recipe("GridSample", since=16)
def _(d):
    modes = ("linear", "nearest", "cubic") if d.opset >= 20 else ("bilinear", "nearest", "bicubic")
    return ([d.tensor("f32", [1, d.rng.randint(1, 2), *d.shape(2, 2)], special=0),
             d.tensor("f32", [1, *d.shape(2, 2), 2], -1.25, 1.25, 0)],
            d.some(mode=d.one_of(*modes), padding_mode=d.one_of("zeros", "border", "reflection"),
                   align_corners=d.rng.randint(0, 1)))


@recipe("AffineGrid", since=20)
def _(d):
    dims, n = d.one_of(2, 3), d.rng.randint(1, 2)
    return ([d.tensor("f32", [n, dims, dims + 1], special=0), d.ints([n, 1, *[d.rng.randint(1, 4) for _ in range(dims)]])],
            d.some(align_corners=d.rng.randint(0, 1)))


@recipe("RoiAlign", since=16)
def _(d):
    n, rois = d.rng.randint(1, 2), d.rng.randint(1, 3)
    corners = []
    for _ in range(rois):
        x, y = d.rng.randint(0, 16) / 8, d.rng.randint(0, 16) / 8
        corners += [x, y, x + d.rng.randint(8, 24) / 8, y + d.rng.randint(8, 24) / 8]
    return ([d.tensor("f32", [n, d.rng.randint(1, 2), 5, 5], special=0), Tensor("f32", [rois, 4], corners),
             d.tensor("i64", [rois], 0, n - 1)],
            d.some(mode=d.one_of("avg", "max"), output_height=d.rng.randint(1, 3), output_width=d.rng.randint(1, 3),
                   sampling_ratio=d.rng.randint(0, 2),
                   coordinate_transformation_mode=d.one_of("half_pixel", "output_half_pixel")))


@recipe("DeformConv", since=19)
def _(d):
    n, c, m, k = d.rng.randint(1, 2), d.rng.randint(1, 2), d.rng.randint(1, 2), d.rng.randint(1, 2)
    h, w = d.rng.randint(k, 4), d.rng.randint(k, 4)
    out = [h - k + 1, w - k + 1]
    values = [d.tensor("f32", s, special=0) for s in ([n, c, h, w], [m, c, k, k], [n, 2 * k * k, *out])]
    values += [d.tensor("f32", [m])] if d.chance() else [None]
    return values + ([d.tensor("f32", [n, k * k, *out], 0, 1)] if d.chance() else []), {"kernel_shape": [k, k]}


@recipe("Col2Im", since=18)
def _(d):
    h, w, kh, kw = d.rng.randint(2, 5), d.rng.randint(2, 5), d.rng.randint(1, 2), d.rng.randint(1, 2)
    columns = (h - kh + 1) * (w - kw + 1)
    return [d.tensor("f32", [1, d.rng.randint(1, 2) * kh * kw, columns]), d.ints([h, w]), d.ints([kh, kw])], {}


@recipe("DFT", since=17)
def _(d):
    n, inverse = d.rng.randint(1, 8), d.rng.randint(0, 1)
    x = d.tensor(d.one_of("f32", "f64"), [d.rng.randint(1, 2), n, 2 if inverse else d.one_of(1, 2)], special=0)
    onesided = d.rng.randint(0, 1) if not inverse and x.shape[-1] == 1 else 0
    attributes = d.some(inverse=inverse, onesided=onesided)
    if d.opset < 20:
        return [x], {**attributes, "axis": 1}
    return [x, None, d.scalar("i64", d.one_of(1, -2))], attributes


@recipe("HannWindow", "HammingWindow", "BlackmanWindow", since=17)
def _(d):
    return [d.scalar("i64", d.rng.randint(2, 10))], d.some(periodic=d.rng.randint(0, 1), output_datatype=d.one_of(1, 11))


@recipe("Det")
def _(d):
    n = d.rng.randint(1, 4)
    return [d.tensor("f32", [*d.shape(0, 2), n, n], special=0)], {}


# ---- losses, dropout in inference

@recipe("Dropout")
def _(d):
    return [d.tensor(d.one_of("f32", "f64"), d.shape())], {}, d.rng.randint(1, 2)


@recipe("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def _(d):
    n, c, rest = d.rng.randint(1, 3), d.rng.randint(1, 4), d.shape(0, 2)
    weight = [d.tensor("f32", [c], 0.5, 2, 0)] if d.chance() else []
    return ([d.tensor("f32", [n, c, *rest], special=0), d.tensor(d.one_of("i64", "i32"), [n, *rest], 0, c - 1), *weight],
            d.some(reduction=d.one_of("none", "sum", "mean"), ignore_index=0 if d.chance(0.3) else None))


# ---- strings

@recipe("StringConcat", since=20)
def _(d):
    return [d.tensor("string", s) for s in d.broadcast(2)[0]], {}


@recipe("StringSplit", since=20)
def _(d):
    return [d.tensor("string", d.shape(1))], d.some(delimiter=d.one_of(" ", "."), maxsplit=d.rng.randint(0, 2)), 2


@recipe("StringNormalizer")
def _(d):
    return ([d.tensor("string", d.one_of([3], [1, 4], [5]))],
            {"locale": "C", **d.some(case_change_action=d.one_of("LOWER", "UPPER", "NONE"), is_case_sensitive=d.rng.randint(0, 1),
                                     stopwords=["a", "X Y"])})


@recipe("RegexFullMatch", since=20)
def _(d):
    return [d.tensor("string", d.shape(1))], {"pattern": d.one_of("a", "[ab]", ".*", "-?[0-9.]+")}


@recipe("TfIdfVectorizer")
def _(d):
    x = d.tensor(d.one_of("i64", "i32"), d.one_of([6], [2, 5]), 0, 4)
    return [x], {"mode": d.one_of("TF", "IDF", "TFIDF"), "min_gram_length": 1, "max_gram_length": 2,
                 "max_skip_count": d.rng.randint(0, 2),
                 "ngram_counts": [0, 3], "ngram_indexes": [0, 1, 2, 3, 4], "pool_int64s": [1, 2, 3, 1, 2, 3, 4],
                 **d.some(weights=[0.5, 1.0, 2.0, 1.5, 0.25])}


# ---- ai.onnx.ml

ML = "ai.onnx.ml"
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


@recipe("ArrayFeatureExtractor", domain=ML)
def _(d):
    x = d.tensor(d.one_of("f32", "f64", "i64", "i32", "string"), d.shape(1))
    return [x, d.tensor("i64", [d.rng.randint(1, 3)], 0, x.shape[-1] - 1)], {}


@recipe("Binarizer", "Scaler", "Normalizer", domain=ML)
def _(d):
    x = d.tensor(d.one_of("f32", "f32", "f64", "i64", "i32") if d.name != "Binarizer" else "f32", d.shape(2, 2), special=0)
    numbers = lambda: [d.one_of(0.5, 1.0, 2.0, -1.0) for _ in range(d.one_of(1, x.shape[-1]))]
    if d.name == "Scaler":
        several = d.one_of(1, x.shape[-1])
        return [x], {"offset": [0.5] * several, "scale": [2.0] * several}
    return [x], d.some(threshold=0.5) if d.name == "Binarizer" else {"norm": d.one_of("MAX", "L1", "L2")}


@recipe("Imputer", domain=ML)
def _(d):
    x = d.tensor(d.one_of("f32", "i64"), d.shape(2, 2), -2, 2, 0.2)
    count = d.one_of(1, x.shape[-1])
    if x.dtype == "f32":
        return [x], {"imputed_value_floats": [0.5] * count, "replaced_value_float": d.one_of(math.nan, 1.0)}
    return [x], {"imputed_value_int64s": [7] * count, "replaced_value_int64": 1}


@recipe("LabelEncoder", domain=ML)
def _(d):
    keys, values = d.one_of("int64s", "strings", "floats"), d.one_of("int64s", "strings", "floats")
    tables = {"int64s": [0, 1, 2], "strings": ["a", "b", "x y"], "floats": [0.0, 1.0, 2.5]}
    if keys == values == "floats" or (keys, values) in (("int64s", "int64s"), ("strings", "strings")):
        pass
    dtype = {"int64s": "i64", "strings": "string", "floats": "f32"}[keys]
    return [d.tensor(dtype, d.shape(1), -1, 3)], {f"keys_{keys}": tables[keys], f"values_{values}": tables[values]}


@recipe("OneHotEncoder", domain=ML)
def _(d):
    text = d.chance()
    x = d.tensor("string" if text else d.one_of("i64", "f32", "f64", "i32"), d.shape(1, 2), -1, 3, 0)
    if not text:
        x.values = [type(v)(int(v)) for v in x.values]
    return [x], {"cats_strings": ["a", "b", "x y"]} if text else {"cats_int64s": [0, 1, 2]}


@recipe("FeatureVectorizer", domain=ML)
def _(d):
    n, sizes = d.rng.randint(1, 3), [d.rng.randint(1, 3) for _ in range(d.rng.randint(1, 3))]
    dtype = d.one_of("f32", "f64", "i64", "i32")
    return [d.tensor(dtype, [n, s], special=0) for s in sizes], {"inputdimensions": sizes}


def coefficients(d, count):
    return [d.rng.randint(-8, 8) / 8 for _ in range(count)]


@recipe("LinearRegressor", "LinearClassifier", domain=ML)
def _(d):
    n, f, rows = d.rng.randint(1, 3), d.rng.randint(1, 4), d.rng.randint(1 if d.name[6] == "R" else 2, 3)
    x = d.tensor("f32" if d.name[6] == "R" else d.one_of("f32", "f32", "f64", "i64", "i32"), [n, f], special=0)
    attributes = {"coefficients": coefficients(d, rows * f), "intercepts": coefficients(d, rows),
                  **d.some(post_transform=d.one_of(*TRANSFORMS[:4]))}
    if d.name == "LinearRegressor":
        return [x], {**attributes, "targets": rows}
    labels = {"classlabels_strings": ["a", "b", "c"][:rows]} if d.chance() else {"classlabels_ints": [3, 5, 7][:rows]}
    return [x], {**attributes, **labels, "multi_class": 1}, 2


@recipe("SVMRegressor", "SVMClassifier", domain=ML)
def _(d):
    n, f, classes = d.rng.randint(1, 3), d.rng.randint(1, 3), d.rng.randint(2, 3)
    kind = d.one_of("LINEAR", "POLY", "RBF", "SIGMOID")
    attributes = {"kernel_type": kind, "kernel_params": [0.5, 1.0, 2.0]}
    x = d.tensor("f32", [n, f], -2, 2, 0)
    if d.name == "SVMRegressor":
        supports = d.rng.randint(1, 3)
        return [x], {**attributes, "n_supports": supports, "support_vectors": coefficients(d, supports * f),
                     "coefficients": coefficients(d, supports),
                     "rho": [0.25], **d.some(one_class=d.rng.randint(0, 1))}
    sizes = [d.rng.randint(1, 2) for _ in range(classes)]
    pairs = classes * (classes - 1) // 2
    labels = {"classlabels_strings": ["a", "b", "c"][:classes]} if d.chance() else {"classlabels_ints": [3, 5, 7][:classes]}
    chances = {"prob_a": [-1.0] * pairs, "prob_b": [0.25] * pairs} if d.chance() else {}
    return [x], {**attributes, **labels, **chances, "vectors_per_class": sizes,
                 "support_vectors": coefficients(d, sum(sizes) * f),
                 "coefficients": coefficients(d, (classes - 1) * sum(sizes)), "rho": coefficients(d, pairs)}, 2


@recipe("TreeEnsembleRegressor", "TreeEnsembleClassifier", domain=ML)
def _(d):
    n, f, trees, targets = d.rng.randint(1, 4), d.rng.randint(1, 3), d.rng.randint(1, 3), d.rng.randint(1, 3)
    classes = d.name == "TreeEnsembleClassifier"
    targets = max(targets, 2) if classes else targets
    columns = {k: [] for k in ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids")}
    leaf_of = {k: [] for k in ("treeids", "nodeids", "ids", "weights")}

    def put(tree, number, depth):
        """Nodes of a subtree in the order of their numbers; gives the next number."""
        leaf = depth == 0 or d.chance(0.3)
        at = len(columns["nodeids"])
        for key, value in (("treeids", tree), ("nodeids", number), ("featureids", 0 if leaf else d.rng.randrange(f)),
                           ("truenodeids", 0), ("falsenodeids", 0),
                           ("modes", "LEAF" if leaf else d.one_of("BRANCH_LEQ", "BRANCH_LEQ", "BRANCH_LT", "BRANCH_GT",
                                                                  "BRANCH_GTE", "BRANCH_EQ", "BRANCH_NEQ")),
                           ("values", 0.0 if leaf else d.rng.randint(-16, 16) / 8)):
            columns[key].append(value)
        if leaf:
            for target in voted:
                for key, value in (("treeids", tree), ("nodeids", number), ("ids", target),
                                   ("weights", d.rng.randint(-8, 8) / 8)):
                    leaf_of[key].append(value)
            return number + 1
        second = put(tree, number + 1, depth - 1)
        columns["truenodeids"][at], columns["falsenodeids"][at] = number + 1, second
        return put(tree, second, depth - 1)

    # Every leaf votes for every class, but of two classes for one alone: the form that exporters write.
    voted = [1] if classes and targets == 2 else range(targets)
    for tree in range(trees):
        put(tree, 0, 2)
    prefix = "class" if classes else "target"
    attributes = {**{f"nodes_{k}": v for k, v in columns.items()}, **{f"{prefix}_{k}": v for k, v in leaf_of.items()},
                  **d.some(base_values=coefficients(d, targets),
                           post_transform=d.one_of(*TRANSFORMS[:4] if targets > 1 else TRANSFORMS[:1]))}
    x = d.tensor(d.one_of("f32", "f32", "f64", "i64", "i32") if classes else "f32", [n, f], special=0)
    if classes:
        labels = {"classlabels_strings": ["a", "b", "c"][:targets]} if d.chance() else {"classlabels_int64s": [3, 5, 7][:targets]}
        return [x], {**attributes, **labels}, 2
    return [x], {**attributes, "n_targets": targets, **d.some(aggregate_function=d.one_of("SUM", "AVERAGE", "MIN", "MAX"))}
