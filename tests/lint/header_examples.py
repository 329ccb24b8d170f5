#!/usr/bin/env python3
"""Every example in a header of core compiles: header_examples.py ROOT BUILD COMPILER.

An example is a block of comment lines indented by three spaces, of which one ends in a semicolon or an open brace; other
blocks are tables. header_examples.txt gives the names that an example uses without declaring them, by header; those marked
pending wait. All examples are one translation unit, each in a function of its own."""

import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def blocks(text):
    """Line number and lines of each example."""
    lines, n = text.split("\n"), 0
    while n < len(lines):
        begin = n
        while n < len(lines) and re.match(r"\s*//   ", lines[n]):
            n += 1
        found = [re.sub(r"^\s*//   ", "", line) for line in lines[begin:n]]
        if any(re.search(r"[;{]$", re.sub(r"\s*//.*", "", line)) for line in found):
            yield begin + 1, found
        n += 1


def contexts():
    """Lines by header, of header_examples.txt."""
    found, header = {}, None
    for line in read(HERE + "/header_examples.txt").split("\n"):
        if match := re.fullmatch(r"\[(\S+)\]", line):
            header = match.group(1)
            found[header] = []
        elif line and not line.startswith("# "):
            found[header].append(line)
    return found


def unit(root):
    """The translation unit, and headers of contexts that have no example."""
    known, used, includes, body = contexts(), set(), ["tolk/tolk.h"], []
    for path, _, names in sorted(os.walk(root + "/core/tolk")):
        for name in sorted(n for n in names if n.endswith(".h")):
            header = os.path.relpath(os.path.join(path, name), root + "/core")
            text = read(os.path.join(path, name))
            for line, example in blocks(text):
                context = known.get(header, [])
                used.add(header)
                if "pending" in context:
                    continue
                includes += [header] + [c.split('"')[1] for c in context if c.startswith("#include")]
                spaces = dict.fromkeys(re.findall(r"^namespace (tolk(?:::\w+)*) \{", text, re.M))
                body.append(f"namespace example_{len(body)} {{")
                body += [f"using namespace {s};" for s in ("tolk", *spaces) if s != "tolk::detail"]
                body += [c for c in context if not c.startswith("#include")]
                body += ["void run() {", f'#line {line} "core/{header}"', *example, '#line 1 "header_examples.txt"', "}", "}"]
    top = [f'#include "{i}"' for i in dict.fromkeys(includes)]
    return "\n".join(["#include <cstdio>", *top, *body, ""]), sorted(set(known) - used), sum(b == "void run() {" for b in body)


def main():
    root, build, compiler = sys.argv[1:4]
    text, idle, count = unit(root)
    for header in idle:
        print(f"header_examples.txt: {header} has no example any more")
    command = [compiler, "-std=c++20", "-fsyntax-only", "-xc++", "-", f"-I{root}/core", f"-I{build}/core",
               f"-I{root}/plugin_api/include", "-fmax-errors=40"]
    result = subprocess.run(command, input=text, capture_output=True, text=True)
    print(result.stderr[:12000] or f"{count} examples compile")
    return 1 if result.returncode != 0 or idle else 0


if __name__ == "__main__":
    sys.exit(main())
