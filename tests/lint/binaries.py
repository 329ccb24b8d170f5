#!/usr/bin/env python3
"""What was linked is what was meant: binaries.py KIND FILE...

  core     no compiler, vendor or protobuf library among the libraries that a load would bring
  exports  libtolk exports names of namespace tolk only (and templates of the standard library made for them)
  plugin   each exports its entry point and nothing else, and does not need libtolk"""

import re
import subprocess
import sys

FOREIGN = re.compile(r"LLVM|clang|protobuf|vulkan|amdhip|hiprtc|libhsa|ze_loader|OpenCL|onnx|libpython", re.I)
ENTRY = "tolk_plugin_entry_v1"
# Sanitizers add names of their own.
RUNTIME = re.compile(r"^(__asan|__ubsan|__tsan|__odr_asan|__sanitizer|___asan|_init$|_fini$)")


def run(*command):
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)}: {result.stderr}")
    return result.stdout


def needed(path):
    return re.findall(r"\(NEEDED\)\s+Shared library: \[([^\]]+)\]", run("readelf", "-dW", path))


def exported(path, demangle=False):
    lines = run("nm", "-DP", "--defined-only", *(["-C"] if demangle else []), path).splitlines()
    return [re.match(r"(.*?) ([A-Za-z])( [0-9a-f]+)*\s*$", line).group(1, 2) for line in lines if line]


def check_core(path):
    for line in run("ldd", path).splitlines():
        library = line.split()[0]
        if FOREIGN.search(library):
            yield f"{path} loads {library}"


def check_exports(path):
    for name, kind in exported(path, demangle=True):
        base = re.sub(r"^(typeinfo( name)? for|vtable for|VTT for|guard variable for|(non-virtual|virtual) thunk to) ", "", name)
        if kind == "W" or RUNTIME.search(base) or re.search(r"^(std::|__gnu_cxx::|.*\bstd::)", base) and kind in "uVW":
            continue
        if not re.search(r"(^|[ (*&])tolk::", base):
            yield f"{path} exports {name}"


def check_plugin(path):
    names = [name.split("@")[0] for name, _ in exported(path) if not RUNTIME.search(name)]
    if names != [ENTRY]:
        yield f"{path} exports {names or 'nothing'}; expected {ENTRY} alone"
    for library in needed(path):
        if library.startswith("libtolk."):
            yield f"{path} needs {library}; a plugin sees the interface only"


def main():
    kind, paths = sys.argv[1], sys.argv[2:]
    faults = [fault for path in paths for fault in globals()["check_" + kind](path)]
    print("\n".join(faults) or f"{len(paths)} files as expected")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
