"""Everything else: views, exceptions, descriptors, type variables, and any object that pickle can take.

What pickle can't take, or what raises when it is asked, is lost: a placeholder with the reason stands for it.
"""

from __future__ import annotations

import collections
import pickle
import sys
import types
import typing
from collections.abc import Set
from typing import Any

from replay.shipping import asking
from replay.shipping.dumping import LEFT_OUT, Dumping, LeftOut, Reduced
from replay.shipping.functions import found_by_name
from replay.shipping.loading import Loading, builder
from replay.shipping.placeholders import Placeholder, missing_here, reduce_lost
from replay.shipping.plain import (
    content_of,
    fill_plain,
    is_all_python,
    make_derived,
    make_plain,
    plain_state,
    simple_state,
)


def reduce_object(dumping: Dumping, value: Any) -> Any:
    """As the object itself says, checked; where that will not do, with its attributes as they are, or lost."""
    try:
        reduced = asking.asked(dumping, value)
    except asking.Refused as refused:
        return _reduce_unwilling(dumping, value, str(refused))
    if isinstance(reduced, str):
        return _reduce_named(dumping, value, reduced)
    problem = _problem(value, reduced)
    if problem or (_is_of_another_class(type(value), *reduced[:2]) and is_all_python(type(value))):
        return _reduce_unwilling(
            dumping, value, problem or "its __reduce_ex__ gives another class than its own"
        )
    names = dumping.leave(value)
    if names and len(reduced) > 2 and type(reduced[2]) is dict:
        reduced = (*reduced[:2], without(reduced[2], names), *reduced[3:])
    return _guarded(dumping, value, reduced)


def without(attributes: dict[str, Any], names: Set[str]) -> dict[str, Any]:
    """An object's attributes with marks in place of those that are left out.

    A left-out submodule, parameter or buffer is None in its table, where the compiler lists all that a module
    has, and the mark is an attribute, which Python looks at first: it meets whoever asks by name.
    """
    left = {key: LeftOut(one) if key in names and one is not None else one for key, one in attributes.items()}
    for table in ("_modules", "_parameters", "_buffers"):
        held = attributes.get(table)
        if isinstance(held, dict) and not names.isdisjoint(held):
            left[table] = {key: None if key in names else one for key, one in held.items()}
            left.update({key: LeftOut(one) for key, one in held.items() if key in names and one is not None})
    return left


def reduce_left_out(dumping: Dumping, mark: LeftOut) -> Reduced:
    """A placeholder."""
    return reduce_lost(dumping, mark.value, LEFT_OUT)


def _reduce_unwilling(dumping: Dumping, value: Any, reason: str) -> Reduced:
    """An object that pickle cannot get: one that is all Python and the user's travels without being asked."""
    cls = type(value)
    if dumping.policy.by_value(cls.__module__) and is_all_python(cls):
        return make_plain, (cls,), plain_state(value), None, None, fill_plain
    return reduce_lost(dumping, value, reason)


def _problem(value: Any, reduced: Any) -> str | None:
    if not isinstance(reduced, tuple) or not 2 <= len(reduced) <= 6:
        return "its __reduce_ex__ returned no tuple of two to six items"
    function, arguments = reduced[0], reduced[1]
    if not callable(function) or not isinstance(arguments, tuple):
        return "its __reduce_ex__ returned no function with arguments"
    if _is_new(function) and (not arguments or arguments[0] is not type(value)):
        return "its __reduce_ex__ gives another class than its own"
    if len(reduced) == 6 and reduced[5] is not None and not callable(reduced[5]):
        return "its __reduce_ex__ gives no function that sets its state"
    return None


def _is_new(function: Any) -> bool:
    """Whether pickle writes the call of this function as one of `__new__`."""
    return getattr(function, "__name__", "") in ("__newobj__", "__newobj_ex__")


def _is_of_another_class(cls: type, function: Any, arguments: tuple[Any, ...]) -> bool:
    """Whether the call plainly makes an object of an unrelated class."""
    if getattr(function, "__name__", "") == "__new__" and arguments:
        function = arguments[0]
    return isinstance(function, type) and not issubclass(function, cls) and not issubclass(cls, function)


def _defines(dumping: Dumping, cls: type, *names: str) -> bool:
    """Whether a class of the user's, among this one's bases, defines one of these names."""
    return any(
        name in base.__dict__ and dumping.policy.by_value(base.__module__)
        for base in cls.__mro__[:-1]
        for name in names
    )


def _is_plainly_made(dumping: Dumping, cls: type) -> bool:
    """Whether `object.__new__` makes it, and its class would have something to say about it or about its hash."""
    return is_all_python(cls) and _defines(dumping, cls, "__new__", "__hash__")


def _guarded(dumping: Dumping, value: Any, reduced: Reduced) -> Reduced:
    """Let what may raise while loading (the user's code, another version of a library) be called by us."""
    whole: list[Any] = [*reduced, *[None] * (6 - len(reduced))]
    function, arguments, state, items, pairs, setter = whole
    cls = type(value)
    if _is_new(function) and arguments == (cls,) and _is_plainly_made(dumping, cls):
        function, arguments = make_plain, (cls, simple_state(value))
    elif _is_new(function) and (content := content_of(value)) and _defines(dumping, cls, "__new__"):
        function, arguments = make_derived, (cls, *content)
    elif not _is_safe(function) or _defines(dumping, cls, "__new__", "__class__", "__getattribute__"):
        expected = (cls,) if dumping.policy.by_value(cls.__module__) else ()
        function, arguments = rebuild, (function, arguments, *expected)
    custom = hasattr(cls, "__setstate__") or dumping.policy.by_value(cls.__module__)
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


@builder
def rebuild(loading: Loading, function: Any, arguments: tuple[Any, ...], cls: Any = None) -> Any:
    """Call a function; what it raises makes the object missing, not the load fail.

    That it made no object of the class `cls`, which was recorded, is listed as missing.
    """
    try:
        made = function(*arguments)
        if isinstance(cls, type) and type(made) is not cls and not isinstance(made, Placeholder):
            reason = f"its own pickling made a {type(made).__qualname__} of it"
            loading.miss(f"an object of {cls.__qualname__}", "object", reason)
        return made
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


def reduce_memory(dumping: Dumping, view: memoryview) -> Reduced:
    """With a copy of the bytes that it shows; it shares them with nothing any more."""
    content = view.tobytes()
    return make_memory, (content if view.readonly else bytearray(content), view.format, view.shape)


@builder
def make_memory(loading: Loading, content: Any, kind: str, shape: tuple[int, ...]) -> memoryview:
    """A view of the copy, in the recorded format and shape."""
    return memoryview(content).cast("B").cast(kind, shape)  # type: ignore[call-overload, no-any-return]


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


def reduce_parameters(dumping: Dumping, value: Any) -> Reduced:
    """What annotates `*args` or `**kwargs`: the attribute of its ParamSpec."""
    return getattr, (value.__origin__, "args" if type(value) is typing.ParamSpecArgs else "kwargs")


def reduce_new_type(dumping: Dumping, value: Any) -> Any:
    """A NewType: by name where a library defines it."""
    if (
        not dumping.policy.by_value(value.__module__)
        and found_by_name(value.__module__, value.__name__) is value
    ):
        return NotImplemented
    return make_new_type, (value.__qualname__, value.__supertype__, value.__module__)


@builder
def make_new_type(loading: Loading, name: str, supertype: Any, module: str) -> Any:
    """A NewType again."""
    made: Any = typing.NewType(name, supertype)  # type: ignore[misc]
    made.__module__ = module
    return made


def reduce_struct(dumping: Dumping, value: Any) -> Reduced:
    """A compiled `struct`, by its format."""
    return type(value), (value.format,)


@builder
def make_type_variable(
    loading: Loading, cls: Any, name: str, constraints: tuple[Any, ...], options: Any
) -> Any:
    """A new TypeVar or ParamSpec."""
    return cls(name, *constraints, **options)
