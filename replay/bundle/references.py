"""A manifest's references: everything that it refers to must be there.

The writer asks before it publishes, the reader before it believes.
"""

from __future__ import annotations

from collections.abc import Iterator

from replay.bundle import layout
from replay.recording import Manifest


def find_broken_reference(manifest: Manifest) -> str | None:
    """The first thing that the manifest refers to and that is not there, as a sentence; None: all is."""
    return next(_broken(manifest), None)


def _broken(manifest: Manifest) -> Iterator[str]:
    entries = manifest.entries
    for file, entry in [*manifest.sources.items(), (manifest.frame.file, manifest.frame.entry)]:
        if entry is not None and (entry not in entries or not entry.startswith(layout.SOURCES)):
            yield f"the source of {file!r} should be {entry!r}, which is not there"
    for key, storage in manifest.storages.items():
        if not 0 <= storage.start <= storage.start + storage.length <= storage.nbytes:
            yield f"storage {key!r} has a window that is not inside it"
        if storage.entry is None:
            continue
        if storage.entry not in entries or not layout.is_blob(storage.entry):
            yield f"the bytes of storage {key!r} should be {storage.entry!r}, which is not there"
        elif entries[storage.entry].size != storage.length:
            yield f"storage {key!r} has {storage.length} bytes and its blob {entries[storage.entry].size}"
    for key in manifest.substitution.kept if manifest.substitution is not None else ():
        if key not in manifest.storages:
            yield f"storage {key!r} should have been kept, and is not there"
    for key, tensor in manifest.tensors.items():
        if tensor.storage is not None and tensor.storage not in manifest.storages:
            yield f"tensor {key!r} refers to storage {tensor.storage!r}, which is not there"
        if tensor.grad is not None and tensor.grad not in manifest.tensors:
            yield f"tensor {key!r} refers to gradient {tensor.grad!r}, which is not there"
