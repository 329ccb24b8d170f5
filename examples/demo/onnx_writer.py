"""Writes the classifier as an ONNX file: just enough of protobuf's wire format, by hand, so that no package is needed.

Wire format: a field is a key (number * 8 + kind) and a value; kind 0 is a varint, 2 a length and bytes, 5 four bytes."""

import struct


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def number(field, n):
    return varint(field << 3) + varint(n)


def data(field, value):
    value = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(value)) + value


def real(field, value):
    return varint(field << 3 | 5) + struct.pack("<f", value)


# Field numbers are those of onnx.proto3.

def tensor(name, array):
    raw = array.astype("<f4").tobytes()
    return b"".join(number(1, d) for d in array.shape) + number(2, 1) + data(8, name) + data(9, raw)


def attribute(name, value):
    if isinstance(value, int):
        return data(1, name) + number(3, value) + number(20, 2)
    return data(1, name) + b"".join(number(8, v) for v in value) + number(20, 7)


def node(op, inputs, outputs, **attributes):
    return (b"".join(data(1, i) for i in inputs) + b"".join(data(2, o) for o in outputs) + data(3, outputs[0] + "." + op)
            + data(4, op) + b"".join(data(5, attribute(k, v)) for k, v in attributes.items()))


def value_info(name, shape):
    dims = b"".join(data(1, number(1, d)) for d in shape)
    return data(1, name) + data(2, data(1, number(1, 1) + data(2, dims)))


def write(path, weights):
    """conv - relu - pool, twice; flatten, dense, softmax. Input `image` (1,1,28,28) in 0..1, output `probabilities` (1,10)."""
    conv = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    pool = {"kernel_shape": [2, 2], "strides": [2, 2]}
    nodes = [
        node("Conv", ["image", "conv1.weight", "conv1.bias"], ["conv1"], **conv),
        node("Relu", ["conv1"], ["relu1"]),
        node("MaxPool", ["relu1"], ["pool1"], **pool),
        node("Conv", ["pool1", "conv2.weight", "conv2.bias"], ["conv2"], **conv),
        node("Relu", ["conv2"], ["relu2"]),
        node("MaxPool", ["relu2"], ["pool2"], **pool),
        node("Flatten", ["pool2"], ["features"], axis=1),
        node("Gemm", ["features", "dense.weight", "dense.bias"], ["scores"]),
        node("Softmax", ["scores"], ["probabilities"], axis=1),
    ]
    graph = (b"".join(data(1, n) for n in nodes) + data(2, "digits")
             + b"".join(data(5, tensor(name, array)) for name, array in weights.items())
             + data(11, value_info("image", [1, 1, 28, 28])) + data(12, value_info("probabilities", [1, 10])))
    model = (number(1, 7) + data(2, "tolk train-digits") + data(7, graph) + data(8, data(1, "") + number(2, 13)))
    with open(path, "wb") as file:
        file.write(model)
