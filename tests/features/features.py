#!/usr/bin/env python3
"""docs/generated/features.md: every acceptance row, what it requires, where it is reached, its tests and their results.

    features.py ROOT PROGRAMS RESULTS [--update]

rows.txt beside this script has the rows. A row is shown by the Boost test cases that carry its id as a label. PROGRAMS lists
the test programs, a line `name;executable;source;source...` each; RESULTS is the folder of their JUnit logs. Without
--update the page must be what this run gives. Fails for a row without a requirement or test, for a row that only tests
reach, and for logs that are older than their program. Exit status 77 (skipped) when no test has run."""

import difflib
import pathlib
import re
import sys
import xml.etree.ElementTree as xml

CASE = re.compile(r"BOOST_(?:AUTO|FIXTURE|DATA)_TEST_CASE\w*\(\s*(\w+)([^{]*)\{")
LABEL = re.compile(r'label\("([A-Z]{1,2}-\d{2})"\)')
# Rows that may be pending: local sizes and BEAM wait for a device with work-groups and for the search.
PENDING = {*(f"R-{n:02d}" for n in range(2, 9)), "RG-03", "RG-04", "RG-17", "P-10", "P-31", "JB-34"}
PRODUCT = ("core", "plugins", "tools", "examples")


class Row:
    def __init__(self, kind, names, requirement):
        self.kind, self.names, self.requirement = kind, names, requirement


def read_rows(text):
    """Groups as (prefix, title) and rows by id, in the order of rows.txt; faults as sentences."""
    groups, rows, faults, kind, names = [], {}, [], None, []
    for n, line in enumerate(text.splitlines(), 1):
        if match := re.fullmatch(r"## ([A-Z]{1,2}) (.+)", line):
            groups.append(match.groups())
            kind = None
        elif match := re.fullmatch(r"\[(API|engine|tool|pending) (\w+(?: \w+)*)\]", line):
            kind, names = match.group(1), match.group(2).split()
        elif match := re.fullmatch(r"([A-Z]{1,2}-\d{2})(?: (.*))?", line):
            row, requirement = match.groups()
            if row in rows:
                faults.append(f"rows.txt:{n}: {row} stands there twice")
            if not groups or row.split("-")[0] != groups[-1][0] or kind is None:
                faults.append(f"rows.txt:{n}: {row} stands in the wrong group, or below no [KIND name]")
            if not requirement:
                faults.append(f"rows.txt:{n}: {row} has no requirement")
            rows[row] = Row(kind, names, requirement or "")
        elif line and not line.startswith("#"):
            faults.append(f"rows.txt:{n}: neither a row, a group, a [KIND name] nor a comment: {line}")
    return groups, rows, faults


def words_of(path):
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", path.read_text(errors="replace"), flags=re.S)
    return set(re.findall(r"\w+", text))


def public_headers(root):
    """tolk/tolk.h and what it reaches."""
    waiting, seen = [root / "core/tolk/tolk.h"], set()
    while waiting:
        path = waiting.pop()
        if path in seen or not path.exists():
            continue
        seen.add(path)
        waiting += [root / "core" / name for name in re.findall(r'#include "(tolk/[^"]+)"', path.read_text())]
    return seen


def reached_files(root, public):
    """The files of the product, without those that only tests include. A source is reached when its header is: the one of its
    name, else all that it includes from its own folder."""
    includes = {}
    for folder in PRODUCT:
        for path in (root / folder).rglob("*"):
            if path.suffix in (".h", ".cpp", ".c", ".def"):
                names = re.findall(r'#include "([^"]+)"', path.read_text(errors="replace"))
                places = [root / "core" / name for name in names] + [path.parent / name for name in names]
                includes[path] = [p for p in places if p.exists()]
    headers = {}  # by source: those that must be reached
    for path, names in includes.items():
        if path.suffix == ".cpp":
            own = path.with_suffix(".h")
            headers[path] = {own} if own.exists() else {p for p in names if p.parent == path.parent}
    seen, waiting = set(), list(public) + [p for p in includes if p.relative_to(root).parts[0] != "core"]
    while waiting:
        for path in waiting:
            if path not in seen:
                seen.add(path)
                waiting += includes.get(path, [])
        waiting = [p for p, needed in headers.items() if p not in seen and needed <= seen]
    return seen


def unreached(root, rows):
    """Sentences for the rows that nothing but tests reaches."""
    public = public_headers(root)
    used = {path: words_of(path) for path in reached_files(root, public) if path.name != "tolk.h"}
    for row, entry in rows.items():
        if entry.kind == "pending":
            if row not in PENDING:
                yield f"{row}: only tests reach it; connect it, or delete it"
            continue
        for name in entry.names:
            files = {path.relative_to(root) for path, words in used.items() if name in words}
            if entry.kind == "API" and not any(root / f in public for f in files):
                yield f"{row}: no header that tolk/tolk.h includes declares {name}"
            if entry.kind == "tool" and not any(f.parts[0] == "tools" for f in files):
                yield f"{row}: no file in tools/ names {name}"
            # A header and its source are one place.
            if entry.kind == "engine" and len({f.with_suffix("") for f in files if f.parts[0] != "plugins"}) < 2:
                yield f"{row}: no product code outside of its own file uses {name}"


def cases(root):
    """Test cases by row: (name, file)."""
    found = {}
    for path in sorted((root / "tests").rglob("*_test.cpp")):
        for name, decorators in CASE.findall(path.read_text()):
            for row in LABEL.findall(decorators):
                found.setdefault(row, []).append((name, path.relative_to(root).as_posix()))
    return found


class Results:
    """Outcomes of test cases, by program and name."""

    RANK = {"passed": 0, "not run": 1, "skipped": 2, "failed": 3}

    def __init__(self, root, programs, folder):
        self.by_file, self.logs, self.stale = {}, {}, []
        for line in programs.read_text().splitlines():
            program, executable, *sources = line.split(";")
            for source in sources:
                self.by_file.setdefault(pathlib.Path(source).relative_to(root).as_posix(), []).append(program)
            log = folder / (program + ".xml")
            if not log.exists():
                continue
            executable = pathlib.Path(executable)
            if executable.exists() and executable.stat().st_mtime > log.stat().st_mtime:
                self.stale.append(program)
            self.logs[program] = self.read(log)

    def read(self, path):
        try:
            tree = xml.parse(path)
        except xml.ParseError:
            return {}  # the program died while it wrote; ctest has reported that
        results = {}
        for case in tree.iter("testcase"):
            state = "passed"
            if case.find("skipped") is not None:
                state = "skipped"
            if case.find("failure") is not None or case.find("error") is not None:
                state = "failed"
            name = case.get("name", "").split("/")[0]
            results[name] = max(state, results.get(name, "passed"), key=self.RANK.get)
        return results

    def of(self, name, file):
        states = [self.logs[p][name] for p in self.by_file.get(file, []) if name in self.logs.get(p, {})]
        return max(states, key=self.RANK.get, default="not run")


def cell(text):
    return text.replace("|", "\\|")


def page(groups, rows, found, results):
    body, passing = [], 0
    for prefix, title in groups:
        body += [f"## {prefix}: {title}", "",
                 "| id | what is required | reached from | what the tests show | tests | result |", "|---|---|---|---|---|---|"]
        for row, entry in rows.items():
            if row.split("-")[0] != prefix:
                continue
            tests = found.get(row, [])
            state = max((results.of(*t) for t in tests), key=Results.RANK.get, default="no test")
            passing += state == "passed"
            kind = "tests, see above" if entry.kind == "pending" else entry.kind
            claims = "; ".join(dict.fromkeys(name.replace("_", " ") for name, _ in tests))
            files = ", ".join(dict.fromkeys(f"`{file}`" for _, file in tests))
            names = ", ".join(f"`{n}`" for n in entry.names)
            body.append(f"| {row} | {cell(entry.requirement)} | {kind}: {names} | {claims} | {files} | {state} |")
        body.append("")
    pending = ", ".join(r for r, entry in rows.items() if entry.kind == "pending")
    head = [
        "# What the engine is held to", "",
        "Generated from `tests/features/rows.txt` and the logs of the test programs by `tests/features/features.py`; do not",
        "edit. A row is shown by the test cases that carry its id as a label. \"Reached from\" names a function or type through",
        "which programs get there: API (declared in a header that `tolk/tolk.h` includes), engine (used by other files of Tolk),",
        "tool (used by tolk-run). A test checks the names.", "",
        f"Only tests reach {pending}: no device of the tree has work-groups whose size could be tuned, and there is no search",
        "for kernels yet. `BEAM` in E-01 can be set and has no effect.", "",
        f"{passing} of {len(rows)} rows pass.", ""]
    return "\n".join(head + body).rstrip("\n") + "\n"


def main():
    root, programs, folder = (pathlib.Path(a).resolve() for a in sys.argv[1:4])
    groups, rows, faults = read_rows((root / "tests/features/rows.txt").read_text())
    found = cases(root)
    faults += [f"{row}: no test case has this label" for row in rows if row not in found]
    faults += [f"{found[row][0][1]}: label {row} is no row of rows.txt" for row in found if row not in rows]
    faults += unreached(root, rows)
    results = Results(root, programs, folder)
    if faults:
        print("\n".join(faults))
        return 1
    if not results.logs:
        print(f"no test logs in {folder}: run the unit tests first")
        return 77
    if results.stale:
        print("built after their last run, so their logs say nothing: " + ", ".join(results.stale))
        return 1
    wanted = page(groups, rows, found, results)
    path = root / "docs/generated/features.md"
    if "--update" in sys.argv[4:]:
        path.write_text(wanted)
        return 0
    current = path.read_text() if path.exists() else ""
    if current == wanted:
        print(f"{path} is up to date")
        return 0
    sys.stdout.writelines(difflib.unified_diff(current.splitlines(True), wanted.splitlines(True), str(path), "this run"))
    print(f"{path} is stale; run the tests again with TOLK_UPDATE_DOCS=1 in the environment")
    return 1


if __name__ == "__main__":
    sys.exit(main())
