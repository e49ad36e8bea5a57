"""Everything else: views, exceptions, descriptors, type variables, and any object that pickle can take.

What pickle can't take, or what raises when it is asked, is lost: a placeholder with the reason stands for it.
"""

from __future__ import annotations

import collections
import copyreg
import pickle
import sys
import types
import typing
from typing import Any

from replay.shipping.dumping import Dumping, Reduced
from replay.shipping.functions import found_by_name
from replay.shipping.loading import Loading, builder
from replay.shipping.placeholders import Placeholder, missing_here, reduce_lost

PROTOCOL = 4


def reduce_object(dumping: Dumping, value: Any) -> Any:
    """As the object itself says, checked: a reduce tuple that pickle would refuse makes the object lost."""
    registered = copyreg.dispatch_table.get(type(value))
    reduced = registered(value) if registered is not None else value.__reduce_ex__(PROTOCOL)
    if isinstance(reduced, str):
        return _reduce_named(dumping, value, reduced)
    problem = _problem(value, reduced)
    if problem:
        return reduce_lost(dumping, value, problem)
    return _guarded(dumping, value, reduced)


def _problem(value: Any, reduced: Any) -> str | None:
    if not isinstance(reduced, tuple) or not 2 <= len(reduced) <= 6:
        return "its __reduce_ex__ returned no tuple of two to six items"
    function, arguments = reduced[0], reduced[1]
    if not callable(function) or not isinstance(arguments, tuple):
        return "its __reduce_ex__ returned no function with arguments"
    new = getattr(function, "__name__", "") in ("__newobj__", "__newobj_ex__")
    if new and (not arguments or arguments[0] is not type(value)):
        return "its __reduce_ex__ gives another class than its own"
    return None


def _guarded(dumping: Dumping, value: Any, reduced: Reduced) -> Reduced:
    """Let what may raise while loading (the user's code, another version of a library) be called by us."""
    whole: list[Any] = [*reduced, *[None] * (6 - len(reduced))]
    function, arguments, state, items, pairs, setter = whole
    items = list(items) if items is not None else None
    pairs = list(pairs) if pairs is not None else None
    if not _is_safe(function):
        function, arguments = rebuild, (function, arguments)
    custom = hasattr(type(value), "__setstate__") or dumping.policy.by_value(type(value).__module__)
    if state is not None and setter is None and custom:
        setter = set_state
    if (
        dumping.shallow
        and state is not None
        and setter in (None, set_state)
        and items is None
        and pairs is None
    ):
        return dumping.reduce_late(function, arguments, fill_object, value, (state,))
    return (
        function,
        arguments,
        state,
        iter(items) if items is not None else None,
        iter(pairs) if pairs is not None else None,
        setter,
    )


def _is_safe(function: Any) -> bool:
    """Whether pickle may call it by itself: what the standard library makes its own objects with."""
    module = getattr(function, "__module__", None) or ""
    return function is not getattr and module.partition(".")[0] in sys.stdlib_module_names


def _reduce_named(dumping: Dumping, value: Any, name: str) -> Any:
    """An object that wants to be found by name: where that name is the user's, it travels with its state."""
    module = getattr(value, "__module__", None) or pickle.whichmodule(value, name)  # type: ignore[attr-defined]
    if (
        isinstance(module, str)
        and not dumping.policy.by_value(module)
        and found_by_name(module, name) is value
    ):
        dumping.policy.refer(module)
        return NotImplemented
    cls = type(value)
    if not dumping.policy.by_value(cls.__module__):
        return reduce_lost(dumping, value, f"it travels as {module}.{name} only, which is not it")
    return make_plain, (cls,), plain_state(value), None, None, fill_plain


def plain_state(value: Any) -> tuple[Any, dict[str, Any]]:
    """An object's `__dict__` and its slots."""
    slots = {}
    for name in copyreg._slotnames(type(value)):  # type: ignore[attr-defined]
        if hasattr(value, name):
            slots[name] = getattr(value, name)
    return dict(getattr(value, "__dict__", {})), slots


@builder
def make_plain(loading: Loading, cls: Any) -> Any:
    """An object without its `__init__`."""
    return cls.__new__(cls)


@builder
def rebuild(loading: Loading, function: Any, arguments: tuple[Any, ...]) -> Any:
    """Call a function; what it raises makes the object missing, not the load fail."""
    try:
        return function(*arguments)
    except Exception as error:  # noqa: BLE001 - the user's own
        name = getattr(function, "__qualname__", repr(function))
        return missing_here(
            loading, name, "object", f"making it again raised {type(error).__name__}: {error}"
        )


@builder
def set_state(loading: Loading, value: Any, state: Any) -> None:
    """As pickle sets a state, but without asking the object (a proxy's `__getattr__`) how."""
    if isinstance(value, Placeholder):
        return
    custom = getattr(type(value), "__setstate__", None)
    if custom is not None:
        try:
            custom(value, state)
        except Exception as error:  # noqa: BLE001 - the user's own
            name = f"{type(value).__qualname__}.__setstate__"
            loading.miss(name, "state", f"it raised {type(error).__name__}: {error}")
        return
    fill_plain(loading, value, state if isinstance(state, tuple) and len(state) == 2 else (state, None))


@builder
def fill_object(loading: Loading, value: Any, state: Reduced) -> None:
    """`set_state`, for a state that had to wait."""
    set_state(loading, value, state[0])


@builder
def fill_plain(
    loading: Loading, value: Any, state: tuple[dict[str, Any] | None, dict[str, Any] | None]
) -> None:
    """Set an object's `__dict__` and slots, whatever its class has to say."""
    attributes, slots = state
    if isinstance(value, Placeholder):
        return
    if attributes:
        object.__getattribute__(value, "__dict__").update(attributes)
    for name, content in (slots or {}).items():
        object.__setattr__(value, name, content)


def reduce_exception(dumping: Dumping, error: BaseException) -> Reduced:
    """Without its `__init__`, whose arguments need not be `args`; without traceback and causes."""
    return make_exception, (type(error), error.args), (dict(error.__dict__), {}), None, None, fill_plain


@builder
def make_exception(loading: Loading, cls: Any, arguments: tuple[Any, ...]) -> Any:
    """An exception with its `args`."""
    made = cls.__new__(cls, *arguments)
    if isinstance(made, BaseException):
        made.args = arguments
    return made


def reduce_proxy(dumping: Dumping, proxy: Any) -> Reduced:
    """Of a copy."""
    return types.MappingProxyType, (dict(proxy),)


def reduce_view(dumping: Dumping, view: Any) -> Reduced:
    """A dictionary's keys, values or items: those of a copy."""
    owner = collections.OrderedDict if type(view).__name__.startswith("odict") else dict
    name = type(view).__name__.rpartition("_")[2]
    content = owner.fromkeys(view) if name == "keys" else owner(view if name == "items" else enumerate(view))
    return getattr(owner, name), (content,)


def reduce_super(dumping: Dumping, value: Any) -> Reduced:
    """By its class and object."""
    owner = super.__getattribute__  # a super object forwards all else to the class that comes next
    bound = owner(value, "__self__")
    return super, (owner(value, "__thisclass__"),) if bound is None else (
        owner(value, "__thisclass__"),
        bound,
    )


def reduce_property(dumping: Dumping, value: Any) -> Reduced:
    """By its functions."""
    return type(value), (value.fget, value.fset, value.fdel, value.__doc__)


def reduce_wrapped(dumping: Dumping, value: Any) -> Reduced:
    """A staticmethod or classmethod, by its function."""
    return type(value), (value.__func__,)


def reduce_type_variable(dumping: Dumping, variable: Any) -> Any:
    """A TypeVar or ParamSpec: by name where a library defines it."""
    module, name = variable.__module__, variable.__name__
    if module and not dumping.policy.by_value(module) and found_by_name(module, name) is variable:
        return NotImplemented
    options = {
        "bound": getattr(variable, "__bound__", None),
        "covariant": variable.__covariant__,
        "contravariant": variable.__contravariant__,
    }
    return make_type_variable, (type(variable), name, getattr(variable, "__constraints__", ()), options)


def reduce_parameters_part(dumping: Dumping, part: Any) -> Reduced:
    """`P.args` or `P.kwargs` of a ParamSpec."""
    return getattr, (part.__origin__, "args" if isinstance(part, typing.ParamSpecArgs) else "kwargs")


@builder
def make_type_variable(
    loading: Loading, cls: Any, name: str, constraints: tuple[Any, ...], options: Any
) -> Any:
    """A new TypeVar or ParamSpec."""
    return cls(name, *constraints, **options)
