"""In what two bundles differ: frame, error, config, state, environment, inputs, values, texts. Nothing is loaded.

What differs from run to run of one program does not count: when a bundle was written and by which process, how long
something took, the states of random generators, torch's own lines of a traceback.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from replay.bundle import Bundle, to_plain
from replay.bundle.layout import VALUES
from replay.findings.differences import Changed, Differences, Section, TextChange
from replay.recording import InputInfo, Manifest

CONTEXT = 3
MOST_PAIRS = 4_000_000
"""Lines of one text times lines of the other, without what they begin and end with alike: more are not compared."""

_ABSENT: Any = object()
_PASSING = frozenset({"seconds", "started", "session", "thread", "generators", "traceback"})
"""What differs from run to run of one program."""


def differences(first: Bundle, second: Bundle) -> Differences:
    """In what the bundles differ. Raises BundleError where one is damaged."""
    one, other = _described(first.manifest), _described(second.manifest)
    one["inputs"], other["inputs"] = (
        _inputs(first.manifest, second.manifest),
        _inputs(second.manifest, first.manifest),
    )
    changes: list[Changed] = []
    for section in one:
        changes += _compare(section, one[section], other[section])
    return Differences(first.path, second.path, tuple(changes), tuple(_texts(first, second)))


def _described(manifest: Manifest) -> dict[Section, dict[str, Any]]:
    """The manifest by section, each a map of names to plain values."""
    plain = to_plain(manifest)
    frame = {**plain["frame"], "event": plain["event"], "reason": plain["reason"]}
    del frame["entry"]
    calls = [[call["compile_id"], call["reasons"], call["limit"]] for call in plain["calls"]]
    return {
        "frame": _flat(frame),
        "error": _flat({"difference": plain["difference"], **(plain["error"] or {})}),
        "compiled with": _flat({**plain["compile"], "earlier calls": calls}),
        "config": dict(plain["config"]),
        "state": _flat({**plain["state"], **plain["process"]}),
        "environment": _flat(plain["environment"]),
        "inputs": {},
        "values": _values(manifest, plain),
    }


def _inputs(manifest: Manifest, other: Manifest) -> dict[str, Any]:
    """What is to be compared of the inputs: of one that the other bundle has not, its summary."""
    known = {(one.name, one.role) for one in other.inputs}
    found: dict[str, Any] = {}
    for one in manifest.inputs:
        if (one.name, one.role) in known:
            found |= _flat({one.name: {"type": one.type, **_content(one, manifest)}})
        else:
            found[f"{one.role} {one.name}"] = one.summary
    return found


def _content(one: InputInfo, manifest: Manifest) -> dict[str, Any]:
    """What an input is: its summary, and of each of its tensors all but the keys that this bundle has for it."""
    specs = [to_plain(manifest.tensors[key]) for key in one.tensors if key in manifest.tensors]
    for spec in specs:
        for key in ("storage", "grad", "base"):
            spec[key] = spec[key] is not None
    tensors = {str(number): spec for number, spec in enumerate(specs)}
    return {"summary": one.summary, **(specs[0] if len(specs) == 1 else tensors)}


def _values(manifest: Manifest, plain: Mapping[str, Any]) -> dict[str, Any]:
    storages = {
        key: _content_of(manifest, spec.entry) or f"synthetic, {spec.length} bytes, seed {spec.seed}"
        for key, spec in manifest.storages.items()
    }
    return {
        **({"values.pkl": manifest.entries[VALUES].digest} if VALUES in manifest.entries else {}),
        **{f"storage {key}": what for key, what in storages.items()},
        **{f"missing {one['name']}": one["reason"] for one in plain["missing"]},
        **{f"left out {one['name']}": one["type"] for one in plain["left_out"]},
        "modules": list(plain["shipped"]),
    }


def _content_of(manifest: Manifest, entry: str | None) -> str:
    return "" if entry is None else manifest.entries[entry].digest


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Maps in maps as one, with dotted names; what only differs from run to run is left out."""
    found: dict[str, Any] = {}
    for key, item in value.items():
        name = f"{prefix}{key}"
        if key in _PASSING:
            continue
        if isinstance(item, Mapping):
            found |= _flat(item, f"{name}.")
        else:
            found[name] = item
    return found


def _compare(section: Section, one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[Changed]:
    for name in dict.fromkeys([*one, *other]):
        first, second = one.get(name, _ABSENT), other.get(name, _ABSENT)
        if first is _ABSENT:
            yield Changed(section, name, None, second, "second")
        elif second is _ABSENT:
            yield Changed(section, name, first, None, "first")
        elif first != second and repr(first) != repr(second):  # a NaN is itself here
            yield Changed(section, name, first, second)


def _texts(first: Bundle, second: Bundle) -> Iterator[TextChange]:
    """The files whose texts differ; a file that lies elsewhere in the other bundle is found by the end of its name."""
    pairs = _paired(list(first.manifest.sources), list(second.manifest.sources))
    for one, other in pairs:
        before = first.source_for(one) if one is not None else None
        after = second.source_for(other) if other is not None else None
        if before == after:
            continue
        if before is None or after is None:
            yield TextChange(one or other or "", (), "first" if after is None else "second")
        else:
            yield TextChange(one or "", _unified(before, after))


def _paired(ones: list[str], others: list[str]) -> list[tuple[str | None, str | None]]:
    pairs: list[tuple[str | None, str | None]] = [(name, name) for name in ones if name in others]
    left = [name for name in ones if name not in others]
    right = {name: None for name in others if name not in ones}
    for name in left:
        near = max(right, key=lambda other: _likeness(name, other), default=None)
        if near is not None and _likeness(name, near):
            del right[near]
            pairs.append((name, near))
        else:
            pairs.append((name, None))
    return pairs + [(None, name) for name in right]


def _likeness(one: str, other: str) -> int:
    """How many parts of the paths agree, from the end."""
    pairs = zip(
        reversed(one.replace("\\", "/").split("/")),
        reversed(other.replace("\\", "/").split("/")),
        strict=False,
    )
    return next(
        (number for number, (a, b) in enumerate(pairs) if a != b), min(one.count("/"), other.count("/")) + 1
    )


def _unified(before: str, after: str) -> tuple[str, ...]:
    one, other = before.splitlines(), after.splitlines()
    if len(_middle(one, other)) * len(_middle(other, one)) > MOST_PAIRS:
        return ()
    found = list(difflib.unified_diff(one, other, lineterm="", n=CONTEXT))
    return tuple(found[2:]) or ("(only the ends of lines differ)",)


def _middle(one: list[str], other: list[str]) -> list[str]:
    """The lines without those that both begin with, and those that both end with."""
    start, shorter = 0, min(len(one), len(other))
    while start < shorter and one[start] == other[start]:
        start += 1
    end = 0
    while end < shorter - start and one[-1 - end] == other[-1 - end]:
        end += 1
    return one[start : len(one) - end]
