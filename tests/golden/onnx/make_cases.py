#!/usr/bin/env python3
"""Writes ONNX cases for operators that the ONNX project's own cases leave out or touch lightly: those of com.microsoft, and
Resize, GridSample, RoiAlign and others over their attributes.

    make_cases.py FOLDER [name ...]

Inputs are random multiples of 1/256 from a generator seeded with the case's name. Expected outputs come from image.py and
attention.py, which follow the specifications in exact or double arithmetic and share nothing with Tolk. Where other
runtimes read a specification in another way, the case is left out or avoids the difference; comments say so."""

import functools
import itertools
import math
import pathlib
import random
import struct
import sys
from fractions import Fraction

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[2] / "examples/demo")]
import attention
import image
from nested import Array, indices, made
from onnx_writer import data, number, real

TYPES = {"f32": (1, "f"), "i32": (6, "i"), "i64": (7, "q")}
CASES = {}


class Case:
    """One node. Inputs are None (left out), a shape (random numbers) or (dtype, Array). The reference gets the inputs in
    order, without those of `constants`, and gives the outputs."""

    def __init__(self, op, inputs, reference, attributes=None, opset=21, domain="", constants=(), types=("f32",), unnamed=()):
        self.op, self.inputs, self.reference, self.attributes = op, inputs, reference, attributes or {}
        self.opset, self.domain, self.constants, self.types, self.unnamed = opset, domain, constants, types, unnamed

    def values(self, name):
        source = random.Random(name)
        return [None if i is None else i if isinstance(i, tuple) and i[0] in TYPES
                else ("f32", made(i, lambda *_: source.randint(-256, 256) / 256)) for i in self.inputs]

    def outputs(self, values):
        results = self.reference(*(v[1] for k, v in enumerate(values) if v is not None and k not in self.constants))
        return results if isinstance(results, tuple) else (results,)


def ints(*values):
    return ("i32", Array([len(values)], values))


def longs(*values, shape=None):
    return ("i64", Array([len(values)] if shape is None else shape, values))


def floats(*values):
    return ("f32", Array([len(values)], values))


# ---- the cases

def resize_cases():
    size = (1, 2, 8, 12)
    # Every length is whole, so that readings of align_corners agree; the last two are for the others.
    scales = [("2.5", "1.5"), ("0.5", "0.75"), ("0.125", "1.25"), ("1.375", "1.3125"), ("0.6875", "0.5625")]
    transforms = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners", "half_pixel_symmetric")
    modes = [("nearest", n) for n in image.NEAREST] + [("linear", None), ("cubic", None)]
    for transform, (k, by), (mode, nearest) in itertools.product(transforms, enumerate(scales), modes):
        s = [Fraction(1), Fraction(1), *map(Fraction, by)]
        lengths = [math.floor(n * f) for n, f in zip(size, s)]
        if transform == "align_corners" and any(n * f != m for n, f, m in zip(size, s, lengths)):
            continue
        attributes = {"mode": mode, "coordinate_transformation_mode": transform}
        if nearest:
            attributes["nearest_mode"] = nearest
        reference = functools.partial(image.resize, lengths=lengths, scales=s, mode=mode, transform=transform,
                                      nearest=nearest or "floor")
        name = "_".join(filter(None, ("resize", mode, transform, str(k), nearest)))
        CASES[name] = Case("Resize", [size, None, floats(*map(float, s))], reference, attributes, 18, constants=(2,))
    for mode in ("linear", "cubic"): # with exclude_outside alone: borders are read in different ways without it
        lengths = [1, 2, 4, 3]
        s = [Fraction(m, n) for m, n in zip(lengths, (1, 2, 8, 9))]
        reference = functools.partial(image.resize, lengths=lengths, scales=s, mode=mode, antialias=True, exclude=True)
        CASES[f"resize_antialias_{mode}"] = Case("Resize", [(1, 2, 8, 9), None, None, longs(*lengths)], reference,
                                                 {"mode": mode, "antialias": 1, "exclude_outside": 1}, 18, constants=(3,))
    for op, opset in (("Resize", 10), ("Upsample", 9)):
        for mode in ("nearest", "linear"):
            s = [Fraction(1), Fraction(1), Fraction(2), Fraction(3)]
            reference = functools.partial(image.resize, lengths=[1, 2, 6, 12], scales=s, mode=mode, transform="asymmetric",
                                          nearest="floor")
            CASES[f"{op.lower()}{opset}_{mode}"] = Case(op, [(1, 2, 3, 4), floats(1, 1, 2, 3)], reference, {"mode": mode}, opset,
                                                        constants=(1,))
    s = [Fraction(1), Fraction(1), Fraction(2), Fraction(3, 2), Fraction(2)]
    CASES["resize_linear_3d"] = Case("Resize", [(1, 2, 3, 4, 5), None, floats(1, 1, 2, 1.5, 2)],
                                     functools.partial(image.resize, lengths=[1, 2, 6, 6, 10], scales=s, mode="linear"),
                                     {"mode": "linear"}, 18, constants=(2,))


def grid_cases():
    for mode, padding, align in itertools.product(("nearest", "linear", "cubic"), ("zeros", "border", "reflection"), (0, 1)):
        for rank, x, shape in ((2, (2, 3, 5, 6), (2, 4, 3, 2)), (3, (1, 2, 3, 4, 5), (1, 2, 3, 2, 3))):
            if rank == 3 and mode == "cubic":
                continue # not specified
            name = f"grid_{rank}d_{mode}_{padding}_{align}"
            source = random.Random("grid of " + name)
            # Beyond the image by up to a half; odd, so that no coordinate is half way between two pixels.
            grid = made(shape, lambda *_: (2 * source.randint(-192, 191) + 1) / 256)
            reference = functools.partial(image.grid_sample, mode=mode, padding=padding, align=bool(align))
            CASES[name] = Case("GridSample", [x, ("f32", grid)], reference,
                               {"mode": mode, "padding_mode": padding, "align_corners": align}, 20)


def vision_cases():
    rois = ("f32", Array([3, 4], [0, 0, 6, 5, 2, 1, 9, 8, 1, 2, 3.5, 7]))
    batches = longs(0, 1, 0)
    for opset, ratio in itertools.product((10, 16), (0, 2)):
        reference = functools.partial(image.roi_align, height=3, width=2, ratio=ratio, scale=0.75,
                                      offset=0.5 if opset == 16 else 0)
        attributes = {"output_height": 3, "output_width": 2, "sampling_ratio": ratio, "spatial_scale": 0.75}
        CASES[f"roi_{opset}_{ratio}"] = Case("RoiAlign", [(2, 3, 8, 9), rois, batches], reference, attributes, opset)
    CASES["deform"] = Case(
        "DeformConv", [(2, 4, 6, 7), (6, 2, 3, 3), (2, 36, 3, 4), (6,), (2, 18, 3, 4)],
        functools.partial(image.deform_conv, stride=2, pad=1, group=2, offset_group=2),
        {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "group": 2, "offset_group": 2}, 19)


def determinant(x):
    """By Leibniz's sum over permutations, in fractions."""
    def one(*i):
        n, total = x.shape[-1], Fraction(0)
        for order in itertools.permutations(range(n)):
            sign = (-1) ** sum(order[a] > order[b] for a in range(n) for b in range(a + 1, n))
            total += sign * math.prod(Fraction(x[(*i, r, c)]) for r, c in enumerate(order))
        return float(total)
    return made(x.shape[:-2], one)


def dft(x, axis, length, inverse=False):
    def element(*i):
        total = []
        for k in range(min(x.shape[axis], length)):
            angle = (1 if inverse else -1) * 2 * math.pi * ((k * i[axis]) % length) / length
            re, im = (x[(*i[:axis], k, *i[axis + 1:-1], p)] for p in (0, 1))
            parts = (re * math.cos(angle) - im * math.sin(angle), re * math.sin(angle) + im * math.cos(angle))
            total.append(parts[i[-1]])
        return math.fsum(total) / (length if inverse else 1)
    return made((*x.shape[:axis], length, *x.shape[axis + 1:]), element)


def suppressed(boxes, scores, most, limit, threshold):
    """NonMaxSuppression for boxes given by centre and size."""
    chosen = []
    for b, c in indices(scores.shape[:2]):
        kept = []
        for k in sorted(range(boxes.shape[1]), key=lambda k: -scores[b, c, k]):
            if scores[b, c, k] <= threshold[0,] or len(kept) == most[0,]:
                break

            def overlap(a):
                sides = [[(boxes[b, n, d] - boxes[b, n, d + 2] / 2, boxes[b, n, d] + boxes[b, n, d + 2] / 2) for d in (0, 1)]
                         for n in (a, k)]
                common = math.prod(max(0.0, min(p[1], q[1]) - max(p[0], q[0])) for p, q in zip(*sides))
                areas = [math.prod(s[1] - s[0] for s in both) for both in sides]
                return common / (sum(areas) - common)
            if all(overlap(a) <= limit[0,] for a in kept):
                kept.append(k)
        chosen += [value for k in kept for value in (b, c, k)]
    return Array([len(chosen) // 3, 3], chosen)


def unique(x, axis=None, order=True):
    rows = x.elements if axis is None else [tuple(x.elements[r * x.shape[1]:(r + 1) * x.shape[1]]) for r in range(x.shape[0])]
    seen = list(dict.fromkeys(rows))
    if order:
        seen.sort()
    values = Array([len(seen)], seen) if axis is None else Array([len(seen), x.shape[1]], [v for row in seen for v in row])
    return (values, Array([len(seen)], [rows.index(s) for s in seen]), Array([len(rows)], [seen.index(r) for r in rows]),
            Array([len(seen)], [rows.count(s) for s in seen]))


def number_cases():
    CASES["det"] = Case("Det", [(2, 3, 5, 5)], determinant, opset=11)
    CASES["dft_cut"] = Case("DFT", [(2, 9, 4, 2), longs(7, shape=()), longs(1, shape=())],
                            lambda x: dft(x, 1, 7), opset=20, constants=(1, 2))
    CASES["dft_inverse"] = Case("DFT", [(2, 9, 2), None, longs(1, shape=())], lambda x: dft(x, 1, 9, True), {"inverse": 1}, 20,
                                constants=(2,))
    source = random.Random("boxes")
    boxes = made((2, 6, 4), lambda *i: source.randint(256, 640) / 256)
    scores = Array((2, 2, 6), [s / 256 for s in source.sample(range(256), 24)])
    CASES["nms"] = Case("NonMaxSuppression", [("f32", boxes), ("f32", scores), longs(3), floats(0.3125), floats(0.203125)],
                        suppressed, {"center_point_box": 1}, 11, types=("i64",))
    CASES["unique_unsorted"] = Case("Unique", [longs(3, 1, 2, 3, 5, 1, 7, 2, 3, 0, shape=(2, 5))],
                                    lambda x: unique(x, order=False), {"sorted": 0}, 11, types=("i64",) * 4)
    CASES["unique_rows"] = Case("Unique", [longs(4, 1, 2, 0, 1, 9, 2, 0, 4, 1, 2, 0, shape=(3, 4))], lambda x: unique(x, 0),
                                {"axis": 0}, 11, types=("i64",) * 4)


def function_cases():
    def each(function):
        return lambda x, b=None: made(x.shape, lambda *i: function(x[i] + (b[i[-1],] if b else 0.0)))
    for name, op, inputs, function in (
            ("bias_gelu", "BiasGelu", [(2, 3, 6), (6,)], attention.gelu), ("gelu", "Gelu", [(2, 3, 6)], attention.gelu),
            ("fast_gelu", "FastGelu", [(2, 3, 6), (6,)], attention.fast_gelu),
            ("quick_gelu", "QuickGelu", [(2, 3, 6)], lambda v: v / (1 + math.exp(-1.702 * v)))):
        CASES[name] = Case(op, inputs, each(function), domain="com.microsoft")
    for a, b in itertools.product((0, 1), (0, 1)):
        def product(x, y, a=a, b=b):
            return made((2, 3, 5), lambda n, i, j: 0.5 * math.fsum(
                x[(n, k, i) if a else (n, i, k)] * y[(n, j, k) if b else (n, k, j)] for k in range(4)))
        shapes = [(2, 4, 3) if a else (2, 3, 4), (2, 5, 4) if b else (2, 4, 5)]
        CASES[f"fused_matmul_{a}{b}"] = Case("FusedMatMul", shapes, product,
                                             {"transA": a, "transB": b, "alpha": 0.5}, domain="com.microsoft")
    small = {"epsilon": 2.0 ** -17} # a number that f32 holds

    def total(x, y, bias=None):
        return made(x.shape, lambda *i: x[i] + y[i] + (bias[i[-1],] if bias else 0.0))

    def skip(x, y, gamma, beta=None, bias=None, centred=True):
        s = total(x, y, bias)
        return attention.normalised(s, gamma, beta, small["epsilon"], centred), s
    x, row = (2, 3, 6), (6,)
    CASES["skip_layer_norm"] = Case("SkipLayerNormalization", [x, x, row, row], skip, small, domain="com.microsoft",
                                    types=("f32", "f32"), unnamed=(1, 2))
    CASES["skip_layer_norm_bias"] = Case("SkipLayerNormalization", [x, x, row, row, row], lambda *v: skip(*v)[0], small,
                                         domain="com.microsoft")
    CASES["skip_rms_norm"] = Case("SkipSimplifiedLayerNormalization", [x, x, row], functools.partial(skip, centred=False), small,
                                  domain="com.microsoft", types=("f32", "f32"), unnamed=(1, 2))
    CASES["rms_norm"] = Case("SimplifiedLayerNormalization", [x, row],
                             lambda v, gamma: attention.normalised(v, gamma, None, small["epsilon"], False), small)

    def embedded(words, segments, word, place, segment, gamma, beta, mask):
        s = made((2, 3, 6), lambda b, i, d: word[words[b, i], d] + place[i, d] + segment[segments[b, i], d])
        return (attention.normalised(s, gamma, beta, small["epsilon"]),
                Array([2], [sum(mask[b, i] for i in range(3)) for b in range(2)]))
    table = [("i32", Array([2, 3], v)) for v in ([7, 0, 3, 2, 2, 5], [0, 1, 1, 0, 0, 1], [1, 1, 0, 1, 1, 1])]
    CASES["embed_layer_norm"] = Case("EmbedLayerNormalization", [table[0], table[1], (8, 6), (5, 6), (2, 6), row, row, table[2]],
                                     embedded, small, domain="com.microsoft", types=("f32", "i32"))


def attention_cases():
    def packed(x, weight, bias, mask=None, past=None, causal=False, sizes=(16, 16, 16)):
        """com.microsoft.Attention: one product for queries, keys and values."""
        def part(k):
            begin = sum(sizes[:k])
            return attention.split(made((2, 3, sizes[k]), lambda b, i, c: bias[begin + c,] + math.fsum(
                x[b, i, d] * weight[d, begin + c] for d in range(10))), 2)
        q, k, v = part(0), part(1), part(2)
        present = None
        if past is not None:
            old = [made(past.shape[1:], lambda *i, p=p: past[(p, *i)]) for p in (0, 1)]
            k, v = attention.longer(old[0], k), attention.longer(old[1], v)
            present = Array((2, *k.shape), k.elements + v.elements)
        before, seen = k.shape[2] - 3, attention.mask_of(mask)
        out = attention.joined(attention.attend(q, k, v, q.shape[3] ** -0.5,
                                                lambda b, i, j: seen(b, i, j) and (not causal or j <= i + before)))
        return (out, present) if past is not None else out
    x, w, b = (2, 3, 10), (10, 48), (48,)
    mask, lengths = ("i32", Array([2, 3], [1, 1, 0, 1, 1, 1])), ints(2, 3)
    two = {"num_heads": 2}
    # A row of a mask keeps a key that causality allows: a query without any key is read in different ways.
    for name, inputs, reference, more in (
            ("plain", [x, w, b], packed, {}),
            ("causal", [x, w, b], functools.partial(packed, causal=True), {"unidirectional": 1}),
            ("mask", [x, w, b, mask], packed, {}), ("lengths", [x, w, b, lengths], packed, {}),
            ("sizes", [x, (10, 44), (44,)], functools.partial(packed, sizes=(16, 16, 12)), {"qkv_hidden_sizes": [16, 16, 12]}),
            ("past", [x, w, b, None, (2, 2, 2, 4, 8)], lambda *v: packed(*v[:3], past=v[3], causal=True), {"unidirectional": 1})):
        CASES["attention_" + name] = Case("Attention", inputs, reference, {**two, **more}, domain="com.microsoft",
                                          types=("f32",) * (2 if name == "past" else 1))

    def multi(q, k, v, heads=2, scale=None, causal=False, seen=lambda b, i, j: True, bias=None, past=None):
        q = attention.split(q, heads)
        k, v = (t if len(t.shape) == 4 else attention.split(t, heads) for t in (k, v))
        if past:
            k, v = attention.longer(past[0], k), attention.longer(past[1], v)
        before = k.shape[2] - q.shape[2]
        out = attention.joined(attention.attend(
            q, k, v, scale or q.shape[3] ** -0.5, lambda b, i, j: seen(b, i, j) and (not causal or j <= i + before),
            (lambda b, h, i, j: bias[0, h, i, j]) if bias else (lambda *_: 0.0)))
        return (out, k, v) if past else out

    def biased(q, k, v, bias):
        def plus(t, begin):
            return made(t.shape, lambda b, i, c: t[b, i, c] + bias[begin + c,])
        return multi(plus(q, 0), plus(k, 16), plus(v, 32), scale=0.3125)
    q, k, past = (2, 3, 16), (2, 5, 16), (2, 2, 4, 8)
    keys = ("i32", Array([2, 5], [1, 0, 1, 1, 0, 1, 1, 1, 1, 0]))
    for name, inputs, reference, more in (
            ("plain", [q, k, k], multi, {}), ("causal", [k, k, k], functools.partial(multi, causal=True), {"unidirectional": 1}),
            ("bias", [q, k, (2, 5, 12), (44,)], biased, {"scale": 0.3125}),
            ("mask", [q, k, k, None, keys], lambda *v: multi(*v[:3], seen=attention.mask_of(v[3])), {}),
            ("lengths", [q, k, k, None, ints(3, 4)], lambda *v: multi(*v[:3], seen=attention.mask_of(v[3])), {}),
            ("added", [q, k, k, None, None, (1, 2, 3, 5)], lambda *v: multi(*v[:3], bias=v[3]), {}),
            ("cross", [q, (2, 2, 5, 8), (2, 2, 5, 8)], multi, {}),
            ("past", [q, q, q, None, None, None, past, past], lambda *v: multi(*v[:3], past=v[3:]), {}),
            ("past_causal", [q, q, q, None, None, None, past, past], lambda *v: multi(*v[:3], past=v[3:], causal=True),
             {"unidirectional": 1})):
        CASES["multi_head_" + name] = Case("MultiHeadAttention", inputs, reference, {**two, **more}, domain="com.microsoft",
                                           types=("f32",) * (3 if "past" in name else 1))

    def opset23(q, k, v):
        return attention.attend(q, k, v, q.shape[3] ** -0.5, lambda b, i, j: j <= i)
    CASES["attention_opset23"] = Case("Attention", [(2, 4, 3, 8), (2, 2, 5, 8), (2, 2, 5, 8)], opset23, {"is_causal": 1}, 23)


def group_query_cases():
    def case(name, batch, length, size, past=None, last=None, total=None, heads=4, kv=2, rotary=False, **more):
        """`past` is the number of cached positions, `last` the number of keys of each batch less one."""
        last = last or [length - 1] * batch
        inputs = [(batch, length, heads * size), (batch, length, kv * size), (batch, length, kv * size)]
        inputs += [(batch, kv, past, size)] * 2 if past else [None, None]
        inputs += [ints(*last), ints(total or max(last) + 1)]
        attributes = {"num_heads": heads, "kv_num_heads": kv}
        if rotary:
            inputs += [(32, size // 2), (32, size // 2)]
            attributes["do_rotary"] = 1
        attributes.update(more)

        def reference(q, k, v, *rest):
            past_k, past_v = rest[:2] if past else (None, None)
            rest = rest[2 if past else 0:]
            cos, sin = rest[2:] if rotary else (None, None)
            return attention.group_query(q, k, v, past_k, past_v, rest[0], heads, kv, cos, sin,
                                         bool(more.get("rotary_interleaved")), more.get("scale"), more.get("softcap", 0.0),
                                         more.get("local_window_size", -1))
        CASES["group_query_" + name] = Case("GroupQueryAttention", inputs, reference, attributes, domain="com.microsoft",
                                            types=("f32",) * 3)
    case("prompt", 2, 4, 8)
    case("prompt_rotary", 2, 4, 16, rotary=True)
    case("prompt_interleaved", 1, 4, 16, rotary=True, rotary_interleaved=1)
    case("prompt_softcap", 2, 4, 8, softcap=2.0)
    case("prompt_scale", 1, 4, 8, heads=2, kv=2, scale=0.6875)
    case("prompt_window", 2, 6, 8, local_window_size=3)
    case("decode", 2, 1, 8, past=5, last=[5, 5])
    case("decode_rotary", 2, 1, 16, past=5, last=[5, 5], rotary=True)
    case("decode_ragged", 2, 1, 8, past=5, last=[5, 3])
    case("chunk", 1, 3, 8, past=5, last=[7])
    case("chunk_rotary", 1, 3, 16, past=5, last=[7], rotary=True)


def rotary_cases():
    for shape, positions, interleaved in itertools.product(((2, 3, 24), (2, 3, 4, 8)), ("each", "offset"), (0, 1)):
        four = len(shape) == 4
        place = longs(*range(3, 3 + 2 * (4 if four else 3)), shape=(2, 4 if four else 3)) if positions == "each" else longs(5)

        def reference(x, at, cos, sin, four=four, interleaved=interleaved):
            def position(b, i):
                return at[b, i] if len(at.shape) == 2 else at[0,] + i
            heads = x if four else attention.split(x, 3)
            out = attention.rotated(heads, position, cos, sin, bool(interleaved), 8)
            return out if four else attention.joined(out)
        CASES[f"rotary_{len(shape)}d_{positions}_{interleaved}"] = Case(
            "RotaryEmbedding", [shape, place, (16, 4), (16, 4)], reference, {"interleaved": interleaved}, domain="com.microsoft")
    for interleaved in (0, 1):
        def reference(x, at, cos, sin, interleaved=interleaved):
            heads = attention.split(x, 3)
            return attention.joined(attention.rotated(heads, lambda b, i: at[b, i], cos, sin, bool(interleaved), 8))
        CASES[f"rotary_part_{interleaved}"] = Case(
            "RotaryEmbedding", [(2, 3, 48), longs(*range(6), shape=(2, 3)), (16, 4), (16, 4)], reference,
            {"interleaved": interleaved, "num_heads": 3, "rotary_embedding_dim": 8}, domain="com.microsoft")


for build in (resize_cases, grid_cases, vision_cases, number_cases, function_cases, attention_cases, group_query_cases,
              rotary_cases):
    build()


# ---- files. Field numbers are those of onnx.proto3.

def tensor(dtype, array, name):
    code, letter = TYPES[dtype]
    return (b"".join(number(1, d) for d in array.shape) + number(2, code) + data(8, name)
            + data(9, struct.pack(f"<{len(array.elements)}{letter}", *array.elements)))


def attribute(name, value):
    if isinstance(value, str):
        return data(1, name) + data(4, value) + number(20, 3)
    if isinstance(value, float):
        return data(1, name) + real(2, value) + number(20, 1)
    if isinstance(value, int):
        return data(1, name) + number(3, value) + number(20, 2)
    return data(1, name) + b"".join(number(8, v) for v in value) + number(20, 7)


def typed(name, dtype, shape):
    dims = b"" if shape is None else data(2, b"".join(data(1, number(1, d)) for d in shape))
    return data(1, name) + data(2, data(1, number(1, TYPES[dtype][0]) + dims))


def write(folder, name):
    case = CASES[name]
    values = case.values(name)
    results = case.outputs(values)
    assert len(results) == len(case.types), name
    labels = ["" if v is None else f"x{k}" for k, v in enumerate(values)]
    outputs = []
    for k in range(len(case.types)):
        outputs += ["y" + str(k)] if k == 0 or not case.unnamed else [""] * len(case.unnamed) + ["y" + str(k)]
    node = (b"".join(data(1, label) for label in labels) + b"".join(data(2, o) for o in outputs) + data(4, case.op)
            + b"".join(data(5, attribute(*item)) for item in case.attributes.items()) + data(7, case.domain))
    graph = data(1, node) + data(2, name)
    for k, value in enumerate(values):
        if k in case.constants:
            graph += data(5, tensor(*value, labels[k]))
        elif value is not None:
            graph += data(11, typed(labels[k], value[0], value[1].shape))
    for k, dtype in enumerate(case.types):
        graph += data(12, typed(f"y{k}", dtype, None))
    domains = {"": case.opset, **({case.domain: 1} if case.domain else {})}
    model = number(1, 10) + data(7, graph) + b"".join(data(8, data(1, d) + number(2, v)) for d, v in domains.items())
    test = pathlib.Path(folder) / name / "test_data_set_0"
    test.mkdir(parents=True, exist_ok=True)
    (test.parent / "model.onnx").write_bytes(model)
    given = [(v, label) for k, (v, label) in enumerate(zip(values, labels)) if v is not None and k not in case.constants]
    for k, (value, label) in enumerate(given):
        (test / f"input_{k}.pb").write_bytes(tensor(*value, label))
    for k, (dtype, value) in enumerate(zip(case.types, results)):
        (test / f"output_{k}.pb").write_bytes(tensor(dtype, value, f"y{k}"))


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    names = sys.argv[2:] or list(CASES)
    for name in names:
        write(sys.argv[1], name)
    print(f"{len(names)} cases in {sys.argv[1]}")


if __name__ == "__main__":
    main()
