#!/usr/bin/env python3
"""docs/generated/features.md: every acceptance row of the engine, the test that shows it, and that test's result.

    features.py ROOT RESULTS [--update]

A row is covered by the Boost test cases that carry its id as a label; `ROWS` below says which ids there are. RESULTS is the folder into which the test programs of one ctest run wrote their JUnit logs. Without --update the
page must be what this run gives. Exit status 77 (skipped) when the tests have not been run."""

import difflib
import pathlib
import re
import sys
import xml.etree.ElementTree as xml

# prefix, number of rows, what they are about
ROWS = [
    ("J", 42, "JIT: phases, capture, replay, held buffers"),
    ("R", 51, "Running: copies, compilation, binding, calls, graphs, several devices"),
    ("S", 27, "Scheduling: order, cache, variables, memory planning"),
    ("P", 40, "JIT internals: pruning, batching, validation, inputs"),
    ("D", 21, "Devices: pools, streams, events, contexts"),
    ("E", 2, "Settings and DEBUG output"),
    ("JB", 46, "JIT behaviour"),
    ("JA", 6, "Aliasing of inputs and captured buffers"),
    ("PR", 7, "Pruning behaviour"),
    ("FR", 3, "Freeing of intermediates"),
    ("GR", 26, "Graph batching and graph runner"),
    ("MD", 20, "Several devices"),
    ("SY", 13, "Symbolic sizes"),
    ("MP", 15, "Memory planner"),
    ("BU", 19, "Buffers"),
    ("SL", 8, "Saved captures"),
    ("RG", 21, "Regressions that systems of this kind had"),
]
CASE = re.compile(r"BOOST_(?:AUTO|FIXTURE|DATA)_TEST_CASE\w*\(\s*(\w+)([^{]*)\{")
LABEL = re.compile(r'label\("([A-Z]{1,2}-\d{2})"\)')


def cases(root):
    """Test cases by row id: (name, words, file)."""
    found = {}
    for path in sorted((root / "tests").rglob("*_test.cpp")):
        for name, decorators in CASE.findall(path.read_text()):
            for row in LABEL.findall(decorators):
                found.setdefault(row, []).append((name, name.replace("_", " "), path.relative_to(root).as_posix()))
    return found


def outcomes(folder):
    """Result of every test case that ran: passed, failed or skipped; the worst when it ran in several programs."""
    rank = {"passed": 0, "skipped": 1, "failed": 2}
    results = {}
    for path in sorted(folder.glob("*.xml")):
        try:
            tree = xml.parse(path)
        except xml.ParseError:
            continue  # the program died while it wrote; ctest has reported that
        for case in tree.iter("testcase"):
            name = case.get("name", "").split("/")[0]
            result = "passed"
            if case.find("skipped") is not None:
                result = "skipped"
            if case.find("failure") is not None or case.find("error") is not None:
                result = "failed"
            if rank[result] >= rank.get(results.get(name, "passed"), 0):
                results[name] = result
    return results


def page(root, results):
    found = cases(root)
    known = {f"{prefix}-{n:02d}" for prefix, count, _ in ROWS for n in range(1, count + 1)}
    strays = sorted(set(found) - known)
    if strays:
        sys.exit("test cases with labels of rows that do not exist: " + ", ".join(strays))
    total = covered = 0
    body = []
    for prefix, count, about in ROWS:
        body += [f"## {prefix}: {about}", "", "| id | what the test shows | test | result |", "|---|---|---|---|"]
        for n in range(1, count + 1):
            row = f"{prefix}-{n:02d}"
            tests = found.get(row, [])
            total += 1
            if not tests:
                body.append(f"| {row} | | | no test yet |")
                continue
            states = [results.get(name, "not run") for name, _, _ in tests]
            state = next((s for s in ("failed", "not run", "skipped") if s in states), "passed")
            covered += state == "passed"
            words = "; ".join(dict.fromkeys(w for _, w, _ in tests if w))
            files = ", ".join(dict.fromkeys(f"`{f}`" for _, _, f in tests))
            body.append(f"| {row} | {words} | {files} | {state} |")
        body.append("")
    head = [
        "# What the engine is held to", "",
        "Generated from the test programs' logs by `tests/features/features.py`; do not edit. A row is shown by the test cases",
        "that carry its id as a label. `TOLK_UPDATE_DOCS=1 ctest --test-dir build/dev` writes the page anew.", "",
        f"{covered} of {total} rows pass.", ""]
    return "\n".join(head + body).rstrip("\n") + "\n"


def main():
    root, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    results = outcomes(folder) if folder.is_dir() else {}
    if not results:
        print(f"no test logs in {folder}: run the unit tests first")
        return 77
    wanted = page(root, results)
    path = root / "docs/generated/features.md"
    if "--update" in sys.argv[3:]:
        path.write_text(wanted)
        return 0
    found = path.read_text() if path.exists() else ""
    if found == wanted:
        print("docs/generated/features.md is up to date")
        return 0
    sys.stdout.writelines(difflib.unified_diff(found.splitlines(True), wanted.splitlines(True), "docs/generated/features.md", "this run"))
    print("docs/generated/features.md is stale; run the tests again with TOLK_UPDATE_DOCS=1 in the environment")
    return 1


if __name__ == "__main__":
    sys.exit(main())
