"""The `.rec` file: layout, write, read, verify, upgrade. docs/bundle-format.md specifies it.

archive      the ZIP framing: headers, directory, end, exactly as replay writes them
layout       entries' names, limits, digests
manifest     `Manifest` <-> MessagePack, format versions and upgrades
references   is everything there that a manifest refers to?
publishing   a file that appears under its name when it is complete
writer       BundleWriter
reader       load, Bundle
rewriting    a bundle once more, with another manifest
recognition  what a file is that is not a bundle

A bundle's values are opaque bytes here: nothing unpickles them, and nothing imports torch.
"""

from replay.bundle.manifest import FORMAT, LEDGER, to_plain
from replay.bundle.publishing import Published
from replay.bundle.reader import Bundle, load
from replay.bundle.rewriting import rewritten
from replay.bundle.writer import BundleWriter

__all__ = ["FORMAT", "LEDGER", "Bundle", "BundleWriter", "Published", "load", "rewritten", "to_plain"]
