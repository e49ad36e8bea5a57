"""What loading the values would import and call, read from their opcodes: nothing is unpickled.

What replay's own writer writes is counted; what it does not write is an alarm. A replay also runs the functions
that travel in the values: those are listed, and their text is in the bundle. Bytecode cannot be read here.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field

from replay import opcodes
from replay.bundle import Bundle
from replay.bundle.layout import VALUES
from replay.contents.powers import group_of, power_of
from replay.findings.imports import Alarm, Code, Imported, Imports
from replay.opcodes import Made, Name, Step, Unknown, Value
from replay.shipping import is_builder

MOST_NAMES, MOST_ALARMS, MOST_FUNCTIONS = 5_000, 100, 5_000
NESTED = 3  # pickles inside pickles that are read

_CLASS_MAKERS = frozenset(
    {
        "make_class",
        "make_enum",
        "make_named_tuple",
        "make_hidden_type",
        "make_function",
        "make_special_tensor",
    }
)
"""Builders whose results the stream may call: the user's classes, and functions that the user's pickling names."""

_CHANGERS = ("fill_", "set_state")
_REAL = frozenset({"import_real", "real_globals"})

_GETATTR = Name("builtins", "getattr")
_DILL = "dill._dill"
_DESCRIPTION = re.compile(r"<[a-z ]+ '\w+' of '[\w.]+' objects>")
"""What dill gives `_getattr` for a descriptor; it evaluates a part of the text, so that any other is an alarm."""


def imports_of(bundle: Bundle) -> Imports:
    """What loading the bundle's values would import and call.

    Raises BundleError where values.pkl is damaged. Never runs anything of it.
    """
    if VALUES not in bundle.manifest.entries:
        return Imports(bundle.path, None, (), (), ())
    return imports_in(bundle.values(), bundle.manifest.shipped, bundle.path)


def imports_in(values: bytes, shipped: Collection[str], path: str) -> Imports:
    """The same for the bytes themselves. `shipped`: the modules that travel with them; `path`: for the result."""
    reading = _Reading(frozenset(shipped))
    reading.read(values, 0)
    return reading.result(path, len(values))


@dataclass(slots=True)
class _Reading:
    """What has been seen so far."""

    shipped: frozenset[str]
    names: dict[Name, int] = field(default_factory=dict)  # -> times that it is called
    alarms: dict[tuple[str, str], int] = field(default_factory=dict)  # what and why -> the first position
    code: dict[tuple[str, str], dict[str, None]] = field(default_factory=dict)  # kind and file -> functions
    functions: int = 0
    unread: str = ""
    more: int = 0

    def read(self, data: bytes, depth: int, start: int | None = None) -> None:
        """Follow the pickles in `data`; `start`: where it lies in values.pkl, if it is nested in that."""
        for step in opcodes.read(data):
            at = step.position if start is None else start
            if step.kind == "name":
                self._refer(step.subject)
            elif step.kind in ("call", "make"):
                self._call(step, at, depth)
            elif step.kind == "change":
                self._change(step.subject, at)
            elif step.kind == "unknown":
                self._alarm(f"needs {step.subject}", "only running it would show what this is", at)
            elif step.kind == "end":
                self.unread = self.unread or f"{step.subject}, at byte {step.position} of {len(data)}"

    def result(self, path: str, size: int) -> Imports:
        """All of it, sorted."""
        names = [
            Imported(one.module, one.name, group_of(one.module, self.shipped), called, power_of(one))
            for one, called in self.names.items()
        ]
        return Imports(
            path,
            size,
            tuple(sorted(names, key=lambda one: (one.group, one.full_name))),
            tuple(Alarm(what, why, at) for (what, why), at in sorted(self.alarms.items(), key=_position)),
            tuple(Code(file, tuple(found), kind) for (kind, file), found in self.code.items()),  # type: ignore[arg-type]
            self.unread,
            self.more,
        )

    def _refer(self, name: Name, called: int = 0) -> None:
        if name in self.names or len(self.names) < MOST_NAMES:
            self.names[name] = self.names.get(name, 0) + called
        else:
            self.more += 1

    def _alarm(self, what: str, why: str, at: int) -> None:
        if (what, why) in self.alarms or len(self.alarms) < MOST_ALARMS:
            self.alarms.setdefault((what, why), at)
        else:
            self.more += 1

    def _call(self, step: Step, at: int, depth: int) -> None:
        function, arguments = step.subject, step.arguments
        if isinstance(function, Made):
            self._call_computed(function, at)
        elif not isinstance(function, Name):
            self._alarm("calls what it has put together", "only running it would show what this is", at)
        elif is_builder(function.module, function.name):
            self._refer(function, 1)
            self._build(function.name, arguments, at, depth)
        else:
            self._refer(function, 1)
            why = self._objection(function, arguments, plainly=step.kind == "call", nested=depth > 0)
            if why:
                self._alarm(f"calls {_show_call(function, arguments)}", why, at)

    def _objection(self, function: Name, arguments: tuple[Value, ...], *, plainly: bool, nested: bool) -> str:
        """Why the writer would not have written this call; empty where it may have."""
        if nested and function.module == _DILL:
            return _objection_to_dill(function, arguments)
        if function == _GETATTR:
            return _objection_to_getattr(arguments)
        if power := power_of(function):
            return f"it can {power}"
        group = group_of(function.module, self.shipped)
        if group == "replay":
            return "a part of replay that builds no values"
        if plainly and group != "standard library":
            return "replay's writer leaves such calls to its builder `rebuild`"
        return ""

    def _call_computed(self, made: Made, at: int) -> None:
        if not _may_be_called(made):
            what = f"calls what {made.function or 'a computed function'} returned"
            self._alarm(what, "computed while loading", at)

    def _build(self, builder: str, arguments: tuple[Value, ...], at: int, depth: int) -> None:
        """What a call of one of replay's own builders does in turn."""
        first = arguments[0] if arguments else opcodes.UNKNOWN
        if builder in ("import_real", "real_globals", "make_installed"):
            self._import(first, at)
        elif builder == "rebuild":
            given = arguments[1] if len(arguments) > 1 else ()
            self._rebuild(first, given if isinstance(given, tuple) else (opcodes.UNKNOWN,), at)
        elif builder == "make_operator" and len(arguments) > 5 and isinstance(arguments[5], str):
            self._import(arguments[5], at)
        elif builder == "make_function" and isinstance(first, Made) and len(arguments) > 2:
            self._carry_source(first, arguments[2])
        elif builder == "make_marshalled":
            self._carry("bytecode", "", arguments[2] if len(arguments) > 2 else "")
        elif builder == "make_by_dill":
            self._nested(first, at, depth)
        elif builder.startswith(_CHANGERS):
            self._change(first, at)

    def _import(self, module: Value, at: int) -> None:
        if isinstance(module, str):
            self._refer(Name(module, ""))
        else:
            self._alarm("imports a module", "its name is computed while loading", at)

    def _rebuild(self, function: Value, arguments: tuple[Value, ...], at: int) -> None:
        """`rebuild` calls a function."""
        if isinstance(function, Made):
            self._call_computed(function, at)
        elif not isinstance(function, Name):
            self._alarm("calls what it has put together", "only running it would show what this is", at)
        else:
            self._refer(function, 1)
            why = self._objection(function, arguments, plainly=False, nested=False)
            if why:
                self._alarm(f"calls {_show_call(function, arguments)}", why, at)

    def _carry(self, kind: str, file: Value, name: Value) -> None:
        self.functions += 1
        if self.functions <= MOST_FUNCTIONS:
            found = self.code.setdefault((kind, file if isinstance(file, str) else "?"), {})
            found.setdefault(name if isinstance(name, str) else "?")
        else:
            self.more += 1

    def _carry_source(self, code: Made, name: Value) -> None:
        maker = code.function
        if maker is not None and is_builder(maker.module, maker.name) and maker.name == "make_code":
            self._carry("source", code.arguments[0] if code.arguments else "?", name)

    def _nested(self, data: Value, at: int, depth: int) -> None:
        if isinstance(data, bytes) and depth < NESTED:
            self.read(data, depth + 1, at)
        else:
            self._alarm("unpickles bytes", "only running it would show what they hold", at)

    def _change(self, target: Value, at: int) -> None:
        """Something gets attributes or items: of what was there before the load, that is an alarm."""
        if isinstance(target, Name):
            self._alarm(f"changes {target}", "what this process uses itself", at)
        elif isinstance(target, Made) and target.function is not None:
            maker = target.function
            if is_builder(maker.module, maker.name) and maker.name in _REAL:
                module = target.arguments[0] if target.arguments else "?"
                self._alarm(f"changes the module {module}", "what this process uses itself", at)


def _position(item: tuple[tuple[str, str], int]) -> int:
    return item[1]


def _may_be_called(made: Made) -> bool:
    """Whether the writer calls what this call returned: a class of the user's, or what `getattr` gave.

    Which attribute that is has been looked at where `getattr` itself was called.
    """
    maker = made.function
    if maker is None:
        return False
    if is_builder(maker.module, maker.name):
        asked = maker.name == "rebuild" and made.arguments[:1] == (_GETATTR,)
        return asked or maker.name in _CLASS_MAKERS
    return maker == _GETATTR


def _objection_to_getattr(arguments: tuple[Value, ...]) -> str:
    """The writer asks for attributes of named classes and of `types`, by names that it writes out."""
    if len(arguments) != 2 or not isinstance(arguments[1], str):
        return "an attribute that is computed while loading"
    owner, attribute = arguments
    power = None
    if isinstance(owner, (str, bytes, tuple, Unknown)):  # plain data: what could be a module is none of these
        power = power_of(Name("", attribute))
    elif isinstance(owner, Name):
        power = power_of(Name(owner.module, f"{owner.name}.{attribute}"))
    elif isinstance(owner, Made) and owner.function is not None:
        module = owner.arguments[0] if owner.function.name == "import_real" and owner.arguments else ""
        power = power_of(Name(module if isinstance(module, str) else "", attribute))
        power = "" if module == "types" else power
    if power is None:
        return "an attribute of what is computed while loading"
    return power and f"it can {power}"


def _objection_to_dill(function: Name, arguments: tuple[Value, ...]) -> str:
    """Of dill the writer uses two functions, to find descriptors of built-in types again."""
    if function.name == "_load_type" and len(arguments) == 1 and isinstance(arguments[0], str):
        return ""
    if function.name == "_getattr" and len(arguments) == 3:
        name, description = arguments[1:]
        if isinstance(name, str) and isinstance(description, str):
            sound = name.isidentifier() and _DESCRIPTION.fullmatch(description)
            return "" if sound else "dill evaluates a text in it"
    return "dill, otherwise than replay's writer uses it"


def _show_call(function: Name, arguments: tuple[Value, ...]) -> str:
    return f"{function}({', '.join(map(_show, arguments))})"


def _show(value: Value) -> str:
    if isinstance(value, (str, bytes)):
        return repr(value[:60]) + ("..." if len(value) > 60 else "")
    if isinstance(value, Name):
        return str(value)
    return "..."
