"""Changes to try on a recorded sequence, as data, and several of them at once. Pure; what is proposed: `proposing`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from replay.findings.recompiles import Cause
from replay.recompilation.sources import parse, show
from replay.recording import Manifest, Outcome

TOLD = "{told}"
"""In a change: what the instrument tells of the first call, a dtype for example."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change to try."""

    name: str
    cause: Cause | None  # None: of the whole
    source: str
    change: str  # what a user writes
    caveat: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)  # of `replay.run`
    steps: tuple[Mapping[str, Any], ...] = ()  # of the instrument
    must_agree: bool = (
        False  # worth nothing unless every call is known to give what the uncompiled frame gives
    )
    trades: bool = False  # calls that run uncompiled for fewer compilations


@dataclass(frozen=True, slots=True)
class Setting:
    """What proposals depend on, of the recording and of what was chosen for every replay."""

    function: str
    dynamic: bool | None = None
    config: Mapping[str, Any] = field(default_factory=dict)  # that was set: {"dynamo.specialize_int": True}
    limit: str = ""  # that was hit, by its name in torch._dynamo.config
    counted: bool = False  # the calls after a limit was hit are known
    state: tuple[str, ...] = ()  # global state that differs between the calls, by name
    undo_dynamic: bool = False  # the recording's own `dynamic` can be left out


def setting_of(manifest: Manifest, options: Mapping[str, Any], plain: Outcome | None = None) -> Setting:
    """The setting of a recorded sequence under the chosen options; `plain`: the replay under these, if it was made."""
    sequence = manifest.sequence
    infos = (*manifest.calls, *((sequence.last,) if sequence is not None else ()))
    traffic = None if sequence is None else sequence.traffic
    chosen = options.get("dynamic")
    hit = [one.limit for one in (infos if plain is None else plain.calls) if one.limit]
    return Setting(
        function=manifest.frame.name,
        dynamic=manifest.compile.dynamic if chosen is None else chosen,
        config={**manifest.config, **(options.get("config") or {})},
        limit=hit[0] if hit else "",
        counted=traffic is not None,
        state=tuple(dict.fromkeys(name for one in infos for name in one.state)),
        undo_dynamic=chosen is None and manifest.compile.dynamic is not None,
    )


def in_turn(proposals: Sequence[Sequence[Proposal]]) -> Iterator[Proposal]:
    """The first of each cause, then the second of each, and so on."""
    for row in itertools.zip_longest(*proposals):
        yield from (one for one in row if one is not None)


def key(one: Proposal) -> str:
    """Proposals with one key do the same."""
    return repr((sorted(one.options.items(), key=repr), one.steps))


def distinct(proposals: Iterator[Proposal] | Sequence[Proposal]) -> list[Proposal]:
    """Each once. One that is proposed for several places is a remedy of the whole."""
    found: dict[str, Proposal] = {}
    for one in proposals:
        known = found.setdefault(key(one), one)
        if (known.cause, known.source) != (one.cause, one.source):
            found[key(one)] = replace(known, cause=None, source="")
    return list(found.values())


def joined(parts: Sequence[Proposal]) -> Proposal:
    """Several proposals at once."""
    options: Mapping[str, Any] = {}
    for one in parts:
        options = merged(options, one.options)
    places = (parse(one.source) for one in parts)
    return Proposal(
        " + ".join(dict.fromkeys(one.name for one in parts)),
        None,
        ", ".join(dict.fromkeys(show(place) for place in places if place is not None)),
        "\n".join(dict.fromkeys(one.change for one in parts)),
        "; ".join(dict.fromkeys(one.caveat for one in parts if one.caveat)),
        options,
        tuple(step for one in parts for step in one.steps),
        any(one.must_agree for one in parts),
    )


def merged(options: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Options of `replay.run` and others over them; configs and what is left out add up."""
    found = {**options, **more}
    for name in ("config", "env"):
        if options.get(name) and more.get(name):
            found[name] = {**options[name], **more[name]}
    if options.get("without") and more.get("without"):
        found["without"] = tuple(dict.fromkeys((*options["without"], *more["without"])))
    return found
