#!/usr/bin/env python3
"""errors.py finds what it is for: errors_selftest.py ROOT. Changes a copy of the sources, one fault at a time."""

import os
import shutil
import subprocess
import sys
import tempfile

import messages

root = os.path.abspath(sys.argv[1])
PARTS = ["core/tolk", "tools/run", "plugin_api/include/tolk/plugin"]

# file, text, what takes its place, words that must occur in the report
FAULTS = [
    ("tools/run/main.cpp", 'fail("out of memory")', 'fail("memory is short")', "= memory is short"),
    ("tools/run/main.cpp", 'fail("out of memory")', 'fail("memory is short")', "= out of memory"),
    ("core/tolk/device/registry.cpp", "namespace {\n",
     'namespace {\nvoid f(int n) { throw DeviceError("the device " + std::to_string(n) + " sulks"); }\n',
     "= the device <n> sulks"),
    ("core/tolk/onnx/reader.cpp", '"the file holds no graph; is it an ONNX model?"', '"the file has no graph"',
     "= the file holds no graph; is it an ONNX model?"),
    ("core/tolk/io/fresh.cpp", None, 'void f() { throw FormatError("a new complaint"); }\n', "fresh.cpp says something"),
]
# Texts and what they read as.
READ = [
    ('throw E("a b");', "a b"),
    ('throw E(fmt::format("{}: no \\"{}\\" in {{}}", path, x.name));', '<path>: no "<x>" in {}'),
    ('throw E(p.name + ": " + std::to_string(n) + (n == 1 ? " device" : " devices") + " are there");',
     "<p>: <n>< device| devices> are there"),
    ('return "one " /* and */ "two "\n  "three";', "one two three"),
    ('// "not this one"\nlog::debug(1, "or this");', "or this"),
    ("char c = '\"'; throw E(\"after a quote\");", "after a quote"),
]


def run(tree):
    command = [sys.executable, "-B", os.path.join(root, "tests/lint/errors.py"), tree]
    result = subprocess.run(command, capture_output=True, text=True)
    return result.returncode, result.stdout + result.stderr


def main():
    faults = []
    for text, wanted in READ:
        found = [m for m, _ in messages.messages(text)]
        if found != [wanted]:
            faults.append(f"{text} reads as {found}, not {wanted}")
    with tempfile.TemporaryDirectory() as tree:
        for part in PARTS:
            source, target = os.path.join(root, part), os.path.join(tree, part)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            (shutil.copytree if os.path.isdir(source) else shutil.copy)(source, target)
        status, output = run(tree)
        if status != 0:
            faults.append(f"a copy of the sources is refused: {output}")
        for name, old, new, words in FAULTS:
            path = os.path.join(tree, name)
            before = open(path, encoding="utf-8").read() if old else None
            if old and old not in before:
                faults.append(f"{name} does not have {old!r} any more; choose another line for this test")
                continue
            with open(path, "w", encoding="utf-8") as file:
                file.write(before.replace(old, new, 1) if old else new)
            status, output = run(tree)
            if status == 0 or words not in output:
                faults.append(f"{name}: {new!r} is not found: status {status}, {output[:400]}")
            if old:
                with open(path, "w", encoding="utf-8") as file:
                    file.write(before)
            else:
                os.remove(path)
    print("\n".join(faults) or f"{len(FAULTS)} faults planted, each found")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
