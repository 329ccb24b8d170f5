"""Recipes of node_drawing.py: elementwise operators, shapes, indices, reductions."""

import math

from node_drawing import FLOATS, NUMBERS, WIDTHS, recipe
from onnx_writer import Tensor

# ---- elementwise

def each(d, dtype, count):
    return [d.tensor(dtype, s) for s in d.broadcast(count)[0]]


@recipe("Add", "Sub", "Mul", "Less", "Greater", "LessOrEqual", "GreaterOrEqual")
def _(d):
    return each(d, d.one_of(*NUMBERS), 2), {}


@recipe("Div", "Mod")
def _(d):
    dtype = d.one_of(*NUMBERS) if d.name == "Div" else d.one_of("i32", "i64", "i8", "u8", "f32", "f64")
    a, b = each(d, dtype, 2)
    if dtype in WIDTHS:
        b.values = [v or 1 for v in b.values]
    fmod = d.name == "Mod" and (dtype not in WIDTHS or d.chance(0.3))
    return [a, b], {"fmod": 1} if fmod else {}


@recipe("Equal")
def _(d):
    return each(d, d.one_of(*NUMBERS, "bool", *(["string"] if d.opset >= 19 else [])), 2), {}


@recipe("Pow")
def _(d):
    a, b = d.broadcast(2)[0]
    return [d.tensor(d.one_of("f32", "f32", "f64", "i32", "i64"), a), d.tensor(d.one_of("f32", "f32", "f64", "i32", "i64"), b,
                                                                               -3, 3)], {}


@recipe("And", "Or", "Xor")
def _(d):
    return each(d, "bool", 2), {}


@recipe("BitwiseAnd", "BitwiseOr", "BitwiseXor", since=18)
def _(d):
    return each(d, d.one_of(*WIDTHS), 2), {}


@recipe("BitwiseNot", since=18)
def _(d):
    return [d.tensor(d.one_of(*WIDTHS), d.shape())], {}


@recipe("BitShift")
def _(d):
    dtype, (a, b) = d.one_of("u8", "u32", "u64"), d.broadcast(2)[0]
    return [d.tensor(dtype, a, 0, 255), d.tensor(dtype, b, 0, 7)], {"direction": d.one_of("LEFT", "RIGHT")}


@recipe("Max", "Min")
def _(d):
    return each(d, d.one_of("f32", "f32", "f64", "i32", "i64", "u32", "u64"), d.rng.randint(1, 3)), {}


@recipe("Sum", "Mean")
def _(d):
    return each(d, "f32", d.rng.randint(1, 3)), {}


@recipe("Where")
def _(d):
    dtype, (c, a, b) = d.one_of("f32", "f32", "i64", "i32", "u8", "string"), d.broadcast(3)[0]
    return [d.tensor("bool", c), d.tensor(dtype, a), d.tensor(dtype, b)], {}


@recipe("PRelu")
def _(d):
    dtype, shape = "f32", d.shape()
    slope = [1 if d.chance(0.3) else n for n in shape]
    return [d.tensor(dtype, shape), d.tensor(dtype, slope[d.rng.randint(0, len(slope)):] if d.chance() else slope)], {}


@recipe("Clip")
def _(d):
    dtype = d.one_of("f32", "f32", "f64", *(["i32", "i64", "i8", "u8", "u32", "u64"] if d.opset >= 12 else []))
    low, high = d.tensor(dtype, [], -4, 2, 0), d.tensor(dtype, [], -2, 4, 0)
    return [d.tensor(dtype, d.shape()), low if d.chance(0.7) else None, high if d.chance(0.7) else None], {}


@recipe("Neg", "Abs", "Sign", "Identity", "Relu")
def _(d):
    types = {"Neg": ("i8", "i32", "i64"), "Relu": ("i32",) if d.opset >= 14 else ()}.get(d.name,
                                                                                         ("i8", "u8", "i32", "i64", "u32", "u64"))
    return [d.tensor(d.one_of(*FLOATS, *types, *(["string", "bool"] if d.name == "Identity" else [])), d.shape())], {}


@recipe("Not")
def _(d):
    return [d.tensor("bool", d.shape())], {}


@recipe("Floor", "Ceil", "Round", "Sqrt", "Reciprocal", "Exp", "Log", "Sin", "Cos", "Sigmoid", "Tanh")
def _(d):
    return [d.tensor(d.one_of(*FLOATS), d.shape())], {}


@recipe("Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh", "Erf", "Softplus", "Softsign")
def _(d):
    return [d.tensor("f32", d.shape())], {}


@recipe("Mish", since=18)
@recipe("HardSwish", since=14)
@recipe("Swish", since=24)
def _(d):
    return [d.tensor("f32", d.shape())], {}


@recipe("IsNaN", "IsInf")
def _(d):
    attributes = d.some(detect_negative=d.rng.randint(0, 1), detect_positive=d.rng.randint(0, 1)) if d.name == "IsInf" else {}
    return [d.tensor(d.one_of(*FLOATS), d.shape(), special=0.4)], attributes


@recipe("LeakyRelu", "Elu", "Celu", "Selu", "HardSigmoid", "ThresholdedRelu", "Shrink")
def _(d):
    names = {"LeakyRelu": ("alpha",), "Elu": ("alpha",), "Celu": ("alpha",), "ThresholdedRelu": ("alpha",),
             "Selu": ("alpha", "gamma"),
             "HardSigmoid": ("alpha", "beta"), "Shrink": ("bias", "lambd")}[d.name]
    dtype = d.one_of("f32", "f64", "i32", "i64", "i8", "u8") if d.name == "Shrink" else "f32"
    return [d.tensor(dtype, d.shape())], d.some(**{n: d.one_of(0.25, 0.5, 1.0, 1.5, 2.0) for n in names})


@recipe("Gelu", since=20)
def _(d):
    return [d.tensor("f32", d.shape())], d.some(approximate=d.one_of("none", "tanh"))


@recipe("Gelu", "QuickGelu", "FastGelu", "BiasGelu", domain="com.microsoft")
def _(d):
    x = d.tensor("f32", d.shape(1))
    bias = [d.tensor("f32", x.shape[-1:])] if d.name == "BiasGelu" or (d.name == "FastGelu" and d.chance()) else []
    return [x, *bias], d.some(alpha=d.one_of(1.0, 1.5)) if d.name == "QuickGelu" else {}


# ---- shapes

ANY = ("f32", "f32", "f64", "i32", "i64", "u8", "bool", "string")


@recipe("Constant")
def _(d):
    value = {"value": d.tensor(d.one_of("f32", "i64", "u8", "bool", "string"), d.shape())}
    if d.opset >= 12:
        value = d.one_of(value, {"value_float": 1.5}, {"value_int": 7}, {"value_floats": [0.5, 2.0]}, {"value_ints": [3, -1]},
                         {"value_string": "a"}, {"value_strings": ["a", "b"]})
    return [], value


@recipe("ConstantOfShape")
def _(d):
    return [d.ints(d.shape())], d.some(value=d.tensor(d.one_of("f32", "f64", "i64", "i32", "u8", "bool"), [1]))


@recipe("Shape", "Size")
def _(d):
    attributes = d.some(start=d.rng.randint(-3, 3), end=d.rng.randint(-3, 3)) if d.name == "Shape" and d.opset >= 15 else {}
    return [d.tensor(d.one_of(*ANY), d.shape())], attributes


@recipe("Reshape")
def _(d):
    x = d.tensor(d.one_of(*ANY[:-1]), d.shape(1))
    to = d.one_of([-1], [1, -1], x.shape[::-1], [0] * len(x.shape), [*x.shape[:-1], -1, 1], [math.prod(x.shape)])
    return [x, d.ints(to)], {}


@recipe("Flatten")
def _(d):
    x = d.tensor(d.one_of(*ANY[:-1]), d.shape())
    return [x], {"axis": d.rng.randint(-len(x.shape), len(x.shape))} if d.chance(0.8) or not x.shape else {}


@recipe("Transpose")
def _(d):
    x = d.tensor(d.one_of(*ANY[:-1]), d.shape())
    return [x], {"perm": d.rng.sample(range(len(x.shape)), len(x.shape))} if x.shape and d.chance(0.8) else {}


def axes_of(d, values, attributes, axes, since):
    """Axes as the attribute of older versions or as the last input of newer ones."""
    if axes is None:
        return values, attributes
    return (values + [d.ints(axes)], attributes) if d.opset >= since else (values, {**attributes, "axes": axes})


@recipe("Squeeze")
def _(d):
    shape = d.shape(1)
    ones = d.rng.sample(range(len(shape)), d.rng.randint(1, len(shape)))
    for a in ones:
        shape[a] = 1
    return axes_of(d, [d.tensor(d.one_of(*ANY[:-1]), shape)], {}, ones if d.chance(0.7) else None, 13)


@recipe("Unsqueeze")
def _(d):
    x, more = d.tensor(d.one_of(*ANY[:-1]), d.shape(0, 3)), d.rng.randint(1, 2)
    return axes_of(d, [x], {}, d.rng.sample(range(len(x.shape) + more), more), 13)


@recipe("Expand")
def _(d):
    (a, b), _ = d.broadcast(2)
    return [d.tensor(d.one_of(*ANY[:-1]), a), d.ints(b)], {}


@recipe("Concat")
def _(d):
    shape, dtype = d.shape(1), d.one_of(*ANY[:-1])
    axis, parts = d.axis(len(shape)), []
    for _ in range(d.rng.randint(1, 3)):
        part = list(shape)
        part[axis] = d.rng.randint(0, 3)
        parts.append(d.tensor(dtype, part))
    return parts, {"axis": axis}


@recipe("Split")
def _(d):
    shape, count = d.shape(1), d.rng.randint(1, 3)
    axis, sizes = d.axis(len(shape)), [d.rng.randint(0, 3) for _ in range(count)]
    given = d.chance()
    shape[axis] = sum(sizes) if given else count * d.rng.randint(1, 2)
    values, attributes = [d.tensor(d.one_of("f32", "i64", "i32", "u8"), shape)], {"axis": axis}
    if given:
        if d.opset >= 13:
            values.append(d.ints(sizes))
        else:
            attributes["split"] = sizes
    elif d.opset >= 18:
        attributes["num_outputs"] = count
    return values, attributes, count


@recipe("Slice")
def _(d):
    x = d.tensor(d.one_of("f32", "f64", "i64", "i32", "u8", "string"), d.shape(1))
    axes = d.axes(len(x.shape), 1)
    number = lambda: d.ints([d.one_of(-10, -3, -2, -1, 0, 1, 2, 3, 10, 2**63 - 1, -(2**63)) for _ in axes])
    return [x, number(), number(), d.ints(axes), d.ints([d.one_of(1, 1, 2, 3, -1, -2) for _ in axes])], {}


@recipe("Tile")
def _(d):
    x = d.tensor(d.one_of("f32", "f64", "i64", "i32", "u8", "bool"), d.shape(1))
    return [x, d.ints([d.rng.randint(0 if d.chance(0.1) else 1, 3) for _ in x.shape])], {}


@recipe("Pad")
def _(d):
    mode = d.one_of("constant", "constant", "reflect", "edge", *(["wrap"] if d.opset >= 19 else []))
    dtype, shape = d.one_of("f32", "f32", "f64", "i32", "i64", "u8"), d.shape(1, sizes=(2, 3, 4, 5))
    pads = d.ints([d.rng.randint(-1 if mode == "constant" and d.chance(0.2) else 0,
                                 1 if mode != "constant" else 2) for _ in shape * 2])
    return [d.tensor(dtype, shape), pads,
            *([d.tensor(dtype, [], 1)] if mode == "constant" and d.chance() else [])], {"mode": mode}


CODES = {"f32": 1, "u8": 2, "i8": 3, "u16": 4, "i16": 5, "i32": 6, "i64": 7, "string": 8, "bool": 9, "f16": 10, "f64": 11,
         "u32": 12, "u64": 13}


@recipe("Cast")
def _(d):
    to = d.one_of(*CODES)
    x = d.tensor(d.one_of(*CODES), d.shape())
    if x.dtype == "string":
        x.values = [d.one_of("1", "-3", "2.5", "1e3", "inf", "nan") if to in ("f32", "f64", "f16") else d.one_of("1", "7", "23")
                    for _ in x.values]
    return [x], {"to": CODES[to]}


@recipe("CastLike", since=15)
def _(d):
    return [d.tensor(d.one_of("f32", "f64", "i32", "u8", "bool"), d.shape()),
            d.tensor(d.one_of("f32", "f64", "i8", "i64", "u8", "bool"), [1])], {}


@recipe("Range")
def _(d):
    dtype = d.one_of("f32", "f64", "i32", "i64", "i16")
    step = d.one_of(1, 2, -1, -2, *([0.5, -0.25] if dtype[0] == "f" else []))
    return [d.scalar(dtype, d.rng.randint(-5, 5)), d.scalar(dtype, d.rng.randint(-5, 5)), d.scalar(dtype, step)], {}


@recipe("EyeLike")
def _(d):
    return [d.tensor(d.one_of("f32", "f64", "i64", "i32"), d.shape(2, 2))], d.some(dtype=d.one_of(1, 7, 11, 6),
                                                                                   k=d.rng.randint(-6, 6))


@recipe("Trilu", since=14)
def _(d):
    x = d.tensor(d.one_of("f32", "f64", "i64", "bool"), d.shape(2))
    return [x, *([d.scalar("i64", d.rng.randint(-6, 6))] if d.chance() else [])], d.some(upper=d.rng.randint(0, 1))


@recipe("DepthToSpace", "SpaceToDepth")
def _(d):
    b, n, c, h, w = d.rng.randint(1, 3), *[d.rng.randint(1, 3) for _ in range(4)]
    shape = [n, c * b * b, h, w] if d.name == "DepthToSpace" else [n, c, h * b, w * b]
    return [d.tensor("f32", shape)], {"blocksize": b, **(d.some(mode=d.one_of("DCR", "CRD")) if d.name == "DepthToSpace" else {})}


@recipe("CenterCropPad", since=18)
def _(d):
    x = d.tensor(d.one_of("f32", "i64"), d.shape(1))
    axes = d.axes(len(x.shape), 1) if d.chance() else None
    return [x, d.ints([d.rng.randint(1, 6) for _ in axes or x.shape])], {"axes": axes} if axes else {}


# ---- indices

@recipe("Gather")
def _(d):
    x = d.tensor(d.one_of("f32", "f64", "i64", "u8", "string"), d.shape(1))
    axis = d.axis(len(x.shape))
    return [x, d.tensor(d.one_of("i64", "i32"), d.shape(0, 3), -x.shape[axis], x.shape[axis] - 1)], {"axis": axis}


def corner(d, shape, axis):
    return [d.rng.randint(1, 4) if a == axis % len(shape) else d.rng.randint(1, n) for a, n in enumerate(shape)]


@recipe("GatherElements")
def _(d):
    x = d.tensor(d.one_of("f32", "f64", "i64", "u8", "string"), d.shape(1))
    axis = d.axis(len(x.shape))
    return [x, d.tensor(d.one_of("i64", "i32"), corner(d, x.shape, axis), -x.shape[axis], x.shape[axis] - 1)], {"axis": axis}


@recipe("ScatterElements")
def _(d):
    x = d.tensor(d.one_of("f32", "f64", "i64"), d.shape(1))
    axis, reduction = d.axis(len(x.shape)), d.one_of("none", "add", "mul", "max", "min") if d.opset >= 18 else "none"
    shape = corner(d, x.shape, axis)
    shape[axis] = min(shape[axis], x.shape[axis])
    index = d.tensor("i64", shape)
    if reduction == "none":  # with a place twice the result is anyone's
        order = d.rng.sample(range(x.shape[axis]), shape[axis])
        inner = math.prod(shape[axis % len(shape) + 1:])
        index.values = [order[i // inner % shape[axis]] for i in range(math.prod(shape))]
    else:
        index.values = [d.rng.randint(-x.shape[axis], x.shape[axis] - 1) for _ in index.values]
    return [x, index, d.tensor(x.dtype, shape)], {"axis": axis, **({"reduction": reduction} if reduction != "none" else {})}


def positions(d, sizes, count, distinct):
    """Rows of positions within `sizes`, distinct as far as asked."""
    places = list(range(math.prod(sizes)))
    chosen = d.rng.sample(places, min(count, len(places))) if distinct else [d.rng.choice(places) for _ in range(count)]
    rows = []
    for place in chosen:
        row = []
        for n in reversed(sizes):
            row.insert(0, place % n)
            place //= n
        rows.append(row)
    return rows


@recipe("ScatterND")
def _(d):
    x = d.tensor(d.one_of("f32", "f64", "i64"), d.shape(1))
    depth = d.rng.randint(1, len(x.shape))
    reduction = d.one_of("none", "add", "mul", "max", "min") if d.opset >= 18 else d.one_of("none", "add",
                                                                                            "mul") if d.opset >= 16 else "none"
    rows = positions(d, x.shape[:depth], d.rng.randint(1, 4), reduction == "none")
    index = Tensor("i64", [len(rows), depth], sum(rows, []))
    return [x, index, d.tensor(x.dtype, [len(rows), *x.shape[depth:]])], {"reduction": reduction} if reduction != "none" else {}


@recipe("GatherND")
def _(d):
    x, batch = d.tensor(d.one_of("f32", "f64", "i64"), d.shape(1)), 0
    if len(x.shape) > 1 and d.opset >= 12:
        batch = d.rng.randint(0, 1)
    depth = d.rng.randint(1, len(x.shape) - batch)
    count = d.rng.randint(1, 3)
    rows = positions(d, x.shape[batch:batch + depth], count * (x.shape[0] if batch else 1), False)
    return [x, Tensor("i64", x.shape[:batch] + [count, depth], sum(rows, []))], {"batch_dims": batch} if batch else {}


@recipe("OneHot")
def _(d):
    shape, depth = d.shape(0, 3), d.rng.randint(1, 5)
    return ([d.tensor("i64", shape, -7, 7), d.scalar("i64", depth), d.tensor(d.one_of("f32", "i64"), [2], special=0)],
            d.some(axis=d.axis(len(shape) + 1)))


@recipe("TopK")
def _(d):
    x = d.tensor(d.one_of("f32", "f64", "i64", "i32"), d.shape(1))
    axis = d.axis(len(x.shape))
    return [x, d.ints([d.rng.randint(1, x.shape[axis])])], {"axis": axis, **d.some(largest=d.rng.randint(0, 1))}, 2


@recipe("NonZero")
def _(d):
    return [d.tensor(d.one_of("f32", "i64", "i32", "u8", "bool"), d.shape(1), -1, 1)], {}


@recipe("Compress")
def _(d):
    x = d.tensor(d.one_of("f32", "i64", "string", "bool"), d.shape(1))
    axis = d.axis(len(x.shape)) if d.chance() else None
    n = math.prod(x.shape) if axis is None else x.shape[axis]
    return [x, d.tensor("bool", [d.rng.randint(1, n)])], {} if axis is None else {"axis": axis}


@recipe("ReverseSequence")
def _(d):
    x = d.tensor(d.one_of("f32", "i64"), d.shape(2))
    time = d.rng.randint(0, 1)
    return [x, d.tensor("i64", [x.shape[1 - time]], 1, x.shape[time])], {"time_axis": time, "batch_axis": 1 - time}


@recipe("NonMaxSuppression")
def _(d):
    n, boxes, classes = d.rng.randint(1, 2), d.rng.randint(1, 6), d.rng.randint(1, 2)
    limits = [d.ints([d.rng.randint(0, 4)]), d.fixed("f32", [1], [d.one_of(0.0, 0.25, 0.5, 0.75)]),
              d.fixed("f32", [1], [d.one_of(0.0, -2.0, 0.5)])]
    # Scores all differ: between equal ones the order is anyone's.
    scores = Tensor("f32", [n, classes, boxes], [v / 8 for v in d.rng.sample(range(-32, 33), n * classes * boxes)])
    return ([d.tensor("f32", [n, boxes, 4], 0, 2, 0), scores, *limits[:d.rng.randint(1, 3)]],
            d.some(center_point_box=d.rng.randint(0, 1)))


@recipe("Unique")
def _(d):
    x = d.tensor(d.one_of("f32", "f64", "i64", "i8", "string"), d.shape(1), -2, 2)
    return [x], d.some(axis=d.axis(len(x.shape)), sorted=d.rng.randint(0, 1)), d.rng.randint(1, 4)


# ---- reductions

@recipe("ReduceSum", "ReduceSumSquare", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMean", "ReduceProd",
        "ReduceMax",
        "ReduceMin")
def _(d):
    integers = {"ReduceMax": ("i8", "u8", "i32", "i64"), "ReduceMin": ("i8", "u8", "i32", "i64"), "ReduceSum": ("i32", "i64"),
                "ReduceProd": ("i32",
                               "i64"), "ReduceMean": ("i32",), "ReduceSumSquare": ("i32",), "ReduceL1": ("i32",)}.get(d.name, ())
    x = d.tensor(d.one_of("f32", "f32", "f32", "f64", *integers), d.shape(1), 0 if d.name == "ReduceLogSum" else None)
    return axes_of(d, [x], d.some(keepdims=d.rng.randint(0, 1)), d.axes(len(x.shape), 1) if d.chance(0.8) else None,
                   13 if d.name == "ReduceSum" else 18)


@recipe("ArgMax", "ArgMin")
def _(d):
    x = d.tensor(d.one_of("f32", "f32", "f64", "i32", "i8", "u8"), d.shape(1))
    last = {"select_last_index": d.rng.randint(0, 1)} if d.opset >= 12 else {}
    return [x], d.some(axis=d.axis(len(x.shape)), keepdims=d.rng.randint(0, 1), **last)


@recipe("CumSum")
def _(d):
    x = d.tensor(d.one_of("f32", "f64", "i32", "i64"), d.shape(1))
    return [x, d.scalar(d.one_of("i64", "i32"), d.axis(len(x.shape)))], d.some(exclusive=d.rng.randint(0, 1),
                                                                               reverse=d.rng.randint(0, 1))


@recipe("Softmax", "LogSoftmax", "Hardmax")
def _(d):
    x = d.tensor(d.one_of("f32", "f32", "f64") if d.name != "Hardmax" else "f32", d.shape(1))
    return [x], {"axis": d.axis(len(x.shape))} if d.chance(0.7) or (d.opset < 13 and len(x.shape) < 2) else {}
