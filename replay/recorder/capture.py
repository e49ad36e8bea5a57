"""One attempt to compile a frame, turned into one bundle.

Called inside the compiler's hook, while the frame is alive and its inputs are as they were. The order is: ship
the object graph, plan the tensors, write sources, values and blobs, describe everything in the manifest.
Deciding *whether* to record lives in `replay.recorder.block`.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from types import FunctionType
from typing import Any

from replay import shipping, trust
from replay._version import __version__
from replay.bundle import BundleWriter, Published
from replay.recorder import (
    attributes,
    chain,
    describing,
    frames,
    history,
    pruning,
    sequences,
    surroundings,
    survival,
    ways,
)
from replay.recorder.happenings import Happening
from replay.recorder.survival import Content, Written
from replay.recording import (
    CompileInfo,
    FrameInfo,
    LeftOut,
    Manifest,
    Missing,
    StorageSpec,
    Substitution,
)
from replay.selection import resumed_function
from replay.source import qualified_name
from replay.torch_adapter import (
    distributed,
    environment,
    hooks,
    sketches,
    stances,
    state,
)
from replay.torch_adapter.compiling import Backend
from replay.torch_adapter.tensors import Policy, TensorCollector
from replay.torch_adapter.undisturbed import undisturbed

_UNSAFE = re.compile(r"[^\w.+-]+")


@dataclass(frozen=True, slots=True)
class Later:
    """What is particular to a failure that came after the frame was compiled."""

    backward: bool  # in the frame's backward
    call: history.Call | None  # the call that compiled it, if this block has seen it
    stack: tuple[hooks.LiveFrame, ...]  # the compiled frames that it was called from, innermost first
    inputs: str  # what the recorded inputs are of, for people
    values_matter: bool = True  # whether the values of tensors do


@dataclass(frozen=True, slots=True)
class Asked:
    """What a block wants of its bundles."""

    directory: Path
    tensors: Policy
    ship: Collection[str]
    warn: Callable[[str], None]
    session: str = ""  # a word that all bundles of one block share
    durable: bool = True  # wait until the disk has it; and check that the failure survives made-up values


def write(
    asked: Asked,
    attempt: hooks.Attempt,
    happening: Happening,
    calls: history.History,
    later: Later | None = None,
) -> tuple[Path, survival.Check | None]:
    """Write the bundle of an attempt; its path, and the check that is to follow.

    `later`: set for a failure that came after the frame was compiled; the attempt's variables may be `Sketched`.
    Raises BundleError where it cannot be written. What cannot travel is left out, named in the manifest, and
    told to `warn` if it is so much that the bundle can only be looked at. Where the policy has put made-up
    values in place of real ones, a child process is to check that the failure survives that: see `survival`.
    """

    def again(content: Content, found: Substitution | None, instead_of: Published | None) -> Written:
        quiet = asked if instead_of is None else replace(asked, warn=lambda _: None)
        return _write(quiet, attempt, happening, calls, later, content, found, instead_of)

    if asked.tensors != "auto" or not asked.durable or happening.event not in survival.CHECKED:
        return again(Content(), None, None).file.path, None
    return survival.begin(again, values_matter=later is not None, warn=asked.warn)


def write_sequence(  # noqa: PLR0917 - in the order of `write`
    asked: Asked,
    attempt: hooks.Attempt,
    happening: Happening,
    calls: history.History,
    instead_of: Published | None,
    past: tuple[Later, surroundings.Surroundings] | None = None,
) -> Published:
    """Write the bundle of a frame that is compiled again, with all its compiling calls, this one the last.

    `instead_of`: the bundle of the calls before, whose place it takes. `past`: of a call that is over. Raises as
    `write`.
    """
    later, around = past or (None, None)
    return _write(asked, attempt, happening, calls, later, Content(), None, instead_of, around).file


def _write(  # noqa: PLR0917 - one caller, in this order
    asked: Asked,
    attempt: hooks.Attempt,
    happening: Happening,
    calls: history.History,
    later: Later | None,
    content: Content,
    substitution: Substitution | None,
    instead_of: Published | None,
    around: surroundings.Surroundings | None = None,
) -> Written:
    """One bundle with this content, `instead_of` an earlier one."""
    backend = Backend(attempt.converter)
    earlier = [call for call in calls.before(attempt) if later is None or call is not later.call]
    stack = tuple(hooks.live_frames()) if later is None else later.stack
    around = around or surroundings.of(attempt, None if later is None else later.call)
    ambient = dict(around.state)
    sequence = sequences.info(attempt, happening, calls, earlier, None if later is None else later.call)
    unchanged: set[int] = set()
    with undisturbed():
        ambient["generators"] = state.generators()
        collector = TensorCollector()

        def tensor(sketch: sketches.Tensor) -> Any:
            alive = sketch.alive()
            return collector.declare(sketch) if alive is None else alive

        attempt = history.revived(attempt, tensor)
        inputs = frames.inputs_of(attempt)
        root = {
            "function": _function(attempt),
            "arguments": inputs.arguments,
            "calls": [_call(attempt, call, collector, ambient, unchanged) for call in earlier],
            "backend": backend.shipped,
            "backend_name": backend.registered,
            "options": backend.options,
            "config": dict(around.objects),
            "function_modes": list(around.modes),
            "chain": chain.root_of(attempt, stack, calls, tensor),
            "entry": ways.entered(attempt),
            "dynamism": stances.dynamism(attempt.code),
        }
        called = {id(value): f"arguments.{name}" for name, value in inputs.named.items()}
        leave = _pruning(root, attempt, asked) if content.pruned else None
        shipment, lost = _ship(root, collector, asked, called, leave)
        stem, sign = _stem(attempt, happening), trust.signer()
        with BundleWriter(asked.directory, stem, durable=asked.durable, sign=sign) as writer:
            sources = {name: writer.add_source(name, text) for name, text in shipment.sources.items()}
            writer.add_values(shipment.values)
            storages, kept = _write_blobs(writer, collector, asked.tensors, later, content)
            left_out = _left_out(shipment, leave)
            manifest = Manifest(
                created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
                writer=f"torch-replay {__version__}",
                event=happening.event,
                frame=_frame(attempt, sources, shipment.sources),
                error=happening.error,
                signature=happening.signature,
                reason=happening.reason,
                difference=happening.difference,
                compile=_compile(attempt, backend, later),
                environment=environment.capture(shipment.packages),
                inputs=describing.inputs(inputs, collector.key_of),
                calls=sequences.infos(attempt.code, earlier),
                sequence=sequence,
                tensors=collector.specs,
                storages=storages,
                config=around.config,
                state=ambient,
                sources=sources,
                shipped=tuple(shipment.modules),
                missing=(*lost, *shipment.missing),
                left_out=left_out,
                substitution=survival.stated(substitution, storages, left_out, kept),
                process={
                    "thread": threading.current_thread().name,
                    "session": asked.session,
                    **distributed.membership(),
                    **({"inputs": later.inputs} if later else {}),
                },
            )
            return Written.of(writer.publish(manifest, instead_of), manifest)


def _pruning(root: dict[str, Any], attempt: hooks.Attempt, asked: Asked) -> pruning.Pruning | None:
    """What to leave out; nothing where objects are too strange to tell."""
    try:
        return pruning.of(root, attempt, asked.ship)
    except Exception as error:  # noqa: BLE001 - whatever an object of the user's does, the rest is recorded
        asked.warn(f"replay leaves nothing out of {attempt.code.co_name!r}: {type(error).__name__}: {error}")
        return None


def _function(attempt: hooks.Attempt) -> FunctionType:
    """The frame's code as a function of its own; its arguments are given in full, so it needs no defaults."""
    function = FunctionType(
        attempt.code, attempt.f_globals, attempt.code.co_name, None, attempt.closure or None
    )
    function.__qualname__ = qualified_name(attempt.code)
    return function


def _ship(
    root: dict[str, Any],
    collector: TensorCollector,
    asked: Asked,
    names: Mapping[int, str],
    leave: pruning.Pruning | None,
) -> tuple[shipping.Shipment, tuple[Missing, ...]]:
    """The values, or, where shipping itself fails, a bundle that can still be looked at."""
    try:
        shipment = shipping.dump(root, tensors=collector, ship=asked.ship, names=names, leave=leave)
        for kind, reason in shipment.stuck.items():
            asked.warn(f"replay records objects of {kind} without asking them how: {reason}")
        return shipment, ()
    except Exception as error:  # noqa: BLE001 - whatever fails, the rest is recorded
        reason = f"{type(error).__name__}: {error}"
        asked.warn(
            f"replay could not ship the values of {root['function'].__name__!r}: {reason}; the bundle has none"
        )
        lost = Missing("values", "the frame's code and inputs", reason)
        return shipping.dump(None, tensors=collector, ship=asked.ship), (lost,)


def _write_blobs(
    writer: BundleWriter, collector: TensorCollector, policy: Policy, later: Later | None, content: Content
) -> tuple[dict[str, StorageSpec], tuple[str, ...]]:
    """The storages, and the keys of those that are real beyond what the policy wants."""
    matter = later is not None and later.values_matter
    storages = collector.plan(policy, values_matter=matter, budget=content.budget)
    for key, spec in storages.items():
        if spec.entry is not None:
            entry = writer.add_blob(key, spec.length, collector.chunks(key))
            storages[key] = replace(spec, entry=entry)
    usual = collector.real(policy, values_matter=matter)
    return storages, tuple(key for key, spec in storages.items() if spec.entry and key not in usual)


def _left_out(shipment: shipping.Shipment, leave: pruning.Pruning | None) -> tuple[LeftOut, ...]:
    if leave is None:
        return ()
    return tuple(LeftOut(one.name, one.type, leave.nbytes(one.value)) for one in shipment.left_out)


def _frame(attempt: hooks.Attempt, entries: Mapping[str, str], texts: Mapping[str, str]) -> FrameInfo:
    code = attempt.code
    resumed = resumed_function(code.co_name)
    return FrameInfo(
        function=qualified_name(code),
        name=code.co_name,
        module=str(attempt.f_globals.get("__name__", "")),
        file=code.co_filename,
        first_line=code.co_firstlineno,
        last_line=frames.last_line(code),
        entry=entries.get(code.co_filename),
        code_kind=frames.code_kind(code, texts),
        resume=resumed is not None,
        resume_of=resumed,
    )


def _compile(attempt: hooks.Attempt, backend: Backend, later: Later | None) -> CompileInfo:
    return CompileInfo(
        backend=backend.name,
        backend_kind="registered" if backend.shipped is None else "shipped",
        fullgraph=attempt.fullgraph,
        dynamic=backend.dynamic,
        options={
            key: v if surroundings.is_plain(v) else describing.short(v) for key, v in backend.options.items()
        },
        compile_id=attempt.compile_id,
        backward=later is not None and later.backward,
        entry=ways.name(attempt),
    )


def _call(
    attempt: hooks.Attempt,
    call: history.Call,
    collector: TensorCollector,
    ambient: Mapping[str, Any],
    unchanged: set[int],
) -> dict[str, Any]:
    """What is plain of it; a tensor by metadata, but itself, if it is alive, where metadata does not say what it is.

    `ambient`: the global state of the recorded call; the earlier one's is kept where it is another. `unchanged`: as
    `attributes.changed` takes it.
    """
    made: dict[int, Any] = {}

    def tensor(sketch: sketches.Tensor) -> Any:
        alive = sketch.alive() if sketch.special else None
        if alive is not None:
            return alive
        known = id(sketch.alive)  # the same for all sketches of one tensor, as long as it lives
        if known not in made or sketch.alive() is None:
            made[known] = collector.declare(sketch)
        return made[known]

    f_locals = {name: history.revive(value, tensor) for name, value in call.f_locals.items()}
    return {
        "arguments": frames.arguments(attempt.code, f_locals),
        "grad": call.grad_enabled,
        "before": attributes.changed(
            call.seen, attempt.code, attempt.f_globals, attempt.closure, tensor=tensor, unchanged=unchanged
        ),
        "state": {key: value for key, value in call.state.items() if ambient.get(key) != value},
    }


def _stem(attempt: hooks.Attempt, happening: Happening) -> str:
    name = resumed_function(attempt.code.co_name) or attempt.code.co_name
    core = happening.family.partition("-")[0] if happening.event != "success" else ""
    rank = distributed.rank()
    place = "" if rank is None else f"-rank{rank}"  # so that no two ranks want one name
    stem = _UNSAFE.sub("_", f"{name}-{happening.kind}-{core}").strip("_-")
    return stem[: 100 - len(place)] + place
