"""Recipes of node_drawing.py: products, convolution, normalisation, attention, recurrence, quantisation."""

import math

from node_drawing import WIDTHS, recipe
from onnx_writer import Tensor

# ---- products, convolution, pooling

@recipe("MatMul")
@recipe("FusedMatMul", "TransposeMatMul", domain="com.microsoft")
def _(d):
    dtype = d.one_of("f32", "f32", "f64", "i32", "i64", "u32") if d.name == "MatMul" else "f32"
    m, k, n = (d.rng.randint(1, 5) for _ in range(3))
    batches, _ = d.broadcast(2)
    a, b = batches[0][-2:] + [m, k], batches[1][-2:] + [k, n]
    attributes = {}
    if d.name == "MatMul":
        if d.chance(0.15):
            a = [k]
        if d.chance(0.15):
            b = [k]
    else:
        attributes = d.some(alpha=d.one_of(0.5, 2.0), transA=d.rng.randint(0, 1), transB=d.rng.randint(0, 1))
        for name, shape in (("transA", a), ("transB", b)):
            if attributes.get(name):
                shape[-1], shape[-2] = shape[-2], shape[-1]
    return [d.tensor(dtype, a), d.tensor(dtype, b)], attributes


@recipe("Gemm")
@recipe("FusedGemm", domain="com.microsoft")
def _(d):
    dtype = d.one_of("f32", "f32", "f64") if d.name == "Gemm" else "f32"
    m, k, n = (d.rng.randint(1, 5) for _ in range(3))
    attributes = d.some(alpha=d.one_of(0.5, 2.0), beta=d.one_of(0.5, 0.0, 2.0), transA=d.rng.randint(0, 1),
                        transB=d.rng.randint(0, 1))
    a, b = [k, m] if attributes.get("transA") else [m, k], [n, k] if attributes.get("transB") else [k, n]
    c = [d.tensor(dtype, d.one_of([m, n], [n], [1, n], [m, 1], [1], []))] if d.chance(0.7) else []
    if d.name == "FusedGemm":
        attributes = {"alpha": 1.0, "beta": 1.0, **attributes, "activation": d.one_of("Relu", "Tanh", "Sigmoid", "LeakyRelu")}
    return [d.tensor(dtype, a), d.tensor(dtype, b), *c], attributes


def window(d, dims, dilated=True):
    """(kernel, attributes of the window, sizes that it fits)."""
    kernel, attributes = [d.rng.randint(1, 3) for _ in range(dims)], {}
    strides, dilations = [d.rng.randint(1, 3) for _ in range(dims)], [d.rng.randint(1, 2) for _ in range(dims)]
    if d.chance():
        attributes["strides"] = strides
    if dilated and d.chance(0.4):
        attributes["dilations"] = dilations
    pad = d.one_of("none", "none", "pads", "pads", "SAME_UPPER", "SAME_LOWER", "VALID")
    if pad == "pads":
        attributes["pads"] = [d.rng.randint(0, k - 1) for k in kernel * 2]
    elif pad != "none":
        attributes["auto_pad"] = pad
        if pad != "VALID":
            attributes.pop("dilations", None)
    spans = [(k - 1) * s + 1 for k, s in zip(kernel, attributes.get("dilations", [1] * dims))]
    return kernel, attributes, [n + d.rng.randint(0, 4) for n in spans]


@recipe("Conv", "ConvTranspose")
@recipe("FusedConv", domain="com.microsoft")
def _(d):
    dims, group = d.rng.randint(1, 3 if d.name == "Conv" else 2), d.one_of(1, 1, 2)
    kernel, attributes, sizes = window(d, dims)
    c_in, c_out = group * d.rng.randint(1, 2), group * d.rng.randint(1, 3)
    weight = [c_in, c_out // group] if d.name == "ConvTranspose" else [c_out, c_in // group]
    values = [d.tensor("f32", [d.rng.randint(1, 2), c_in, *sizes], special=0), d.tensor("f32", weight + kernel, special=0)]
    if d.chance():
        values.append(d.tensor("f32", [c_out], special=0))
    if group > 1:
        attributes["group"] = group
    if d.name == "FusedConv":
        attributes["activation"] = d.one_of("Relu", "Tanh", "Sigmoid")
    return values, {**attributes, **d.some(kernel_shape=kernel)}


@recipe("AveragePool", "MaxPool", "LpPool")
def _(d):
    dims = d.rng.randint(1, 3)
    dilated = {"AveragePool": 19, "MaxPool": 10, "LpPool": 18}[d.name] <= d.opset
    kernel, attributes, sizes = window(d, dims, dilated)
    if {"AveragePool": 10, "MaxPool": 10, "LpPool": 18}[d.name] <= d.opset:
        attributes.update(d.some(ceil_mode=d.rng.randint(0, 1)))
    outputs = 1
    if d.name == "AveragePool":
        attributes.update(d.some(count_include_pad=d.rng.randint(0, 1)))
    elif d.name == "LpPool":
        attributes.update(d.some(p=d.rng.randint(1, 3)))
    else:
        outputs = d.rng.randint(1, 2)
        attributes.update(d.some(storage_order=d.rng.randint(0, 1)) if outputs == 2 else {})
    dtype = d.one_of("f32", "f32", "f64", *(["i8", "u8"] if d.opset >= 12 else [])) if d.name == "MaxPool" else "f32"
    return [d.tensor(dtype, [d.rng.randint(1, 2), d.rng.randint(1, 2), *sizes])], {"kernel_shape": kernel, **attributes}, outputs


@recipe("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def _(d):
    return [d.tensor("f32", d.shape(3, 5))], d.some(p=d.rng.randint(1, 3)) if d.name == "GlobalLpPool" else {}


@recipe("MaxUnpool")
def _(d):
    n, h, w = d.rng.randint(1, 2), d.rng.randint(1, 3), d.rng.randint(1, 3)
    places = d.rng.sample(range(4 * h * w), h * w)  # of the one image that a batch of one channel is
    return [d.tensor("f32", [1, 1, h, w]), Tensor("i64", [1, 1, h, w], places)], {"kernel_shape": [2, 2], "strides": [2, 2]}


@recipe("Einsum")
def _(d):
    size = {c: d.rng.randint(1, 4) for c in "ijkb"}
    equation = d.one_of("ij,jk->ik", "ij->ji", "ii->i", "ij,ij->", "bij,bjk->bik", "...ij,...jk->...ik", "i,j->ij", "ij->",
                        "bij->bj", "ij,jk", "ii")
    terms = equation.split("->")[0].split(",")
    shape = lambda term: [size[c] for c in term.replace("...", "b")]
    return [d.tensor(d.one_of("f32") if i else "f32", shape(t)) for i, t in enumerate(terms)], {"equation": equation}


# ---- normalisation

@recipe("BatchNormalization")
def _(d):
    x = d.tensor("f32", d.shape(2))
    c = [x.shape[1]]
    return [x, d.tensor("f32", c), d.tensor("f32", c), d.tensor("f32", c), d.tensor("f32", c, 0.5, 4, 0)], d.some(epsilon=0.01)


@recipe("InstanceNormalization", "GroupNormalization")
def _(d):
    n, c, groups = d.rng.randint(1, 2), 2 * d.rng.randint(1, 2), d.one_of(1, 2)
    attributes = d.some(epsilon=0.01)
    if d.name == "GroupNormalization":
        d.opset, attributes = max(d.opset, 21), {**attributes, "num_groups": groups}
    return [d.tensor("f32", [n, c, *d.shape(1, 2)], special=0), d.tensor("f32", [c]), d.tensor("f32", [c])], attributes


@recipe("LayerNormalization", since=17)
@recipe("RMSNormalization", since=23)
@recipe("SimplifiedLayerNormalization")
def _(d):
    x = d.tensor(d.one_of("f32", "f32", "f64"), d.shape(1), special=0)
    axis = d.axis(len(x.shape))
    line = x.shape[axis % len(x.shape):]
    bias = [d.tensor(x.dtype, line)] if d.name == "LayerNormalization" and d.chance() else []
    return [x, d.tensor(x.dtype, line), *bias], {"axis": axis, **d.some(epsilon=0.01)}


@recipe("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", domain="com.microsoft")
def _(d):
    n, s, h = d.rng.randint(1, 2), d.rng.randint(1, 3), d.rng.randint(2, 5)
    line = [d.tensor("f32", [h]) for _ in range(3 if d.name[4] == "L" else 2)]
    return [d.tensor("f32", [n, s, h], special=0), d.tensor("f32", [n, s, h], special=0),
            *line[:d.rng.randint(1, len(line))]], {"epsilon": 0.01}


@recipe("EmbedLayerNormalization", domain="com.microsoft")
def _(d):
    n, s, h = d.rng.randint(1, 2), d.rng.randint(1, 3), d.rng.randint(2, 4)
    tables = [d.tensor("f32", [rows, h], special=0) for rows in (5, 4, 2)]
    return ([d.tensor("i32", [n, s], 0, 4), d.tensor("i32", [n, s], 0, 1), *tables, d.tensor("f32", [h]), d.tensor("f32", [h])],
            {"epsilon": 0.01}, 2)


@recipe("LpNormalization")
def _(d):
    x = d.tensor(d.one_of("f32", "f64"), d.shape(1))
    return [x], d.some(axis=d.axis(len(x.shape)), p=d.rng.randint(1, 2))


@recipe("MeanVarianceNormalization")
def _(d):
    x = d.tensor("f32", d.shape(4, 4, (2, 3, 4)), special=0)
    return [x], {}


@recipe("LRN")
def _(d):
    return [d.tensor("f32", d.shape(4, 4))], {"size": d.one_of(1, 3, 5), **d.some(alpha=0.5, beta=0.5, bias=2.0)}


# ---- attention

@recipe("Attention", since=23)
def _(d):
    n, heads, group = (d.rng.randint(1, 2) for _ in range(3))
    q, k, e = d.rng.randint(1, 3), d.rng.randint(1, 4), d.one_of(2, 4)
    values = [d.tensor("f32", s, -1, 1, 0) for s in ([n, heads * group, q, e], [n, heads, k, e], [n, heads, k, e])]
    if d.chance():
        values.append(d.tensor("f32", d.one_of([q, k], [n, 1, q, k], [1, 1, q, k]), special=0))
    return values, d.some(is_causal=d.rng.randint(0, 1) if q <= k else None, scale=0.5, softcap=2.0)


@recipe("RotaryEmbedding", since=23)
def _(d):
    n, heads, s, e = d.rng.randint(1, 2), d.rng.randint(1, 2), d.rng.randint(1, 3), d.one_of(2, 4, 8)
    tables = [d.tensor("f32", [5, e // 2], -1, 1, 0) for _ in range(2)]
    return ([d.tensor("f32", [n, heads, s, e]), *tables, d.tensor("i64", [n, s], 0, 4)], d.some(interleaved=d.rng.randint(0, 1)))


@recipe("Attention", "MultiHeadAttention", domain="com.microsoft")
def _(d):
    n, s, heads, e = d.rng.randint(1, 2), d.rng.randint(1, 3), d.rng.randint(1, 2), d.one_of(2, 4)
    h, draw = heads * e, lambda *shape: d.tensor("f32", shape, -1, 1, 0)
    attributes = {"num_heads": heads, **d.some(scale=0.5, unidirectional=d.rng.randint(0, 1),
                                               mask_filter_value=d.one_of(-100.0, -10000.0))}
    if d.name == "Attention":
        i, shape = d.rng.randint(1, 4), d.one_of(None, [n], [n, s], [n, s, s])
        mask = shape and d.tensor("i32", shape, 1 if len(shape) == 1 else 0, s if len(shape) == 1 else 1)
        return [draw(n, s, i), draw(i, 3 * h), draw(3 * h), mask], attributes
    k = d.rng.randint(1, 4)
    attributes.pop("unidirectional", None) if k < s else None
    values = [draw(n, s, h), draw(n, k, h), draw(n, k, h), draw(3 * h) if d.chance() else None]
    values.append(d.tensor("i32", [n, k], 0, 1) if d.chance() else None)
    return values + ([draw(d.one_of(1, n), d.one_of(1, heads), s, k)] if d.chance() else []), attributes


@recipe("GroupQueryAttention", domain="com.microsoft")
def _(d):
    n, s, groups, share, e = d.rng.randint(1, 2), d.rng.randint(1, 4), d.rng.randint(1, 2), d.rng.randint(1, 2), 16
    draw = lambda *shape: d.tensor("f32", shape, -1, 1, 0)
    values = [draw(n, s, groups * share * e), draw(n, s, groups * e), draw(n, s, groups * e), None, None,
              d.fixed("i32", [n], [s - 1] * n), d.fixed("i32", [1], [s])]
    attributes = {"num_heads": groups * share, "kv_num_heads": groups,
                  **d.some(scale=0.5, local_window_size=d.rng.randint(1, 3), softcap=2.0)}
    if d.chance():
        values += [draw(8, e // 2), draw(8, e // 2)]
        attributes.update(do_rotary=1, **d.some(rotary_interleaved=d.rng.randint(0, 1)))
    return values, attributes, 3


@recipe("RotaryEmbedding", domain="com.microsoft")
def _(d):
    n, heads, s, e = d.rng.randint(1, 2), d.rng.randint(1, 2), d.rng.randint(1, 3), d.one_of(2, 4, 8)
    positions = d.tensor("i64", [n, s], 0, 4) if d.chance() else d.tensor("i64", [1], 0, 2)
    tables = [d.tensor("f32", [5, e // 2], -1, 1, 0) for _ in range(2)]
    return [d.tensor("f32", [n, heads, s, e], special=0), positions, *tables], d.some(interleaved=d.rng.randint(0, 1))


# ---- recurrent

@recipe("RNN", "GRU", "LSTM")
def _(d):
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[d.name]
    t, n, i, h = (d.rng.randint(1, 3) for _ in range(4))
    direction = d.one_of("forward", "reverse", "bidirectional")
    ways = 2 if direction == "bidirectional" else 1
    draw = lambda shape: d.tensor("f32", shape, -1, 1, 0)
    values = [draw([t, n, i]), draw([ways, gates * h, i]), draw([ways, gates * h, h])]
    values.append(draw([ways, 2 * gates * h]) if d.chance() else None)
    values.append(d.tensor("i32", [n], 1, t) if d.chance(0.3) else None)
    values.append(draw([ways, n, h]) if d.chance() else None)
    if d.name == "LSTM" and d.chance():
        values.append(draw([ways, n, h]))
        if d.chance():
            values.append(draw([ways, 3 * h]))
    own = {"GRU": {"linear_before_reset": d.rng.randint(0, 1)}, "LSTM": {"input_forget": 0}, "RNN": {}}[d.name]
    attributes = {"hidden_size": h, "direction": direction, **d.some(clip=d.one_of(0.5, 2.0), **own)}
    if d.chance(0.3):
        one = {"RNN": ["Relu"], "GRU": ["HardSigmoid", "Tanh"], "LSTM": ["Sigmoid", "Softsign", "Tanh"]}[d.name]
        attributes["activations"] = one * ways
    return values, attributes, 3 if d.name == "LSTM" else 2


# ---- quantisation

QUANTISED = ("u8", "i8")


def scale(d, shape=()):
    return d.fixed("f32", shape, [d.one_of(0.125, 0.25, 0.5, 1.0) for _ in range(math.prod(shape))])


def zero(d, dtype, shape=()):
    return d.fixed(dtype, shape, [d.rng.randint(max(-3, WIDTHS[dtype][0]), 3) for _ in range(math.prod(shape))])


def quantised(d, dtype, shape):
    return [d.tensor(dtype, shape, *(WIDTHS[dtype] if d.chance() else (-20, 20))), scale(d), zero(d, dtype)]


@recipe("QuantizeLinear", "DequantizeLinear")
def _(d):
    dtype = d.one_of("u8", "i8", *(["u16", "i16"] if d.opset >= 21 else []), *(["i32"] if d.name[0] == "D" else []))
    x = d.tensor("f32", d.shape(1), special=0) if d.name[0] == "Q" else d.tensor(dtype, d.shape(1), -20, 20)
    axis = d.axis(len(x.shape)) if d.opset >= 13 and d.chance() else None
    shape = [] if axis is None else [x.shape[axis]]
    zero_point = [d.fixed(dtype, shape, [0] * math.prod(shape)) if dtype == "i32" else zero(d, dtype, shape)]
    if d.chance(0.3):
        zero_point = []
        if d.name[0] == "Q":
            dtype = "u8"
    return [x, scale(d, shape), *zero_point], {} if axis is None else {"axis": axis}


@recipe("DynamicQuantizeLinear")
def _(d):
    return [d.tensor("f32", d.shape(1), special=0)], {}, 3


def matrices(d, *types):
    m, k, n = (d.rng.randint(1, 5) for _ in range(3))
    return [d.tensor(t, s, -100, 100) for t, s in zip(types, ([m, k], [k, n]))], m, k, n


@recipe("MatMulInteger")
@recipe("QLinearMatMul")
def _(d):
    a, b = d.one_of(("u8", "u8"), ("u8", "i8"), ("i8", "i8"))
    (x, y), _, _, n = matrices(d, a, b)
    if d.name == "MatMulInteger":
        return [x, y, *([zero(d, a), zero(d, b)] if d.chance() else [])], {}
    return [x, scale(d), zero(d, a), y, scale(d), zero(d, b), scale(d), zero(d, a)], {}


@recipe("ConvInteger", "QLinearConv")
def _(d):
    dims, (a, b) = d.rng.randint(1, 2), d.one_of(("u8", "u8"), ("u8", "i8"))
    kernel, attributes, sizes = window(d, dims)
    c, m = d.rng.randint(1, 2), d.rng.randint(1, 3)
    x, w = d.tensor(a, [1, c, *sizes], -100, 100), d.tensor(b, [m, c, *kernel], -100, 100)
    if d.name == "ConvInteger":
        return [x, w, *([zero(d, a), zero(d, b)] if d.chance() else [])], attributes
    bias = [d.tensor("i32", [m], -100, 100)] if d.chance() else []
    return [x, scale(d), zero(d, a), w, scale(d), zero(d, b), scale(d), zero(d, a), *bias], attributes


@recipe("QuantizeLinear", "DequantizeLinear", domain="com.microsoft")
def _(d):
    dtype = d.one_of("u8", "i8", "u16", "i16")
    x = d.tensor("f32", d.shape(1), special=0) if d.name[0] == "Q" else d.tensor(dtype, d.shape(1), -20, 20)
    return [x, scale(d), zero(d, dtype)], {}


@recipe("MatMulNBits", domain="com.microsoft")
def _(d):
    bits, block, k, n = d.one_of(2, 4, 4, 8), d.one_of(16, 32), d.rng.randint(1, 40), d.rng.randint(1, 4)
    blocks = -(-k // block)
    packed = lambda shape: d.fixed("u8", shape, [d.rng.randint(0, 255) for _ in range(math.prod(shape))])
    values = [d.tensor("f32", [d.rng.randint(1, 3), k], special=0), packed([n, blocks, block * bits // 8]),
              d.fixed("f32", [n * blocks], [d.one_of(0.125, 0.5) for _ in range(n * blocks)])]
    if d.chance():
        values.append(packed([n * -(-blocks * bits // 8)]))
    return values, {"K": k, "N": n, "bits": bits, "block_size": block}


@recipe("DynamicQuantizeMatMul", "MatMulIntegerToFloat", domain="com.microsoft")
def _(d):
    b = d.one_of(*QUANTISED)
    (x, y), _, _, n = matrices(d, "f32" if d.name[0] == "D" else d.one_of(*QUANTISED), b)
    wide = [n] if d.chance() else [1]
    bias = d.tensor("f32", [n], special=0) if d.chance() else None
    if d.name[0] == "D":
        x.values = [v / 8 for v in x.values] if d.chance() else x.values
        return [d.tensor("f32", x.shape, special=0), y, scale(d, wide), zero(d, b, wide) if d.chance() else None, bias], {}
    return [x, y, scale(d, [1]), scale(d, wide), zero(d, x.dtype, [1]) if d.chance() else None,
            zero(d, b, wide) if d.chance() else None, bias], {}


@recipe("QLinearAdd", "QLinearMul", domain="com.microsoft")
def _(d):
    dtype, (a, b) = d.one_of(*QUANTISED), d.broadcast(2)[0]
    return [*quantised(d, dtype, a), *quantised(d, dtype, b), scale(d), zero(d, dtype)], {}


@recipe("QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax", "QLinearReduceMean", domain="com.microsoft")
def _(d):
    dtype, shape = d.one_of(*QUANTISED), d.shape(1)
    attributes = {"QLinearSigmoid": {}, "QLinearLeakyRelu": {"alpha": 0.5},
                  "QLinearSoftmax": {"axis": d.axis(len(shape)), "opset": d.one_of(12, 13)},
                  "QLinearReduceMean": {"axes": d.axes(len(shape), 1), "keepdims": d.rng.randint(0, 1)}}[d.name]
    return [*quantised(d, dtype, shape), scale(d), zero(d, dtype)], attributes


@recipe("QLinearAveragePool", "QLinearGlobalAveragePool", domain="com.microsoft")
def _(d):
    dtype = d.one_of(*QUANTISED)
    kernel, attributes, sizes = window(d, 2, False)
    if d.name == "QLinearAveragePool":
        attributes = {"kernel_shape": kernel, **attributes}
    else:
        attributes = d.some(channels_last=0)
    return [*quantised(d, dtype, [1, 2, *sizes]), scale(d), zero(d, dtype)], attributes


@recipe("QLinearConcat", domain="com.microsoft")
def _(d):
    dtype, shape, parts = d.one_of(*QUANTISED), d.shape(1), []
    axis = d.axis(len(shape))
    for _ in range(d.rng.randint(1, 3)):
        parts += quantised(d, dtype, shape)
    return [scale(d), zero(d, dtype), *parts], {"axis": axis}


@recipe("QLinearWhere", domain="com.microsoft")
def _(d):
    dtype, (c, a, b) = d.one_of(*QUANTISED), d.broadcast(3)[0]
    return [d.tensor("bool", c), *quantised(d, dtype, a), *quantised(d, dtype, b), scale(d), zero(d, dtype)], {}


@recipe("QGemm", domain="com.microsoft")
def _(d):
    a, b = d.one_of(("u8", "u8"), ("u8", "i8"), ("i8", "i8"))
    (x, y), _, _, n = matrices(d, a, b)
    values = [x, scale(d), zero(d, a), y, scale(d), zero(d, b), d.tensor("i32", [n], -50, 50) if d.chance() else None]
    if d.chance():
        values += [scale(d), zero(d, a)]
    return values, d.some(alpha=d.one_of(0.5, 1.0))


@recipe("QAttention", domain="com.microsoft")
def _(d):
    n, s, i, heads, e = d.rng.randint(1, 2), d.rng.randint(1, 3), d.rng.randint(1, 4), d.rng.randint(1, 2), d.one_of(2, 4)
    h, b = heads * e, d.one_of("u8", "i8")
    values = [d.tensor("u8", [n, s, i], 0, 255), d.fixed(b, [i, 3 * h], d.tensor(b, [i, 3 * h], -20, 20).values),
              d.fixed("f32", [3 * h], d.tensor("f32", [3 * h], -1, 1, 0).values),
              d.scalar("f32", 0.015625), d.scalar("f32", 0.03125)]
    mask = d.one_of(None, [n], [n, s], [n, s, s])
    if mask is None:
        values.append(None)
    elif mask == [n]:
        values.append(d.tensor("i32", mask, 1, s))
    else:
        values.append(d.tensor("i32", mask, 0, 1))
    if d.chance():
        values += [zero(d, "u8"), zero(d, b)]
    return values, {"num_heads": heads, **d.some(unidirectional=d.rng.randint(0, 1))}
