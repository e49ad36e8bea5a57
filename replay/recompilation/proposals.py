"""Which remedies are worth a try for a cause, in the order in which a specialist would try them.

Pure functions of what is known; whether any of it helps is for `remedies` to measure. Each proposal says what a user
writes, and how a replay does the same: with options of `replay.run`, or with steps of the instrument
`replay.replayer.remedying`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from replay.findings.recompiles import Cause, CauseGroup
from replay.recompilation.sources import Source, parse, show
from replay.recording import Manifest, Outcome

TOLD = "{told}"
"""In a change: what the instrument tells of the first call, a dtype for example."""
LIMITS = ("recompile_limit", "accumulated_recompile_limit")


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change to try."""

    name: str
    cause: Cause | None  # None: of the whole
    source: str
    change: str  # what a user writes
    caveat: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)  # of `replay.run`
    steps: tuple[Mapping[str, Any], ...] = ()  # of the instrument
    must_agree: bool = (
        False  # worth nothing unless every call is known to give what the uncompiled frame gives
    )
    trades: bool = False  # calls that run uncompiled for fewer compilations


@dataclass(frozen=True, slots=True)
class Setting:
    """What proposals depend on, of the recording and of what was chosen for every replay."""

    function: str
    dynamic: bool | None = None
    config: Mapping[str, Any] = field(default_factory=dict)  # that was set: {"dynamo.specialize_int": True}
    limit: str = ""  # that was hit, by its name in torch._dynamo.config
    counted: bool = False  # the calls after a limit was hit are known
    state: tuple[str, ...] = ()  # global state that differs between the calls, by name
    undo_dynamic: bool = False  # the recording's own `dynamic` can be left out


def setting_of(manifest: Manifest, options: Mapping[str, Any], plain: Outcome | None = None) -> Setting:
    """The setting of a recorded sequence under the chosen options; `plain`: the replay under these, if it was made."""
    sequence = manifest.sequence
    infos = (*manifest.calls, *((sequence.last,) if sequence is not None else ()))
    traffic = None if sequence is None else sequence.traffic
    chosen = options.get("dynamic")
    hit = [one.limit for one in (infos if plain is None else plain.calls) if one.limit]
    return Setting(
        function=manifest.frame.name,
        dynamic=manifest.compile.dynamic if chosen is None else chosen,
        config={**manifest.config, **(options.get("config") or {})},
        limit=hit[0] if hit else "",
        counted=traffic is not None,
        state=tuple(dict.fromkeys(name for one in infos for name in one.state)),
        undo_dynamic=chosen is None and manifest.compile.dynamic is not None,
    )


def propose(group: CauseGroup, setting: Setting) -> tuple[Proposal, ...]:
    """What is worth a try for one cause, the most fitting first."""
    source = parse(group.source)
    if source is not None and source.is_attribute and group.cause in _VALUES:
        makers: Sequence[_Maker] = (_unspecialised, _tensor, _moved_out)
        if None in _literals(group.values) or not group.values:  # objects
            makers = (_hoisted, *makers)
    else:
        makers = _MAKERS.get(group.cause, ())
    return tuple(one for make in makers for one in make(group, source, setting))


def propose_limit(setting: Setting, uncompiled: int, compiles: int) -> tuple[Proposal, ...]:
    """A limit that was hit, raised to what the calls can need at most."""
    if not setting.limit or not uncompiled:
        return ()
    most = compiles + uncompiled
    caveat = "each compilation takes time and memory, and every call looks through the guards of all of them"
    if not setting.counted:
        caveat += "; calls after the limit was hit are not in this recording (record(calls=True) has them)"
    name = setting.limit if setting.limit in LIMITS else LIMITS[0]
    return (
        Proposal(
            name,
            None,
            "",
            f"torch._dynamo.config.{name} = {most}",
            caveat,
            options={name: most},
        ),
    )


def propose_stance() -> Proposal:
    """Compile once, and run uncompiled whatever that code does not fit."""
    return Proposal(
        "eager_on_recompile",
        None,
        "",
        'torch.compiler.set_stance("eager_on_recompile")  # after the first call',
        "calls that the first code does not fit run uncompiled, and so does all else that was not compiled before",
        steps=({"act": "stance", "stance": "eager_on_recompile"},),
        trades=True,
    )


_Maker = Callable[[CauseGroup, "Source | None", Setting], Iterator[Proposal]]
_VALUES = ("integer", "float", "boolean", "string", "attribute")
_EXACT = "code that branches on {name} breaks the graph then"


def _step(act: str, source: Source, **more: Any) -> Mapping[str, Any]:
    """A step at a place, as plain data."""
    path = [list(one) for one in source.steps]
    return {"act": act, "root": source.root, "name": source.name, "path": path, **more}


def _marked(group: CauseGroup, source: Source | None, setting: Setting) -> Iterator[Proposal]:
    dimension = group.dimension
    if source is None or dimension is None:
        return
    change = f"torch._dynamo.mark_dynamic({show(source)}, {dimension})  # before every call"
    steps = (_step("mark_dynamic", source, dimension=dimension),)
    yield Proposal("mark_dynamic", group.cause, group.source, change, steps=steps)


def _unbacked(group: CauseGroup, source: Source | None, setting: Setting) -> Iterator[Proposal]:
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


def _dynamic(group: CauseGroup, source: Source | None, setting: Setting) -> Iterator[Proposal]:
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


def _unspecialised(group: CauseGroup, source: Source | None, setting: Setting) -> Iterator[Proposal]:
    """Numbers that Dynamo makes constants of, because a config says so."""
    key = _SPECIALISED.get(group.cause)
    if key is not None and setting.config.get(f"dynamo.{key}"):
        yield _configured(group, key, False)
    held = source is not None and source.is_attribute
    if held and any(type(one) is int for one in _literals(group.values)):
        yield _configured(group, "allow_unspec_int_on_nn_module", True)


def _tensor(group: CauseGroup, source: Source | None, setting: Setting) -> Iterator[Proposal]:
    """A number as a tensor: its value is no longer part of the code."""
    values = _literals(group.values)
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
        _EXACT.format(name=name),
        steps=(_step("tensor", source, dtype="float64" if floating else "", words=words),),
    )


def _left_out(group: CauseGroup, source: Source | None, setting: Setting) -> Iterator[Proposal]:
    """One value in every call, where it does not matter to the result."""
    if source is None:
        return
    name = show(source)
    yield Proposal(
        "leave out",
        group.cause,
        group.source,
        f"# give {setting.function} the same {name} in every call, and use what changes outside",
        f"holds where {name} decides nothing that {setting.function} gives, as in these calls",
        steps=(_step("hold", source),),
        must_agree=True,
    )


def _moved_out(group: CauseGroup, source: Source | None, setting: Setting) -> Iterator[Proposal]:
    """State that the function does not need, kept where it does not see it."""
    if source is None:
        return
    name = show(source)
    yield Proposal(
        "move out",
        group.cause,
        group.source,
        f"# keep {name} outside of {setting.function}, which sees one value of it in every call",
        f"holds where {name} decides nothing that {setting.function} gives, as in these calls",
        steps=(_step("hold", source),),
        must_agree=True,
    )


def _hoisted(group: CauseGroup, source: Source | None, setting: Setting) -> Iterator[Proposal]:
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
    for at, (_, key) in enumerate(source.steps):
        if key in _OF_FUNCTIONS:
            return replace(source, steps=source.steps[:at], aspect="")
    return source


_OF_FUNCTIONS = ("__code__", "__closure__", "__defaults__", "__kwdefaults__", "__call__", "__func__")


def _inbuilt(group: CauseGroup, source: Source | None, setting: Setting) -> Iterator[Proposal]:
    key = "inline_inbuilt_nn_modules"
    if setting.config.get(f"dynamo.{key}") is False:
        yield _configured(group, key, True)


_GRAD = {
    True: ("enable_grad", "calls that were made without gradients keep what a backward needs: memory"),
    False: ("no_grad", "what these calls give cannot be differentiated"),
}


def _one_grad_mode(group: CauseGroup, source: Source | None, setting: Setting) -> Iterator[Proposal]:
    first = group.values[0] if group.values else ""
    modes = (True, False) if "true" in first.lower() else (False, True)
    for mode in modes:
        context, caveat = _GRAD[mode]
        change = f"with torch.{context}():  # around every call"
        steps = ({"act": "grad", "enabled": mode},)
        yield Proposal(context, group.cause, group.source, change, caveat, steps=steps)


def _one_state(group: CauseGroup, source: Source | None, setting: Setting) -> Iterator[Proposal]:
    names = ", ".join(setting.state) or group.source or "the global state"
    yield Proposal(
        "one state",
        group.cause,
        group.source,
        f"# set {names} once, before the first call, as it was then, and leave it",
        "later calls run under the state of the first",
        steps=({"act": "state"},),
    )


def _cast(group: CauseGroup, source: Source | None, setting: Setting) -> Iterator[Proposal]:
    if source is None:
        return
    name = show(source)
    change = f"{name} = {name}.to({TOLD})  # before every call"
    caveat = "what the calls give may have that dtype too; values were compared in the dtype that they had"
    if group.cause == "device":
        caveat = f"{name} is copied in each call that brings it on another device"
    steps = (_step("cast", source, what=group.cause),)
    yield Proposal(f"one {group.cause}", group.cause, group.source, change, caveat, steps=steps)


def _one_requires_grad(group: CauseGroup, source: Source | None, setting: Setting) -> Iterator[Proposal]:
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


def _contiguous(group: CauseGroup, source: Source | None, setting: Setting) -> Iterator[Proposal]:
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


def _one_type(group: CauseGroup, source: Source | None, setting: Setting) -> Iterator[Proposal]:
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
    caveat += "; " + _EXACT.format(name=name)
    yield Proposal("tensor", group.cause, group.source, change, caveat, steps=steps)


_MAKERS: Mapping[Cause, Sequence[_Maker]] = {
    "size": (_marked, _dynamic, _unbacked),
    "stride": (_contiguous, _marked, _dynamic),
    "integer": (_unspecialised, _tensor, _dynamic, _left_out),
    "float": (_unspecialised, _tensor, _left_out),
    "boolean": (_left_out,),
    "string": (_left_out,),
    "attribute": (_hoisted, _moved_out),
    "function": (_hoisted,),
    "identity": (_inbuilt, _hoisted),
    "grad_mode": (_one_grad_mode,),
    "global_state": (_one_state,),
    "dtype": (_cast,),
    "device": (_cast,),
    "requires_grad": (_one_requires_grad,),
    "type": (_one_type, _hoisted),
}
"""By cause, the makers of proposals, best first. For a rank, a length and the unknown there is only the limit."""


def _literals(texts: Sequence[str]) -> list[Any]:
    """Values as Python writes them; None for a text that is none."""
    found = []
    for text in texts:
        try:
            found.append(ast.literal_eval(text))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            found.append(None)
    return found
