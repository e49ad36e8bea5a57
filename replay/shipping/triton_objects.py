"""Triton's kernels: a JIT function travels as the Python function that it was made of.

Nothing here imports triton before a kernel is met or made. Without triton a kernel is missing.
"""

from __future__ import annotations

from typing import Any

from replay.shipping.dumping import Dumping, Reduced
from replay.shipping.functions import refers
from replay.shipping.loading import Loading, builder
from replay.shipping.others import fill_plain, make_plain
from replay.shipping.placeholders import Placeholder, missing_here

SETTINGS = ("do_not_specialize", "do_not_specialize_on_alignment", "debug", "noinline", "repr", "launch_metadata")
MEASURED = ("cache", "configs_timings", "bench_time")


def reducer_for(cls: type) -> Any:
    """The reducer for one of triton's kernel classes, None for any other."""
    if not cls.__module__.startswith("triton.runtime"):
        return None
    return {"JITFunction": reduce_kernel, "Autotuner": reduce_tuner, "Heuristics": reduce_tuner}.get(cls.__name__)


def reduce_kernel(dumping: Dumping, kernel: Any) -> Any:
    """By name, or by its function and the arguments of `triton.jit`."""
    if dumping.policy.by_value(kernel.fn.__module__) or not refers(dumping, kernel):
        given = {name: getattr(kernel, name, None) for name in SETTINGS}
        settings = {name: value for name, value in given.items() if value is not None and _is_setting(value)}
        return make_kernel, (kernel.fn, settings)
    return NotImplemented


def _is_setting(value: Any) -> bool:
    return not getattr(value, "__module__", "").startswith("triton.runtime") and not hasattr(value, "__self__")


@builder
def make_kernel(loading: Loading, function: Any, settings: dict[str, Any]) -> Any:
    if isinstance(function, Placeholder):
        return function
    try:
        import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]

        return triton.jit(function, **settings)
    except ImportError as error:
        return missing_here(loading, function.__qualname__, "triton.JITFunction", str(error))


def reduce_tuner(dumping: Dumping, tuner: Any) -> Reduced:
    """An autotuner or heuristics, without what it has measured."""
    state = {name: ({} if name in MEASURED and isinstance(value, dict) else value) for name, value in vars(tuner).items()}
    return make_plain, (type(tuner),), (state, {}), None, None, fill_plain
