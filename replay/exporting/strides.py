"""What shape and strides of a recorded tensor say. Pure: specs in, numbers out."""

from __future__ import annotations

import math

from replay.recording import TensorSpec


def size(spec: TensorSpec) -> int:
    """How many elements it has."""
    return math.prod(spec.shape)


def steps(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a contiguous tensor."""
    steps, step = [], 1
    for size in reversed(shape):
        steps.append(step)
        step *= max(size, 1)
    return tuple(reversed(steps))


def is_contiguous(spec: TensorSpec) -> bool:
    """Whether the strides are those of a new tensor; a dimension of one element may have any."""
    pairs = zip(spec.shape, spec.stride, steps(spec.shape), strict=True)
    return size(spec) == 0 or all(size == 1 or step == usual for size, step, usual in pairs)


def overlaps(spec: TensorSpec) -> bool:
    """Whether two elements share memory."""
    reach = 0
    for step, size in sorted(zip(spec.stride, spec.shape, strict=True)):
        if size > 1:
            if step <= reach:
                return True
            reach += step * (size - 1)
    return False


def extent(spec: TensorSpec) -> int:
    """One past the last element of its storage that it reads; 0 where it has none."""
    if size(spec) == 0:
        return 0
    return (
        spec.offset + 1 + sum((size - 1) * step for size, step in zip(spec.shape, spec.stride, strict=True))
    )
