"""tolk-conformance finds the fault of every mutant, by the case that mutants.txt names, and nothing wrong without a fault.

usage: mutants_test.py TOLK_CONFORMANCE MUTANT BASE LIST
"""

import os
import subprocess
import sys

ATTEMPTS = 5  # a fault that depends on the order of threads does not show in every run of a busy machine


def run(program, mutant, base, fault, cases):
    environment = dict(os.environ, TOLK_MUTANT=fault, TOLK_MUTANT_BASE=base, TOLK_CPU_STREAMS="1")
    command = [program, mutant, "--filter", cases, "--jobs", "2", "--time-limit", "2" if fault == "synchronize_hangs" else "30"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def main():
    program, mutant, base, table = sys.argv[1:]
    with open(table, encoding="utf-8") as lines:
        rows = [line.split() for line in lines if line.strip() and not line.startswith("#")]
    problems = []
    good = run(program, mutant, base, "none", ",".join(sorted({case for _, case in rows})))
    if good.returncode != 0 or ", 0 skipped" not in good.stdout:
        problems.append("without a fault:\n" + good.stdout + good.stderr)
    for fault, case in rows:
        for _ in range(ATTEMPTS):
            result = run(program, mutant, base, fault, case)
            found = result.returncode == 1 and f"FAIL {case} " in result.stdout
            if found:
                break
        if not found:
            problems.append(f"{fault} is not found by {case} (status {result.returncode}):\n{result.stdout}{result.stderr}")
    print("\n".join(problems) if problems else f"{len(rows)} faults found")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
