"""Tensors of a bundle by their keys: which of its specs a loaded tensor was made of, and its values on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from replay.recording import StorageSpec, TensorSpec
from replay.torch_adapter.building import TensorBuilder


class Keys:
    """Remembers what builders have made. `builder` is a class of builders that tell it."""

    def __init__(self) -> None:
        self._keys: dict[int, str] = {}
        self._alive: list[Any] = []
        keys = self

        class Keyed(TensorBuilder):
            """A builder whose tensors can be found by their keys."""

            def get(self, key: str) -> Any:
                """As its base does."""
                made = super().get(key)
                keys._keys[id(made)] = key
                keys._alive.append(made)
                return made

        self.builder: type[TensorBuilder] = Keyed

    def of(self, tensor: Any) -> str | None:
        """The key of a tensor; None for one that was made otherwise, as those of subclasses are."""
        return self._keys.get(id(tensor))

    def tensors(self, key: str) -> list[Any]:
        """The tensors that were made of a key."""
        return [one for one in self._alive if self._keys.get(id(one)) == key]

    @property
    def made(self) -> frozenset[str]:
        """The keys of all that were made."""
        return frozenset(self._keys.values())


def on_cpu(
    tensors: Mapping[str, TensorSpec],
    storages: Mapping[str, StorageSpec],
    blob: Callable[[str], memoryview],
) -> TensorBuilder:
    """A builder that puts everything on the CPU: for looking at values. Synthetic ones are drawn as for a replay."""
    return TensorBuilder(tensors, storages, blob, lambda device: "meta" if device == "meta" else "cpu")
