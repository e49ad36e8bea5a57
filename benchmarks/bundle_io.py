"""Bundles on disk against their rivals: torch.save and torch.load(mmap=True), safetensors, and the floor.

The floor is the same bytes written to the same disk, in writes of 64 KB, the fastest, and synchronised
(fsync), as every writer here is. It runs twice, as "floor" and "floor again": how far the second is from 1.00
is the noise, and no other ratio means more than that. Cases take turns, in another order each round, and
each begins without the files of the others, so that none profits from its place.

Each case runs in a child process of its own, which reports the time and the peak of its memory above what
it held before (VmHWM, reset at the start; the child first checks that the gauge sees a copy of 64 MB). Mapped
pages count as memory where they are read, so for readers RssAnon, what cannot be dropped again, stands
beside it. Files are in the page cache when they are read. Every result is checked after timing.

    python benchmarks/bundle_io.py [--sizes 1KB 100MB 1GB 4GB] [--dir DIRECTORY] [--repeat N]

Prints Markdown: medians, with the fastest and the slowest. Writers' ratios to the floor are of medians and of
the fastest runs; on a disk that others use, the medians of the two floors can differ threefold, and then
neither median says anything. `--dir /dev/shm` takes the disk away: there hashing has nothing to hide behind.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[1]))

SIZES = {"1KB": 1 << 10, "100MB": 100 << 20, "1GB": 1 << 30, "4GB": 4 << 30}
CHUNK = 64 << 10  # larger writes are slower on some kernels
WRITERS = ("floor", "replay", "torch", "safetensors", "floor again")
OPENING = "replay, opening only"
READERS = ("replay", "replay, unverified", OPENING, "torch", "safetensors")


def payload(nbytes: int) -> Any:
    """A tensor of that many bytes that do not repeat within a megabyte, and do not compress."""
    import torch

    block = torch.randint(0, 256, (min(nbytes, 1 << 20),), dtype=torch.uint8)
    return block.repeat(nbytes // len(block))


def view(tensor: Any) -> memoryview:
    return memoryview(tensor.numpy())


def chunks(data: memoryview) -> Iterator[memoryview]:
    return (data[start : start + CHUNK] for start in range(0, len(data), CHUNK))


def checksum(data: memoryview) -> int:
    value = 0
    for chunk in chunks(data):
        value = zlib.crc32(chunk, value)
    return value


def synchronise(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def write_floor(path: Path, tensor: Any) -> None:
    with path.open("xb", buffering=0) as file:
        for chunk in chunks(view(tensor)):
            file.write(chunk)
        os.fsync(file.fileno())


def write_replay(path: Path, tensor: Any) -> None:
    from replay.bundle import BundleWriter
    from replay.recording import CompileInfo, Environment, FrameInfo, Manifest, StorageSpec

    nbytes = tensor.nbytes
    with BundleWriter(path.parent, path.stem) as writer:
        entry = writer.add_blob("s0", nbytes, [view(tensor)])
        environment = Environment("", "", "", None, "", "", "", "", (), None, {}, {})
        frame = FrameInfo("f", "f", "m", "m.py", 1, 1, None, "source")
        storages = {"s0": StorageSpec(nbytes, 0, nbytes, "cpu", entry)}
        compile_ = CompileInfo("inductor", "registered")
        writer.commit(Manifest("", "", "failure", frame, None, compile_, environment, storages=storages))


def write_torch(path: Path, tensor: Any) -> None:
    import torch

    torch.save({"s0": tensor}, path)
    synchronise(path)


def write_safetensors(path: Path, tensor: Any) -> None:
    from safetensors.torch import save_file

    save_file({"s0": tensor}, path)
    synchronise(path)


def open_replay(path: Path) -> memoryview:
    from replay.bundle import load

    return load(path).blob("blobs/s0")


def open_replay_unverified(path: Path) -> memoryview:
    from replay.bundle import load

    return load(path).blob("blobs/s0", verify=False)


def open_torch(path: Path) -> memoryview:
    import torch

    return view(torch.load(path, mmap=True, weights_only=True)["s0"])


def open_safetensors(path: Path) -> memoryview:
    from safetensors.torch import load_file

    return view(load_file(path)["s0"])


def inspect_replay(path: Path) -> memoryview:
    """Opening alone: everything but blobs is read and checked."""
    from replay.bundle import load

    with load(path) as bundle:
        return memoryview(bundle.manifest.entries["blobs/s0"].digest.encode())


def memory(field: str) -> int:
    """A line of /proc/self/status, in bytes."""
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith(field + ":")).split()[1]) * 1024


def measure(act: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """What `act` returns, the seconds it took, and how far memory rose."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew, here
    before, anonymous = memory("VmRSS"), memory("RssAnon")
    start = time.perf_counter()
    result = act()
    seconds = time.perf_counter() - start
    peak = max(memory("VmHWM") - before, 0)
    return result, {"seconds": seconds, "peak": peak, "anonymous": max(memory("RssAnon") - anonymous, 0)}


def check_gauge() -> None:
    """The peak must see a copy that is gone before the end; else every figure of memory here is void."""
    source = b"x" * (64 << 20)
    _, seen = measure(lambda: len(bytearray(source)))
    assert seen["peak"] > 60 << 20, f"the gauge saw {seen['peak']} bytes of a copy of {len(source)}"


def child_write(kind: str, path: Path, nbytes: int) -> dict[str, Any]:
    write = {"replay": write_replay, "torch": write_torch, "safetensors": write_safetensors}.get(
        kind, write_floor
    )
    check_gauge()
    tensor = payload(nbytes)
    warm = path.with_stem("warm")
    write(warm, payload(1 << 20))  # imports and first-time costs are not the disk's
    warm.unlink()
    _, figures = measure(lambda: write(path, tensor))
    return {**figures, "checksum": checksum(view(tensor))}


def child_read(kind: str, path: Path, nbytes: int) -> dict[str, Any]:
    import torch  # noqa: F401  # readers hand tensors to torch anyway

    read = {
        "replay": open_replay,
        "replay, unverified": open_replay_unverified,
        "torch": open_torch,
        "safetensors": open_safetensors,
        OPENING: inspect_replay,
    }[kind]
    check_gauge()
    read(path.with_stem("warm"))
    data, figures = measure(lambda: read(path))
    return {**figures, "checksum": checksum(data) if kind != OPENING else None}


def run_child(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, str(HERE), "--child", *arguments]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def suffix(kind: str) -> str:
    return {"torch": ".pt", "safetensors": ".safetensors"}.get(kind, ".rec" if "replay" in kind else ".bin")


def clear(directory: Path) -> None:
    for path in directory.iterdir():
        path.unlink()
    os.sync()


def time_writers(nbytes: int, directory: Path, repeat: int) -> dict[str, list[dict[str, Any]]]:
    runs: dict[str, list[dict[str, Any]]] = {kind: [] for kind in WRITERS}
    for turn in range(repeat):
        first = turn % len(WRITERS)
        for kind in WRITERS[first:] + WRITERS[:first]:
            clear(directory)
            runs[kind].append(run_child("write", kind, str(directory / f"data{suffix(kind)}"), str(nbytes)))
    return runs


def time_readers(nbytes: int, directory: Path, repeat: int) -> dict[str, list[dict[str, Any]]]:
    runs: dict[str, list[dict[str, Any]]] = {}
    writers = {"torch": write_torch, "safetensors": write_safetensors}
    for kind in READERS:
        clear(directory)
        path, writer = directory / f"data{suffix(kind)}", kind if kind in writers else "replay"
        expected = run_child("write", writer, str(path), str(nbytes))["checksum"]
        writers.get(kind, write_replay)(path.with_stem("warm"), payload(1 << 20))
        runs[kind] = [run_child("read", kind, str(path), str(nbytes)) for _ in range(repeat)]
        right = None if kind == OPENING else expected
        assert {run["checksum"] for run in runs[kind]} == {right}, (
            f"{kind} read other bytes than were written"
        )
    return runs


def seconds(runs: list[dict[str, Any]]) -> float:
    return median(run["seconds"] for run in runs)


def fastest(runs: list[dict[str, Any]]) -> float:
    return min(run["seconds"] for run in runs)


def row(size: str, kind: str, runs: list[dict[str, Any]], *columns: str) -> list[str]:
    times = sorted(run["seconds"] * 1000 for run in runs)
    peak = max(run["peak"] for run in runs) / 2**20
    return [size, kind, f"{median(times):.1f}", f"{times[0]:.1f} to {times[-1]:.1f}", f"{peak:.2f}", *columns]


def compare(size: str, nbytes: int, directory: Path, repeat: int) -> tuple[list[list[str]], list[list[str]]]:
    """Rows of the table of writers, and of readers, for one size."""
    writes, reads = time_writers(nbytes, directory, repeat), time_readers(nbytes, directory, repeat)
    floor, rival = writes["floor"], seconds(reads["torch"])
    writers = [
        row(
            size, kind, runs, f"{seconds(floor) / seconds(runs):.2f}", f"{fastest(floor) / fastest(runs):.2f}"
        )
        for kind, runs in writes.items()
    ]
    readers = []
    for kind, runs in reads.items():
        anonymous = max(run["anonymous"] for run in runs) / 2**20
        readers.append(row(size, kind, runs, f"{anonymous:.2f}", f"{seconds(runs) / rival:.2f}"))
    return writers, readers


def print_table(head: str, rows: list[list[str]]) -> None:
    columns = head.split("|")
    print(f"| {' | '.join(columns)} |")
    print(f"|{'---|' * len(columns)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")
    print(flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES), metavar="SIZE")
    parser.add_argument("--dir", type=Path, help="where to write; the disk that is measured")
    parser.add_argument("--repeat", type=int, default=5, help="runs of each case")
    options = parser.parse_args()
    writers: list[list[str]] = []
    readers: list[list[str]] = []
    for size in options.sizes:
        directory = Path(tempfile.mkdtemp(prefix="bundle-io-", dir=options.dir))
        try:
            more_writers, more_readers = compare(size, SIZES[size], directory, options.repeat)
        finally:
            shutil.rmtree(directory)
        writers += more_writers
        readers += more_readers
    print_table("size|writer|ms|range|peak extra MB|throughput / floor|of the fastest", writers)
    print_table("size|reader|ms|range|peak extra MB|of it anonymous|time / torch.load(mmap)", readers)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        action, kind, path, nbytes = sys.argv[2:]
        act = child_write if action == "write" else child_read
        print(json.dumps(act(kind, Path(path), int(nbytes))))
    else:
        main()
