"""Record the frame that `torch.compile` fails on; replay just that frame anywhere.

    with replay.record("failures/") as recorder:
        step(model, batch)
    outcome = replay.run(recorder.bundles[0], backend="aot_eager")

This module only names what is public. Each name is imported when it is first used, so that `import replay`
loads neither torch nor anything that draws on a terminal. No logic lives here.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from replay._version import __version__

if TYPE_CHECKING:
    from replay.ablation import ablate
    from replay.bundle import Bundle, load
    from replay.diagnosis import triage
    from replay.errors import (
        BundleError,
        FormatVersionError,
        MissingError,
        RecordingWarning,
        ReplayError,
        UnsupportedTorchError,
        UntrustedError,
        UsageError,
    )
    from replay.explanation import explain
    from replay.exporting import export
    from replay.filing import issue
    from replay.findings.ablation import Ablation
    from replay.findings.explanation import Explanation
    from replay.findings.export import Export
    from replay.findings.issue import Issue
    from replay.findings.profile import Profile
    from replay.findings.recompiles import Recompiles
    from replay.findings.stripping import Stripped
    from replay.findings.triage import Triage
    from replay.profiling import profile
    from replay.recompilation import recompiles
    from replay.recorder import record
    from replay.recording import Outcome
    from replay.replayer import run
    from replay.stripping import strip
    from replay.torch_adapter.backends import backends

__all__ = [
    "Ablation",
    "Bundle",
    "BundleError",
    "Explanation",
    "Export",
    "FormatVersionError",
    "Issue",
    "MissingError",
    "Outcome",
    "Profile",
    "Recompiles",
    "RecordingWarning",
    "ReplayError",
    "Stripped",
    "Triage",
    "UnsupportedTorchError",
    "UntrustedError",
    "UsageError",
    "__version__",
    "ablate",
    "backends",
    "explain",
    "export",
    "issue",
    "load",
    "profile",
    "recompiles",
    "record",
    "run",
    "strip",
    "triage",
]

_HOMES = {
    "Ablation": "replay.findings.ablation",
    "Bundle": "replay.bundle",
    "BundleError": "replay.errors",
    "Explanation": "replay.findings.explanation",
    "Export": "replay.findings.export",
    "FormatVersionError": "replay.errors",
    "Issue": "replay.findings.issue",
    "MissingError": "replay.errors",
    "Outcome": "replay.recording",
    "Profile": "replay.findings.profile",
    "RecordingWarning": "replay.errors",
    "Recompiles": "replay.findings.recompiles",
    "ReplayError": "replay.errors",
    "Stripped": "replay.findings.stripping",
    "Triage": "replay.findings.triage",
    "UnsupportedTorchError": "replay.errors",
    "UntrustedError": "replay.errors",
    "UsageError": "replay.errors",
    "ablate": "replay.ablation",
    "backends": "replay.torch_adapter.backends",
    "explain": "replay.explanation",
    "export": "replay.exporting",
    "issue": "replay.filing",
    "load": "replay.bundle",
    "profile": "replay.profiling",
    "record": "replay.recorder",
    "recompiles": "replay.recompilation",
    "run": "replay.replayer",
    "strip": "replay.stripping",
    "triage": "replay.diagnosis",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
