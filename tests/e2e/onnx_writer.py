"""Writes ONNX models and test data with nothing but the standard library: a second reading of onnx.proto, for tests.

  model = graph_model([node("Add", ["x", "w"], ["y"])], {"x": ("f32", [2])}, ["y"], {"w": tensor("f32", [2], [1, 2])})
  write_case(folder, model, [tensor("f32", [2], [3, 4])], [tensor("f32", [2], [4, 6])])

Attributes are Python values: int, float, str, Tensor, Graph (bytes of a GraphProto), and lists of the first three."""

import os
import struct
from dataclasses import dataclass

# name: (TensorProto.DataType, struct format or None)
TYPES = {"f32": (1, "f"), "u8": (2, "B"), "i8": (3, "b"), "u16": (4, "H"), "i16": (5, "h"), "i32": (6, "i"), "i64": (7, "q"),
         "string": (8, None), "bool": (9, "?"), "f16": (10, "e"), "f64": (11, "d"), "u32": (12, "I"), "u64": (13, "Q"),
         "bf16": (16, None)}


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


def number(field, value):
    return varint(field << 3) + varint(value)


def data(field, content):
    content = content.encode() if isinstance(content, str) else content
    return varint(field << 3 | 2) + varint(len(content)) + content


def real(field, value):
    return varint(field << 3 | 5) + struct.pack("<f", value)


@dataclass
class Tensor:
    dtype: str
    shape: list
    values: list

    def proto(self, name=""):
        code, form = TYPES[self.dtype]
        out = b"".join(number(1, n) for n in self.shape) + number(2, code)
        if self.dtype == "string":
            out += b"".join(data(6, v) for v in self.values)
        elif self.dtype == "bf16":  # the upper half of an f32; the values of tests have no lower half
            out += data(9, b"".join(struct.pack("<f", v)[2:] for v in self.values))
        else:
            out += data(9, struct.pack(f"<{len(self.values)}{form}", *self.values))
        return out + (data(8, name) if name else b"")


def tensor(dtype, shape, values):
    return Tensor(dtype, list(shape), list(values))


def scalar(dtype, value):
    return Tensor(dtype, [], [value])


def vector(dtype, values):
    return Tensor(dtype, [len(values)], list(values))


class Graph(bytes):
    pass


def attribute(name, value):
    out = data(1, name)
    if isinstance(value, Graph):
        return out + data(6, value) + number(20, 5)
    if isinstance(value, Tensor):
        return out + data(5, value.proto()) + number(20, 4)
    if isinstance(value, float):
        return out + real(2, value) + number(20, 1)
    if isinstance(value, int):
        return out + number(3, value) + number(20, 2)
    if isinstance(value, str):
        return out + data(4, value) + number(20, 3)
    if value and isinstance(value[0], float):
        return out + b"".join(real(7, v) for v in value) + number(20, 6)
    if value and isinstance(value[0], str):
        return out + b"".join(data(9, v) for v in value) + number(20, 8)
    return out + b"".join(number(8, v) for v in value) + number(20, 7)


def node(op, inputs, outputs, domain="", name="", **attributes):
    out = b"".join(data(1, i) for i in inputs) + b"".join(data(2, o) for o in outputs)
    out += (data(3, name) if name else b"") + data(4, op)
    out += b"".join(data(5, attribute(a, v)) for a, v in attributes.items())
    return out + (data(7, domain) if domain else b"")


def value_info(name, dtype=None, shape=None):
    """A size is a number, or a text for a symbolic one. Without dtype nothing is declared."""
    if dtype is None:
        return data(1, name)
    kind = number(1, TYPES[dtype][0])
    if shape is not None:
        kind += data(2, b"".join(data(1, data(2, n) if isinstance(n, str) else number(1, n)) for n in shape))
    return data(1, name) + data(2, data(1, kind))


def graph(nodes, inputs, outputs, initializers=None):
    """`inputs` and `outputs`: name -> (dtype, shape), or None for what is not declared."""
    infos = lambda field, values: b"".join(data(field, value_info(n, *(t or ()))) for n, t in values.items())
    out = b"".join(data(1, n) for n in nodes) + data(2, "g")
    out += b"".join(data(5, t.proto(n)) for n, t in (initializers or {}).items())
    return Graph(out + infos(11, inputs) + infos(12, outputs))


def model(main, opset=21, domains=("ai.onnx.ml", "com.microsoft"), functions=(), ir=8):
    out = number(1, ir) + data(7, main) + data(8, number(2, opset))
    out += b"".join(data(8, data(1, d) + number(2, 3 if d == "ai.onnx.ml" else 1)) for d in domains)
    return out + b"".join(data(25, f) for f in functions)


def one(op, inputs, outputs, opset=21, domain="", initializers=None, declared=None, **attributes):
    """A model of one node: `inputs` are Tensors, or None for one that is left out. Those named in `initializers`
    (positions) are constants of the model. Gives (model, inputs that a caller gives, outputs)."""
    initializers = set(initializers or ())
    names = ["" if t is None else f"i{k}" for k, t in enumerate(inputs)]
    while names and not names[-1]:
        names.pop()
    results = [f"o{k}" for k in range(len(outputs) if isinstance(outputs, list) else outputs)]
    given = [t for k, t in enumerate(inputs) if t is not None and k not in initializers]
    main = graph([node(op, names, results, domain=domain, name="the_node", **attributes)],
                 {names[k]: (t.dtype, t.shape) for k, t in enumerate(inputs) if t is not None and k not in initializers},
                 {r: (declared or {}).get(r) for r in results},
                 {names[k]: inputs[k] for k in initializers})
    return model(main, opset), given, outputs


def f32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def write_case(folder, content, inputs, outputs):
    """A folder as --check takes it; `inputs` and `outputs` are Tensors in the model's order."""
    sets = os.path.join(folder, "test_data_set_0")
    os.makedirs(sets, exist_ok=True)
    with open(os.path.join(folder, "model.onnx"), "wb") as file:
        file.write(content)
    for kind, values in (("input", inputs), ("output", outputs)):
        for i, value in enumerate(values):
            with open(os.path.join(sets, f"{kind}_{i}.pb"), "wb") as file:
                file.write(value.proto())
