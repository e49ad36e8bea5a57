"""Whether a failure survives that values were made up, and that things were left out.

The bundle is written as the policy wants it, replayed in a child process, and written again with more in it
until the failure comes back. There is a readable bundle under its name from the first writing on; each
later one takes its place in one step. The child is a process of its own: to compile a frame again inside the
compiler's hook would run the compiler inside itself. What goes into a bundle is decided in `capture`.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from replay.bundle import Published
from replay.errors import BundleError
from replay.recording import LeftOut, Manifest, Outcome, StorageSpec, Substitution, made_up
from replay.replayer import run
from replay.torch_adapter import environment
from replay.torch_adapter.tensors import RUN_BUDGET

CHECKED = ("failure", "accuracy")
"""Events whose bundles are checked. Others are no failures, or many: a child for each would cost too much."""
CAP = 1 << 30
"""Bytes of real values that a bundle gets at most because its failure needs them."""
PENDING = Substitution(None, None, "the recording process ended before the check did")

_NO_MEMORY = (
    "OutOfMemory",
    "OutOfMemoryError",
)  # what `replay.run` says of a child that was stopped; torch's

log = logging.getLogger("replay")


@dataclass(frozen=True, slots=True)
class Content:
    """How much goes into a bundle."""

    pruned: bool = True  # without what the frame's code cannot reach
    budget: int | None = None  # bytes of real values; None: what the policy keeps by itself


@dataclass(frozen=True, slots=True)
class Written:
    """A bundle on the disk, and what is made up or left out in it."""

    file: Published
    function: str
    tensors: int  # with made-up values
    nbytes: int  # of their storages
    left_out: tuple[LeftOut, ...]
    substitution: Substitution | None

    @classmethod
    def of(cls, file: Published, manifest: Manifest) -> Written:
        """What a manifest says."""
        invented = made_up(manifest.storages)
        return cls(
            file=file,
            function=manifest.frame.name,
            tensors=sum(spec.storage in invented for spec in manifest.tensors.values()),
            nbytes=sum(invented.values()),
            left_out=manifest.left_out,
            substitution=manifest.substitution,
        )


class Write(Protocol):
    """Writes the failure's bundle; `found` is what its manifest says of the check."""

    def __call__(
        self, content: Content, found: Substitution | None, instead_of: Published | None, /
    ) -> Written:
        """What is on the disk then."""


def stated(
    found: Substitution | None,
    storages: Mapping[str, StorageSpec],
    left_out: tuple[LeftOut, ...],
    kept: tuple[str, ...],
) -> Substitution | None:
    """What a manifest says of the check: nothing where nothing is made up or left out, and never was."""
    if found is None or (found.survived is not False and not made_up(storages) and not left_out):
        return None
    return replace(found, kept=kept)


Check = Callable[[], Path]
"""Checks a bundle while its frame is alive; writes it again with more in it until the failure survives. Its path."""


def begin(write: Write, *, values_matter: bool, warn: Callable[[str], None]) -> tuple[Path, Check | None]:
    """Write the bundle as the policy wants it; its path, and the check that is to follow where one is due.

    `values_matter`: the policy has kept real values up to RUN_BUDGET already. `warn` is told what the user can
    act on.
    """
    seconds = environment.check_seconds()
    if seconds is None:
        warn(f"replay: the variable {environment.CHECK} is no number of seconds; it is not heeded")
        seconds = environment.CHECK_SECONDS
    off = replace(PENDING, reason=f"the check is off ({environment.CHECK}=0)")
    first = write(Content(), PENDING if seconds else off, None)
    if not seconds or first.substitution is None:
        return first.file.path, None

    def check() -> Path:
        checked = _Check(write, first, time.monotonic(), seconds)
        try:
            checked.run(values_matter=values_matter)
        except BundleError as error:
            warn(f"replay could not write the checked bundle again, the first one stays: {error}")
        checked.tell(warn)
        return checked.last.file.path

    return first.file.path, check


class _Check:
    """One bundle that is being checked, and written again."""

    def __init__(self, write: Write, first: Written, started: float, seconds: float) -> None:
        self.last, self._write = first, write
        self._started, self._seconds = started, seconds
        self._content = Content()
        self._found = PENDING
        self._first_reason = ""

    def run(self, *, values_matter: bool) -> None:
        """Climb: the first content from which the failure comes back is kept, else the fullest."""
        _say(f"replay: checking that {_subject(self.last)} ...")
        verdict, reason, lacks = self._replayed()
        self._first_reason = reason
        self._found = replace(PENDING, survived=verdict, reproduces=verdict, reason=reason)
        for content in self._contents(values_matter=values_matter, lacks=lacks):
            if self._found.reproduces is not False:
                break
            self._found = replace(self._found, whole=not content.pruned, reproduces=None)
            self._put(content)
            _say(f"replay: it did not come back ({reason}); checking {self._described()} ...")
            verdict, reason, _ = self._replayed()
            self._found = replace(self._found, reproduces=verdict, reason=self._reason(verdict, reason))
        self._found = replace(self._found, seconds=round(time.monotonic() - self._started, 3))
        self._put(self._content)

    def tell(self, warn: Callable[[str], None]) -> None:
        """What a user should know, or can act on."""
        found, path = self._found, self.last.file.path
        if found.survived is False and found.reproduces:
            _say(f"replay: the failure comes back from {path}, which now holds {self._described()}")
        elif found.reproduces is False:
            warn(
                f"replay: {self.last.function!r} did not fail in a fresh process as it did here "
                f"({found.reason}), not even with {self._described()}; see what {path} lacks: "
                f"python -m replay inspect {path}"
            )
        elif found.reason.startswith("no answer"):
            warn(
                f"replay: not known whether {path} reproduces the failure without its values: {found.reason}; "
                f'record with tensors="full", or allow more time with {environment.CHECK}=SECONDS'
            )

    def _contents(self, *, values_matter: bool, lacks: bool) -> Iterator[Content]:
        """More and more, as far as there is more; `lacks`: the replay asked for what was left out."""
        was_pruned = bool(self.last.left_out)
        if lacks:
            yield Content(pruned=False)
        for pruned in (False,) if lacks else (True, False) if was_pruned else (True,):
            for budget in (CAP,) if values_matter and pruned else (RUN_BUDGET, CAP):
                if self.last.nbytes or (self._content.pruned and not pruned):
                    yield Content(pruned, budget)

    def _put(self, content: Content) -> None:
        self.last = self._write(content, self._found, self.last.file)
        self._content = content

    def _reason(self, verdict: bool | None, reason: str) -> str:
        """Of what came back at first, where the failure came back in the end; else of the last replay."""
        return self._first_reason if verdict else reason

    def _described(self) -> str:
        real = self.last.substitution.kept if self.last.substitution is not None else ()
        parts = [f"the values of {_count(len(real), 'more storage')}"] if real else []
        parts += [] if self._content.pruned else ["all that the frame refers to"]
        return " and ".join(parts) or "what it has"

    def _replayed(self) -> tuple[bool | None, str, bool]:
        """Whether the failure comes back, why not, and whether something left out was asked for."""
        left = self._seconds - (time.monotonic() - self._started)
        if left < 1:
            return None, f"no answer within {self._seconds:g} s", False
        try:
            outcome = run(
                self.last.file.path, timeout=left, env=environment.alone(), trust=self.last.file.is_there()
            )
        except Exception as error:  # noqa: BLE001 - no child, no memory for one, a bundle that was moved away
            timed_out = "nothing was compiled yet" in str(error)
            return None, f"no answer within {left:g} s" if timed_out else _first_line(error), False
        names = {one.name for one in self.last.left_out}
        return judge(outcome, names)


def judge(outcome: Outcome, left_out: set[str]) -> tuple[bool | None, str, bool]:
    """Whether the failure came back, why not or why it is not known, whether something left out was asked for."""
    if outcome.status == "reproduced":
        return True, "", False
    if outcome.status == "missing":
        asked = [one.name for one in outcome.missing if one.name in left_out]
        if asked:
            return False, f"it asked for {asked[0]}, which was left out", True
        return None, f"missing: {', '.join(one.name for one in outcome.missing[:3])}", False
    error, recorded = outcome.error, outcome.recorded_error
    kind = error.type.rpartition(".")[2] if error is not None else ""
    if error is not None and kind == "Timeout":
        return None, f"no answer: {error.message}", False
    same = recorded is not None and recorded.type.endswith(kind)
    if error is not None and not same and (kind in _NO_MEMORY or "out of memory" in error.message):
        return None, f"no memory for a second process: {kind}", False
    text = f"{outcome.status}: {kind}: {_short(error.message)}" if error is not None else outcome.status
    return False, text, False


def _subject(written: Written) -> str:
    size = f"{written.nbytes / 1e6:.1f} MB"
    parts = [f"without the values of {_count(written.tensors, 'tensor')} ({size})"] if written.nbytes else []
    parts += (
        [f"without {_count(len(written.left_out), 'thing')} that it cannot reach"] if written.left_out else []
    )
    return f"the failure of {written.function!r} survives {' and '.join(parts)}"


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {_short(str(error))}"


def _short(text: str) -> str:
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return first if len(first) <= 200 else first[:199] + "…"


def _say(message: str) -> None:
    with contextlib.suppress(Exception):  # standard error may be closed
        log.warning(message)
