"""Frozen data: why a frame is compiled again and again, under which settings, and what helps. Plain values only.

The replaying process fills in the calls; causes, grid and remedies are found in `replay.recompilation`; reports and
JSON read all of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from replay.recording import Outcome, UserFrame

Cause = Literal[
    "integer",  # a plain int that changes
    "float",
    "boolean",
    "size",  # of a tensor: `Difference.dimension` says which dimension
    "stride",
    "rank",  # the number of a tensor's dimensions
    "dtype",
    "device",
    "requires_grad",
    "string",
    "attribute",  # of a module or another object that outlives the call
    "function",  # another function object
    "grad_mode",
    "global_state",  # autocast, determinism, number of threads, torch-function modes, ...
    "type",  # an object of another type
    "length",  # of a list, tuple, dict; or its keys
    "identity",  # another object where `id` is checked
    "other",
]
"""What differs."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One guard of one cached entry that a call did not pass."""

    cause: Cause
    guard: str  # the condition, in torch's words
    source: str  # what it is about: "L['x'].size()[0]"; of global state its name: "num_threads"
    expected: str  # what the entry was compiled for, as short text; empty where it is not known
    seen: str  # what the call brought
    dimension: int | None = None  # of a size or a stride
    place: UserFrame | None = None  # the line that made the guard necessary, where torch tells


@dataclass(frozen=True, slots=True)
class Refusal:
    """A cached entry, and every guard of it that the call did not pass."""

    compile_id: str  # the entry's: "0/1"
    call: int  # the number of the call that compiled it
    differences: tuple[Difference, ...]  # empty: not known, `note` says why
    note: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the sequence, in the replay."""

    number: int  # from 0
    fate: str  # "compiled", "hit", "uncompiled"
    compile_id: str = ""
    seconds: float = 0.0  # spent compiling
    limit: str = ""  # the limit that it hit
    refusals: tuple[Refusal, ...] = ()  # newest entry first; empty for a first compilation and for a hit
    error: str = ""  # what came out of the call
    recorded: str = ""  # what the recorded call did


@dataclass(frozen=True, slots=True)
class CauseGroup:
    """Recompilations with one cause: the same thing differs in all of them."""

    cause: Cause
    source: str  # what differs
    dimension: int | None
    calls: tuple[int, ...]  # numbers of the calls that it kept from the entries that they came nearest to
    sole: tuple[int, ...]  # those of them that nothing else kept from one of these entries
    values: tuple[
        str, ...
    ]  # that were seen, in the order of their first call; the first is what was compiled first
    place: UserFrame | None = None
    sentence: str = ""  # what happens, for people, one line


@dataclass(frozen=True, slots=True)
class Count:
    """What a repetition of the sequence came to."""

    compiles: int
    hits: int
    uncompiled: int  # calls that ran without compiled code: a limit was hit, or the stance says so
    errors: int  # calls that raised
    seconds: float  # spent compiling, all calls together


@dataclass(frozen=True, slots=True)
class Cell:
    """The sequence under one setting of the grid."""

    dynamic: bool | None  # None: automatic
    limit: int  # recompile_limit
    accumulated: int | None  # accumulated_recompile_limit; None: as recorded
    count: Count | None  # None: could not be replayed, `refused` says why
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Remedy:
    """A change that was tried on the sequence and that helped."""

    name: str  # "mark_dynamic", "dynamic=True", "hoist", ...
    cause: Cause | None  # whose remedy it is; None: of the whole
    source: str  # what it is applied to
    change: str  # what to write, as code: "torch._dynamo.mark_dynamic(x, 0)"
    before: Count
    after: Count
    caveat: str = ""  # what it costs, or when it does not hold
    same: bool | None = None  # whether every call gave what the uncompiled frame gives; None: not compared
    options: Mapping[str, Any] = field(default_factory=dict)  # with which `replay.run` shows it, where it can


@dataclass(frozen=True, slots=True)
class Recompiles:
    """Everything that was found out about a recorded sequence."""

    bundle: str
    function: str
    outcome: Outcome  # of the replay as recorded
    torch: str  # the version that replayed
    count: Count | None  # of the replay as recorded; None: it could not be made
    calls: tuple[Call, ...] = ()
    causes: tuple[CauseGroup, ...] = ()
    grid: tuple[Cell, ...] = ()
    remedies: tuple[Remedy, ...] = ()  # the best first
    tried: int = 0  # remedies that were tried
    notes: tuple[str, ...] = ()  # what a reader should know
    seconds: float = 0.0

    @property
    def again(self) -> tuple[Call, ...]:
        """The calls that came to the compiler although the frame was compiled before, in order."""
        seen = [one for one in self.calls if one.fate == "compiled" or one.limit or one.refusals]
        return tuple(seen[1:])
