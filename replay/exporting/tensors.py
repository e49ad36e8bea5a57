"""Recorded tensors to expressions: by shape, dtype, strides and device; values where they are few or have a pattern.

Random values stand for the rest, unless the transcript asks for exact ones. Works on specs, and on the values as they
are on the CPU, so that no device is needed.
"""

from __future__ import annotations

import ast
from typing import Any

from replay.exporting import expressions, numbers, strides
from replay.exporting.expressions import literal
from replay.exporting.transcript import RefusedError, Transcript
from replay.recording import Manifest, TensorSpec
from replay.torch_adapter.building import TensorBuilder
from replay.torch_adapter.keyed import Keys


class Tensors:
    """The tensors of one bundle."""

    def __init__(self, manifest: Manifest, keys: Keys, values: TensorBuilder) -> None:
        self._manifest, self._keys, self._values = manifest, keys, values
        self.transcript: Transcript

    def write(self, tensor: Any, path: str) -> ast.expr:
        """The expression of a loaded tensor. Raises RefusedError for a subclass, and for what is rarer still."""
        key = self._keys.of(tensor)
        if key is None:
            raise RefusedError(
                f"{path} ({type(tensor).__qualname__})", "a tensor of a class or layout of its own"
            )
        return self._of(key, path)

    def _of(self, key: str, path: str) -> ast.expr:
        spec = self._manifest.tensors[key]
        for odd in ("neg", "inference"):
            if getattr(spec, odd):
                raise RefusedError(path, f"a tensor that is {odd}")
        if spec.grad is not None:
            self.transcript.notes.append(f"{path}.grad is left out")
        if spec.kind == "parameter":
            named = {} if spec.requires_grad else {"requires_grad": literal(False)}
            return expressions.call("torch.nn.Parameter", [self._dense(key, spec)], named)
        view = self._view(key, spec, path)
        made = self._dense(key, spec, grad=True) if view is None else _graded(view, spec)
        if spec.conj:
            made = expressions.method(made, "conj")
        return made

    def _view(self, key: str, spec: TensorSpec, path: str) -> ast.expr | None:
        """A view of its base, or of memory that several share; None for a tensor with memory of its own."""
        base = None if spec.base is None else self._manifest.tensors[spec.base]
        if spec.base is not None and base is not None and base.dtype == spec.dtype and not base.conj:
            return _part(self._base(spec.base, path), base, spec)
        if spec.storage is None or not self._others(key, spec):
            return None
        memory = f"memory {spec.storage}"
        if memory not in self.transcript.taken:
            length = max(
                strides.extent(self._manifest.tensors[one]) for one in (key, *self._others(key, spec))
            )
            whole = TensorSpec((length,), (1,), 0, spec.dtype, spec.device, spec.storage)
            name = self.transcript.fresh("memory")
            self.transcript.taken[memory] = name
            values = self._values.get(key).detach()
            flat = values.as_strided((length,), (1,), 0)
            self.transcript.statements.append(expressions.assigned(name, self._made(whole, flat)))
        owner = ast.Name(self.transcript.taken[memory])
        return expressions.method(owner, "as_strided", *map(literal, (spec.shape, spec.stride, spec.offset)))

    def _base(self, key: str, path: str) -> ast.expr:
        """What a tensor is a view of: a variable, unless nothing else knows of it."""
        transcript, made = self.transcript, {id(one) for one in self._keys.tensors(key)}
        views = [one for one in self._keys.made if self._manifest.tensors[one].base == key]
        transcript.again |= made & transcript.met
        if len(views) > 1 or made & (transcript.shared | transcript.met | transcript.known.keys()):
            return self._variable(key, f"{path.rpartition('.')[2]}_base", path)
        transcript.inside.update({one: (one, "") for one in made})
        return self._of(key, path)

    def _others(self, key: str, spec: TensorSpec) -> list[str]:
        """The other recorded tensors of one dtype that share its memory, and not by being views."""
        return [
            one
            for one in sorted(self._keys.made - {key})
            if self._manifest.tensors[one].storage == spec.storage
            and self._manifest.tensors[one].dtype == spec.dtype
            and self._root(one) != self._root(key)
            and strides.extent(self._manifest.tensors[one]) > 0
        ]

    def _root(self, key: str) -> str:
        """What a tensor is a view of in the end."""
        base = self._manifest.tensors[key].base
        return key if base is None else self._root(base)

    def _variable(self, key: str, wanted: str, path: str) -> ast.expr:
        known = f"tensor {key}"
        for made in (one for one in self._keys.tensors(key) if id(one) in self.transcript.known):
            return self.transcript.known[id(made)]
        if known not in self.transcript.taken:
            made = self._of(key, path)
            name = self.transcript.fresh(wanted)
            self.transcript.taken[known] = name
            self.transcript.statements.append(expressions.assigned(name, made))
            for one in self._keys.tensors(key):
                self.transcript.known[id(one)] = ast.Name(name)
        return ast.Name(self.transcript.taken[known])

    def _dense(self, key: str, spec: TensorSpec, *, grad: bool = False) -> ast.expr:
        """A tensor with memory of its own."""
        values = None if spec.device == "meta" else self._values.get(key).detach().resolve_conj()
        if strides.is_contiguous(spec):
            wanted = grad and spec.requires_grad
            made = self._made(spec, values, graded=wanted)
            fit = wanted and "requires_grad" in _keywords(made)
            return _graded(made, spec, already=fit) if wanted else made
        if strides.overlaps(spec):
            length = strides.extent(spec) - spec.offset
            whole = TensorSpec((length,), (1,), 0, spec.dtype, spec.device, spec.storage)
            flat = None if values is None else values.as_strided((length,), (1,))
            made = self._made(whole, flat)
            made = expressions.method(made, "as_strided", literal(spec.shape), literal(spec.stride))
        else:
            plain = TensorSpec(spec.shape, strides.steps(spec.shape), 0, spec.dtype, "cpu", spec.storage)
            empty = expressions.call(
                "torch.empty_strided",
                [literal(spec.shape), literal(spec.stride)],
                numbers.placed(spec, {}),
            )
            made = empty if values is None else expressions.method(empty, "copy_", self._made(plain, values))
        return _graded(made, spec) if grad else made

    def _made(self, spec: TensorSpec, values: Any, *, graded: bool = False) -> ast.expr:
        """A contiguous tensor."""
        graded = graded and spec.is_leaf
        made = numbers.patterned(spec, values, graded=graded)
        if made is not None:
            return made
        if self._is_written(spec, values):
            return numbers.written(spec, values, graded=graded)
        if self.transcript.exact:
            self.transcript.notes.append("tensors of more than 1024 elements have other values than recorded")
        self.transcript.seeded = True
        return numbers.drawn(spec, values, graded=graded)

    def _is_written(self, spec: TensorSpec, values: Any) -> bool:
        """Whether all values stand in the file. Made-up ones need not."""
        if self.transcript.exact:
            return bool(values.numel() <= numbers.EXACT_INLINE)
        storage = self._manifest.storages.get(spec.storage or "")
        return (storage is None or storage.entry is not None) and numbers.are_few(values)


def _graded(made: ast.expr, spec: TensorSpec, *, already: bool = False) -> ast.expr:
    """With a gradient wanted; one that is no leaf is computed from one that is."""
    if not spec.requires_grad:
        return made
    if not already:
        made = expressions.method(made, "requires_grad_")
    return made if spec.is_leaf else expressions.method(made, "clone")


def _keywords(made: ast.expr) -> set[str | None]:
    return {one.arg for one in made.keywords} if isinstance(made, ast.Call) else set()


def _part(owner: ast.expr, base: TensorSpec, spec: TensorSpec) -> ast.expr:
    """A view, as people write it where it is a plain one."""
    if (
        spec.offset == base.offset
        and strides.is_contiguous(base)
        and strides.size(base) == strides.size(spec)
    ):
        if strides.is_contiguous(spec):
            return expressions.method(owner, "view", *numbers.shape(spec))
        if len(spec.shape) == 2 and spec.shape == base.shape[::-1] and spec.stride == base.stride[::-1]:
            return expressions.method(owner, "t")
    return expressions.method(owner, "as_strided", *map(literal, (spec.shape, spec.stride, spec.offset)))
