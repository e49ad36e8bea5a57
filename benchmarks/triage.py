"""What triage of one frame costs, against single replays of it: whole processes, in turn.

For each bundle: a replay under each backend, one after the other, then triage of the same backends without bisecting;
the ratio is triage over the slowest single replay, and over the sum of all. The statuses of both must agree.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

RECORDINGS = Path(__file__).parent.parent / "recordings"
BUNDLES = ("dynamo_shape_mismatch", "aot_wrong_backward", "inductor_where_uint16", "module_with_parameters")
BACKENDS = ("uncompiled", "eager", "aot_eager", "aot_eager_decomp_partition", "inductor")


def timed(*arguments: str) -> tuple[float, dict]:
    """Seconds of `python -m replay ... --json`, whole, and what it printed."""
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "replay", *arguments, "--trust", "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    return time.perf_counter() - started, json.loads(done.stdout)


def measure(bundle: str) -> tuple[dict[str, float], float]:
    """Seconds of each single replay, and of triage."""
    single, statuses = {}, {}
    for backend in BACKENDS:
        single[backend], outcome = timed(bundle, "--backend", backend)
        statuses[backend] = outcome["status"]
    chosen = [word for backend in BACKENDS for word in ("--backend", backend)]
    together, triage = timed("triage", bundle, "--no-bisect", *chosen)
    found = {rung["backend"]: rung["status"] for rung in triage["rungs"] if not rung["how"]}
    assert found == statuses, (found, statuses)
    return single, together


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print("| bundle | slowest single replay | all five, in turn | triage | triage / slowest | triage / all |")
    print("|---|---:|---:|---:|---:|---:|")
    for name in BUNDLES:
        rounds = [measure(str(RECORDINGS / f"{name}.rec")) for _ in range(options.rounds)]
        slowest = statistics.median(max(single.values()) for single, _ in rounds)
        everything = statistics.median(sum(single.values()) for single, _ in rounds)
        together = statistics.median(seconds for _, seconds in rounds)
        of_slowest = statistics.median(seconds / max(single.values()) for single, seconds in rounds)
        of_all = statistics.median(seconds / sum(single.values()) for single, seconds in rounds)
        print(
            f"| {name} | {slowest:.1f} s | {everything:.1f} s | {together:.1f} s "
            f"| {of_slowest:.2f} | {of_all:.2f} |"
        )


if __name__ == "__main__":
    main()
