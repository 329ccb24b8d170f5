"""Attention and its relatives of com.microsoft and ai.onnx, from their definitions, in double precision.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md describes those of com.microsoft."""

import math

from nested import indices, made


def attend(q, k, v, scale, allowed, bias=lambda b, h, i, j: 0.0, softcap=0.0):
    """softmax(q k^T scale + bias) v for (batch, heads, length, size); `allowed(b, i, j)` says which keys a query sees.
    Fewer heads of keys and values serve consecutive heads of queries."""
    batch, heads, length, size = q.shape
    share = heads // k.shape[1]
    weights = {}
    for b, h, i in indices((batch, heads, length)):
        scores = []
        for j in range(k.shape[2]):
            s = math.fsum(q[b, h, i, d] * k[b, h // share, j, d] for d in range(size)) * scale + bias(b, h, i, j)
            scores.append((softcap * math.tanh(s / softcap) if softcap else s) if allowed(b, i, j) else -math.inf)
        top = max(scores)
        powers = [math.exp(s - top) for s in scores]
        weights[b, h, i] = [p / math.fsum(powers) for p in powers]
    return made((batch, heads, length, v.shape[3]),
                lambda b, h, i, d: math.fsum(w * v[b, h // share, j, d] for j, w in enumerate(weights[b, h, i]) if w))


def split(x, heads):
    """(batch, length, heads * size) as (batch, heads, length, size)."""
    size = x.shape[2] // heads
    return made((x.shape[0], heads, x.shape[1], size), lambda b, h, i, d: x[b, i, h * size + d])


def joined(x):
    return made((x.shape[0], x.shape[2], x.shape[1] * x.shape[3]), lambda b, i, c: x[b, c // x.shape[3], i, c % x.shape[3]])


def longer(past, new):
    """Keys or values after those of the past."""
    if past is None:
        return new
    n = past.shape[2]
    return made((new.shape[0], new.shape[1], n + new.shape[2], new.shape[3]),
                lambda b, h, i, d: past[b, h, i, d] if i < n else new[b, h, i - n, d])


def rotated(x, position, cos, sin, interleaved, size):
    """Rotary embedding of the first `size` elements of each head; x is (batch, heads, length, head size)."""
    half = size // 2

    def element(b, h, i, d):
        if d >= size:
            return x[b, h, i, d]
        p = position(b, i)
        k, second = (d // 2, d % 2) if interleaved else (d % half, d // half)
        first_at, second_at = (2 * k, 2 * k + 1) if interleaved else (k, k + half)
        a, c = x[b, h, i, first_at], x[b, h, i, second_at]
        return c * cos[p, k] + a * sin[p, k] if second else a * cos[p, k] - c * sin[p, k]
    return made(x.shape, element)


def mask_of(mask):
    """A predicate from a mask (batch, keys) or from key lengths (batch,); without either, all keys are seen."""
    if mask is None:
        return lambda b, i, j: True
    if len(mask.shape) == 1:
        return lambda b, i, j: j < mask[b,]
    return lambda b, i, j: mask[b, j] != 0


def group_query(q, k, v, past_k, past_v, last, heads, kv_heads, cos=None, sin=None, interleaved=False, scale=None, softcap=0.0,
                window=-1):
    """GroupQueryAttention: output, keys and values. `last` has the number of keys of each batch, less one. Positions beyond
    them are zeros in the outputs, whatever the past has there, as in ONNX Runtime; the document does not say."""
    q, k, v = split(q, heads), split(k, kv_heads), split(v, kv_heads)
    length, size = q.shape[2], q.shape[3]
    prompt = past_k is None
    # The first new position: a prompt begins at 0, else the new ones end at the last.
    begin = [0 if prompt else last[b,] + 1 - length for b in range(q.shape[0])]
    if cos is not None:
        def at(b, i):
            return begin[b] + i
        q, k = rotated(q, at, cos, sin, interleaved, 2 * cos.shape[1]), rotated(k, at, cos, sin, interleaved, 2 * cos.shape[1])
    present = max(max(last.elements) + 1, 0 if prompt else past_k.shape[2])

    def cached(past, new):
        def element(b, h, i, d):
            if begin[b] <= i < begin[b] + length:
                return new[b, h, i - begin[b], d]
            return past[b, h, i, d] if past is not None and i < begin[b] else 0.0
        return made((new.shape[0], kv_heads, present, size), element)
    keys, values = cached(past_k, k), cached(past_v, v)

    def allowed(b, i, j):
        place = begin[b] + i
        return j <= place and (window < 0 or j > place - window)
    out = attend(q, keys, values, scale or size ** -0.5, allowed, softcap=softcap)
    return joined(out), keys, values


# ---- normalisations and functions

def normalised(x, gamma, beta=None, epsilon=1e-5, centred=True):
    """Layer normalisation over the last axis, or by the root mean square alone."""
    rows, width = {}, x.shape[-1]
    for i in indices(x.shape[:-1]):
        row = [x[(*i, d)] for d in range(width)]
        mean = math.fsum(row) / width if centred else 0.0
        deviation = math.sqrt(math.fsum((r - mean) ** 2 for r in row) / width + epsilon)
        rows[i] = [(r - mean) / deviation for r in row]
    return made(x.shape, lambda *i: rows[i[:-1]][i[-1]] * gamma[i[-1],] + (beta[i[-1],] if beta else 0.0))


def gelu(x):
    return x * 0.5 * (1 + math.erf(x / math.sqrt(2)))


def fast_gelu(x):
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))
