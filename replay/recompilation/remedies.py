"""Remedies, tried on the recorded sequence: what measurably helps is found, all else is dropped.

First what is proposed for each cause alone, the causes with the most calls first; then the best of each cause together,
or this at once where no cause ever is the only one; at last, where nothing helped, what lets calls run uncompiled.
Nothing here prints.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from replay.bundle import Bundle
from replay.findings.recompiles import CauseGroup, Count, Remedy
from replay.recompilation.counting import count
from replay.recompilation.proposals import (
    TOLD,
    Proposal,
    Setting,
    distinct,
    in_turn,
    joined,
    key,
    merged,
    setting_of,
)
from replay.recompilation.proposing import propose, propose_limit, propose_stance
from replay.recording import Outcome
from replay.replayer import Trial, Trials
from replay.selection import resumed_function

INSTRUMENT = "remedy"
MOST = 20
"""Proposals that are tried alone, at most."""
TOGETHER = 8
"""Causes whose best proposals are tried together, at most."""

Heard = Callable[[int, int], None]
"""Told how many trials have ended, and of how many."""


_NOTHING = Proposal("", None, "", "")


@dataclass(frozen=True, slots=True)
class _Tried:
    """A proposal, and what the sequence came to with it."""

    proposal: Proposal
    parts: tuple[Proposal, ...]
    count: Count
    compiles: int  # of all functions: those with which the frame goes on after a graph break count too
    breaks: int
    same: bool | None
    told: Sequence[str]  # for each step


def prove(
    bundle: Bundle,
    trials: Trials,
    causes: Sequence[CauseGroup],
    before: Count,
    *,
    options: Mapping[str, Any] | None = None,
    heard: Heard | None = None,
    plain: Outcome | None = None,
) -> tuple[tuple[Remedy, ...], int]:
    """The remedies that help, best first, and how many were tried.

    `before`: the sequence under `options` (as `replay.run` takes them) without any remedy; `plain`: the outcome of
    that replay, if it is at hand, else it is made once more. A remedy helps if fewer calls compile or fewer run
    uncompiled, no more calls raise, no graph break is new, and no call is known to give something else than the
    uncompiled frame does. Seconds are of trials side by side; where they are to be exact, give `trials` one job.
    """
    search = _Search(trials, before, options or {}, heard or (lambda ended, of: None))
    return search.run(causes, setting_of(bundle.manifest, options or {}, plain), plain)


class _Search:
    """One search: what every trial is asked, and what is known by now."""

    def __init__(self, trials: Trials, before: Count, options: Mapping[str, Any], heard: Heard) -> None:
        self.trials, self.before, self.heard = trials, before, heard
        self.options = {name: value for name, value in options.items() if value not in (None, (), {})}
        self.ended = self.asked = self.tried = 0
        self.plain: _Tried | None = None
        self._certain: set[str] = set()  # proposals for causes that stand in the way whatever else is done

    def run(
        self, causes: Sequence[CauseGroup], setting: Setting, plain: Outcome | None
    ) -> tuple[tuple[Remedy, ...], int]:
        """All rounds."""
        ordered = sorted(causes, key=lambda one: -len(one.calls))
        alone = [*propose_limit(setting, self.before)]
        alone += distinct(in_turn([propose(one, setting) for one in ordered]))
        if plain is not None:
            self.plain = _read(_NOTHING, (), Trial(outcome=plain))
        whole = self._firsts(ordered[:TOGETHER], setting)
        if whole:
            alone = [one for one in alone if one.cause is None]
        found = self._believed([*whole, *self._singles(alone[:MOST])])
        helping = [one for one in found if self._helps(one)]
        if not whole:
            helping += self._together(ordered, setting, found, helping)
        if not helping:
            helping += [one for one in self._try([propose_stance()]) if self._helps(one)]
        ranked = sorted(helping, key=_rank)
        return tuple(self._remedy(one) for one in ranked), self.tried

    def _firsts(self, causes: Sequence[CauseGroup], setting: Setting) -> list[_Tried]:
        """The first proposal for each cause at once, where no cause alone makes any call compile; empty: no success."""
        if len(causes) < 2 or any(one.sole for one in causes) or self.plain is None:
            return []
        firsts = [next(iter(propose(one, setting)), None) for one in causes]
        parts = distinct([one for one in firsts if one is not None])
        if len(parts) < 2:
            return []
        return [one for one in self._try_parts([parts]) if self._helps(one) and one.compiles <= 1]

    def _singles(self, proposals: Sequence[Proposal]) -> list[_Tried]:
        if self.plain is not None:
            return self._try(proposals)
        found = self._try([_NOTHING, *proposals])
        self.tried -= 1
        if found and found[0].proposal is _NOTHING:
            self.plain = found.pop(0)
        return found

    def _believed(self, found: list[_Tried]) -> list[_Tried]:
        """Where the frame gives something else without any remedy too, a difference says nothing of a remedy."""
        if all(one.same is not False for one in found) or any(one.same for one in found):
            return found
        if self.plain is None or self.plain.same is None:
            again = self._try([_NOTHING])
            self.tried -= 1
            self.plain = again[0] if again else self.plain
        return [self._judged(one) for one in found]

    def _judged(self, one: _Tried) -> _Tried:
        differs = self.plain is not None and self.plain.same is False
        return replace(one, same=None) if differs and one.same is False else one

    def _together(
        self,
        causes: Sequence[CauseGroup],
        setting: Setting,
        found: Sequence[_Tried],
        helping: Sequence[_Tried],
    ) -> list[_Tried]:
        """The best of each cause at once, less the parts that make no difference."""
        best = min(helping, key=_rank, default=None)
        if best is not None and best.compiles <= 1 and not best.count.uncompiled and best.proposal.cause:
            return []
        parts = self._best_of_each(causes[:TOGETHER], setting, found)
        if len(parts) < 2:
            return []
        whole = self._try_parts([parts])
        if not whole or not self._helps(whole[0]) or (best is not None and not _better(whole[0], best)):
            return []
        doubtful = [one for one in parts if key(one) not in self._certain]
        return [self._reduced(whole[0], doubtful) if len(parts) > 2 and doubtful else whole[0]]

    def _best_of_each(
        self, causes: Sequence[CauseGroup], setting: Setting, found: Sequence[_Tried]
    ) -> list[Proposal]:
        parts: list[Proposal] = []
        for group in causes:
            keys = {key(one) for one in propose(group, setting)}
            fit = [one for one in found if one.proposal.cause and key(one.proposal) in keys]
            fit = [one for one in fit if self._is_sound(one)]
            if fit:
                parts.append(min(fit, key=_rank).proposal)
                if len(set(group.values)) > len(group.calls):  # each of the calls brought a new value
                    self._certain.add(key(parts[-1]))
        return distinct(parts)

    def _reduced(self, whole: _Tried, doubtful: Sequence[Proposal]) -> _Tried:
        """Without the parts that it does as well without."""
        parts = whole.parts
        fewer = self._try_parts([[one for one in parts if one is not left] for left in doubtful])
        enough = [one for one in fewer if self._helps(one) and not _better(whole, one)]
        kept = [one for one in parts if all(one in other.parts for other in enough)]
        if len(kept) in (0, len(parts)):
            return min(enough, key=_rank, default=whole)
        again = [one for one in enough if list(one.parts) == kept] or self._try_parts([kept])
        return again[0] if again and self._helps(again[0]) and not _better(whole, again[0]) else whole

    def _try_parts(self, sets: Sequence[Sequence[Proposal]]) -> list[_Tried]:
        return self._try([joined(parts) for parts in sets], [tuple(parts) for parts in sets])

    def _try(
        self, proposals: Sequence[Proposal], parts: Sequence[tuple[Proposal, ...]] | None = None
    ) -> list[_Tried]:
        """Replay the sequence with each; those whose trial gave no answer, or that cannot be applied, are left out."""
        self.asked += len(proposals)
        self.tried += len(proposals)

        def ended(position: int, trial: Trial) -> None:
            self.ended += 1
            self.heard(self.ended, self.asked)

        done = self.trials.run([self._trial(one) for one in proposals], ended)
        made = parts or [(one,) for one in proposals]
        read = (_read(*one) for one in zip(proposals, made, done, strict=True))
        return [self._judged(one) for one in read if one is not None]

    def _trial(self, proposal: Proposal) -> Trial:
        loose = any(step["act"] in ("cast", "number") for step in proposal.steps)
        asked = {"steps": list(proposal.steps), "compare": True, "loose": loose}
        return Trial(options=merged(self.options, proposal.options), instruments={INSTRUMENT: asked})

    def _is_sound(self, one: _Tried) -> bool:
        """Whether it does no harm: no new errors or graph breaks, and no other results."""
        allowed = 0 if self.plain is None else self.plain.breaks
        wrong = one.same is False or (one.same is None and one.proposal.must_agree)
        return one.count.errors <= self.before.errors and one.breaks <= allowed and not wrong

    def _helps(self, one: _Tried) -> bool:
        if not self._is_sound(one):
            return False
        if one.proposal.trades:
            return self._compiles_less(one)
        if one.count.errors < self.before.errors or one.count.uncompiled < self.before.uncompiled:
            return True
        return self._compiles_less(one) and one.count.uncompiled <= self.before.uncompiled

    def _compiles_less(self, one: _Tried) -> bool:
        whole = self.before.compiles if self.plain is None else self.plain.compiles
        return one.count.compiles < self.before.compiles and one.compiles < whole

    def _remedy(self, one: _Tried) -> Remedy:
        proposal = one.proposal
        return Remedy(
            name=proposal.name,
            cause=proposal.cause,
            source=proposal.source,
            change=_change(one),
            before=self.before,
            after=one.count,
            caveat=proposal.caveat,
            same=one.same,
            options={} if proposal.steps else merged(self.options, proposal.options),
        )


def _read(proposal: Proposal, parts: tuple[Proposal, ...], trial: Trial) -> _Tried | None:
    """What a trial told; None where it told nothing of the sequence."""
    outcome, found = trial.outcome, trial.found.get(INSTRUMENT, {})
    if outcome is None or not outcome.calls or outcome.status == "missing" or found.get("refused"):
        return None
    return _Tried(
        proposal,
        parts,
        count(outcome.calls),
        sum(one.compiles for one in outcome.frames),
        _breaks(outcome),
        _is_same(outcome),
        found.get("told", ()),
    )


def _change(one: _Tried) -> str:
    """What to write, with what the first call had in its place."""
    lines, at = [], 0
    for part in one.parts:
        told = next(iter(one.told[at : at + len(part.steps)]), "")
        lines.append(part.change.replace(TOLD, told))
        at += len(part.steps)
    return "\n".join(dict.fromkeys(lines))


def _breaks(outcome: Outcome) -> int:
    """Graph breaks that torch counts, and places where code goes on after one: not all of them are counted."""
    resumed = {one.function for one in outcome.frames if resumed_function(one.function.rpartition(".")[2])}
    return max(sum(one.graph_breaks for one in outcome.frames), len(resumed))


def _is_same(outcome: Outcome) -> bool | None:
    compared = outcome.comparison
    if compared is None or compared.skipped:
        return None
    return not compared.where


def _rank(one: _Tried) -> tuple[Any, ...]:
    """Best first; of equals what costs nothing, then what is proposed first. Seconds are too noisy to decide."""
    proposal, count = one.proposal, one.count
    unsure = one.same is None
    return proposal.trades, count.errors, count.uncompiled, one.compiles, unsure, bool(proposal.caveat)


def _better(one: _Tried, other: _Tried) -> bool:
    return _rank(one) < _rank(other)
