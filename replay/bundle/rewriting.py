"""A bundle once more, with another manifest: every other entry stays what it is."""

from __future__ import annotations

from collections.abc import Callable

from replay.bundle import layout
from replay.bundle.publishing import Published
from replay.bundle.reader import Bundle
from replay.bundle.writer import BundleWriter
from replay.recording import Manifest


def rewritten(
    bundle: Bundle,
    manifest: Manifest,
    instead_of: Published,
    *,
    sign: Callable[[bytes], str] | None = None,
) -> Published:
    """Write `manifest` with the other entries of `bundle`, in the place of the file `instead_of`.

    `sign`: as `BundleWriter` takes it; without, the new file has no seal.

    Raises BundleError where the disk refuses or an entry is damaged, and ValueError if a source cannot keep its name.
    """
    with BundleWriter(instead_of.path.parent, instead_of.path.stem, sign=sign) as writer:
        for filename, entry in manifest.sources.items():
            if writer.add_source(filename, bundle.source(entry)) != entry:
                raise ValueError(f"{instead_of.path}: {entry!r} would get another name")
        if layout.VALUES in manifest.entries:
            writer.add_values(bundle.values())
        for entry, known in manifest.entries.items():
            if layout.is_blob(entry):
                writer.add_blob(entry.removeprefix(layout.BLOBS), known.size, [bundle.blob(entry)])
        return writer.publish(manifest, instead_of)
