"""Frozen data: all calls of a frame that was compiled more than once, counted. Nothing here counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

CallFate = Literal["compiled", "limit", "hit", "uncompiled", "unknown"]
"""What became of a call. `limit`: it hit the recompile limit; `unknown`: a hit or uncompiled, of a frame that
has code from before the block, or code without a graph."""


@dataclass(frozen=True, slots=True)
class SignatureInfo:
    """The arguments of calls that cannot be told apart: metadata of tensors, values of plain ones.

    An argument is an array that begins with its kind: ["tensor", shape, stride, dtype, device, requires_grad],
    ["plain", value], ["list", items], ..., or ["other", type] for what only its type is known of.
    """

    positional: tuple[Any, ...]
    keywords: Mapping[str, Any] = field(default_factory=dict)
    grad_enabled: bool = True


@dataclass(frozen=True, slots=True)
class CallKind:
    """Calls of one signature and one fate."""

    signature: int | None  # which of TrafficInfo.signatures; None: one of those that are not kept
    fate: CallFate
    compile_id: str  # of the code that ran, or that was compiled; empty where none was
    count: int


@dataclass(frozen=True, slots=True)
class TrafficInfo:
    """All calls of a frame in the block. The first signatures and the first runs are kept whole, the rest counted."""

    signatures: tuple[SignatureInfo, ...]
    kinds: tuple[CallKind, ...]
    runs: tuple[tuple[int, int], ...]  # the order: which kind, and how many calls of it in a row
    later: int = 0  # calls after the last of these runs
