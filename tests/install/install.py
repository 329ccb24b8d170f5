#!/usr/bin/env python3
"""The installed copy works: install.py ROOT BUILD [CMake arguments].

Installs BUILD into a folder of it, moves that folder, and then, with the moved copy alone: builds and runs examples/, builds a
plugin in C with the package tolk_plugin_api and loads it, and runs tolk-run."""

import os
import pathlib
import shutil
import subprocess
import sys

root, build = (pathlib.Path(a).resolve() for a in sys.argv[1:3])
arguments = [a for a in sys.argv[3:] if a and not a.endswith("=")]
work = build / "install-test"
prefix = work / "moved"


def run(*command, **environment):
    command = [str(c) for c in command]
    result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)} gave {result.returncode}:\n{result.stdout[-6000:]}{result.stderr[-6000:]}")
    return result.stdout + result.stderr


def require(condition, words):
    if not condition:
        sys.exit(words)


def project(source, name, *more):
    run("cmake", "-G", "Ninja", "-S", source, "-B", work / name, f"-DCMAKE_PREFIX_PATH={prefix}", *arguments, *more)
    run("cmake", "--build", work / name)


shutil.rmtree(work, ignore_errors=True)
run("cmake", "--install", build, "--prefix", work / "first")
(work / "first").rename(prefix)

project(root / "examples", "examples")
print(run("ctest", "--test-dir", work / "examples", "--output-on-failure", "--no-tests=error", "-V")[-3000:])
cache = (work / "examples/CMakeCache.txt").read_text()
require(f"tolk_DIR:PATH={prefix}" in cache, "the examples did not find the installed package")
used = run("ldd", work / "examples/example_hello")
require(str(prefix) in used, f"example_hello does not use the installed libtolk:\n{used}")

project(root / "tests/install/plugin", "plugin", f"-DSOURCE={root / 'plugins/null/null.c'}")
library = work / "plugin/libtolk-backend-null.so"
os.chmod(library, 0o755), os.chmod(library.parent, 0o755)
tolk_run = prefix / "bin/tolk-run"
listing = run(tolk_run, "--list-devices", "-v", TOLK_PLUGIN_PATH=str(library.parent))
require(str(library) in listing, f"the plugin was not found:\n{listing}")
listing = run(tolk_run, "--list-devices", "-v")
for plugin in ("cpu", "interp", "null"):
    require(f"{prefix}/lib" in listing and f"libtolk-backend-{plugin}.so" in listing, f"{plugin} is not there:\n{listing}")
model = root / "examples/demo/digits.onnx"
require("probabilities" in run(tolk_run, model), "tolk-run gave no result")
print("the installed copy works")
