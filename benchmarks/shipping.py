"""How long a large model takes to ship, tensors' bytes apart: against pickle and dill of the same model.

Run as `python benchmarks/shipping.py [blocks]`. Prints seconds and ratios; checks what it made after timing it.
The rivals get the same sink for tensors, and send the model's class by reference (pickle) or as they do (dill).
"""

from __future__ import annotations

import gc
import io
import pickle
import sys
import time
from collections.abc import Callable
from typing import Any

import dill
import torch
from torch import nn

from replay import shipping

REPEATS = 5


class Block(nn.Module):
    """Six modules and two parameters of its own."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.linear = nn.Linear(width, width)
        self.act = nn.GELU()
        self.drop = nn.Dropout(0.0)
        self.out = nn.Linear(width, width)
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One residual step."""
        return x + self.out(self.drop(self.act(self.linear(self.norm(x))))) * self.scale


class Tensors:
    """A sink that keeps references only."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}

    def add(self, tensor: Any) -> str | None:
        """Keep the tensor."""
        key = f"t{len(self.kept)}"
        self.kept[key] = tensor
        return key

    add_storage = add

    def get(self, key: str) -> Any:
        """Give it back."""
        return self.kept[key]

    get_storage = get


def without_tensors(pickler: type[Any]) -> type[Any]:
    """The rival's pickler, with the tensors taken out by persistent id."""

    class Rival(pickler):  # type: ignore[misc]
        def persistent_id(self, value: Any) -> Any:
            return id(value) if type(value) in (torch.Tensor, nn.Parameter) else None

    return Rival


def best(action: Callable[[], Any]) -> tuple[float, Any]:
    """The shortest of several runs in seconds, and what the last one made."""
    times = []
    for _ in range(REPEATS):
        gc.collect()
        start = time.perf_counter()
        made = action()
        times.append(time.perf_counter() - start)
    return min(times), made


def rival(pickler: type[Any], model: nn.Module, **options: Any) -> Callable[[], bytes]:
    """What dumps the model with another pickler."""
    kind = without_tensors(pickler)

    def action() -> bytes:
        stream = io.BytesIO()
        kind(stream, 4, **options).dump(model)
        return stream.getvalue()

    return action


def main() -> None:
    """Print the table."""
    blocks = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    model = nn.Sequential(*(Block(8) for _ in range(blocks)))
    tensors = Tensors()

    def dump() -> shipping.Shipment:
        tensors.kept.clear()
        return shipping.dump({"function": Block.forward, "arguments": {"self": model}}, tensors=tensors)

    seconds, shipment = best(dump)

    def load() -> None:
        with shipping.loaded(shipment.values, sources=shipment.sources, tensors=tensors, main="__main__"):
            pass

    rows = [("replay", seconds, len(shipment.values)), ("replay, load", best(load)[0], 0)]
    for name, pickler in (("pickle", pickle.Pickler), ("dill", dill.Pickler)):
        taken, made = best(rival(pickler, model))
        rows.append((name, taken, len(made)))
    print(f"{sum(1 for _ in model.modules())} modules, {len(tensors.kept)} tensors, best of {REPEATS}")
    for name, taken, size in rows:
        print(f"{name:14} {taken * 1000:8.1f} ms   {taken / seconds:6.2f} of replay   {size / 1000:8.1f} kB")
    with shipping.loaded(shipment.values, sources=shipment.sources, tensors=tensors) as loaded:
        again = loaded.root["arguments"]["self"]
        x = torch.ones(2, 8)
        assert torch.equal(again[:3](x), model[:3](x))
        assert not loaded.missing
        assert type(again[0]) is not Block


if __name__ == "__main__":
    main()
