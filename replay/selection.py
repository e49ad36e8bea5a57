"""Function-name patterns, as `record(only=...)` and `--function` read them. No torch, no files."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from dataclasses import dataclass
from types import CodeType

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
        several = (patterns,) if isinstance(patterns, (str, re.Pattern)) else tuple(patterns)
        for pattern in several:
            if not isinstance(pattern, (str, re.Pattern)) or not pattern:
                raise UsageError(
                    f"function pattern {pattern!r}: must be a name, a glob or a compiled regular expression"
                )
        return cls(several)

    def matches(self, name: str, qualified: str) -> bool:
        """Whether a function is meant; `qualified` may be the plain name on Python 3.10."""
        return not self.patterns or any(_matches(pattern, name, qualified) for pattern in self.patterns)

    def matches_code(self, code: CodeType) -> bool:
        """Whether a code object is meant; a resume function counts as the function that it resumes."""
        qualified = str(getattr(code, "co_qualname", code.co_name))
        name = code.co_name
        resumed = resumed_function(name)
        if resumed is not None:
            name, qualified = resumed, resumed
        return self.matches(name, qualified) or self.matches(code.co_name, code.co_name)

    def __str__(self) -> str:
        return ", ".join(p if isinstance(p, str) else f"/{p.pattern}/" for p in self.patterns)


_RESUME = re.compile(r"^torch_dynamo_resume_in_(.+?)_at_\d+$")


def resumed_function(name: str) -> str | None:
    """The function that a resume function of Dynamo continues; None for other names."""
    match = _RESUME.match(name)
    if match is None:
        return None
    return resumed_function(match[1]) or match[1]


def _matches(pattern: Pattern, name: str, qualified: str) -> bool:
    if isinstance(pattern, str):
        return fnmatch.fnmatchcase(name, pattern) or fnmatch.fnmatchcase(qualified, pattern)
    return pattern.search(qualified) is not None
