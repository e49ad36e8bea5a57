"""Compare what a compiled graph computes with what the same graph computes uncompiled.

Judged as torch's own accuracy tools do: against the graph in float64, by the root mean square error, where
uncompiled code is itself inexact (`torch._dynamo.utils.same`). Outputs, inputs that the graph writes to, and
gradients for an upstream gradient of ones. The program goes on with what the compiled graph gave it.
"""

from __future__ import annotations

import copy
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

from replay.recording import Difference
from replay.torch_adapter import compiling, deviation, features
from replay.torch_adapter.deviation import Trio
from replay.torch_adapter.interception import Intercepted, Snapshot

Observer = Callable[[Difference, Snapshot], None]
"""Gets what differs, while the frame is still on the stack, and the inputs as they were."""

_busy = threading.local()


@dataclass(frozen=True, slots=True)
class _Side:
    """One run of a graph: what it gave, the inputs that it was given, and the leaves to ask gradients of."""

    output: Any
    inputs: Sequence[Any]
    leaves: Sequence[Any]


def default_tolerance() -> float:
    """What torch's own accuracy tools allow: `torch._dynamo.config.repro_tolerance`."""
    return float(features.require(features.module("torch._dynamo.config"), "repro_tolerance"))


@dataclass(frozen=True, slots=True)
class Comparing:
    """What to do with the graphs of each frame that is compiled; `wrap` is for `hooks.observing`.

    `differs` hears of a difference, `unsure` gets a sentence where no comparison was possible. Neither may raise.
    """

    differs: Observer
    unsure: Callable[[str], None]
    tolerance: float
    selects: Callable[[CodeType], bool]

    def wrap(self, backend: Any, code: CodeType) -> Any:
        """The backend, with every graph that it compiles compared at each call."""
        if not self.selects(code):
            return backend

        def around(graph: Any, compiled: Callable[..., Any]) -> Callable[..., Any]:
            return _Compared(graph, compiled, self, code.co_name, only_once=_reuses_memory(backend)).run

        return Intercepted(backend, around)


class _Compared:
    """One compiled graph and its uncompiled twin."""

    def __init__(
        self, graph: Any, compiled: Callable[..., Any], asked: Comparing, name: str, *, only_once: bool
    ) -> None:
        self._torch = features.module("torch")
        self._graph, self._compiled, self._asked, self._name = graph, compiled, asked, name
        self._told: set[str] = set()
        self._only_once = only_once

    def run(self, *inputs: Any) -> Any:
        """Call the compiled graph, compare, and give back what it gave."""
        if getattr(_busy, "now", False):
            return self._compiled(*inputs)
        before, generators = Snapshot(inputs), _Generators(self._torch)
        output = self._compiled(*inputs)
        after = _Generators(self._torch)
        _busy.now = True
        try:
            found = self._compare(inputs, output, before, (generators, after))
            generators.restore()
            if found is not None:
                self._asked.differs(found, before)
        except Exception as error:  # noqa: BLE001 - the program must not notice
            self._skip(f"it raised {type(error).__name__}: {error}")
        finally:
            _busy.now = False
            after.restore()
        return output

    def _compare(
        self, inputs: Sequence[Any], output: Any, before: Snapshot, drawn: tuple[_Generators, _Generators]
    ) -> Difference | None:
        """`drawn`: the generators before and after the compiled graph ran."""
        (generators, after), grad = drawn, self._torch.is_grad_enabled()
        generators.restore()
        arguments, leaves = before.fresh()
        plain = _Side(self._graph(*arguments), arguments, leaves)
        if not after.are_current():
            self._skip("it draws other random numbers; set torch._inductor.config.fallback_random = True")
            return None
        generators.restore()
        golden = self._golden(before) or plain
        with self._torch.no_grad():
            found = deviation.first(
                [*self._outputs(output, plain, golden), *self._written(inputs, plain, golden, before)],
                self._asked.tolerance,
            )
        if found is not None or not grad or not self._differentiable(plain):
            return found
        if self._only_once:
            self._skip("with CUDA graphs only outputs are compared, not gradients")
            return None
        generators.restore()
        return self._compare_gradients(plain, golden, before)

    def _compare_gradients(self, plain: _Side, golden: _Side, before: Snapshot) -> Difference | None:
        again, leaves = before.fresh()
        actual = self._gradients(_Side(self._compiled(*again), again, leaves))
        wanted = self._gradients(plain)
        best = wanted if golden is plain else self._gradients(golden)
        names = [f"gradient of {name}" for name in self._input_names()]
        with self._torch.no_grad():
            return deviation.first(map(Trio, names, actual, wanted, best), self._asked.tolerance)

    def _golden(self, before: Snapshot) -> _Side | None:
        """The graph in double precision; None where it cannot be run so."""
        tools = features.module("torch._dynamo.debug_utils")
        arguments, leaves = before.in_double()
        try:
            wide, _ = features.require(tools, "cast_to_fp64")(copy.deepcopy(self._graph), [])
            return _Side(wide(*arguments), arguments, leaves)
        except Exception:  # noqa: BLE001 - an operation without float64: torch's tools go on without as well
            return None

    def _outputs(self, output: Any, plain: _Side, golden: _Side) -> Iterator[Trio]:
        nodes = self._output_nodes()
        sides = (self._leaves(output), self._leaves(plain.output), self._leaves(golden.output))
        for at, (one, two, three) in enumerate(zip(*sides, strict=True)):
            yield Trio(f"output {at}", one, two, three, nodes[at] if at < len(nodes) else None)

    def _written(
        self, inputs: Sequence[Any], plain: _Side, golden: _Side, before: Snapshot
    ) -> Iterator[Trio]:
        names = self._input_names()
        for at in before.written():
            where = f"{names[at]}, which the graph writes to"
            yield Trio(where, inputs[at], plain.inputs[at], golden.inputs[at])

    def _leaves(self, value: Any) -> list[Any]:
        leaves = features.require(features.module("torch.utils._pytree"), "tree_leaves")(value)
        return [one.detach() if isinstance(one, self._torch.Tensor) else one for one in leaves]

    def _differentiable(self, side: _Side) -> list[Any]:
        """The outputs that have gradients; none if no input wants one."""
        if all(leaf is None for leaf in side.leaves):
            return []
        leaves = features.require(features.module("torch.utils._pytree"), "tree_leaves")(side.output)
        return [one for one in leaves if isinstance(one, self._torch.Tensor) and one.requires_grad]

    def _gradients(self, side: _Side) -> list[Any]:
        torch, chosen = self._torch, [leaf for leaf in side.leaves if leaf is not None]
        outputs = self._differentiable(side)
        ones = [torch.ones_like(one) for one in outputs]
        with torch.enable_grad():
            found = iter(torch.autograd.grad(outputs, chosen, ones, allow_unused=True))
        return [None if leaf is None else next(found) for leaf in side.leaves]

    def _input_names(self) -> list[str]:
        nodes = [node for node in self._graph.graph.nodes if node.op == "placeholder"]
        return [_source_name(node) for node in nodes]

    def _output_nodes(self) -> list[Any]:
        ends = [node for node in self._graph.graph.nodes if node.op == "output"]
        return features.module("torch.utils._pytree").tree_leaves(ends[-1].args) if ends else []

    def _skip(self, why: str) -> None:
        if why not in self._told:
            self._told.add(why)
            self._asked.unsure(f"replay could not compare {self._name!r} with uncompiled code: {why}")


class _Generators:
    """The states of the random number generators, at construction."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
        self._cpu = torch.get_rng_state()

    def restore(self) -> None:
        """Set them back."""
        self._torch.set_rng_state(self._cpu)
        if self._cuda:
            self._torch.cuda.set_rng_state_all(self._cuda)

    def are_current(self) -> bool:
        """Whether nothing was drawn since."""
        now = _Generators(self._torch)
        return bool((now._cpu == self._cpu).all()) and all(
            bool((one == two).all()) for one, two in zip(now._cuda, self._cuda, strict=False)
        )


def _reuses_memory(backend: Any) -> bool:
    """Whether compiled code is run through CUDA graphs: a second run would write over the program's outputs."""
    backend = compiling.innermost(backend)
    if "cudagraphs" in str(getattr(backend, "__name__", "")):
        return True
    options = getattr(backend, "config", None) or {}
    inductor = features.module("torch._inductor.config")
    return bool(options.get("triton.cudagraphs", inductor.triton.cudagraphs))


def _source_name(node: Any) -> str:
    """`x` of Dynamo's `L['x']`; the node's own name where there is no source."""
    source = getattr(node, "_dynamo_source", None)
    name = getattr(source, "name", None)
    text = str(name() if callable(name) else name) if name is not None else str(node.name)
    local = re.fullmatch(r"L\['(\w+)'\](.*)", text)
    return f"{local[1]}{local[2]}" if local else text
