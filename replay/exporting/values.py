"""Objects to expressions: one writer for each kind, and a variable for what is met more than once.

Tensors and modules have rooms of their own. What no writer knows is refused by name.
"""

from __future__ import annotations

import ast
import collections
import enum
import functools
import re
import types
from collections.abc import Callable, Mapping
from typing import Any

from replay.exporting import expressions, modules, naming
from replay.exporting.definitions import Definitions
from replay.exporting.expressions import literal
from replay.exporting.transcript import RefusedError, Transcript
from replay.recorder.reach import ATOMS
from replay.shipping import Placeholder
from replay.shipping.placeholders import describe
from replay.torch_adapter import anatomy, features

HEAP_TYPE = 1 << 9
"""Of a class that was made by Python code (CPython's Py_TPFLAGS_HEAPTYPE)."""
IMMUTABLE_TYPE = 1 << 8
"""Of most classes that C code makes (CPython's Py_TPFLAGS_IMMUTABLETYPE)."""
_NAMED = (types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType, type)


class Values:
    """Writes objects down in one transcript."""

    def __init__(self, transcript: Transcript) -> None:
        self.transcript = transcript
        self.definitions = Definitions(transcript, self.write)

    def write(self, value: Any, path: str) -> ast.expr:
        """The expression of a value; `path` is how a refusal calls it. Raises RefusedError."""
        if isinstance(value, Placeholder):
            name, kind, reason = describe(value)
            raise RefusedError(f"{path} ({kind})", f"{name} is not in the recording: {reason}")
        if type(value) in ATOMS or type(value) in (complex,):
            return _atom(value, path)
        if isinstance(value, (*_NAMED, types.ModuleType)):
            return self._named(value, path)
        return self._once(value, path)

    def variable(self, value: Any, wanted: str) -> ast.expr:
        """The same under a name of its own; atoms stay as they are."""
        if type(value) in ATOMS or isinstance(value, (*_NAMED, types.ModuleType)):
            return self.write(value, wanted)
        found = self.write(value, wanted)
        if id(value) in self.transcript.known:
            return self.transcript.known[id(value)]
        return self.transcript.bind(value, found, wanted)

    def _named(self, value: Any, path: str) -> ast.expr:
        found = naming.by_import(self.transcript, value)
        if found is not None:
            return found
        if isinstance(value, types.FunctionType):
            return self.definitions.function(value, path)
        if isinstance(value, type):
            return self.definitions.class_(value, path)
        if isinstance(value, types.ModuleType):
            module = naming.module_by_import(self.transcript, value)
            if module is not None:
                return module
        owner = getattr(value, "__self__", None)
        if owner is not None and not isinstance(owner, types.ModuleType):
            return ast.Attribute(self.write(owner, path), value.__name__)
        raise RefusedError(path, f"a {type(value).__name__} that no import names")

    def _once(self, value: Any, path: str) -> ast.expr:
        """An object with an identity: a variable, where it is met again."""
        transcript = self.transcript
        if id(value) in transcript.known:
            return transcript.known[id(value)]
        if id(value) in transcript.under_way:
            raise RefusedError(path, "it holds itself, and an expression cannot")
        if id(value) in transcript.inside:
            owner, below = transcript.inside[id(value)]
            if owner in transcript.known:
                return expressions.along(transcript.known[owner], below)
            transcript.again.add(owner)
        elif id(value) in transcript.met:
            transcript.again.add(id(value))
        transcript.met.add(id(value))
        transcript.alive.append(value)
        transcript.under_way.append(id(value))
        try:
            made = self._object(value, path)
        finally:
            transcript.under_way.pop()
        if id(value) in transcript.shared and not isinstance(made, ast.Name):
            name = path.rpartition(".")[2]
            return transcript.bind(value, made, type(value).__name__.lower() if name.isdigit() else name)
        return made

    def _object(self, value: Any, path: str) -> ast.expr:
        if anatomy.is_tensor(value):
            self.transcript.need("torch")
            return self.transcript.tensor(value, path)
        if anatomy.is_module(value):
            self.transcript.need("torch")
            return modules.write(self, value, path)
        for kinds, writer in WRITERS:
            if isinstance(value, kinds):
                return writer(self, value, path)
        return self._plain(value, path)

    def _plain(self, value: Any, path: str) -> ast.expr:
        """An object with attributes and no constructor that is known."""
        torchs = _torchs(self, value)
        if torchs is not None:
            return torchs
        cls = type(value)
        if not naming.is_users(cls.__module__):
            reduced = _reduced(self, value, path)
            if reduced is not None:
                return reduced
        new: Any = cls.__new__
        plain = new is object.__new__ and _is_laid_out_plainly(cls)
        if not plain:
            raise RefusedError(f"{path} ({cls.__qualname__})", "an object of a kind that no expression makes")
        return modules.rebuilt(self, value, anatomy.attributes(value), path)


def _is_laid_out_plainly(cls: type) -> bool:
    """Whether all that its objects hold are attributes and slots: no base is a type of C's with data of its own."""
    return cls is not object and all(
        base is object or (base.__flags__ & HEAP_TYPE and not base.__flags__ & IMMUTABLE_TYPE)
        for base in cls.__mro__
    )


def _atom(value: Any, path: str) -> ast.expr:
    if isinstance(value, (range, slice)):
        kind = type(value).__name__
        return expressions.call(kind, [literal(one) for one in (value.start, value.stop, value.step)])
    if isinstance(value, bytearray):
        return expressions.call("bytearray", [literal(bytes(value))])
    try:
        return literal(value)
    except TypeError:
        raise RefusedError(path, f"a {type(value).__name__}") from None


def _sequence(values: Values, value: Any, path: str) -> ast.expr:
    items = [values.write(one, f"{path}[{at}]") for at, one in enumerate(value)]
    kind = type(value)
    if kind in (list, tuple):
        return expressions.sequence(kind, items)
    if kind.__module__ == "torch" and kind.__name__ == "Size":
        values.transcript.need("torch")
        return expressions.call("torch.Size", [ast.List(items)])
    if hasattr(kind, "_fields"):
        return expressions.call(
            values.write(kind, path), keywords=dict(zip(kind._fields, items, strict=True))
        )
    raise RefusedError(f"{path} ({kind.__qualname__})", "a sequence of a class of its own")


def _mapping(values: Values, value: Any, path: str) -> ast.expr:
    if type(value) not in (dict, collections.OrderedDict, collections.defaultdict):
        raise RefusedError(f"{path} ({type(value).__qualname__})", "a mapping of a class of its own")
    keys = [values.write(one, f"{path} (a key)") for one in value]
    items = [values.write(one, f"{path}[{key!r}]") for key, one in value.items()]
    made = ast.Dict(list(keys), items)
    if type(value) is dict:
        return made
    values.transcript.need("collections")
    if isinstance(value, collections.defaultdict):
        first = values.write(value.default_factory, path)
        return expressions.call("collections.defaultdict", [first, made])
    return expressions.call("collections.OrderedDict", [made])


def _set(values: Values, value: Any, path: str) -> ast.expr:
    items = [values.write(one, path) for one in sorted(value, key=repr)]
    if type(value) is set and items:
        return ast.Set(items)
    return expressions.call(type(value).__name__, [ast.List(items)] if items else [])


def _partial(values: Values, value: Any, path: str) -> ast.expr:
    values.transcript.need("functools")
    given = [values.write(one, f"{path}[{at}]") for at, one in enumerate((value.func, *value.args))]
    named = {name: values.write(one, f"{path}.{name}") for name, one in value.keywords.items()}
    return expressions.call("functools.partial", given, named)


def _method(values: Values, value: types.MethodType, path: str) -> ast.expr:
    return ast.Attribute(values.write(value.__self__, f"{path}.__self__"), value.__func__.__name__)


def _enum(values: Values, value: enum.Enum, path: str) -> ast.expr:
    cls = values.write(type(value), path)
    if value.name in type(value).__members__:
        return ast.Attribute(cls, value.name)
    return expressions.call(cls, [values.write(value.value, path)])  # several flags at once


def _namespace(values: Values, value: types.SimpleNamespace, path: str) -> ast.expr:
    values.transcript.need("types")
    held = {name: values.write(one, f"{path}.{name}") for name, one in vars(value).items()}
    return expressions.call("types.SimpleNamespace", keywords=held)


def _reduced(values: Values, value: Any, path: str) -> ast.expr | None:
    """An object of a library's as the call that its own pickling names (paths, dates); None if there is more to it."""
    if isinstance(value, re.Pattern):
        values.transcript.need("re")
        flags = value.flags & ~re.UNICODE.value if isinstance(value.pattern, str) else value.flags
        given = [literal(value.pattern), *([literal(flags)] if flags else [])]
        return expressions.call("re.compile", given)
    try:
        function, arguments, *state = value.__reduce_ex__(4)
    except Exception:  # noqa: BLE001 - an object that cannot be pickled
        return None
    if any(one is not None for one in state) or getattr(function, "__module__", "") == "copyreg":
        return None
    maker = naming.by_import(values.transcript, function)
    if maker is None:
        return None
    return expressions.call(maker, [values.write(one, path) for one in arguments])


def _torchs(values: Values, value: Any) -> ast.expr | None:
    """torch's own constants: dtypes, devices, layouts."""
    torch = features.module("torch")
    if isinstance(value, torch.device):
        values.transcript.need("torch")
        return expressions.call("torch.device", [literal(str(value))])
    if type(value).__module__ == "torch._ops":
        values.transcript.need("torch")
        return expressions.dotted(f"torch.ops.{value}".replace("::", "."))
    if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
        values.transcript.need("torch")
        return expressions.dotted(str(value))
    return None


Writer = Callable[[Values, Any, str], ast.expr]
WRITERS: tuple[tuple[Any, Writer], ...] = (
    (enum.Enum, _enum),
    ((list, tuple), _sequence),
    ((dict, Mapping), _mapping),
    ((set, frozenset), _set),
    (functools.partial, _partial),
    (types.MethodType, _method),
    (types.SimpleNamespace, _namespace),
)
