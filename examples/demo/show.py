#!/usr/bin/env python3
"""Runs the digit classifier on the sample images through tolk-run and shows what it saw: show.py TOLK_RUN MODEL SAMPLES.

One process of tolk-run per image, as a user would call it. Exits 1 when a digit is not recognised, 2 when a run fails."""

import ast
import glob
import json
import os
import struct
import subprocess
import sys
import tempfile

SHADES = " .:-=+*#%@"


def read_pgm(path):
    with open(path, "rb") as file:
        content = file.read()
    magic, width, height, top, pixels = content.split(maxsplit=4)[:5] if content[:2] == b"P5" else [b""] * 5
    if magic != b"P5" or top != b"255":
        raise ValueError(f"{path} is not an 8-bit PGM image")
    width, height = int(width), int(height)
    pixels = content[-width * height:]
    return [pixels[y * width:(y + 1) * width] for y in range(height)]


def picture(rows):
    """Half as many lines as pixels, because a character is twice as high as wide."""
    lines = []
    for upper, lower in zip(rows[::2], rows[1::2]):
        lines.append("".join(SHADES[(a + b) * (len(SHADES) - 1) // 510] for a, b in zip(upper, lower)))
    return lines


def read_npy(path):
    with open(path, "rb") as file:
        content = file.read()
    assert content[:6] == b"\x93NUMPY", path
    size = struct.unpack_from("<H", content, 8)[0]
    header = ast.literal_eval(content[10:10 + size].decode())
    assert header["descr"] == "<f4", header
    return struct.unpack(f"<{(len(content) - 10 - size) // 4}f", content[10 + size:])


def human(seconds):
    for unit, factor in (("s", 1), ("ms", 1e3), ("us", 1e6)):
        if seconds * factor >= 1 or unit == "us":
            return f"{seconds * factor:.3g} {unit}"


def bars(probabilities, best):
    lines = []
    for digit, p in enumerate(probabilities):
        bar = "#" * round(p * 24)
        lines.append(f"{'>' if digit == best else ' '} {digit}  {p:7.2%}  {bar}")
    return lines


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    tolk_run, model, samples = sys.argv[1:]
    right, total = 0, 0
    for image in sorted(glob.glob(os.path.join(samples, "*.pgm"))):
        drawn = int(os.path.splitext(os.path.basename(image))[0])
        with tempfile.TemporaryDirectory() as folder:
            result = os.path.join(folder, "probabilities.npy")
            command = [tolk_run, model, "--input", f"image={image[:-4]}.npy", "--output", f"probabilities={result}", "--json"]
            run = subprocess.run(command, capture_output=True, text=True)
            if run.returncode != 0:
                print(run.stderr, file=sys.stderr)
                sys.exit(2)
            probabilities = read_npy(result)
        report = json.loads(run.stdout)
        best = max(range(10), key=lambda digit: probabilities[digit])
        total += 1
        right += best == drawn
        left, beside = picture(read_pgm(image)), bars(probabilities, best)
        times = ", ".join(f"{name.replace('_', ' ')} {human(s)}" for name, s in report["times"].items())
        beside = [f"drawn {drawn}, read as {best}" + ("" if best == drawn else "   WRONG"), ""] + beside
        print()
        for n in range(max(len(left), len(beside))):
            print(f"  {left[n] if n < len(left) else '':28}  {beside[n] if n < len(beside) else ''}".rstrip())
        print(f"  {times}", flush=True)
    print(f"\n{right} of {total} digits recognised on {report.get('device', os.environ.get('DEVICE', 'the default device'))}")
    sys.exit(0 if total and right == total else 1)


if __name__ == "__main__":
    main()
