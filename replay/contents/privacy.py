"""Everything that leaves the machine with a bundle, by kind and size; and what in it looks like a secret.

Reads manifest, sources and the opcodes of the values; loads nothing, and asks no network.
"""

from __future__ import annotations

import getpass
import re
import socket
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from replay import giveaways
from replay.bundle import Bundle
from replay.bundle.layout import VALUES
from replay.contents import secrets, texts
from replay.contents.texts import Text, ValuesRead
from replay.findings.privacy import Item, Kind, Leaving, Privacy
from replay.recording import Manifest

MOST = 200  # items of a kind
_PATH = re.compile(r"(?<![\w./<-])((?:/[\w.@+~-]+){2,}|[A-Za-z]:(?:\\{1,2}[\w.@+~ -]+){2,})")
_COMMENT = re.compile(r"^\s*#")
_LOCAL_ENOUGH = 3  # letters: a shorter user or host name would be found in any text


def privacy_of(bundle: Bundle) -> Privacy:
    """What leaves with the bundle. Raises BundleError where it is damaged."""
    read = ValuesRead()
    everything = [*texts.of_manifest(bundle), *texts.of_sources(bundle), *texts.of_values(bundle, read)]
    with secrets.detector() as look:
        found = secrets.found_in(everything, look)
    manifest = bundle.manifest
    kinds = [
        _sources(bundle),
        _tensors(manifest),
        _values(manifest, read),
        _error(manifest),
        _inputs(manifest),
        _paths(everything),
        _people(everything),
        _settings("variables", manifest.environment.variables.items()),
        _settings("settings", [*manifest.config.items(), *_state(manifest)]),
        _settings("packages", manifest.environment.packages.items()),
        _machine(manifest),
    ]
    return Privacy(
        bundle.path,
        bundle.size,
        tuple(_masked(one, found.raw) for one in kinds if one.items or one.size),
        tuple(found.secrets),
        secrets.detector_name(),
        tuple(_unread(read, found)),
        found.more,
    )


def _unread(read: ValuesRead, found: secrets.Found) -> Iterator[str]:
    if read.unread:
        yield read.unread
    if found.unread:
        yield f"secrets were looked for in the first {secrets.MOST_TEXT >> 20} million characters"


def _masked(leaving: Leaving, raw: Mapping[str, str]) -> Leaving:
    """The same without any secret that was found."""
    return replace(leaving, items=tuple(_masked_item(item, raw) for item in leaving.items))


def _masked_item(item: Item, raw: Mapping[str, str]) -> Item:
    name, detail = item.name, item.detail
    for secret, mask in raw.items():
        name, detail = name.replace(secret, mask), detail.replace(secret, mask)
    return Item(name, detail, item.size)


def _leaving(kind: Kind, summary: str, items: Iterable[Item]) -> Leaving:
    ordered = sorted(items, key=lambda item: (-item.size, item.name))
    size = sum(item.size for item in ordered)
    return Leaving(kind, summary, size, tuple(ordered[:MOST]), max(0, len(ordered) - MOST))


def _sources(bundle: Bundle) -> Leaving:
    items, comments = [], 0
    for file, entry in bundle.manifest.sources.items():
        lines = bundle.source(entry).splitlines()
        comments += sum(1 for line in lines if _COMMENT.match(line))
        items.append(Item(file, _count(len(lines), "line"), bundle.manifest.entries[entry].size))
    return _leaving(
        "sources", f"{_count(len(items), 'file')}, {_count(comments, 'line')} of comments alone", items
    )


def _tensors(manifest: Manifest) -> Leaving:
    real, made_up = [], 0
    for key, storage in manifest.storages.items():
        if storage.entry is None:
            made_up += 1
            continue
        names = {spec.storage: tensor for tensor, spec in manifest.tensors.items()}
        inputs = [one.name for one in manifest.inputs if names.get(key) in one.tensors]
        of = f" of {', '.join(inputs[:3])}" if inputs else ""
        real.append(Item(f"storage {key}", f"real values{of}", storage.length))
    return _leaving("tensors", f"{len(real)} with their real values, {made_up} as metadata alone", real)


def _values(manifest: Manifest, read: ValuesRead) -> Leaving:
    if VALUES not in manifest.entries:
        return Leaving("values", "none", 0)
    summary = f"{_count(read.texts, 'text')}, {_count(read.numbers, 'number')}, {read.data_size} bytes of byte strings"
    return _leaving("values", summary, [Item(VALUES, summary, manifest.entries[VALUES].size)])


def _error(manifest: Manifest) -> Leaving:
    error = manifest.error
    if error is None:
        return Leaving("error", "none", 0)
    items = [
        Item("message", _count(error.message.count("\n") + 1, "line"), len(error.message)),
        Item("traceback", _count(error.traceback.count("\n"), "line"), len(error.traceback)),
        *(Item(f"{one.file}:{one.line}", one.code, len(one.code)) for one in error.user_frames),
    ]
    return _leaving("error", "message, traceback and lines of code", [one for one in items if one.size])


def _inputs(manifest: Manifest) -> Leaving:
    calls = [*manifest.calls, *([manifest.sequence.last] if manifest.sequence is not None else ())]
    inputs = [*manifest.inputs, *(one for call in calls for one in call.inputs)]
    items = [Item(one.name, one.summary, len(one.summary)) for one in inputs]
    return _leaving(
        "inputs",
        f"what the manifest says of {_count(len(items), 'input')}, those of earlier calls too",
        items,
    )


def _paths(everything: Iterable[Text]) -> Leaving:
    """The directories that are named, each with how often."""
    found: Counter[str] = Counter()
    for text in everything:
        for match in _PATH.finditer(text.text[:100_000]):
            found[re.split(r"[/\\](?=[^/\\]*$)", match[1])[0]] += 1
    items = [Item(path, _times(count), len(path)) for path, count in found.items()]
    return _leaving("paths", _count(len(items), "directory", "directories"), items)


def _people(everything: Iterable[Text]) -> Leaving:
    """User names in paths, this machine's user and host, e-mail addresses."""
    found: Counter[tuple[str, str]] = Counter()
    local = list(_local_names())
    for text in everything:
        for match in giveaways.HOME.finditer(text.text):
            if match[1] != giveaways.NOBODY:
                found[match[1], "user name in a path"] += 1
        for match in giveaways.MAIL.finditer(text.text):
            found[match[0], "e-mail address"] += 1
        for name, what in local:
            if name in text.text:
                found[name, what] += 1
    items = [Item(name, f"{what}, {_times(count)}", len(name)) for (name, what), count in found.items()]
    return _leaving("people", _count(len(items), "name"), items)


def _local_names() -> Iterator[tuple[str, str]]:
    """The names by which this machine and its user are called, where they are long enough to be told from words."""
    host = socket.gethostname()
    if len(host) > _LOCAL_ENOUGH and host != "localhost":
        yield host, "this machine's host name"
    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):  # nobody, as in some containers
        return
    if len(user) > _LOCAL_ENOUGH and user != "root":
        yield user, "this machine's user name"


def _settings(kind: Kind, pairs: Iterable[tuple[str, object]]) -> Leaving:
    items = [Item(name, _short(value), _size(value)) for name, value in pairs]
    return _leaving(kind, _count(len(items), "entry", "entries"), items)


def _state(manifest: Manifest) -> Iterator[tuple[str, object]]:
    yield from manifest.state.items()
    yield from ((name, value) for name, value in manifest.process.items() if name != "session")


def _machine(manifest: Manifest) -> Leaving:
    found = manifest.environment
    rows = {
        "platform": found.platform,
        "cpu": found.cpu,
        "gpus": ", ".join(found.gpus),
        "python": found.python,
    }
    rows |= {"torch": found.torch, "recorded at": manifest.created}
    return _settings("machine", ((name, value) for name, value in rows.items() if value))


def _short(value: object) -> str:
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if isinstance(value, (dict, list, tuple)):
        return f"{len(value)} items" if len(str(value)) > 80 else str(value)
    return str(value)[:200]


def _size(value: object) -> int:
    if isinstance(value, (bytes, str)):
        return len(value)
    if isinstance(value, Mapping):
        return sum(len(str(key)) + _size(item) for key, item in value.items())
    return sum(map(_size, value)) if isinstance(value, (list, tuple)) else len(str(value))


def _count(number: int, word: str, words: str = "") -> str:
    return f"{number} {word if number == 1 else words or word + 's'}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
