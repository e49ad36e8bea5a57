"""Functions, cells and methods.

A function of the user's travels as its code, the globals, closure and attributes of modules that the code uses,
and its own attributes. How its code object travels is the business of `codes.py`.
"""

from __future__ import annotations

import functools
import inspect
import sys
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any, get_args

from replay.shipping.dumping import Dumping, Reduced
from replay.shipping.loading import Loading, builder
from replay.shipping.modules import imported, used_of_modules
from replay.shipping.placeholders import Placeholder
from replay.torch_adapter import operators

PLAIN = frozenset({"__name__", "__code__", "__globals__", "__closure__", "__builtins__", "__dict__"})


def found_by_name(module: str | None, qualified_name: str) -> Any:
    """What stands under this name in `sys.modules`; None if there is nothing."""
    found: Any = sys.modules.get(module or "")
    for part in qualified_name.split("."):
        try:
            found = getattr(found, part)
        except Exception:  # noqa: BLE001 - a lazy module may raise anything
            return None
    return found


def refers(dumping: Dumping, value: Any) -> bool:
    """Whether a function or class of an installed module can be sent by its name; notes the module if so."""
    module = value.__module__
    if dumping.policy.by_value(module) or found_by_name(module, value.__qualname__) is not value:
        return False
    dumping.policy.refer(module)
    return True


def reduce_function(dumping: Dumping, function: FunctionType) -> Any:
    """By name, or by value with what its code uses."""
    if refers(dumping, function):
        return NotImplemented
    values = function.__globals__
    dumping.owners[id(function.__code__)] = values
    namespace = dumping.namespace(values)
    arguments = (function.__code__, namespace, function.__name__, function.__closure__)
    owned = namespace.module is None or dumping.policy.by_value(values.get("__name__"))
    used, modules = _used(dumping, function) if owned else ({}, [])
    reached = operators.named_in(dumping.names_of(function.__code__).all)
    state = (used, modules, _attributes(dumping, function), reached)
    return dumping.reduce_late(make_function, arguments, fill_function, function, state)


def _used(
    dumping: Dumping, function: FunctionType
) -> tuple[dict[str, Any], list[tuple[ModuleType, dict[str, Any]]]]:
    values = function.__globals__
    names = dumping.names_of(function.__code__)
    used = {name: values[name] for name in sorted(names.globals) if name in values}
    bound = function.__name__
    if values.get(bound) is function:
        used[bound] = function
    modules = [value for value in used.values() if isinstance(value, ModuleType)]
    modules.extend(_modules_in(function))
    for statement in names.imports:
        modules.extend(imported(statement, values))
    return used, used_of_modules(dumping, modules, names) if modules else []


def _modules_in(function: FunctionType) -> list[ModuleType]:
    """The modules among a function's closure variables and defaults."""
    values = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    for cell in function.__closure__ or ():
        try:
            values.append(cell.cell_contents)
        except ValueError:  # an empty cell
            continue
    return [value for value in values if isinstance(value, ModuleType)]


def _attributes(dumping: Dumping, function: FunctionType) -> dict[str, Any]:
    found: dict[str, Any] = {
        "__qualname__": function.__qualname__,
        "__module__": function.__module__,
        "__defaults__": function.__defaults__,
        "__kwdefaults__": function.__kwdefaults__,
        "__annotations__": annotations_of(dumping, function),
        "__doc__": function.__doc__,
        "__type_params__": getattr(function, "__type_params__", None),
    }
    attributes = {name: value for name, value in found.items() if value}
    if function.__dict__:
        attributes["__dict__"] = dict(function.__dict__)
    return attributes


def annotations_of(dumping: Dumping, value: Any) -> dict[str, Any]:
    """A function's or class's own annotations; those that would drag in the user's code become strings."""
    try:
        found = inspect.get_annotations(value)
    except Exception:  # noqa: BLE001 - lazily evaluated ones may raise anything
        return {}
    return {name: harmless_annotation(dumping, annotation) for name, annotation in found.items()}


def harmless_annotation(dumping: Dumping, annotation: Any) -> Any:
    """The annotation itself if it refers to installed things only, else its text."""
    return annotation if _is_harmless(dumping, annotation) else _text(annotation)


def _is_harmless(dumping: Dumping, annotation: Any) -> bool:
    if annotation is None or annotation is ... or isinstance(annotation, (str, int)):
        return True
    arguments = get_args(annotation)
    if arguments:
        inner = [part for item in arguments for part in (item if isinstance(item, list) else [item])]
        return all(_is_harmless(dumping, part) for part in inner)
    if isinstance(annotation, type):
        return refers(dumping, annotation)
    return type(annotation).__module__ == "typing" and not hasattr(annotation, "__constraints__")


def _text(annotation: Any) -> str:
    if isinstance(annotation, type):
        return annotation.__qualname__
    try:
        return repr(annotation)
    except Exception:  # noqa: BLE001 - a user's object
        return "object"


@builder
def make_function(
    loading: Loading, code: Any, values: dict[str, Any], name: str, closure: tuple[CellType, ...] | None
) -> Any:
    """The function without what it uses; a placeholder where there is no code for it."""
    if isinstance(code, Placeholder):
        return code
    return FunctionType(code, values, name, None, closure)


@builder
def fill_function(loading: Loading, function: Any, state: Reduced) -> None:
    """Give it its globals and attributes, and the modules that it reaches theirs."""
    used, modules, attributes, *_ = state
    fill_modules(modules)
    if isinstance(function, Placeholder):
        return
    function.__globals__.update(used)
    for name, value in attributes.items():
        if name == "__dict__":
            function.__dict__.update(value)
        else:
            setattr(function, name, value)


def fill_modules(modules: list[tuple[Any, dict[str, Any]]]) -> None:
    """Give synthetic modules the attributes that a function uses of them."""
    for module, attributes in modules:
        if attributes and isinstance(module, ModuleType):
            module.__dict__.update(attributes)


def reduce_cell(dumping: Dumping, cell: CellType) -> Reduced:
    """Empty first, so that a function may refer to itself."""
    try:
        return make_cell, (), (cell.cell_contents,), None, None, fill_cell
    except ValueError:
        return make_cell, ()


@builder
def make_cell(loading: Loading) -> CellType:
    """An empty cell."""
    return CellType()


@builder
def fill_cell(loading: Loading, cell: CellType, state: Reduced) -> None:
    """Put in what the cell held."""
    cell.cell_contents = state[0]


def reduce_method(dumping: Dumping, method: MethodType) -> Reduced:
    """A bound method, without asking the object for it again."""
    return make_method, (method.__func__, method.__self__)


@builder
def make_method(loading: Loading, function: Any, owner: Any) -> Any:
    """Bind the function."""
    return function if isinstance(function, Placeholder) else MethodType(function, owner)


def reduce_cached_property(dumping: Dumping, value: Any) -> Reduced:
    """By its function: what else it holds differs from version to version."""
    return make_cached_property, (value.func, value.attrname)


@builder
def make_cached_property(loading: Loading, function: Any, name: str | None) -> Any:
    """A cached property that knows its name."""
    made: Any = functools.cached_property(function)
    made.attrname = name
    return made


def reduce_cached(dumping: Dumping, cached: Any) -> Any:
    """What `functools.lru_cache` made, with an empty cache."""
    if refers(dumping, cached):
        return NotImplemented
    parameters = cached.cache_parameters()
    state = {name: value for name, value in cached.__dict__.items() if name != "cache_parameters"}
    arguments = (cached.__wrapped__, parameters["maxsize"], parameters["typed"])
    return make_cached, arguments, (state,), None, None, fill_cached


@builder
def make_cached(loading: Loading, function: Any, maxsize: int | None, typed: bool) -> Any:
    """An empty cache around the function."""
    return function if isinstance(function, Placeholder) else functools.lru_cache(maxsize, typed)(function)


@builder
def fill_cached(loading: Loading, cached: Any, state: Reduced) -> None:
    """Give it its attributes."""
    if not isinstance(cached, Placeholder):
        cached.__dict__.update(state[0])
