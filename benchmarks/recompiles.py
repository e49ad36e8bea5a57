"""What `record(on="recompile")` costs a frame that is compiled again and again: for each compilation.

A module of 100 layers gets another string each time. The recorder is off and on in turn in one process; what it adds
for each compilation is printed for different numbers of them, and the ratio of the last to the first: it must not grow
with the number. Time is the processor's, which other programs disturb least; that of the disk is not in it. Afterwards
it is checked that the bundle holds every call.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from contextlib import AbstractContextManager, nullcontext

import torch
import torch._dynamo

import replay

NUMBERS = [16, 64, 256]


class Layers(torch.nn.Module):
    """A model with many modules, and one argument that is compiled for."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(number))

    def forward(self, x: torch.Tensor, name: str) -> torch.Tensor:
        """Compiled for each name."""
        return self.layers[0](x) if name else x


def timed(model: torch.nn.Module, calls: int, context: AbstractContextManager[object]) -> float:
    """Seconds of the processor for so many compilations, the end of the block included."""
    torch._dynamo.reset()
    run, x = torch.compile(model, backend="eager"), torch.ones(2, 4)
    started = time.process_time()
    with context:
        for number in range(calls):
            run(x, f"step {number}")
    return time.process_time() - started


def added(model: torch.nn.Module, calls: int, rounds: int) -> tuple[float, float]:
    """Milliseconds for each compilation: without the recorder, and what it adds. Medians."""
    off, more = [], []
    for _ in range(rounds):
        off.append(timed(model, calls, nullcontext()))
        with tempfile.TemporaryDirectory() as folder:
            recorder = replay.record(folder, on="recompile")
            more.append(timed(model, calls, recorder) - off[-1])
            with replay.load(recorder.bundles[0]) as bundle:
                assert len(bundle.manifest.calls) + 1 == calls
    return tuple(statistics.median(one) / calls * 1000 for one in (off, more))  # type: ignore[return-value]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--layers", type=int, default=100)
    parser.add_argument("--numbers", type=int, nargs="+", default=NUMBERS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    model = Layers(options.layers)
    print("| compilations | each, off | recording adds, each |")
    print("|---:|---:|---:|")
    found = {}
    with torch._dynamo.config.patch(recompile_limit=1000, accumulated_recompile_limit=1000):
        timed(model, 3, nullcontext())
        for number in options.numbers:
            off, found[number] = added(model, number, options.rounds)
            print(f"| {number} | {off:.1f} ms | {found[number]:.1f} ms |", flush=True)
    first, last = options.numbers[0], options.numbers[-1]
    print(f"\nat {last} against {first}: {found[last] / found[first]:.2f}")


if __name__ == "__main__":
    main()
