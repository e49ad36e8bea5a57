"""The gradients that reach given tensors in a backward, whatever became of the tensors since.

A tensor that is written to has another place in the graph afterwards: the place is taken before. Nothing here runs a
backward; `compiling.run_backward` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from replay.torch_adapter import features


class Gradients:
    """Where the gradients of tensors will arrive, taken when this is made. Used as a context around the backward."""

    def __init__(self, tensors: Mapping[str, Any]) -> None:
        edge = features.module("torch.autograd.graph").get_gradient_edge
        parameter = features.module("torch.nn.parameter").UninitializedTensorMixin
        wanted = {name: one for name, one in tensors.items() if one.requires_grad}
        self._edges = {name: edge(one) for name, one in wanted.items() if not isinstance(one, parameter)}
        self._handles: list[Any] = []
        self.taken: dict[str, Any] = dict.fromkeys(self._edges)

    def watch(self) -> None:
        """From now on, keep what arrives."""
        for name, edge in self._edges.items():
            self._handles.append(edge.node.register_prehook(self._keeper(name, edge.output_nr)))

    def stop(self) -> None:
        """Keep nothing more."""
        while self._handles:
            self._handles.pop().remove()

    def _keeper(self, name: str, position: int) -> Any:
        def keep(arriving: Any) -> None:
            gradient = arriving[position]
            if gradient is not None:
                self.taken[name] = gradient.detach().clone()

        return keep


def wanted(output: Any) -> bool:
    """Whether anything in a frame's output can be differentiated."""
    torch = features.module("torch")
    leaves = features.require(features.module("torch.utils._pytree"), "tree_leaves")(output)
    return any(issubclass(type(one), torch.Tensor) and one.requires_grad for one in leaves)
