#!/usr/bin/env python3
"""tolk-run as a user meets it: exit status, output and messages. cli_test.py TOLK_RUN [DEVICE]"""

import json
import os
import struct
import subprocess
import sys
import tempfile

faults = []


def check(holds, what):
    if not holds:
        faults.append(what)


def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def field(number, value):
    """A field of a protocol buffer: an integer, or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def relu_model(dims):
    """y = Relu(x), x and y f32 with these dims, an int or a name each."""
    shape = b"".join(field(1, field(1, d) if isinstance(d, int) else field(2, d)) for d in dims)
    value = field(2, field(1, field(1, 1) + field(2, shape)))
    node = field(1, "x") + field(2, "y") + field(4, "Relu")
    graph = field(1, node) + field(2, "g") + field(11, field(1, "x") + value) + field(12, field(1, "y") + value)
    return field(1, 8) + field(7, graph) + field(8, field(2, 14))


def reshape_model():
    """y = Reshape(x, [3]), x f32[N]: it needs N = 3."""
    value = lambda dim: field(2, field(1, field(1, 1) + field(2, field(1, dim))))
    shape = field(1, 1) + field(2, 7) + field(8, "s") + field(7, varint(3))
    node = field(1, "x") + field(1, "s") + field(2, "y") + field(4, "Reshape")
    graph = field(1, node) + field(2, "g") + field(5, shape) + field(11, field(1, "x") + value(field(2, "N")))
    graph += field(12, field(1, "y") + value(field(1, 3)))
    return field(1, 8) + field(7, graph) + field(8, field(2, 14))


def tensor(values):
    return field(1, len(values)) + field(2, 1) + field(9, struct.pack(f"<{len(values)}f", *values))


def npy(values, descr="<f4", shape=None):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape or (len(values),)}, }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack(f"<{len(values)}f", *values)


def main():
    program, device = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
    with tempfile.TemporaryDirectory() as folder:

        def write(name, content):
            path = os.path.join(folder, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(content)
            return path

        def run(*arguments, device=device, stdin="", **settings):
            env = {**os.environ, **({"DEVICE": device} if device else {}), **settings}
            result = subprocess.run([program, *arguments], capture_output=True, text=True, env=env, input=stdin, timeout=100)
            return result.returncode, result.stdout, result.stderr

        def refused(arguments, *words, **settings):
            code, out, err = run(*arguments, **settings)
            check(code == 2, f"{arguments}: exit status {code}, not 2")
            check(out == "", f"{arguments}: standard output has {out!r}")
            lines = [line for line in err.split("\n") if line.startswith("tolk-run: ")]
            check(len(lines) == 1, f"{arguments}: {len(lines)} messages: {err}")
            for word in words:
                check(word in err, f"{arguments}: {word!r} is not in {err!r}")

        code, out, _ = run("--help")
        check(code == 0 and "Usage: tolk-run MODEL.onnx" in out and "Exit status" in out, "--help")
        if os.path.exists("/dev/full"):
            # The first is longer than a buffer, so the write that fails is not the last one.
            for arguments in (["--help"], ["--version"]):
                with open("/dev/full", "w") as full:
                    result = subprocess.run([program, *arguments], stdout=full, stderr=subprocess.PIPE, text=True)
                told = "standard output cannot be written" in result.stderr
                check(result.returncode == 2 and told, f"{arguments} to a full disk: {result}")
        code, out, _ = run("--version")
        check(code == 0 and out.startswith("tolk-run "), "--version")
        code, out, _ = run("--env")
        check(code == 0 and "DEVICE" in out and "TOLK_CACHE_DIR" in out, "--env")
        code, out, _ = run("--env", "--json")
        check(code == 0 and any(row["name"] == "DEBUG" for row in json.loads(out)), "--env --json")
        code, out, _ = run("--list-devices")
        check(code == 0 and out, "--list-devices")
        code, out, _ = run("--list-devices", "--json")
        check(code == 0 and isinstance(json.loads(out), dict), "--list-devices --json")

        # What explains settings works while one of them is wrong; everything else does not.
        for arguments in (["--help"], ["--version"], ["--env"], ["--list-devices"], ["--list-devices", "--json"]):
            code, out, err = run(*arguments, JIT="9")
            check(code == 0 and out and "JIT=9 is out of range" in err, f"{arguments} with JIT=9: {code} {err}")
        code, out, _ = run("--env", JIT="9")
        line = next((line for line in out.split("\n") if line.startswith("JIT ")), "")
        check(line.split()[1:2] == ["9"] and "problem: JIT=9" in out, f"--env with JIT=9: {out}")
        rows = {row["name"]: row for row in json.loads(run("--env", "--json", JIT="9")[1])}
        check(rows["JIT"]["value"] == "9" and rows["JIT"]["problem"] and not rows["DEBUG"]["problem"], "--env --json with JIT=9")

        model = write("relu.onnx", relu_model([3]))
        refused([model], "JIT=9 is out of range", JIT="9")
        refused([model], "FAST_MATH=1 is not supported yet", FAST_MATH="1")
        code, _, err = run(model, VIZ="1", BEAM="2")
        check(code == 0 and "VIZ=1 is not supported yet" in err and "BEAM=2 is not" in err, f"idle settings: {code} {err}")
        x = write("x.npy", npy([1.5, 0.0, 2.0]))
        y = os.path.join(folder, "y.npy")
        code, out, err = run(model, "--input", f"x={x}", "--output", f"y={y}", "--runs", "3", "--json")
        check(code == 0, f"a run: {code} {err}")
        if code == 0:
            report = json.loads(out)
            check(report["outputs"][0]["shape"] == [3] and report["outputs"][0]["max"] == 2.0, f"the report: {out}")
            check(list(report["times"]) == ["import", "schedule", "compile", "first_run", "median_run"], f"the times: {out}")
            with open(y, "rb") as file:
                check(file.read() == npy([1.5, 0.0, 2.0]), "the stored output")
        code, out, err = run(model)
        check(code == 0 and "f32[3]" in out and "first run" in out and "median" not in out and "(random)" in out,
              f"random inputs: {code} {out} {err}")
        check(run(model, "--seed", "1")[1].split("time")[0] == run(model, "--seed", "1")[1].split("time")[0], "equal seeds")
        opened = write("open.onnx", relu_model(["N"]))
        code, out, _ = run(opened)
        check(code == 0 and 'dimension "N" of input "x" is open, 1 is used' in out, f"an open dimension: {out}")
        code, out, _ = run(opened, "--dim", "N=5")
        check(code == 0 and "f32[5]" in out, f"--dim: {out}")

        # The device's own name, since the saved form is for it.
        saved = os.path.join(folder, "relu.tolk")
        code, out, err = run(model, "--input", f"x={x}", "--save", saved)
        check(code == 0 and f"compiled model stored in {saved}" in out, f"--save: {code} {out} {err}")
        stored = os.path.join(folder, "stored.npy")
        code, out, err = run(saved, "--input", f"x={write('other.npy', npy([-1.0, 4.0, -3.0]))}", "--output", f"y={stored}")
        check(code == 0 and "f32[3]" in out, f"a saved model runs: {code} {out} {err}")
        if code == 0:
            with open(stored, "rb") as file:
                check(file.read() == npy([0.0, 4.0, 0.0]), "what a saved model computes")
        code, out, err = run(saved, "--runs", "3", "--json")
        check(code == 0 and json.loads(out)["times"]["schedule"] == 0, f"a saved model is not scheduled: {out} {err}")
        refused([saved, "--save", os.path.join(folder, "again.tolk")], "relu.tolk", "saved model already")
        refused([model, "--save", model], "relu.onnx", "the model itself")
        refused([saved, "--shape", "x=4"], "relu.tolk", "--shape")
        refused([saved, "--input", f"x={write('short.npy', npy([1.0]))}"], "f32[3]", "[1]")
        with open(saved, "rb") as file:
            content = file.read()
        for length in (9, len(content) // 2, len(content) - 1):
            refused([write("cut.tolk", content[:length])], "cut.tolk")
        refused([write("flip.tolk", content[:-5] + bytes([content[-5] ^ 1]) + content[-4:])], "flip.tolk", "checksum")
        refused([model, "--save", "/proc/nonexistent/m.tolk"], "/proc/nonexistent/m.tolk")
        refused([model, "--save", folder], folder, "is a folder")
        if os.path.exists("/dev/full"):
            os.remove(stored)
            full = os.path.join(folder, "full.tolk")
            os.symlink("/dev/full", full)
            refused([model, "--save", full, "--output", f"y={stored}"], "full.tolk", "No space left")
            check(os.path.exists(stored), "outputs are stored although the save fails")
        recording = os.path.join(folder, "calls.rec")
        code, out, err = run(model, "--input", f"x={x}", TOLK_LAYERS=f"record={recording}")
        check(code == 0 and os.stat(recording).st_mode & 0o777 == 0o600, f"a recording is private: {code} {err}")
        code, out, err = run("--replay", recording)
        check(code == 0 and "calls repeated" in out and " 0 different" in out, f"--replay: {code} {out} {err}")
        code, out, err = run("--replay", recording, "--json")
        report = json.loads(out) if code == 0 else {}
        check(report.get("compared", 0) > 0 and report["missing"] == "", f"--replay --json: {code} {out} {err}")
        with open(recording, "rb") as file:
            calls = file.read()
        code, out, err = run("--replay", write("crash.rec", calls[:-3]))
        check(code == 0 and "note: " in out and "breaks off" in out, f"--replay of half a recording: {code} {out} {err}")
        at = calls.index(b"INTERP")  # not in a length, which would make the file look cut off
        refused(["--replay", write("flip.rec", calls[:at] + bytes([calls[at] ^ 1]) + calls[at + 1:])], "flip.rec", "damaged")
        refused(["--replay", recording, "--device", "NULL"], "no call of the plugin NULL")
        refused(["--replay", recording + "2"], "calls.rec2", "cannot be opened")
        refused(["--replay", recording, model], "--replay", "takes no model")

        link = os.path.join(folder, "link.tolk")
        os.symlink("relu.tolk", link)
        code, out, err = run(model, "--save", link)
        check(code == 0 and os.path.islink(link) and run(saved)[0] == 0, f"--save through a link: {code} {err}")
        refused([model, "--save", os.path.join(folder, "relu.bin")], "relu.bin", "relu.bin.tolk")
        for at in range(8):
            refused([write("begin.tolk", content[:at] + bytes([content[at] ^ 1]) + content[at + 1:])], "begin.tolk",
                    "begins differently")
        refused([write("really.tolk", relu_model([3]))], "really.tolk", "begins differently")
        # A capture by any other name is not run, trusted or not.
        for name in ("capture.onnx", "capture", "capture.tolk.onnx"):
            refused([write(name, content)], name, "no ONNX model", ".tolk")
        refused([write("capture.onnx", content), "--trust-code"], "capture.onnx", "--trust-code")
        refused([model, "--trust-code"], "relu.onnx", "--trust-code")
        code, out, err = run(saved, "--trust-code")
        check(code == 0, f"--trust-code: {code} {err}")
        code, out, err = run(saved, NOOPT="1", CCACHE="0")
        check(code == 0 and "compile" in out, f"a saved model with NOOPT=1: {code} {err}")
        refused([saved], "relu.tolk", "TARGET=nonsense", TARGET="nonsense")
        if device:
            for file in (model, saved):
                refused([file], f"DEVICE={device},{device}:1 names 2 devices", "--device", DEVICE=f"{device},{device}:1")
                refused([file, "--device", f"{device},{device}:1"], "names 2 devices", f"--device {device}")
            code, out, err = run(model, "--device", device, DEVICE=f"{device},{device}:1")
            check(code == 0, f"--device wins over a list: {code} {err}")
        for file in (model, saved):
            code, out, _ = run(file, "--device", "NULL")
            check(code == 0 and "note: NULL computes nothing" in out, f"NULL says what it is: {out}")

        write("case/model.onnx", relu_model([3]))
        write("case/test_data_set_0/input_0.pb", tensor([1.5, 0.0, 2.0]))
        write("case/test_data_set_0/output_0.pb", tensor([1.5, 0.0, 2.0]))
        case = os.path.join(folder, "case")
        code, out, _ = run("--check", case)
        check(code == 0 and out.endswith("PASS  1 set, 1 output\n"), f"a case that passes: {code} {out}")
        write("wrong/model.onnx", relu_model([3]))
        write("wrong/test_data_set_0/input_0.pb", tensor([1.5, 0.0, 2.0]))
        write("wrong/test_data_set_0/output_0.pb", tensor([1.5, 0.0, 2.5]))
        wrong = os.path.join(folder, "wrong")
        code, out, _ = run("--check", wrong)
        words = "worst at [2]: 2, expected 2.5, difference 0.5, allowed 0.0025"
        check(code == 1 and words in out, f"one that differs: {code} {out}")
        code, out, _ = run("--check", wrong, "--json")
        check(code == 1 and json.loads(out)["passed"] is False, "one that differs, as JSON")
        code, out, _ = run("--check", wrong, "--types-only")
        check(code == 0, f"types only: {out}")
        code, out, _ = run("--check-many", stdin=f"{case}\n{wrong}\n/nonexistent\n")
        check([json.loads(line)["status"] for line in out.split("\n")[:-1]] == ["pass", "fail", "error"], f"--check-many: {out}")

        refused([], "no model is given")
        refused(["--frob"], "unknown option --frob")
        refused([os.path.join(folder, "none.onnx")], "none.onnx", "No such file")
        refused([folder], "is a folder")
        refused([write("text.onnx", b"just some words, and then some more of them\n")], "text.onnx", "text file")
        refused([write("cut.onnx", relu_model([3])[:-20])], "cut.onnx", "damaged")
        refused([model, "--input", f"x={write('bad.npy', npy([1.0, 2.0, 3.0])[:-4])}"], "bad.npy", "needs 12 bytes", "has 8")
        refused([model, "--input", f"x={write('two.npy', npy([1.0, 2.0]))}"], "two.npy", '"x" f32[3]', "[2]")
        refused([model, "--input", f"x={write('long.npy', npy([1.0, 2.0, 3.0]) + b'more')}"], "long.npy", "4 bytes follow")
        # Sizes that were assumed may be why a model fails: they are named beside the reason.
        refused([write("reshape.onnx", reshape_model())], 'dimension "N" of input "x" is open, 1 is used', '--dim "N=N"')
        code, _, err = run(os.path.join(folder, "reshape.onnx"), "--dim", "N=3")
        check(code == 0 and "note" not in err, f"with the size it needs: {code} {err}")
        refused([model, "--input", f"z={x}"], 'no input "z"', '"x" f32[3]')
        refused([model, "--output", "z=z.npy"], 'no output "z"', "y")
        refused([model, "--output", "y=/proc/nonexistent/y.npy"], "/proc/nonexistent/y.npy", "No such file")
        refused([model, "--shape", "x=4"], "[4]", "dimension 0 is 3")
        refused(["--check", folder], "model.onnx", "no such model")
        if device:
            refused([model, "--device", "NOSUCH"], "NOSUCH")
            refused([model, "--plugin", write("fake.so", b"not a library")], "fake.so")

    for fault in faults:
        print("FAILED:", fault)
    print(f"{len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
