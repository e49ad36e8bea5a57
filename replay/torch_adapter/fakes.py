"""Tensors without memory, on devices that need not exist, and compiling over them without running a kernel.

A fake tensor has a shape, a type and a device; torch's operators compute those of their results. Dynamo and
AOTAutograd see what they see where the device is, so that errors read the same. What this cannot do: values,
and gradients of fake CUDA tensors on a machine without CUDA (torch's autograd engine asks for the device).
"""

from __future__ import annotations

import copy
import ctypes
import functools
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from replay.errors import MissingError, UnsupportedTorchError
from replay.torch_adapter import devices, features

_GUARDS = "_ZN3c104impl26device_guard_impl_registryE"
"""c10::impl::device_guard_impl_registry: for each kind of device, how C++ asks for its streams."""
_CPU, _CUDA = 0, 1  # c10::DeviceType


class StoppedError(Exception):
    """A compiled graph's outputs depend on values, which fake tensors do not have: what follows is unknown."""


class Fakes:
    """One fake mode, and the tensors made in it."""

    def __init__(self) -> None:
        module = features.module("torch._subclasses.fake_tensor")
        self._class = features.require(module, "FakeTensor")
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
                stack.enter_context(_cuda_guard())
                stack.enter_context(_cuda_method(self._class))
                stack.enter_context(_inductor_needs_cuda())
            yield

    @contextmanager
    def running(self, *, backward: bool) -> Iterator[None]:
        """Compile in here; of a compiled graph only the shapes of its outputs are computed.

        `backward`: graphs of other backends than Inductor are called as they were compiled (over fake tensors, so
        that nothing is computed either), for their backward to be compiled too.
        """
        with ExitStack() as stack:
            stack.enter_context(_compiling_only(keep_compiled=backward))
            stack.enter_context(self._mode)
            if devices.cuda_count() == 0:
                stack.enter_context(_cuda_guard())  # entering the mode may have set another
            yield


@contextmanager
def patched(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Set an attribute for a while; UnsupportedTorchError if there is none."""
    before = features.require(owner, name)
    own = name in vars(owner)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if own:
            setattr(owner, name, before)
        else:
            delattr(owner, name)


@contextmanager
def wrapped_compiler(wrap: Callable[..., Any]) -> Iterator[None]:
    """Call `wrap(original, graph, gm, inputs)` where Dynamo calls the backend."""
    owner = features.require(features.module("torch._dynamo.output_graph"), "OutputGraph")
    original = features.require(owner, "call_user_compiler")

    @functools.wraps(original)
    def call_user_compiler(self: Any, gm: Any, example_inputs: Any) -> Any:
        return wrap(functools.partial(original, self), self, gm, example_inputs)

    with patched(owner, "call_user_compiler", call_user_compiler):
        yield


@contextmanager
def _compiling_only(*, keep_compiled: bool) -> Iterator[None]:
    fx = features.module("torch.fx")

    def wrap(original: Callable[..., Any], graph: Any, gm: Any, inputs: Any) -> Any:
        before = fx.GraphModule(gm, copy.copy(gm.graph))
        compiled = original(gm, inputs)
        name = getattr(graph.compiler_fn, "compiler_name", getattr(graph.compiler_fn, "__name__", ""))
        return compiled if keep_compiled and name != "inductor" else _shapes_of(before)

    with wrapped_compiler(wrap):
        yield


def _shapes_of(gm: Any) -> Callable[..., Any]:
    """What stands for a compiled graph: the graph itself, over fake tensors."""

    def shapes(*inputs: Any) -> Any:
        try:
            return gm(*inputs)
        except Exception as error:
            text = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
            raise StoppedError(f"stopped where a compiled graph would run: {text}") from error

    return shapes


@contextmanager
def _inductor_needs_cuda() -> Iterator[None]:
    """Inductor cannot make code for a device that is not here; all before it (AOTAutograd) is done by then."""
    module = features.module("torch._inductor.compile_fx")
    original = features.require(module, "fx_codegen_and_compile")

    @functools.wraps(original)
    def fx_codegen_and_compile(gm: Any, example_inputs: Any, *rest: Any, **kwargs: Any) -> Any:
        values = [node.meta.get("val") for node in gm.graph.nodes]
        if any(getattr(getattr(one, "device", None), "type", "") == "cuda" for one in values):
            raise MissingError("Inductor needs a CUDA device for this graph, and there is none here")
        return original(gm, example_inputs, *rest, **kwargs)

    with patched(module, "fx_codegen_and_compile", fx_codegen_and_compile):
        yield


@contextmanager
def _cuda_guard() -> Iterator[None]:
    """Let C++ take the CPU's streams for CUDA's; without it, a tensor that requires a gradient ends the process.

    torch has the same trick for its builds with CUDA (`_ensureCUDADeviceGuardSet`), not for those without.
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
def _cuda_method(fake_tensor: type) -> Iterator[None]:
    """`x.cuda()` asks the driver in C++; `x.to("cuda:0")` does not."""

    def cuda(self: Any, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Any:
        torch = features.module("torch")
        index = device if isinstance(device, int) else getattr(torch.device(device or "cuda"), "index", None)
        place = torch.device("cuda", torch.cuda.current_device() if index is None else index)
        return self.to(
            place, non_blocking=non_blocking, memory_format=memory_format or torch.preserve_format
        )

    with patched(fake_tensor, "cuda", cuda):
        yield
