"""Replay every bundle of recordings/ under several backends in one process, and print the outcomes as JSON.

Run as a program, from a directory that holds nothing: `python replay_recordings.py RECORDINGS BACKEND ...`, where
the backend `recorded` is the recorded one. Importing torch costs seconds, so that the replays share it.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import replay

ALONE = {"cuda_run_time_count"}
"""Triton's interpreter must be asked for before Triton is imported: these need a process of their own."""


def is_sequence(path: Path) -> bool:
    """Whether a bundle is of many compilations: these are Dynamo's, and Inductor takes seconds for each."""
    with replay.load(path) as bundle:
        return bundle.manifest.sequence is not None


def main() -> None:
    folder, backends = Path(sys.argv[1]), sys.argv[2:]
    outcomes = {}
    for path in sorted(folder.glob("*.rec")):
        for backend in backends:
            if backend == "inductor" and is_sequence(path):
                continue
            chosen = None if backend == "recorded" else backend
            outcome = replay.run(path, backend=chosen, isolate=path.stem in ALONE, trust=True)
            outcomes[f"{path.stem} {backend}"] = asdict(outcome)
    json.dump(outcomes, sys.stdout)


if __name__ == "__main__":
    main()
