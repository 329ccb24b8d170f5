#!/usr/bin/env python3
"""Comments of core use the field's words: words.py ROOT. words.txt has those that they avoid; docs/glossary.md the terms."""

import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def rules():
    layers, words = [], []
    for n, line in enumerate(read(HERE + "/words.txt").split("\n"), 1):
        if line.startswith("[layers] "):
            layers = line.split()[1:]
        elif line and not line.startswith("#"):
            pattern, _, instead = line.partition(" => ")
            if not instead:
                sys.exit(f"words.txt:{n}: no ` => ` with the words to use")
            words.append((re.compile(pattern), instead))
    return layers, words


def comments(text):
    """Line number and text of each // comment; one that goes over several lines is searched line by line."""
    for n, line in enumerate(text.split("\n"), 1):
        if match := re.search(r'(?:^|[^:"])//(.*)', line):
            yield n, match.group(1)


def main():
    root = os.path.abspath(sys.argv[1])
    layers, words = rules()
    count = 0
    for layer in layers:
        for path, _, names in sorted(os.walk(f"{root}/core/tolk/{layer}")):
            for name in sorted(n for n in names if n.endswith((".h", ".cpp", ".def"))):
                file = os.path.join(path, name)
                for n, comment in comments(read(file)):
                    for pattern, instead in words:
                        if match := pattern.search(comment):
                            print(f"{os.path.relpath(file, root)}:{n}: \"{match.group()}\": {instead}")
                            count += 1
    print(f"{count} faults" if count else f"no faults in {', '.join(layers)}")
    sys.exit(1 if count else 0)


if __name__ == "__main__":
    main()
