#!/usr/bin/env python3
"""Every lint check can fail: selftest.py ROOT CMAKE. Makes a small tree with one fault at a time and expects it to be named."""

import os
import shutil
import subprocess
import sys
import tempfile

root, cmake = os.path.abspath(sys.argv[1]), sys.argv[2]
# Put together here, so that these lines pass the checks that they test.
MARK = "TO" + "DO"
SOMEBODY = "/ho" + "me/someone"

# check, file, content, words that must occur in the report
CASES = [
    ("length", "core/tolk/base/long.cpp", "int x;\n" * 801, "801 lines"),
    ("length", "core/tolk/base/end.cpp", "int x;", "no end"),
    ("length", "tools/tab.cpp", "\tint x;\n", "tab"),
    ("length", "scripts/wide", "#!/bin/sh\n# " + "x" * 140 + "\n", "columns"),
    ("format", "core/tolk/base/ugly.cpp", "int  x ;\n", "not formatted"),
    ("words", "core/tolk/base/mark.cpp", f"// {MARK}: later\n", "unfinished"),
    ("words", "docs/page.md", f"See {SOMEBODY}/tolk.\n", "absolute path"),
    ("output", "core/tolk/uop/print.cpp", 'void f() { std::cout << 1; }\n', "prints"),
    ("output", "plugins/x/p.c", 'void f(void) { printf("x"); }\n', "prints"),
    ("output", "core/tolk/uop/env.cpp", 'auto x = std::getenv("X");\n', "environment"),
    ("scripts", "scripts/broken", "#!/usr/bin/env bash\nset -euo pipefail\nif true; then\n", "broken"),
    ("scripts", "scripts/loose", "#!/usr/bin/env bash\ntrue\n", "no set"),
    ("scripts", "tests/x.py", "def f(:\n", "x.py:1"),
    ("presets", "CMakePresets.json", '{"configurePresets": []}\n', "no configure preset dev"),
    ("layers", "core/tolk/base/up.cpp", '#include "tolk/uop/uop.h"\n', "up.cpp: includes tolk/uop/uop.h"),
    ("layers", "core/tolk/device/up.cpp", '#include "tolk/uop/uop.h"\n', "up.cpp: includes tolk/uop/uop.h"),
    ("layers", "core/tolk/schedule/side.cpp", '#include "tolk/codegen/lower.h"\n', "side.cpp: includes tolk/codegen"),
    ("layers", "plugins/x/p.cpp", '#include "tolk/base/error.h"\n', "p.cpp: includes tolk/base/error.h"),
    ("layers", "core/tolk/uop/db.cpp", "#include <sqlite3.h>\n", "a library"),
    ("layers", "core/tolk/uop/text.h", "#include <fmt/format.h>\n", "a header that others include"),
    ("layers", "core/tolk/uop/all.cpp", '#include "tolk/tolk.h"\n', "umbrella"),
    ("layers", "core/tolk/fresh/a.cpp", "\n", "no row"),
    ("vocabulary", "core/tolk/base/w.h", "int x; // kept for ever\n", "w.h:1"),
    ("include_cycles", "core/tolk/schedule/room.cpp", '#include "tolk/schedule/user.h"\n', "2 rooms include each other"),
]
# Must be let through.
CLEAN = {
    "core/tolk/base/log.cpp": 'void f() { std::fputs("x", stderr); }\n',
    "core/tolk/base/number.cpp": 'void f(char* to) { std::snprintf(to, 4, "x"); } // printf(\n',
    "core/tolk/schedule/user.h": '#pragma once\n\n#include "tolk/schedule/room.h"\n',
    "core/tolk/uop/a.cpp": '#include <vector>\n\n#include "tolk/dtype/dtype.h"\n',
    "plugins/x/q.cpp": "#include <llvm/IR/Module.h>\n\n#include <tolk/plugin/types.h>\n",
}


def write(tree, name, content):
    path = os.path.join(tree, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(content)


def run(check, tree):
    if check == "layers":
        command = [cmake, "-DROOT=" + tree, "-P", root + "/cmake/CheckLayers.cmake"]
    elif check == "vocabulary":
        command = [sys.executable, "-B", root + "/tests/lint/words.py", tree]
    elif check == "include_cycles":
        command = [sys.executable, root + "/tests/lint/include_cycles.py", tree, "schedule", "schedule"]
    else:
        command = [sys.executable, root + "/tests/lint/lint.py", check, tree]
    result = subprocess.run(command, capture_output=True, text=True)
    return result.returncode, result.stdout + result.stderr


def main():
    faults = []
    for check, name, content, words in [(c, None, None, None) for c in dict.fromkeys(c[0] for c in CASES)] + CASES:
        with tempfile.TemporaryDirectory() as tree:
            for file in ("cmake/layers.txt", ".clang-format", "CMakePresets.json"):
                os.makedirs(os.path.dirname(os.path.join(tree, file)), exist_ok=True)
                shutil.copy(os.path.join(root, file), os.path.join(tree, file))
            for clean, text in CLEAN.items():
                write(tree, clean, text)
            if name:
                write(tree, name, content)
            status, output = run(check, tree)
            if status == 77:
                continue
            if name is None and status != 0:
                faults.append(f"{check} refuses a clean tree: {output}")
            if name and (status == 0 or words not in output):
                faults.append(f"{check} does not find the fault in {name}: status {status}, {output}")
    print("\n".join(faults) or f"{len(CASES)} faults planted, each found")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
