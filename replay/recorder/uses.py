"""What a code object says of the values that it handles: which names it mentions, and what it may do beyond that.

Read from bytecode, over-approximated: a name counts wherever it stands. Nothing here looks at values.
"""

from __future__ import annotations

import dis
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType

from replay.shipping.names import Import, names_of

Token = tuple[str, str]
"""Kind and name of a step that matters: variable, global, attribute (looked up), place (set), text, or other."""

LISTS = frozenset(
    {
        "parameters",
        "named_parameters",
        "buffers",
        "named_buffers",
        "children",
        "named_children",
        "modules",
        "named_modules",
        "state_dict",
        "load_state_dict",
        "get_submodule",
        "get_parameter",
        "get_buffer",
        "zero_grad",
        "train",
        "eval",
        "extra_repr",
        "_apply",
        "_modules",
        "_parameters",
        "_buffers",
        "__dict__",
        "__getattribute__",
        "__getattr__",
        "__getstate__",
        "__reduce__",
        "__reduce_ex__",
    }
)
"""Attributes that lead to everything that an object holds."""
LISTS_IF_MODULE = frozenset(
    {
        "to",
        "cuda",
        "cpu",
        "float",
        "half",
        "double",
        "bfloat16",
        "type",
        "apply",
        "requires_grad_",
        "share_memory",
        "to_empty",
        "xpu",
        "compile",
    }
)
"""The same on a module; tensors and others have them too."""
OPENS = frozenset(
    {
        "vars",
        "dir",
        "eval",
        "exec",
        "globals",
        "locals",
        "deepcopy",
        "functional_call",
        "stack_module_state",
        "attrgetter",
        "methodcaller",
        "getmembers",
        "parameters_to_vector",
        "make_functional",
        "make_functional_with_buffers",
    }
)
"""Functions that find attributes whose names stand in no code."""
BY_NAME = frozenset({"getattr", "setattr", "hasattr", "delattr"})
"""Functions whose second argument is a name."""
LOOKS = BY_NAME | {"isinstance", "type", "id"}
"""Functions that only look at their first argument."""


@dataclass(frozen=True, slots=True)
class Uses:
    """What a code object and those in it may do."""

    names: frozenset[str]  # attributes, globals, and strings that could be names
    globals: frozenset[str]
    imports: tuple[Import, ...]
    handed: frozenset[str]  # variables and attributes that are used otherwise than to look into them at once
    listed: frozenset[str]  # attributes whose values it may ask for everything that they hold
    anything: bool  # it may reach whatever there is


@functools.lru_cache(maxsize=4096)
def uses_of(code: CodeType) -> Uses:
    """What `code` uses; nested code objects count as its own."""
    found = names_of(code)
    names, handed, listed = set(found.all), set[str](), set[str]()
    anything = False
    for one in _codes(code):
        texts = set(_texts(one))
        names |= texts
        handed |= texts  # what getattr finds may be put to any use
        tokens = [*_tokens(one), ("other", "")]
        handed.update(_handed(tokens))
        for name in _listed(tokens):
            anything |= name is None
            listed.update(() if name is None else (name,))
    return Uses(
        frozenset(names), found.globals, found.imports, frozenset(handed), frozenset(listed), anything
    )


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _texts(code: CodeType) -> Iterator[str]:
    """Names in constants: "decoder.layers", and the tuples of `match` and keyword arguments."""
    for constant in code.co_consts:
        for text in constant if isinstance(constant, tuple) else (constant,):
            if isinstance(text, str) and len(text) < 200:
                yield from (part for part in text.split(".") if part.isidentifier())


def _tokens(code: CodeType) -> Iterator[Token]:
    for one in dis.get_instructions(code):
        name, value = one.opname, one.argval
        if name in ("EXTENDED_ARG", "CACHE", "NOP", "RESUME", "PRECALL"):
            continue
        if name in ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"):
            yield "attribute", str(value)
        elif name in ("STORE_ATTR", "DELETE_ATTR"):
            yield "place", str(value)
        elif name in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield "global", str(value)
        elif name.startswith(
            ("LOAD_FAST", "LOAD_DEREF", "LOAD_CLOSURE", "LOAD_CLASSDEREF", "LOAD_FROM_DICT")
        ):
            yield from (("variable", str(part)) for part in (value if type(value) is tuple else (value,)))
        elif name == "STORE_FAST_LOAD_FAST":
            yield from (("other", ""), ("variable", str(value[1])))
        elif name in ("LOAD_CONST", "RETURN_CONST") and type(value) is str:
            yield "text", value
        else:
            yield "other", name


def _handed(tokens: list[Token]) -> Iterator[str]:
    first = ("other", "")
    for before, (kind, name), (after, _) in zip([first, *tokens], tokens, tokens[1:], strict=False):
        looked_at = before[0] == "global" and before[1] in LOOKS and kind == "variable"
        if (
            kind in ("variable", "global", "attribute")
            and after not in ("attribute", "place")
            and not looked_at
        ):
            yield name


def _listed(tokens: list[Token]) -> Iterator[str | None]:
    """Names of attributes that are listed; None for something that has no name here."""
    for at, (kind, name) in enumerate(tokens):
        before = tokens[at - 1] if at else ("other", "")
        if kind == "attribute" and name in LISTS:
            listed = before[0] == "attribute" and not before[1][:1].isupper()  # nn.Module.parameters(model)
            yield before[1] if listed else None
        elif kind == "attribute" and name in LISTS_IF_MODULE:
            if before[0] == "attribute":
                yield before[1]
            elif before[1] in ("self", "cls"):
                yield None
        elif name in {"global": OPENS, "attribute": OPENS, "text": LISTS | OPENS}.get(kind, ()):
            yield None
        elif kind == "global" and name in BY_NAME:
            yield from _by_name(tokens, at + 1)


def _by_name(tokens: list[Token], at: int) -> Iterator[str | None]:
    """Nothing for `getattr(a.b, "c")`; b for `getattr(a.b, c)`; None for what is less plain."""
    at += tokens[at] == ("other", "PUSH_NULL")
    after = _past_load(tokens, at)
    if after is None:
        yield None
    elif tokens[after][0] != "text" or not _is_called(tokens, after + 1):
        receiver, plain = tokens[after - 1], tokens[after][0] in ("text", "variable", "global")
        yield receiver[1] if plain and receiver[0] == "attribute" else None


def _is_called(tokens: list[Token], at: int) -> bool:
    """Whether the function is called now, or after one more plain argument: the text was a whole argument."""
    after = _past_load(tokens, at)
    return any(tokens[end][1].startswith("CALL") for end in (at, after) if end is not None)


def _past_load(tokens: list[Token], at: int) -> int | None:
    """The position after one value: a variable, a constant, or an attribute of one; None for anything else."""
    kind, name = tokens[at]
    if kind not in ("variable", "global", "text") and not name.startswith(("LOAD_CONST", "LOAD_SMALL_INT")):
        return None
    at += 1
    while tokens[at][0] == "attribute":
        at += 1
    return at
