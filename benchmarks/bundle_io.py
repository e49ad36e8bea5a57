"""Bundles on disk against their rivals: torch.save and torch.load(mmap=True), safetensors, and the floor.

The floor is the same bytes written to the same disk, 8 MB at a time, and synchronised (fsync), as every
writer here is.
Each case runs in a child process of its own, which reports the time and the peak of its memory above what
it held before (VmHWM, reset at the start). Mapped pages count as memory where they are read, so for
readers RssAnon, what cannot be dropped again, stands beside it. Every result is checked after timing.

    python benchmarks/bundle_io.py [--sizes 1KB 100MB 1GB 4GB] [--dir DIRECTORY] [--repeat N]

Prints Markdown. Ratios within one run mean something, seconds alone do not.
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
from typing import Any

HERE = Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[1]))

SIZES = {"1KB": 1 << 10, "100MB": 100 << 20, "1GB": 1 << 30, "4GB": 4 << 30}
CHUNK = 8 << 20
WRITERS = ("floor", "replay", "torch", "safetensors")
READERS = ("replay", "replay, unverified", "torch", "safetensors")


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


def child_write(kind: str, path: Path, nbytes: int) -> dict[str, Any]:
    tensor = payload(nbytes)
    write = {
        "floor": write_floor,
        "replay": write_replay,
        "torch": write_torch,
        "safetensors": write_safetensors,
    }
    warm = payload(1 << 20)
    write[kind](path.with_stem("warm"), warm)  # imports and first-time costs are not the disk's
    path.with_stem("warm").unlink()
    _, figures = measure(lambda: write[kind](path, tensor))
    return {**figures, "checksum": checksum(view(tensor))}


def child_read(kind: str, path: Path, nbytes: int) -> dict[str, Any]:
    import torch  # noqa: F401  # readers hand tensors to torch anyway

    read = {
        "replay": open_replay,
        "replay, unverified": open_replay_unverified,
        "torch": open_torch,
        "safetensors": open_safetensors,
        "opening": inspect_replay,
    }[kind]
    small = path.with_name("warm" + path.suffix)
    read(small)
    data, figures = measure(lambda: read(path))
    return {**figures, "checksum": checksum(data) if kind != "opening" else None}


def run_child(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, str(HERE), "--child", *arguments]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def best(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The fastest run, with the highest memory of all."""
    fastest = min(runs, key=lambda run: run["seconds"])
    return {**fastest, **{key: max(run[key] for run in runs) for key in ("peak", "anonymous")}}


def suffix(kind: str) -> str:
    return {"floor": ".bin", "torch": ".pt", "safetensors": ".safetensors"}.get(kind, ".rec")


def compare(size: str, nbytes: int, directory: Path, repeat: int) -> tuple[list[list[str]], list[list[str]]]:
    """Rows of the table of writers, and of readers, for one size."""
    written: dict[str, list[dict[str, Any]]] = {kind: [] for kind in WRITERS}
    for _ in range(repeat):
        for kind in WRITERS:  # in turn, so that a slow minute of the disk hits all
            path = directory / f"data{suffix(kind)}"
            path.unlink(missing_ok=True)
            os.sync()
            written[kind].append(run_child("write", kind, str(path), str(nbytes)))
    warm = payload(1 << 20)
    for kind, write in (("replay", write_replay), ("torch", write_torch), ("safetensors", write_safetensors)):
        write(directory / f"warm{suffix(kind)}", warm)
    writes = {kind: best(runs) for kind, runs in written.items()}
    reads: dict[str, dict[str, Any]] = {}
    for kind in (*READERS, "opening"):
        path = directory / f"data{suffix(kind)}"
        runs = [run_child("read", kind, str(path), str(nbytes)) for _ in range(repeat)]
        expected = written[kind.partition(",")[0]][-1]["checksum"] if kind != "opening" else None
        assert all(run["checksum"] == expected for run in runs), f"{kind} read other bytes than were written"
        reads[kind] = best(runs)
    for path in directory.iterdir():
        path.unlink()
    floor = writes["floor"]["seconds"]
    return (
        [[size, kind, *figures(run), f"{floor / run['seconds']:.2f}"] for kind, run in writes.items()],
        [
            [size, kind, *figures(run), f"{run['anonymous'] / 2**20:.1f}", ratio(run, reads["torch"])]
            for kind, run in reads.items()
        ],
    )


def figures(run: dict[str, Any]) -> list[str]:
    return [f"{run['seconds'] * 1000:.1f}", f"{run['peak'] / 2**20:.1f}"]


def ratio(run: dict[str, Any], rival: dict[str, Any]) -> str:
    return f"{run['seconds'] / rival['seconds']:.2f}"


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
    parser.add_argument("--repeat", type=int, default=3, help="best of so many")
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
    print_table("size|writer|ms|peak extra MB|throughput / floor", writers)
    print_table("size|reader|ms|peak extra MB|of it anonymous|time / torch.load(mmap)", readers)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        action, kind, path, nbytes = sys.argv[2:]
        act = child_write if action == "write" else child_read
        print(json.dumps(act(kind, Path(path), int(nbytes))))
    else:
        main()
