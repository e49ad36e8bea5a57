"""Whether two failures are the same underneath, in whatever stage they came to light, whatever wraps them.

`replay.fingerprint` tells whether a failure is the recorded one in every respect. A frame that fails without
torch.compile fails elsewhere and in other words than in the compiler: here only the exception's type counts, with the
line of the program, or with what the message says.
"""

from __future__ import annotations

import re

from replay import fingerprint
from replay.recording import ErrorInfo, UserFrame

_OVER_FAKES = (
    re.compile(r"^(\w+) when making fake tensor call"),
    re.compile(r"with fake tensors.*?got (\w+)\(", re.DOTALL),
)
"""Where Dynamo tells which exception an operation raised (torch >= 2.11, and before)."""


_SPEAKS = re.compile(r"[^\W\d_]{3,}\W+[^\W\d_]{3,}")
"""Two words at least: "at 4:26:" could stand over anything."""


def alike(one: ErrorInfo | None, two: ErrorInfo | None) -> bool:
    """Whether the same exception came of the same line, or says the same where running code names no line.

    Of an operation that Dynamo ran over fake tensors the line alone counts: over real ones it may raise another type.
    """
    if one is None or two is None:
        return False
    places = [_plain(error.user_frames[-1]) for error in (one, two) if error.user_frames]
    together = len(places) == 2 and places[0] == places[1]
    if together and (of_operation(one) or of_operation(two)):
        return True
    if root_type(one) != root_type(two):
        return False
    return together or ("runtime" in (one.stage, two.stage) and _say_the_same(one, two))


def root_type(error: ErrorInfo) -> str:
    """The exception that the compiler wrapped, without its module: "RuntimeError"."""
    if of_operation(error):
        found = (pattern.search(error.message) for pattern in _OVER_FAKES)
        name = next((match[1] for match in found if match), None)
        if name is not None:
            return name
    return (error.inner_type or error.type).rpartition(".")[2]


def of_operation(error: ErrorInfo) -> bool:
    """Whether an operation of the program itself raised it while Dynamo ran it over fake tensors."""
    return error.type.endswith(".TorchRuntimeError")


def _plain(place: UserFrame) -> tuple[str, str, int]:
    # A line number moves with the file, its text does not; without a text the number is all there is.
    return place.function, place.code, 0 if place.code else place.line


def _say_the_same(one: ErrorInfo, two: ErrorInfo) -> bool:
    """Whether the messages begin with the same words, or one holds the whole of the other: compilers wrap and add."""
    first, second = sorted((_words(one), _words(two)), key=len)
    heads = {_words(error, lines=1) for error in (one, two)}
    return bool(first) and (first in second or (len(heads) == 1 and bool(_SPEAKS.search(heads.pop()))))


def _words(error: ErrorInfo, lines: int | None = None) -> str:
    """The message's first lines without numbers and addresses, and without the wrapped exception's name before them."""
    text = error.message.removeprefix(f"{root_type(error)}: ")
    kept = [line for line in text.splitlines() if line.strip()]
    return fingerprint.normalise("\n".join(kept[:lines]))
