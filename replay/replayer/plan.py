"""Which calls the repetition of a sequence makes, in which order, with which arguments.

Calls that came to the compiler have theirs in the bundle's values. Of calls that were only counted, with
`record(calls=True)`, the arguments are made of what the manifest tells; what it does not is taken from the call
that compiled the code. Of equal calls in a row one is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from replay.recording import CallKind, SignatureInfo, TrafficInfo
from replay.replayer.preparation import Prepared
from replay.torch_adapter import calls

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
COMPILER = ("compiled", "limit")
"""What a recorded call did if it came to the compiler."""


@dataclass(frozen=True, slots=True)
class Planned:
    """One call: what the recorded one did, what was otherwise then, and how its arguments are made."""

    recorded: str
    call: Mapping[str, Any]
    arguments: Callable[[], Arguments]


def of(prepared: Prepared) -> list[Planned]:
    """All calls, in the order of the recording; the last that came to the compiler is the bundle's own."""
    manifest = prepared.task.manifest
    assert manifest.sequence is not None
    infos = (*manifest.calls, manifest.sequence.last)
    own = {"before": {}, "state": {}, "grad": infos[-1].grad_enabled, "arguments": _own(prepared)}
    compiling = [
        Planned("limit" if info.limit else "compiled", call, _given(call["arguments"]))
        for info, call in zip(infos, (*prepared.root["calls"], own), strict=True)
    ]
    traffic = manifest.sequence.traffic
    if traffic is None:
        return compiling
    known = {info.compile_id: one for info, one in zip(infos, compiling, strict=True)}
    return _merged(compiling, list(_counted(prepared, traffic, known)))


def _own(prepared: Prepared) -> Arguments:
    return prepared.positional, prepared.keywords


def _given(arguments: Arguments) -> Callable[[], Arguments]:
    return lambda: arguments


def _counted(prepared: Prepared, traffic: TrafficInfo, known: Mapping[str, Planned]) -> Iterator[Planned]:
    """The runs of the recording; a call that came to the compiler is the one of its compile id."""
    last = list(known.values())[-1]
    for number, _ in traffic.runs:
        kind = traffic.kinds[number]
        if kind.fate in COMPILER:
            if kind.compile_id in known:
                yield known[kind.compile_id]
        elif kind.signature is not None:
            yield _like(prepared, kind, traffic.signatures[kind.signature], known.get(kind.compile_id, last))


def _like(prepared: Prepared, kind: CallKind, told: SignatureInfo, base: Planned) -> Planned:
    def arguments() -> Arguments:
        positional, keywords = base.arguments()
        return (
            tuple(_made(prepared, one, positional, at) for at, one in enumerate(told.positional)),
            {name: _made(prepared, one, keywords, name) for name, one in told.keywords.items()},
        )

    return Planned(kind.fate, {**base.call, "grad": told.grad_enabled}, arguments)


def _made(prepared: Prepared, told: Sequence[Any], base: Any, key: Any) -> Any:
    try:
        other = base[key]
    except LookupError:  # more arguments than the call that compiled the code had
        other = None
    return calls.again(told, prepared.task.device, other)


def _merged(compiling: Sequence[Planned], counted: Sequence[Planned]) -> list[Planned]:
    """The counted calls, with those that came to the compiler before and after what was counted."""
    found = [one for one in counted if one.recorded in COMPILER]
    if [one for one in compiling if any(one is other for other in found)] != found:
        return [*compiling]  # the compiler was reset meanwhile: the counted calls are of other code
    first = len(compiling) if not found else next(at for at, one in enumerate(compiling) if one is found[0])
    rest = first + len(found) if found else len(compiling)
    return [*compiling[:first], *counted, *compiling[rest:]]
