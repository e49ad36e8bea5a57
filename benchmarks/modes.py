"""What the modes that watch every run cost: `crash_safe=True` and `on="accuracy"`, per call of a compiled frame.

The same compiled step runs with the recorder off and in each mode, in turn in one process; medians of the pairs are
printed. Afterwards it is checked that no bundle is left and that the results are the same.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import torch
import torch._dynamo

import replay

Step = Callable[[], torch.Tensor]


def steps(train: bool) -> dict[str, Step]:
    """Small and middling frames, compiled with aot_eager."""
    torch.manual_seed(0)
    small = torch.nn.Linear(8, 8)
    layer = torch.nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True, dropout=0.0)
    block = torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
    return {
        "a linear layer, 72 parameters": step(small, torch.randn(4, 8), train),
        "4 transformer layers, 3 million parameters": step(block, torch.randn(4, 64, 256), train),
    }


def step(model: torch.nn.Module, x: torch.Tensor, train: bool) -> Step:
    compiled = torch.compile(model, backend="aot_eager")

    def run() -> torch.Tensor:
        with torch.set_grad_enabled(train):
            output = compiled(x).sum()
        if train:
            output.backward()
            model.zero_grad()
        return output.detach()

    return run


def timed(run: Step, context: AbstractContextManager[object], calls: int) -> tuple[float, torch.Tensor]:
    """Seconds per call after the first, which compiles; and the result."""
    torch._dynamo.reset()
    with context:
        result = run()
        started = time.perf_counter()
        for _ in range(calls):
            run()
        return (time.perf_counter() - started) / calls, result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| what | off | crash_safe | adds | accuracy | adds |")
    print("|---|---:|---:|---:|---:|---:|")
    for train in (False, True):
        for name, run in steps(train).items():
            found = {"off": [], "crash_safe": [], "accuracy": []}
            for _ in range(options.rounds):
                with tempfile.TemporaryDirectory() as folder:
                    contexts = {
                        "off": nullcontext(),
                        "crash_safe": replay.record(folder, crash_safe=True),
                        "accuracy": replay.record(folder, on="accuracy"),
                    }
                    results = []
                    for mode, context in contexts.items():
                        seconds, result = timed(run, context, options.calls)
                        found[mode].append(seconds)
                        results.append(result)
                    assert not list(Path(folder).iterdir())
                    assert all(torch.equal(results[0], one) for one in results)
            off = statistics.median(found["off"])
            cells = [f"{off * 1e3:.2f} ms"]
            for mode in ("crash_safe", "accuracy"):
                ratio = statistics.median(
                    one / base for one, base in zip(found[mode], found["off"], strict=True)
                )
                cells += [f"{ratio:.1f}", f"{(statistics.median(found[mode]) - off) * 1e3:.1f} ms"]
            print(f"| {name}, {'forward and backward' if train else 'forward'} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
