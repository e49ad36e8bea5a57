"""All guards of a frame's cached entries that a call does not pass, not only the first of each.

Dynamo asks the guards of an entry in the order of a tree, and stops at the first that fails; so does what it logs. Here
the tree is walked to its end, and each guard is asked by itself. What an entry was compiled for is noted when it is
made: the guards know objects only by their addresses. What causes a difference is decided elsewhere.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from replay.recording import UserFrame
from replay.torch_adapter import calls, conditions, features, guard_trees, hooks, leaves
from replay.torch_adapter.patching import patched

FAILED = 200
"""Guards of one entry that are told, at most."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A cached entry that does not fit, and each guard that says so."""

    compile_id: str
    failed: tuple[leaves.Failed, ...]
    note: str = ""


@dataclass(slots=True)
class _Entry:
    """What is known of an entry from when it was compiled."""

    places: Mapping[str, UserFrame] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    manager: Any = None  # of its guards; only until the compilation has ended
    values: dict[str, guard_trees.Noted] = field(default_factory=dict)


class Book:
    """The cached entries of one code object, from the first that is compiled."""

    def __init__(self, code: CodeType) -> None:
        self.code = code
        self._entries: dict[str, _Entry] = {}

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Hear of the lines that made each guard necessary, while the code is compiled."""
        owner = features.require(features.module("torch._dynamo.guards"), "CheckFunctionManager")
        original = features.require(owner, "__init__")
        book = self

        @functools.wraps(original)
        def __init__(  # noqa: N807 - its name in tracebacks
            self: Any, f_code: CodeType, output_graph: Any, *args: Any, **kwargs: Any
        ) -> None:
            original(self, f_code, output_graph, *args, **kwargs)
            if f_code is book.code:
                book._entries[calls.compiling()] = _told(self, f_code, output_graph)

        with patched(owner, "__init__", __init__):
            yield

    def compiled(self, attempt: hooks.Attempt) -> None:
        """Note what the new entry was compiled for; the frame is still as before its first instruction."""
        kept = self._entries.get(attempt.compile_id or "")
        if kept is not None and kept.manager is not None:
            manager, kept.manager = kept.manager, None
            kept.values = guard_trees.noted(features.require(manager, "root"), _scope(manager, attempt))

    def refused(self, attempt: hooks.Attempt) -> tuple[Refused, ...]:
        """Each cached entry, the newest first, with what the call does not pass. Nothing is compiled yet."""
        return tuple(self._refused(entry, attempt) for entry in entries(self.code))

    def _refused(self, entry: Any, attempt: hooks.Attempt) -> Refused:
        compile_id, manager = _compile_id(entry), features.require(entry, "guard_manager")
        gone = getattr(manager, "invalidation_reason", None)
        if gone is not None:
            return Refused(compile_id, (), str(gone))
        asked = manager.check_verbose(attempt.f_locals)
        if asked.result:
            return Refused(
                compile_id, (), "its guards all hold: it is of another backend, or of another region"
            )
        known = self._entries.get(compile_id, _Entry())
        walk = leaves.Walk(_scope(manager, attempt), known.values, known.places, known.files)
        failed = list(walk.failed(manager.root))
        if not failed:
            failed = [walk.unparsed(part) for part in asked.verbose_code_parts]
        return Refused(compile_id, tuple(failed[:FAILED]), _note(walk, failed))


def entries(code: CodeType) -> list[Any]:
    """What Dynamo has compiled of a code object, the newest first."""
    eval_frame = features.module("torch._C._dynamo.eval_frame")
    found = features.require(eval_frame, "_debug_get_cache_entry_list")(code)
    return sorted(found, key=lambda one: int(_compile_id(one).rpartition("/")[2] or 0), reverse=True)


def _compile_id(entry: Any) -> str:
    return re.sub(r"^.*?(\d+/\d+).*$", r"\1", str(features.require(entry, "compile_id")))


def _scope(manager: Any, attempt: hooks.Attempt) -> dict[str, Any]:
    """The names in which torch writes its conditions."""
    return {**(manager.closure_vars or {}), "L": attempt.f_locals, "G": attempt.f_globals}


def _told(checked: Any, code: CodeType, output_graph: Any) -> _Entry:
    """The lines behind the guards that tracing asked for, and the guards."""
    noted = sorted(features.require(output_graph, "guards"))
    traced = getattr(getattr(output_graph, "tracing_context", None), "traced_code", None) or ()
    files = tuple(sorted({one.co_filename for one in (code, *traced)}))
    return _Entry(conditions.places(noted), files, features.require(checked, "guard_manager"))


def _note(walk: leaves.Walk, failed: list[leaves.Failed]) -> str:
    notes = []
    if len(failed) > FAILED:
        notes.append(f"{len(failed) - FAILED} more guards fail")
    if walk.unread:
        notes.append(f"not asked, because reading it would run code: {', '.join(walk.unread[:3])}")
    return "; ".join(notes)
