#!/usr/bin/env python3
"""exports.py LIBRARY...: libtolk exports names of namespace tolk only, and templates of the standard library made for them.
What plugins export and what the core links is tested in tests/abi."""

import re
import subprocess
import sys

# Sanitizers add names of their own.
RUNTIME = re.compile(r"^(__asan|__ubsan|__tsan|__odr_asan|__sanitizer|___asan|_init$|_fini$)")


def run(*command):
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)}: {result.stderr}")
    return result.stdout


def exported(path):
    lines = run("nm", "-DCP", "--defined-only", path).splitlines()
    return [re.match(r"(.*?) ([A-Za-z])( [0-9a-f]+)*\s*$", line).group(1, 2) for line in lines if line]


def check_exports(path):
    for name, kind in exported(path):
        base = re.sub(r"^(typeinfo( name)? for|vtable for|VTT for|guard variable for|(non-virtual|virtual) thunk to) ", "", name)
        if kind == "W" or RUNTIME.search(base) or re.search(r"^(std::|__gnu_cxx::|.*\bstd::)", base) and kind in "uVW":
            continue
        if not re.search(r"(^|[ (*&])tolk::", base):
            yield f"{path} exports {name}"


def main():
    paths = sys.argv[1:]
    faults = [fault for path in paths for fault in check_exports(path)]
    print("\n".join(faults) or f"{len(paths)} files as expected")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
