#!/usr/bin/env python3
"""Counts the project's headers that a public header reaches: headers.py ROOT.

What a header includes is compiled by everybody who includes it, and tells what it depends on."""

import os
import re
import sys

# header, most headers of the project that it may reach, itself included
LIMITS = [("tolk/tensor/jit.h", 14)]
INCLUDE = re.compile(r'^\s*#\s*include\s+["<](tolk/[^">]+)[">]', re.M)


def reached(root, header):
    seen, todo = set(), [header]
    while todo:
        name = todo.pop()
        path = next((p for p in (os.path.join(root, folder, name) for folder in ("core", "plugin_api/include"))
                     if os.path.exists(p)), None)
        if name in seen or path is None:  # written by the build, such as version.h
            continue
        seen.add(name)
        with open(path, encoding="utf-8") as file:
            todo += INCLUDE.findall(file.read())
    return seen


def main():
    faults = 0
    for header, most in LIMITS:
        found = reached(sys.argv[1], header)
        if len(found) > most or header not in found:
            print(f"{header} reaches {len(found)} headers, {most} are the limit: {' '.join(sorted(found))}")
            faults += 1
    print(f"{faults} faults" if faults else "no faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
