#!/usr/bin/env python3
"""The bounds that docs/numerics.md promises are those that tests/e2e/numerics_test.cpp asks for: numerics.py ROOT"""

import os
import re
import sys

ROW = re.compile(r'\{"(\w+)",\s*\[\].*?\},\s*(?:\[\]\(double.*?\}|\w+),\s*(-?[\d.e-]+),\s*(-?[\d.e]+),\s*(true|false),'
                 r'\s*([\d.]+),\s*([\d.e-]+)\}', re.S)


def number(text):
    return float(text)


def main():
    root = sys.argv[1]
    source = open(os.path.join(root, "tests/e2e/numerics_test.cpp"), encoding="utf-8").read()
    table = source[source.index("rows() {"):source.index("std::vector<float> points")]
    wanted = {name: (number(low), number(high), number(bound), number(absolute))
              for name, low, high, _, bound, absolute in ROW.findall(table)}
    if len(wanted) != len(re.findall(r'\{"\w+",', table)) or not wanted:
        sys.exit("numerics.py does not understand every row of numerics_test.cpp")
    page = open(os.path.join(root, "docs/numerics.md"), encoding="utf-8").read()
    found = {}
    for name, low, high, bound in re.findall(r"^\| `(\w+)` \| (\S+) \.\. (\S+) \| ([^|]*) \|", page, re.M):
        absolute = bound.endswith("max(1, \\|x\\|)") or "·" in bound or "times" in bound
        value = number(bound.split()[0])
        found[name] = (number(low), number(high), 0.0 if absolute else value, value if absolute else 0.0)
    faults = [f"{name}: the test has {wanted.get(name)}, the page {found.get(name)} (from, to, units in the last place, absolute)"
              for name in sorted(set(wanted) | set(found)) if wanted.get(name) != found.get(name)]
    print("\n".join(faults) or f"{len(wanted)} bounds agree")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
