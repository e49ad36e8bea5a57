"""What trust costs: a child in a sandbox against one without, and to find out who vouches for a bundle.

- A child that does nothing, and a whole replay of a recording: in a sandbox and without, in turn; the ratio of the
  medians. Both outcomes must be the same.
- `standing_of` of an open bundle, against `load` of the same file, in one process.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import replay
from replay import isolation, trust
from replay.bundle import BundleWriter

RECORDINGS = Path(__file__).parent.parent / "recordings"
NAMES = ("dynamo_shape_mismatch",)


def seconds(action: Callable[[], object]) -> tuple[float, object]:
    started = time.perf_counter()
    found = action()
    return time.perf_counter() - started, found


def compare(name: str, plain: Callable[[], object], boxed: Callable[[], object], rounds: int) -> None:
    """One row: both in turn, `rounds` times."""
    first, second = [], []
    for _ in range(rounds):
        one, expected = seconds(plain)
        other, found = seconds(boxed)
        assert found == expected, (found, expected)
        first.append(one)
        second.append(other)
    without, within = statistics.median(first), statistics.median(second)
    print(
        f"| {name} | {without:.2f} s | {within:.2f} s | {within / without:.2f} | {within - without:+.2f} s |"
    )


def children(rounds: int) -> None:
    how = {"environment": {}}
    compare(
        "a child that does nothing",
        lambda: isolation.call("builtins:dict", {"a": 1}, **how).answer,
        lambda: (
            isolation.call_in_sandbox("builtins:dict", {"a": 1}, within=isolation.Sandbox(), **how).answer
        ),
        rounds,
    )


def replays(name: str, rounds: int) -> None:
    path = RECORDINGS / f"{name}.rec"
    compare(
        f"replay of {name}",
        lambda: replay.run(path, trust=True).status,
        lambda: replay.run(path, sandbox=True).status,
        rounds,
    )


def standing(rounds: int) -> None:
    """Looking at an own bundle: load it, then ask who vouches for it."""
    with tempfile.TemporaryDirectory() as folder, replay.load(RECORDINGS / f"{NAMES[0]}.rec") as recorded:
        with BundleWriter(Path(folder), "own", sign=trust.signer()) as writer:
            for filename in recorded.manifest.sources:
                writer.add_source(filename, recorded.source_for(filename) or "")
            writer.add_values(recorded.values())
            for key, storage in recorded.manifest.storages.items():
                if storage.entry is not None:
                    writer.add_blob(key, storage.length, [recorded.blob(storage.entry)])
            path = writer.commit(recorded.manifest)
        loads, asks = [], []
        for _ in range(rounds * 20):
            took, bundle = seconds(lambda: replay.load(path))
            loads.append(took)
            took, found = seconds(lambda opened=bundle: trust.standing_of(opened).kind)
            assert found == "own"
            asks.append(took)
            bundle.close()
    load, ask = statistics.median(loads), statistics.median(asks)
    print(
        f"\n`load` {load * 1e3:.2f} ms; who vouches for it, besides: {ask * 1e3:.3f} ms ({ask / load:.2f} of it)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    lacking = isolation.sandbox_lacking()
    if lacking:
        print(f"nothing to compare: {lacking}")
        return
    print("| | without | in a sandbox | ratio | difference |")
    print("|---|---:|---:|---:|---:|")
    children(options.rounds)
    for name in NAMES:
        replays(name, options.rounds)
    with tempfile.TemporaryDirectory() as own:
        os.environ["TORCH_REPLAY_CONFIG"] = own  # a key for this measurement, not the user's
        standing(options.rounds)


if __name__ == "__main__":
    main()
