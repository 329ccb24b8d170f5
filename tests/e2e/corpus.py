#!/usr/bin/env python3
"""Runs the ONNX cases and real models that lie beside the project, or the node cases of Debian's libonnx-testdata.

  corpus.py cases TOLK_RUN WORK     every case; at least LEAST of 1,648 pass, none crashes or runs too long
  corpus.py validate TOLK_RUN WORK  a seeded sample of 200: every kernel agrees with the interpreter
  corpus.py streams TOLK_RUN WORK   the same sample on a device whose kernels run behind the host: as on one without streams
  corpus.py models TOLK_RUN WORK    the real models, every recorded set
  corpus.py fuzz TOLK_RUN WORK      200 damaged copies of the real models, or of the demo's

Exit status 77 says that the data is not here (a skip), with the reason. WORK is a folder for unpacked archives."""

import os
import random
import re
import shutil
import subprocess
import sys
import tarfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SHARED = os.environ.get("TOLK_SHARED_DIR") or os.path.join(os.path.dirname(ROOT), "shared")
DEBIAN = "/usr/share/libonnx-testdata/data/node"
LEAST_SHARED, LEAST_DEBIAN = 1634, 800  # the first is for 1,648 cases, the second for 932


def skip(reason):
    print("skipped: " + reason)
    sys.exit(77)


def unpacked(archive, work):
    folder = os.path.join(work, os.path.basename(archive).split(".")[0])
    done = folder + ".done"
    if not os.path.exists(done):
        os.makedirs(folder, exist_ok=True)
        with tarfile.open(archive) as tar:
            tar.extractall(folder)
        open(done, "w").close()
    return folder


def cases(work):
    """The folder of suites, and how many of its cases must pass."""
    archive = os.path.join(SHARED, "onnx", "cases.tar.xz")
    if os.path.exists(archive):
        return unpacked(archive, work), LEAST_SHARED
    if os.path.isdir(DEBIAN):
        return DEBIAN, LEAST_DEBIAN
    skip("neither ../shared/onnx nor libonnx-testdata is here")


def models(work):
    archive = os.path.join(SHARED, "models", "models.tar.xz")
    if not os.path.exists(archive):
        return []
    folder = unpacked(archive, work)
    paths = [os.path.join(folder, d) for d in sorted(os.listdir(folder))]
    return [p for p in paths if os.path.exists(os.path.join(p, "case.json"))]


def sampled(work):
    """A folder with 200 cases, always the same."""
    folder, _ = cases(work)
    found = sorted(d for d, _, files in os.walk(folder) if "model.onnx" in files and "/light/" not in d)
    sample = os.path.join(work, "sample")
    shutil.rmtree(sample, ignore_errors=True)
    for path in random.Random(44).sample(found, 200):
        name = os.path.relpath(path, folder).replace(os.sep, "-")
        shutil.copytree(path, os.path.join(sample, name))
    return sample


def run_cases(tool, folder, extra_environment, limit, device="CPU"):
    command = [sys.executable, os.path.join(ROOT, "scripts", "onnx-cases"), folder, "--device", device, "--jobs", "2"]
    command += ["--timeout", str(limit), "--tolk-run", tool]
    r = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, **extra_environment))
    last = re.search(r"^(\d+) passed, (\d+) failed$", r.stdout, re.M)
    if not last:
        print(r.stdout[-2000:], r.stderr[-2000:])
        sys.exit(1)
    return r.stdout, int(last.group(1)), int(last.group(2))


def main():
    what, tool, work = sys.argv[1:4]
    os.makedirs(work, exist_ok=True)
    if what == "cases":
        folder, least = cases(work)
        out, passed, failed = run_cases(tool, folder, {}, 60)
        bad = [line for line in out.splitlines() if re.match(r"(CRASH|HANG|TIMEOUT)", line)]
        light = [line for line in out.splitlines() if re.match(r"(FAIL|ERROR)\s+light/", line)]
        print("\n".join(bad + light + [line[:200] for line in out.splitlines() if re.match(r"(FAIL|ERROR)", line)]))
        print(f"{passed} passed, {failed} failed; at least {least} must pass")
        return 1 if bad or light or passed < least else 0
    if what == "validate":
        sample = sampled(work)
        out, passed, failed = run_cases(tool, sample, {"VALIDATE_WITH_CPU": "1"}, 60)
        differ = [line for line in out.splitlines() if "differs from the interpreter" in line]
        print("\n".join(differ))
        print(f"{passed} of the sample pass, {failed} do not; {len(differ)} because a kernel differs")
        return 1 if differ or passed < 150 else 0
    if what == "streams":
        sample, faults = sampled(work), []
        for streams in ("0", "1"):
            out, passed, _ = run_cases(tool, sample, {"TOLK_XDEV_STREAMS": streams, "TOLK_XDEV_DELAY_US": "100"}, 60, "XDEV")
            faults.append(sorted(line for line in out.splitlines() if re.match(r"[A-Z]+\s+\S+:", line)))
            print(f"streams {streams}: {passed} passed")
        differ = sorted(set(faults[0]) ^ set(faults[1]))
        print("\n".join(differ))
        return 1 if differ or passed < 150 else 0
    if what == "models":
        found = models(work)
        if not found:
            skip("../shared/models is not here")
        failed = 0
        for folder in found:
            r = subprocess.run([tool, "--device", "CPU", "--check", folder], capture_output=True, text=True)
            print(os.path.basename(folder), (r.stdout.strip().splitlines() or [""])[-1], r.stderr.strip())
            failed += r.returncode != 0
        print(f"{len(found) - failed} passed, {failed} failed")
        return 1 if failed else 0
    if what == "fuzz":
        files = [os.path.join(m, "model.onnx") for m in models(work)] + [os.path.join(ROOT, "examples", "demo", "digits.onnx")]
        return subprocess.run([sys.executable, os.path.join(HERE, "fuzz_models.py"), tool, "200", "1"] + files).returncode
    print(__doc__)
    return 2


sys.exit(main())
