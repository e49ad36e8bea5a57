"""Small bundles for the tests of `replay.bundle`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from replay.bundle import BundleWriter
from replay.recording import CompileInfo, Environment, ErrorInfo, FrameInfo, Manifest, StorageSpec, UserFrame

FILE = "/home/ann/nets/block.py"
TEXT = "def forward(x):\n    return x.relu()  # größer als 0\n"
VALUES = b"\x80\x04N."
BLOB = bytes(range(256)) * 3

ENVIRONMENT = Environment(
    python="3.11.7",
    implementation="CPython",
    torch="2.9.0",
    triton=None,
    platform="Linux",
    machine="x86_64",
    cpu="",
    cpu_capability="AVX2",
    gpus=(),
    cuda=None,
    packages={"numpy": "2.0.0"},
    variables={},
)


def plain_manifest(**changes: Any) -> Manifest:
    """A manifest that refers to no entry."""
    manifest = Manifest(
        created="2025-11-20T12:00:00Z",
        writer="torch-replay 0.1.0",
        event="failure",
        frame=FrameInfo("forward", "forward", "nets.block", FILE, 1, 2, None, "source"),
        error=ErrorInfo(
            "builtins.ValueError",
            "no",
            "backend",
            "f1",
            (UserFrame(FILE, 2, "forward", "return x.relu()"),),
        ),
        compile=CompileInfo("inductor", "registered", options={"max_autotune": True}),
        environment=ENVIRONMENT,
        config={"dynamo.cache_size_limit": 1},
        state={"seeds": [1, b"\x00\xff", None]},
    )
    return dataclasses.replace(manifest, **changes)


def write_bundle(directory: Path, stem: str = "x", blobs: Mapping[str, bytes] | None = None) -> Path:
    """A whole bundle: a source, values, blobs."""
    blobs = {"s0": BLOB} if blobs is None else blobs
    with BundleWriter(directory, stem) as writer:
        source = writer.add_source(FILE, TEXT)
        writer.add_values(VALUES)
        entries = {key: writer.add_blob(key, len(data), [data]) for key, data in blobs.items()}
        frame = dataclasses.replace(plain_manifest().frame, entry=source)
        storages = {
            key: StorageSpec(len(data), 0, len(data), "cpu", entries[key]) for key, data in blobs.items()
        }
        return writer.commit(plain_manifest(frame=frame, sources={FILE: source}, storages=storages))
