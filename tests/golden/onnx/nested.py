"""Arrays in plain Python: a shape and its elements in C order. Small, exact where the elements are, and without packages."""

import itertools
import math


class Array:
    def __init__(self, shape, elements):
        self.shape, self.elements = tuple(shape), list(elements)
        assert math.prod(self.shape) == len(self.elements), (self.shape, len(self.elements))

    def __getitem__(self, index):
        flat = 0
        for i, size in zip(index, self.shape, strict=True):
            assert 0 <= i < size, (index, self.shape)
            flat = flat * size + i
        return self.elements[flat]


def indices(shape):
    return itertools.product(*(range(n) for n in shape))


def made(shape, function):
    """The array whose element at an index is function(*index)."""
    return Array(shape, (function(*i) for i in indices(shape)))
