"""Which remedies are worth a try for a cause, in the order in which a specialist would try them.

Pure functions of what is known; whether any of it helps is for `remedies` to measure. Each proposal says what a user
writes, and how a replay does the same: with options of `replay.run`, or with steps of the instrument
`replay.replayer.remedying`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from replay.findings.recompiles import Cause, CauseGroup, Count
from replay.recompilation import makers
from replay.recompilation.proposals import Proposal, Setting
from replay.recompilation.sources import Source, parse

LIMITS = ("recompile_limit", "accumulated_recompile_limit")
_Maker = Callable[[CauseGroup, "Source | None", Setting], Iterator[Proposal]]
_VALUES = ("integer", "float", "boolean", "string", "attribute")


def propose(group: CauseGroup, setting: Setting) -> tuple[Proposal, ...]:
    """What is worth a try for one cause, the most fitting first."""
    source = parse(group.source)
    if source is not None and source.is_attribute and group.cause in _VALUES:
        asked: Sequence[_Maker] = (makers.tensor, makers.unspecialised, makers.moved_out)
        if None in makers.literals(group.values) or not group.values:  # objects
            asked = (makers.hoisted, *asked)
    else:
        asked = _MAKERS.get(group.cause, ())
    return tuple(one for make in asked for one in make(group, source, setting))


def propose_limit(setting: Setting, before: Count) -> tuple[Proposal, ...]:
    """A limit that was hit, raised to what the calls can need at most."""
    without = max(before.uncompiled, before.errors)  # with fullgraph a call that hits the limit raises
    if not setting.limit or not without:
        return ()
    most = before.compiles + without
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


_MAKERS: Mapping[Cause, Sequence[_Maker]] = {
    "size": (makers.marked, makers.dynamic, makers.unbacked),
    "stride": (makers.contiguous, makers.marked, makers.dynamic),
    "integer": (makers.unspecialised, makers.tensor, makers.dynamic, makers.left_out),
    "float": (makers.unspecialised, makers.tensor, makers.left_out),
    "boolean": (makers.left_out,),
    "string": (makers.left_out,),
    "attribute": (makers.hoisted, makers.moved_out),
    "function": (makers.hoisted, makers.captured),
    "identity": (makers.inbuilt, makers.hoisted),
    "grad_mode": (makers.one_grad_mode,),
    "global_state": (makers.one_state,),
    "dtype": (makers.cast,),
    "device": (makers.cast,),
    "requires_grad": (makers.one_requires_grad,),
    "type": (makers.one_type, makers.hoisted),
    "length": (makers.dynamic,),
}
"""By cause, the makers of proposals, best first. For a rank and the unknown there is only the limit."""
