"""How a frame came to the compiler, as values that travel. torch's ways in are in `torch_adapter.entries`."""

from __future__ import annotations

from typing import Any

from replay.torch_adapter import backward_nodes, hooks


def name(attempt: hooks.Attempt) -> str:
    """For the manifest: a word of `torch_adapter.entries.Name`."""
    if attempt.entry is not None:
        return attempt.entry.name
    captured = backward_nodes.is_captured(attempt.code, attempt.f_globals)
    return "compiled_autograd" if captured else "compile"


def entered(attempt: hooks.Attempt) -> dict[str, Any] | None:
    """What a replay needs to go the same way; None for the call of a compiled function."""
    entry = attempt.entry
    if entry is None:
        return None
    options = {key: value for key, value in entry.options.items() if key != "backend"}
    return {
        "name": entry.name,
        "subject": entry.subject,
        "arguments": entry.arguments,
        "options": options,
    }
