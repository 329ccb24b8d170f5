#!/usr/bin/env python3
"""Single nodes whose right results follow from the specification or from exact arithmetic, and nodes that must be refused.

  node_cases.py TOLK_RUN DEVICE WORK [NAME...]

Each function below that begins with right_ or refused_ is a case: its name is the claim. A right one gives a model, inputs and
outputs; a refused one a model, inputs and words of the message, which must name file and node too. Prints what fails."""

import json
import math
import os
import shutil
import subprocess
import sys

import node_cases_ml
from onnx_writer import Tensor, data, f32, graph, model, node, one, scalar, tensor, vector, write_case

INT64_MAX = 2**63 - 1


def ramp(dtype, shape):
    return tensor(dtype, shape, range(math.prod(shape)))


# ---- wide intermediates: squares and sums that f16 cannot hold, of results that it can

def right_lp_pool_takes_powers_wide():
    return one("LpPool", [tensor("f16", [1, 1, 4], [300, 400, 0, 5])], [tensor("f16", [1, 1, 3], [500, 400, 5])],
               kernel_shape=[2])


def right_global_lp_pool_takes_powers_wide():
    return one("GlobalLpPool", [tensor("f16", [1, 1, 2], [300, 400])], [tensor("f16", [1, 1, 1], [500])])


def right_lp_normalization_takes_squares_wide():
    return one("LpNormalization", [tensor("f16", [2], [300, 400])], [tensor("f16", [2], [0.6, 0.8])], axis=0)


def right_lp_normalization_of_order_1_takes_sums_wide():
    return one("LpNormalization", [tensor("f16", [2], [60000, 60000])], [tensor("f16", [2], [0.5, 0.5])], axis=0, p=1)


def right_mean_variance_normalization_takes_squares_wide():
    return one("MeanVarianceNormalization", [tensor("f16", [1, 1, 1, 2], [1000, 3000])], [tensor("f16", [1, 1, 1, 2], [-1, 1])])


def right_lrn_takes_squares_wide():
    # 1000 / (0 + 1 * 1000^2)^0.5
    return one("LRN", [tensor("f16", [1, 1, 1], [1000])], [tensor("f16", [1, 1, 1], [1])], size=1, alpha=1.0, beta=0.5, bias=0.0)


def right_mean_takes_sums_wide():
    return one("Mean", [vector("f16", [60000])] * 3, [vector("f16", [60000])])


def right_sum_takes_partial_sums_wide():
    return one("Sum", [vector("f16", [60000]), vector("f16", [60000]), vector("f16", [-60000])], [vector("f16", [60000])])


def right_reduce_prod_takes_partial_products_wide():
    return one("ReduceProd", [vector("f16", [60000, 2, 0.5])], [scalar("f16", 60000)], keepdims=0)


def right_skip_layer_normalization_takes_sums_wide():
    one_, zero = vector("f16", [1, 1]), vector("f16", [0, 0])
    return one("SkipLayerNormalization", [tensor("f16", [1, 2], [60000, -60000])] * 2 + [one_, zero],
               [tensor("f16", [1, 2], [1, -1])], domain="com.microsoft")


def right_skip_simplified_layer_normalization_takes_squares_wide():
    return one("SkipSimplifiedLayerNormalization", [tensor("f16", [1, 2], [300, -300])] * 2 + [vector("f16", [1, 1])],
               [tensor("f16", [1, 2], [1, -1])], domain="com.microsoft")


# ---- decisions on the host, in the type of the data

def resized(scale, n, dtype="f32"):
    scales = tensor("f32", [1], [scale])
    return one("Resize", [ramp(dtype, [10]), None, scales], [ramp(dtype, [n])], initializers=[2],
               coordinate_transformation_mode="asymmetric", nearest_mode="floor")


def right_resize_counts_elements_in_f32():
    # f32(0.7) is below 0.7, and 10 * f32(0.7) rounds to 7.
    case, inputs, _ = resized(0.7, 7)
    return case, inputs, [tensor("f32", [7], [math.floor(f32(i / f32(0.7))) for i in range(7)])]


def right_upsample_counts_elements_in_f32():
    case = one("Upsample", [ramp("f32", [10]), vector("f32", [1.3])],
               [tensor("f32", [13], [math.floor(f32(i / f32(1.3))) for i in range(13)])], opset=9, initializers=[1])
    return case


def boxes_that_overlap_by_f32_of_0_7():
    # Two boxes of width 1 and height 1 and 0.7 on one another: the overlap is f32(0.7).
    return tensor("f32", [1, 2, 4], [0, 0, 1, 1, 0, 0, f32(0.7), 1])


def right_an_overlap_equal_to_the_threshold_is_kept():
    return one("NonMaxSuppression",
               [boxes_that_overlap_by_f32_of_0_7(), tensor("f32", [1, 1, 2], [0.9, 0.8]), vector("i64", [5]),
                vector("f32", [0.7])],
               [tensor("i64", [2, 3], [0, 0, 0, 0, 0, 1])], initializers=[2, 3])


def right_range_of_integers_wider_than_int64():
    return one("Range", [scalar("i64", -(2**62)), scalar("i64", 2**62 + 1), scalar("i64", 2**61)],
               [vector("i64", [-(2**62) + k * 2**61 for k in range(5)])], initializers=[0, 1, 2])


def right_range_downwards_across_all_of_int64():
    return one("Range", [scalar("i64", INT64_MAX), scalar("i64", -(2**63)), scalar("i64", -(2**63))],
               [vector("i64", [INT64_MAX, -1])], initializers=[0, 1, 2])


# ---- 64-bit integers

def right_pad_keeps_a_fill_above_2_to_53():
    return one("Pad", [vector("i64", [1]), vector("i64", [1, 0]), scalar("i64", 2**53 + 1)], [vector("i64", [2**53 + 1, 1])],
               initializers=[1])


def right_pad_keeps_a_fill_above_2_to_63():
    return one("Pad", [vector("u64", [1]), vector("i64", [0, 1]), scalar("u64", 2**64 - 1)], [vector("u64", [1, 2**64 - 1])],
               initializers=[1, 2])


def right_constant_of_shape_keeps_uint64():
    return one("ConstantOfShape", [vector("i64", [2])], [vector("u64", [2**64 - 1] * 2)], initializers=[0],
               value=vector("u64", [2**64 - 1]))


def right_cast_of_uint64_to_text():
    return one("Cast", [vector("u64", [2**63, 2**64 - 1])], [vector("string", [str(2**63), str(2**64 - 1)])], to=8)


def right_cast_of_text_to_uint64():
    return one("Cast", [vector("string", [str(2**63), str(2**64 - 1), "+7"])], [vector("u64", [2**63, 2**64 - 1, 7])], to=13)


def right_unique_orders_uint64_as_unsigned():
    return one("Unique", [vector("u64", [2**63 + 5, 1, 2**63 + 5])],
               [vector("u64", [1, 2**63 + 5]), vector("i64", [1, 0]), vector("i64", [1, 0, 1]), vector("i64", [1, 2])])


# ---- Slice-13: starts of negative steps are clamped to the axis

def sliced(n, start, end, step, expected):
    return one("Slice", [ramp("i32", [n])] + [vector("i64", [v]) for v in (start, end, 0, step)], [vector("i32", expected)],
               initializers=[1, 2, 3, 4])


def right_slice_backwards_from_below_the_axis():
    return sliced(3, -5, -(2**63), -1, [0])


def right_slice_with_the_largest_step():
    return sliced(4, 1, INT64_MAX, INT64_MAX, [1])


def right_slice_with_the_smallest_step():
    return sliced(4, INT64_MAX, -(2**63), -(2**63), [3])


def right_slice_backwards_over_an_empty_range():
    return sliced(4, 0, 2, -1, [])


def right_slice_every_second_backwards():
    return sliced(6, -1, -7, -2, [5, 3, 1])


# ---- loops

def loop(body_nodes, states, results, trips=None, condition=True, body_states=(), scans=(), finals=()):
    """`states`: initial values; `body_states` and `scans`: names that the body gives; `scans` with types."""
    inputs = {"i": ("i64", []), "c": ("bool", [])}
    inputs.update({f"s{k}": None for k in range(len(states))})
    outputs = {"go": ("bool", [])}
    outputs.update({n: None for n in body_states})
    outputs.update(dict(scans))
    body = graph(body_nodes, inputs, outputs)
    initializers = {f"v{k}": t for k, t in enumerate(states)}
    names = ["", ""] + list(initializers)
    if trips is not None:
        initializers["m"], names[0] = scalar("i64", trips), "m"
    if condition is not None:
        initializers["t"], names[1] = scalar("bool", condition), "t"
    outs = [f"o{k}" for k in range(len(results))]
    return model(graph([node("Loop", names, outs, name="the_node", body=body)], {}, {o: None for o in outs},
                       initializers)), [], results


def right_a_loop_of_no_iteration_keeps_type_and_rank():
    return loop([node("Identity", ["c"], ["go"]), node("Cast", ["i"], ["y"], to=10)], [], [tensor("f16", [0], [])], trips=0,
                scans={"y": None})


def right_a_loop_of_no_iteration_takes_declared_sizes():
    return loop([node("Identity", ["c"], ["go"]), node("Identity", ["i"], ["y"])], [], [tensor("i64", [0, 2, 3], [])], trips=0,
                scans={"y": ("i64", [2, 3])})


def right_a_loop_without_a_count_runs_more_than_100000_times():
    limit = Tensor("i64", [], [100050])
    return loop([node("Constant", [], ["limit"], value=limit), node("Less", ["i", "limit"], ["go"]),
                 node("Identity", ["i"], ["n"])],
                [scalar("i64", 0)], [scalar("i64", 100050)], body_states=["n"])


def right_scan_over_nothing_keeps_type_and_rank():
    body = graph([node("Cast", ["e"], ["y"], to=7)], {"e": ("f32", [3])}, {"y": None})
    main = graph([node("Scan", ["x"], ["o"], name="the_node", body=body, num_scan_inputs=1)], {"x": ("f32", [0, 3])}, {"o": None})
    return model(main), [tensor("f32", [0, 3], [])], [tensor("i64", [0, 3], [])]


# ---- recurrent activations

def rnn(activation, value, **attributes):
    """One step of an RNN of one unit with input 1, weight `value`: activation(value)."""
    return one("RNN", [tensor("f32", [1, 1, 1], [1]), tensor("f32", [1, 1, 1], [value]), tensor("f32", [1, 1, 1], [0])], 1,
               hidden_size=1, activations=[activation], **attributes)[:2]


def right_embedded_tokens_without_sentences_are_of_sentence_0():
    row = {k: tensor("f32", [1, 2], v) for k, v in {"word": [1, 3], "place": [0, 0], "sentence": [4, 0]}.items()}
    given = [tensor("i32", [1, 1], [0]), None, row["word"], row["place"], row["sentence"], vector("f32", [1, 1]),
             vector("f32", [0, 0])]
    return one("EmbedLayerNormalization", given, [tensor("f32", [1, 1, 2], [1, -1])], domain="com.microsoft")


def right_shrink_of_integers_wraps():
    return one("Shrink", [vector("u8", [0, 1, 3])], [vector("u8", [0, 255, 1])], bias=2.0, lambd=0.5)


def activation_case(expected, *args, **attributes):
    case, inputs = rnn(*args, **attributes)
    return case, inputs, [tensor("f32", [1, 1, 1, 1], [expected])]


def right_leaky_relu_in_lower_case_has_the_default_alpha():
    return activation_case(-2 * f32(0.01), "leakyrelu", -2.0)


def right_affine_has_no_offset_by_default():
    return activation_case(-2.0, "AFFINE", -2.0)


def right_hard_sigmoid_takes_alpha_and_beta():
    return activation_case(0.25 * -1 + 0.75, "HardSigmoid", -1.0, activation_alpha=[0.25], activation_beta=[0.75])


def right_alphas_go_to_the_functions_that_take_one():
    # LSTM of one unit, all gates 1 * x with x = -1: i = o = f = sigmoid(-1), c' = leaky(-1) = -0.5, h = tanh(i c').
    s = 1 / (1 + math.exp(1))
    cell = s * -0.5
    return one("LSTM", [tensor("f32", [1, 1, 1], [-1]), tensor("f32", [1, 4, 1], [1] * 4), tensor("f32", [1, 4, 1], [0] * 4)],
               [tensor("f32", [1, 1, 1, 1], [s * math.tanh(cell)])], hidden_size=1,
               activations=["Sigmoid", "LeakyRelu", "Tanh"], activation_alpha=[0.5])


# ---- forms that older versions have

def right_batch_normalization_of_cells():
    # Version 7, spatial = 0: scale, bias, mean, var for each cell; epsilon 0.
    return one("BatchNormalization",
               [tensor("f32", [1, 1, 2], [3, 6])] + [tensor("f32", [1, 2], v) for v in ([2, 1], [1, 0], [1, 2], [4, 16])],
               [tensor("f32", [1, 1, 2], [3, 1])], opset=7, spatial=0, epsilon=0.0)


def right_batch_normalization_names_outputs_that_it_does_not_compute():
    case, inputs, _ = one("BatchNormalization",
                          [tensor("f32", [1, 2], [3, 6])] + [vector("f32", v) for v in ([2, 1], [1, 0], [1, 2], [4, 16])],
                          1, opset=9, epsilon=0.0)
    main = graph([node("BatchNormalization", ["i0", "i1", "i2", "i3", "i4"], ["o0", "a", "b", "c", "d"], epsilon=0.0)],
                 {f"i{k}": (t.dtype, t.shape) for k, t in enumerate(inputs)}, {"o0": None})
    return model(main, 9), inputs, [tensor("f32", [1, 2], [3, 1])]


def right_cast_1_names_its_type_as_text():
    return one("Cast", [vector("f32", [1.5])], [vector("i32", [1])], opset=5, to="INT32")


def right_lp_pool_1_has_a_float_p():
    return one("LpPool", [tensor("f32", [1, 1, 2], [3, 4])], [tensor("f32", [1, 1, 1], [5])], opset=1, kernel_shape=[2], p=2.0)


def right_a_window_longer_than_the_axis_gives_nothing():
    # floor((2 - 3) / 2) + 1 = 0
    return one("MaxPool", [ramp("f32", [1, 1, 2])], [tensor("f32", [1, 1, 0], [])], kernel_shape=[3], strides=[2])


def right_a_pool_of_an_axis_of_one_element_keeps_it():
    return one("MaxPool", [tensor("f32", [1, 1, 1], [5])], [tensor("f32", [1, 1, 1], [5])], kernel_shape=[2], strides=[2])


def right_affine_grid_of_one_element_is_at_the_end():
    return one("AffineGrid", [tensor("f32", [1, 2, 3], [1, 0, 0, 0, 1, 0]), vector("i64", [1, 1, 1, 2])],
               [tensor("f32", [1, 1, 2, 2], [-1, 1, 1, 1])], initializers=[1], align_corners=1)


def right_an_initializer_that_is_an_input_takes_the_value_that_is_given():
    main = graph([node("Add", ["x", "w"], ["y"])], {"x": ("f32", [1]), "w": ("f32", [1])}, {"y": None},
                 {"w": vector("f32", [10])})
    return model(main), [vector("f32", [1]), vector("f32", [2])], [vector("f32", [3])]


def right_a_function_input_that_is_left_out_stays_so_in_a_body():
    then = graph([node("Clip", ["a", "low", "high"], ["p"])], {}, {"p": ("f32", [2])})
    body = node("If", ["c"], ["q"], then_branch=then, else_branch=then)
    function = (data(1, "F") + b"".join(data(4, n) for n in ("a", "c", "high", "low")) + data(5, "q") + data(7, body)
                + data(10, "my"))
    function += data(9, bytes([16, 21]))
    main = graph([node("F", ["x", "c", "h"], ["y"], domain="my")], {"x": ("f32", [2])}, {"y": None},
                 {"c": scalar("bool", True), "h": scalar("f32", 5)})
    return model(main, domains=("my",), functions=[function]), [vector("f32", [-7, 9])], [vector("f32", [-7, 5])]


# ---- com.microsoft

def right_fused_gemm():
    return one("FusedGemm", [tensor("f32", [1, 2], [1, 2]), tensor("f32", [2, 2], [1, -1, 1, -1]), vector("f32", [1, 1])],
               [tensor("f32", [1, 2], [4, -1])], domain="com.microsoft", activation="LeakyRelu", activation_alpha=0.5)


def right_fused_conv_adds_and_clips():
    return one("FusedConv",
               [tensor("f32", [1, 1, 2], [1, 2]), tensor("f32", [1, 1, 1], [2]), vector("f32", [1]),
                tensor("f32", [1, 1, 2], [0, 10])],
               [tensor("f32", [1, 1, 2], [3, 6])], domain="com.microsoft", activation="Clip", activation_params=[0.0, 6.0])


def right_fused_matmul_moves_batch_axes():
    # A (rows 2, batch 2, columns 1) as (batch, rows, columns) times B (batch, 1, 1).
    return one("FusedMatMul", [tensor("f32", [2, 2, 1], [1, 2, 3, 4]), tensor("f32", [2, 1, 1], [1, 10])],
               [tensor("f32", [2, 2, 1], [1, 3, 20, 40])], domain="com.microsoft", transBatchA=1)


def right_matmul_nbits_of_four():
    # One row of 16 numbers of 4 bits, 0 .. 15, zero point 8, scale 0.5; x is all ones: 0.5 * sum(k - 8) = -4.
    packed = [(2 * k) | (2 * k + 1) << 4 for k in range(8)]
    return one("MatMulNBits", [tensor("f32", [1, 16], [1] * 16), tensor("u8", [1, 1, 8], packed), vector("f32", [0.5])],
               [tensor("f32", [1, 1], [-4])], domain="com.microsoft", K=16, N=1, bits=4, block_size=16)


def right_matmul_nbits_with_zero_points_and_a_cut_block():
    # 24 columns in blocks of 16: two scales, zero points 1 and 2 in one byte.
    packed = [0x55] * 16
    expected = 16 * (5 - 1) * 1 + 8 * (5 - 2) * 2
    return one("MatMulNBits",
               [tensor("f32", [1, 24], [1] * 24), tensor("u8", [1, 2, 8], packed), vector("f32", [1, 2]), vector("u8", [0x21])],
               [tensor("f32", [1, 1], [expected])], domain="com.microsoft", K=24, N=1, bits=4, block_size=16)


def right_matmul_nbits_of_two_and_eight():
    return one("MatMulNBits", [tensor("f32", [1, 16], [1] * 16), tensor("u8", [1, 1, 4], [0b11100100] * 4), vector("f32", [1])],
               [tensor("f32", [1, 1], [4 * (0 + 1 + 2 + 3) - 16 * 2])], domain="com.microsoft", K=16, N=1, bits=2, block_size=16)


def right_dynamic_quantize_matmul():
    # x spans 0 .. 255, so its scale is 1 and its zero point 0.
    return one("DynamicQuantizeMatMul",
               [tensor("f32", [1, 2], [255, 3]), tensor("i8", [2, 1], [1, -2]), vector("f32", [0.5]), vector("i8", [1]),
                vector("f32", [1])],
               [tensor("f32", [1, 1], [(0 * 255 + -3 * 3) * 0.5 + 1])], domain="com.microsoft")


def right_dynamic_quantize_linear_of_zeros():
    return one("DynamicQuantizeLinear", [vector("f32", [0, 0])], [vector("u8", [0, 0]), scalar("f32", 1), scalar("u8", 0)])


def right_matmul_integer_to_float_scales_columns():
    return one("MatMulIntegerToFloat",
               [tensor("u8", [1, 2], [3, 4]), tensor("i8", [2, 2], [1, 2, 3, 4]), vector("f32", [0.5]), vector("f32", [1, 2]),
                vector("u8", [1]), vector("i8", [0, 1])],
               [tensor("f32", [1, 2], [(2 * 1 + 3 * 3) * 0.5, (2 * 1 + 3 * 3) * 1.0])], domain="com.microsoft")


def quantised_pair(op, expected):
    q = [vector("u8", [10, 20]), scalar("f32", 0.5), scalar("u8", 8)]
    return one(op, q + [vector("u8", [6, 4]), scalar("f32", 1), scalar("u8", 4), scalar("f32", 0.5), scalar("u8", 100)],
               [vector("u8", expected)], domain="com.microsoft")


def right_qlinear_add():
    return quantised_pair("QLinearAdd", [106, 112])  # 1 + 2 and 6 + 0, halves from 100 on


def right_qlinear_mul():
    return quantised_pair("QLinearMul", [104, 100])


def right_qlinear_concat():
    return one("QLinearConcat",
               [scalar("f32", 1), scalar("u8", 0), vector("u8", [4]), scalar("f32", 0.5), scalar("u8", 0), vector("u8", [7]),
                scalar("f32", 1), scalar("u8", 1)],
               [vector("u8", [2, 6])], domain="com.microsoft", axis=0)


def right_qgemm_without_output_scale_is_float():
    return one("QGemm",
               [tensor("u8", [1, 2], [3, 4]), scalar("f32", 0.5), scalar("u8", 1), tensor("u8", [2, 1], [5, 6]),
                scalar("f32", 2), scalar("u8", 1), vector("i32", [10])],
               [tensor("f32", [1, 1], [2 * 4 + 3 * 5 + 10])], domain="com.microsoft")


def right_qattention_of_one_position_gives_its_value():
    # One position attends to itself: the projected value, (x - 1) * (w - 0) * 0.5 * 2 + bias.
    return one("QAttention",
               [tensor("u8", [1, 1, 1], [4]), tensor("i8", [1, 3], [1, 1, 5]), vector("f32", [0, 0, 1]), scalar("f32", 0.5),
                scalar("f32", 2), None, scalar("u8", 1), scalar("i8", 0)],
               [tensor("f32", [1, 1, 1], [16])], domain="com.microsoft", num_heads=1)


# ---- found by comparing random nodes

def right_qlinear_mul_adds_the_zero_point_before_rounding():
    # 134 * 0.125 * 3 * 0.25 / 0.125 is 100.5; with the zero point 101.5, whose even neighbour is 102.
    return one("QLinearMul",
               [vector("u8", [135]), scalar("f32", 0.125), scalar("u8", 1), vector("u8", [5]), scalar("f32", 0.25),
                scalar("u8", 2),
                scalar("f32", 0.125), scalar("u8", 1)], [vector("u8", [102])], domain="com.microsoft")


def right_qattention_of_a_row_without_positions_attends_to_all():
    # Query and key are 0, so both positions weigh the same: the mask lowers both scores alike. Values are 2 and 4.
    return one("QAttention",
               [tensor("u8", [1, 2, 1], [2, 4]), tensor("i8", [1, 3], [0, 0, 1]), vector("f32", [0, 0, 0]), scalar("f32", 1),
                scalar("f32", 1), tensor("i32", [1, 2], [0, 0])], [tensor("f32", [1, 2, 1],
                                                                          [3, 3])], domain="com.microsoft", num_heads=1)


def right_multi_head_attention_without_past_is_causal_from_the_first_key():
    # One query before two keys: it sees the first alone, whatever the scores.
    return one("MultiHeadAttention", [tensor("f32", [1, 1, 1], [1]), tensor("f32", [1, 2, 1], [0, 9]),
                                      tensor("f32", [1, 2, 1], [2, 4])],
               [tensor("f32", [1, 1, 1], [2])], domain="com.microsoft", num_heads=1, unidirectional=1)


def right_max_pool_takes_the_first_of_equal_maxima_in_row_major_order():
    # All equal: the first of the window at the second row and column is (1, 1) in either order, 1 * 3 + 1 by columns of 3.
    return one("MaxPool", [tensor("f32", [1, 1, 3, 2], [0, 7, 7, 0, 0, 0])],
               [tensor("f32", [1, 1, 2, 1], [7, 7]), tensor("i64", [1, 1, 2, 1], [3, 1])],
               kernel_shape=[2, 2], storage_order=1)


def right_clip_by_a_bound_of_one_axis_keeps_the_shape():
    return one("Clip", [scalar("f32", -3), vector("f32", [-1])], [scalar("f32", -1)])


def right_matmul_nbits_of_3_bits():
    # 16 numbers of 3 bits in 6 bytes, the lowest bits first; zero point 4, scale 0.5.
    numbers = [k % 8 for k in range(16)]
    stream = sum(v << 3 * k for k, v in enumerate(numbers))
    packed = tensor("u8", [1, 1, 6], list(stream.to_bytes(6, "little")))
    x = list(range(1, 17))
    return one("MatMulNBits", [tensor("f32", [1, 16], x), packed, vector("f32", [0.5])],
               [tensor("f32", [1, 1], [sum(a * (v - 4) * 0.5 for a, v in zip(x, numbers))])], domain="com.microsoft",
               K=16, N=1, bits=3, block_size=16)


def refused_a_slope_larger_than_the_input():
    return one("PRelu", [vector("f32", [-1]), vector("f32", [1, 2])], [vector("f32", [-1, -2])])[:2] + (
        "input 1 (2) does not broadcast to the input (1)",)


def refused_a_bias_larger_than_the_input():
    return one("BiasGelu", [vector("f32", [1]), vector("f32", [1, 2])], 1, domain="com.microsoft")[:2] + (
        "input 1 (2) does not broadcast to the input (1)",)


def refused_a_scale_for_each_element_of_qlinear_sigmoid():
    return one("QLinearSigmoid", [vector("u8", [1, 2]), vector("f32", [1, 2]), scalar("u8", 0), scalar("f32", 1),
                                  scalar("u8", 0)],
               1, domain="com.microsoft")[:2] + ("input 1 must be one number, its shape is (2)",)


def refused_an_attention_that_rotates_by_an_attribute():
    x, w = tensor("f32", [1, 1, 1], [1]), tensor("f32", [1, 3], [1, 1, 1])
    return one("Attention", [x, w, vector("f32", [0, 0, 0])], 1, domain="com.microsoft", num_heads=1, do_rotary=1)[:2] + (
        "the attribute do_rotary must be 0 to 0",)


def refused_a_group_normalization_with_one_scale():
    return one("GroupNormalization", [tensor("f32", [1, 4, 1], [1, 2, 3, 4]), vector("f32", [1]), vector("f32", [0])], 1,
               num_groups=2)[:2] + ("input 1 (1) must have 4 elements, one a channel",)


def refused_powers_of_bools():
    return one("Pow", [tensor("bool", [1], [True]), tensor("bool", [1], [True])], [tensor("bool", [1], [True])])[:2] + (
        "powers of bool do not exist",)


# ---- refused

def conv_like(op, *tensors, **attributes):
    return one(op, list(tensors), 1, **attributes)[:2]


IMAGE, WEIGHT = ramp("f32", [1, 1, 3, 3]), ramp("f32", [1, 1, 2, 2])
IMAGE8, WEIGHT8 = ramp("u8", [1, 1, 3, 3]), ramp("u8", [1, 1, 2, 2])


def refused_conv_with_stride_0():
    return *conv_like("Conv", IMAGE, WEIGHT, strides=[0, 1]), "strides must be 1 or more"


def refused_conv_integer_with_stride_0():
    return *conv_like("ConvInteger", IMAGE8, WEIGHT8, strides=[0, 0], auto_pad="SAME_UPPER"), "strides must be 1 or more"


def refused_qlinear_conv_with_stride_0():
    s, z = scalar("f32", 1), scalar("u8", 0)
    return *conv_like("QLinearConv", IMAGE8, s, z, WEIGHT8, s, z, s, z, strides=[0, 1],
                      auto_pad="SAME_LOWER"), "strides must be 1 or more"


def refused_max_pool_with_stride_0():
    return *conv_like("MaxPool", IMAGE, kernel_shape=[2, 2], strides=[1, 0]), "strides must be 1 or more"


def refused_lp_pool_with_a_negative_kernel():
    return *conv_like("LpPool", IMAGE, kernel_shape=[-1, 2]), "kernel_shape must be 1 or more"


def refused_max_unpool_with_stride_0():
    return *conv_like("MaxUnpool", IMAGE, ramp("i64", [1, 1, 3, 3]), kernel_shape=[2, 2],
                      strides=[0, 0]), "strides must be 1 or more"


def refused_conv_transpose_with_short_pads():
    return *conv_like("ConvTranspose", IMAGE, WEIGHT, pads=[0, 0]), "pads has 2 entries, 4 are needed"


def refused_conv_with_a_kernel_shape_that_the_weight_contradicts():
    return *conv_like("Conv", IMAGE, WEIGHT, kernel_shape=[3, 3]), "kernel_shape"


def refused_deform_conv_with_offsets_of_another_size():
    return *conv_like("DeformConv", IMAGE, WEIGHT, ramp("f32", [1, 8, 3, 3])), "offsets"


def refused_einsum_ellipsis_beyond_the_rank():
    return *conv_like("Einsum", ramp("f32", [5]), equation="...ij->...ij"), "does not fit shape"


def refused_einsum_with_a_result_label_of_no_input():
    return *conv_like("Einsum", ramp("f32", [2, 2]), equation="ij->ik"), "must occur once"


def refused_center_crop_pad_with_a_short_shape():
    return *one("CenterCropPad", [ramp("f32", [4, 4]), vector("i64", [2])], 1, initializers=[1])[:2], "1 sizes for 2 axes"


def refused_compress_with_a_long_condition():
    return *one("Compress", [ramp("f32", [2]), vector("bool", [True] * 3)], 1, initializers=[1], axis=0)[:2], "condition has 3"


def refused_gather_beyond_the_axis():
    return *one("Gather", [ramp("f32", [3]), vector("i64", [3])], 1, initializers=[1])[:2], "index 3"


def refused_gather_elements_that_exceed_the_data():
    return *one("GatherElements", [ramp("f32", [2, 2]), tensor("i64", [3, 1], [0, 0, 0])], 1, axis=1)[:2], "exceed the data"


def refused_gather_nd_with_differing_batches():
    return *one("GatherND", [ramp("f32", [2, 3]), tensor("i64", [3, 1], [0, 0, 0])], 1, batch_dims=1)[:2], "batch axes"


def refused_scatter_nd_with_updates_of_another_shape():
    return *one("ScatterND", [ramp("f32", [4]), tensor("i64", [2, 1], [0, 1]), vector("f32", [1] * 3)],
                1)[:2], "updates must have the shape"


def refused_squeeze_of_one_axis_twice():
    return *one("Squeeze", [ramp("f32", [1, 2]), vector("i64", [0, -2])], 1, initializers=[1])[:2], "names before already"


def refused_unsqueeze_at_one_axis_twice():
    return *one("Unsqueeze", [ramp("f32", [2]), vector("i64", [0, 0])], 1, initializers=[1])[:2], "names before already"


def refused_top_k_beyond_the_axis():
    return *one("TopK", [ramp("f32", [3]), vector("i64", [4])], 2, initializers=[1])[:2], "k is 4"


def refused_quantization_with_blocks_of_another_number():
    return *one("QuantizeLinear", [ramp("f32", [4, 2]), tensor("f32", [3, 2], [1] * 6)], 1,
                axis=0, block_size=2)[:2], "does not fit the input"


def refused_quantization_with_a_zero_point_of_another_shape():
    return *one("DequantizeLinear", [ramp("u8", [2, 2]), vector("f32", [1, 1]), vector("u8", [1])], 1,
                axis=0)[:2], "must have one shape"


def refused_pad_beyond_memory():
    return *one("Pad", [ramp("f32", [4]), vector("i64", [INT64_MAX - 1, INT64_MAX - 1])], 1,
                initializers=[1])[:2], "more elements than can be addressed"


def refused_expand_beyond_memory():
    return *one("Expand", [vector("f32", [1]), vector("i64", [2**40, 2**40])], 1,
                initializers=[1])[:2], "more elements than can be addressed"


def refused_constant_of_shape_with_a_negative_size():
    return *one("ConstantOfShape", [vector("i64", [2, -3])], 1, initializers=[0])[:2], "negative size -3"


def refused_mixed_types():
    return *one("Add", [vector("f32", [1]), vector("i64", [1])], 1)[:2], "must have one element type, they are f32 and i64"


def refused_an_attribute_of_another_kind():
    return *one("Transpose", [ramp("f32", [2, 2])], 1, perm=1)[:2], "must be a list of ints"


def refused_an_unknown_choice():
    return *one("Pad", [vector("f32", [1]), vector("i64", [1, 1])], 1,
                initializers=[1], mode="mirror")[:2], "must be one of constant"


def refused_a_declared_output_of_another_type():
    case = one("Relu", [vector("f32", [1])], 1, declared={"o0": ("i64", [1])})
    return *case[:2], "is computed as f32"


def refused_a_missing_input():
    return model(graph([node("Add", ["x"], ["y"], name="the_node")], {"x": ("f32", [1])},
                       {"y": None})), [vector("f32", [1])], "input 1 is missing"


def refused_too_many_inputs():
    return *one("Relu", [vector("f32", [1])] * 2, 1)[:2], "takes 1 input, 2 are given"


def refused_a_condition_of_two_elements():
    branch = graph([], {}, {"x": None})
    main = graph([node("If", ["c"], ["y"], name="the_node", then_branch=branch, else_branch=branch)], {"x": ("f32", [1])},
                 {"y": None}, {"c": vector("bool", [True, True])})
    return model(main), [vector("f32", [1])], "a condition must have one element"


def refused_a_loop_whose_body_gives_too_little():
    return *loop([node("Identity", ["c"], ["go"])], [scalar("f32", 1)], [scalar("f32", 1)], trips=2)[:2], "its body takes"


def refused_a_loop_without_iterations_whose_state_is_left_out():
    body = graph([node("Identity", ["c"], ["go"]), node("Identity", ["s"], ["t"])], {"i": None, "c": None, "s": None},
                 {"go": None, "t": None})
    main = graph([node("Loop", ["trips", "", ""], ["o"], name="the_node", body=body)], {"trips": ("i64", [])}, {"o": None})
    return model(main), [scalar("i64", 0)], "input 2 is left out"


def refused_a_scan_whose_body_gives_too_little():
    body = graph([node("Identity", ["e"], ["y"])], {"s": None, "s2": None, "e": None}, {"y": None})
    main = graph([node("Scan", ["a", "a", "x"], ["o", "p", "q"], name="the_node", body=body, num_scan_inputs=1)],
                 {"a": ("f32", [3]), "x": ("f32", [2, 3])}, {"o": None})
    return model(main), [ramp("f32", [3]), ramp("f32", [2, 3])], "its body takes"


def refused_a_scan_with_more_scan_inputs_than_inputs():
    body = graph([node("Identity", ["e"], ["y"])], {"e": None}, {"y": None})
    main = graph([node("Scan", ["x"], ["o"], name="the_node", body=body, num_scan_inputs=3)], {"x": ("f32", [2])}, {"o": None})
    return model(main), [ramp("f32", [2])], "num_scan_inputs is 3"


def refused_text_that_is_no_number_of_the_type():
    return *one("Cast", [vector("string", ["300"])], 1, to=2)[:2], "not a number of type u8"


def refused_recurrent_weights_of_another_size():
    x = ramp("f32", [1, 1, 2])
    return *one("GRU", [x, ramp("f32", [1, 9, 2]), ramp("f32", [1, 6, 2])], 1, hidden_size=2)[:2], "is needed"


def refused_lengths_beyond_the_sequence():
    return *one("ReverseSequence", [ramp("f32", [2, 2]), vector("i64", [3, 1])], 1, initializers=[1])[:2], "length 3"


def refused_matmul_nbits_with_numbers_that_do_not_fit():
    return *one("MatMulNBits", [ramp("f32", [1, 16]), tensor("u8", [1, 1, 4], [0] * 4), vector("f32", [1])], 1,
                domain="com.microsoft", K=16, N=1, bits=4, block_size=16)[:2], "must have 8 elements"


def refused_convolutions_of_a_scalar_with_zero_points_for_outputs():
    return *one("ConvInteger", [tensor("u8", [1, 1, 3], [1, 2, 3]), scalar("u8", 1), scalar("u8", 0), vector("u8", [1, 2])],
                1)[:2], "for each of the outputs"


def refused_a_depth_of_text():
    return *one("OneHot", [vector("i64", [1]), vector("string", ["2"]), vector("f32", [0, 1])], 1,
                initializers=[1])[:2], "a tensor of integers is needed"


def refused_a_remainder_of_bools():
    return *one("Mod", [vector("bool", [True])] * 2, 1)[:2], "needs integer tensors"


def refused_a_constant_with_two_values():
    return *one("Constant", [], 1, value_int=1, value_float=2.0)[:2], "more than one attribute"


def main():
    tool, device, work, wanted = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
    shutil.rmtree(work, ignore_errors=True)
    known = {**vars(node_cases_ml), **globals()}
    cases = {n: f for n, f in known.items() if n.startswith(("right_", "refused_")) and (not wanted or n in wanted)}
    words = {}
    for name, make in cases.items():
        content, inputs, expected = make()
        if name.startswith("refused_"):
            words[name], expected = expected, [scalar("f32", 0)]
        write_case(os.path.join(work, name), content, inputs, expected)
    folders = "".join(os.path.join(work, n) + "\n" for n in cases)
    r = subprocess.run([tool, "--check-many", "--device", device], input=folders, capture_output=True, text=True, timeout=280)
    reports = {os.path.basename(e["case"]): e for e in map(json.loads, r.stdout.splitlines())}
    failed = 0
    for name in cases:
        report = reports.get(name)
        if report is None:
            wrong = f"no answer; exit status {r.returncode}, {r.stderr[-300:]}"
        elif name.startswith("right_"):
            wrong = "" if report["status"] == "pass" else report["reason"]
        else:
            reason = report["reason"]
            needed = ["model.onnx", words[name]] + ([] if "declared_output" in name else ["graph.node[0]"])
            missing = [w for w in needed if w not in reason]
            wrong = "" if report["status"] == "error" and not missing else f"{missing} not in: {report['status']} {reason}"
        if wrong:
            failed += 1
            print(f"{name}: {wrong}")
        if report is None:
            break
    print(f"{len(cases) - failed} passed, {failed} failed")
    return 1 if failed else 0


sys.exit(main())
