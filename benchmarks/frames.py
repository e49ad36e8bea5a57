"""Whole frames, end to end: recording a failing frame with a large input, and looking at a large bundle.

    python benchmarks/frames.py [--dir DIRECTORY]

Three parts, each in child processes, each checked after timing:

- a frame with 1 GB of values, `tensors="full"`: from the failure to the finished file, against the floor (the same
  bytes written to the same disk and synchronised), taking turns; and the memory that recording adds;
- a frame that touches 1 KB of a module with 200 million parameters: size of the bundle, and time;
- `python -m replay inspect` of a 4 GB bundle, and the command's start-up, as whole processes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

RECORD = """
import ctypes, json, os, re, sys, time
import torch, replay
from replay.recorder import capture

def peak(name="VmHWM"):
    return int(re.search(name + r":\\s+(\\d+)", open("/proc/self/status").read())[1]) * 1024

def fail(big, x):
    return (big.sum() + x) @ torch.ones(2, 3) @ x

def warm_up(folder):
    with replay.record(folder, tensors="full"):
        try: torch.compile(fail, backend="eager")(torch.ones(4), torch.ones(5, 7))
        except Exception: pass
    torch._dynamo.reset()

folder, nbytes = sys.argv[1], int(sys.argv[2])
warm_up(folder + "/warm")
big = torch.rand(nbytes // 4)
seconds = []
original = capture.write
def timed(*args, **kwargs):
    open("/proc/self/clear_refs", "w").write("5")
    before = peak("VmRSS")
    started = time.perf_counter()
    path = original(*args, **kwargs)
    seconds.append((time.perf_counter() - started, peak() - before))
    return path
capture.write = timed
with replay.record(folder, tensors="full") as rec:
    try: torch.compile(fail, backend="eager")(big, torch.ones(5, 7))
    except Exception as error: print(type(error), file=sys.stderr)
with replay.load(rec.bundles[0]) as bundle:
    entry = next(s.entry for s in bundle.manifest.storages.values() if s.nbytes == nbytes)
    assert torch.equal(torch.frombuffer(bundle.blob(entry), dtype=torch.float32), big)
print(json.dumps({"seconds": seconds[0][0], "extra": seconds[0][1], "path": str(rec.bundles[0])}))
"""

FLOOR = """
import json, os, sys, time
import torch
folder, nbytes = sys.argv[1], int(sys.argv[2])
os.makedirs(folder, exist_ok=True)
big = memoryview(torch.rand(nbytes // 4).numpy()).cast("B")
started = time.perf_counter()
with open(folder + "/floor", "wb", buffering=0) as file:
    for at in range(0, nbytes, 64 << 10):  # larger pieces are slower on some kernels
        file.write(big[at : at + (64 << 10)])
    os.fsync(file.fileno())
print(json.dumps({"seconds": time.perf_counter() - started}))
"""

SMALL = """
import json, sys, time
import torch, replay

class Big(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Linear(10_000, 20_000)
        self.small = torch.nn.Linear(16, 16, bias=False)
    def forward(self, x):
        return self.small(x) @ x

model = Big()
found = {"parameters": sum(p.numel() for p in model.parameters())}
for policy in ("metadata", "full", "auto"):  # the first one warms up
    torch._dynamo.reset()
    started = time.perf_counter()
    with replay.record(sys.argv[1] + "/" + policy, tensors=policy) as rec:
        try: torch.compile(model, backend="eager")(torch.ones(3, 16))
        except Exception: pass
    found[policy + " seconds"] = time.perf_counter() - started
    found[policy] = rec.bundles[0].stat().st_size
    with replay.load(rec.bundles[0]) as bundle:
        (left,) = bundle.manifest.left_out
        assert left.nbytes > 800_000_000
        assert policy != "auto" or bundle.manifest.substitution.survived
print(json.dumps(found))
"""


def child(program: str, *arguments: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    return json.loads(done.stdout.splitlines()[-1])


def wall(*arguments: str, runs: int = 7) -> float:
    times = []
    for _ in range(runs):
        started = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "replay", *arguments],
            stdout=subprocess.DEVNULL,
            check=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def touch_memory(folder: Path) -> None:
    """Have the machine's memory at hand: in a virtual machine a page is slow when it is used for the first time."""
    with open(folder / "touch", "wb", buffering=0) as file:
        for _ in range(8 << 10):
            file.write(bytes(1 << 20))
    clear(folder)


def clear(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--dir", default=None)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.dir) as name:
        folder = Path(name)
        touch_memory(folder)
        floors, records, extra = [], [], []
        for number in range(options.repeat):
            for program in (FLOOR, RECORD) if number % 2 else (RECORD, FLOOR):
                found = child(program, name, str(1 << 30))
                clear(folder)
                (floors if program is FLOOR else records).append(found["seconds"])
                extra.append(found.get("extra", 0))
        ratios = sorted(floor / record for floor, record in zip(floors, records, strict=True))
        print("| what | measured |")
        print("|---|---|")
        print(
            f"| recording a frame with 1 GB of values, throughput / floor: median of {options.repeat} pairs "
            f"(all), fastest / fastest | {statistics.median(ratios):.2f} "
            f"({', '.join(f'{one:.2f}' for one in ratios)}), {min(floors) / min(records):.2f} |"
        )
        print(f"| memory that recording it adds | {max(extra) / 1e6:.1f} MB |")
        small = child(SMALL, name)
        for policy in ("auto", "full"):
            print(
                f"| bundle of a frame that touches 1 KB of {small['parameters']:,} parameters, {policy}; failing "
                f"and recording, checked if auto | {small[policy] / 1e3:.0f} kB; {small[policy + ' seconds']:.2f} s |"
            )
        clear(folder)
        path = child(RECORD, name, str(4 << 30))["path"]
        print(
            f"| `inspect` of a bundle of {Path(path).stat().st_size / 1e9:.1f} GB, whole process | "
            f"{wall('inspect', str(path)):.2f} s |"
        )
        print(f"| `python -m replay --help`, whole process | {wall('--help'):.2f} s |")


if __name__ == "__main__":
    main()
