"""Python objects to the bytes of `values.pkl` and back, on a machine that lacks the user's code.

    dump(root, tensors=sink)                       -> Shipment
    loaded(values, sources=..., tensors=source)    -> Loaded, while inside

The rooms: `policy` (what travels by value), `names` (what code uses), one room per family of kinds (`functions`,
`codes`, `classes`, `generated`, `modules`, `torch_objects`, `triton_objects`, `process_objects`, `others`),
`asking` and `patience` (an object's own pickling), `plain` (objects without it), `placeholders` (what cannot
travel), `pickler` and `unpickler`. A reducer and the builder that undoes it stand in the same room. Files, manifests
and tensors' bytes never appear here.
"""

from __future__ import annotations

import pickle
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from replay import source
from replay.errors import BundleError, MissingError
from replay.recording import Missing
from replay.shipping import classes, modules, paths
from replay.shipping.dumping import LEFT_OUT, Dumping, Leave, TensorSink, leave_nothing, named
from replay.shipping.loading import Loading, TensorSource, is_builder
from replay.shipping.pickler import Shipper
from replay.shipping.placeholders import Placeholder
from replay.shipping.policy import Policy
from replay.shipping.stack import with_large_stack
from replay.shipping.unpickler import Unshipper
from replay.torch_adapter import objects

__all__ = [
    "LEFT_OUT",
    "LeftBehind",
    "Loaded",
    "Placeholder",
    "Shipment",
    "TensorSink",
    "TensorSource",
    "dump",
    "is_builder",
    "loaded",
]


@dataclass(frozen=True, slots=True)
class LeftBehind:
    """Something that `leave` said is left out."""

    name: str
    type: str
    value: object


@dataclass(frozen=True, slots=True)
class Shipment:
    """What `dump` made."""

    values: bytes  # for `loaded`
    sources: Mapping[str, str]  # co_filename -> text
    packages: Mapping[str, str]  # distributions that are referred to: name -> version
    modules: tuple[str, ...]  # whose content travels by value
    missing: tuple[Missing, ...]  # what could not travel
    stuck: Mapping[str, str] = field(default_factory=dict)  # types whose pickling did not end -> why
    left_out: tuple[LeftBehind, ...] = ()  # what was not to travel


@dataclass(frozen=True, slots=True)
class Loaded:
    """What `loaded` made; valid only while inside."""

    root: Any
    missing: list[Missing] = field(default_factory=list)  # not recorded, or not to be made here
    touched: list[str] = field(default_factory=list)  # what was asked for and is missing


def dump(
    root: object,
    *,
    tensors: TensorSink,
    ship: Collection[str] = (),
    names: Mapping[int, str] | None = None,
    leave: Leave | None = None,
) -> Shipment:
    """Write `root` and all that it needs.

    What cannot travel is replaced by a placeholder and listed in `missing`; no object makes this fail.
    `ship` names packages that travel by value although they are installed. `names` says, by `id`, how objects
    are called in the names of what is missing; otherwise `root`'s keys are used. `leave` says which attributes of
    an object are left out: placeholders stand for them as well.
    """
    policy, leave = Policy(ship), leave or leave_nothing
    first = Dumping(policy, tensors, leave=leave)
    try:
        return _dump(root, first, names or {})
    except RecursionError:  # data nested too deep for this stack
        deep = Dumping(policy, tensors, leave=leave, shallow=True, unwilling=first.unwilling)
        return with_large_stack(lambda: _dump(root, deep, names or {}))


def _dump(root: object, dumping: Dumping, names: Mapping[int, str]) -> Shipment:
    shipper = Shipper(dumping)
    shipper.dump(root)
    _finish(shipper, dumping)
    found = paths.find(root, [lost.value for lost in dumping.lost], names)
    lost_ones = list(zip(found, dumping.lost, strict=True))
    shipper.dump(("lost", [(name, lost.type, lost.reason) for name, lost in lost_ones]))
    return Shipment(
        values=shipper.stream.getvalue(),
        sources={**dumping.display, **dumping.sources},
        packages=dumping.policy.packages(),
        modules=tuple(dumping.shipped),
        missing=tuple(Missing(name, lost.type, lost.reason) for name, lost in lost_ones if not lost.left_out),
        left_out=tuple(LeftBehind(name, lost.type, lost.value) for name, lost in lost_ones if lost.left_out),
        stuck={named(cls): reason for cls, reason in dumping.unwilling.items()},
    )


def _finish(shipper: Shipper, dumping: Dumping) -> None:
    """Write what had to wait, and what the code that was found by then may look for, until nothing is new."""
    sent: dict[str, set[str]] = {}
    more = True
    while more:
        while dumping.pending:
            dumping.depth = 0
            shipper.dump(("fill", *dumping.pending.popleft()))
        subclasses = classes.unsent_subclasses(dumping)
        attributes = list(modules.unsent_attributes(dumping, sent))
        for module, found in attributes:
            shipper.dump(("fill", modules.fill_module, module, (found,)))
        if subclasses:
            shipper.dump(("keep", subclasses))
        more = bool(dumping.pending or attributes or subclasses)


@contextmanager
def loaded(
    values: bytes, *, sources: Mapping[str, str], tensors: TensorSource, main: str = "__main__"
) -> Iterator[Loaded]:
    """Make the recorded objects again; they are whole only while inside.

    While inside, synthetic modules stand in `sys.modules` (a recorded `__main__` under the name `main`), and the
    recorded texts in `linecache`. On leaving, all is as it was. What cannot be made here is a placeholder:
    it is listed in `missing`, and raises `MissingError` when it is used. Runs what `values` says: only for
    values that are trusted. Raises `BundleError` if they are damaged.
    """
    with ExitStack() as undo:
        undo.enter_context(source.shown(sources))
        undo.callback(objects.forget_imports)
        objects.forget_imports()
        loading = Loading(sources, tensors, undo, main)
        modules.watch_imports(loading)
        root = _load(values, loading)
        yield Loaded(root, loading.missing, loading.touched)


def _load(values: bytes, loading: Loading) -> Any:
    reader = Unshipper(values, loading)
    try:
        root, item = reader.load(), reader.load()
        while item[0] != "lost":
            if item[0] == "fill":
                item[1](item[2], item[3])
            else:
                loading.keep.append(item[1])
            item = reader.load()
    except (pickle.UnpicklingError, EOFError) as error:
        absent = ", ".join(dict.fromkeys(one.name for one in loading.missing))
        if absent:  # pickle refuses what stands for a class of an absent package, such as a metaclass
            raise MissingError(f"the recorded values: they need {absent} ({error})") from error
        raise BundleError(f"values.pkl is damaged ({error}); record the failure again") from error
    except (
        Exception
    ) as error:  # a key's __hash__, an item's append: code of the user's that pickle calls by itself
        raise MissingError(
            f"the recorded values: making them raised {type(error).__name__}: {error}"
        ) from error
    loading.lost.extend(item[1])
    loading.missing.extend(Missing(*entry) for entry in item[1] if entry[2] != LEFT_OUT)
    for step in loading.last:
        step()
    loading.complete = True
    return root
