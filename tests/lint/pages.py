#!/usr/bin/env python3
"""What hand-written pages claim about the code: pages.py ROOT

  - docs/tolk-run-formats.md names every key of tolk-run's JSON
  - README.md names the settings that nothing reads yet, and no others
  - docs/dependencies.md has the packages of scripts/deps
  - files, folders and pages that documents name in backticks exist"""

import os
import re
import sys

JSON = ["tools/run/report.cpp", "tools/run/check.cpp", "tools/run/environment.cpp", "core/tolk/device/report.cpp"]
# Endings of what a document may name; other words in backticks are code.
NAMED = re.compile(r"^[A-Za-z_.][\w.\-/{},<>*]*$")
FOLDERS = ("core/", "plugin_api/", "plugins/", "tools/", "tests/", "bench/", "docs/", "examples/", "cmake/", "scripts/", "tolk/")


def read(root, name):
    with open(os.path.join(root, name), encoding="utf-8") as file:
        return file.read()


def files(root, folder, endings):
    for path, _, names in os.walk(os.path.join(root, folder)):
        for name in names:
            if name.endswith(endings):
                yield os.path.relpath(os.path.join(path, name), root)


def json_keys(root):
    page = set(re.findall(r"`(\w+)`", read(root, "docs/tolk-run-formats.md")))
    for source in JSON:
        text = read(root, source)
        keys = set(re.findall(r'\{"(\w+)", ', text)) | set(re.findall(r'\["(\w+)"\]', text))
        # Table headings and labels of text reports look alike.
        for key in sorted(keys - page - {"input", "output", "setting", "time"}):
            yield f"docs/tolk-run-formats.md does not name the key `{key}` of {source}"


def settings(root):
    rows = re.findall(r"^TOLK_(?:INT|TEXT)\((\w+), (\w+),", read(root, "core/tolk/base/config_vars.def"), re.M)
    sources = [read(root, f) for folder in ("core", "tools") for f in files(root, folder, (".cpp", ".h"))
               if f != "core/tolk/base/config.cpp"]
    unused = {name for field, name in rows if not any(re.search(rf"(current\(\)|config|plain)\.{field}\b", s) for s in sources)}
    # TOLK_CPU_STREAMS is the option "streams" of plugins/cpu.
    for name in sorted(unused):
        plugin, _, option = name.removeprefix("TOLK_").lower().partition("_")
        if option and any(f'"{option}"' in read(root, f) for f in files(root, "plugins/" + plugin, ".cpp")):
            unused.discard(name)
    found = re.search(r"no effect yet: ([^.]*)\.", read(root, "README.md"))
    claimed = set(re.findall(r"`(\w+)`", found.group(1))) if found else set()
    for name in sorted(unused - claimed):
        yield f"README.md does not say that {name} has no effect: nothing reads it"
    for name in sorted(claimed - unused):
        yield f"README.md says that {name} has no effect, but the code reads it"


def packages(root):
    wanted = set(re.findall(r"^(?:build|test|train) +(\S+)", read(root, "scripts/deps"), re.M))
    found = set(re.findall(r"^\| `([^`]+)` \|", read(root, "docs/dependencies.md"), re.M))
    for name in sorted(wanted ^ found):
        yield f"{name} is only in {'scripts/deps' if name in wanted else 'docs/dependencies.md'}, not in the other"


def names(root):
    pages = [n for n in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    pages += [f for f in files(root, "docs", (".md",)) if os.path.basename(f) not in ("errors.md", "template.md")]
    for page in pages:
        for name in re.findall(r"`([^`\n]+)`", read(root, page)):
            name = name.split(" ")[0]
            if not NAMED.match(name) or re.search(r"[<>*{}]", name) or not name.startswith(FOLDERS):
                continue
            if name.startswith("tolk/") and not name.endswith((".h", ".cpp", ".def")):
                continue
            places = ["core/" + name, "plugin_api/include/" + name] if name.startswith("tolk/") else [name]
            if not any(os.path.exists(os.path.join(root, p)) for p in places):
                yield f"{page} names {name}, which does not exist"
        # A C++ lambda in a code block looks like a link.
        prose = re.sub(r"^```.*?^```", "", read(root, page), flags=re.M | re.S)
        for link in re.findall(r"\]\(([^)#:]+)\)", prose):
            if not os.path.exists(os.path.join(root, os.path.dirname(page), link)):
                yield f"{page} links to {link}, which does not exist"


def main():
    root, faults = os.path.abspath(sys.argv[1]), []
    for check in (json_keys, settings, packages, names):
        faults += check(root)
    print("\n".join(faults) or "the pages agree with the code")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
