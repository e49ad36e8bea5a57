"""From the calls of a sequence to the causes behind them: what differs, in which calls, with which values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from replay.findings.recompiles import Call, Cause, CauseGroup, Difference
from replay.recompilation import sentences
from replay.recording import UserFrame

Key = tuple[Cause, str, "int | None"]
"""What makes differences one cause: its kind, what differs, and of a size the dimension."""


@dataclass(slots=True)
class _Gathered:
    """One cause, while the calls are gone through."""

    calls: list[int] = field(default_factory=list)
    sole: list[int] = field(default_factory=list)
    values: dict[str, None] = field(default_factory=dict)  # in their order
    guards: dict[str, None] = field(default_factory=dict)
    place: UserFrame | None = None


CODE = ".__code__"
"""How torch's expression for the code of a function ends."""
ID = "___check_obj_id("
"""How torch asks for one object."""


def key_of(one: Difference) -> Key:
    """Which cause a difference belongs to."""
    return one.cause, one.source, one.dimension


def group(calls: Sequence[Call]) -> tuple[CauseGroup, ...]:
    """The causes, that behind most calls first."""
    gathered: dict[Key, _Gathered] = {}
    for call in calls:
        for key, one in _met(call):
            kept = gathered.setdefault(key, _Gathered())
            kept.values |= dict.fromkeys(text for text in (one.expected, one.seen) if text)
            kept.guards |= {one.guard: None}
            kept.place = kept.place or one.place
        for keys in _nearest(call):
            for key in keys:
                kept = gathered[key]
                kept.calls += [call.number] if call.number not in kept.calls else []
                kept.sole += [call.number] if len(keys) == 1 and call.number not in kept.sole else []
    ordered = sorted(
        gathered.items(), key=lambda item: (-len(item[1].sole), -len(item[1].calls), item[1].calls)
    )
    return tuple(_made(key, one) for key, one in ordered if one.calls)


def _met(call: Call) -> Iterator[tuple[Key, Difference]]:
    """What a call differed in, from the oldest entry on: the first value that is told is what was compiled first."""
    for refusal in reversed(call.refusals):
        for one in roots(refusal.differences):
            yield key_of(one), one


def _nearest(call: Call) -> list[set[Key]]:
    """What stood between the call and the entries that it came nearest to: those with the fewest differences.

    What else differs from older entries did not send it to the compiler: another entry has that already.
    """
    met = [{key_of(one) for one in roots(each.differences)} for each in call.refusals]
    least = min((len(keys) for keys in met if keys), default=0)
    return [keys for keys in met if keys and len(keys) == least]


def roots(differences: Sequence[Difference]) -> list[Difference]:
    """Differences that follow from no other.

    Another object, or one of another type, differs in what it holds, too; another function in its defaults and its
    closure.
    """
    types = [one.source for one in differences if one.cause == "type"]
    objects = [*types, *(one.source for one in differences if one.guard.startswith(ID))]
    functions = [one.source.removesuffix(CODE) for one in differences if one.source.endswith(CODE)]
    return [
        one
        for one in differences
        if not any(_is_below(one.source, source) for source in objects)
        and not (one.source in types and one.cause != "type")
        and (one.source.endswith(CODE) or not any(_is_below(one.source, source) for source in functions))
    ]


def _is_below(source: str, other: str) -> bool:
    return source != other and source.startswith((f"{other}.", f"{other}["))


def _made(key: Key, one: _Gathered) -> CauseGroup:
    made = CauseGroup(*key, tuple(one.calls), tuple(one.sole), tuple(one.values), one.place)
    return replace(made, sentence=sentences.sentence(made, tuple(one.guards)))
