"""What the ONNX specification says of Resize, Upsample, GridSample, RoiAlign and DeformConv, one element at a time.

Coordinates are fractions, so that no rounding decides which pixel is meant; interpolated values are sums in double
precision. https://onnx.ai/onnx/operators has the formulas."""

import math
from fractions import Fraction

from nested import indices, made

HALF = Fraction(1, 2)


def cubic_weights(t, a=Fraction(-3, 4)):
    """Keys' cubic convolution at distance t to the right of the second of four pixels."""
    def near(d):
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d):
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return [far(1 + t), near(t), near(1 - t), far(2 - t)]


# ---- Resize

def source_coordinate(x, size, length, scale, mode):
    if mode == "align_corners":
        return Fraction(0) if length == 1 else Fraction(x * (size - 1), length - 1)
    if mode == "asymmetric":
        return x / scale
    if mode == "pytorch_half_pixel" and length == 1:
        return Fraction(0)
    centre = (x + HALF) / scale - HALF
    if mode == "half_pixel_symmetric":
        centre += Fraction(size, 2) * (1 - length / (size * scale))
    return centre


NEAREST = {
    "floor": math.floor, "ceil": math.ceil,
    "round_prefer_floor": lambda c: math.ceil(c - HALF), "round_prefer_ceil": lambda c: math.floor(c + HALF),
}


def axis_weights(size, length, scale, mode, transform, nearest, antialias, exclude):
    """For each output position the source positions and weights."""
    rows = []
    for x in range(length):
        c = source_coordinate(x, size, length, scale, transform)
        if mode == "nearest":
            pairs = [(NEAREST[nearest](c), Fraction(1))]
        else:
            first, t = math.floor(c), c - math.floor(c)
            if antialias and scale < 1:
                reach = 1 if mode == "linear" else 2
                begin = math.floor(-reach / scale) + 1
                pairs = []
                for k in range(begin, 2 - begin):
                    d = abs((k - t) * scale)
                    if mode == "linear":
                        w = max(1 - d, Fraction(0))
                    else:
                        w = cubic_weights(d)[1] if d <= 1 else cubic_weights(d - 1)[0] if d < 2 else Fraction(0)
                    pairs.append((first + k, w))
            elif mode == "linear":
                pairs = [(first, 1 - t), (first + 1, t)]
            else:
                pairs = list(zip(range(first - 1, first + 3), cubic_weights(t)))
        if exclude:
            pairs = [(i, w if 0 <= i < size else Fraction(0)) for i, w in pairs]
        total = sum(w for _, w in pairs)
        rows.append([(min(max(i, 0), size - 1), float(w / total)) for i, w in pairs if w])
    return rows


def resize(x, lengths, scales, mode="nearest", transform="half_pixel", nearest="round_prefer_floor", antialias=False,
           exclude=False):
    """Axis by axis: every mode is separable."""
    for axis, (length, scale) in enumerate(zip(lengths, scales)):
        if scale == 1 and length == x.shape[axis]:
            continue
        rows = axis_weights(x.shape[axis], length, scale, mode, transform, nearest, antialias, exclude)

        def element(*i, x=x, axis=axis, rows=rows):
            return math.fsum(w * x[(*i[:axis], k, *i[axis + 1:])] for k, w in rows[i[axis]])
        x = made((*x.shape[:axis], length, *x.shape[axis + 1:]), element)
    return x


# ---- GridSample

def reflected(v, low, high):
    """v mirrored at the borders until it lies between them."""
    width = high - low
    if width == 0:
        return low
    turns, rest = divmod(v - low, width)
    return low + rest if turns % 2 == 0 else high - rest


def grid_sample(x, grid, mode, padding, align):
    batch, channels, *space = x.shape
    rank = len(space)

    def bounds(size):
        return (Fraction(0), Fraction(size - 1)) if align else (-HALF, size - HALF)

    def inside(v, size):
        """A coordinate after padding: border and reflection move it."""
        if padding == "border":
            return min(max(v, Fraction(0)), Fraction(size - 1))
        if padding == "reflection":
            return reflected(v, *bounds(size))
        return v

    def pixel(v, size):
        """The pixel at an integer position, or None for a zero."""
        if padding == "border":
            return min(max(v, 0), size - 1)
        if padding == "reflection":
            v = int(reflected(Fraction(v), *bounds(size)))
            return min(max(v, 0), size - 1)
        return v if 0 <= v < size else None

    def taps(v, size):
        if mode == "nearest":
            return [(pixel(round(inside(v, size)), size), 1.0)] # to even, as the specification's rint
        if mode == "linear":
            v = inside(v, size)
            return [(pixel(math.floor(v) + k, size), float(w)) for k, w in ((0, 1 - v % 1), (1, v % 1))]
        return [(pixel(math.floor(v) + k - 1, size), float(w)) for k, w in enumerate(cubic_weights(v % 1))]

    def element(n, c, *at):
        rows = []
        for axis, size in enumerate(space):
            v = Fraction(grid[(n, *at, rank - 1 - axis)]) # the last axis comes first
            v = (v + 1) / 2 * (size - 1) if align else ((v + 1) * size - 1) / 2
            rows.append(taps(v, size))
        total = []
        for chosen in indices([len(r) for r in rows]):
            place = [rows[a][k] for a, k in enumerate(chosen)]
            if all(p is not None for p, _ in place):
                total.append(math.prod(w for _, w in place) * x[(n, c, *(p for p, _ in place))])
        return math.fsum(total)
    return made((batch, channels, *grid.shape[1:-1]), element)


# ---- RoiAlign and DeformConv

def bilinear(read, y, x, height, width):
    """The value between four pixels; those outside are zero."""
    top, left = math.floor(y), math.floor(x)
    total = []
    for r, wr in ((top, 1 - (y - top)), (top + 1, y - top)):
        for c, wc in ((left, 1 - (x - left)), (left + 1, x - left)):
            if 0 <= r < height and 0 <= c < width:
                total.append(wr * wc * read(r, c))
    return math.fsum(total)


def roi_align(x, rois, batches, height, width, ratio, scale, offset):
    rows, columns = x.shape[2:]

    def sample(n, c, y, v):
        if y < -1 or y > rows or v < -1 or v > columns:
            return 0.0
        return bilinear(lambda r, k: x[n, c, r, k], min(max(y, 0), rows - 1), min(max(v, 0), columns - 1), rows, columns)

    def element(r, c, i, j):
        left, top, right, bottom = (rois[r, k] * scale - offset for k in range(4))
        high, wide = bottom - top, right - left
        if not offset: # the first version: no box is smaller than a pixel
            high, wide = max(high, 1.0), max(wide, 1.0)
        step_y, step_x = high / height, wide / width
        grid_y = ratio or math.ceil(step_y)
        grid_x = ratio or math.ceil(step_x)
        return math.fsum(sample(batches[r,], c, top + (i + (a + 0.5) / grid_y) * step_y, left + (j + (b + 0.5) / grid_x) * step_x)
                         for a in range(grid_y) for b in range(grid_x)) / max(grid_y * grid_x, 1)
    return made((rois.shape[0], x.shape[1], height, width), element)


def deform_conv(x, weight, offset, bias, mask, stride, pad, group, offset_group):
    batch, channels, rows, columns = x.shape
    outputs, per_group, kh, kw = weight.shape
    height, width = offset.shape[2:]

    def element(n, o, i, j):
        total = [bias[o,]]
        for c in range(per_group):
            channel = o // (outputs // group) * per_group + c
            part = channel // (channels // offset_group)
            for a in range(kh):
                for b in range(kw):
                    k = (part * kh + a) * kw + b
                    y = i * stride - pad + a + offset[n, 2 * k, i, j]
                    v = j * stride - pad + b + offset[n, 2 * k + 1, i, j]
                    value = bilinear(lambda r, s: x[n, channel, r, s], y, v, rows, columns)
                    total.append(weight[o, c, a, b] * mask[n, k, i, j] * value)
        return math.fsum(total)
    return made((batch, outputs, height, width), element)
