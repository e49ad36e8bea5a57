"""What a program that was recorded with CUDA is told about it on a machine without.

The frame asks `torch.cuda.is_available()` and takes a branch; to fail as it did, it must hear what it heard. torch's
own code hears the truth, but for the parts that answer in the frame's name. Only facts of the recording are told;
what it does not hold is missing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import CodeType, FunctionType, ModuleType
from typing import Any

from replay.errors import MissingError
from replay.torch_adapter import features, kernels

_IN_ITS_NAME = ("torch._dynamo.variables", "torch.amp", "torch.cuda.amp")
"""Modules of torch that ask on behalf of the frame."""
_HOOK = "_replay_answer"


@contextmanager
def cuda_as_recorded(gpus: Sequence[str], device: Mapping[str, Any], asked: set[str]) -> Iterator[None]:
    """Answer as the recording machine did.

    `gpus`: the names of its devices. `device`: `index` of the current one and its `capability`, where recorded.
    `asked` gets the names of the functions that the frame called.
    The functions stay the same objects, because Dynamo knows them by identity; their code is exchanged.
    """
    cuda = features.module("torch.cuda")
    told = _Told(cuda, tuple(gpus), device, asked)
    with ExitStack() as stack:
        setattr(cuda, _HOOK, told.answer)
        stack.callback(delattr, cuda, _HOOK)
        for template in _TEMPLATES:
            function = features.require(cuda, template.__name__)
            stack.callback(setattr, function, "__code__", function.__code__)
            function.__code__ = template.__code__
        stack.enter_context(kernels.known_to_dynamo())
        yield


class _Told:
    """What is said, and to whom."""

    def __init__(
        self, cuda: ModuleType, gpus: tuple[str, ...], device: Mapping[str, Any], asked: set[str]
    ) -> None:
        self.gpus, self.device, self.asked = gpus, device, asked
        self.truth = {one.__name__: _copy(features.require(cuda, one.__name__)) for one in _TEMPLATES}

    def answer(self, name: str, *arguments: Any) -> Any:
        """The recording's answer, or the truth for torch itself."""
        caller = str(sys._getframe(2).f_globals.get("__name__", ""))
        if not self._hears(caller, name):
            return self.truth[name](*arguments)
        self.asked.add(name)
        return getattr(self, name)(*arguments)

    def _hears(self, caller: str, name: str) -> bool:
        if name in _FOR_ALL or caller.partition(".")[0] not in ("torch", "replay"):
            return True
        # they call these as nodes of the graph; `is_available` they ask for themselves
        runs_nodes = caller == "torch._dynamo.utils" or caller.startswith("torch.fx.")
        return caller.startswith(_IN_ITS_NAME) or (runs_nodes and name != "is_available")

    def is_available(self) -> bool:
        return bool(self.gpus)

    def device_count(self) -> int:
        return len(self.gpus)

    def current_device(self) -> int:
        return int(self.device.get("index", 0))

    def get_device_name(self, device: Any) -> str:
        return self.gpus[self._index(device)]

    def get_device_capability(self, device: Any) -> tuple[int, int]:
        capability = self.device.get("capability")
        if capability is None or self._index(device) != self.current_device():
            raise MissingError("a CUDA device: the recording does not say its compute capability")
        return int(capability[0]), int(capability[1])

    def is_bf16_supported(self, including_emulation: bool) -> bool:
        capability = self.device.get("capability")
        return including_emulation or capability is None or int(capability[0]) >= 8

    def _lazy_init(self) -> None:
        """Nothing to start: no kernel runs."""

    def _index(self, device: Any) -> int:
        if device is None:
            return self.current_device()
        if isinstance(device, int):
            return device
        index = features.module("torch").device(device).index
        return self.current_device() if index is None else int(index)


_FOR_ALL = ("current_device", "_lazy_init")


def _copy(function: Any) -> Callable[..., Any]:
    code: CodeType = function.__code__
    return FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )


# The codes that torch.cuda's functions run meanwhile, in that module's namespace: their signatures are torch's.


def is_available() -> bool:  # noqa: D103 - see above
    return _replay_answer("is_available")  # type: ignore[name-defined,no-any-return]  # noqa: F821


def device_count() -> int:  # noqa: D103
    return _replay_answer("device_count")  # type: ignore[name-defined,no-any-return]  # noqa: F821


def current_device() -> int:  # noqa: D103
    return _replay_answer("current_device")  # type: ignore[name-defined,no-any-return]  # noqa: F821


def get_device_name(device: Any = None) -> str:  # noqa: D103
    return _replay_answer("get_device_name", device)  # type: ignore[name-defined,no-any-return]  # noqa: F821


def get_device_capability(device: Any = None) -> tuple[int, int]:  # noqa: D103
    return _replay_answer("get_device_capability", device)  # type: ignore[name-defined,no-any-return]  # noqa: F821


def is_bf16_supported(including_emulation: bool = True) -> bool:  # noqa: D103
    return _replay_answer("is_bf16_supported", including_emulation)  # type: ignore[name-defined,no-any-return]  # noqa: F821


def _lazy_init() -> None:
    return _replay_answer("_lazy_init")  # type: ignore[name-defined,no-any-return]  # noqa: F821


_TEMPLATES: tuple[Any, ...] = (
    *(is_available, device_count, current_device, get_device_name),
    *(get_device_capability, is_bf16_supported, _lazy_init),
)
