"""What `record(on="recompile", calls=True)` costs: time for each call of a compiled function, and memory over many.

The recorder is off and on in turn in one process, and the median of the pairwise ratios is printed. Then a million
calls are made in one block, and the process's memory is looked at on the way: it must stay as it is. Afterwards it is
checked that every call was counted.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import torch
import torch._dynamo

import replay

Run = Callable[[int], object]


def functions() -> dict[str, Run]:
    """Tiny compiled functions, which take the number of the call."""
    x = torch.ones(4)
    layer = torch.nn.Linear(8, 8).requires_grad_(False)
    rows = torch.ones(4, 8)
    plus_one = torch.compile(lambda x: x + 1, backend="eager")
    times = torch.compile(lambda x, k: x * k, backend="eager", dynamic=True)
    linear = torch.compile(layer, backend="inductor")
    return {
        "x + 1, eager backend": lambda number: plus_one(x),
        "x * k, another integer each time": lambda number: times(x, number + 2),
        "a linear layer, inductor": lambda number: linear(rows),
    }


def timed(run: Run, context: AbstractContextManager[object], calls: int) -> float:
    """Seconds per call after the first two, which compile."""
    torch._dynamo.reset()
    with context:
        run(0)
        run(1)
        started = time.perf_counter()
        for number in range(calls):
            run(number)
        return (time.perf_counter() - started) / calls


def ratios(run: Run, calls: int, rounds: int) -> tuple[float, float, float]:
    """Microseconds per call off, and the medians of on / off, without and with `calls`."""
    off, plain, counted = [], [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            off.append(timed(run, nullcontext(), calls))
            plain.append(timed(run, replay.record(folder, on="recompile"), calls) / off[-1])
            counted.append(timed(run, replay.record(folder, on="recompile", calls=True), calls) / off[-1])
    return statistics.median(off) * 1e6, statistics.median(plain), statistics.median(counted)


def memory(calls: int, parts: int) -> Iterator[tuple[int, int]]:
    """Calls that were made, and resident bytes then, as Linux tells them."""
    torch._dynamo.reset()
    x = torch.ones(4)
    named = torch.compile(lambda x, name, k: x * k if name else x, backend="eager", dynamic=True)
    with tempfile.TemporaryDirectory() as folder:
        with replay.record(folder, on="recompile", calls=True) as recorder:
            named(x, "first", 2)
            for part in range(parts + 1):
                yield part * calls // parts, resident()
                for number in range(calls // parts if part < parts else 0):
                    named(x, "second", number + 2)
        with replay.load(recorder.bundles[0]) as bundle:
            traffic = bundle.manifest.sequence.traffic
        assert sum(kind.count for kind in traffic.kinds) == calls // parts * parts + 1
        print(f"\nthe bundle of {calls:,} calls: {recorder.bundles[0].stat().st_size:,} bytes")


def resident() -> int:
    """Resident bytes of this process."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--many", type=int, default=1_000_000)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| what | off | on / off | with calls / off |")
    print("|---|---:|---:|---:|")
    for name, run in functions().items():
        micros, plain, counted = ratios(run, options.calls, options.rounds)
        print(f"| {name} | {micros:.1f} us | {plain:.2f} | {counted:.2f} |", flush=True)
    print("\n| calls | resident |\n|---:|---:|")
    for made, size in memory(options.many, 10):
        print(f"| {made:,} | {size / 1e6:.1f} MB |", flush=True)


if __name__ == "__main__":
    main()
