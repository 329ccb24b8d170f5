#!/usr/bin/env python3
"""What libtolk shows has a user: public.py ROOT BUILD [--list]

  - each header that tolk/tolk.h includes is included by name in an example or a tool
  - each exported function or object is declared in such a header, or used by core, a tool, a plugin, an example, a benchmark or
    the program that writes docs/

"Used" is what the object files say, so templates and inline functions count for those who instantiate them; what such a
function of a header calls is used as well, and so is the destructor of a class that somebody constructs. Exports known to
fail are in unused_exports.txt; that list may only shrink. --list prints what it would hold."""

import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def run(*command):
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command[:3])} ...: {result.stderr[:2000]}")
    return result.stdout


def find(folder, endings):
    for path, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            if name.endswith(endings):
                yield os.path.join(path, name)


def public_headers(root):
    return re.findall(r'^#include "(tolk/[^"]+)"', read(root + "/core/tolk/tolk.h"), re.M)


def unused_headers(root, public):
    included = set()
    for folder in ("examples", "tools"):
        for path in find(f"{root}/{folder}", (".h", ".cpp")):
            included |= set(re.findall(r'#include [<"](tolk/[^>"]+)[>"]', read(path)))
    for header in ["tolk/tolk.h", *public]:
        if header not in included:
            yield f"{header} is public and no example or tool includes it: show its use, or take it out of tolk/tolk.h"


def symbols(objects):
    """Names that objects use from others, and the objects that define each name."""
    used, defined = set(), {}
    for begin in range(0, len(objects), 100):
        for line in run("nm", "-AP", *objects[begin:begin + 100]).splitlines():
            place, name, kind = line.split(" ")[:3]
            place = place.rstrip(":")
            if kind == "U":
                used.add(name)
            elif kind.isupper():
                defined.setdefault(name, []).append(place)
    return used, defined


def variants(name):
    """Complete and base constructors and destructors are one function."""
    return {re.sub(r"([CD])[0-3]E", rf"\g<1>{n}E", name) for n in range(4)} | {name}


def classes(names, kind):
    """Mangled names of the classes whose constructors (kind C) or destructors (D) are among the names."""
    return {m[1]: name for name in names if (m := re.match(rf"(_ZN.+){kind}[0-3]E", name))}


def inline_calls(root):
    """Names that functions in headers call: a name and a parenthesis where no declaration can begin."""
    text = "".join(re.sub(r"//[^\n]*", "", read(path)) for path in find(f"{root}/core/tolk", (".h",)))
    return set(re.findall(r"(?:[;{)(=,!?]|\breturn)\s*(\w+)\(", text))


def qualified(demangled):
    """Parts of the name without parameters, template arguments and tags: tolk::Device::name(int) gives Device, name."""
    depth, out = 0, ""
    for c in re.sub(r"operator *(\(\)|[^\w\s(]+)", "operator", re.sub(r"\[abi:\w+\]", "", demangled)):
        if c in "(<":
            if c == "(" and depth == 0 and out:
                break
            depth += 1
        elif c in ")>":
            depth -= 1
        elif depth == 0:
            out += c
    return [p for p in out.strip().split(" ")[-1].split("::") if p and p != "tolk"]


def unused_exports(root, build, public):
    declared = [set(re.findall(r"~?\w+", re.sub(r"//[^\n]*", "", read(f"{root}/core/{h}"))))
                for h in public if os.path.exists(f"{root}/core/{h}")]
    folders = ("core", "tools", "examples", "plugins", "bench", "tests/lint")
    objects = [o for folder in folders for o in find(f"{build}/{folder}", (".o",))]
    used, defined = symbols(objects)
    library = run("nm", "-DP", "--defined-only", f"{build}/lib/libtolk.so").splitlines()
    # Weak and unique names come from templates and inline functions; V and R beside classes are their tables.
    exported = [line.split(" ")[0] for line in library if line.split(" ")[1] in "TBD"]
    left = [name for name in exported if not variants(name) & used]
    # Uses in the file that defines a name are relocations; nm does not show them.
    own, wanted = set(), set().union(*map(variants, left))
    for path in sorted({p for name in left for p in defined.get(name, [])}):
        own |= wanted & set(re.findall(r"^[0-9a-f]+ +[0-9a-f]+ +R_\w+ +[0-9a-f]+ +(\S+)", run("readelf", "-rW", path), re.M))
    left = [name for name in left if not variants(name) & own]
    constructed = classes(used | own, "C")
    left = [name for name in left if not classes([name], "D").keys() & constructed.keys()]
    called = inline_calls(root)
    plain = run("c++filt", "--", *left).splitlines() if left else []
    for parts in sorted({tuple(qualified(name)) for name in plain}):
        member = len(parts) > 1 and parts[-2][0].isupper()
        if parts[-1] in called - {"operator", *parts[:-1]}:  # a constructor's name also begins its declaration
            continue
        if not any(set(parts[-2:] if member else parts[-1:]) <= words for words in declared):
            yield "::".join(parts)


def main():
    root, build = (os.path.abspath(a) for a in sys.argv[1:3])
    public = public_headers(root)
    unused = list(unused_exports(root, build, public))
    if "--list" in sys.argv[3:]:
        print("\n".join(unused))
        return 0
    listed = [line for line in read(HERE + "/unused_exports.txt").splitlines() if line and not line.startswith("#")]
    faults = list(unused_headers(root, public))
    faults += [f"{name}: only tests use this export; use it, make it public in tolk/tolk.h, or delete it"
               for name in unused if name not in listed]
    gone = [name for name in listed if name not in unused]
    print("\n".join(faults) or f"{len(public)} public headers; {len(unused)} exports that only tests use, all of them listed")
    if gone:
        print("no longer so, take them out of tests/lint/unused_exports.txt:\n  " + "\n  ".join(gone))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
