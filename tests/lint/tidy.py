#!/usr/bin/env python3
"""clang-tidy-19 on part of the sources: tidy.py ROOT BUILD. The lint preset does all of them, in minutes.

Taken are sources changed since the last commit, at most 12 of them, and those of the lowest layers. A file that
passed is not looked at again while it, the headers of the project and .clang-tidy stay as they are (BUILD/tidy-passed.txt).
Exits 77 when the tool or the compile commands are missing."""

import concurrent.futures
import glob
import hashlib
import json
import os
import shutil
import subprocess
import sys


def git(root, *arguments):
    result = subprocess.run(["git", "-C", root, *arguments], capture_output=True, text=True)
    return result.stdout.split("\n") if result.returncode == 0 else []


def digest(paths):
    state = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            state.update(file.read())
    return state.hexdigest()


def main():
    root, build = os.path.realpath(sys.argv[1]), sys.argv[2]
    tool = shutil.which("clang-tidy-19")
    commands = os.path.join(build, "compile_commands.json")
    if not tool or not os.path.exists(commands):
        print("clang-tidy-19 or compile_commands.json is missing; scripts/deps test brings the first")
        sys.exit(77)
    with open(commands) as file:
        compiled = {os.path.realpath(entry["file"]) for entry in json.load(file)}

    changed = git(root, "diff", "--name-only", "HEAD")
    changed = [name for name in dict.fromkeys(changed) if name.startswith(("core/", "plugins/", "tools/"))]
    lowest = [os.path.relpath(path, root) for path in sorted(glob.glob(root + "/core/tolk/dtype/*.cpp"))]
    names = [n for n in changed if os.path.realpath(os.path.join(root, n)) in compiled][:12]
    names += [n for n in lowest if os.path.realpath(os.path.join(root, n)) in compiled and n not in names]

    headers = [h for f in ("core", "plugin_api", "plugins") for h in glob.glob(f"{root}/{f}/**/*.h", recursive=True)]
    common = digest([root + "/.clang-tidy", *sorted(headers)])
    passed_file = os.path.join(build, "tidy-passed.txt")
    passed = set(open(passed_file).read().split()) if os.path.exists(passed_file) else set()
    marks = {name: hashlib.sha256((common + digest([os.path.join(root, name)])).encode()).hexdigest() for name in names}
    names = [name for name in names if marks[name] not in passed]

    def run(name):
        # The compile commands are GCC's, which has warnings of its own.
        command = [tool, "--quiet", "--extra-arg=-Wno-unknown-warning-option",
                   "--extra-arg=-Wno-ignored-gch", "-p", build, os.path.join(root, name)]
        result = subprocess.run(command, cwd=root, capture_output=True, text=True)
        return name, result.returncode, result.stdout

    faults = 0
    with concurrent.futures.ThreadPoolExecutor(max(1, len(os.sched_getaffinity(0)))) as pool:
        for name, status, output in pool.map(run, names):
            if status == 0:
                passed.add(marks[name])
            else:
                faults += 1
                print(output or f"{name}: clang-tidy exited with {status}")
    with open(passed_file, "w") as file:
        file.write("\n".join(sorted(passed)) + "\n")
    print(f"{len(names)} files looked at, {faults} with faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
