#!/usr/bin/env python3
"""Checks of the source text: lint.py CHECK ROOT. Prints one line per fault and exits 1; exits 77 when its tool is missing.

  length   no source has more than 800 lines, no script has lines over 130 columns, each ends with a newline, no tabs
  format   clang-format-19 would change nothing
  words    no marks of unfinished work, no absolute paths of somebody's machine
  output   text leaves and environment variables enter through named files only
  scripts  shell and Python files parse
  presets  the presets of CMakePresets.json are those that scripts and documents name
"""

import json
import os
import re
import shutil
import subprocess
import sys

CODE = (".c", ".cpp", ".h", ".hpp")
SOURCES = CODE + (".def", ".cmake", ".py", ".txt", ".map", ".in", ".sh")
FOLDERS = ("core", "plugin_api", "plugins", "tools", "tests", "bench", "examples", "cmake", "scripts", ".ci")
# Written by programs or read as data.
DATA = ("tests/golden/expected/", "examples/demo/samples/")


def files(root, endings):
    """Paths below the project's folders, relative to it; programs without an ending count as scripts."""
    found = []
    for folder in FOLDERS:
        for path, folders, names in os.walk(os.path.join(root, folder)):
            folders[:] = sorted(f for f in folders if f not in ("__pycache__", "build"))
            for name in sorted(names):
                relative = os.path.relpath(os.path.join(path, name), root)
                script = "." not in name and folder in ("scripts", ".ci")
                if (name.endswith(endings) or script and ".sh" in endings) and not relative.startswith(DATA):
                    found.append(relative)
    found += [n for n in ("CMakeLists.txt",) if n.endswith(endings) and os.path.exists(os.path.join(root, n))]
    return found


def read(root, name):
    with open(os.path.join(root, name), encoding="utf-8", errors="replace") as file:
        return file.read()


def check_length(root):
    for name in files(root, SOURCES):
        text = read(root, name)
        lines = text.split("\n")
        if len(lines) - 1 > 800:
            yield f"{name}: {len(lines) - 1} lines; a source has one subject and at most 800 lines"
        if text and not text.endswith("\n"):
            yield f"{name}: the last line has no end"
        for n, line in enumerate(lines, 1):
            if "\t" in line:
                yield f"{name}:{n}: a tab"
            if line != line.rstrip():
                yield f"{name}:{n}: spaces at the end"
            # Code is wrapped by clang-format, tables may be wide.
            if len(line) > 130 and (name.endswith((".py", ".sh")) or "." not in os.path.basename(name)):
                yield f"{name}:{n}: {len(line)} columns, at most 130"


def check_format(root):
    tool = shutil.which("clang-format-19")
    if not tool:
        print("clang-format-19 is not installed; scripts/deps test brings it")
        sys.exit(77)
    names = files(root, CODE)
    for begin in range(0, len(names), 64):
        command = [tool, "--dry-run", "-Werror", "--style=file:" + os.path.join(root, ".clang-format")] + names[begin:begin + 64]
        result = subprocess.run(command, cwd=root, capture_output=True, text=True)
        bad = sorted(set(re.findall(r"^([^:\n]+):\d+:\d+: error:", result.stderr, re.M)))
        for name in bad:
            yield f"{name}: not formatted; run clang-format-19 -i {name}"
        if result.returncode != 0 and not bad:
            yield result.stderr


def check_words(root):
    marks = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|X" + r"XX|HA" + r"CK)\b")
    paths = re.compile(r"(?<![\w.~$}])/(home|root|work|Users)/")
    documents = [os.path.join("docs", f) for f in os.listdir(os.path.join(root, "docs")) if f.endswith(".md")] \
        if os.path.isdir(os.path.join(root, "docs")) else []
    documents += [f for f in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md") if os.path.exists(os.path.join(root, f))]
    for name in files(root, SOURCES) + documents:
        for n, line in enumerate(read(root, name).split("\n"), 1):
            if marks.search(line):
                yield f"{name}:{n}: a mark of unfinished work; finish it, or open an issue"
            if paths.search(line) and name != "tests/lint/lint.py":
                yield f"{name}:{n}: an absolute path of one machine"


# Where output and environment may be touched directly.
PRINTS = ("core/tolk/base/log.cpp",)
ENVIRONMENT = ("core/tolk/base/config.cpp",)


def check_output(root):
    prints = re.compile(r"std::(cout|cerr|clog)\b|fmt::print\b|"
                        r"(?<![\w:.>])(std::)?(printf|fprintf|vfprintf|puts|putchar|fputs|perror)\s*\(")
    environment = re.compile(r"\b(secure_)?(getenv|setenv|putenv|unsetenv)\s*\(")
    for name in files(root, CODE):
        if not name.startswith(("core/", "plugins/", "tools/")):
            continue
        for n, line in enumerate(read(root, name).split("\n"), 1):
            line = line.split("//")[0]
            if prints.search(line) and name not in PRINTS and not name.startswith("tools/"):
                yield f"{name}:{n}: prints; text leaves through tolk/base/log.h, in a plugin through the host's log"
            if environment.search(line) and name not in ENVIRONMENT:
                yield f"{name}:{n}: touches the environment; settings are rows of config_vars.def, plugins ask the host"


def check_presets(root):
    wanted = ["dev", "release", "quick", "clang", "asan", "tsan", "lint"]
    presets = json.loads(read(root, "CMakePresets.json"))
    configure = {p["name"]: p for p in presets["configurePresets"]}
    builds = {p["name"]: p for p in presets.get("buildPresets", [])}
    for name in wanted:
        if name not in configure:
            yield f"CMakePresets.json: no configure preset {name}"
        if builds.get(name, {}).get("configurePreset") != name:
            yield f"CMakePresets.json: no build preset {name}"
    for name, preset in configure.items():
        parents = preset.get("inherits", [])
        for parent in [parents] if isinstance(parents, str) else parents:
            if parent not in configure:
                yield f"CMakePresets.json: {name} inherits {parent}, which is not there"
    base = configure.get("base", {})
    if base.get("binaryDir") != "${sourceDir}/build/${presetName}" or base.get("generator") != "Ninja":
        yield "CMakePresets.json: build trees are build/<preset>, made with Ninja"


def check_scripts(root):
    for name in files(root, (".py", ".sh")):
        text = read(root, name)
        if name.endswith(".py") or text.startswith("#!") and "python" in text.split("\n", 1)[0]:
            try:
                compile(text, name, "exec")
            except SyntaxError as error:
                yield f"{name}:{error.lineno}: {error.msg}"
        else:
            bash = text.startswith(("#!/usr/bin/env bash", "#!/bin/bash")) or "set -euo" in text
            result = subprocess.run(["bash" if bash else "sh", "-n", os.path.join(root, name)], capture_output=True, text=True)
            if result.returncode != 0:
                yield f"{name}: {result.stderr.strip()}"
            if bash and not re.search("set -euo pipefail|common.sh", text):
                yield f"{name}: no set -euo pipefail"


def main():
    check, root = sys.argv[1], os.path.abspath(sys.argv[2])
    count = 0
    for fault in globals()["check_" + check](root):
        print(fault)
        count += 1
    print(f"{count} faults" if count else "no faults")
    sys.exit(1 if count else 0)


if __name__ == "__main__":
    main()
