"""What of a tensor a guard does not pass: class, dtype, device, rank, sizes, strides. All of it, not only the first.

torch's own check stops at the first thing that differs. What it was compiled for is in the guard's text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from replay.torch_adapter import features, words
from replay.torch_adapter.undisturbed import undisturbed

_TEXT = re.compile(
    r"check_tensor\(.*, (?P<kind>[\w.<>]+), (?P<keys>DispatchKeySet\([^)]*\)), (?P<dtype>torch\.\w+), "
    r"device=(?P<device>\w+), requires_grad=(?P<requires_grad>\w+), size=\[(?P<size>[^\]]*)\], "
    r"stride=\[(?P<stride>[^\]]*)\]"
)
"""torch/_dynamo/guards.py, get_tensor_guard_code_part (torch 2.9 to 2.15)."""

_NAME = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a tensor's numbers are."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    device: str
    inference: bool = False  # made in inference mode


@dataclass(frozen=True, slots=True)
class Aspect:
    """One thing about a tensor that differs."""

    name: str  # "class", "dtype", "device", "requires_grad", "rank", "size", "stride", "inference", "keys"
    expected: str
    seen: str
    dimension: int | None = None


def layout(value: Any) -> Layout | None:
    """Of a tensor that has one."""
    torch = features.module("torch")
    if not isinstance(value, torch.Tensor):
        return None
    with undisturbed():
        if value.layout is not torch.strided:
            return None
        try:
            shape, stride = tuple(map(int, value.shape)), tuple(map(int, value.stride()))
        except (RuntimeError, TypeError):  # nested, or symbolic
            return None
        return Layout(shape, stride, str(value.device), bool(value.is_inference()))


def differing(guard: str, value: Any, compiled: Layout | None) -> list[Aspect]:
    """What differs, as far as the text of the guard tells it. `compiled`: of the tensor that was compiled for."""
    match = _TEXT.search(guard)
    if match is None:
        return []
    if not isinstance(value, features.module("torch").Tensor):
        return [Aspect("class", match["kind"], words.type_name(value))]
    keys, seen = list(_keys(match, value)), layout(value)
    with undisturbed():
        found = [*_properties(match, value, compiled), *_shape(match, seen, compiled)]
    if compiled is not None and seen is not None and compiled.inference != seen.inference:
        kinds = ("an ordinary tensor", "an inference tensor")
        found.append(Aspect("inference", kinds[compiled.inference], kinds[seen.inference]))
    return found or keys


def _properties(match: re.Match[str], value: Any, compiled: Layout | None) -> Iterator[Aspect]:
    if match["kind"] not in (type(value).__qualname__, type(value).__name__):
        yield Aspect("class", match["kind"], type(value).__qualname__)
    if match["dtype"] != str(value.dtype):
        yield Aspect("dtype", match["dtype"].removeprefix("torch."), str(value.dtype).removeprefix("torch."))
    moved = compiled is not None and compiled.device != str(value.device)
    if moved or match["device"] != str(value.device.index):
        device = match["device"] if compiled is None else compiled.device
        yield Aspect("device", device, str(value.device))
    if match["requires_grad"] != str(bool(value.requires_grad)):
        yield Aspect("requires_grad", match["requires_grad"], str(bool(value.requires_grad)))


def _shape(match: re.Match[str], seen: Layout | None, compiled: Layout | None) -> Iterator[Aspect]:
    if seen is None:
        return
    sizes = _numbers(match["size"])
    if len(sizes) != len(seen.shape):
        yield Aspect("rank", str(len(sizes)), str(len(seen.shape)))
        return
    for at, (expected, size) in enumerate(zip(sizes, seen.shape, strict=True)):
        if expected is not None and expected != size:
            yield Aspect("size", str(expected), str(size), at)
    if compiled is None or not _follows(compiled, seen):
        yield from _stride(_numbers(match["stride"]), seen)


def _stride(strides: Sequence[int | None], seen: Layout) -> Iterator[Aspect]:
    """All of them as one: where one dimension lies otherwise, another does as well."""
    pairs = zip(strides, seen.stride, strict=False)
    if any(expected is not None and expected != stride for expected, stride in pairs):
        expected = ", ".join("any" if one is None else str(one) for one in strides)
        yield Aspect("stride", f"[{expected}]", str(list(seen.stride)))


def _follows(one: Layout, other: Layout) -> bool:
    """Whether strides differ only because sizes do: both tensors are dense, their dimensions in the same order."""
    free = {at for each in (one, other) for at, size in enumerate(each.shape) if size == 1}
    orders = [_order(each) for each in (one, other)]
    first, second = (None if order is None else [at for at in order if at not in free] for order in orders)
    return one.shape != other.shape and first is not None and first == second


def _order(one: Layout) -> list[int] | None:
    """Dimensions, the fastest first; None where the tensor has gaps or overlaps itself."""
    order, step = [], 1
    for at in sorted(range(len(one.shape)), key=lambda at: (one.stride[at], -at)):
        if one.shape[at] != 1:
            if one.stride[at] != step:
                return None
            order.append(at)
            step *= one.shape[at]
    return order


def _keys(match: re.Match[str], value: Any) -> Iterator[Aspect]:
    """How torch dispatches on it: of an inference tensor otherwise."""
    torch = features.module("torch")
    read, include, exclude = (
        getattr(torch._C, name, None)
        for name in ("_dispatch_keys", "_dispatch_tls_local_include_set", "_dispatch_tls_local_exclude_set")
    )
    if read is None or include is None or exclude is None:
        return
    before, now = (
        _NAME.findall(match["keys"])[1:],
        _NAME.findall(str((read(value) | include()) - exclude()))[1:],
    )
    gone, new = [one for one in before if one not in now], [one for one in now if one not in before]
    if gone or new:
        yield Aspect("keys", _with(gone, new), _with(new, gone))


def _with(present: Sequence[str], absent: Sequence[str]) -> str:
    words_ = [*(f"with {one}" for one in present), *(f"without {one}" for one in absent)]
    return ", ".join(words_)


def _numbers(text: str) -> Sequence[int | None]:
    """`None` stands for a size that may be anything."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    return [int(part) if part.lstrip("-").isdigit() else None for part in parts]
