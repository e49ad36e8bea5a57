"""Hostile files by the thousand: `python tests/fuzz.py --count 100000 --seed 0`. No test; test_fuzz.py takes a part.

A file is a bundle that was damaged blindly, or forged: changed inside and signed again, so that what lies behind
the digests is reached. Looking at it (load, verify, inspect, --imports, --privacy, source, diff) must give a
BundleError or a correct read; nothing else may be raised, nothing may hang, take much memory or print a control
character.

Needs a Unix system: time and memory are limited by signals and rlimits.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import random
import re
import resource
import signal
import struct
import sys
import tempfile
import time
import traceback
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
from bundles import write_bundle

from replay.bundle import Bundle, layout, load
from replay.bundle.archive import Record, directory, end_records, local_header
from replay.contents.differences import differences
from replay.contents.imports import imports_of
from replay.contents.privacy import privacy_of
from replay.errors import BundleError
from replay.report.differences import draw_differences
from replay.report.imports import draw_imports
from replay.report.inspection import draw_inspection
from replay.report.plain import differences_json, imports_json, manifest_json, privacy_json
from replay.report.privacy import draw_privacy
from replay.report.sources import SourceRow, draw_source, draw_source_list

ROOT = Path(__file__).parent.parent
SECONDS = 20.0  # of processor time that one file may take
MEMORY = 3 << 30  # bytes of address space for the whole run
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

EVIL = "a\x1b[31mred\x1b]0;title\x07\x1b]8;;http://x\x07\u202ekcab\x9b2J\r\x00\ud800\u2028[bold]"
NUMBERS = (
    0,
    1,
    -1,
    2,
    63,
    64,
    65,
    127,
    128,
    255,
    256,
    65535,
    65536,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**32,
    2**63 - 1,
)
BIG = (*NUMBERS, 2**63, 2**64 - 1, -(2**63), 10**30)
NAMES = (
    *("", "/", "../x", "/etc/passwd", "a/../../x", "C:/x", "source/", "source/..", "blobs/", "a\\b", "con"),
    *(
        "source/x\x1b[2J.py",
        "source/x\n.py",
        "source/\u202ekcab",
        "blobs/x\x00",
        "manifest.msgpack",
        "README.txt",
    ),
    *("SOURCE/NETS/BLOCK.PY", "source/" + "x" * 2000, "values.pkl/x", "source/\u0041\u030a.py", "\ud800"),
)


class TooSlowError(BaseException):
    """A file took longer than SECONDS."""


class Finding(Exception):
    """Something that must not happen."""


@dataclass(frozen=True)
class Parts:
    """A bundle taken apart."""

    entries: tuple[tuple[str, bytes], ...]  # without the manifest
    manifest: Any  # plain
    data: bytes  # the whole file


def take_apart(path: Path) -> Parts:
    with load(path) as bundle:
        names = [name for name in bundle._records if name != layout.MANIFEST]
        entries = tuple((name, bundle._contents(name)) for name in names)
        manifest = msgspec.msgpack.decode(bundle._contents(layout.MANIFEST))
    return Parts(entries, manifest, path.read_bytes())


def forge(
    entries: list[tuple[str, bytes]],
    manifest: Any,
    *,
    packed: bytes | None = None,
    version: int = 1,
    bomb: bool = False,
    spoil: Callable[[list[Record]], list[Record]] = lambda records: records,
    resign: bool = True,
) -> bytes:
    """A file with these entries, framed and signed as replay does.

    `packed`: the manifest's bytes themselves. `bomb`: entries are deflated however much they shrink.
    """
    if resign and isinstance(manifest, dict):
        known = {name: {"size": len(data), "digest": layout.digest(name, data)} for name, data in entries}
        manifest = {**manifest, "entries": known}
    data = msgspec.msgpack.encode(manifest) if packed is None else packed
    out, records = io.BytesIO(), []
    for name, content in [*entries, (layout.MANIFEST, data)]:
        deflated = content if layout.is_blob(name) else _deflated(content)
        small = len(deflated) < len(content) and (bomb or len(content) <= layout.MAX_RATIO * len(deflated))
        stored = deflated if small and name != layout.README else content
        record = Record(
            name,
            stored is deflated and small,
            zlib.crc32(content),
            len(stored),
            len(content),
            out.tell(),
            layout.is_blob(name),
        )
        records.append(record)
        out.write(local_header(record) + stored)
    records = spoil(records)
    listing, offset = directory(records), out.tell()
    out.write(listing)
    out.write(end_records(len(records), len(listing), offset, layout.comment(version, data)))
    return out.getvalue()


def _deflated(content: bytes) -> bytes:
    packer = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
    return packer.compress(content) + packer.flush()


# --- damage that knows nothing of the format


def flip(random: random.Random, parts: Parts) -> bytes:
    data = bytearray(parts.data)
    for _ in range(random.choice((1, 1, 2, 5, 50))):
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    return bytes(data)


def cut(random: random.Random, parts: Parts) -> bytes:
    at = random.randrange(len(parts.data))
    return parts.data[:at] if random.random() < 0.7 else parts.data[at:]


def splice(random: random.Random, parts: Parts) -> bytes:
    data, a, b = parts.data, *sorted(random.randrange(len(parts.data)) for _ in range(2))
    piece = data[a:b][:4096]
    at = random.randrange(len(data))
    return random.choice(
        (data[:at] + piece + data[at:], data[:a] + data[b:], data[:at] + piece + data[at + len(piece) :])
    )


def overwrite(random: random.Random, parts: Parts) -> bytes:
    """Numbers of one to eight bytes, mostly in the headers and the directory, take odd values."""
    data = bytearray(parts.data)
    signatures = [m.start() for m in re.finditer(b"PK[\x01-\x07][\x02-\x08]", parts.data)]
    for _ in range(random.choice((1, 1, 2, 4))):
        at = (
            random.choice(signatures) + random.randrange(60)
            if random.random() < 0.8
            else random.randrange(len(data))
        )
        width = random.choice((1, 2, 4, 8))
        value = random.choice(NUMBERS) % (1 << 8 * width)
        data[at : at + width] = value.to_bytes(width, "little")
    return bytes(data)


# --- forgeries


def other_records(random: random.Random, parts: Parts) -> bytes:
    """Framing that is consistent with itself, and says something else of the entries."""

    def spoil(records: list[Record]) -> list[Record]:
        at = random.randrange(len(records))
        one = records[at]
        number = abs(random.choice(NUMBERS))
        changed = random.choice(
            (
                replace(one, name=_name(random)),
                replace(one, size=number),
                replace(one, packed=number),
                replace(one, offset=number),
                replace(one, crc=number % 2**32),
                replace(one, deflated=not one.deflated),
            )
        )
        choice = random.randrange(5)
        if choice == 0:
            return records + records
        if choice == 1:
            return records[:at] + records[at + 1 :]
        if choice == 2:
            return random.sample(records, len(records))
        return [*records[:at], changed, *records[at + 1 :]]

    return forge(list(parts.entries), parts.manifest, spoil=spoil)


def other_entries(random: random.Random, parts: Parts) -> bytes:
    """Entries with odd names or contents, rightly framed and signed."""
    entries = list(parts.entries)
    at = random.randrange(len(entries))
    name, data = entries[at]
    choice = random.randrange(6)
    if choice == 0:
        entries[at] = (_name(random), data)
    elif choice == 1:
        entries.append((_name(random), data))
    elif choice == 2:
        entries[at] = (
            name,
            bytes(random.choice((1, 100, 200_000, 17 << 20 if random.random() < 0.02 else 5))),
        )
    elif choice == 3:
        entries[at] = (name, _text(random).encode("utf-8", random.choice(("surrogatepass", "replace"))))
    elif choice == 4:
        entries += [(f"source/{n}.py", b"") for n in range(random.choice((1, 10, 3000)))]
    else:
        entries.pop(at)
    return forge(entries, parts.manifest, bomb=random.random() < 0.3)


def other_values(random: random.Random, parts: Parts) -> bytes:
    """Values whose opcodes are damaged, nested, endless."""
    entries = dict(parts.entries)
    data = bytearray(entries.get(layout.VALUES, b"\x80\x04N."))
    choice = random.randrange(6)
    if choice == 0 and len(data) > 2:
        for _ in range(random.choice((1, 3, 20))):
            data[random.randrange(len(data))] = random.randrange(256)
    elif choice == 1:
        data = bytearray(random.randbytes(random.choice((1, 30, 500))))
    elif choice == 2:
        data = bytearray(
            random.choice((b"]", b"(", b")\x85", b"N\x94", b"2", b"}]\x86")) * random.choice((10, 20_000))
        )
    elif choice == 3:
        at = random.randrange(len(data))
        piece = _global(random)
        data[at:at] = piece
    elif choice == 4:
        count = random.choice(BIG) % 2**64
        data = bytearray(random.choice((b"X", b"B", b"T", b"\x8b")) + struct.pack("<I", count % 2**32) + b"x")
        data += random.choice((b"\x8d", b"\x8e", b"\x96", b"\x95")) + struct.pack("<Q", count) + b"x."
    else:
        data = bytearray(b"".join(random.choice(_OPCODES) for _ in range(random.choice((3, 30, 300)))) + b".")
    entries[layout.VALUES] = bytes(data)
    return forge(list(entries.items()), parts.manifest)


def other_manifest(random: random.Random, parts: Parts) -> bytes:
    """A manifest with odd values anywhere in it, rightly packed and signed."""
    manifest = msgspec.msgpack.decode(msgspec.msgpack.encode(parts.manifest))
    for _ in range(random.choice((1, 1, 1, 2, 5))):
        holder, key = random.choice(list(_places(manifest)))
        holder[key] = _value(random)
    return forge(list(parts.entries), manifest, resign=random.random() < 0.8)


def other_packing(random: random.Random, parts: Parts) -> bytes:
    """A manifest whose MessagePack is damaged, deep or of absurd sizes; signed."""
    packed = bytearray(msgspec.msgpack.encode(parts.manifest))
    choice = random.randrange(5)
    if choice == 0:
        for _ in range(random.choice((1, 3, 20))):
            packed[random.randrange(len(packed))] = random.randrange(256)
    elif choice == 1:
        at = random.randrange(len(packed))
        head = random.choice((b"\xdd", b"\xdf", b"\xdb", b"\xc6", b"\xc9"))
        packed[at:at] = head + struct.pack(">I", random.choice((2**32 - 1, 2**31, 10**6, 3)))
    elif choice == 2:
        packed = bytearray(
            random.choice((b"\x91", b"\x81\xa1a", b"\xdc\x00\x01", b"\x81\x91")) * random.choice((70, 50_000))
        )
        packed += b"\xc0"
    elif choice == 3:
        at = packed.index(b"\xa5state") + 6
        packed[at:at] = b"\x81\xa1x" * random.choice((60, 70, 5_000)) + b"\xc0"
    else:
        packed = packed[: random.randrange(len(packed))]
    version = random.choice((1, 1, 1, 1, 0, 2, 9999))
    return forge(list(parts.entries), {}, packed=bytes(packed), version=version)


_WORDS = (
    b"os",
    b"system",
    b"builtins",
    b"eval",
    b"replay.shipping.others",
    b"rebuild",
    b"a.b",
    b"import_real",
)
_OPCODES = (*(bytes([n]) for n in range(256)), *(b"\x8c" + bytes([len(word)]) + word for word in _WORDS))


def _global(random: random.Random) -> bytes:
    words = [random.choice((*_WORDS, EVIL.encode("utf-8", "replace"))) for _ in range(2)]
    return b"".join(b"\x8c" + bytes([len(word) % 256]) + word for word in words) + b"\x93"


def _name(random: random.Random) -> str:
    name = random.choice(NAMES)
    name = random.choice(("", "source/", "blobs/")) + name if random.random() < 0.5 else name
    return name.encode("utf-8", "replace").decode()


def _text(random: random.Random) -> str:
    return random.choice((EVIL, "", "\x00" * 100, "x" * 70_000, "\n" * 5_000, "def f(:\n\t\\", "\u202e" * 9))


def _value(random: random.Random) -> Any:
    deep: Any = None
    for _ in range(random.choice((1, 3, 63, 200))):
        deep = random.choice(([deep], {"a": deep}))
    text = _text(random).encode("utf-8", "replace").decode()
    numbers = (True, float("nan"), float("inf"), -0.0, 1e308, *(n for n in BIG if -(2**63) <= n < 2**64))
    return random.choice((None, text, b"\xff" * 9, [], {}, deep, {text: text}, [text] * 50, *numbers))


def _places(plain: Any) -> Iterator[tuple[Any, Any]]:
    items = plain.items() if isinstance(plain, dict) else enumerate(plain) if isinstance(plain, list) else ()
    for key, item in list(items):
        yield plain, key
        yield from _places(item)


BLIND = {"flip": flip, "cut": cut, "splice": splice, "overwrite": overwrite}
FORGED = {
    "records": other_records,
    "entries": other_entries,
    "values": other_values,
    "manifest": other_manifest,
    "packing": other_packing,
}
KINDS = {**BLIND, **FORGED}


# --- what must hold


def content(bundle: Bundle) -> tuple[Any, ...]:
    """All that the bundle gives."""
    bundle.verify()
    entries = bundle.manifest.entries
    return (
        bundle.manifest,
        bundle.values() if layout.VALUES in entries else None,
        [bundle.source(name) for name in entries if name.startswith(layout.SOURCES)],
        [bytes(bundle.blob(name)) for name in entries if layout.is_blob(name)],
    )


def look(path: Path, reference: Bundle, *, secrets: bool = False) -> str:
    """All ways to look at a file: what would be printed, together. `secrets`: --privacy too, which takes longest."""
    stream = io.StringIO()
    with load(path) as bundle:
        content(bundle)
        draw_inspection(bundle, stream)
        stream.write(manifest_json(bundle.manifest, path=bundle.path, size=bundle.size))
        imports = imports_of(bundle)
        draw_imports(imports, stream)
        stream.write(imports_json(imports))
        found = differences(reference, bundle)
        draw_differences(found, stream)
        stream.write(differences_json(found))
        sources = bundle.manifest.sources
        rows = [SourceRow(name, entry, 1, 1, frame=False) for name, entry in sources.items()]
        draw_source_list(bundle.path, rows, stream)
        for entry in list(sources.values())[:3]:
            draw_source(bundle.source(entry), stream)
        if secrets:
            leaving = privacy_of(bundle)
            draw_privacy(leaving, stream)
            stream.write(privacy_json(leaving))
    return stream.getvalue().replace("\t", "")


def judge(data: bytes, kind: str, path: Path, parts: Parts, reference: Bundle, secrets: bool = False) -> str:
    """`read` or `refused`. Raises Finding for anything else that comes of looking at the file."""
    path.write_bytes(data)
    try:
        with limited():
            text = look(path, reference, secrets=secrets)
    except BundleError as error:
        message = str(error)
        if not message.startswith(f"{path}: ") or message.count("\n") > 1:
            raise Finding(f"an odd message: {message[:200]!r}") from error
        return "refused"
    except TooSlowError:
        raise Finding(f"took more than {SECONDS:g} seconds") from None
    if found := CONTROLS.search(text):
        raise Finding(f"prints {found.group()!r} in {text[max(0, found.start() - 40) : found.end()]!r}")
    if kind in BLIND and not _equal(path, parts):
        raise Finding("a damaged file was read as something else")
    return "read"


def _equal(path: Path, parts: Parts) -> bool:
    whole = path.with_name("whole.rec")
    whole.write_bytes(parts.data)
    with load(path) as one, load(whole) as other:
        return content(one) == content(other)


@contextmanager
def limited() -> Iterator[None]:
    """Ends what takes too long with a TooSlowError."""

    def stop(signum: int, frame: Any) -> None:
        raise TooSlowError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@dataclass
class Campaign:
    """Counts of what came of each kind, and what must not have come."""

    outcomes: Counter[tuple[str, str]]
    findings: list[tuple[int, str, str]]
    slowest: float = 0.0


def seeds(folder: Path) -> list[Path]:
    """The bundles that are damaged: an invented one, and small real ones."""
    real = [
        ROOT / "recordings" / f"{name}.rec"
        for name in ("module_with_parameters", "run_time_index", "recompile_attribute")
    ]
    return [write_bundle(folder, "seed", blobs={"a": b"", "b": bytes(range(70))}), *real]


def campaign(
    count: int,
    seed: int,
    folder: Path,
    *,
    first: int = 0,
    keep: Path | None = None,
    heard: Callable[[int], None] = lambda n: None,
    each: int = 20,
) -> Campaign:
    """Make and judge `count` files; each depends on `seed` and its number alone. --privacy looks at one in `each`."""
    paths = seeds(folder)
    known = [take_apart(path) for path in paths]
    found = Campaign(Counter(), [])
    path = folder / "fuzzed.rec"
    with load(paths[0]) as reference:
        for number in range(first, first + count):
            chance = random.Random(f"{seed}/{number}")
            kind = chance.choice(list(KINDS))
            parts = chance.choice(known)
            begun = time.perf_counter()
            data = KINDS[kind](chance, parts)
            try:
                outcome = judge(data, kind, path, parts, reference, number % each == 0)
            except Exception:
                outcome = "FINDING"
                found.findings.append((number, kind, traceback.format_exc()))
                if keep is not None:
                    keep.mkdir(exist_ok=True, parents=True)
                    keep.joinpath(f"{seed}-{number}-{kind}.rec").write_bytes(data)
            found.slowest = max(found.slowest, time.perf_counter() - begun)
            found.outcomes[kind, outcome] += 1
            heard(number)
    return found


def main() -> int:
    """Run a campaign and print its figures; 1 if something must be mended."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--count", type=int, default=10_000)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--first", type=int, default=0, help="the number of the first file")
    options.add_argument("--each", type=int, default=20, help="--privacy looks at one file in so many")
    options.add_argument("--keep", type=Path, help="a folder for the files of findings")
    given = options.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    begun = time.monotonic()

    def heard(number: int) -> None:
        done = number - given.first + 1
        if done % 1000 == 0:
            print(f"{done} files, {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory() as folder:
        found = campaign(
            given.count,
            given.seed,
            Path(folder),
            first=given.first,
            keep=given.keep,
            heard=heard,
            each=given.each,
        )
    report(found, given.count, time.monotonic() - begun)
    return 1 if found.findings else 0


def report(found: Campaign, count: int, seconds: float) -> None:
    """Print the figures."""
    print(f"{count} files in {seconds:.0f} s; the slowest took {found.slowest:.2f} s")
    print(f"at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MB of memory")
    for kind in KINDS:
        row = {outcome: number for (one, outcome), number in sorted(found.outcomes.items()) if one == kind}
        print(f"  {kind:10}" + "".join(f"  {outcome} {number}" for outcome, number in row.items()))
    for number, kind, trace in found.findings[:20]:
        print(f"\nfile {number} ({kind}):\n{trace}")
    print(f"{len(found.findings)} findings; digest of the outcomes: {_digest(found)}")


def _digest(found: Campaign) -> str:
    return hashlib.sha256(repr(sorted(found.outcomes.items())).encode()).hexdigest()[:12]


if __name__ == "__main__":
    sys.exit(main())
