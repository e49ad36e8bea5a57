"""The manifest's bytes: MessagePack to `Manifest` and back, format versions, upgrades.

The archive around it, digests and files live elsewhere. Nothing here runs code from a bundle.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import msgspec

from replay import plain as plain_data
from replay.errors import BundleError, FormatVersionError
from replay.recording import Manifest

FORMAT = 1
"""The version that this `replay` writes."""


@dataclass(frozen=True, slots=True)
class Change:
    """One line of the ledger."""

    format: int
    release: str  # the first torch-replay that writes it
    what: str


LEDGER = (Change(1, "0.1.0", "the first format"),)
"""What changed with each version. A version is never reused, and its upgrade step is never removed.

The version grows when an older `replay` would misread the file: a field changes its meaning or goes, a closed
set of words (`Stage`, `Event`, ...) gets a new one, the framing changes. A new field with a default does not
count: readers ignore fields that they do not know.
"""

SEAL = 64
"""Characters of a seal: 32 bytes in hexadecimal."""

MAX_DEPTH = 64
"""Containers in containers; what nests deeper could not be read on a short stack."""

Plain = dict[str, Any]
UPGRADES: Mapping[int, Callable[[Plain], Plain]] = {}
"""Format -> the step that turns such a manifest into one of the next format."""


class _Head(msgspec.Struct):
    format: int


def to_plain(value: Any) -> Any:
    r"""`value`, a dataclass of `replay.recording` or part of one, in dicts, lists and scalars.

    Bytes stay bytes: JSON has no word for them, so its writer decides. Characters that UTF-8 cannot hold
    (lone surrogates, from undecodable file names) become escapes such as `\udc80`. Raises TypeError or
    ValueError, with the path to the value, for what has no place in a manifest.
    """
    return _plain(value, "", 0)


def _plain(value: Any, path: str, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise ValueError(f"{path[:200]}: nested more than {MAX_DEPTH} deep")
    if value is None or isinstance(value, bool | bytes):
        return value
    if isinstance(value, str):
        return plain_text(value)
    if isinstance(value, int):
        if not -(1 << 63) <= value < 1 << 64:
            raise ValueError(f"{path}: an integer of more than 64 bits has no place in a manifest")
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, list | tuple):
        return [_plain(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(value)]
    if isinstance(value, Mapping):
        return {_plain_key(key, path): _plain(v, f"{path}[{key!r}]", depth + 1) for key, v in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        dot = path and path + "."
        return {f.name: _plain(getattr(value, f.name), dot + f.name, depth + 1) for f in fields(value)}
    raise TypeError(f"{path or 'value'}: a {type(value).__qualname__} has no place in a manifest")


def _plain_key(key: Any, path: str) -> str | int:
    if isinstance(key, str):
        return plain_text(key)
    if isinstance(key, int):
        return int(_plain(key, path, 0))
    raise TypeError(f"{path}: a {type(key).__qualname__} cannot be a key in a manifest")


def plain_text(text: str) -> str:
    """`text` with what UTF-8 cannot hold escaped; most strings come back as they are."""
    return text.encode("utf-8", "backslashreplace").decode()


def encode(manifest: Manifest, sign: Callable[[bytes], str] | None = None) -> bytes:
    """The bytes of `manifest.msgpack`. Raises as `to_plain`.

    `sign`: gives the seal, SEAL characters, for a digest of all that goes before it. A seal that the manifest had in
    another file is left out: it would be wrong here.
    """
    plain = {"format": FORMAT, **to_plain(manifest)}
    plain.pop("seal")
    if sign is None:
        return msgspec.msgpack.encode({**plain, "seal": ""})
    data = msgspec.msgpack.encode({**plain, "seal": "0" * SEAL})[:-SEAL]
    seal = sign(hashlib.sha256(data).digest()).encode("ascii")
    if len(seal) != SEAL:
        raise ValueError(f"a seal has {SEAL} characters, not {len(seal)}")
    return data + seal


def sealed(data: bytes, manifest: Manifest) -> bytes:
    """The digest that the seal of a manifest with these bytes is for; empty where it has none at its end."""
    seal = manifest.seal.encode()
    return hashlib.sha256(data[:-SEAL]).digest() if len(seal) == SEAL and data.endswith(seal) else b""


def decode(
    data: bytes,
    version: int,
    path: str,
    *,
    current: int = FORMAT,
    upgrades: Mapping[int, Callable[[Plain], Plain]] = UPGRADES,
) -> Manifest:
    """The manifest of any format up to `current`, upgraded step by step.

    `version` is what the archive's comment says; the manifest must agree. `path` is for messages.

    Sequences in `Any` fields come back as lists. Fields that this version does not know are ignored. Raises
    FormatVersionError for a newer format, BundleError for anything else that is wrong.
    """
    try:
        check_format(version, path, current)
        if plain_data.from_bytes(data, _Head).format != version:
            raise ValueError("it is of another format than the archive says")
        if version == current:
            return _checked(plain_data.from_bytes(data, Manifest))
        plain = plain_data.from_bytes(data, dict[str, Any])
        for step in range(version, current):
            plain = upgrades[step](plain)
        return _checked(plain_data.from_plain(plain, Manifest))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TypeError, ValueError) as error:
        raise BundleError(f"{path}: the manifest cannot be read ({error}); record again") from error


def _checked(manifest: Manifest) -> Manifest:
    """The manifest, if none of its free fields nests deeper than the writer lets it; else a ValueError."""
    for name, depth, value in _free(manifest):
        if _reaches_below(value, MAX_DEPTH - depth):
            raise ValueError(f"{name} is nested more than {MAX_DEPTH} deep")
    return manifest


def _free(manifest: Manifest) -> Iterator[tuple[str, int, Any]]:
    """The fields whose content no type bounds, each with the depth at which it lies."""
    sequence = manifest.sequence
    traffic = sequence.traffic if sequence is not None else None
    yield "config", 1, manifest.config
    yield "state", 1, manifest.state
    yield "process", 1, manifest.process
    yield "options", 2, manifest.compile.options
    for call in [*manifest.calls, *([sequence.last] if sequence is not None else ())]:
        yield "state", 3, call.state
    for one in traffic.signatures if traffic is not None else ():
        yield "positional", 5, one.positional
        yield "keywords", 5, one.keywords


def _reaches_below(value: Any, limit: int) -> bool:
    """Whether anything lies more than `limit` containers deep in it; not recursive, as it may be deep."""
    level = [value]
    for _ in range(limit + 1):
        level = [item for one in level for item in _items(one)]
        if not level:
            return False
    return True


def _items(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, (list, tuple)) else ()


def check_format(version: int, path: str, current: int = FORMAT) -> None:
    """Raises FormatVersionError for a version after `current`, BundleError for one that never was."""
    if version > current:
        raise FormatVersionError(
            f"{path}: the bundle has format {version}, and this torch-replay reads formats up to {current}; "
            "upgrade it: pip install --upgrade torch-replay"
        )
    if version < 1 and version != current:
        raise BundleError(f"{path}: there is no format {version}; the file is damaged, get it again")
