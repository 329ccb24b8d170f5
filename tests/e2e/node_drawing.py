"""Single nodes whose inputs and attributes fit together, for fuzz_nodes.py: fitting(rng, opset, domain, name).

A recipe is a function of a Fit that draws one node of an operator as its specification allows it, and gives (inputs,
                                                                                                              attributes) or
(inputs, attributes, number of outputs). Integers that the shape of a result depends on are constants of the model (Fit.fixed)."""

import math

from onnx_writer import Tensor

FLOATS = ("f32", "f32", "f32", "f64")
NUMBERS = ("f32", "f32", "f64", "i32", "i64")
WIDTHS = {"i8": (-128, 127), "u8": (0, 255), "i16": (-(2**15), 2**15 - 1), "u16": (0, 2**16 - 1), "i32": (-(2**31), 2**31 - 1),
          "u32": (0, 2**32 - 1), "i64": (-(2**63), 2**63 - 1), "u64": (0, 2**64 - 1)}
RECIPES = {}


def recipe(*names, domain="", since=1):
    def keep(function):
        for name in names:
            RECIPES[domain, name] = (function, since)
        return function
    return keep


class Fit:
    def __init__(self, rng, opset, name):
        self.rng, self.opset, self.name, self.constants = rng, opset, name, []

    def chance(self, odds=0.5):
        return self.rng.random() < odds

    def one_of(self, *choices):
        return self.rng.choice(choices)

    def shape(self, least=0, most=4, sizes=(1, 2, 2, 3, 4, 5)):
        return [self.rng.choice(sizes) for _ in range(self.rng.randint(least, most))]

    def tensor(self, dtype, shape, low=None, high=None, special=0.02):
        rng, count = self.rng, math.prod(shape)
        if dtype == "string":
            values = [rng.choice(("", "a", "b", "1.5", "-3", "x y")) for _ in range(count)]
        elif dtype == "bool":
            values = [rng.random() < 0.5 for _ in range(count)]
        elif dtype in WIDTHS:
            least, most = WIDTHS[dtype]
            low, high = max(least, -6 if low is None else low), min(most, 6 if high is None else high)
            values = [rng.randint(low, high) for _ in range(count)]
        else:
            low, high = -4 if low is None else low, 4 if high is None else high
            odd = (0.0, -0.0, math.nan, math.inf, -math.inf)
            special = special if self.wild else 0
            values = [rng.choice(odd) if rng.random() < special else rng.randint(round(low * 8), round(high * 8)) / 8
                      for _ in range(count)]
        return Tensor(dtype, list(shape), values)

    wild = False  # NaN, infinities and negative zeros among the floats

    def fixed(self, dtype, shape, values):
        t = Tensor(dtype, list(shape), list(values))
        self.constants.append(t)
        return t

    def ints(self, values):
        return self.fixed("i64", [len(values)], values)

    def scalar(self, dtype, value):
        return self.fixed(dtype, [], [value])

    def broadcast(self, count):
        """Shapes that broadcast to a common one, which is given last."""
        whole, parts = self.shape(), []
        for _ in range(count):
            part = [1 if self.chance(0.25) else n for n in whole]
            parts.append(part[self.rng.randint(0, len(part)):] if self.chance(0.3) else part)
        return parts, whole

    def axis(self, rank):
        return self.rng.randint(-rank, rank - 1)

    def axes(self, rank, least=0):
        chosen = self.rng.sample(range(rank), self.rng.randint(least, rank))
        return [a - rank if self.chance(0.3) else a for a in chosen]

    def some(self, **attributes):
        """Each of the attributes or not."""
        return {k: v for k, v in attributes.items() if v is not None and self.chance()}


def fitting(rng, opset, domain, name):
    """(inputs, positions of those that are constants, attributes, number of outputs, opset), or None without a recipe."""
    found = RECIPES.get((domain, name))
    if not found:
        return None
    d = Fit(rng, max(opset, found[1]), name)
    d.wild = rng.random() < 0.3
    values, attributes, *outputs = found[0](d)
    while values and values[-1] is None:
        values.pop()
    constant = {i for i, v in enumerate(values) if v is not None and any(v is c for c in d.constants)}
    return values, constant, attributes, outputs[0] if outputs else 1, d.opset
