"""Frozen data: what a bundle's manifest says, and what a replay's outcome says.

Only plain values live here (strings, numbers, tuples, mappings), so that everything can be written as
MessagePack or JSON and read without torch. Nothing here opens files, imports torch or formats text.

failure     an error, its place, wrong numbers
manifest    all that a bundle says of itself
comparison  what a comparison with uncompiled code looked at
outcome     what came of a replay
traffic     all calls of a frame, counted
"""

from replay.recording.comparison import Blame, Comparison
from replay.recording.failure import DIED, Difference, ErrorInfo, Event, Stage, Status, UserFrame
from replay.recording.manifest import (
    CallInfo,
    CompileInfo,
    Entry,
    Environment,
    FrameInfo,
    InputInfo,
    LeftOut,
    Manifest,
    Missing,
    SequenceInfo,
    StorageSpec,
    Substitution,
    TensorSpec,
    made_up,
)
from replay.recording.outcome import Artifacts, CallOutcome, Drift, FrameOutcome, Outcome
from replay.recording.traffic import CallKind, SignatureInfo, TrafficInfo

__all__ = [
    "DIED",
    "Artifacts",
    "Blame",
    "CallInfo",
    "CallKind",
    "CallOutcome",
    "Comparison",
    "CompileInfo",
    "Difference",
    "Drift",
    "Entry",
    "Environment",
    "ErrorInfo",
    "Event",
    "FrameInfo",
    "FrameOutcome",
    "InputInfo",
    "LeftOut",
    "Manifest",
    "Missing",
    "Outcome",
    "SequenceInfo",
    "SignatureInfo",
    "Stage",
    "Status",
    "StorageSpec",
    "Substitution",
    "TensorSpec",
    "TrafficInfo",
    "UserFrame",
    "made_up",
]
