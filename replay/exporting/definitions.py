"""The user's code that a frame needs, as excerpts of the recorded texts.

Begins at a function or a class and follows the global names that its text uses. What a name stands for is read
from the recorded globals where they have it: an import stays an import, a function or class brings its own text, and
data is written anew from what was recorded, unless the user's own line says the same. Nothing of the user's runs.
"""

from __future__ import annotations

import ast
import dis
import sys
import textwrap
from collections.abc import Mapping
from types import CodeType, FunctionType, ModuleType
from typing import Any

from replay.exporting import expressions, naming, origins, texts
from replay.exporting.texts import File
from replay.exporting.transcript import RefusedError, Transcript
from replay.findings.export import Excerpt
from replay.recorder import frames
from replay.shipping import Placeholder

_ABSENT = object()


class Definitions:
    """Turns functions and classes into excerpts. `write(value, path)` gives the expression of what is data."""

    def __init__(self, transcript: Transcript, write: Any) -> None:
        self._transcript, self._write = transcript, write

    def function(self, function: FunctionType, path: str) -> ast.expr:
        """The expression that stands for a function: its name, or an import."""
        found = naming.by_import(self._transcript, function)
        if found is not None:
            return found
        code = function.__code__
        file = self._file(code.co_filename, path)
        if code.co_name == "<lambda>":
            return self._lambda(file, function, path)
        node = file.definition(code.co_name, code.co_firstlineno)
        if node is None:
            raise RefusedError(
                path, f"the recorded text of {file.name} has no function {code.co_name} where it was"
            )
        if node in file.tree.body:
            self._statement(file, node, code.co_name, function.__globals__)
            return ast.Name(code.co_name)
        cls = self._class_of(file, node)
        if cls is not None:
            self._statement(file, cls, cls.name, function.__globals__)
            return expressions.dotted(f"{cls.name}.{code.co_name}")
        return self._nested(file, node, function, path)

    def class_(self, cls: type, path: str) -> ast.expr:
        """The expression that stands for a class."""
        found = naming.by_import(self._transcript, cls)
        if found is not None:
            return found
        if "<locals>" in cls.__qualname__:
            raise RefusedError(path, f"the class {cls.__qualname__} stands in a function")
        file, namespace = self._home(cls, path)
        top = cls.__qualname__.partition(".")[0]
        node = file.bindings.get(top)
        if node is None or isinstance(node, texts.IMPORTS):
            raise RefusedError(path, f"the class {cls.__qualname__} is not at the top of a recorded file")
        self._statement(file, node, top, namespace)
        return expressions.dotted(cls.__qualname__)

    def is_compiled_by_decorator(self, function: FunctionType) -> bool:
        """Whether the function's text has torch.compile among its decorators."""
        file = self._transcript.files.get(function.__code__.co_filename)
        if file is None:
            return False
        node = file.definition(function.__code__.co_name, function.__code__.co_firstlineno)
        return node is not None and any(one in texts.COMPILES for one in texts.decorators(node))

    def _file(self, name: str, path: str) -> File:
        file = self._transcript.files.get(name)
        if file is None:
            raise RefusedError(path, "the recording has no text of its code")
        return file

    def _home(self, cls: type, path: str) -> tuple[File, dict[str, Any]]:
        """The file that defines a class, and the recorded globals there."""
        for member in vars(cls).values():
            function = getattr(member, "__func__", getattr(member, "fget", member))
            if not isinstance(function, FunctionType) or function.__module__ != cls.__module__:
                continue
            if function.__code__.co_filename in self._transcript.files:
                return self._file(function.__code__.co_filename, path), function.__globals__
        module = sys.modules.get(cls.__module__)
        file = self._transcript.files.get(getattr(module, "__file__", None) or "")
        if file is None:
            raise RefusedError(path, f"the recording has no text of the class {cls.__qualname__}")
        return file, vars(module)

    def _class_of(self, file: File, node: ast.stmt) -> ast.ClassDef | None:
        """The top-level class that a method stands in directly."""
        for one in file.tree.body:
            if isinstance(one, ast.ClassDef) and node in one.body:
                return one
        return None

    def _lambda(self, file: File, function: FunctionType, path: str) -> ast.expr:
        found = file.lambdas(function.__code__.co_firstlineno)
        if len(found) != 1 or function.__code__.co_freevars:
            raise RefusedError(
                path, "a lambda that cannot be told from others on its line, or that has a closure"
            )
        text = ast.unparse(found[0])
        self._names(file, text, function.__globals__)
        return found[0]

    def _nested(self, file: File, node: ast.stmt, function: FunctionType, path: str) -> ast.expr:
        """A function of a function; one with a closure stands in a function that gives it its variables."""
        transcript, name = self._transcript, function.__code__.co_name
        if id(function) in transcript.known:
            return transcript.known[id(function)]
        if _rebinds(function.__code__):
            raise RefusedError(path, "it assigns to a variable of the function around it")
        excerpt, held = file.excerpt(node, name), _closure(function)
        text = texts.bare(node, excerpt.text)
        if held:
            body = textwrap.indent(text, "    ")
            name, text = f"make_{name}", f"def make_{name}({', '.join(held)}):\n{body}\n\n    return {name}"
        self._names(file, text, function.__globals__)
        transcript.take(name, f"{file.name}:{excerpt.line}")
        transcript.add(Excerpt(file.name, excerpt.line, name, text))
        if not held:
            return ast.Name(name)
        arguments = {one: self._write(value, one) for one, value in held.items()}
        made = expressions.call(name, keywords=arguments)
        return transcript.bind(function, made, function.__code__.co_name)

    def _statement(self, file: File, node: ast.stmt, name: str, namespace: Mapping[str, Any]) -> None:
        """A top-level statement, with what it needs and what registers something with it."""
        excerpt, code = file.excerpt(node, name), self._transcript.code
        place = (file.name, excerpt.line)
        if any(one.name == name and one.text == excerpt.text for one in code.values()):
            return  # two files may say the same
        self._transcript.take(name, file.name)
        if place in code:
            return
        code[place] = excerpt  # before what it needs, which may need it
        self._names(file, excerpt.text, namespace)
        del code[place]
        self._transcript.add(excerpt)
        for other in file.attached(name):
            self._attached(file, other, namespace)

    def _attached(self, file: File, node: ast.stmt, namespace: Mapping[str, Any]) -> None:
        """A statement that is wanted for what it does."""
        excerpt = file.excerpt(node, f"{getattr(node, 'name', '')}@{node.lineno}")
        if (file.name, excerpt.line) not in self._transcript.code:
            self._transcript.add(excerpt)
            self._names(file, excerpt.text, namespace)

    def _names(self, file: File, text: str, namespace: Mapping[str, Any]) -> None:
        """Everything that a text names."""
        for module in texts.imports_inside(text):
            if module.startswith(".") or module in self._transcript.shipped:
                raise RefusedError(file.name, f"a function in it imports {module}, a module of the program")
        for name in texts.free_names(text):
            self._name(file, name, namespace, text)
        for operators in sorted(texts.namespaces(text)):
            for other in self._transcript.files.values():
                for node in other.operators(operators):
                    self._attached(other, node, namespace if other is file else {})

    def _name(self, file: File, name: str, namespace: Mapping[str, Any], text: str) -> None:
        """One global name. What neither the globals nor the text have is unknown to Python too, until it runs."""
        node = file.bindings.get(name)
        value = namespace.get(name, _ABSENT)
        if isinstance(node, texts.IMPORTS):
            self._import(file, node, name, value, text)
        elif isinstance(node, texts.DEFINITIONS) and not origins.is_other(node, value):
            self._statement(file, node, name, namespace)
        elif value is not _ABSENT and not isinstance(value, Placeholder) and not origins.says(node, value):
            self._data(file, node, name, namespace, text)
        elif node is not None:
            self._lines(file, name, namespace)

    def _lines(self, file: File, name: str, namespace: Mapping[str, Any]) -> None:
        """The user's own lines for a name."""
        for one in file.binders(name):
            self._statement(file, one, name, namespace)

    def _data(
        self, file: File, node: ast.stmt | None, name: str, namespace: Mapping[str, Any], text: str
    ) -> None:
        """A global that is written anew; by the user's own line where no expression makes it (a logger, say)."""
        if node is not None and origins.is_a_librarys(namespace[name]):
            self._lines(file, name, namespace)
            return
        before = self._transcript.copy()
        try:
            self._global(file, name, namespace[name], early=name in texts.names_at_definition(text))
        except RefusedError:
            if not isinstance(node, (ast.Assign, ast.AnnAssign)):
                raise
            self._transcript.put_back(before)
            self._lines(file, name, namespace)

    def _import(self, file: File, node: ast.stmt, name: str, value: Any, text: str) -> None:
        """A name that the file imports: from an installed package as it stands, from the program what it leads to."""
        statement = self._installed(node, name)
        if statement is not None:
            self._keep(name, statement)
        elif value is _ABSENT or isinstance(value, Placeholder):
            if name in texts.names_at_definition(text):
                raise RefusedError(name, f"{file.name} imports it, and the recording does not have it")
            self._transcript.notes.append(f"{name} is left out: the frame's code does not reach it")
        elif isinstance(value, ModuleType):
            self._module(name, value, text)
        else:
            self._global(file, name, value, early=name in texts.names_at_definition(text))

    def _installed(self, node: ast.stmt, name: str) -> str | None:
        """The statement that imports one name from an installed package; None for the program's own modules."""
        assert isinstance(node, texts.IMPORTS)
        alias = next(one for one in node.names if (one.asname or one.name.partition(".")[0]) == name)
        shipped = self._transcript.shipped
        if isinstance(node, ast.Import):
            return None if alias.name in shipped else ast.unparse(ast.Import([alias]))
        if node.level or node.module in shipped or f"{node.module}.{alias.name}" in shipped:
            return None
        return ast.unparse(ast.ImportFrom(node.module, [alias], 0))

    def _keep(self, name: str, statement: str) -> None:
        if statement.startswith("from __future__"):
            return  # for the whole file, see `frames`
        if statement.startswith("import ") and " as " not in statement:
            self._transcript.need(statement.removeprefix("import "))
            return
        self._transcript.take(name, statement)
        known = self._transcript.imports.setdefault(name, statement)
        if known != statement:
            raise RefusedError(
                name, f"two files of the program import different things under it: {known}, {statement}"
            )

    def _module(self, name: str, module: ModuleType, text: str) -> None:
        """A module of the user's becomes a namespace with what the text asks of it."""
        held = {
            one: self._write(module.__dict__[one], f"{name}.{one}")
            for one in texts.attributes_of(text, name)
            if one in module.__dict__
        }
        self._transcript.need("types")
        made = expressions.call("types.SimpleNamespace", keywords=held)
        self._transcript.take(name, f"the module {module.__name__}")
        self._transcript.statements.append(expressions.assigned(name, made))

    def _global(self, file: File, name: str, value: Any, *, early: bool) -> None:
        """A global that is data, or that another name of the program stands for as well.

        `early`: the code needs it as soon as it is defined.
        """
        statements, made_by = self._transcript.statements, self._transcript.globals
        if self._transcript.taken.get(name) == file.name:
            if early:
                self._hurry(name)
            return
        first = len(statements)
        made = self._transcript.known.get(id(value)) or self._write(value, name)
        if isinstance(made, ast.Name) and made.id == name:
            return
        self._transcript.take(name, file.name)
        statements.append(expressions.assigned(name, made))
        made_by[name] = statements[first:]
        if early:
            self._hurry(name)
        self._transcript.known.setdefault(id(value), ast.Name(name))
        self._transcript.alive.append(value)

    def _hurry(self, name: str) -> None:
        """Have what makes a global stand before the code."""
        for one in self._transcript.globals.pop(name, ()):
            if one in self._transcript.statements:
                self._transcript.statements.remove(one)
                self._transcript.early.append(one)


def _closure(function: FunctionType) -> dict[str, Any]:
    """The variables of a closure, without the function itself."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
    held = {name: frames.content(cell) for name, cell in cells}
    return {name: value for name, value in held.items() if value is not function}


def _rebinds(code: CodeType) -> bool:
    return any(
        one.opname == "STORE_DEREF" and one.argval in code.co_freevars for one in dis.get_instructions(code)
    )
