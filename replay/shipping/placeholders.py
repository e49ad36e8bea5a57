"""What stands for an object that could not travel, and for a class or function whose package is absent.

A placeholder can be passed around, compared and printed. Whoever uses it gets a `MissingError` that names it,
and the load's `touched` list says so: also when `isinstance` looks at it, which is what Dynamo does to a value
that a frame really uses.
"""

from __future__ import annotations

from typing import Any, NoReturn

from replay.errors import MissingError
from replay.shipping.dumping import Dumping, Reduced
from replay.shipping.loading import Loading, builder

USES = (
    *("call", "iter", "next", "len", "getitem", "setitem", "delitem", "contains", "bool", "enter"),
    *("exit", "await", "aiter", "anext", "aenter", "aexit", "int", "float", "complex", "index"),
    *("bytes", "get", "set", "lt", "le", "gt", "ge", "neg", "pos", "abs", "invert", "round"),
    *("reversed", "fspath", "length_hint"),
)
OPERATORS = ("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "divmod", "pow")
BITWISE = ("lshift", "rshift", "and", "or", "xor")
PROBED = ("_torchdynamo", "_dynamo", "_is_", "_ipython", "_repr_")  # what libraries ask any object for


class Placeholder:
    """An object that is missing. Only `describe` may look inside."""

    __slots__ = ("__weakref__", "_loading", "_number", "_subject")

    def __init__(self, loading: Loading, number: int, subject: tuple[str, str, str] | None = None) -> None:
        """`subject` is name, type, reason; without it, they are the load's `lost` under `number`."""
        for name, value in (("_loading", loading), ("_number", number), ("_subject", subject)):
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        name, kind, _ = describe(self)
        return f"<missing {name} ({kind})>"

    def __getattribute__(self, name: str) -> Any:
        if name == "__class__":
            _loading(self).touch(describe(self)[0])
        return object.__getattribute__(self, name)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__") or name.startswith(PROBED):
            raise AttributeError(name)
        use(self)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        use(self)

    def __reduce_ex__(self, protocol: object) -> Reduced:
        return reduce_again(self)


def describe(placeholder: Placeholder) -> tuple[str, str, str]:
    """Name, type and reason."""
    subject: tuple[str, str, str] | None = object.__getattribute__(placeholder, "_subject")
    if subject is not None:
        return subject
    number: int = object.__getattribute__(placeholder, "_number")
    lost = _loading(placeholder).lost
    return lost[number] if number < len(lost) else (f"object {number}", "unknown", "it is still being loaded")


def use(placeholder: Placeholder) -> NoReturn:
    """Note that the placeholder was needed, and raise `MissingError`."""
    name, kind, reason = describe(placeholder)
    _loading(placeholder).touch(name)
    raise MissingError(f"{name} ({kind}) is missing: {reason}")


def reduce_again(placeholder: Placeholder) -> Reduced:
    """A placeholder travels as one, with its name."""
    return make_known_placeholder, describe(placeholder)


def reduce_lost(dumping: Dumping, value: object, reason: str) -> Reduced:
    """What stands for `value` in the stream."""
    return make_placeholder, (dumping.lose(value, reason),)


@builder
def make_placeholder(loading: Loading, number: int) -> Placeholder:
    """The placeholder of the dump's lost object `number`."""
    return Placeholder(loading, number)


@builder
def make_known_placeholder(loading: Loading, name: str, kind: str, reason: str) -> Placeholder:
    """A placeholder that knows its own name; it is listed as missing."""
    loading.miss(name, kind, reason)
    return Placeholder(loading, 0, (name, kind, reason))


def missing_here(loading: Loading, name: str, kind: str, reason: str) -> Placeholder:
    """A placeholder for what this machine lacks; it is listed as missing."""
    return make_known_placeholder(loading, name, kind, reason)


class MissingType(type):
    """The type of classes that stand for a class or function of an absent package."""

    _replay_loading: Loading
    _replay_name: str
    _replay_reason: str

    def __call__(cls, *args: object, **kwargs: object) -> Any:
        """Make a missing object while loading; afterwards the call is a use."""
        if cls._replay_loading.complete:
            use_type(cls)
        made: Any = cls.__new__(cls, *args, **kwargs)  # type: ignore[call-overload]
        return made

    def __getattr__(cls, name: str) -> NoReturn:
        if name.startswith("__") or name.startswith(PROBED) or not cls._replay_loading.complete:
            raise AttributeError(name)
        use_type(cls)

    def __instancecheck__(cls, instance: object) -> bool:
        return type.__instancecheck__(cls, instance) or use_type(cls)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return type.__subclasscheck__(cls, subclass)

    def __repr__(cls) -> str:
        return f"<missing {cls._replay_name}>"


class MissingObject(Placeholder, metaclass=MissingType):
    """Base of the missing classes; what is unpickled into an instance is dropped."""

    __slots__ = ()

    def __new__(cls, *args: object, **kwargs: object) -> MissingObject:
        """Take anything."""
        made = object.__new__(cls)
        name = cls._replay_name
        Placeholder.__init__(made, cls._replay_loading, 0, (f"an object of {name}", name, cls._replay_reason))
        return made

    def __init__(self, *args: object, **kwargs: object) -> None:
        """Take anything."""

    def __setstate__(self, *state: object) -> None:
        """Drop the state, however many parts a C type has of it."""

    def append(self, item: object) -> None:
        """Drop what a list subclass would hold."""

    def extend(self, items: object) -> None:
        """The same."""


def missing_type(loading: Loading, module: str, name: str, reason: str) -> type:
    """A class that stands for `module.name`, which cannot be imported here; it is listed as missing."""
    full = f"{module}.{name}"
    loading.miss(full, "import", reason)
    values = {"_replay_loading": loading, "_replay_name": full, "_replay_reason": reason}
    made = MissingType(name.rpartition(".")[2], (MissingObject,), {**values, "__module__": module})
    loading.made.add(id(made))
    return made


def use_type(cls: MissingType) -> NoReturn:
    """As `use`, for a missing class."""
    cls._replay_loading.touch(cls._replay_name)
    raise MissingError(f"{cls._replay_name} is not on this machine: {cls._replay_reason}")


def _loading(placeholder: Placeholder) -> Loading:
    found: Loading = object.__getattribute__(placeholder, "_loading")
    return found


def _raises() -> Any:
    def method(self: Placeholder, *args: object, **kwargs: object) -> NoReturn:
        use(self)

    return method


def _unless_loading() -> Any:
    def method(self: Placeholder, *args: object, **kwargs: object) -> None:
        if _loading(self).complete:
            use(self)

    return method


for _name in (*USES, *OPERATORS, *BITWISE):
    setattr(Placeholder, f"__{_name}__", _raises())
for _name in (*OPERATORS, *BITWISE):
    setattr(Placeholder, f"__r{_name}__", _raises())
    setattr(Placeholder, f"__i{_name}__", _raises())
type.__setattr__(MissingObject, "__setitem__", _unless_loading())
