"""Triton's kernels: a JIT function travels as the Python function that it was made of.

Nothing here imports triton before a kernel is met or made. Without triton a kernel is missing.
"""

from __future__ import annotations

from typing import Any

from replay.shipping.dumping import Dumping, Reduced
from replay.shipping.functions import found_by_name
from replay.shipping.loading import Loading, builder
from replay.shipping.modules import import_real
from replay.shipping.placeholders import Placeholder, missing_here
from replay.shipping.plain import fill_plain, make_plain

SETTINGS = (
    *("do_not_specialize", "do_not_specialize_on_alignment"),
    *("debug", "noinline", "repr", "launch_metadata"),
)
MEASURED = ("cache", "configs_timings", "bench_time")


def reducer_for(cls: type) -> Any:
    """The reducer for one of triton's kernel classes, None for any other."""
    if not cls.__module__.startswith("triton.runtime"):
        return None
    if cls.__name__ in ("JITFunction", "InterpretedFunction"):
        return reduce_kernel
    return reduce_tuner if cls.__name__ in ("Autotuner", "Heuristics") else None


def reduce_kernel(dumping: Dumping, kernel: Any) -> Any:
    """By name where a library defines it, or by its function and the arguments of `triton.jit`."""
    module, name = kernel.fn.__module__, kernel.fn.__qualname__
    if not dumping.policy.by_value(module) and found_by_name(module, name) is kernel:
        dumping.policy.refer(module)
        return import_kernel, (module, name)
    given = {setting: getattr(kernel, setting, None) for setting in SETTINGS}
    settings = {
        setting: value for setting, value in given.items() if value is not None and _is_setting(value)
    }
    return make_kernel, (kernel.fn, settings)


@builder
def import_kernel(loading: Loading, module: str, name: str) -> Any:
    """A library's kernel, a placeholder where the library is absent."""
    import_real(loading, module)
    found = found_by_name(module, name)
    return missing_here(loading, name, "kernel", f"{module} has no {name} here") if found is None else found


def _is_setting(value: Any) -> bool:
    module = getattr(value, "__module__", None) or ""
    return not module.startswith("triton.runtime") and not hasattr(value, "__self__")


@builder
def make_kernel(loading: Loading, function: Any, settings: dict[str, Any]) -> Any:
    """The kernel; missing where there is no triton."""
    if isinstance(function, Placeholder):
        return function
    try:
        import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]

        return triton.jit(function, **settings)
    except ImportError as error:
        return missing_here(loading, function.__qualname__, "triton.JITFunction", str(error))


def reduce_tuner(dumping: Dumping, tuner: Any) -> Reduced:
    """An autotuner or heuristics, without what it has measured."""
    state = vars(tuner) | {name: {} for name in MEASURED if isinstance(vars(tuner).get(name), dict)}
    return make_plain, (type(tuner),), (state, {}), None, None, fill_plain
