#!/usr/bin/env python3
"""A page that a program writes is what the program writes now: generated.py PAGE COMMAND...

Compares the page with the command's output; with TOLK_UPDATE_DOCS=1 in the environment, writes the page instead."""

import difflib
import os
import subprocess
import sys


def main():
    page, command = sys.argv[1], sys.argv[2:]
    # Settings of the caller must not show in the page.
    clean = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "LD_LIBRARY_PATH", "ASAN_OPTIONS", "TSAN_OPTIONS")}
    result = subprocess.run(command, capture_output=True, text=True, env=clean)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)} failed with {result.returncode}:\n{result.stderr}")
    wanted = result.stdout
    if os.environ.get("TOLK_UPDATE_DOCS") == "1":
        with open(page, "w") as file:
            file.write(wanted)
        return
    found = open(page).read() if os.path.exists(page) else ""
    if found == wanted:
        print(f"{page} is up to date")
        return
    sys.stdout.writelines(difflib.unified_diff(found.splitlines(True), wanted.splitlines(True), page, "as generated"))
    sys.exit(f"{page} is stale; run the test again with TOLK_UPDATE_DOCS=1")


if __name__ == "__main__":
    main()
