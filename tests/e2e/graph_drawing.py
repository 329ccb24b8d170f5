"""Random graphs whose nodes fit each other, for fuzz_ort.py: drawn_graph(rng) -> (name, model, inputs by name)."""

from onnx_writer import Tensor, graph, model, node

EXACT = ("Abs", "Neg", "Relu", "Identity")
STEPWISE = ("Floor", "Ceil", "Sign", "Round")
SMOOTH = ("Sigmoid", "Tanh", "Softplus", "Softsign", "Erf", "Atan", "Sin", "Cos", "HardSigmoid", "LeakyRelu", "Elu")
BINARY = ("Add", "Sub", "Mul", "Min", "Max")
COMPARE = ("Less", "Greater", "Equal", "LessOrEqual", "GreaterOrEqual")
REDUCE = ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceMean", "ReduceL2", "ReduceSumSquare", "ReduceL1")
LIMIT = 4096  # elements of one value
ROUNDED = 99  # more bits than any float has


def count_of(shape):
    n = 1
    for size in shape:
        n *= size
    return n


def broadcast(a, b):
    """The common shape, or None."""
    rank = max(len(a), len(b))
    a, b = [1] * (rank - len(a)) + a, [1] * (rank - len(b)) + b
    if any(x != y and 1 not in (x, y) for x, y in zip(a, b)):
        return None
    return [y if x == 1 else x for x, y in zip(a, b)]


class Drawing:
    """Nodes so far and, by type, the values that they gave: (name, shape, bits).

    `bits` is how many bits the elements of a value need. What f32 cannot hold is rounded, by each program in its own way, so
    floors, comparisons and indices are taken of exact values alone."""

    def __init__(self, rng):
        self.rng, self.nodes, self.constants, self.inputs = rng, [], {}, {}
        self.values = {"f32": [], "i64": [], "bool": []}
        for k in range(rng.randint(1, 3)):
            shape = [rng.choice((1, 2, 3, 4, 5, 8)) for _ in range(rng.randint(1, 4))]
            data = [rng.randint(-24, 24) / 8 for _ in range(count_of(shape))]
            self.inputs[f"x{k}"] = Tensor("f32", shape, data)
            self.values["f32"].append((f"x{k}", shape, 6))
        for _ in range(rng.randint(2, 14)):
            rng.choice(STEPS)(self)

    def pick(self, dtype="f32", most=ROUNDED):
        """A value of at most `most` bits; the first input is always one."""
        return self.rng.choice([v for v in self.values[dtype] if v[2] <= most])

    def constant(self, dtype, shape, values):
        name = f"c{len(self.constants)}"
        self.constants[name] = Tensor(dtype, shape, values)
        return name

    def ints(self, values):
        return self.constant("i64", [len(values)], values)

    def add(self, op, inputs, shape, bits, dtype="f32", outputs=1, **attributes):
        names = [f"v{len(self.nodes)}_{k}" for k in range(outputs)]
        self.nodes.append(node(op, inputs, names, name=f"n{len(self.nodes)}", **attributes))
        if count_of(shape) <= LIMIT and len(shape) <= 6:
            self.values[dtype].append((names[0], shape, bits if bits <= 22 else ROUNDED))

    # ---- one node each; a step that does not fit draws nothing

    def unary(self):
        x, shape, bits = self.pick()
        exact = self.rng.random() < 0.3
        self.add(self.rng.choice(EXACT if exact else SMOOTH), [x], shape, bits if exact else ROUNDED)

    def stepwise(self):
        x, shape, bits = self.pick(most=22)
        self.add(self.rng.choice(STEPWISE), [x], shape, bits)

    def binary(self, a=None, b=None):
        (a, s, p), (b, t, q) = a or self.pick(), b or self.pick()
        shape, op = broadcast(s, t), self.rng.choice(BINARY)
        if shape is not None and count_of(shape) <= LIMIT:
            self.add(op, [a, b], shape, p + q if op == "Mul" else max(p, q) + 1)

    def with_constant(self):
        x = self.pick()
        tail = x[1][self.rng.randint(0, len(x[1])):]
        c = (self.constant("f32", tail, [self.rng.randint(-16, 16) / 8 for _ in range(count_of(tail))]), tail, 5)
        self.binary(*((x, c) if self.rng.random() < 0.5 else (c, x)))

    def compare(self):
        (a, s, _), (b, t, _) = self.pick(most=22), self.pick(most=22)
        shape = broadcast(s, t)
        if shape is not None and count_of(shape) <= LIMIT:
            self.add(self.rng.choice(COMPARE), [a, b], shape, 1, "bool")

    def where(self):
        if not self.values["bool"]:
            return
        (c, r, _), (a, s, p), (b, t, q) = self.pick("bool"), self.pick(), self.pick()
        shape = broadcast(s, t)
        shape = None if shape is None else broadcast(shape, r)
        if shape is not None and count_of(shape) <= LIMIT:
            self.add("Where", [c, a, b], shape, max(p, q))

    def cast(self):
        source = self.rng.choice([d for d in self.values if self.values[d]])
        target = self.rng.choice(("f32", "i64", "bool"))
        x, shape, bits = self.pick(source, 22)
        self.add("Cast", [x], shape, bits, target, to={"f32": 1, "i64": 7, "bool": 9}[target])

    def reduce(self):
        x, shape, bits = self.pick()
        axes = [a for a in range(len(shape)) if self.rng.random() < 0.5]
        keep, op = self.rng.randint(0, 1), self.rng.choice(REDUCE)
        reduced = set(axes) if axes else set(range(len(shape)))
        result = [1 if a in reduced else n for a, n in enumerate(shape) if keep or a not in reduced]
        given = [a - len(shape) if self.rng.random() < 0.5 else a for a in axes]
        bits = bits if op in ("ReduceMax", "ReduceMin") else bits + 10 if op in ("ReduceSum", "ReduceL1") else ROUNDED
        self.add(op, [x] + ([self.ints(given)] if axes else []), result, bits, keepdims=keep)

    def transpose(self):
        x, shape, bits = self.pick()
        order = list(range(len(shape)))
        self.rng.shuffle(order)
        if order:
            self.add("Transpose", [x], [shape[a] for a in order], bits, perm=order)

    def reshape(self):
        x, shape, bits = self.pick()
        n, sizes = count_of(shape), []
        while n > 1 and len(sizes) < 3:
            size = self.rng.choice([d for d in range(1, n + 1) if n % d == 0])
            sizes.append(size)
            n //= size
        sizes.append(n)
        asked = list(sizes)
        if self.rng.random() < 0.5:
            asked[self.rng.randrange(len(asked))] = -1
        self.add("Reshape", [x, self.ints(asked)], sizes, bits)

    def unsqueeze(self):
        x, shape, bits = self.pick()
        axis = self.rng.randint(0, len(shape))
        self.add("Unsqueeze", [x, self.ints([axis if self.rng.random() < 0.5 else axis - len(shape) - 1])],
                 shape[:axis] + [1] + shape[axis:], bits)

    def concat(self):
        x, shape, _ = self.pick()
        if not shape:
            return
        axis = self.rng.randrange(len(shape))
        fits = [v for v in self.values["f32"]
                if len(v[1]) == len(shape) and all(a == axis or v[1][a] == n for a, n in enumerate(shape))]
        parts = [self.rng.choice(fits) for _ in range(self.rng.randint(1, 3))]
        total = sum(p[1][axis] for p in parts)
        self.add("Concat", [p[0] for p in parts], [total if a == axis else n for a, n in enumerate(shape)],
                 max(p[2] for p in parts), axis=axis)

    def slice(self):
        x, shape, bits = self.pick()
        if not shape:
            return
        axis = self.rng.randrange(len(shape))
        n, step = shape[axis], self.rng.choice((1, 1, 2, 3, -1, -2))
        start, end = self.rng.randint(-n - 1, n + 1), self.rng.choice((self.rng.randint(-n - 1, n + 1), 2**31 - 1, -(2**31)))
        size = len(range(n)[slice(start, None if end == -(2**31) and step < 0 else end, step)])
        if size:
            self.add("Slice", [x, self.ints([start]), self.ints([end]), self.ints([axis]), self.ints([step])],
                     [size if a == axis else m for a, m in enumerate(shape)], bits)

    def pad(self):
        x, shape, bits = self.pick()
        rank = len(shape)
        pads = [self.rng.randint(0, 2) for _ in range(2 * rank)]
        mode = self.rng.choice(("constant", "edge", "reflect"))
        if not shape or (mode == "reflect" and any(max(pads[a], pads[a + rank]) >= n for a, n in enumerate(shape))):
            return
        result = [n + pads[a] + pads[a + rank] for a, n in enumerate(shape)]
        if count_of(result) <= LIMIT:
            self.add("Pad", [x, self.ints(pads)], result, bits, mode=mode)

    def gather(self):
        x, shape, bits = self.pick()
        if not shape:
            return
        axis = self.rng.randrange(len(shape))
        where = [self.rng.randint(1, 3) for _ in range(self.rng.randint(0, 2))]
        n = shape[axis]
        indices = self.constant("i64", where, [self.rng.randint(-n, n - 1) for _ in range(count_of(where))])
        result = shape[:axis] + where + shape[axis + 1:]
        if count_of(result) <= LIMIT:
            self.add("Gather", [x, indices], result, bits, axis=axis)

    def matmul(self):
        x, shape, bits = self.pick()
        if not shape:
            return
        n = self.rng.randint(1, 5)
        w = self.constant("f32", [shape[-1], n], [self.rng.randint(-8, 8) / 8 for _ in range(shape[-1] * n)])
        self.add("MatMul", [x, w], shape[:-1] + [n], bits + 12)

    def along(self):
        x, shape, _ = self.pick()
        if shape:
            axis = self.rng.randrange(-len(shape), len(shape))
            self.add(self.rng.choice(("Softmax", "LogSoftmax")), [x], shape, ROUNDED, axis=axis)

    def cumsum(self):
        x, shape, bits = self.pick()
        if shape:
            axis = self.constant("i64", [], [self.rng.randrange(-len(shape), len(shape))])
            self.add("CumSum", [x, axis], shape, bits + 10, exclusive=self.rng.randint(0, 1), reverse=self.rng.randint(0, 1))

    def arg(self):
        x, shape, _ = self.pick(most=22)
        if shape:
            axis, keep = self.rng.randrange(len(shape)), self.rng.randint(0, 1)
            self.add(self.rng.choice(("ArgMax", "ArgMin")), [x], shape[:axis] + [1] * keep + shape[axis + 1:], 12, "i64",
                     axis=axis, keepdims=keep, select_last_index=self.rng.randint(0, 1))

    def topk(self):
        x, shape, bits = self.pick()
        if shape:
            axis = self.rng.randrange(len(shape))
            k = self.rng.randint(1, shape[axis])
            self.add("TopK", [x, self.ints([k])], [k if a == axis else n for a, n in enumerate(shape)], bits, outputs=2,
                     axis=axis, largest=self.rng.randint(0, 1))

    def expand(self):
        x, shape, bits = self.pick()
        result = [self.rng.randint(1, 3)] + [n if n > 1 else self.rng.randint(1, 3) for n in shape]
        if count_of(result) <= LIMIT:
            self.add("Expand", [x, self.ints(result)], result, bits)

    def window(self):
        x, shape, bits = self.pick()
        if len(shape) != 4 or min(shape[2:]) < 2:
            return
        kernel, pad = [self.rng.randint(1, 2) for _ in range(2)], self.rng.randint(0, 1)
        stride = self.rng.randint(1, 2)
        pads = [pad if k > 1 else 0 for k in kernel] * 2
        size = [(n + 2 * p - k) // stride + 1 for n, k, p in zip(shape[2:], kernel, pads)]
        if self.rng.random() < 0.5:
            op = self.rng.choice(("MaxPool", "AveragePool"))
            self.add(op, [x], shape[:2] + size, bits if op == "MaxPool" else ROUNDED, kernel_shape=kernel, pads=pads,
                     strides=[stride, stride])
        else:
            out = self.rng.randint(1, 3)
            w = [out, shape[1], *kernel]
            w = self.constant("f32", w, [self.rng.randint(-8, 8) / 8 for _ in range(count_of(w))])
            self.add("Conv", [x, w], [shape[0], out, *size], bits + 12, pads=pads, strides=[stride, stride])


STEPS = (Drawing.unary, Drawing.unary, Drawing.stepwise, Drawing.binary, Drawing.binary, Drawing.with_constant,
         Drawing.compare, Drawing.where, Drawing.cast, Drawing.reduce, Drawing.reduce, Drawing.transpose, Drawing.reshape,
         Drawing.unsqueeze, Drawing.concat, Drawing.slice, Drawing.pad, Drawing.gather, Drawing.matmul, Drawing.along,
         Drawing.cumsum, Drawing.arg, Drawing.topk, Drawing.expand, Drawing.window)


def drawn_graph(rng):
    d = Drawing(rng)
    last = [(dtype, *values[-1][:2]) for dtype, values in d.values.items() if values]
    outputs = {name: (dtype, shape) for dtype, name, shape in last if name not in d.inputs}
    if not outputs:
        name, shape, _ = d.values["f32"][0]
        d.nodes.append(node("Identity", [name], ["y"]))
        outputs = {"y": ("f32", shape)}
    main = graph(d.nodes, {n: (t.dtype, t.shape) for n, t in d.inputs.items()}, outputs, d.constants)
    return "graph", model(main, 18), d.inputs
