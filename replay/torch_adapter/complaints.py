"""torch's text about a graph break, split into its parts. The text is torch's; nothing is added."""

from __future__ import annotations

from collections.abc import Sequence

from replay.findings.explanation import GraphBreak
from replay.recording import UserFrame

_PARTS = ("Explanation:", "Hint:", "Developer debug context:")
"""How torch (from 2.7 on) begins the parts of its text; the first line is its name for the kind."""

_ENDS = ("For more details about this graph break", "from user code:", "Set TORCHDYNAMO_VERBOSE")
"""What comes after the parts."""


def describe_break(
    reason: str, stack: Sequence[UserFrame], *, kind: str | None = None, whole_frame: bool = False
) -> GraphBreak:
    """A graph break from torch's text; parts that the text does not have stay empty."""
    lines = reason.strip().splitlines()
    found: list[tuple[str, list[str]]] = []
    for line in lines[1:]:
        text = line.strip()
        if text.startswith(_ENDS):
            break
        part = next((one for one in _PARTS if text.startswith(one)), None)
        if part is not None:
            found.append((part, [text.removeprefix(part).strip()]))
        elif found and text:
            found[-1][1].append(text)
    parts = [(name, " ".join(words)) for name, words in found]
    return GraphBreak(
        reason=reason,
        kind=kind or (lines[0].strip() if lines else ""),
        explanation=" ".join(text for name, text in parts if name == _PARTS[0]),
        hints=tuple(text for name, text in parts if name == _PARTS[1]),
        context=" ".join(text for name, text in parts if name == _PARTS[2]),
        stack=tuple(stack),
        whole_frame=whole_frame,
    )
