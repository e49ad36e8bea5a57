"""The makers of proposals: each yields what is worth a try for one cause. Pure; which is asked when: `proposing`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from replay.findings.recompiles import Cause, CauseGroup
from replay.recompilation.proposals import TOLD, Proposal, Setting
from replay.recompilation.sources import Source, show

_EXACT = "code that branches on a number breaks the graph once it is a tensor"


def _step(act: str, source: Source, **more: Any) -> Mapping[str, Any]:
    """A step at a place, as plain data."""
    path = [list(one) for one in source.steps]
    return {"act": act, "root": source.root, "name": source.name, "path": path, **more}


def marked(group: CauseGroup, source: Source | None, setting: Setting) -> Iterator[Proposal]:
    """A dimension that is a symbol from the first compilation on."""
    dimension = group.dimension
    if source is None or dimension is None:
        return
    change = f"torch._dynamo.mark_dynamic({show(source)}, {dimension})  # before every call"
    steps = (_step("mark_dynamic", source, dimension=dimension),)
    yield Proposal("mark_dynamic", group.cause, group.source, change, steps=steps)


def unbacked(group: CauseGroup, source: Source | None, setting: Setting) -> Iterator[Proposal]:
    """The same, with nothing known of its size."""
    dimension = group.dimension
    if source is None or dimension is None:
        return
    yield Proposal(
        "mark_unbacked",
        group.cause,
        group.source,
        f"torch._dynamo.decorators.mark_unbacked({show(source)}, {dimension})  # before every call",
        "code that branches on this size raises, and kernels cannot be chosen by it; sizes 0 and 1 fit too",
        steps=(_step("mark_unbacked", source, dimension=dimension),),
    )


def dynamic(group: CauseGroup, source: Source | None, setting: Setting) -> Iterator[Proposal]:
    """Sizes and integers as symbols, for the whole function."""
    name = setting.function
    if setting.dynamic is False and setting.undo_dynamic:
        change = f"torch.compile({name})  # without dynamic=False"
        options = {"without": ("compile.dynamic",)}
        yield Proposal("automatic dynamic", group.cause, group.source, change, options=options)
    for key, wanted in _DYNAMISM.items():
        if setting.config.get(f"dynamo.{key}") not in (None, wanted):
            yield _configured(group, key, wanted)
    if setting.dynamic is not True:
        yield Proposal(
            "dynamic=True",
            group.cause,
            group.source,
            f"torch.compile({name}, dynamic=True)",
            "all sizes and integers are symbols then: the code may be slower",
            options={"dynamic": True},
        )


_DYNAMISM: Mapping[str, Any] = {"automatic_dynamic_shapes": True, "assume_static_by_default": True}
_SPECIALISED: Mapping[Cause, str] = {"integer": "specialize_int", "float": "specialize_float"}


def _configured(group: CauseGroup, key: str, value: Any, caveat: str = "") -> Proposal:
    return Proposal(
        f"{key}={value}",
        group.cause,
        group.source,
        f"torch._dynamo.config.{key} = {value}",
        caveat,
        options={"config": {f"dynamo.{key}": value}},
    )


def unspecialised(group: CauseGroup, source: Source | None, setting: Setting) -> Iterator[Proposal]:
    """Numbers that Dynamo makes constants of, because a config says so."""
    key = _SPECIALISED.get(group.cause)
    if key is not None and setting.config.get(f"dynamo.{key}"):
        yield _configured(group, key, False)
    held = source is not None and source.is_attribute
    if held and any(type(one) is int for one in literals(group.values)):
        yield _configured(group, "allow_unspec_int_on_nn_module", True)


def tensor(group: CauseGroup, source: Source | None, setting: Setting) -> Iterator[Proposal]:
    """A number as a tensor: its value is no longer part of the code."""
    values = literals(group.values)
    if source is None or any(type(one) not in (int, float) for one in values):
        return
    if group.cause == "attribute" and not values:
        return
    name = show(source)
    floating = any(type(one) is float for one in values) or group.cause == "float"
    made = f"torch.tensor({name}, dtype=torch.float64)" if floating else f"torch.tensor({name})"
    change, words = f"{name} = {made}  # before every call", {}
    if source.is_attribute:
        owner, _, attribute = name.rpartition(".")
        change = f"{owner}.{TOLD}"
        words["buffer"] = f'register_buffer("{attribute}", {made}, persistent=False)'
        words["attribute"] = f"{attribute} = {made}"
    yield Proposal(
        "tensor",
        group.cause,
        group.source,
        change,
        _EXACT + _not_compared(source),
        steps=(_step("tensor", source, dtype="float64" if floating else "", words=words),),
    )


def _not_compared(source: Source) -> str:
    """State that is to be other than in the uncompiled function cannot be held against that."""
    is_state = source.root == "global" or any(kind != "item" for kind, _ in source.steps)
    return f"; {show(source)} itself was not compared" if is_state else ""


def left_out(group: CauseGroup, source: Source | None, setting: Setting) -> Iterator[Proposal]:
    """One value in every call, where it does not matter to the result."""
    if source is not None:
        change = (
            f"# give {setting.function} the same {show(source)} in every call, and use what changes outside"
        )
        yield _held(group, source, setting, "leave out", change)


def moved_out(group: CauseGroup, source: Source | None, setting: Setting) -> Iterator[Proposal]:
    """State that the function does not need, kept where it does not see it."""
    if source is not None:
        name = show(source)
        change = f"# keep {name} outside of {setting.function}, which sees one value of it in every call"
        yield _held(group, source, setting, "move out", change)


def _held(group: CauseGroup, source: Source, setting: Setting, name: str, change: str) -> Proposal:
    caveat = f"holds where {show(source)} decides nothing that {setting.function} gives, as in these calls"
    caveat += _not_compared(source)
    steps = (_step("hold", source),)
    return Proposal(name, group.cause, group.source, change, caveat, steps=steps, must_agree=True)


def captured(group: CauseGroup, source: Source | None, setting: Setting) -> Iterator[Proposal]:
    """A number that a function has as a default, or closes over, as a tensor."""
    values = literals(group.values)
    if source is None or not values or any(type(one) not in (int, float) for one in values):
        return
    steps = (_step("tensor", source, dtype="float64" if float in map(type, values) else ""),)
    name = show(owner_of(source))
    how = "close over a tensor" if source.steps[-1][0] == "cell" else "make the default a tensor"
    change = f"# in {name}, {how} in place of the number: torch.tensor({group.values[0]})"
    caveat = _EXACT
    yield Proposal("captured tensor", group.cause, group.source, change, caveat, steps=steps)


def hoisted(group: CauseGroup, source: Source | None, setting: Setting) -> Iterator[Proposal]:
    """One object in place of equal ones."""
    if source is None:
        return
    source = owner_of(source)
    name = show(source)
    yield Proposal(
        "hoist",
        group.cause,
        group.source,
        f"# make {name} once, before the first call, and pass the same object in every call",
        "holds while the objects are equal in code, closure and state, as they are in these calls",
        steps=(_step("hoist", source),),
        must_agree=True,
    )


def owner_of(source: Source) -> Source:
    """The function of which a guard looks at the code, the defaults or the closure."""
    for at, (kind, key) in enumerate(source.steps):
        if kind == "cell" or key in _OF_FUNCTIONS:
            return replace(source, steps=source.steps[:at], aspect="")
    return source


_OF_FUNCTIONS = ("__code__", "__closure__", "__defaults__", "__kwdefaults__", "__call__", "__func__")


def inbuilt(group: CauseGroup, source: Source | None, setting: Setting) -> Iterator[Proposal]:
    """Modules of torch's traced into, where a config says otherwise."""
    key = "inline_inbuilt_nn_modules"
    if setting.config.get(f"dynamo.{key}") is False:
        yield _configured(group, key, True)


_GRAD = {
    True: ("enable_grad", "calls that were made without gradients keep what a backward needs: memory"),
    False: ("no_grad", "what these calls give cannot be differentiated"),
}


def one_grad_mode(group: CauseGroup, source: Source | None, setting: Setting) -> Iterator[Proposal]:
    """All calls with gradients, or all without."""
    first = group.values[0] if group.values else ""
    modes = (True, False) if "true" in first.lower() else (False, True)
    for mode in modes:
        context, caveat = _GRAD[mode]
        change = f"with torch.{context}():  # around every call"
        steps = ({"act": "grad", "enabled": mode},)
        yield Proposal(context, group.cause, group.source, change, caveat, steps=steps)
    if "inference_mode" in setting.state:
        change = f"# make every call under the modes of the first: {TOLD}"
        caveat = (
            "calls that were made under other modes do what these cost: memory for a backward, for example"
        )
        steps = ({"act": "state", "names": ["grad_enabled", "inference_mode"]},)
        yield Proposal("one mode", group.cause, group.source, change, caveat, steps=steps)


_STATES: Mapping[str, Sequence[str]] = {
    "num_threads": ("threads",),
    "deterministic_algorithms": ("deterministic", "deterministic_warn_only"),
    "deterministic_algorithms_warn_only": ("deterministic_warn_only",),
    "autocast": ("autocast", "autocast_cache"),
    "default_dtype": ("default_dtype",),
    "default_device": ("default_device",),
    "grad_mode": ("grad_enabled",),
    "inference_mode": ("inference_mode",),
}
"""By the name of a state in a guard: what `torch_adapter.state` calls it."""


def one_state(group: CauseGroup, source: Source | None, setting: Setting) -> Iterator[Proposal]:
    """The state of the first call in every call."""
    names = list(_STATES.get(group.source, [] if group.source else setting.state))
    if names:
        yield Proposal(
            "one state",
            group.cause,
            group.source,
            f"# set once, before the first call, and leave as it was there: {TOLD}",
            "later calls run under the state of the first",
            steps=({"act": "state", "names": names},),
        )


def cast(group: CauseGroup, source: Source | None, setting: Setting) -> Iterator[Proposal]:
    """Tensors of one dtype, or on one device."""
    if source is None:
        return
    name = show(source)
    change = f"{name} = {name}.to({TOLD})  # before every call"
    caveat = "what the calls give may have that dtype too; values were compared in the dtype that they had"
    if group.cause == "device":
        caveat = f"{name} is copied in each call that brings it on another device"
    steps = (_step("cast", source, what=group.cause),)
    yield Proposal(f"one {group.cause}", group.cause, group.source, change, caveat, steps=steps)


def one_requires_grad(group: CauseGroup, source: Source | None, setting: Setting) -> Iterator[Proposal]:
    """Tensors that all require a gradient, or none."""
    if source is None:
        return
    name = show(source)
    yield Proposal(
        "one requires_grad",
        group.cause,
        group.source,
        f"{name} = {name}.detach(){TOLD}  # before every call",
        f"no gradient reaches what {name} was computed from",
        steps=(_step("requires_grad", source),),
    )


def contiguous(group: CauseGroup, source: Source | None, setting: Setting) -> Iterator[Proposal]:
    """Tensors of one layout in memory."""
    if source is None:
        return
    name = show(source)
    yield Proposal(
        "contiguous",
        group.cause,
        group.source,
        f"{name} = {name}.contiguous()  # before every call",
        f"{name} is copied where it is not contiguous",
        steps=(_step("contiguous", source),),
    )


def one_type(group: CauseGroup, source: Source | None, setting: Setting) -> Iterator[Proposal]:
    """Numbers of several types as one."""
    if source is None:
        return
    name, steps = show(source), (_step("number", source),)
    caveat = "what is computed of whole numbers becomes floating point"
    yield Proposal(
        "float",
        group.cause,
        group.source,
        f"{name} = float({name})  # before every call",
        caveat,
        steps=steps,
    )
    steps = (_step("tensor", source, dtype="float64"),)
    change = f"{name} = torch.tensor({name}, dtype=torch.float64)  # before every call"
    caveat += "; " + _EXACT
    yield Proposal("tensor", group.cause, group.source, change, caveat, steps=steps)


def literals(texts: Sequence[str]) -> list[Any]:
    """Values as Python writes them; None for a text that is none."""
    found = []
    for text in texts:
        try:
            found.append(ast.literal_eval(text))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            found.append(None)
    return found
