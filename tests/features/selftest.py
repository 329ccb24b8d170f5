#!/usr/bin/env python3
"""features.py finds each fault it is there for: a small tree with one fault at a time."""

import os
import pathlib
import subprocess
import sys
import tempfile
import time

SCRIPT = pathlib.Path(__file__).with_name("features.py")
ROWS = "## J Things\n[engine used]\nJ-01 It works.\n[API shown]\nJ-02 It shows.\n"
TREE = {
    "tests/features/rows.txt": ROWS,
    "tests/a_test.cpp": 'BOOST_AUTO_TEST_CASE(works, *label("J-01")) {\n}\nBOOST_AUTO_TEST_CASE(shows, *label("J-02")) {\n}\n',
    "core/tolk/tolk.h": '#include "tolk/x/shown.h"\n',
    "core/tolk/x/shown.h": "void shown();\n",
    "core/tolk/x/shown.cpp": '#include "tolk/x/shown.h"\n#include "tolk/x/used.h"\nvoid shown() { used(); }\n',
    "core/tolk/x/used.h": "void used();\nvoid idle();\n",
    "core/tolk/x/used.cpp": '#include "tolk/x/used.h"\nvoid used() {} // idle\n',
    "results/a_test.xml": '<t><testcase name="works"/><testcase name="shows"/></t>',
    "results/b_test.xml": '<t><testcase name="works"><failure/></testcase></t>',
}
# What is changed, and what must be said.
FAULTS = [
    ({"tests/features/rows.txt": ROWS.replace("J-01 It works.", "J-01")}, "J-01 has no requirement"),
    ({"tests/features/rows.txt": ROWS + "J-03 Nobody shows this.\n"}, "J-03: no test case"),
    ({"tests/features/rows.txt": ROWS.replace("J-02 It shows.\n", "")}, "J-02 is no row"),
    ({"tests/features/rows.txt": ROWS.replace("used]", "idle]")}, "J-01: no product code"),
    ({"tests/features/rows.txt": ROWS.replace("API shown", "API used")}, "J-02: no header"),
    ({"tests/features/rows.txt": ROWS.replace("engine used", "pending used")}, "J-01: only tests reach it"),
    ({"core/tolk/x/shown.cpp": '#include "tolk/x/shown.h"\nvoid shown() {}\n',
      "core/tolk/x/other.cpp": '#include "tolk/x/used.h"\nvoid f() { used(); }\n'}, "J-01: no product code"),
    ({"results/a_test.xml": '<t><testcase name="works"><skipped/></testcase><testcase name="shows"/></t>'}, "| skipped |"),
    ({"results/a_test.xml": '<t><testcase name="shows"/></t>'}, "| not run |"),
]


def run(changes, touch=False):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder).resolve()
        for name, text in {**TREE, **changes}.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (root / "docs/generated").mkdir(parents=True)
        (root / "a_test").write_text("")
        age = time.time() + (60 if touch else -60)
        os.utime(root / "a_test", (age, age))
        programs = [f"{name};{root}/{name};{root}/tests/{name}.cpp\n" for name in ("a_test", "b_test")]
        (root / "programs.txt").write_text("".join(programs))
        command = [sys.executable, "-B", SCRIPT, root, root / "programs.txt", root / "results"]
        first = subprocess.run([*command, "--update"], capture_output=True, text=True)
        page = root / "docs/generated/features.md"
        return first.returncode, first.stdout + first.stderr + (page.read_text() if page.exists() else "")


def main():
    status, text = run({})
    faults = [] if status == 0 and text.count("| passed |") == 2 else [f"a clean tree is not right ({status}):\n{text}"]
    for changes, words in FAULTS:
        _, text = run(changes)
        if words not in text:
            faults.append(f"not found: {words}\n{text}")
    status, text = run({}, touch=True)
    if status == 0 or "built after" not in text:
        faults.append(f"a stale log is not found:\n{text}")
    print("\n".join(faults) or "each fault is found")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
