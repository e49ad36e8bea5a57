"""Stand between Dynamo and the compiled function of each graph.

A backend is wrapped so that what it compiled is called through a function of ours, together with the graph that
was compiled. Used only by recorders and replays that ask for it; otherwise nothing of this is installed. What is
done with a call (comparing, saving) lives elsewhere.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from replay.torch_adapter import features

Around = Callable[[Any, Callable[..., Any]], Callable[..., Any]]
"""Gets the graph as it was before the backend had it, and what the backend made; gives what Dynamo is to call."""

_VIEWS = 8
"""Nodes between an output and the compiled backward that made it, at most."""
_ALIGNED = 16
"""Bytes: the largest item of any dtype, so that a cut at a multiple keeps every view in step."""


class Intercepted:
    """A backend around a backend. Everything but the call is the inner one's: name, options, mode."""

    def __init__(self, backend: Any, around: Around) -> None:
        self._torchdynamo_orig_backend = backend  # where torch looks for what is wrapped
        self._around = around

    def __call__(self, graph: Any, example_inputs: Sequence[Any], **options: Any) -> Any:
        """Compile with the inner backend, which may change the graph, and wrap what it made."""
        twin = _twin(graph)
        return self._around(twin, self._torchdynamo_orig_backend(graph, example_inputs, **options))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_torchdynamo_orig_backend"], name)


class Snapshot:
    """The tensors among a graph's inputs as they are now, to run the graph on again or to put back."""

    def __init__(self, inputs: Sequence[Any]) -> None:
        self._torch = features.module("torch")
        self._inputs = list(inputs)
        self._versions = [self._version(one) for one in inputs]
        self._copies = self._copied(inputs)

    def fresh(self) -> tuple[list[Any], list[Any]]:
        """The inputs once more, in memory of their own, and the leaves to ask gradients of (None: no gradient).

        A tensor that was computed comes back as one, so that it may be written to.
        """
        values: list[Any] = []
        leaves: list[Any] = []
        for one, again in zip(self._inputs, self._copied(self._copies), strict=True):
            if not self._is_tensor(one) or not one.requires_grad:
                values.append(again)
                leaves.append(None)
                continue
            leaf = again.requires_grad_()
            with self._torch.enable_grad():
                values.append(leaf if one.is_leaf else leaf.view_as(leaf) * 1)
            leaves.append(leaf)
        return values, leaves

    def in_double(self) -> tuple[list[Any], list[Any]]:
        """As `fresh`, in double precision."""
        values, leaves = self.fresh()
        return [self._wide(value) for value in values], leaves

    def written(self) -> list[int]:
        """Which inputs were written to since."""
        pairs = zip(self._inputs, self._versions, strict=True)
        return [i for i, (one, version) in enumerate(pairs) if self._version(one) != version]

    def put_back(self) -> None:
        """Write what they held into the inputs that were written to since. No gradient notices.

        Inference tensors, which count no writes, are all written.
        """
        uncounted = (i for i, one in enumerate(self._inputs) if self._is_tensor(one) and one.is_inference())
        with self._torch.no_grad():
            for i in {*self.written(), *uncounted}:
                self._inputs[i].data.copy_(self._copies[i])

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Inside, the inputs hold what they held before; afterwards what the graph wrote. No gradient notices."""
        changed = [(self._inputs[i], self._copies[i]) for i in self.written()]
        written = [one.detach().clone() for one, _ in changed]
        with self._torch.no_grad():
            for one, before in changed:
                one.data.copy_(before)
            try:
                yield
            finally:
                for (one, _), after in zip(changed, written, strict=True):
                    one.data.copy_(after)

    def _wide(self, value: Any) -> Any:
        if not self._is_tensor(value):
            return value
        if value.is_complex():
            return value.to(self._torch.complex128)
        return value.to(self._torch.float64) if value.is_floating_point() else value

    def _is_tensor(self, value: Any) -> bool:
        return isinstance(value, self._torch.Tensor)

    def _version(self, value: Any) -> int:
        if not self._is_tensor(value) or value.is_inference():
            return 0  # an inference tensor counts no writes
        return int(value._version)

    def _copied(self, values: Iterable[Any]) -> list[Any]:
        """Copies that share memory as the values do, with their strides."""
        values = list(values)
        with self._torch.no_grad():
            windows = self._windows([one for one in values if self._is_dense(one)])
            return [self._copy(one, windows) for one in values]

    def _windows(self, tensors: Iterable[Any]) -> dict[int, tuple[int, Any]]:
        """By storage: the first byte that a tensor reads, and a copy from there to the last."""
        spans: dict[int, tuple[int, int, Any]] = {}
        for one in tensors:
            storage = one.untyped_storage()
            low = int(one.storage_offset()) * one.itemsize
            high = low + _span(one) * one.itemsize
            known = spans.get(storage._cdata, (low, high, storage))
            spans[storage._cdata] = (min(known[0], low), max(known[1], high), storage)
        windows = {}
        for key, (start, high, storage) in spans.items():
            low = start - start % _ALIGNED
            whole = self._torch.empty(0, dtype=self._torch.uint8, device=storage.device).set_(storage)
            windows[key] = low, whole[low:high].clone()
        return windows

    def _copy(self, value: Any, windows: dict[int, tuple[int, Any]]) -> Any:
        if not self._is_tensor(value):
            return value
        if not self._is_dense(value):
            return value.detach().clone()
        low, window = windows[value.untyped_storage()._cdata]
        at = (int(value.storage_offset()) * value.itemsize - low) // value.itemsize
        bare = self._torch.empty(0, dtype=value.dtype, device=value.device)
        return bare.set_(window.untyped_storage(), at, tuple(value.shape), tuple(value.stride()))

    def _is_dense(self, value: Any) -> bool:
        torch = self._torch
        return (
            type(value) in (torch.Tensor, torch.nn.Parameter)
            and value.layout is torch.strided
            and value.device.type != "meta"
            and not (value.is_quantized or value.is_conj() or value.is_neg())
        )


def wants_gradient(inputs: Sequence[Any]) -> bool:
    """Whether a graph with these inputs may be differentiated."""
    torch = features.module("torch")
    return torch.is_grad_enabled() and any(
        isinstance(one, torch.Tensor) and one.requires_grad for one in inputs
    )


def around_backward(output: Any, step: Callable[[], AbstractContextManager[None]]) -> bool:
    """Enter `step()` for the time of each backward of a graph's output; False if there is none to come.

    AOTAutograd makes one node of a graph's whole backward; other backends leave torch's own, of which the last counts.
    """
    torch = features.module("torch")
    leaves = features.require(features.module("torch.utils._pytree"), "tree_leaves")(output)
    ends = {one.grad_fn for one in leaves if isinstance(one, torch.Tensor) and one.grad_fn is not None}
    nodes = {node for end in ends for node in _compiled_nodes(end)} or ends
    for node in nodes:
        _surround(node, step)
    return bool(nodes)


def _compiled_nodes(end: Any) -> set[Any]:
    """The compiled backwards behind an output: it may be a view of what they made."""
    nodes, seen = [end], 0
    while nodes and seen < _VIEWS:
        node, seen = nodes.pop(), seen + 1
        if node is not None and node.name().endswith("CompiledFunctionBackward"):
            return {node}
        nodes += [one for one, _ in getattr(node, "next_functions", ())]
    return set()


def _surround(node: Any, step: Callable[[], AbstractContextManager[None]]) -> None:
    going: list[AbstractContextManager[None]] = []

    def begin(gradients: Any) -> None:
        going.append(step())
        going[-1].__enter__()

    def end(gradients: Any, outputs: Any) -> None:
        if going:
            going.pop().__exit__(None, None, None)

    node.register_prehook(begin)
    node.register_hook(end)


def _span(tensor: Any) -> int:
    """Elements of its storage from the first that a tensor reads to the last."""
    if tensor.numel() == 0:
        return 0
    return 1 + int(sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True)))


def _twin(graph: Any) -> Any:
    """A graph module of its own that shares parameters and submodules with another."""
    fx = features.module("torch.fx")
    return fx.GraphModule(graph, copy.deepcopy(graph.graph))
