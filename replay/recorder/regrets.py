"""What people regret to have sent: a bundle that was just written is looked through for its cheapest signs.

Keys of well-known forms in texts and values, environment variables with secret-like names, many bytes of real tensors.
`inspect --privacy` shows all; here nothing slow is imported, and nothing of this runs while no bundle is written.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from replay import giveaways
from replay.bundle import Bundle, load
from replay.bundle.layout import SOURCES, VALUES

LARGE = 16 << 20
"""Bytes of real tensors' values from which on they are told: more than a person sends without thinking."""


def regrets_of(path: Path) -> str:
    """One sentence that names them and the commands that show and remove them; empty where there are none.

    Raises BundleError where the bundle cannot be read.
    """
    with load(path) as bundle:
        found = list(_signs(bundle))
    if not found:
        return ""
    shown = shlex.quote(str(path))
    return (
        f"{path} holds what you may not want to send: {'; '.join(found)}. All of it: "
        f"python -m replay inspect --privacy {shown}; with less in it: python -m replay strip {shown} (a key that the "
        "program's text holds stays there: take it out and record again)"
    )


def _signs(bundle: Bundle) -> Iterator[str]:
    tokens: Counter[str] = Counter()
    for entry in bundle.manifest.entries:
        if entry == VALUES:
            tokens.update(giveaways.tokens_in(bundle.values()))
        elif entry.startswith(SOURCES):
            tokens.update(giveaways.tokens_in(bundle.source(entry).encode()))
    variables = bundle.manifest.environment.variables
    tokens.update(giveaways.tokens_in("\n".join(variables.values()).encode("utf-8", "replace")))
    if tokens:
        yield "what looks like a key (" + ", ".join(sorted(tokens)) + ")"
    if names := giveaways.secret_names(variables):
        yield "environment variables with secret-like names (" + ", ".join(names) + ")"
    real = sum(one.length for one in bundle.manifest.storages.values() if one.entry is not None)
    if real >= LARGE:
        yield f"{real >> 20} MB of real tensor values"
