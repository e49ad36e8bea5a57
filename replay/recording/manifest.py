"""Frozen data: what a bundle's manifest says.

Field order is not significant; names are the keys of `manifest.msgpack` (see docs/bundle-format.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from replay.recording.failure import Difference, ErrorInfo, Event
from replay.recording.traffic import TrafficInfo


@dataclass(frozen=True, slots=True)
class FrameInfo:
    """The frame that was being compiled."""

    function: str  # qualified name: "Block.forward"
    name: str  # the code object's co_name: "forward"
    module: str  # the globals' __name__
    file: str  # co_filename
    first_line: int
    last_line: int
    entry: str | None  # the archive entry that holds the file's text; None: there is no source
    code_kind: Literal["source", "installed", "bytecode"]  # how the code object travels
    resume: bool = False  # a function that Dynamo made to resume after a graph break
    resume_of: str | None = None  # co_name of the function that it resumes


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A tensor without its bytes; they are the storage `storage`, from `offset * itemsize` on."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]  # in elements, as torch counts them
    offset: int  # in elements
    dtype: str  # torch's name: "float32"
    device: str  # where it was recorded: "cuda:0"
    storage: str | None  # key in Manifest.storages; None: it has no storage (device "meta")
    kind: Literal["tensor", "parameter", "buffer"] = "tensor"
    requires_grad: bool = False
    is_leaf: bool = True
    conj: bool = False
    neg: bool = False
    inference: bool = False  # made in inference mode
    persistent: bool = True  # of a Buffer
    grad: str | None = None  # key in Manifest.tensors of its .grad
    base: str | None = None  # key in Manifest.tensors of what it is a view of


@dataclass(frozen=True, slots=True)
class StorageSpec:
    """The memory that tensors share. Only the window of bytes that recorded tensors span is kept."""

    nbytes: int  # of the whole storage, as it was in the recorded program
    start: int  # first byte of the window
    length: int  # bytes of the window
    device: str
    entry: str | None  # archive entry with the window's bytes; None: the values are synthetic
    dtype: str = "uint8"  # the type that synthetic values are drawn in
    seed: int | None = None  # of the synthetic values
    statistics: Mapping[str, float] = field(default_factory=dict)  # min, max, mean, std, of a sample


@dataclass(frozen=True, slots=True)
class InputInfo:
    """One input of the frame, as a row for people: an argument, a closure variable or a global."""

    name: str
    role: Literal["argument", "closure", "global"]
    type: str  # qualified name of its type
    summary: str  # short, one line, never the value of a large object: "float32[2, 3] cpu", "3", "'relu'"
    tensors: tuple[str, ...] = ()  # keys in Manifest.tensors


@dataclass(frozen=True, slots=True)
class CallInfo:
    """One earlier call of the frame that compiled it; the failing call is not among them."""

    compile_id: str
    inputs: tuple[InputInfo, ...]  # of a sequence also what was noted of closure variables and globals
    grad_enabled: bool = True
    started: float = 0.0  # seconds since the recording block began
    seconds: float = 0.0  # that the compilation took
    fingerprint: str = ""  # of a call that compiled the frame again; as Manifest.signature
    reasons: tuple[
        str, ...
    ] = ()  # torch's words: for each cached entry, of 16 at most, the first guard that failed
    state: Mapping[str, Any] = field(
        default_factory=dict
    )  # of a sequence: global state that is other than at its first call, as Manifest.state has it
    limit: str = ""  # the limit that this call hit, by its name in torch._dynamo.config: it ran uncompiled


@dataclass(frozen=True, slots=True)
class SequenceInfo:
    """The calls that compiled one frame: Manifest.calls and then `last`, whose inputs are those of the manifest.

    After a call that hit a limit torch asks no more: the frame has compiled code for what fits, and runs
    uncompiled for all else.
    """

    fingerprint: str  # of the frame, whatever the reasons are
    last: CallInfo
    dropped: int = 0  # compiling calls before the first one that is kept
    traffic: TrafficInfo | None = None  # all calls, if they were recorded


@dataclass(frozen=True, slots=True)
class CompileInfo:
    """How the frame was compiled."""

    backend: str  # a registered name, or module:attribute of the user's own
    backend_kind: Literal["registered", "shipped", "unknown"]
    fullgraph: bool = False
    dynamic: bool | None = None
    options: Mapping[str, Any] = field(default_factory=dict)  # inductor's, with the mode expanded
    compile_id: str | None = None  # "3/1"
    backward: bool = False  # the failure came in the frame's backward
    entry: str = (
        "compile"  # or export, dynamo_export, aot_compile, compiled_autograd: the way into the compiler
    )


@dataclass(frozen=True, slots=True)
class Missing:
    """Something that could not be recorded, or loaded."""

    name: str  # the path that leads to it: "arguments.f.log"
    type: str  # qualified name of its type
    reason: str


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Something that the frame's code cannot reach, and that the bundle therefore does without."""

    name: str  # the path that leads to it: "arguments[0].decoder"
    type: str  # qualified name of its type
    nbytes: int = 0  # of the tensors in it


@dataclass(frozen=True, slots=True)
class Substitution:
    """Whether the failure comes back without the values that were made up, and without what was left out.

    Found while recording, by replays in a child process. Nothing is known where both answers are None.
    """

    survived: bool | None  # with as few real values as the policy wants
    reproduces: bool | None  # from the bundle as it is, with what was kept
    reason: str = ""  # why it is not known, or what came instead
    kept: tuple[str, ...] = ()  # keys in Manifest.storages: real, because the failure did not survive
    whole: bool = False  # nothing is left out, because the failure did not survive that
    seconds: float = 0.0  # that the replays took


@dataclass(frozen=True, slots=True)
class Environment:
    """The machine and the versions of a recording."""

    python: str  # "3.11.7"
    implementation: str  # "CPython"
    torch: str
    triton: str | None
    platform: str  # as platform.platform() prints it
    machine: str  # "x86_64"
    cpu: str  # model name, or ""
    cpu_capability: str  # as torch names it: "AVX2"
    gpus: tuple[str, ...]
    cuda: str | None
    packages: Mapping[str, str]  # distributions that the values refer to: name -> version
    variables: Mapping[str, str]  # allow-listed environment variables


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the archive, as the manifest knows it."""

    size: int  # bytes, uncompressed
    digest: str  # "sha256:<hex>" for what can hold code, "xxh3:<hex>" for blobs


@dataclass(frozen=True, slots=True)
class Manifest:
    """All that is needed to look at a bundle without running anything."""

    created: str  # UTC, ISO 8601 to the second
    writer: str  # "torch-replay 0.1.0"
    event: Event
    frame: FrameInfo
    error: ErrorInfo | None
    compile: CompileInfo
    environment: Environment
    inputs: tuple[InputInfo, ...] = ()
    calls: tuple[CallInfo, ...] = ()
    tensors: Mapping[str, TensorSpec] = field(default_factory=dict)
    storages: Mapping[str, StorageSpec] = field(default_factory=dict)
    config: Mapping[str, Any] = field(
        default_factory=dict
    )  # "dynamo.suppress_errors": value; only what differs from the default
    state: Mapping[str, Any] = field(
        default_factory=dict
    )  # global state, plain values; see torch_adapter.state
    sources: Mapping[str, str] = field(default_factory=dict)  # co_filename -> archive entry
    shipped: tuple[str, ...] = ()  # modules that travel by value
    missing: tuple[Missing, ...] = ()
    left_out: tuple[LeftOut, ...] = ()  # what the frame's code cannot reach
    substitution: Substitution | None = None  # None: all values are real, or the policy asks for no check
    signature: str = ""  # the fingerprint of an event that is no failure
    reason: str = ""  # of a recompile: the guard that failed, in torch's words
    sequence: SequenceInfo | None = None  # of a recompile; None in bundles of a single reason
    difference: Difference | None = None  # of wrong numbers
    process: Mapping[str, Any] = field(
        default_factory=dict
    )  # thread, session (shared by the bundles of a block), rank, world_size, groups; what the inputs are of
    entries: Mapping[str, Entry] = field(default_factory=dict)  # every other entry of the archive
    seal: str = ""  # made by the recording user's own key; the last characters of the manifest, see docs


def made_up(storages: Mapping[str, StorageSpec]) -> dict[str, int]:
    """Bytes of each storage of the failing call whose values are made up. Earlier calls' (`d...`) always are."""
    return {
        key: one.length
        for key, one in storages.items()
        if one.entry is None and one.length and not key.startswith("d")
    }
