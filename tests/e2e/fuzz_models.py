#!/usr/bin/env python3
"""Damages ONNX models and runs them: fuzz_models.py TOLK_RUN COUNT SEED MODEL.onnx...

Each round truncates, flips bits of, or edits a random model, and runs the result with drawn inputs. Allowed: exit 0, or
exit 2 with one message that names the file. Anything else is reported with the seed of its round: a signal, another exit
status, more than 10 s, more than 2 GB of memory. Prints "N passed, M failed" last."""

import os
import random
import resource
import subprocess
import sys
import tempfile

LIMIT_S, LIMIT_BYTES = 10, 2 << 30
# What an exporter's bug or a bad disk writes: lengths, counts, dimensions, type codes.
VALUES = (0, 1, 2, 7, 8, 16, 127, 128, 255)


def damaged(data, rng):
    data = bytearray(data)
    kind = rng.randrange(4)
    if kind == 0:
        return bytes(data[: rng.randrange(len(data))]), "truncated"
    # Structure sits at both ends of a model; weights fill the middle.
    edge = min(len(data), 1 << 14)

    def place():
        where = rng.randrange(3)
        if where == 0:
            return rng.randrange(edge)
        if where == 1:
            return len(data) - 1 - rng.randrange(edge)
        return rng.randrange(len(data))

    if kind == 1:
        for _ in range(rng.choice((1, 1, 2, 8, 64))):
            data[place()] ^= 1 << rng.randrange(8)
        return bytes(data), "bits flipped"
    if kind == 2:
        for _ in range(rng.choice((1, 2, 4))):
            data[place()] = rng.choice(VALUES)
        return bytes(data), "bytes set"
    at, n = place(), rng.randrange(1, 64)
    if rng.randrange(2):
        del data[at : at + n]
        return bytes(data), "bytes removed"
    data[at:at] = bytes(rng.randrange(256) for _ in range(n))
    return bytes(data), "bytes inserted"


def limit():
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES + (1 << 30), LIMIT_BYTES + (1 << 30)))


def sanitized(tool):
    """AddressSanitizer reserves terabytes of addresses: no limit of memory then."""
    with open(tool, "rb") as file:
        return b"__asan_init" in file.read()


def run(tool, path, preexec):
    """Empty when the outcome is allowed, else what is wrong."""
    try:
        r = subprocess.run([tool, path], capture_output=True, text=True, errors="replace", timeout=LIMIT_S,
                           stdin=subprocess.DEVNULL, preexec_fn=preexec)
    except subprocess.TimeoutExpired:
        return f"still running after {LIMIT_S} s"
    if r.returncode == 0:
        return ""
    if r.returncode != 2:
        return f"exit status {r.returncode}: {r.stderr[-300:]}"
    message = r.stderr.strip()
    if not message:
        return "exit 2 without a message"
    if path not in message:
        return f"the message does not name the file: {message[:300]}"
    return ""


def main():
    tool, count, seed, models = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
    if not models:
        print("no model given")
        return 2
    contents = [(m, open(m, "rb").read()) for m in models]
    failed, preexec = 0, None if sanitized(tool) else limit
    with tempfile.TemporaryDirectory() as folder:
        for i in range(count):
            rng = random.Random(f"{seed}/{i}")
            name, data = rng.choice(contents)
            mutant, what = damaged(data, rng)
            path = os.path.join(folder, "model.onnx")
            with open(path, "wb") as f:
                f.write(mutant)
            wrong = run(tool, path, preexec)
            if wrong:
                failed += 1
                print(f"round {i} of seed {seed}, {os.path.basename(os.path.dirname(name)) or name}, {what}: {wrong}", flush=True)
                if os.environ.get("TOLK_KEEP_MUTANTS"):
                    os.replace(path, os.path.join(os.environ["TOLK_KEEP_MUTANTS"], f"mutant-{seed}-{i}.onnx"))
    print(f"{count - failed} passed, {failed} failed")
    return 1 if failed else 0


sys.exit(main())
