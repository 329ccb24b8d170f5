#!/usr/bin/env python3
"""Models of one random node, for every operator that core/tolk/onnx/operators.def knows:
fuzz_nodes.py TOLK_RUN DEVICE COUNT SEED [OP...]

Attributes, types and shapes are drawn, mostly such that they fit and sometimes such that nothing does. Allowed: a result, or an
error that names file and node and is not the text of a library. Anything else is reported with the number of its round: a
crash, more than LIMIT_S seconds, an error without a place. Prints "N passed, M failed" last, and how many nodes ran and how many
were refused. COUNT is a number, or FROM-TO for these rounds alone. NODE_FUZZ_KEEP=FOLDER keeps the models that fail."""

import json
import os
import random
import re
import select
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass

import node_recipes_nn, node_recipes_other, node_recipes_tensor  # fill the table of node_drawing
from node_drawing import fitting
from onnx_writer import Tensor, graph, model, node, write_case, scalar

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT_S = float(os.environ.get("NODE_FUZZ_LIMIT_S", "10"))
FLOATS, INTS = ("f32", "f64", "f16", "bf16"), ("i64", "i32", "i8", "u8", "i16", "u16", "u32", "u64")
EDGES = (-(2**63), 2**63 - 1, -(2**31), 2**31, -1, 0, 1, 2, 3)
LIBRARY_TEXT = re.compile(r"std::|basic_string|vector::|_M_|bad_alloc|map::at|terminate called|what\(\)")


def operators():
    """[(domain, name, inputs, attributes)]: the rows of operators.def with its macros written out."""
    with open(os.path.join(HERE, "..", "..", "core", "tolk", "onnx", "operators.def"), encoding="utf-8") as file:
        text = file.read()
    macros = dict(re.findall(r'#define (TOLK_ONNX_\w+) "(.*)"$', text, re.M))
    calls = {}
    for name, body in re.findall(r"#define (TOLK_ONNX_\w+)\(name\) TOLK_ONNX_OPERATOR\((.*)\)$", text, re.M):
        calls[name] = body
    text = re.sub(r"^(#|//).*", "", text, flags=re.M)
    for name, body in calls.items():
        text = re.sub(
            name + r'\("(\w+)"\)',
            lambda m: f'TOLK_ONNX_OPERATOR({body.replace("name", chr(34) + m.group(1) + chr(34), 1)})\n',
            text)
    for name, value in macros.items():
        text = re.sub(rf"\b{name}\b", f'"{value}"', text)
    rows = []
    for arguments in re.findall(r"TOLK_ONNX_OPERATOR\((.*)\)", text):
        literals = re.findall(r'"([^"]*)"', arguments)
        rows.append((literals[0], literals[1], literals[2], "".join(literals[3:])))
    return rows


class Drawn:
    def __init__(self, rng, odds):
        self.rng, self.odds = rng, odds
        self.rank = rng.choice((0, 1, 2, 2, 3, 3, 4, 4, 5))

    def odd(self):
        return self.rng.random() < self.odds

    def shape(self):
        rng = self.rng
        rank = rng.randrange(6) if rng.random() < 0.3 else self.rank
        return [0 if rng.random() < 0.03 else rng.choice((1, 1, 2, 3, 4)) for _ in range(rank)]

    def number(self, low=None, high=None):
        rng = self.rng
        if self.odd():
            return rng.choice(EDGES)
        low, high = -4 if low is None else low, 4 if high is None else high
        return rng.randint(low, min(max(high, low), low + 6))

    def tensor(self, dtype, shape, low=None):
        rng, count = self.rng, 1
        for n in shape:
            count *= n
        if dtype == "string":
            return Tensor(dtype, shape, [rng.choice(("", "a", "1.5", "-3", "x y")) for _ in range(count)])
        if dtype == "bool":
            return Tensor(dtype, shape, [rng.random() < 0.5 for _ in range(count)])
        if dtype in FLOATS:
            special = (0.0, float("nan"), float("inf"), -float("inf"))
            return Tensor(dtype, shape, [rng.choice(special) if rng.random() < 0.02 else rng.randint(-32, 32) / 8
                                         for _ in range(count)])
        unsigned = dtype.startswith("u")
        bits = int(dtype[1:])
        least, most = (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        return Tensor(dtype, shape, [min(max(self.number(0 if unsigned else low), least), most) for _ in range(count)])

    def inputs(self, words):
        rng, letters, out = self.rng, {}, []
        first = None
        for word in words.split():
            kind, suffix = word[0], word[1:]
            if suffix == "?" and rng.random() < 0.5:
                out.append(None)
                continue
            for _ in range(rng.randrange(3) if suffix == "*" else 1):
                if kind == "i":
                    dtype = rng.choice(("i64", "i64", "i32"))
                elif kind == "b":
                    dtype = "bool"
                elif kind == "s":
                    dtype = "string"
                elif kind == "f":
                    dtype = rng.choice(FLOATS)
                else:
                    draw = rng.choice(FLOATS[:1] * 4 + FLOATS + INTS + ("bool", "string"))
                    dtype = letters.setdefault(kind, draw) if kind != "." else draw
                if self.odd():
                    dtype = rng.choice(FLOATS + INTS + ("bool", "string"))
                shape = list(first) if first is not None and rng.random() < 0.5 else self.shape()
                if kind == "i" and rng.random() < 0.7:
                    shape = [len(first)] if first else [1]
                out.append(self.tensor(dtype, shape, 0 if kind == "i" and rng.random() < 0.7 else None))
                first = shape if first is None else first
        return out, first

    def attributes(self, words, first):
        rng, out, rank = self.rng, {}, len(first or ())
        for word in words.split():
            name, rule = word.split(":", 1)
            required = "!" in rule
            if not required and rng.random() < 0.6:
                continue
            if required and self.odd():
                continue
            bounds = re.search(r"\((-?\d*)\.\.(-?\d*)\)", rule)
            low, high = (int(b) if b else None for b in bounds.groups()) if bounds else (None, None)
            choices = re.search(r"\{(.*?)\}", rule)
            kind = re.match(r"[a-zA-Z]", rule).group()
            if self.odd():
                kind = rng.choice("fisFIS")
            length = re.search(r"\[(2?)([sr])\]", rule)
            size = ((2 if length.group(1) else 1) * max(0, rank - 2 if length.group(2) == "s" else rank) if length
                    else rng.randrange(5))
            if self.odd():
                size = rng.randrange(6)
            draw = ((lambda: rng.randint(-rank, max(rank - 1, 0))) if "@" in rule and not self.odd()
                    else (lambda: self.number(low, high)))
            if kind == "i":
                out[name] = draw()
            elif kind == "f":
                out[name] = (rng.choice((0.5, 1.0, -1.0, 0.0, 2.0, float("nan"), 1e30)) if low is None
                             else float(self.number(low, high)))
            elif kind == "s":
                out[name] = (rng.choice(choices.group(1).split(",")) if choices and not self.odd()
                             else rng.choice(("ij->i", "...i->i", "i,j->ij", "abc", "")))
            elif kind == "I":
                out[name] = [draw() for _ in range(size)]
            elif kind == "F":
                out[name] = [float(self.number()) for _ in range(size)]
            elif kind == "S":
                out[name] = [rng.choice(("a", "b", "Relu", "Tanh", "LEAF", "BRANCH_LEQ")) for _ in range(size)]
            elif kind == "t":
                out[name] = self.tensor(rng.choice(FLOATS + INTS), self.shape())
            elif kind == "g":
                ins = {f"p{k}": None for k in range(rng.randrange(4))}
                body = [node("Identity", [n], ["q" + n]) for n in ins]
                out[name] = graph(body, ins, {"q" + n: None for n in ins})
        return {k: v for k, v in out.items() if v != [] and not isinstance(v, type(None))}


@dataclass
class Case:
    name: str
    content: bytes  # of the model
    fed: dict       # name -> Tensor, in the model's order
    values: list    # the node's inputs, constants among them; None for one left out
    attributes: dict


def spoiled(d, values, attributes):
    """One thing that need not fit: an input left out, of another type or shape, or an attribute of any kind."""
    what = d.rng.randrange(4)
    if attributes and what == 0:
        attributes[d.rng.choice(sorted(attributes))] = d.rng.choice((d.rng.choice(EDGES), 0.5, "abc", [1, 2, 3], [0.5]))
    elif values:
        i = d.rng.randrange(len(values))
        dtype = d.rng.choice(FLOATS + INTS + ("bool", "string")) if what == 1 or values[i] is None else values[i].dtype
        values[i] = d.tensor(dtype, d.shape() if what != 1 or values[i] is None else values[i].shape) if what != 2 else None
    return values, attributes


def drawn_model(rng, rows, odds=0.04, opsets=(1, 6, 7, 9, 10, 11, 13, 17, 18, 21, 24, 28), loose=0.4, spoil=0.15):
    """A Case. `loose`: how often nothing but kinds is respected, with `odds` for each thing
    that does not even fit its kind; `spoil`: how often one thing of a node that fits is changed."""
    domain, name, inputs, attributes = rng.choice(rows)
    d, opset, constant = Drawn(rng, odds), rng.choice(opsets), set()
    fits = None if rng.random() < loose else fitting(rng, opset, domain, name)
    if fits:
        values, constant, given, count, opset = fits
        if rng.random() < spoil:
            values, given = spoiled(d, values, given)
        outs = [f"o{k}" for k in range(count)]
    else:
        values, first = d.inputs(inputs)
        values += [d.tensor("f32", [1])] if d.odd() else []
        given = d.attributes(attributes, first)
        outs = [f"o{k}" for k in range(rng.choice((1, 1, 1, 2, 3)))]
    constant = {i for i, v in enumerate(values) if v is not None and (i in constant or rng.random() < (0.15 if fits else 0.4))}
    names = ["" if v is None else f"i{k}" for k, v in enumerate(values)]
    main = graph([node(name, names, outs, domain=domain, name="the_node", **given)],
                 {names[i]: (v.dtype, v.shape) for i, v in enumerate(values) if v is not None and i not in constant},
                 {o: None for o in (outs if fits else outs[:1])}, {names[i]: values[i] for i in constant})
    fed = [i for i, v in enumerate(values) if v is not None and i not in constant]
    content = model(main, opset, domains=("ai.onnx.ml", "com.microsoft", "ai.onnx.preview", "ai.onnx.preview.training"))
    return Case(name, content, {names[i]: values[i] for i in fed}, values, given)


class Tool:
    """One tolk-run --check-many, started again after it dies."""

    def __init__(self, tool, device):
        self.command, self.process = [tool, "--check-many", "--device", device], None

    def ask(self, folder):
        """The report on a folder, or what went wrong as text."""
        if self.process is None:
            self.errors = tempfile.TemporaryFile()
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors)
        self.process.stdin.write((folder + "\n").encode())
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], LIMIT_S)
        line = self.process.stdout.readline() if ready else b""
        if line:
            return json.loads(line)
        wrong = f"still running after {LIMIT_S:g} s" if not ready else f"exit status {self.process.wait()}"
        self.close()
        return wrong

    def close(self):
        if self.process:
            self.process.kill()
            self.process.wait()
        self.process = None


def rounds(text):
    """The rounds that COUNT names: so many, or FROM-TO, both included."""
    first, _, last = text.rpartition("-")
    return range(int(first), int(last) + 1) if first else range(int(last))


def main():
    tool, device, count, seed, wanted = sys.argv[1], sys.argv[2], rounds(sys.argv[3]), sys.argv[4], sys.argv[5:]
    rows = [r for r in operators() if not wanted or r[1] in wanted]
    runner, failed, ran, refused = Tool(tool, device), 0, 0, 0
    with tempfile.TemporaryDirectory() as work:
        folder = os.path.join(work, "case")
        for i in count:
            case = drawn_model(random.Random(f"{seed}/{i}"), rows)
            shutil.rmtree(folder, ignore_errors=True)
            write_case(folder, case.content, list(case.fed.values()), [scalar("f32", 0)])
            report = runner.ask(folder)
            if isinstance(report, str):
                wrong = report
            elif report["status"] != "error":
                wrong, ran = "", ran + 1
            else:
                reason, refused = report["reason"], refused + 1
                # Memory runs out in a run, which is of the whole file.
                known = "model.onnx" in reason and any(t in reason for t in ("graph", "not support", "allocation of"))
                wrong = "" if known and not LIBRARY_TEXT.search(reason) else reason[:300]
            if wrong:
                failed += 1
                print(f"round {i} of seed {seed}, {case.name}: {wrong}", flush=True)
                if os.environ.get("NODE_FUZZ_KEEP"):
                    kept = os.path.join(os.environ["NODE_FUZZ_KEEP"], f"{seed}-{i}-{case.name}")
                    shutil.copytree(folder, kept, dirs_exist_ok=True)
    runner.close()
    print(f"{ran} ran, {refused} were refused")
    print(f"{len(count) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
