"""Modules to expressions: by their constructor where that makes the same module again, else by their attributes.

A constructor's arguments are not recorded. They are guessed from attributes of the same names, and the guess is
tried: what it makes must have the same attributes, submodules, parameters and buffers, by kind and shape. The rest
is made without a constructor, by `rebuild` in the exported file.
"""

from __future__ import annotations

import ast
import inspect
import random
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from replay.exporting import expressions, naming
from replay.exporting.expressions import literal
from replay.exporting.layout import REBUILD
from replay.exporting.transcript import RefusedError
from replay.shipping import Placeholder
from replay.torch_adapter import anatomy, features, likeness

if TYPE_CHECKING:
    from replay.exporting.values import Values


def write(values: Values, module: Any, path: str) -> ast.expr:
    """The expression of a torch.nn.Module."""
    if anatomy.hooks(module):
        raise RefusedError(path, "a module with hooks")
    cls, transcript = values.write(type(module), path), values.transcript
    mode = likeness.mode(module)
    if mode == "mixed" and not module.training:
        raise RefusedError(path, "a module in evaluation mode that holds one in training mode")
    outermost, transcript.in_eval = not transcript.in_eval, transcript.in_eval or mode == "eval"
    made = _container(values, module, cls, path) or _constructed(values, module, cls)
    if made is None:
        made = rebuilt(values, module, likeness.attributes(module), path)
    transcript.in_eval = transcript.in_eval and not outermost
    return expressions.method(made, "eval") if mode == "eval" and outermost else made


def rebuilt(values: Values, value: Any, attributes: Mapping[str, Any], path: str) -> ast.expr:
    """An object by its class and its attributes. What is not in the recording is left out."""
    held = {}
    for name, one in attributes.items():
        if isinstance(one, Placeholder):
            values.transcript.notes.append(f"{path}.{name} is left out: the recording does not have it")
        elif not name.isidentifier():
            raise RefusedError(f"{path}.{name}", "an attribute whose name is none in Python")
        else:
            held[name] = values.write(one, f"{path}.{name}")
    if anatomy.is_module(value):
        held.update(_buffers(value, held))
    values.transcript.rebuilds = True
    values.transcript.need("torch")
    values.transcript.take(REBUILD, "the function that makes objects without their constructors")
    return expressions.call(REBUILD, [values.write(type(value), path)], held)


def _buffers(module: Any, held: Mapping[str, ast.expr]) -> dict[str, ast.expr]:
    """Those attributes that are buffers, so marked that setting them registers them."""
    return {
        name: expressions.call(
            "torch.nn.Buffer", [held[name]], {} if persistent else {"persistent": literal(False)}
        )
        for name, persistent in likeness.buffers(module).items()
        if name in held and not isinstance(held[name], ast.Constant)
    }


def _container(values: Values, module: Any, cls: ast.expr, path: str) -> ast.expr | None:
    """torch's own containers: their submodules are their arguments."""
    torch = features.module("torch")
    held = likeness.attributes(module)
    if not _is_ones_own(module, held):
        return None
    items = {name: values.write(one, f"{path}.{name}") for name, one in held.items()}
    in_order = list(items) == [str(at) for at in range(len(items))]
    if type(module) is torch.nn.Sequential and in_order:
        return expressions.call(cls, list(items.values()))
    if type(module) is torch.nn.ModuleList and in_order:
        return expressions.call(cls, [ast.List(list(items.values()))])
    if type(module) in (torch.nn.ModuleDict, torch.nn.Sequential):
        keys: list[ast.expr | None] = [literal(name) for name in items]
        made: ast.expr = ast.Dict(keys, list(items.values()))
        if type(module) is torch.nn.Sequential:
            values.transcript.need("collections")
            made = expressions.call("collections.OrderedDict", [made])
        return expressions.call(cls, [made])
    return None


def _is_ones_own(module: Any, held: Mapping[str, Any]) -> bool:
    """Whether it holds submodules alone."""
    torch = features.module("torch")
    kinds = (torch.nn.Sequential, torch.nn.ModuleList, torch.nn.ModuleDict)
    return type(module) in kinds and all(anatomy.is_module(one) for one in held.values())


def _constructed(values: Values, module: Any, cls: ast.expr) -> ast.expr | None:
    """The call of its class, if one with guessed arguments makes the same module."""
    if values.transcript.exact:
        return None
    arguments = _guessed(module)
    if arguments is None:
        return None
    try:
        state = _random_state()
        try:
            candidate = type(module)(**arguments)
        finally:
            _set_random_state(state)
    except Exception:  # noqa: BLE001 - a wrong guess
        return None
    alike = likeness.compare(module, candidate)
    if alike is None:
        return None
    held = {id(one) for path, one in alike.held if path}
    if held & values.transcript.known.keys():
        return None  # some of it is an object that the program has already
    values.transcript.again |= held & values.transcript.met
    if alike.changed and not naming.is_users(type(module).__module__):
        return None  # what torch's constructors set is derived from their arguments
    made = _call(module, cls, arguments)
    made = _moved(values, made, module, candidate)
    for path, one in alike.held:
        if path:
            values.transcript.inside[id(one)] = (id(module), path)
            values.transcript.alive.append(one)
    values.transcript.seeded |= likeness.has_parameters(module)
    return _changed(values, module, made, alike.changed)


def _changed(values: Values, module: Any, made: ast.expr, changed: list[tuple[str, Any]]) -> ast.expr:
    """The same with attributes set that have another value than the constructor gave them."""
    if not changed:
        return made
    made = values.transcript.bind(module, made, type(module).__name__.lower())
    for path, value in changed:
        target = expressions.along(made, path)
        values.transcript.statements.append(
            f"{expressions.flat(target)} = {expressions.flat(literal(value))}"
        )
    return made


def _guessed(module: Any) -> dict[str, Any] | None:
    """The constructor's arguments, from attributes of the same names; those that are the defaults are left out."""
    try:
        parameters = list(inspect.signature(type(module)).parameters.values())
    except (TypeError, ValueError):
        return None
    held, found = likeness.attributes(module), {}
    for one in parameters:
        if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD) or one.name in ("device", "dtype"):
            continue
        value = held.get(one.name, one.default)
        if one.name == "bias" and isinstance(one.default, bool):
            value = value is not None and value is not False
        if value is one.empty:
            return None
        if value is one.default or _equal(value, one.default):
            continue
        try:
            literal(value)
        except TypeError:
            return None
        found[one.name] = value
    return found


def _call(module: Any, cls: ast.expr, arguments: Mapping[str, Any]) -> ast.expr:
    """Arguments without a default by position, the others by name."""
    parameters = inspect.signature(type(module)).parameters.values()
    wanted = [
        one.name
        for one in parameters
        if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD and one.name in arguments
    ]
    named = {name: literal(one) for name, one in arguments.items() if name not in wanted}
    return expressions.call(cls, [literal(arguments[name]) for name in wanted], named)


def _equal(one: Any, other: Any) -> bool:
    return type(one) is type(other) and isinstance(one, (bool, int, float, str, tuple)) and bool(one == other)


def _moved(values: Values, made: ast.expr, module: Any, candidate: Any) -> ast.expr:
    """To the device and dtype of its parameters, and frozen where they are."""
    device, dtype, frozen = likeness.differences(module, candidate)
    if device is not None:
        made = expressions.method(made, "to", literal(device))
    if dtype is not None:
        made = expressions.method(made, "to", expressions.dotted(dtype))
    return expressions.method(made, "requires_grad_", literal(False)) if frozen else made


def _random_state() -> tuple[Any, Any]:
    return random.getstate(), features.module("torch").get_rng_state()


def _set_random_state(state: tuple[Any, Any]) -> None:
    random.setstate(state[0])
    features.module("torch").set_rng_state(state[1])
