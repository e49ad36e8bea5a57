"""The transforms of torch.func that were running around a frame, and being inside the same ones again.

Only `vmap` can be entered again from outside: a level of `grad` or `jvp` belongs to a computation that is over.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from replay.errors import MissingError
from replay.torch_adapter import features
from replay.torch_adapter.traits import Device, Kind, Taken, shaped


def running() -> list[dict[str, Any]]:
    """The transforms around the caller, outermost first, as plain data."""
    python = sys.modules.get("torch._functorch.pyfunctorch")
    if python is None:
        return []
    found = []
    for one in features.require(python, "retrieve_all_functorch_interpreters")():
        kind = str(one.key().name)
        sizes = (
            {"batch": int(one.batch_size()), "randomness": str(one.randomness())} if kind == "Vmap" else {}
        )
        found.append({"kind": kind, "level": int(one.level()), **sizes})
    return found


@contextmanager
def entered(recorded: Sequence[Mapping[str, Any]]) -> Iterator[None]:
    """Be inside the recorded levels of `vmap`. Raises MissingError if another transform is among them."""
    other = next((one["kind"] for one in recorded if one["kind"] != "Vmap"), None)
    if other is not None:
        raise MissingError(f"the transform of torch.func that the frame ran in ({other.lower()})")
    with ExitStack() as stack:
        if recorded:
            nesting = features.require(features.module("torch._functorch.vmap"), "vmap_increment_nesting")
            for one in recorded:
                stack.enter_context(nesting(one["batch"], one["randomness"].lower()))
        yield


def is_transformed(torch: Any, tensor: Any) -> bool:
    """Whether a transform wrapped it."""
    return bool(features.require(_native(torch), "is_functorch_wrapped_tensor")(tensor))


def _is_batched(torch: Any, tensor: Any) -> bool:
    return bool(features.require(_native(torch), "is_batchedtensor")(tensor)) and all(
        one["kind"] == "Vmap" for one in running()
    )


def _batched_parts(torch: Any, tensor: Any) -> Taken:
    native = _native(torch)
    value = features.require(native, "get_unwrapped")(tensor)
    at = int(features.require(native, "maybe_get_bdim")(tensor))
    return {"value": value}, {
        "dimension": at,
        "level": int(features.require(native, "maybe_get_level")(tensor)),
    }


def _make_batched(torch: Any, cls: Any, parts: Any, traits: Any, device: Device) -> Any:
    add = features.require(_native(torch), "_add_batch_dim")
    return add(parts["value"], traits["dimension"], traits["level"])


def _native(torch: Any) -> Any:
    return features.require(features.require(torch, "_C"), "_functorch")


def _say_batched(tensor: Any) -> str:
    return f"{shaped(tensor)} in vmap"


BATCHED = Kind("batched", _is_batched, _batched_parts, _make_batched, _say_batched)
"""A tensor that `vmap` wrapped, while nothing but `vmap` runs; of use inside `entered` alone."""
