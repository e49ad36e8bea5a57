"""Modules: the user's come back as synthetic modules, others are imported.

A synthetic module's `__dict__` is what its functions have as globals. While the loaded values are in use it
stands in `sys.modules`, because Dynamo imports a module by name when it inlines across modules. Afterwards
`sys.modules` is as it was.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from replay.shipping.dumping import Dumping, Namespace, Reduced
from replay.shipping.loading import Loading, builder
from replay.shipping.names import Import, Names
from replay.shipping.placeholders import missing_here
from replay.torch_adapter import objects

MARK = "__replay_synthetic__"
DESCRIBING = ("__name__", "__file__", "__package__", "__doc__", "__version__")
OWN = frozenset(
    {"__builtins__", "__loader__", "__spec__", "__path__", "__cached__", "__name__", "__dict__", *DESCRIBING}
)

_ABSENT = object()


class SyntheticModule(ModuleType):
    """A module with only what the recording has of it."""

    __slots__ = ("_replay_loading",)  # not in the `__dict__`, which functions have as globals

    def __init__(self, name: str, loading: Loading) -> None:
        super().__init__(name)
        self._replay_loading = loading

    def __getattr__(self, name: str) -> Any:
        """Raise as any module does, and note what was asked for."""
        if not name.startswith("__"):
            self._replay_loading.touch(f"{self.__name__}.{name}")
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")


class Watcher:
    """An import finder that finds nothing: it notes what is imported from recorded packages and is not there."""

    def __init__(self, loading: Loading) -> None:
        self._loading = loading

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """As the last finder that Python asks, note the name."""
        if name.partition(".")[0] in self._loading.modules:
            self._loading.touch(name)


def watch_imports(loading: Loading) -> None:
    """Note imports that fail, until the load ends."""
    watcher = Watcher(loading)
    sys.meta_path.append(watcher)
    loading.undo.callback(sys.meta_path.remove, watcher)


def reduce_module(dumping: Dumping, module: ModuleType) -> Reduced:
    """By name, or as a synthetic module: what it holds comes with the functions that use it."""
    name = module.__name__
    if not dumping.policy.by_value(name):
        dumping.policy.refer(name)
        return import_real, (name,)
    if name not in dumping.foreseen:
        dumping.loose[name] = module
    return module_of, (dumping.namespace(module.__dict__, module),)


def reduce_namespace(dumping: Dumping, namespace: Namespace) -> Reduced:
    """A function's globals: those of a real module, of a synthetic one, or of none."""
    values = namespace.values
    name = values.get("__name__")
    if namespace.module is None:
        return make_globals, (_description(values),)
    if not dumping.policy.by_value(name):
        dumping.policy.refer(str(name))
        return real_globals, (name,)
    dumping.shipped.setdefault(str(name))
    parent = sys.modules.get(str(name).rpartition(".")[0])
    above = (
        dumping.namespace(parent.__dict__) if parent and dumping.policy.by_value(parent.__name__) else None
    )
    description = _description(values)
    spec = values.get("__spec__")
    if isinstance(spec, ModuleSpec):
        description["__spec__"] = spec.name
    return synthetic_globals, (name, description, "__path__" in values, above)


def used_of_modules(
    dumping: Dumping, modules: list[ModuleType], names: Names
) -> list[tuple[ModuleType, dict[str, Any]]]:
    """What code with these names may ask of modules that it reaches: of the user's, the attributes."""
    found: list[tuple[ModuleType, dict[str, Any]]] = []
    seen: set[str] = set()
    todo = list(modules)
    while todo:
        module = todo.pop()
        if module.__name__ in seen:
            continue
        seen.add(module.__name__)
        if dumping.policy.by_value(module.__name__):
            dumping.foreseen.add(module.__name__)
            attributes = attributes_of(module, names.all)
            found.append((module, attributes))
            todo.extend(value for value in attributes.values() if isinstance(value, ModuleType))
        else:
            below = [sys.modules.get(f"{module.__name__}.{name}") for name in names.all]
            todo.extend(child for child in below if isinstance(child, ModuleType))
            found.append((module, {}))
    return found


def attributes_of(module: ModuleType, names: frozenset[str] | set[str]) -> dict[str, Any]:
    """What a user's module holds under these names; its `__getattr__` where it may be asked for the others."""
    values = module.__dict__
    found = {name: values[name] for name in sorted(names) if name in values and name not in OWN}
    if "__getattr__" in values:
        found["__getattr__"] = values["__getattr__"]
    return found


def unsent_attributes(
    dumping: Dumping, sent: dict[str, set[str]]
) -> Iterator[tuple[ModuleType, dict[str, Any]]]:
    """Of modules that are reached as data: what any shipped code may ask of them, beyond what was `sent`.

    Of modules that Dynamo knows by name: what it asks of them.
    """
    for name in dumping.shipped.keys() & objects.ASKED_BY_DYNAMO.keys() - sent.keys():
        sent[name] = set(objects.ASKED_BY_DYNAMO[name])
        yield sys.modules[name], attributes_of(sys.modules[name], sent[name])
    for name, module in list(dumping.loose.items()):
        used = dumping.used - sent.setdefault(name, set())
        sent[name] |= used
        found = attributes_of(module, used)
        if found:
            yield module, found


def imported(statement: Import, namespace: dict[str, Any]) -> list[ModuleType]:
    """The modules that an import inside a function leads to, as far as they have been imported."""
    name = statement.module
    if statement.level:
        package = namespace.get("__package__") or namespace.get("__name__", "")
        try:
            name = importlib.util.resolve_name("." * statement.level + name, str(package))
        except ImportError:
            return []
    parts = name.split(".")
    whole = [sys.modules.get(".".join(parts[: end + 1])) for end in range(len(parts))]
    return [module for module in whole if isinstance(module, ModuleType)]


@builder
def import_real(loading: Loading, name: str) -> Any:
    """An installed module; a placeholder where it can't be imported here."""
    try:
        return importlib.import_module(name)
    except Exception as error:  # noqa: BLE001 - whatever a broken package raises
        return missing_here(loading, name, "module", f"{type(error).__name__}: {error}")


@builder
def real_globals(loading: Loading, name: str) -> dict[str, Any]:
    """The globals of an installed module; nearly empty ones where it can't be imported here."""
    module = import_real(loading, name)
    return module.__dict__ if isinstance(module, ModuleType) else {"__builtins__": builtins, "__name__": name}


@builder
def make_globals(loading: Loading, description: dict[str, Any]) -> dict[str, Any]:
    """Globals that belong to no module (a program that was `exec`ed in a dictionary)."""
    return {**description, "__builtins__": builtins.__dict__}


@builder
def synthetic_globals(
    loading: Loading, name: str, description: dict[str, Any], is_package: bool, parent: dict[str, Any] | None
) -> dict[str, Any]:
    """The globals of the synthetic module `name`; the first call makes it and puts it in `sys.modules`."""
    name = loading.main if name == "__main__" else name
    found = loading.modules.get(name)
    if found is None:
        found = _make(loading, name, {**description, "__name__": name}, is_package)
    return found.__dict__


@builder
def module_of(loading: Loading, values: dict[str, Any]) -> Any:
    """The module that has these globals."""
    return loading.modules.get(values["__name__"]) or sys.modules[values["__name__"]]


@builder
def fill_module(loading: Loading, module: ModuleType, state: tuple[Any, ...]) -> None:
    """Give a module what the end of the dump found that it may be asked for."""
    module.__dict__.update(state[0])


def _description(values: dict[str, Any]) -> dict[str, Any]:
    return {name: values[name] for name in DESCRIBING if isinstance(values.get(name), str)}


def _make(loading: Loading, name: str, description: dict[str, Any], is_package: bool) -> ModuleType:
    module = SyntheticModule(name, loading)
    spec_name = description.pop("__spec__", None)
    module.__dict__.update(description)
    module.__dict__["__builtins__"] = builtins if name == "__main__" else builtins.__dict__
    if spec_name is not None:
        module.__spec__ = ModuleSpec(
            spec_name, None, origin=description.get("__file__"), is_package=is_package
        )
    if is_package:
        module.__path__ = []  # only what was recorded can be imported from it
    module.__dict__[MARK] = True
    loading.modules[name] = module
    _stand_in(loading, name, module)
    _attach(loading, name, module)
    return module


def _stand_in(loading: Loading, name: str, module: ModuleType) -> None:
    loading.undo.callback(_put_back, sys.modules, name, sys.modules.get(name, _ABSENT))
    sys.modules[name] = module


def _attach(loading: Loading, name: str, module: ModuleType) -> None:
    """Make the module an attribute of its parent: a synthetic one, a real one, or one made for it."""
    parent_name, _, child = name.rpartition(".")
    if not parent_name:
        return
    parent = loading.modules.get(parent_name) or _importable(parent_name)
    if parent is None:
        parent = _make(loading, parent_name, {"__name__": parent_name, "__package__": parent_name}, True)
    if parent_name not in loading.modules:
        loading.undo.callback(_put_back, parent.__dict__, child, parent.__dict__.get(child, _ABSENT))
    setattr(parent, child, module)


def _importable(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except Exception:  # noqa: BLE001 - absent, or broken: a synthetic package will do
        return None


def _put_back(values: dict[str, Any], name: str, before: object) -> None:
    if before is _ABSENT:
        values.pop(name, None)
    else:
        values[name] = before
