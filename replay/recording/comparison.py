"""What a comparison of a whole frame with uncompiled code looked at, as plain data. Nothing here compares."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Blame:
    """The first graph of a frame that, run alone, computes something else than it does uncompiled."""

    graph: int  # 1 is the first that was compiled
    function: str  # of the frame that it was compiled for
    where: str  # of the graph: "output 0", "gradient of x"
    error: float  # as Difference.error, of the graph's own result
    place: tuple[str, int, str] | None  # file, line and function of the program that computed it


@dataclass(frozen=True, slots=True)
class Comparison:
    """One compiled run of a frame, held against an uncompiled one and one in float64."""

    outputs: int = 0  # tensors among what the frame gave
    written: int = 0  # tensors reachable from its inputs that it wrote to, or put there
    gradients: int = 0  # of inputs and parameters, for an upstream gradient of ones
    values: int = 0  # what is no tensor: numbers, texts, lengths and types of containers
    largest_error: float = 0.0  # root mean square deviation from the reference, of the worst tensor
    tolerance: float = 0.0
    reference: str = "float64"  # or "uncompiled"
    doubt: str = ""  # why the reference is uncompiled code
    skipped: str = ""  # why nothing was compared; empty where something was
    no_gradients: str = ""  # why no gradients were, though the output has some
    where: str = ""  # the first thing that differs, as Difference.where; empty: nothing does
    unlike: tuple[str, str] | None = (
        None  # compiled and uncompiled, where they are no two tensors of one shape: "a list of 2", "a tuple of 2"
    )
    blame: Blame | None = None  # None: nothing differs, or no graph does alone
