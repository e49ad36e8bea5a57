"""What a frame's code can reach, by names: a fixed point over code, functions, classes and objects.

An attribute is reached if any code that can run mentions its name; a method's code can run if its name is
mentioned, a module's `forward` if the module is handed to anything. Whoever lists what an object holds reaches
all of it. Code of torch and of the standard library is not read: torch's modules and containers count as reached
with all that they hold. Nothing is called, and no attribute is asked for.
"""

from __future__ import annotations

import functools
import sys
import types
import weakref
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from replay.recorder import frames
from replay.recorder.uses import uses_of
from replay.shipping.modules import imported
from replay.torch_adapter import anatomy

ATOMS = (bool, int, float, complex, str, bytes, bytearray, type(None), type(...), range, slice)
BUILDS = frozenset(
    {
        "__init__",
        "__new__",
        "__post_init__",
        "__init_subclass__",
        "__class_getitem__",
        "__set_name__",
        "__prepare__",
        "__del__",
        "__reduce__",
        "__reduce_ex__",
        "__getstate__",
        "__setstate__",
        "__getnewargs__",
        "__getnewargs_ex__",
        "__copy__",
        "__deepcopy__",
        "__repr__",
        "__str__",
        "__format__",
        "__dir__",
        "__sizeof__",
        "__subclasshook__",
        "__instancecheck__",
        "__annotate__",
    }
)
"""Methods that run only where an object is made, copied or printed; any other `__method__` may run unseen."""
MAKES = frozenset({"__init__", "__new__", "__post_init__"})
STANDARD = frozenset(
    sys.stdlib_module_names | {"torch", "triton", "functorch", "torchgen", "numpy", "replay"}
)


class Reach:
    """What is reached from the values that it is told of."""

    def __init__(self, divisible: Callable[[Any], bool]) -> None:
        """`divisible`: whether an object's attributes are reached one by one; else all are."""
        self.names: set[str] = set()
        self.anything = False
        self.whole: set[int] = set()  # ids of objects all of which is reached
        self.objects: dict[int, Any] = {}  # reached ones with attributes, by id
        self._divisible = divisible
        self._handed: set[str] = set()
        self._listed: set[str] = set()
        self._seen: set[int] = set()
        self._keep: list[Any] = []
        self._kinds: set[tuple[int, bool]] = set()
        self._attributes: dict[str, list[Any]] = defaultdict(list)  # not reached yet, by name
        self._under: dict[str, list[Any]] = defaultdict(list)  # reached objects, by the name they stand under
        self._called: set[int] = set()
        self._todo: deque[tuple[Any, str | None]] = deque()

    def add(self, value: Any, name: str | None = None) -> None:
        """Reach a value that code has under this name; None: in a way that is not looked at closely."""
        self._todo.append((value, name))
        while self._todo:
            self._visit(*self._todo.popleft())

    def _push(self, value: Any, name: str | None = None) -> None:
        if type(value) not in ATOMS:
            self._todo.append((value, name))

    def _visit(self, value: Any, name: str | None) -> None:
        if type(value) in ATOMS:
            return
        kind = type(value)
        if not issubclass(kind, (type, types.FunctionType, types.ModuleType)):
            self._stands_under(value, name)
        if id(value) in self._seen:
            return
        self._seen.add(id(value))
        self._keep.append(value)
        for kinds, visit in _VISITS:
            if issubclass(kind, kinds):  # not isinstance: `__class__` may lie
                visit(self, value)
                return
        self._object(value)

    def _function(self, value: types.FunctionType) -> None:
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=False):
            content = frames.content(cell)
            if name == "__class__" and isinstance(content, type):
                self._class(content, made=False)
            else:
                self._push(content, name)
        for held in (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()):
            self._push(held)
        for held in value.__dict__.values():
            self._push(held)
        if _top(value.__module__) in STANDARD:
            return
        uses = uses_of(value.__code__)
        self._learn(uses.names, uses.handed, uses.listed)
        if uses.anything and not self.anything:
            self._reach_anything()
        for name in uses.globals & value.__globals__.keys():
            self._push(value.__globals__[name], name)
        for statement in uses.imports:
            for module in imported(statement, value.__globals__):
                self._push(module)

    def _learn(self, names: Iterable[str], handed: Iterable[str], listed: Iterable[str]) -> None:
        for name in set(names) - self.names:
            self.names.add(name)
            for value in self._attributes.pop(name, ()):
                self._push(value, name)
        for name in set(handed) - self._handed:
            self._handed.add(name)
            for value in self._under.get(name, ()):
                self._call(value)
        for name in set(listed) - self._listed:
            self._listed.add(name)
            for value in self._under.get(name, ()):
                self._all_of(value)

    def _reach_anything(self) -> None:
        """From here on no attribute waits for its name."""
        self.anything = True
        self.whole.update(self.objects)
        for name, waiting in self._attributes.items():
            for value in waiting:
                self._push(value, name)
        self._attributes.clear()

    def _attribute(self, name: str, value: Any) -> None:
        if name in self.names or self.anything:
            self._push(value, name)
        elif type(value) not in ATOMS:
            self._attributes[name].append(value)

    def _stands_under(self, value: Any, name: str | None) -> None:
        if name is None or name in self._handed:
            self._call(value)
        if name in self._listed:
            self._all_of(value)
        if name is not None and (name not in self._handed or name not in self._listed):
            self._under[name].append(value)

    def _call(self, value: Any) -> None:
        """A module that is handed to anything may be called: its `forward` can run."""
        if id(value) in self._called or not anatomy.is_module(value):
            return
        self._called.add(id(value))
        for kind in type(value).__mro__:
            if _top(kind.__module__) not in STANDARD and "forward" in kind.__dict__:
                self._push(kind.__dict__["forward"])

    def _all_of(self, value: Any) -> None:
        """Somebody lists what the object holds: it, and all modules in it, are reached whole."""
        waiting = [value]
        while waiting:
            one = waiting.pop()
            if id(one) in self.whole:
                continue
            self.whole.add(id(one))
            self._keep.append(one)
            for held in anatomy.attributes(one).values():
                self._push(held)
            waiting += anatomy.submodules(one)

    def _class(self, cls: type, *, made: bool = True) -> None:
        """`made`: code has the class itself, and may make an object of it."""
        if (id(cls), made) in self._kinds:
            return
        self._kinds.add((id(cls), made))
        self._keep.append(cls)
        if type(cls) is not type and _top(type(cls).__module__) not in STANDARD:
            self._class(type(cls), made=False)
        for kind in cls.__mro__:
            if _top(kind.__module__) in STANDARD or kind is object:
                continue
            for name, member in kind.__dict__.items():
                if (name[:2] == "__" and name not in BUILDS) or (made and name in MAKES):
                    self._push(member, name)
                else:
                    self._attribute(name, member)

    def _module(self, value: types.ModuleType) -> None:
        if _top(value.__name__) not in STANDARD:
            for name, held in list(value.__dict__.items()):
                self._attribute(name, held)

    def _object(self, value: Any) -> None:
        if anatomy.is_tensor(value) and not value.__dict__ and _top(type(value).__module__) in STANDARD:
            return
        self.objects[id(value)] = value
        self._class(type(value), made=False)
        held = anatomy.attributes(value)
        if self.anything or not self._divisible(value):
            self.whole.add(id(value))
        for name, one in held.items():
            if id(value) in self.whole or name == "forward":
                self._push(one)
            else:
                self._attribute(name, one)

    def _items(self, value: Any) -> None:
        for item in list(value):
            self._push(item)
        self._more_than_items(value)

    def _pairs(self, value: Mapping[Any, Any]) -> None:
        for key, item in list(
            dict.items(cast(dict[Any, Any], value)) if issubclass(type(value), dict) else value.items()
        ):
            self._push(key)
            self._push(item)
        self._more_than_items(value)

    def _more_than_items(self, value: Any) -> None:
        if _top(type(value).__module__) != "builtins":
            self._class(type(value), made=False)
            for held in anatomy.attributes(value).values():
                self._push(held)


def _top(module: Any) -> str:
    return module.partition(".")[0] if isinstance(module, str) else ""


def _method(reach: Reach, value: types.MethodType) -> None:
    reach._push(value.__func__)
    code = getattr(value.__func__, "__code__", None)
    reach._push(value.__self__, code.co_varnames[0] if code is not None and code.co_argcount else None)


def _of(*names: str) -> Callable[[Reach, Any], None]:
    def visit(reach: Reach, value: Any) -> None:
        for name in names:
            reach._push(getattr(value, name, None))

    return visit


def _reference(reach: Reach, value: weakref.ref[Any]) -> None:
    reach._push(value())


def _cell(reach: Reach, value: types.CellType) -> None:
    reach._push(frames.content(value))


_VISITS: tuple[tuple[Any, Callable[[Reach, Any], None]], ...] = (
    (types.FunctionType, Reach._function),
    (types.MethodType, _method),
    (type, Reach._class),
    (types.ModuleType, Reach._module),
    ((dict, types.MappingProxyType), Reach._pairs),
    ((list, tuple, set, frozenset, deque), Reach._items),
    (functools.partial, _of("func", "args", "keywords", "__dict__")),
    (functools.partialmethod, _of("func", "args", "keywords")),
    (property, _of("fget", "fset", "fdel")),
    ((staticmethod, classmethod), _of("__func__")),
    (functools.cached_property, _of("func")),
    (weakref.ref, _reference),
    (types.CellType, _cell),
    ((types.BuiltinFunctionType, types.MethodWrapperType), _of("__self__")),
)
