"""A frame that is ready to be called, as a program: code, values, settings, calls. Runs in the replaying process."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator, Mapping
from types import FunctionType
from typing import Any

from replay.exporting import expressions, settings
from replay.exporting.expressions import flat, literal
from replay.exporting.tensors import Tensors
from replay.exporting.texts import File
from replay.exporting.transcript import RefusedError, Transcript
from replay.exporting.values import Values
from replay.findings.export import Excerpt, Program, Step
from replay.recorder import frames
from replay.recorder.reach import ATOMS
from replay.recording import Manifest
from replay.replayer.preparation import Prepared
from replay.shipping import Placeholder
from replay.torch_adapter import anatomy, features
from replay.torch_adapter.keyed import Keys, on_cpu

PASSES = 5
"""An object that is met twice gets a variable in the next pass; what it holds may be met twice only then."""
BACKWARD = "output.backward(torch.ones_like(output))"
"""As a replay does it: with a gradient of ones."""
CHECKED = "actual"
"""The variable of the compiled frame's output, where it is held against the uncompiled frame's."""


def transcribe(prepared: Prepared, keys: Keys, *, exact: bool) -> Program:
    """The program of a frame. Raises RefusedError for what no file without `replay` can hold."""
    bundle, manifest = prepared.task.bundle, prepared.task.manifest
    settings.check(manifest, prepared.root)
    texts = {name: File(name, bundle.source(entry)) for name, entry in manifest.sources.items()}
    values = on_cpu(manifest.tensors, manifest.storages, bundle.blob)
    shared: set[int] = set()
    for _ in range(PASSES):
        tensors = Tensors(manifest, keys, values)
        modules = frozenset(manifest.shipped)
        transcript = Transcript(texts, shared, tensors.write, shipped=modules, exact=exact)
        tensors.transcript = transcript
        program = _Frame(prepared, transcript).program()
        if transcript.again <= shared:
            return program
        shared |= transcript.again
    raise RefusedError("its values", "they hold each other in too many ways")


def backward_of(output: Any) -> tuple[str, ...]:
    """The statements that differentiate this output in place of BACKWARD, which is for one tensor."""
    if anatomy.is_tensor(output):
        return ("output.backward()",) if output.numel() == 1 and not output.is_complex() else (BACKWARD,)
    leaves = "torch.utils._pytree.tree_leaves(output)"
    return (
        f"outputs = [one for one in {leaves} if isinstance(one, torch.Tensor) and one.requires_grad]",
        "torch.autograd.backward(outputs, [torch.ones_like(one) for one in outputs])",
    )


class _Frame:
    """One pass over one frame."""

    def __init__(self, prepared: Prepared, transcript: Transcript) -> None:
        self.prepared, self.transcript = prepared, transcript
        self.manifest: Manifest = prepared.task.manifest
        self.root: Mapping[str, Any] = prepared.root
        self.values = Values(transcript)
        self.function, (self.positional, self.keywords) = _subject(prepared)

    def program(self) -> Program:
        transcript, manifest = self.transcript, self.manifest
        transcript.need("torch")
        entry = self.root.get("entry")
        steps = list(self._calls() if entry is None else self._entry(entry))
        chosen = settings.of(transcript, self.values, manifest, self.root)
        return Program(
            imports=tuple(_sorted(transcript)),
            early=tuple(transcript.early),
            code=tuple(_in_order(transcript)),
            rebuilds=transcript.rebuilds,
            settings=tuple(chosen),
            values=tuple(transcript.statements),
            steps=tuple(steps),
            variables=settings.variables(manifest),
            seeded=transcript.seeded,
            notes=tuple(dict.fromkeys([*transcript.notes, *_left_out(manifest)])),
        )

    def _calls(self) -> Iterator[Step]:
        callee, owner, compiled = self._callee()
        yield from map(Step, compiled)
        for call in self.root["calls"] if self.function is self.root["function"] else ():
            yield from self._earlier(call, callee, owner)
        contexts = settings.contexts(self.manifest.state)
        yield from (Step(one, contexts) for one in self._last(callee, owner))

    def _callee(self) -> tuple[ast.expr, bool, list[str]]:
        """What is called, whether it is bound to the first argument, and the statement that compiles it."""
        function, values = self.function, self.values
        decorated = values.definitions.is_compiled_by_decorator(function)
        named = values.definitions.function(function, "the frame's function")
        first = self.positional[0] if self.positional else None
        bound = _is_forward(function, first)
        if bound:
            named = values.variable(first, _lower(type(first).__name__))
        if decorated:
            return named, bound, []
        name = self.transcript.fresh("compiled")
        made = expressions.call("torch.compile", [named], self._how())
        return ast.Name(name), bound, [expressions.assigned(name, made)]

    def _how(self) -> dict[str, ast.expr]:
        """The keyword arguments of torch.compile."""
        found: dict[str, ast.expr] = {}
        compile_ = self.manifest.compile
        if self.root["backend"] is not None:
            found["backend"] = self.values.write(self.root["backend"], "the backend")
        elif compile_.backend != "inductor":
            found["backend"] = literal(compile_.backend)
        if compile_.fullgraph:
            found["fullgraph"] = literal(True)
        if compile_.dynamic is not None:
            found["dynamic"] = literal(compile_.dynamic)
        options = dict(self.root["options"])
        if "mode" in options:
            found["mode"] = self.values.write(options.pop("mode"), "mode")
        if options:
            found["options"] = self.values.write(options, "options")
        return found

    def _earlier(self, call: Mapping[str, Any], callee: ast.expr, owner: bool) -> Iterator[Step]:
        """A call that compiled the frame before, with what it saw."""
        changed = dict(call.get("state") or {})
        if changed.keys() - settings.IN_CONTEXTS:
            names = ", ".join(sorted(changed.keys() - settings.IN_CONTEXTS))
            raise RefusedError("an earlier call", f"it was made under other global state ({names})")
        state = {**self.manifest.state, **changed, "grad_enabled": bool(call["grad"])}
        before, after = self._as_then(call.get("before") or {})
        yield from map(Step, before)
        positional, keywords = call["arguments"]
        made = self._call(callee, positional[1:] if owner else positional, keywords, inline=True)
        yield Step(flat(made), settings.contexts(state))
        yield from map(Step, after)

    def _as_then(self, before: Mapping[str, Any]) -> tuple[list[str], list[str]]:
        """Statements that set what was other at an earlier call, and those that put it back."""
        if before.get("closure"):
            raise RefusedError("an earlier call", "it saw other closure variables")
        then, now = [], []
        for owner, attributes, *new in before.get("attributes", ()):
            if any(new):
                raise RefusedError("an earlier call", "an object had not all of its attributes then")
            held = anatomy.attributes(owner)
            place = self.values.write(owner, "an earlier call's object")
            for name, value in attributes.items():
                target = flat(ast.Attribute(place, name))
                then.append(expressions.assigned(target, self.values.write(value, name)))
                now.append(expressions.assigned(target, self.values.write(held[name], name)))
        for name, value in before.get("globals", {}).items():
            then.append(expressions.assigned(name, self.values.write(value, name)))
            now.append(
                expressions.assigned(name, self.values.write(self.root["function"].__globals__[name], name))
            )
        return then, now

    def _last(self, callee: ast.expr, owner: bool) -> Iterator[str]:
        made = self._call(callee, self.positional[1:] if owner else self.positional, self.keywords)
        if self.manifest.event == "accuracy":
            yield f'with torch.compiler.set_stance("force_eager"):\n    expected = {flat(made)}'
            yield expressions.assigned(CHECKED, made)
            yield f"torch.testing.assert_close({CHECKED}, expected)"
        elif self.manifest.compile.backward:
            yield expressions.assigned("output", made)
            yield BACKWARD
        else:
            yield flat(made)

    def _call(
        self, callee: ast.expr, positional: Any, keywords: Mapping[str, Any], *, inline: bool = False
    ) -> ast.expr:
        names = frames.argument_names(self.function.__code__)
        skipped = len(names) and len(self.positional) - len(positional)
        given = []
        for at, value in enumerate(positional):
            name = (
                names[at + skipped] if at + skipped < self.function.__code__.co_argcount else f"argument_{at}"
            )
            given.append(self._argument(value, name, inline=inline))
        named = {name: self._argument(value, name, inline=inline) for name, value in keywords.items()}
        return expressions.call(callee, given, named)

    def _argument(self, value: Any, name: str, *, inline: bool) -> ast.expr:
        if type(value) in ATOMS or inline:
            return self.values.write(value, name)
        return self.values.variable(value, name)

    def _entry(self, entry: Mapping[str, Any]) -> Iterator[Step]:
        """torch.export.export, as the program called it."""
        positional, keywords = entry["arguments"]
        usual = inspect.signature(features.module("torch").export.export).parameters
        options = {
            name: self.values.write(value, name)
            for name, value in entry["options"].items()
            if name in usual and value != usual[name].default
        }
        subject = entry["subject"]
        wanted = _lower(type(subject).__name__) if anatomy.is_module(subject) else "subject"
        given = [self.values.variable(subject, wanted)]
        names = frames.argument_names(self.function.__code__)[len(self.positional) - len(positional) :]
        named = {names[at] if at < len(names) else f"argument_{at}": one for at, one in enumerate(positional)}
        given.append(ast.Tuple([self._argument(one, name, inline=False) for name, one in named.items()]))
        if keywords:
            given.append(self.values.write(dict(keywords), "keyword arguments"))
        made = flat(expressions.call("torch.export.export", given, options))
        yield Step(made, settings.contexts(self.manifest.state))


def _subject(prepared: Prepared) -> tuple[FunctionType, tuple[Any, dict[str, Any]]]:
    """The function to compile with its arguments; of a resume function, the function that the user wrote."""
    root = prepared.root
    if not prepared.task.manifest.frame.resume:
        return root["function"], root["arguments"]
    chain = root["chain"]
    if chain is None or isinstance(chain["function"], Placeholder):
        raise RefusedError(
            prepared.task.manifest.frame.name,
            "Dynamo made this function, and the one that it resumes is not recorded",
        )
    return chain["function"], chain["arguments"]


def _left_out(manifest: Manifest) -> Iterator[str]:
    """What the recording does without, in one note."""
    names = [one.name for one in manifest.left_out]
    if names:
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        yield f"the recording leaves out {', '.join(names[:3])}{more}: the frame's code does not reach it"


def _is_forward(function: FunctionType, first: Any) -> bool:
    """Whether the frame is the `forward` of the module that is its first argument."""
    if not anatomy.is_module(first) or function.__name__ != "forward":
        return False
    found = inspect.getattr_static(type(first), "forward", None)
    return getattr(found, "__code__", None) is function.__code__


def _lower(name: str) -> str:
    return name.lower() if name.lower() != name else f"{name}_"


def _sorted(transcript: Transcript) -> Iterator[str]:
    """Imports as linters sort them, in three groups: future, standard library, others."""
    found = sorted(set(transcript.imports.values()), key=lambda one: (not one.startswith("import"), one))
    if any(transcript.files[name].annotations_are_texts for name in transcript.order):
        yield "from __future__ import annotations"
        yield ""
    standard = [one for one in found if one.split()[1].partition(".")[0] in sys.stdlib_module_names]
    others = [one for one in found if one not in standard]
    yield from standard
    if standard and others:
        yield ""
    yield from others


def _in_order(transcript: Transcript) -> list[Excerpt]:
    """Files by when their first piece was complete, pieces as they stand in them."""
    place = {name: at for at, name in enumerate(transcript.order)}
    return sorted(transcript.code.values(), key=lambda one: (place[one.file], one.line))
