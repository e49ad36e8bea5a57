"""Function-name patterns, as `record(only=...)` and `--function` read them. No torch, no files."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import cast

from replay import source
from replay.errors import UsageError

Pattern = str | re.Pattern[str]


@dataclass(frozen=True, slots=True)
class Selection:
    """Which functions are meant. No pattern: all of them.

    A string is a name (`forward`), a qualified name (`Block.forward`) or a glob of either (`Block.*`), and must
    match as a whole; a compiled regular expression is searched in the qualified name.
    """

    patterns: tuple[Pattern, ...] = ()

    @classmethod
    def of(cls, patterns: Pattern | Sequence[Pattern] | None) -> Selection:
        """From what a user gives: nothing, one pattern or several. UsageError for anything else."""
        if patterns is None:
            return cls()
        alone = isinstance(patterns, str) or not isinstance(patterns, Iterable)
        several = (patterns,) if alone else tuple(cast("Iterable[object]", patterns))
        for pattern in several:
            if not _is_pattern(pattern):
                raise UsageError(
                    f"function pattern {pattern!r}: must be a name, a glob or a compiled regular expression"
                )
        return cls(cast("tuple[Pattern, ...]", several))

    def matches(self, name: str, qualified: str) -> bool:
        """Whether a function is meant; `qualified` may be the plain name on Python 3.10."""
        return not self.patterns or any(_matches(pattern, name, qualified) for pattern in self.patterns)

    def matches_code(self, code: CodeType) -> bool:
        """Whether a code object is meant, as `matches_frame`."""
        if not self.patterns:
            return True  # without reading the text for a qualified name, as Python 3.10 needs to
        return self.matches_frame(code.co_name, source.qualified_name(code))

    def matches_frame(self, name: str, qualified: str) -> bool:
        """Whether a frame is meant; a resume function counts as the function that it resumes, too."""
        resumed = resumed_function(name)
        if resumed is None:
            return self.matches(name, qualified)
        return self.matches(resumed, qualified.removesuffix(name) + resumed) or self.matches(name, name)

    def __str__(self) -> str:
        return ", ".join(p if isinstance(p, str) else f"/{p.pattern}/" for p in self.patterns)


_RESUME = re.compile(r"^torch_dynamo_resume_in_(.+?)_at_\d+$")


def resumed_function(name: str) -> str | None:
    """The function that a resume function of Dynamo continues; None for other names."""
    match = _RESUME.match(name)
    if match is None:
        return None
    return resumed_function(match[1]) or match[1]


def _is_pattern(value: object) -> bool:
    if isinstance(value, re.Pattern):
        return isinstance(value.pattern, str)
    return isinstance(value, str) and bool(value)


def _matches(pattern: Pattern, name: str, qualified: str) -> bool:
    if isinstance(pattern, str):
        return fnmatch.fnmatchcase(name, pattern) or fnmatch.fnmatchcase(qualified, pattern)
    return pattern.search(qualified) is not None
