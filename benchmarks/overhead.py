"""What the recorder costs a program in which nothing fails: per compiled call, and per compilation.

Both states are measured in turn in one process, and the median of the pairwise ratios is printed. The count of
hook calls in steady state is shown as well: it must be 0.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import torch
import torch._dynamo

import replay
from replay.torch_adapter import hooks


def steady_state(calls: int, rounds: int) -> tuple[float, float, int]:
    """Microseconds per compiled call off and on, and how often the hook ran meanwhile."""
    compiled = torch.compile(lambda x: x + 1, backend="eager")
    x = torch.ones(4)
    compiled(x)
    seen: list[object] = []
    ratios, off_times = [], []
    with tempfile.TemporaryDirectory() as directory:
        for _ in range(rounds):
            off = timed_calls(compiled, x, calls)
            with replay.record(directory), hooks.observing(seen.append):
                on = timed_calls(compiled, x, calls)
            ratios.append(on / off)
            off_times.append(off)
        assert not list(Path(directory).iterdir())
    assert torch.equal(compiled(x), torch.full((4,), 2.0))
    return statistics.median(off_times) / calls * 1e6, statistics.median(ratios), len(seen)


def timed_calls(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, calls: int) -> float:
    """Seconds for `calls` calls."""
    started = time.perf_counter()
    for _ in range(calls):
        function(x)
    return time.perf_counter() - started


def compilation(
    model: torch.nn.Module, x: torch.Tensor, backend: str, rounds: int
) -> tuple[float, float, int]:
    """Seconds of a compilation off, the median of the ratios on/off, and frames compiled per round."""
    off_times, ratios = [], []
    frames: list[object] = []
    with tempfile.TemporaryDirectory() as directory:
        timed_compile(model, x, backend, nullcontext())
        for index in range(rounds):
            pair = {}
            for on in (False, True) if index % 2 else (True, False):
                context = replay.record(directory) if on else nullcontext()
                pair[on] = timed_compile(model, x, backend, context)
            ratios.append(pair[True] / pair[False])
            off_times.append(pair[False])
        with hooks.observing(frames.append):
            timed_compile(model, x, backend, nullcontext())
        assert not list(Path(directory).iterdir())
    return statistics.median(off_times), statistics.median(ratios), len(frames)


def timed_compile(
    model: torch.nn.Module, x: torch.Tensor, backend: str, context: AbstractContextManager[object]
) -> float:
    """Seconds of the first call of a freshly compiled model."""
    torch._dynamo.reset()
    gc.collect()
    with context:
        started = time.perf_counter()
        torch.compile(model, backend=backend)(x)
        return time.perf_counter() - started


def breaking(depth: int) -> torch.nn.Module:
    """A model with a graph break in each layer: many small frames, the worst case for a hook per frame."""

    class Layer(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x.sin()
            torch._dynamo.graph_break()
            return x.cos()

    return torch.nn.Sequential(*[Layer() for _ in range(depth)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    torch.set_num_threads(1)
    micros, ratio, hooked = steady_state(options.calls, options.rounds)
    print("| what | off | on / off | hook calls |")
    print("|---|---:|---:|---:|")
    print(
        f"| a compiled call in steady state, {options.calls:,} calls | {micros:.1f} us | {ratio:.3f} | {hooked} |"
    )
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, dropout=0.0).eval()
    encoder = torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False).eval()
    cases = [
        ("compiling 4 transformer layers", encoder, torch.randn(2, 8, 64)),
        ("compiling 20 layers with a graph break each", breaking(20), torch.randn(8)),
    ]
    with torch.no_grad():
        for name, model, x in cases:
            for backend in ("eager", "aot_eager"):
                seconds, ratio, frames = compilation(model, x, backend, options.rounds)
                print(f"| {name}, {backend} | {seconds * 1e3:.0f} ms | {ratio:.3f} | {frames} |")


if __name__ == "__main__":
    main()
