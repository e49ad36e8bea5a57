"""Frozen data: the settings of a recording by name, and which of them its failure needs.

Only plain values live here. What a name means to a replay is decided in `replay.replayer.settings`; which settings
are needed is found in `replay.ablation`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from replay.recording import Outcome


@dataclass(frozen=True, slots=True)
class Setting:
    """One thing that was recorded and that a replay can do without."""

    name: str  # "config.dynamo.capture_scalar_outputs", "compile.dynamic", "state.autocast", "env.X", "calls"
    recorded: Any  # plain data; of "calls" their number
    default: Any  # what it is without: torch's default here, or what this process begins with
    exact: bool = True  # False: `recorded` only describes an object of the program's


@dataclass(frozen=True, slots=True)
class Ablation:
    """Which of the recorded settings a failure needs.

    `outcome` is that of the replay with all of them. Unless its status is "reproduced", nothing else was tried.
    """

    bundle: str
    outcome: Outcome
    needed: tuple[
        Setting, ...
    ] = ()  # the failure comes with these alone, and without any one of them it does not
    not_needed: tuple[Setting, ...] = ()
    stable: bool = True  # False: with the same settings it came once and did not come once
    trials: int = 1  # replays that were made
    answers: Mapping[str, int] = field(
        default_factory=dict
    )  # how those without some settings ended: status -> number
    seconds: float = 0.0
    options: Mapping[str, Any] = field(
        default_factory=dict
    )  # that were chosen for every trial, as `run` takes them
    notes: tuple[str, ...] = ()  # what a reader should know

    @property
    def without(self) -> tuple[str, ...]:
        """What a replay with just the needed settings leaves out."""
        return (*self.options.get("without", ()), *(one.name for one in self.not_needed))
