"""Tensors without memory, on devices that need not exist, and compiling over them without running a kernel.

A fake tensor has a shape, a type and a device; torch's operators compute those of their results. Dynamo and
AOTAutograd see what they see where the device is, so that errors read the same. What this cannot do: values,
and gradients of fake CUDA tensors on a machine without CUDA (torch's autograd engine asks for the device).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from replay.torch_adapter import devices, features, nodevice
from replay.torch_adapter.patching import wrapped_compiler


class StoppedError(Exception):
    """A compiled graph's outputs depend on values, which fake tensors do not have: what follows is unknown."""


class Fakes:
    """One fake mode, and the tensors made in it."""

    def __init__(self) -> None:
        module = features.module("torch._subclasses.fake_tensor")
        self._class = features.require(module, "FakeTensor")
        self.short = False  # a backend needed the device for its part
        self._mode = features.require(module, "FakeTensorMode")(allow_non_fake_inputs=True)

    def tensor(self, meta: Any, device: str) -> Any:
        """A fake tensor on `device` over a tensor on the device "meta"; their storage is the same."""
        torch = features.module("torch")
        return self._class(self._mode, meta, torch.device(device))

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Around the making of tensors, and all else."""
        with ExitStack() as stack:
            if devices.cuda_count() == 0:
                stack.enter_context(nodevice.cuda_without_driver(self._class, self._fall_short))
            yield

    def _fall_short(self) -> None:
        self.short = True

    @contextmanager
    def running(self, *, backward: bool) -> Iterator[None]:
        """Compile in here; of a compiled graph only the shapes of its outputs are computed.

        `backward`: graphs of other backends than Inductor are called as they were compiled (over fake tensors, so
        that nothing is computed either), for their backward to be compiled too.
        """
        with ExitStack() as stack:
            stack.enter_context(self._compiling_only(keep_compiled=backward))
            stack.enter_context(self._mode)
            yield

    @contextmanager
    def _compiling_only(self, *, keep_compiled: bool) -> Iterator[None]:
        fx = features.module("torch.fx")
        unset = features.require(features.module("torch._subclasses.fake_tensor"), "unset_fake_temporarily")

        def wrap(original: Callable[..., Any], graph: Any, gm: Any, inputs: Any) -> Any:
            shapes = _shapes_of(fx.GraphModule(gm, copy.copy(gm.graph)))
            before, self.short = self.short, False
            try:
                with unset():  # AOTAutograd takes Dynamo's fake mode, and refuses where another is active
                    compiled = original(gm, _of_dynamo(graph, inputs))
            except Exception:
                if not self.short:
                    raise
                compiled = (
                    shapes  # nothing failed until the device was needed; in a later frame something may
                )
            finally:
                self.short |= before
            return compiled if keep_compiled and _compiler_name(graph) != "inductor" else shapes

        with wrapped_compiler(wrap):
            yield


def _compiler_name(graph: Any) -> str:
    compiler = graph.compiler_fn
    return str(getattr(compiler, "compiler_name", getattr(compiler, "__name__", "")))


def _of_dynamo(graph: Any, inputs: Sequence[Any]) -> list[Any]:
    """The inputs in Dynamo's own fake mode; torch 2.9 passes on ours, which are of another, and refuses them."""
    torch = features.module("torch")
    mode = features.require(graph, "fake_mode")

    def converted(one: Any) -> Any:
        if getattr(one, "fake_mode", mode) is mode:
            return one
        meta = torch.empty_strided(one.shape, one.stride(), dtype=one.dtype, device="meta")
        return type(one)(mode, meta, one.device).requires_grad_(one.requires_grad)

    return [converted(one) for one in inputs]


def _shapes_of(gm: Any) -> Callable[..., Any]:
    """What stands for a compiled graph: the graph itself, over fake tensors."""

    def shapes(*inputs: Any) -> Any:
        try:
            return gm(*inputs)
        except Exception as error:
            text = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
            raise StoppedError(f"stopped where a compiled graph would run: {text}") from error

    return shapes
