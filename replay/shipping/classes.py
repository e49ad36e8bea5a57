"""Classes: a skeleton first, so that methods can refer to it, then what it holds.

No code of the user's runs when a class is made again: no metaclass, no `__init_subclass__`, no `__set_name__`,
no decorator. What a library's metaclass does is done again. Enums, named tuples and dataclasses are in
`generated.py`, because Python writes part of them itself.
"""

from __future__ import annotations

import sys
import types
from typing import Any

from replay.shipping import generated
from replay.shipping.dumping import Dumping, Namespace, Reduced
from replay.shipping.functions import annotations_of, found_by_name, refers
from replay.shipping.loading import Loading, builder
from replay.shipping.placeholders import Placeholder, reduce_lost
from replay.torch_adapter import objects

HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made by a class statement
MADE_ANEW = frozenset(
    {
        *(
            "__dict__",
            "__weakref__",
            "__module__",
            "__qualname__",
            "__slots__",
            "__orig_bases__",
            "__parameters__",
        ),
        *(
            "_abc_impl",
            "__annotations__",
            "__annotate__",
            "__annotate_func__",
            "__annotations_cache__",
            "__doc__",
        ),
        *("__static_attributes__", "__abstractmethods__", "__init_subclass__", "__type_params__"),
        *("__protocol_attrs__", "__non_callable_proto_members__", "__callable_proto_members_only__"),
    }
)
IN_SKELETON = ("__doc__", "__orig_bases__", "__parameters__", "__type_params__")
HIDDEN_TYPES: dict[str, type] = {
    "dict_keys": type({}.keys()),
    "dict_values": type({}.values()),
    "dict_items": type({}.items()),
    "list_iterator": type(iter([])),
    "tuple_iterator": type(iter(())),
}


class Delegate:
    """Stands in a new class for its `__class__` property, which can neither be set nor be made before the class."""

    target: Any = None

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """As the property does."""
        return self.target.__get__(instance, owner)


SLOTS = (types.MemberDescriptorType, types.GetSetDescriptorType)


def reduce_class(dumping: Dumping, cls: Any) -> Any:
    """By name, or by value."""
    if refers(dumping, cls):
        return NotImplemented
    if not cls.__flags__ & HEAP_TYPE:
        return _reduce_builtin(dumping, cls)
    dumping.classes[id(cls)] = cls
    if generated.is_enum(cls):
        return generated.reduce_enum(dumping, cls, _namespace(dumping, cls))
    if generated.is_named_tuple(cls):
        return generated.reduce_named_tuple(dumping, cls, _namespace(dumping, cls))
    arguments = (type(cls), cls.__name__, cls.__bases__, _skeleton(cls), _namespace(dumping, cls))
    return dumping.reduce_late(make_class, arguments, fill_class, cls, _state(dumping, cls))


def unsent_subclasses(dumping: Dumping) -> list[type]:
    """Subclasses that the code will look for by `__subclasses__`, and that nothing else refers to."""
    if "__subclasses__" not in dumping.used:
        return []
    found: list[type] = []
    for cls in dumping.classes.values():
        below: list[type] = type.__subclasses__(cls)
        found.extend(below)
    return [
        cls for cls in found if id(cls) not in dumping.classes and dumping.policy.by_value(cls.__module__)
    ]


def _reduce_builtin(dumping: Dumping, cls: type) -> Any:
    if cls in (type(None), type(...), type(NotImplemented)):
        return NotImplemented  # pickle knows them
    name = next((name for name, value in vars(types).items() if value is cls), None)
    if name is not None:
        return getattr, (types, name)
    if cls in HIDDEN_TYPES.values():
        return make_hidden_type, (cls.__name__,)
    return reduce_lost(dumping, cls, "a type of a compiled module that its module does not name")


@builder
def make_hidden_type(loading: Loading, name: str) -> type:
    """A type of Python's own that no module names."""
    return HIDDEN_TYPES[name]


def _namespace(dumping: Dumping, cls: type) -> Namespace | None:
    """The globals of the class's module, where that travels by value."""
    module = sys.modules.get(cls.__module__)
    if isinstance(module, types.ModuleType) and dumping.policy.by_value(cls.__module__):
        return dumping.namespace(module.__dict__)
    return None


def _skeleton(cls: type) -> dict[str, Any]:
    values = cls.__dict__
    skeleton: dict[str, Any] = {"__module__": cls.__module__, "__qualname__": cls.__qualname__}
    skeleton.update({name: values[name] for name in IN_SKELETON if values.get(name) is not None})
    if "__class__" in values:
        skeleton["__class__"] = None  # a property; see Delegate
    if "__slots__" in values:
        slots = values["__slots__"]
        skeleton["__slots__"] = (slots,) if isinstance(slots, str) else tuple(slots)
    return skeleton


def _state(dumping: Dumping, cls: Any) -> Reduced:
    dropped = MADE_ANEW | objects.REMADE_CLASS_ATTRIBUTES
    values = {
        name: value
        for name, value in cls.__dict__.items()
        if name not in dropped and not _is_slot(cls, value) and not _is_typings(value)
    }
    extras: dict[str, Any] = {}
    if "__dataclass_params__" in values:
        values, extras["dataclass"] = generated.split_dataclass(dumping, cls, values)
    annotations = annotations_of(dumping, cls)
    if annotations:
        extras["annotations"] = annotations
    if "__abstractmethods__" in cls.__dict__:
        extras["abstract"] = cls.__abstractmethods__
    if "__init_subclass__" in cls.__dict__:
        extras["init_subclass"] = cls.__dict__["__init_subclass__"]
    registration = objects.pytree_registration(cls)
    if registration is not None:
        extras["pytree"] = registration
    if found_by_name(cls.__module__, cls.__qualname__) is cls and "." not in cls.__qualname__:
        extras["bind"] = cls.__name__
    return values, extras


def _is_slot(cls: type, value: Any) -> bool:
    return isinstance(value, SLOTS) and value.__objclass__ is cls


def _is_typings(value: Any) -> bool:
    """What `typing` puts into a protocol when it is derived, here and when it is made again."""
    function = getattr(value, "__func__", value)
    return isinstance(function, types.FunctionType) and function.__globals__.get("__name__") == "typing"


@builder
def make_class(  # noqa: PLR0917 - the stream calls it by position
    loading: Loading,
    meta: type,
    name: str,
    bases: tuple[type, ...],
    skeleton: dict[str, Any],
    namespace: dict[str, Any] | None,
) -> Any:
    """The class, still empty."""
    if namespace is not None:
        skeleton["__module__"] = namespace["__name__"]
    if "__class__" in skeleton:
        skeleton["__class__"] = Delegate()
    made = _assembled(loading, meta, name, bases, skeleton)
    loading.made.add(id(made))
    loading.keep.append(made)
    return made


def _assembled(
    loading: Loading, meta: type, name: str, bases: tuple[type, ...], skeleton: dict[str, Any]
) -> Any:
    """As the nearest metaclass of a library makes it; where that refuses, as `type` does."""
    library = next(base for base in meta.__mro__ if id(base) not in loading.made)
    try:
        made: Any = library.__new__(meta, name, bases, dict(skeleton))
        library.__init__(made, name, bases, dict(skeleton))  # type: ignore[misc]
    except Exception:  # noqa: BLE001 - it wants more than a skeleton
        made = type.__new__(meta, name, bases, dict(skeleton))
    return made


@builder
def fill_class(loading: Loading, cls: Any, state: Reduced) -> None:
    """Give the class its attributes; what would run while classes are derived from it comes last."""
    values, extras, *_ = state
    if isinstance(cls, Placeholder):
        return
    for name, value in values.items():
        if name == "__class__":
            cls.__dict__[name].target = value
        else:
            type.__setattr__(cls, name, value)
    if "dataclass" in extras:
        generated.decorate_dataclass(cls, extras["dataclass"])
    if values.get("_is_protocol"):
        generated.finish_protocol(cls)
    if "annotations" in extras:
        type.__setattr__(cls, "__annotations__", extras["annotations"])
    if "abstract" in extras:
        type.__setattr__(cls, "__abstractmethods__", extras["abstract"])
    if "init_subclass" in extras:
        loading.last.append(lambda: type.__setattr__(cls, "__init_subclass__", extras["init_subclass"]))
    if "pytree" in extras:
        loading.undo.callback(objects.register_pytree(cls, extras["pytree"]))
    if "bind" in extras and cls.__module__ in loading.modules:
        loading.modules[cls.__module__].__dict__.setdefault(extras["bind"], cls)
