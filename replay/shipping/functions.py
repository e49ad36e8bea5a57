"""Functions, code objects, cells and methods.

A function of the user's travels as its code, the globals, closure and attributes of modules that the code uses,
and its own attributes. A function that a library made (a decorator's inner function) travels as the place of its
code in the installed file.
"""

from __future__ import annotations

import functools
import marshal
import sys
from pathlib import Path as FilePath
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, get_args

from replay import source
from replay.errors import MissingError
from replay.shipping.dumping import Dumping, Reduced
from replay.shipping.loading import Loading, builder
from replay.shipping.modules import import_real, imported, used_of_modules
from replay.shipping.placeholders import Placeholder, missing_here
from replay.torch_adapter import objects

PLAIN = frozenset({"__name__", "__code__", "__globals__", "__closure__", "__builtins__", "__dict__"})


def found_by_name(module: str | None, qualified_name: str) -> Any:
    """What stands under this name in `sys.modules`; None if there is nothing."""
    found: Any = sys.modules.get(module or "")
    for part in qualified_name.split("."):
        try:
            found = getattr(found, part)
        except Exception:  # a lazy module may raise anything
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
    operators = objects.custom_ops(dumping.names_of(function.__code__).all)
    state = (used, modules, _attributes(dumping, function), operators)
    return dumping.reduce_late(make_function, arguments, fill_function, function, state)


def _used(dumping: Dumping, function: FunctionType) -> tuple[dict[str, Any], list[tuple[ModuleType, dict[str, Any]]]]:
    values = function.__globals__
    names = dumping.names_of(function.__code__)
    used = {name: values[name] for name in sorted(names.globals) if name in values}
    bound = function.__name__
    if values.get(bound) is function:
        used[bound] = function
    modules = [value for value in used.values() if isinstance(value, ModuleType)]
    modules.extend(_modules_in(function.__closure__ or ()))
    for statement in names.imports:
        modules.extend(imported(statement, values))
    return used, used_of_modules(dumping, modules, names) if modules else []


def _modules_in(cells: tuple[CellType, ...]) -> list[ModuleType]:
    found = []
    for cell in cells:
        try:
            value = cell.cell_contents
        except ValueError:  # an empty cell
            continue
        if isinstance(value, ModuleType):
            found.append(value)
    return found


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
        found = value.__dict__.get("__annotations__") if isinstance(value, type) else value.__annotations__
    except Exception:  # lazily evaluated ones may raise anything
        return {}
    if not isinstance(found, dict):
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
        return all(
            all(_is_harmless(dumping, inner) for inner in item) if isinstance(item, list) else _is_harmless(dumping, item)
            for item in arguments
        ) and not dumping.policy.by_value(type(annotation).__module__)
    if isinstance(annotation, type):
        return refers(dumping, annotation)
    return type(annotation).__module__ == "typing" and not hasattr(annotation, "__constraints__")


def _text(annotation: Any) -> str:
    if isinstance(annotation, type):
        return annotation.__qualname__
    try:
        return repr(annotation)
    except Exception:  # a user's object
        return "object"


@builder
def make_function(
    loading: Loading, code: Any, values: dict[str, Any], name: str, closure: tuple[CellType, ...] | None
) -> Any:
    if isinstance(code, Placeholder):
        return code
    return FunctionType(code, values, name, None, closure)


@builder
def fill_function(loading: Loading, function: Any, state: Reduced) -> None:
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


def reduce_code(dumping: Dumping, code: CodeType) -> Reduced:
    """As text and path; as the place in an installed file; marshalled where there is no such text."""
    values = dumping.owners.get(id(code))
    module = values.get("__name__") if values else None
    if isinstance(module, str) and values and not dumping.policy.by_value(module):
        reduced = _installed(code, module, values)
        if reduced is not None:
            return reduced
    located = _located(dumping, code, values)
    if located is not None:
        return make_code, (code.co_filename, located, source.future_flags(code))
    return make_marshalled, (tuple(sys.version_info[:2]), marshal.dumps(code), code.co_name)


def _located(dumping: Dumping, code: CodeType, values: dict[str, Any] | None) -> source.Path | None:
    """Where the code is in the file's text, which then travels; a text that is of no use travels for display."""
    rewritten = values is not None and source.is_rewritten(values)
    filename, known = code.co_filename, dumping.sources.get(code.co_filename)
    if known is not None:
        return source.locate(code, known, rewritten=rewritten)
    texts = list(source.texts(filename, values))
    for text in texts:
        path = source.locate(code, text, rewritten=rewritten)
        if path is not None:
            dumping.sources[filename] = text
            return path
    if texts:
        dumping.display.setdefault(filename, texts[0])
    return None


def _installed(code: CodeType, module: str, values: dict[str, Any]) -> Reduced | None:
    if values.get("__file__") != code.co_filename:
        return None
    for text in source.texts(code.co_filename, values):
        path = source.locate(code, text)
        if path is not None:
            return make_installed, (module, path, source.outline(code))
    return None


@builder
def make_code(loading: Loading, filename: str, path: source.Path, flags: int) -> Any:
    try:
        return source.extract(loading.sources[filename], filename, path, flags)
    except MissingError as error:
        return missing_here(loading, f"{filename}:{path[-1][0]}", "function", str(error))


@builder
def make_installed(loading: Loading, module: str, path: source.Path, outline: Any) -> Any:
    """A function inside an installed file, found by its name and its arguments."""
    name = f"{module}.{'.'.join(step[0] for step in path)}"
    found = import_real(loading, module)
    try:
        filename = found.__file__
        text = FilePath(filename).read_text(encoding="utf-8")
        return source.extract_similar(text, filename, path, outline)
    except (MissingError, OSError, UnicodeError, SyntaxError) as error:
        return missing_here(loading, name, "function", str(error))


@builder
def make_marshalled(loading: Loading, version: tuple[int, int], data: bytes, name: str) -> Any:
    if version == tuple(sys.version_info[:2]):
        return marshal.loads(data)
    recorded, here = ".".join(map(str, version)), ".".join(map(str, sys.version_info[:2]))
    reason = f"it was recorded as bytecode of Python {recorded}, and this is {here}; replay with Python {recorded}"
    return missing_here(loading, name, "function", reason)


def reduce_cell(dumping: Dumping, cell: CellType) -> Reduced:
    """Empty first, so that a function may refer to itself."""
    try:
        return make_cell, (), (cell.cell_contents,), None, None, fill_cell
    except ValueError:
        return make_cell, ()


@builder
def make_cell(loading: Loading) -> CellType:
    return CellType()


@builder
def fill_cell(loading: Loading, cell: CellType, state: Reduced) -> None:
    cell.cell_contents = state[0]


def reduce_method(dumping: Dumping, method: MethodType) -> Reduced:
    """A bound method, without asking the object for it again."""
    return make_method, (method.__func__, method.__self__)


@builder
def make_method(loading: Loading, function: Any, owner: Any) -> Any:
    return function if isinstance(function, Placeholder) else MethodType(function, owner)


def reduce_cached(dumping: Dumping, cached: Any) -> Any:
    """What `functools.lru_cache` made, with an empty cache."""
    if refers(dumping, cached):
        return NotImplemented
    parameters = cached.cache_parameters()
    state = {name: value for name, value in cached.__dict__.items() if name != "cache_parameters"}
    return make_cached, (cached.__wrapped__, parameters["maxsize"], parameters["typed"]), (state,), None, None, fill_cached


@builder
def make_cached(loading: Loading, function: Any, maxsize: int | None, typed: bool) -> Any:
    return function if isinstance(function, Placeholder) else functools.lru_cache(maxsize, typed)(function)


@builder
def fill_cached(loading: Loading, cached: Any, state: Reduced) -> None:
    if not isinstance(cached, Placeholder):
        cached.__dict__.update(state[0])
