"""Classes that Python writes in part itself: enums, named tuples, dataclasses, protocols.

What Python generated is generated again, because its code has no text and differs from version to version;
the user's own attributes and methods are set afterwards. No `__init__`, `__new__` or `__post_init__` of the
user's runs.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import inspect
import re
import types
import typing
from typing import Any

from replay.shipping.dumping import Dumping, Namespace, Reduced
from replay.shipping.functions import annotations_of, harmless_annotation
from replay.shipping.loading import Loading, builder

ENUM_GENERATED = frozenset(
    {"__new__", "__dict__", "__weakref__", "__module__", "__qualname__", "__doc__", "__annotations__"}
)
ENUM_PRIVATE = re.compile(r"_(?!missing_$)[a-z]\w*_")  # EnumMeta's own records
ENUM_VALUES = (types.FunctionType, types.DynamicClassAttribute, property, classmethod, staticmethod)
MEMBER_STATE = frozenset({"_value_", "_name_", "__objclass__", "_sort_order_", "_inverted_"})
PARAMETERS = ("init", "repr", "eq", "order", "unsafe_hash", "frozen")
FIELD_PARAMETERS = ("init", "repr", "hash", "compare", "kw_only", "default", "default_factory")
PSEUDO_FIELDS = ("_FIELD_CLASSVAR", "_FIELD_INITVAR")


def is_enum(cls: type) -> bool:
    """Whether the class is an enum."""
    return isinstance(cls, enum.EnumMeta)


def is_named_tuple(cls: Any) -> bool:
    """Whether collections.namedtuple or typing.NamedTuple made this very class."""
    return cls.__bases__ == (tuple,) and "_fields" in cls.__dict__ and "_field_defaults" in cls.__dict__


def reduce_enum(dumping: Dumping, cls: Any, namespace: Namespace | None) -> Reduced:
    """Names, data and values of the members; then methods, and what the user added to the members."""
    members = [(name, _data(cls, member), member._value_) for name, member in cls.__members__.items()]
    inherited = [base.__dict__ for base in cls.__mro__[1:]]
    values = {
        name: value
        for name, value in cls.__dict__.items()
        if name not in cls.__members__
        and (name not in ENUM_GENERATED and not ENUM_PRIVATE.fullmatch(name))
        and not any(base.get(name) is value for base in inherited)
        and isinstance(value, ENUM_VALUES)
    }
    states = {
        name: {key: value for key, value in member.__dict__.items() if key not in MEMBER_STATE}
        for name, member in cls.__members__.items()
        if name == member._name_
    }
    arguments = (type(cls), cls.__name__, cls.__bases__, members, cls.__module__, cls.__qualname__, namespace)
    bind = cls.__name__ if "." not in cls.__qualname__ else None
    state = (
        values,
        states,
        getattr(cls, "_boundary_", None),
        cls.__doc__,
        annotations_of(dumping, cls),
        bind,
    )
    return dumping.reduce_late(make_enum, arguments, fill_enum, cls, state)


def _data(cls: Any, member: Any) -> Any:
    """What makes the member again without the user's `__new__`: its data where it has any, else its value."""
    kind = cls._member_type_
    if kind in (int, str, float, bytes, complex, tuple, frozenset):
        return kind(member) if kind is not str else str.__str__(member)
    return member._value_


@builder
def make_enum(  # noqa: PLR0917 - the stream calls it by position
    loading: Loading,
    meta: Any,
    name: str,
    bases: tuple[type, ...],
    members: list[tuple[str, Any, Any]],
    module: str,
    qualified_name: str,
    namespace: dict[str, Any] | None,
) -> Any:
    """The enum with its members; what the user added to them follows."""
    module = namespace["__name__"] if namespace is not None else module
    library = next(base for base in meta.__mro__ if id(base) not in loading.made)
    body = enum.EnumMeta.__prepare__(name, bases)
    body["__module__"], body["__qualname__"] = module, qualified_name
    for member, data, value in members:
        body[member] = data if _is_plain(value, data) else (data,)
    made = library.__new__(meta, name, bases, body)
    for member, _, value in members:
        found = made._member_map_[member]
        if found._value_ != value:
            made._value2member_map_.pop(found._value_, None)
            found._value_ = value
            with_hash(made._value2member_map_, value, found)
    loading.made.add(id(made))
    loading.keep.append(made)
    return made


def _is_plain(value: Any, data: Any) -> bool:
    return not isinstance(data, tuple) or value is data


def with_hash(table: dict[Any, Any], key: Any, value: Any) -> None:
    """Enter a value under its key, if the key can be one."""
    try:
        table[key] = value
    except TypeError:
        return


@builder
def fill_enum(loading: Loading, cls: Any, state: Reduced) -> None:
    """Give the enum its methods, and the members their attributes."""
    values, states, boundary, doc, annotations, bind, *_ = state
    for name, value in values.items():
        type.__setattr__(cls, name, value)
    for name, attributes in states.items():
        cls._member_map_[name].__dict__.update(attributes)
    if boundary is not None and hasattr(cls, "_boundary_"):
        type.__setattr__(cls, "_boundary_", boundary)
    type.__setattr__(cls, "__doc__", doc)
    if annotations:
        type.__setattr__(cls, "__annotations__", annotations)
    if bind and cls.__module__ in loading.modules:
        loading.modules[cls.__module__].__dict__.setdefault(bind, cls)


def reduce_member(dumping: Dumping, member: Any) -> Reduced:
    """An enum member by its name; a combination of flags by its value."""
    cls = type(member)
    if member._name_ in cls.__members__:
        return make_member, (cls, member._name_)
    return cls, (member._value_,)


@builder
def make_member(loading: Loading, cls: Any, name: str) -> Any:
    """The member of that name; of a missing enum, a missing object."""
    return cls._member_map_[name] if hasattr(cls, "_member_map_") else cls(name)


def reduce_named_tuple(dumping: Dumping, cls: Any, namespace: Namespace | None) -> Reduced:
    """Fields and defaults; then what the user added."""
    plain = collections.namedtuple("plain", cls._fields)  # type: ignore[misc]
    values = {
        name: value
        for name, value in cls.__dict__.items()
        if name not in plain.__dict__ and name not in ("__orig_bases__", "__annotations__", "__annotate__")
    }
    defaults = tuple(cls._field_defaults.values())
    arguments = (cls.__name__, cls._fields, defaults, cls.__module__, cls.__qualname__, namespace)
    state = (values, cls.__doc__, annotations_of(dumping, cls))
    return dumping.reduce_late(make_named_tuple, arguments, fill_named_tuple, cls, state)


@builder
def make_named_tuple(  # noqa: PLR0917 - the stream calls it by position
    loading: Loading,
    name: str,
    fields: tuple[str, ...],
    defaults: tuple[Any, ...],
    module: str,
    qualified_name: str,
    namespace: dict[str, Any] | None,
) -> Any:
    """The class, as collections.namedtuple makes it."""
    module = namespace["__name__"] if namespace is not None else module
    made: Any = collections.namedtuple(name, fields, defaults=defaults, module=module)  # type: ignore[misc]
    made.__qualname__ = qualified_name
    if namespace is not None and "." not in qualified_name:
        namespace.setdefault(name, made)
    loading.made.add(id(made))
    return made


@builder
def fill_named_tuple(loading: Loading, cls: Any, state: Reduced) -> None:
    """Give the class the user's methods."""
    values, doc, annotations, *_ = state
    for name, value in {**values, "__doc__": doc}.items():
        type.__setattr__(cls, name, value)
    if annotations:
        type.__setattr__(cls, "__annotations__", annotations)


def split_dataclass(
    dumping: Dumping, cls: Any, values: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The attributes that the user wrote, and what `dataclasses.dataclass` needs to write the others again."""
    settings = values["__dataclass_params__"]
    fields = [_field(dumping, field) for field in values["__dataclass_fields__"].values()]
    kept = {
        name: value
        for name, value in values.items()
        if name not in ("__dataclass_params__", "__dataclass_fields__", "__replace__")
        and not _is_generated(value)
    }
    if kept.get("__hash__", 0) is None:
        del kept["__hash__"]
    parameters = {name: getattr(settings, name) for name in PARAMETERS}
    return kept, {"parameters": parameters, "fields": fields}


def _field(dumping: Dumping, field: Any) -> tuple[str, str, Any, dict[str, Any]]:
    kind = next((name for name in PSEUDO_FIELDS if field._field_type is getattr(dataclasses, name)), "")
    settings = {
        name: value
        for name in FIELD_PARAMETERS
        if (value := getattr(field, name, dataclasses.MISSING)) is not dataclasses.MISSING
    }
    if field.metadata:
        settings["metadata"] = dict(field.metadata)
    if kind == "_FIELD_CLASSVAR":
        settings = {}
    annotation = field.type.type if isinstance(field.type, dataclasses.InitVar) else field.type
    return field.name, kind, harmless_annotation(dumping, annotation), settings


def _is_generated(value: Any) -> bool:
    if not isinstance(value, types.FunctionType):
        return False
    return bool(inspect.unwrap(value).__code__.co_filename == "<string>")


def decorate_dataclass(cls: Any, recipe: dict[str, Any]) -> None:
    """Let `dataclasses` write its methods again; the class ends with the attributes that it had before."""
    own = {name: cls.__dict__[name] for name, *_ in recipe["fields"] if name in cls.__dict__}
    annotations: dict[str, Any] = {}
    for name, kind, annotation, settings in recipe["fields"]:
        annotations[name] = _annotation(kind, annotation)
        if kind != "_FIELD_CLASSVAR":
            type.__setattr__(cls, name, dataclasses.field(**settings))
    type.__setattr__(cls, "__annotations__", annotations)
    dataclasses.dataclass(**recipe["parameters"])(cls)
    type.__delattr__(cls, "__annotations__")
    for name in annotations:
        if name in own:
            type.__setattr__(cls, name, own[name])
        elif name in cls.__dict__:
            type.__delattr__(cls, name)
    for name, _, annotation, _ in recipe["fields"]:
        cls.__dataclass_fields__[name].type = annotation


def _annotation(kind: str, annotation: Any) -> Any:
    if kind == "_FIELD_CLASSVAR":
        return typing.ClassVar
    return dataclasses.InitVar(annotation) if kind == "_FIELD_INITVAR" else object


def finish_protocol(cls: Any) -> None:
    """Let `typing` note what a protocol asks for, now that it has its members; since Python 3.12 it does."""
    note = type(cls).__dict__.get("__init__") if type(cls).__module__ == "typing" else None
    if note is not None:
        note(cls, cls.__name__, cls.__bases__, {})
    if cls.__dict__.get("_is_runtime_protocol"):
        typing.runtime_checkable(cls)
