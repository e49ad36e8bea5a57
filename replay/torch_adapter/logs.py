"""torch's logs: what there is, whether a spec names it, and switching it on for a while.

A spec is what TORCH_LOGS takes: "+dynamo,graph_breaks". torch reads the variable when it is imported, and raises a page
of text for a wrong one; here torch is imported without it, the spec is checked, and then set.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from replay.errors import UsageError
from replay.torch_adapter import features

VARIABLE = "TORCH_LOGS"

_WORD = re.compile(r"[+-]?[A-Za-z_][\w.]*")


@dataclass(frozen=True, slots=True)
class Log:
    """One name that a spec may hold."""

    name: str
    what: str  # the logger's module, or what the artifact is, in torch's words; may be empty
    artifact: bool  # printed or not; else a logger, that has levels
    usual: bool  # in torch's short list


def available() -> list[Log]:
    """Every name that torch has registered: loggers, then artifacts."""
    registry = _registry()
    loggers = dict(features.require(registry, "log_alias_to_log_qnames"))
    described = dict(features.require(registry, "artifact_descriptions"))
    usual = features.require(registry, "visible_artifacts")
    return [
        *(Log(name, _modules(names), False, True) for name, names in sorted(loggers.items())),
        *(Log(name, text or "", True, name in usual) for name, text in sorted(described.items())),
    ]


@contextmanager
def shown(spec: str | None) -> Iterator[None]:
    """Log to stderr as the spec says, in place of what TORCH_LOGS says; afterwards as before. None: change nothing.

    Raises UsageError for a name that this torch does not know.
    """
    if spec is None:
        yield
        return
    spec = check(spec)
    logging = _internal()
    before, variable = features.require(logging, "_get_log_state")(), os.environ.get(VARIABLE)
    start = features.require(logging, "_init_logs")
    os.environ[VARIABLE] = spec  # also for the processes that compile
    try:
        start()
        yield
    finally:
        _put_back(variable)
        features.require(logging, "_set_log_state")(before)
        start()


def check(spec: str) -> str:
    """The spec without blanks, which torch does not take everywhere. UsageError, in one line, for a wrong one."""
    words = [word.strip() for word in spec.split(",")]
    names = ["all", *(one.name for one in available())]
    for word in words:
        name = word.lstrip("+-")
        if not _WORD.fullmatch(word) or (name not in names and not _is_module(name)):
            near = difflib.get_close_matches(name, names, n=3)
            hint = f"did you mean {' or '.join(near)}?" if near else "--logs help lists them"
            raise UsageError(f"--logs {word!r}: torch has no log of that name; {hint}")
    try:
        features.require(_internal(), "_parse_log_settings")(",".join(words))
    except ValueError:
        raise UsageError(
            f"--logs {spec!r}: torch does not take it; --logs help lists what it takes"
        ) from None
    return ",".join(words)


def _is_module(name: str) -> bool:
    from importlib.util import find_spec

    try:
        return find_spec(name) is not None
    except (ImportError, ValueError, AttributeError):
        return False


def _modules(names: Any) -> str:
    return names if isinstance(names, str) else ", ".join(names)


def _put_back(variable: str | None) -> None:
    os.environ.pop(VARIABLE, None)
    if variable is not None:
        os.environ[VARIABLE] = variable


def _internal() -> Any:
    return features.module("torch._logging._internal")


def _registry() -> Any:
    features.module("torch._dynamo")  # its modules register the artifacts
    return features.require(_internal(), "log_registry")
