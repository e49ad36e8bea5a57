"""Fake CUDA tensors where there is no CUDA driver: what in torch asks for the device all the same.

Each part either answers without the device, or says that it needs one, where it would end the process.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from replay.errors import MissingError, UnsupportedTorchError
from replay.torch_adapter import features
from replay.torch_adapter.patching import patched, wrapped_compiler

_GUARDS = "_ZN3c104impl26device_guard_impl_registryE"
"""c10::impl::device_guard_impl_registry: for each kind of device, how C++ asks for its streams and its index."""
_CPU, _CUDA = 0, 1  # c10::DeviceType


@contextmanager
def cuda_without_driver(fake_tensor: type, fall_short: Callable[[], None]) -> Iterator[None]:
    """Around all use of fake CUDA tensors. `fall_short` is called where the driver is needed."""
    with ExitStack() as stack:
        stack.enter_context(_autograd_needs_cuda(fall_short))
        stack.enter_context(_inductor_needs_cuda(fall_short))
        if not _torch_has_guard():
            stack.enter_context(_cuda_guard())
            stack.enter_context(_methods(fake_tensor))
            stack.enter_context(wrapped_compiler(_compile_indexed))
        yield


def indexed(value: Any) -> Any:
    """The current CUDA device for one without an index; anything else as it is."""
    torch = features.module("torch")
    plain = (
        value.type == "cuda" and value.index is None if isinstance(value, torch.device) else value == "cuda"
    )
    return torch.device("cuda", torch.cuda.current_device()) if plain else value


def _torch_has_guard() -> bool:
    """Whether torch sets a guard for fake CUDA tensors by itself: in builds with CUDA, from 2.11 on."""
    compiled = features.require(features.module("torch.cuda"), "_is_compiled")()
    ensure = getattr(features.require(features.module("torch"), "_C"), "_ensureCUDADeviceGuardSet", None)
    if not compiled or ensure is None:
        return False
    ensure()
    return True


@contextmanager
def _autograd_needs_cuda(fall_short: Callable[[], None]) -> Iterator[None]:
    """The autograd engine asks the driver for streams; some versions of torch end the process then."""
    module = features.module("torch.autograd")
    original = features.require(module, "_engine_run_backward")

    @functools.wraps(original)
    def _engine_run_backward(outputs: Any, *rest: Any, **kwargs: Any) -> Any:
        if any(getattr(getattr(one, "device", None), "type", "") == "cuda" for one in outputs):
            fall_short()
            raise MissingError("autograd needs a CUDA device for these tensors, and there is none here")
        return original(outputs, *rest, **kwargs)

    with patched(module, "_engine_run_backward", _engine_run_backward):
        yield


@contextmanager
def _inductor_needs_cuda(fall_short: Callable[[], None]) -> Iterator[None]:
    """Inductor cannot make code for a device that is not here; all before it (AOTAutograd) is done by then."""
    module = features.module("torch._inductor.compile_fx")
    original = features.require(module, "fx_codegen_and_compile")

    @functools.wraps(original)
    def fx_codegen_and_compile(gm: Any, example_inputs: Any, *rest: Any, **kwargs: Any) -> Any:
        values = [node.meta.get("val") for node in gm.graph.nodes]
        if any(getattr(getattr(one, "device", None), "type", "") == "cuda" for one in values):
            fall_short()
            raise MissingError("Inductor needs a CUDA device for this graph, and there is none here")
        return original(gm, example_inputs, *rest, **kwargs)

    with patched(module, "fx_codegen_and_compile", fx_codegen_and_compile):
        yield


@contextmanager
def _cuda_guard() -> Iterator[None]:
    """Let C++ take the CPU's streams for CUDA's; without it, a tensor that requires a gradient ends the process.

    Where torch does the like itself, this is not used. The CPU's guard names the CPU where C++ asks for the index of
    a plain "cuda", so that `indexed` must come first.
    """
    torch = features.module("torch")
    path = os.path.join(os.path.dirname(str(torch.__file__)), "lib", "libc10.so")
    try:
        registry = (ctypes.c_void_p * (_CUDA + 1)).in_dll(ctypes.CDLL(path), _GUARDS)
    except (OSError, ValueError) as error:
        raise UnsupportedTorchError(
            f"torch {torch.__version__}: fake CUDA tensors need {_GUARDS}: {error}"
        ) from None
    before = registry[_CUDA]
    registry[_CUDA] = registry[_CPU]
    try:
        yield
    finally:
        registry[_CUDA] = before


@contextmanager
def _methods(fake_tensor: type) -> Iterator[None]:
    """`x.cuda()` and `x.to("cuda")`, as Dynamo traces them."""
    torch = features.module("torch")

    def to(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = {name: indexed(value) for name, value in kwargs.items()}
        return torch.Tensor.to(self, *(indexed(one) for one in args), **given)

    def cuda(self: Any, device: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
        place = torch.device("cuda", device) if isinstance(device, int) else indexed(device or "cuda")
        return torch.Tensor.to(self, device=place, non_blocking=non_blocking, **kwargs)

    with patched(fake_tensor, "to", to), patched(fake_tensor, "cuda", cuda):
        yield


def _compile_indexed(original: Callable[..., Any], graph: Any, gm: Any, inputs: Any) -> Any:
    """The backend traces the graph again, with tensors of its own: no plain "cuda" may be left in it."""
    fx = features.module("torch.fx")
    for module in gm.modules():
        if not isinstance(module, fx.GraphModule):
            continue
        for node in module.graph.nodes:
            if node.op == "call_method" and node.target == "cuda":
                place = node.args[1] if len(node.args) > 1 else node.kwargs.get("device", "cuda")
                node.target, node.args, node.kwargs = "to", (node.args[0], place), {}
            if node.op == "call_method" and node.target == "to":
                node.args = fx.node.map_aggregate(node.args, indexed)
                node.kwargs = fx.node.map_aggregate(node.kwargs, indexed)
        module.recompile()
    return original(gm, inputs)
