#!/usr/bin/env python3
"""scripts/onnx-cases with a stand-in for tolk-run, whose behaviour the names of the cases choose: onnx_cases_test.py SCRIPT."""

import json
import os
import stat
import subprocess
import sys
import tarfile
import tempfile
import time

STAND_IN = r'''#!/usr/bin/env python3
import json, os, signal, sys, time
assert sys.argv[1] == "--check-many", sys.argv
with open(os.environ["STARTS"], "a") as file:
    file.write(" ".join(sys.argv[1:]) + "\n")
for line in sys.stdin:
    types_only, folder = line.startswith("types-only\t"), line.rstrip("\n").split("\t")[-1]
    assert os.path.exists(os.path.join(folder, "model.onnx")), folder
    name = os.path.basename(folder)
    if "crash" in name:
        print("about to die", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)
    if "exit" in name:
        sys.exit(3)
    if "hang" in name:
        time.sleep(600)
    if "garbage" in name:
        print("not json", flush=True)
        continue
    status = "fail" if "wrong" in name or types_only != ("bernoulli" in name or "listed" in name) else "pass"
    print(json.dumps({"case": folder, "status": status, "reason": "off by one" if status == "fail" else "",
                      "operators": ["Constant", name.split("_")[1].title()], "seconds": 0.01}), flush=True)
'''

faults = []


def check(holds, what):
    if not holds:
        faults.append(what)


def main():
    script = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "stand-in")
        with open(program, "w") as file:
            file.write(STAND_IN)
        os.chmod(program, os.stat(program).st_mode | stat.S_IXUSR)
        starts = os.path.join(folder, "starts")
        cases = os.path.join(folder, "cases")

        def make(name):
            os.makedirs(os.path.join(cases, name, "test_data_set_0"))
            open(os.path.join(cases, name, "model.onnx"), "w").close()

        def run(*arguments):
            open(starts, "w").close()
            result = subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True,
                                    env={**os.environ, "STARTS": starts})
            return result.returncode, result.stdout, result.stderr

        for name in ("node/test_abs_a", "node/test_abs_wrong", "node/test_add_a", "node/test_add_crash", "node/test_bernoulli",
                     "node/test_mul_exit", "node/test_mul_garbage", "node/test_sub_a", "other/test_add_b"):
            make(name)
        os.makedirs(os.path.join(cases, "node/no_case"))

        code, out, err = run(cases, "--tolk-run", program, "--jobs", "1", "--device", "CPU:1")
        last = out.strip().split("\n")[-1]
        check(code == 1, f"exit status {code} with failures: {err}")
        check(last == "5 passed, 4 failed", f"last line: {last}")
        check("FAIL     node/test_abs_wrong: off by one" in out, "the reason of a difference is printed")
        check("CRASH    node/test_add_crash: tolk-run died with SIGSEGV: about to die" in out, f"a crash is named:\n{out}")
        check("CRASH    node/test_mul_exit: tolk-run exited with 3" in out, "an early exit is named")
        check("CRASH    node/test_mul_garbage: unreadable report" in out, "an unreadable report is named")
        check("\nAbs            2       1       1\n" in out, f"a row of the table:\n{out}")
        with open(starts) as file:
            lines = file.read().split("\n")[:-1]
        check(len(lines) == 4, f"{len(lines)} workers: one, and one after each of three deaths")
        check(lines[0] == "--check-many --device CPU:1", f"the command: {lines[0]}")

        code, out, _ = run(cases, "--tolk-run", program, "--jobs", "3", "--filter", "*_[ab]")
        check(code == 0 and out.endswith("4 passed, 0 failed\n"), f"a filter and three workers:\n{out}")

        make("node/test_abs_hang")
        begin = time.monotonic()
        code, out, _ = run(cases, "--tolk-run", program, "--jobs", "1", "--timeout", "8", "--filter", "test_abs_*")
        check(code == 1 and "TIMEOUT  node/test_abs_hang: no result after 8 s" in out, f"a hang is ended:\n{out}")
        check("1 passed, 2 failed" in out, "the cases after a hang still run")
        check(time.monotonic() - begin < 60, "a hang costs its limit only")

        # An archive, with a table of what others pass and a list of random cases beside it.
        archive = os.path.join(folder, "cases.tar.xz")
        with tarfile.open(archive, "w:xz") as tar:
            for name in ("test_abs_a", "test_sub_a"):
                tar.add(os.path.join(cases, "node", name), "node/" + name)
            tar.add(os.path.join(cases, "node/test_add_a"), "node/test_add_listed")
        with open(os.path.join(folder, "cases.tsv"), "w") as file:
            file.write("suite\tname\tkind\toperator\topset\ttypes\tsets\trival\n"
                       "node\ttest_abs_a\tk\tMyAbs\to\tt\t1\tpass\nnode\ttest_sub_a\tk\tSub\to\tt\t1\twrong\n")
        with open(os.path.join(folder, "types-only.txt"), "w") as file:
            file.write("# random\nnode/test_add_listed\n")
        report = os.path.join(folder, "report")
        code, out, err = run(archive, "--tolk-run", program, "--report", report)
        check(code == 0 and out.endswith("3 passed, 0 failed\n"), f"an archive:\n{out}{err}")
        check("\nMyAbs         1       1       0      1\n" in out, f"the other's column:\n{out}")
        with open(report) as file:
            check([json.loads(line)["operator"] for line in file] == ["MyAbs", "Add", "Sub"], "the report's operators")

        evil = os.path.join(folder, "evil.tar")
        with tarfile.open(evil, "w") as tar:
            tar.add(starts, "../escaped")
        code, _, err = run(evil, "--tolk-run", program)
        check(code == 2 and "leads out of the archive" in err, f"a path out of the archive: {err}")
        for arguments, words in (((folder + "/none",), "no such file"), ((folder + "/cases/node/no_case",), "no case"),
                                 ((cases, "--filter", "nothing"), "no case matches"), ((starts,), "cannot be unpacked")):
            code, _, err = run(*arguments, "--tolk-run", program)
            check(code == 2 and words in err, f"{arguments}: {code}, {err}")
        code, _, err = run(cases, "--tolk-run", os.path.join(folder, "absent"))
        check(code == 2 and "no tolk-run at" in err, f"an absent program: {err}")

    for fault in faults:
        print("FAILED:", fault)
    print(f"{len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
