#!/usr/bin/env python3
"""Includes inside a layer: include_cycles.py ROOT ENFORCED LAYER...

A room is a header with the source of its name. Rooms of one layer must not include each other in a circle. ENFORCED names the
layers, separated by commas, in which a cycle is a fault; in the others it is only reported.
"""

import os
import re
import sys

INCLUDE = re.compile(r'^#include "(tolk/[^"]+)"', re.M)


def rooms_of(root, layer):
    """room -> the rooms of the layer that it includes."""
    top = os.path.join(root, "core")
    found = {}
    for folder, _, names in os.walk(os.path.join(top, "tolk", layer)):
        for name in names:
            if not name.endswith((".h", ".cpp")):
                continue
            path = os.path.join(folder, name)
            room = os.path.splitext(os.path.relpath(path, top))[0]
            with open(path, encoding="utf-8") as file:
                included = {os.path.splitext(i)[0] for i in INCLUDE.findall(file.read())}
            found.setdefault(room, set()).update(i for i in included if i.startswith(f"tolk/{layer}/") and i != room)
    return found


def components(graph):
    """Tarjan's strongly connected components of more than one node."""
    number, low, open_nodes, out = {}, {}, [], []

    def visit(node):
        number[node] = low[node] = len(number)
        open_nodes.append(node)
        for other in sorted(graph.get(node, ())):
            if other not in number:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in open_nodes:
                low[node] = min(low[node], number[other])
        if low[node] == number[node]:
            at = open_nodes.index(node)
            if len(open_nodes) - at > 1:
                out.append(sorted(open_nodes[at:]))
            del open_nodes[at:]

    for node in sorted(graph):
        if node not in number:
            visit(node)
    return out


def main():
    root, enforced, layers = sys.argv[1], sys.argv[2].split(","), sys.argv[3:]
    faults = 0
    for layer in layers:
        graph = rooms_of(root, layer)
        if not graph:
            print(f"core/tolk/{layer} has no sources")
            faults += 1
        for cycle in components(graph):
            print(f"{layer}: {len(cycle)} rooms include each other: {', '.join(cycle)}")
            faults += layer in enforced
    return 1 if faults else 0


if __name__ == "__main__":
    sys.setrecursionlimit(10000)
    sys.exit(main())
