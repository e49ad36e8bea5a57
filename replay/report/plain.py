"""What `--json` prints. Nothing here is for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from replay.findings.ablation import Ablation
from replay.findings.backends import BackendInfo
from replay.findings.differences import Differences
from replay.findings.explanation import Explanation
from replay.findings.export import Export
from replay.findings.imports import Imports
from replay.findings.issue import Issue
from replay.findings.privacy import Privacy
from replay.findings.profile import Profile
from replay.findings.recompiles import Recompiles
from replay.findings.stripping import Stripped
from replay.findings.triage import Triage
from replay.plain import to_json, to_plain
from replay.recording import Manifest, Outcome
from replay.report.values import values_of

if TYPE_CHECKING:
    from replay.trust import Place, Standing

__all__ = ["explanation_json", "manifest_json", "outcome_json", "to_plain"]


def manifest_json(manifest: Manifest, *, path: str, size: int, standing: Standing | None = None) -> str:
    """The manifest as one JSON object, with the file's `bundle` (its path) and `size` in bytes first.

    `standing`, if it is given, becomes `trust`: kind, said, notes and `trusted`. Each storage also has `values`: "real"
    or "synthetic".
    """
    plain = to_plain(manifest)
    for key, storage in manifest.storages.items():
        plain["storages"][key]["values"] = values_of(storage)
    vouched = {} if standing is None else {"trust": {"trusted": standing.trusted, **to_plain(standing)}}
    return to_json({"bundle": path, "size": size, **vouched, **plain})


def outcome_json(outcome: Outcome) -> str:
    """An outcome as one JSON object: the keys of the contract, and `notes`."""
    return to_json(to_plain(outcome))


def ablation_json(ablation: Ablation) -> str:
    """An ablation as one JSON object: `status`, that of the replay with all settings, and then its own keys."""
    plain = to_plain(ablation)
    return to_json({"bundle": plain.pop("bundle"), "status": ablation.outcome.status, **plain})


def profile_json(profile: Profile) -> str:
    """A profile as one JSON object; times are seconds, `peak` is bytes."""
    return to_json(to_plain(profile))


def triage_json(triage: Triage) -> str:
    """A triage as one JSON object: the fields of `Triage`, and of each rung its `name`."""
    plain = to_plain(triage)
    for rung, row in zip(triage.rungs, plain["rungs"], strict=True):
        row["name"] = rung.name
    return to_json(plain)


def explanation_json(explained: Explanation) -> str:
    """An explanation as one JSON object, complete; the texts of the files stay in the bundle."""
    plain = to_plain(explained)
    del plain["texts"]
    return to_json(plain)


def recompiles_json(found: Recompiles | Sequence[Recompiles]) -> str:
    """An analysis as one JSON object; of several an object whose `recompiles` lists them. Calls count from 0."""
    return to_json(to_plain(found) if isinstance(found, Recompiles) else {"recompiles": to_plain(found)})


def export_json(made: Export) -> str:
    """An export as one JSON object: its text too, and `verified`."""
    return to_json({**to_plain(made), "verified": made.verified})


def issue_json(made: Issue) -> str:
    """A bug report as one JSON object: `title`, `text` and what it was made of."""
    return to_json(to_plain(made))


def backends_json(found: Sequence[BackendInfo]) -> str:
    """The backends as one JSON object: `backends`, each with name, group, words and what it lacks."""
    return to_json({"backends": to_plain(found)})


def places_json(places: Sequence[Place]) -> str:
    """The trusted directories as one JSON object: `places`, each with `path` and `there`."""
    return to_json({"places": [{"path": str(one.path), "there": one.there} for one in places]})


def imports_json(found: Imports) -> str:
    """What loading would import and call, as one JSON object: the fields of `Imports`."""
    return to_json(to_plain(found))


def differences_json(found: Differences) -> str:
    """In what two bundles differ, as one JSON object: the fields of `Differences`, and `same`."""
    return to_json({"same": found.same, **to_plain(found)})


def privacy_json(found: Privacy) -> str:
    """What leaves with a bundle, as one JSON object: the fields of `Privacy`; secrets are masked here too."""
    return to_json(to_plain(found))


def stripped_json(found: Stripped) -> str:
    """What became of a bundle, as one JSON object: the fields of `Stripped`."""
    return to_json(to_plain(found))
