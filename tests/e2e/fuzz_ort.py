#!/usr/bin/env python3
"""Random models against ONNX Runtime: fuzz_ort.py nodes|graphs TOLK_RUN DEVICE COUNT SEED [OP...]

ONNX Runtime is the npm package onnxruntime-node; its folder is in ONNXRUNTIME_NODE. `nodes` draws one node as fuzz_nodes.py does,
`graphs` draws nodes whose shapes fit. What ONNX Runtime computes must come out of TOLK_RUN within its own tolerances, and what
it refuses must not crash; docs/onnx-differences.md lists what may differ. A model that ONNX Runtime takes and tolk refuses is
counted, and printed with FUZZ_ORT_REFUSED=1.
FUZZ_ORT_KEEP=FOLDER keeps the models that differ. COUNT is as for fuzz_nodes.py."""

import base64
import json
import os
import random
import re
import select
import shutil
import struct
import subprocess
import sys
import tempfile

import fuzz_nodes
from graph_drawing import drawn_graph
from ort_differences import check_page, difference_of, refusal_of
from onnx_writer import TYPES, Tensor, write_case

UNDEFINED = re.compile("^Random|^Bernoulli$|^Multinomial$|^Dropout$")  # the values are not the specification's
HERE = os.path.dirname(os.path.abspath(__file__))
NAMES = {"f32": "float32", "f64": "float64", "f16": "float16", "i8": "int8", "u8": "uint8", "i16": "int16", "u16": "uint16",
         "i32": "int32", "u32": "uint32", "i64": "int64", "u64": "uint64", "bool": "bool", "string": "string"}
DTYPES = {name: dtype for dtype, name in NAMES.items()}


def count_in(counts, name):
    counts[name] = counts.get(name, 0) + 1


class Referee:
    """One ort_worker.js, started again after it dies."""

    def __init__(self, package):
        self.command, self.process, self.error = ["node", os.path.join(HERE, "ort_worker.js"), package], None, ""

    def ask(self, model, inputs):
        """[Tensor] by output, or None where ONNX Runtime refuses, crashes, or has no such type."""
        if any(t.dtype not in NAMES for t in inputs.values()):
            return None
        if self.process is None:
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=subprocess.DEVNULL)
        request = {"model": model, "inputs": {name: self.given(t) for name, t in inputs.items()}}
        try:
            self.process.stdin.write((json.dumps(request) + "\n").encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        ready, _, _ = select.select([self.process.stdout], [], [], 20)
        line = self.process.stdout.readline() if ready else b""
        if not line:
            self.close()
            return None
        reply = json.loads(line)
        self.error = reply.get("error", "")
        return [self.result(t) for t in reply["outputs"].values()] if "outputs" in reply else None

    def given(self, t):
        content = (t.values if t.dtype == "string" else
                   base64.b64encode(struct.pack(f"<{len(t.values)}{TYPES[t.dtype][1]}", *t.values)).decode())
        return {"type": NAMES[t.dtype], "dims": t.shape, "data": content}

    def result(self, t):
        dtype = DTYPES[t["type"]]
        if dtype == "string":
            return Tensor(dtype, t["dims"], t["data"])
        content = base64.b64decode(t["data"])
        form = TYPES[dtype][1]
        return Tensor(dtype, t["dims"], list(struct.unpack(f"<{len(content) // struct.calcsize(form)}{form}", content)))

    def close(self):
        if self.process:
            self.process.kill()
            self.process.wait()
        self.process = None


def drawn(mode, seed, i, rows):
    """A fuzz_nodes.Case."""
    rng = random.Random(f"{seed}/{i}")
    if mode == "graphs":
        return fuzz_nodes.Case(*drawn_graph(rng), [], {})
    return fuzz_nodes.drawn_model(rng, rows, 0.005, (11, 13, 17, 18, 21), 0.1, 0.1)


def main():
    mode, tool, device, seed, wanted = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[5], sys.argv[6:]
    package = os.environ.get("ONNXRUNTIME_NODE", "")
    if not os.path.exists(package):
        print("skipped: ONNXRUNTIME_NODE is not the folder of the npm package onnxruntime-node")
        return 77
    check_page()
    rows = [r for r in fuzz_nodes.operators() if (r[1] in wanted if wanted else not UNDEFINED.search(r[1]))]
    runner, referee = fuzz_nodes.Tool(tool, device), Referee(os.path.abspath(package))
    equal, refused, explained, both_refused, failed = 0, {}, {}, 0, 0
    with tempfile.TemporaryDirectory() as work:
        folder = os.path.join(work, "case")
        for i in fuzz_nodes.rounds(sys.argv[4]):
            case = drawn(mode, seed, i, rows)
            shutil.rmtree(folder, ignore_errors=True)
            write_case(folder, case.content, list(case.fed.values()), [])
            expected = referee.ask(os.path.join(folder, "model.onnx"), case.fed)
            write_case(folder, case.content, list(case.fed.values()), expected or [Tensor("f32", [], [0.0])])
            report = runner.ask(folder)
            wrong = report if isinstance(report, str) else ""
            if not wrong and expected is None:
                both_refused += 1
            elif not wrong and report["status"] == "error":
                known = refusal_of(case, report["reason"])
                count_in(explained if known else refused, known or case.name)
                if os.environ.get("FUZZ_ORT_REFUSED") and not known:
                    print(f"round {i} of seed {seed}, {case.name}: refused: {report['reason'][:300]}", flush=True)
            elif not wrong and report["status"] != "pass":
                wrong = report.get("reason", report["status"])[:300]
            elif not wrong:
                equal += 1
            known = difference_of(case, wrong) if wrong and expected is not None else ""
            if known:
                count_in(explained, known)
            elif wrong:
                failed += 1
                print(f"round {i} of seed {seed}, {case.name}: {wrong}", flush=True)
                if os.environ.get("FUZZ_ORT_KEEP"):
                    kept = os.path.join(os.environ["FUZZ_ORT_KEEP"], f"{seed}-{i}-{case.name}")
                    shutil.copytree(folder, kept, dirs_exist_ok=True)
    runner.close(), referee.close()
    listed = lambda counts: ", ".join(f"{n} {k}" for n, k in sorted(counts.items())) or "none"
    print(f"{equal} equal, {both_refused} not run by ONNX Runtime, {sum(explained.values())} as docs/onnx-differences.md says, "
          f"{failed} differ, {sum(refused.values())} refused by tolk alone")
    print("as docs/onnx-differences.md says:", listed(explained))
    print("refused by tolk alone:", listed(refused))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
