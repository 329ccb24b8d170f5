"""The cases of node_cases.py for ai.onnx.ml, and for strings that operators move."""

import math

from onnx_writer import f32, graph, model, node, one, scalar, tensor, vector

ML = "ai.onnx.ml"


def right_scaler():
    return one("Scaler", [tensor("i64", [1, 2], [3, 5])], [tensor("f32", [1, 2], [1, 8])], domain=ML,
               offset=[1.0, 1.0], scale=[0.5, 2.0])


def right_normalizer_keeps_rows_of_zeros():
    return one("Normalizer", [tensor("f32", [2, 2], [3, -4, 0, 0])], [tensor("f32", [2, 2], [f32(0.6), f32(-0.8), 0, 0])],
               domain=ML, norm="L2")


def right_imputer_replaces_nan():
    return one("Imputer", [tensor("f32", [1, 2], [float("nan"), 5])], [tensor("f32", [1, 2], [7, 5])], domain=ML,
               imputed_value_floats=[7.0, 8.0], replaced_value_float=float("nan"))


def right_one_hot_encoder_of_texts():
    return one("OneHotEncoder", [tensor("string", [2, 1], ["b", "z"])], [tensor("f32", [2, 1, 2], [0, 1, 0, 0])], domain=ML,
               cats_strings=["a", "b"])


def right_feature_vectorizer():
    return one("FeatureVectorizer", [tensor("f32", [1, 2], [1, 2]), tensor("i64", [1, 1], [3])],
               [tensor("f32", [1, 3], [1, 2, 3])], domain=ML, inputdimensions=[2, 1])


def right_feature_vectorizer_takes_one_axis_for_a_row():
    return one("FeatureVectorizer", [vector("f32", [1, 2]), vector("f32", [3])], [tensor("f32", [1, 3], [1, 2, 3])], domain=ML,
               inputdimensions=[2, 1])


def right_linear_regressor_of_two_targets():
    return one("LinearRegressor", [tensor("f32", [1, 2], [2, 3])], [tensor("f32", [1, 2], [2 + 0.5, 3 - 1])], domain=ML,
               coefficients=[1.0, 0.0, 0.0, 1.0], intercepts=[0.5, -1.0], targets=2)


def right_linear_classifier_gives_labels_and_softmax():
    e = [math.exp(v) for v in (1, 2, 3)]
    return one("LinearClassifier", [tensor("f32", [1, 1], [1])],
               [vector("string", ["c"]), tensor("f32", [1, 3], [v / sum(e) for v in e])], domain=ML,
               coefficients=[1.0, 2.0, 3.0], intercepts=[0.0] * 3, classlabels_strings=["a", "b", "c"],
               post_transform="SOFTMAX")


def right_linear_classifier_of_one_row_has_two_scores():
    s = 1 / (1 + math.exp(-2))
    return one("LinearClassifier", [tensor("f32", [2, 1], [2, -2])],
               [vector("i64", [7, 5]), tensor("f32", [2, 2], [1 - s, s, s, 1 - s])], domain=ML,
               coefficients=[1.0], intercepts=[0.0], classlabels_ints=[5, 7], post_transform="LOGISTIC")


def right_svm_regressor_with_a_radial_kernel():
    return one("SVMRegressor", [tensor("f32", [1, 2], [1, 0])],
               [tensor("f32", [1, 1], [2 * math.exp(-0.5 * 1) - math.exp(-0.5 * 5) + 0.25])], domain=ML,
               kernel_type="RBF", kernel_params=[0.5, 0.0, 3.0], n_supports=2, support_vectors=[0.0, 0.0, 0.0, 2.0],
               coefficients=[2.0, -1.0], rho=[0.25])


def right_svm_classifier_votes_over_pairs():
    # Linear kernel on one feature; class vectors -1, 0, 1; x = 1 is nearest to the third in both of its pairs.
    return one("SVMClassifier", [tensor("f32", [1, 1], [1])], [vector("i64", [2]), tensor("f32", [1, 3], [-1.0, -2.0, -1.0])],
               domain=ML, kernel_type="LINEAR", kernel_params=[0.0, 0.0, 3.0], vectors_per_class=[1, 1, 1],
               support_vectors=[-1.0, 0.0, 1.0], coefficients=[1.0, 1.0, -1.0, 1.0, -1.0, -1.0], rho=[0.0, 0.0, 0.0],
               classlabels_ints=[0, 1, 2])


TREE = dict(nodes_treeids=[0] * 5, nodes_nodeids=[0, 1, 2, 3, 4], nodes_featureids=[0, 0, 1, 0, 0],
            nodes_modes=["BRANCH_LEQ", "LEAF", "BRANCH_LT", "LEAF", "LEAF"], nodes_values=[0.5, 0.0, 1.5, 0.0, 0.0],
            nodes_truenodeids=[1, 0, 3, 0, 0], nodes_falsenodeids=[2, 0, 4, 0, 0])
ROWS = tensor("f32", [3, 2], [0.5, 9, 1, 1, 1, 1.5])  # end in the nodes 1, 3, 4


def right_tree_regressor_adds_base_values():
    return one("TreeEnsembleRegressor", [ROWS], [tensor("f32", [3, 1], [11, 12, 13])], domain=ML, n_targets=1, base_values=[10.0],
               target_treeids=[0] * 3, target_nodeids=[1, 3, 4], target_ids=[0] * 3, target_weights=[1.0, 2.0, 3.0], **TREE)


def right_tree_classifier_with_leaves_of_several_classes():
    return one("TreeEnsembleClassifier", [ROWS],
               [vector("string", ["a", "b", "a"]), tensor("f32", [3, 2], [0.75, 0.25, 0, 1, 1, 0])], domain=ML,
               class_treeids=[0] * 4, class_nodeids=[1, 1, 3, 4], class_ids=[0, 1, 1, 0], class_weights=[0.75, 0.25, 1.0, 1.0],
               classlabels_strings=["a", "b"], **TREE)


def right_tree_classifier_of_one_score_is_logistic_of_both_signs():
    s = lambda v: 1 / (1 + math.exp(-v))
    return one("TreeEnsembleClassifier", [ROWS],
               [vector("i64", [5, 7, 5]), tensor("f32", [3, 2], [s(1), s(-1), s(-2), s(2), s(3), s(-3)])], domain=ML,
               class_treeids=[0] * 3, class_nodeids=[1, 3, 4], class_ids=[0] * 3, class_weights=[-1.0, 2.0, -3.0],
               classlabels_int64s=[5, 7], post_transform="LOGISTIC", **TREE)


def right_tree_regressor_of_minima_gives_0_to_a_target_without_votes():
    return one("TreeEnsembleRegressor", [ROWS], [tensor("f32", [3, 2], [1, 0, 2, 0, 3, 0])], domain=ML, n_targets=2,
               aggregate_function="MIN", target_treeids=[0] * 3, target_nodeids=[1, 3, 4], target_ids=[0] * 3,
               target_weights=[1.0, 2.0, 3.0], **TREE)


def two_class_svm(scores, label, **attributes):
    # Linear kernel, vectors 1 and 1 with coefficients 1 and 0.5: 1.5 x - 1, which is 0.5 in favour of the first class.
    return one("SVMClassifier", [tensor("f32", [1, 1], [1])], [vector("i64", [label]), tensor("f32", [1, 2], scores)], domain=ML,
               kernel_type="LINEAR", kernel_params=[0.0, 0.0, 3.0], vectors_per_class=[1, 1], support_vectors=[1.0, 1.0],
               coefficients=[1.0, 0.5], rho=[-1.0], classlabels_ints=[5, 7], **attributes)


def right_svm_classifier_of_two_classes_puts_the_score_last():
    return two_class_svm([-0.5, 0.5], 5)


def right_svm_classifier_takes_labels_by_votes_beside_probabilities():
    # The pair's sigmoid is 1 / (1 + exp(-2 * 0.5 + 2)) = 0.27 for the class that the vote goes to. Coupling starts at 1/2 and
    # gives the pair's own probabilities when it ends.
    p = 1 / (1 + math.exp(1))
    return two_class_svm(libsvm_coupled(p), 5, prob_a=[-2.0], prob_b=[2.0])


def libsvm_coupled(p):
    """multiclass_probability of libsvm's svm.cpp for two classes, in doubles."""
    r, q, x = [[0, p], [1 - p, 0]], [[0, 0], [0, 0]], [0.5, 0.5]
    for t in range(2):
        q[t][t], q[t][1 - t] = r[1 - t][t] ** 2, -r[1 - t][t] * r[t][1 - t]
    for _ in range(100):
        qx = [sum(q[t][j] * x[j] for j in range(2)) for t in range(2)]
        xqx = sum(x[t] * qx[t] for t in range(2))
        if max(abs(v - xqx) for v in qx) < 0.005 / 2:
            break
        for t in range(2):
            step = (xqx - qx[t]) / q[t][t]
            x[t] += step
            xqx = (xqx + step * (step * q[t][t] + 2 * qx[t])) / (1 + step) / (1 + step)
            for j in range(2):
                qx[j] = (qx[j] + step * q[t][j]) / (1 + step)
                x[j] /= 1 + step
    return x


# ---- strings that operators move

def words(*values):
    return tensor("string", [len(values)], values)


def right_gather_of_strings():
    return one("Gather", [words("x", "y", "z"), vector("i64", [2, -3])], [words("z", "x")])


def right_gather_of_strings_by_indices_that_are_data():
    # Strings are known while importing, their places are not.
    main = graph([node("Add", ["i", "i"], ["j"]), node("Gather", ["t", "j"], ["o"])], {"i": ("i64", [2])}, {"o": None},
                 {"t": words("x", "y", "z")})
    return model(main), [vector("i64", [1, 0])], [words("z", "x")]


def right_gather_elements_and_nd_of_strings():
    main = graph([node("GatherElements", ["t", "i"], ["a"], axis=1), node("GatherND", ["t", "n"], ["b"])], {},
                 {"a": None, "b": None},
                 {"t": tensor("string", [2, 2], ["a", "b", "c", "d"]), "i": tensor("i64", [2, 1], [1, 0]),
                  "n": tensor("i64", [1, 2], [1, 1])})
    return model(main), [], [tensor("string", [2, 1], ["b", "c"]), words("d")]


def right_where_of_strings_broadcasts():
    return one("Where", [tensor("bool", [2, 1], [True, False]), words("a", "b"), words("c")],
               [tensor("string", [2, 2], ["a", "b", "c", "c"])])


def right_concat_and_split_of_strings():
    main = graph([node("Concat", ["x", "y"], ["c"], axis=0), node("Split", ["c"], ["l", "r"], axis=0, num_outputs=2)],
                 {"x": ("string", [1]), "y": ("string", [3])}, {"l": None, "r": None})
    return model(main), [words("b"), words("a", "", "b")], [words("b", "a"), words("", "b")]


def right_movements_of_strings():
    text = tensor("string", [1, 3], ["p", "q", "r"])
    main = graph([node("Transpose", ["t"], ["a"]), node("Squeeze", ["a"], ["b"]), node("Unsqueeze", ["b", "zero"], ["c"]),
                  node("Expand", ["c", "twice"], ["d"]), node("Reshape", ["d", "flat"], ["e"]), node("Slice",
                                                                                                     ["e", "from", "to"], ["f"]),
                  node("Tile", ["f", "two"], ["o"])],
                 {"t": ("string", [1, 3])}, {"o": None},
                 {"zero": vector("i64", [0]), "twice": vector("i64", [2, 3]), "flat": vector("i64", [-1]),
                  "from": vector("i64", [2]),
                  "to": vector("i64", [4]), "two": vector("i64", [2])})
    return model(main), [text], [words("r", "p", "r", "p")]


def right_compress_of_strings():
    return one("Compress", [words("a", "b", "c"), tensor("bool", [3], [True, False, True])], [words("a", "c")])


def right_pad_fills_strings_with_empty_ones():
    return one("Pad", [words("b"), vector("i64", [1, 2])], [words("", "b", "", "")], initializers=[1])


def right_scatter_of_strings():
    return one("ScatterElements", [words("a", "b"), vector("i64", [1]), words("z")], [words("a", "z")])


def right_unique_sorts_strings():
    return one("Unique", [words("b", "", "a", "b")], [words("", "a", "b"), vector("i64", [1, 2, 0]), vector("i64", [2, 0, 1, 2]),
                                                      vector("i64", [1, 1, 2])])


def right_array_feature_extractor_of_strings():
    return one("ArrayFeatureExtractor", [tensor("string", [2, 2], ["a", "b", "c", "d"]), vector("i64", [1])],
               [tensor("string", [2, 1], ["b", "d"])], domain=ML)


def refused_scatter_of_strings_with_a_reduction():
    return one("ScatterElements", [words("a", "b"), vector("i64", [1]), words("z")], [words("a", "z")], reduction="add")[:2] + (
        "strings have no reduction",)


# ---- refused

def refused_one_hot_encoder_of_an_unknown_category():
    return *one("OneHotEncoder", [tensor("string", [1], ["z"])], 1, domain=ML, cats_strings=["a"],
                zeros=0)[:2], "none of the categories"


def refused_trees_that_look_at_no_feature():
    return *one("TreeEnsembleRegressor", [tensor("f32", [1, 1], [0])], 1, domain=ML, target_treeids=[0], target_nodeids=[1],
                target_ids=[0], target_weights=[1.0], **TREE)[:2], "looks at feature 1"
