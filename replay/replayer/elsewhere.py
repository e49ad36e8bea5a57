"""Where a frame is replayed: on the devices of the recording, on others, or over fake tensors.

A recording of CUDA on a machine without is tried in up to two ways, until the recorded failure is there. Over fake
CUDA tensors, what torch says is what it said; nothing runs. On the CPU, code runs over the recorded values, and torch
names other devices. Nothing here compiles; the session does, once for each place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from replay import isolation
from replay.errors import UnsupportedTorchError
from replay.recording import ErrorInfo, Manifest, Missing, Outcome
from replay.replayer.launch import OVER_FAKES
from replay.replayer.process import Request
from replay.torch_adapter import compiling, devices, fakes, kernels, moving, pretence

CUDA = Missing("a CUDA device", "", "the frame was recorded on one, and there is none here")
RUN = Missing("a run", "", "the failure came while the code ran, and --fake compiles only")

_NEEDS_VALUES = ("runtime", "accuracy")
_ASKS_FOR_CUDA = re.compile(
    r"not compiled with CUDA|NVIDIA driver|CUDA driver|CUDA error|requires CUDA|not linked with support for cuda"
    r"|accelerator device when none|hasPrimaryContext|dummy base class|No CUDA GPUs|needs a CUDA device"
    r"|Invalid device id|from the 'CUDA' backend|active drivers|No available .*driver|GPUs? (?:is|are) not available",
    re.IGNORECASE,
)
"""What torch and Triton say where they look for a device that is not there."""


@dataclass(frozen=True, slots=True)
class Place:
    """One way to replay: `fakes` where tensors have no memory, `device` where all go to one of this machine."""

    fakes: fakes.Fakes | None = None
    device: str | None = None
    without_cuda: bool = False  # recorded with CUDA, and there is none here
    chosen: bool = False  # by the user
    note: str = ""
    gpus: tuple[str, ...] = ()  # of the recording machine: what the frame hears about CUDA
    cuda_device: Mapping[str, Any] = field(default_factory=dict)  # the same: the current one
    proves: bool = True  # that nothing fails there says something about the recorded failure
    only_if_met: bool = (
        False  # no tensor of the recording is on CUDA: another try makes sense if the code names it
    )
    met: set[str] = field(
        default_factory=set
    )  # CUDA as the frame's code named it or asked for it, while inside

    def device_for(self, recorded: str) -> str:
        """Where a tensor, autocast or default device of the recording goes."""
        if self.device is not None:
            return devices.all_on(self.device)(recorded)
        return recorded if self.fakes is not None else devices.nearest(recorded)

    def fake(self, device: str) -> Callable[[Any], Any] | None:
        """What makes a fake tensor there over a meta tensor; None where a real one is wanted."""
        made = self.fakes
        if made is None or device == "meta" or (device == "cpu" and not self.chosen):
            return None
        return lambda meta: made.tensor(meta, device)

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Around the whole replay: what the frame is told, and where its code's devices go."""
        with ExitStack() as stack:
            if self.without_cuda:
                stack.enter_context(pretence.cuda_as_recorded(self.gpus, self.cuda_device, self.met))
            if self.fakes is not None:
                stack.enter_context(self.fakes.entered())
            if self.device == "cpu" or (self.without_cuda and self.fakes is None):
                stack.enter_context(moving.to_cpu(self.met))
                stack.enter_context(kernels.interpreted())
            stack.enter_context(devices.current(self.device))
            yield

    @contextmanager
    def running(self, *, backward: bool) -> Iterator[None]:
        """Around the calls alone."""
        if self.fakes is None:
            yield
            return
        if not self.chosen:
            isolation.announce(OVER_FAKES)
        with self.fakes.running(backward=backward):
            yield

    def lacking(self, failed: Sequence[ErrorInfo], *, moved: bool) -> list[Missing]:
        """The device, where another failure than the recorded one may come from its absence."""
        if not self.without_cuda:
            return []
        if self.fakes is None:
            return [CUDA] if moved or self.met else []
        # what Inductor's own passes raise over fake CUDA tensors is not what they would raise on the device
        beyond = any(error.stage == "inductor" or _ASKS_FOR_CUDA.search(error.message) for error in failed)
        return [CUDA] if beyond else []


def prepare(manifest: Manifest) -> None:
    """What must happen before Dynamo is imported."""
    if manifest.environment.gpus and (devices.are_absent() or not devices.cuda_count()):
        kernels.prepare_interpreter()


def places(manifest: Manifest, request: Request) -> list[Place]:
    """Where to try, in order. UsageError for a device that is not here."""
    device, fake = request["device"], bool(request["fake"])
    if device is not None:
        devices.check_choice(device, fake=fake)
    gpus = manifest.environment.gpus
    if (not gpus and not _has_cuda_tensors(manifest)) or devices.cuda_count():
        common = Place()
    else:
        common = Place(without_cuda=True, gpus=gpus, cuda_device=manifest.state.get("cuda_device", {}))
    if fake or device is not None:
        stage = None if manifest.error is None else manifest.error.stage
        shows = not (fake and stage in _NEEDS_VALUES)
        chosen = replace(
            common, device=device, chosen=True, fakes=fakes.Fakes() if fake else None, proves=shows
        )
        return [
            replace(chosen, note="the frame was compiled over fake tensors, and was not run" if fake else "")
        ]
    return _without_cuda(common, manifest, request) if common.without_cuda else [common]


def _without_cuda(common: Place, manifest: Manifest, request: Request) -> list[Place]:
    stage = None if manifest.error is None else manifest.error.stage
    other_backend = request["backend"] not in (None, manifest.compile.backend)
    on_cpu = replace(
        common,
        note=f"{_NONE}: the frame was replayed on the CPU",
        proves=other_backend or stage not in (*_NEEDS_VALUES, "inductor"),
        met=set(),
    )
    runs_only = request["backend"] == compiling.UNCOMPILED
    if runs_only or stage in _NEEDS_VALUES or request.get("without_fakes"):
        return [on_cpu]
    over_fakes = replace(
        common,
        fakes=fakes.Fakes(),
        note=f"{_NONE}: the frame was compiled over fake CUDA tensors, and was not run",
        proves=not request["compare"],
        met=set(),
    )
    if _has_cuda_tensors(manifest):
        return [over_fakes, on_cpu]
    return [replace(on_cpu, only_if_met=True), over_fakes]


_NONE = "there is no CUDA device here"


def best(tries: Sequence[Place], attempt: Callable[[Place], Outcome]) -> tuple[Outcome, int]:
    """The outcome of the first place where the recorded failure is; else of the one that says most. With it, which.

    The number counts the attempts that gave an outcome.

    That is one where nothing failed, rather one that ran than one that compiled only; then one that failed otherwise;
    then one that says what is missing.
    """
    outcomes: list[Outcome] = []
    ran: list[bool] = []
    for place in tries:
        try:
            outcome = attempt(place)
        except UnsupportedTorchError:
            if place is tries[-1]:
                raise
            continue  # fake CUDA tensors need more of torch than the next try
        short = place.fakes is not None and place.fakes.short
        if outcome.status == "passed" and (short or not place.proves):
            lacks = RUN if place.chosen and not short else CUDA
            outcome = replace(outcome, status="missing", missing=(lacks, *outcome.missing))
        relevant = place.note and not (place.only_if_met and not place.met)
        outcomes.append(replace(outcome, notes=(place.note, *outcome.notes)) if relevant else outcome)
        ran.append(place.fakes is None)
        if outcome.status == "reproduced" or not relevant:
            return _explained(outcomes[-1], outcomes[:-1]), len(outcomes) - 1
    order = ("passed", "different", "missing")
    first = min(range(len(outcomes)), key=lambda at: (order.index(outcomes[at].status), not ran[at]))
    return _explained(outcomes[first], [one for at, one in enumerate(outcomes) if at != first]), first


def _explained(outcome: Outcome, others: Sequence[Outcome]) -> Outcome:
    """With a note for each other try."""
    tried = [
        f"tried too, {one.status} after {one.seconds.get('total', 0.0):.1f} s: {one.notes[0]}"
        for one in others
    ]
    return replace(outcome, notes=(*outcome.notes, *tried))


def _has_cuda_tensors(manifest: Manifest) -> bool:
    return any(spec.device.startswith("cuda") for spec in manifest.tensors.values())
