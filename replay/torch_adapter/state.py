"""Global state that decides how code runs: grad mode, autocast, defaults, determinism, threads, generators.

Captured as plain data (numbers, strings, bytes, lists), applied for a while, compared. Configs live in
`replay.torch_adapter.configs`.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

from replay.recording import Drift
from replay.torch_adapter import devices, features, stances

AUTOCAST_DEVICES = ("cpu", "cuda")


def capture() -> dict[str, Any]:
    """The state of this thread, as plain data, without the generators."""
    torch = features.module("torch")
    state: dict[str, Any] = {
        "grad_enabled": torch.is_grad_enabled(),
        "inference_mode": torch.is_inference_mode_enabled(),
        "autocast": _autocast(torch),
        "autocast_cache": torch.is_autocast_cache_enabled(),
        "default_dtype": _name(torch.get_default_dtype()),
        "default_device": _default_device(torch),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "deterministic_warn_only": torch.is_deterministic_algorithms_warn_only_enabled(),
        "fill_uninitialized_memory": bool(torch.utils.deterministic.fill_uninitialized_memory),
        "matmul_precision": torch.get_float32_matmul_precision(),
        "anomaly": torch.is_anomaly_enabled(),
        "threads": torch.get_num_threads(),
        "interop_threads": torch.get_num_interop_threads(),
        "cudnn": {name: bool(getattr(torch.backends.cudnn, name)) for name in _CUDNN},
        "stance": stances.current(),
        "sdp": {name: bool(getattr(torch.backends.cuda, f"{name}_sdp_enabled")()) for name in _SDP},
    }
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        state["cuda_device"] = {
            "index": torch.cuda.current_device(),
            "capability": list(torch.cuda.get_device_capability()),
        }
    return state


_CUDNN = ("enabled", "benchmark", "deterministic", "allow_tf32")
_SDP = ("flash", "mem_efficient", "math", "cudnn")

ORDINARY: Mapping[str, Any] = {
    "grad_enabled": True,
    "inference_mode": False,
    "autocast": {},
    "autocast_cache": True,
    "default_dtype": "float32",
    "default_device": None,
    "deterministic": False,
    "deterministic_warn_only": False,
    "fill_uninitialized_memory": True,
    "matmul_precision": "highest",
    "anomaly": False,
    "stance": "default",
}
"""What a fresh process has; reports show what differs from it."""


@contextmanager
def applied(state: Mapping[str, Any], place: Callable[[str], str] = devices.nearest) -> Iterator[list[Drift]]:
    """Set the recorded state, put back what was there. Yields what could not be set.

    `place(device)`: where a device of the recording is now.
    """
    torch = features.module("torch")
    before = capture()
    drift: list[Drift] = []
    with ExitStack() as stack:
        stack.callback(seed, {"generators": generators()})
        stack.callback(_set_globals, torch, before, [])
        _set_globals(torch, state, drift)
        off = {name: {**setting, "enabled": False} for name, setting in before["autocast"].items()}
        for device, setting in {**off, **_placed(state.get("autocast", {}), place, drift)}.items():
            stack.enter_context(
                torch.autocast(
                    device,
                    dtype=getattr(torch, setting["dtype"]),
                    enabled=setting["enabled"],
                    cache_enabled=bool(state.get("autocast_cache", True)),
                )
            )
        if state.get("default_device") is not None:
            stack.enter_context(_on_device(torch, state["default_device"], place, drift))
        stack.enter_context(torch.inference_mode(bool(state.get("inference_mode"))))
        stack.enter_context(torch.set_grad_enabled(bool(state.get("grad_enabled", True))))
        if bool(state.get("anomaly")) != torch.is_anomaly_enabled():
            stack.enter_context(torch.autograd.set_detect_anomaly(bool(state.get("anomaly"))))
        yield drift


def seed(state: Mapping[str, Any]) -> list[Drift]:
    """Put the generators where they were; what this process lacks is drift."""
    torch = features.module("torch")
    return _set_generators(torch, state.get("generators", {}))


def grad(enabled: bool) -> AbstractContextManager[None]:
    """Gradients on or off for a while."""
    context: AbstractContextManager[None] = features.module("torch").set_grad_enabled(enabled)
    return context


def function_modes() -> list[Any]:
    """The user's own torch-function modes that are active, outermost first; not the default device's."""
    overrides = features.module("torch.overrides")
    stack = features.require(overrides, "_get_current_function_mode_stack")()
    device_context = features.require(features.module("torch.utils._device"), "DeviceContext")
    return [mode for mode in stack if not isinstance(mode, device_context)]


def _placed(autocast: Mapping[str, Any], place: Callable[[str], str], drift: list[Drift]) -> dict[str, Any]:
    """Autocast of the kinds of device where the tensors are now."""
    found = {}
    for device, setting in autocast.items():
        here = place(device).partition(":")[0]
        if here != device:
            drift.append(Drift("autocast", device, here))
        found[here] = setting
    return found


def _autocast(torch: Any) -> dict[str, Any]:
    return {
        device: {"enabled": True, "dtype": _name(torch.get_autocast_dtype(device))}
        for device in AUTOCAST_DEVICES
        if torch.is_autocast_enabled(device)
    }


def _default_device(torch: Any) -> str | None:
    overrides = features.module("torch.overrides")
    stack = features.require(overrides, "_get_current_function_mode_stack")()
    device_context = features.require(features.module("torch.utils._device"), "DeviceContext")
    devices = [str(mode.device) for mode in stack if isinstance(mode, device_context)]
    return devices[-1] if devices else None


def _on_device(torch: Any, name: str, place: Callable[[str], str], drift: list[Drift]) -> Any:
    here = place(name)
    if here != name:
        drift.append(Drift("default_device", name, here))
    return torch.device(here)


def _set_globals(torch: Any, state: Mapping[str, Any], drift: list[Drift]) -> None:
    """What has a setter and no context manager."""
    torch.set_default_dtype(getattr(torch, state.get("default_dtype", "float32")))
    torch.use_deterministic_algorithms(
        bool(state.get("deterministic")), warn_only=bool(state.get("deterministic_warn_only"))
    )
    torch.utils.deterministic.fill_uninitialized_memory = bool(state.get("fill_uninitialized_memory", True))
    if state.get("matmul_precision", "highest") != torch.get_float32_matmul_precision():
        torch.set_float32_matmul_precision(state["matmul_precision"])
    for name, value in state.get("cudnn", {}).items():
        if bool(getattr(torch.backends.cudnn, name)) != value:
            setattr(torch.backends.cudnn, name, value)
    for name, value in state.get("sdp", {}).items():
        getattr(torch.backends.cuda, f"enable_{name}_sdp")(value)
    _set_threads(torch, state, drift)


def _set_threads(torch: Any, state: Mapping[str, Any], drift: list[Drift]) -> None:
    threads = state.get("threads")
    if threads and threads != torch.get_num_threads():
        torch.set_num_threads(int(threads))
    interop = state.get("interop_threads")
    if interop and interop != torch.get_num_interop_threads():
        # torch allows one call per process, before any work: not worth failing for
        drift.append(Drift("interop_threads", str(interop), str(torch.get_num_interop_threads())))


def generators() -> dict[str, Any]:
    """The states of the generators of Python, NumPy and torch; of CUDA only where it is in use."""
    torch = features.module("torch")
    kind, words, gauss = random.getstate()
    found: dict[str, Any] = {
        "python": [kind, list(words), gauss],
        "torch": bytes(torch.get_rng_state().tolist()),
    }
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        name, keys, position, has_gauss, cached = numpy.random.get_state()
        found["numpy"] = [str(name), keys.tobytes(), int(position), int(has_gauss), float(cached)]
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        found["cuda"] = [bytes(one.tolist()) for one in torch.cuda.get_rng_state_all()]
    return found


def _set_generators(torch: Any, recorded: Mapping[str, Any]) -> list[Drift]:
    drift: list[Drift] = []
    if "python" in recorded:
        kind, words, gauss = recorded["python"]
        random.setstate((kind, tuple(words), gauss))
    if "torch" in recorded:
        try:
            torch.set_rng_state(torch.tensor(list(recorded["torch"]), dtype=torch.uint8, device="cpu"))
        except RuntimeError as error:  # another torch may keep its state otherwise
            drift.append(Drift("generators.torch", "recorded", str(error).splitlines()[0]))
    if "numpy" in recorded:
        numpy = sys.modules.get("numpy")
        if numpy is None:
            drift.append(Drift("generators.numpy", "recorded", "numpy is not loaded"))
        else:
            name, keys, *rest = recorded["numpy"]
            numpy.random.set_state((name, numpy.frombuffer(keys, dtype=numpy.uint32), *rest))
    if recorded.get("cuda"):
        if not torch.cuda.is_available() or torch.cuda.device_count() < len(recorded["cuda"]):
            drift.append(Drift("generators.cuda", f"{len(recorded['cuda'])} devices", "not so many here"))
        else:
            states = [torch.tensor(list(one), dtype=torch.uint8, device="cpu") for one in recorded["cuda"]]
            torch.cuda.set_rng_state_all(states)
    return drift


def _name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")
