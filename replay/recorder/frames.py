"""A frame's code and variables: which are arguments, which globals it uses, how its code can travel.

Pure inspection of code objects and mappings; nothing here knows torch or files.
"""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any, Literal

from replay import source
from replay.errors import MissingError
from replay.torch_adapter import hooks

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and keyword arguments, as a call takes them."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a frame reads: its arguments in order, closure variables, and the globals that are data."""

    arguments: Arguments
    named: Mapping[str, Any]
    closure: Mapping[str, Any]
    globals: Mapping[str, Any]


def inputs_of(attempt: hooks.Attempt) -> Inputs:
    """The inputs of the frame of an attempt."""
    f_locals = dict(attempt.f_locals)
    return Inputs(
        arguments=arguments(attempt.code, f_locals),
        named={name: f_locals[name] for name in argument_names(attempt.code) if name in f_locals},
        closure=cells(attempt.code, attempt.closure),
        globals=dict(_data_globals(attempt.code, attempt.f_globals)),
    )


def argument_names(code: CodeType) -> tuple[str, ...]:
    """Names of all arguments, `*args` and `**kwargs` last, as the code object orders them."""
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_varnames[:count]


def arguments(code: CodeType, f_locals: Mapping[str, Any]) -> Arguments:
    """A call's arguments from the local variables at its first instruction. MissingError if one is gone."""
    names = code.co_varnames
    at = code.co_argcount + code.co_kwonlyargcount
    try:
        positional = [f_locals[name] for name in names[: code.co_argcount]]
        keywords = {name: f_locals[name] for name in names[code.co_argcount : at]}
        if code.co_flags & inspect.CO_VARARGS:
            positional += f_locals[names[at]]
            at += 1
        if code.co_flags & inspect.CO_VARKEYWORDS:
            keywords.update(f_locals[names[at]])
    except KeyError as error:
        raise MissingError(
            f"argument {error.args[0]!r} of {code.co_name!r} was deleted before it was recorded"
        ) from None
    return tuple(positional), keywords


def last_line(code: CodeType) -> int:
    """The last line of a code object, with what is nested in it."""
    lines = [line for _, _, line in code.co_lines() if line is not None]
    lines += [last_line(const) for const in code.co_consts if isinstance(const, CodeType)]
    return max(lines, default=code.co_firstlineno)


def code_kind(code: CodeType, texts: Mapping[str, str]) -> Literal["source", "installed", "bytecode"]:
    """How the code travels: as the text of a shipped file, of an installed one, or only marshalled."""
    text = texts.get(code.co_filename)
    if text is not None:
        return "source" if source.locate(code, text) is not None else "bytecode"
    installed = source.text_of(code.co_filename)
    return "installed" if installed is not None and source.locate(code, installed) is not None else "bytecode"


def names_used(code: CodeType) -> set[str]:
    """Every name that the code, or code nested in it, looks up."""
    names = set(code.co_names)
    for const in code.co_consts:
        if isinstance(const, CodeType):
            names |= names_used(const)
    return names


def cells(code: CodeType, closure: Iterable[CellType]) -> dict[str, Any]:
    """Closure variables by name, without those that are not assigned yet."""
    found = {}
    for name, cell in zip(code.co_freevars, closure, strict=False):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue
    return found


def content(cell: CellType) -> Any:
    """What a cell holds; None if it is not assigned yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _data_globals(code: CodeType, f_globals: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name in sorted(names_used(code)):
        if name in f_globals and not hasattr(builtins, name):
            value = f_globals[name]
            if not isinstance(value, (ModuleType, FunctionType, type)) and not inspect.isbuiltin(value):
                yield name, value
