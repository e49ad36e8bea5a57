"""What travels by value and what by reference.

By value: the user's code, which will be absent elsewhere: `__main__`, scripts, whatever is found through
PYTHONPATH, editable installs, notebooks. By reference: the standard library, torch, installed distributions
(with name and version) and compiled extensions, which have no source to send. Nothing is pickled here.
"""

from __future__ import annotations

import functools
import importlib.machinery
import importlib.metadata
import os
import site
import sys
import sysconfig
from collections.abc import Collection
from types import ModuleType

ALWAYS_REFERRED = frozenset({"torch", "triton", "functorch", "torchgen", "replay", "builtins"})
PACKAGE_FOLDERS = frozenset({"site-packages", "dist-packages"})


class Policy:
    """Decides module by module, and remembers which distributions were referred to."""

    def __init__(self, ship: Collection[str] = ()) -> None:
        """`ship` names packages, modules or distributions that travel by value whatever they are."""
        self._ship = _expanded(frozenset(ship))
        self._decided: dict[str, bool] = {"__main__": True}
        self._referred: set[str] = set()

    def by_value(self, module: str | None) -> bool:
        """Whether what the module of this name defines travels by value."""
        if not isinstance(module, str):
            return True
        decided = self._decided.get(module)
        if decided is None:
            decided = self._decided[module] = self._is_shipped(module) or _is_user_code(module)
        return decided

    def refer(self, module: str) -> None:
        """Note that something of this module was sent by reference."""
        self._referred.add(module.partition(".")[0])

    def packages(self) -> dict[str, str]:
        """Distribution name to version, of everything that was referred to; not the standard library."""
        found: dict[str, str] = {}
        for package in sorted(self._referred - sys.stdlib_module_names - {"replay"}):
            for distribution in _distributions(package):
                found[distribution] = importlib.metadata.version(distribution)
        return found

    def _is_shipped(self, module: str) -> bool:
        parts = module.split(".")
        return any(".".join(parts[: end + 1]) in self._ship for end in range(len(parts)))


def _is_user_code(name: str) -> bool:
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names or top in ALWAYS_REFERRED:
        return False
    module = sys.modules.get(name)
    if module is None:
        parent = sys.modules.get(top)
        return parent is None or parent is module or _is_user_code(top)
    place = _place(module)
    return place is None or _is_user_place(place)


def _place(module: ModuleType) -> str | None:
    """Where a module comes from; None if it was made by a program."""
    file = module.__dict__.get("__file__")
    if isinstance(file, str):
        return file
    path = module.__dict__.get("__path__")  # a namespace package has no file
    first = next(iter(path), None) if path is not None else None
    if isinstance(first, str):
        return os.path.join(first, "")
    return getattr(module.__dict__.get("__spec__"), "origin", None)


def _is_user_place(place: str) -> bool:
    if place in ("built-in", "frozen") or place.endswith(tuple(importlib.machinery.EXTENSION_SUFFIXES)):
        return False
    path = os.path.realpath(place)
    if not PACKAGE_FOLDERS.isdisjoint(path.split(os.sep)):
        return False
    return not path.startswith(_installed_folders())


@functools.lru_cache(maxsize=1)
def _installed_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    folders = {paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")}
    folders.update(site.getsitepackages() if hasattr(site, "getsitepackages") else ())
    return tuple(os.path.join(os.path.realpath(folder), "") for folder in sorted(folders))


@functools.lru_cache(maxsize=1)
def _providers() -> dict[str, list[str]]:
    return {package: list(names) for package, names in importlib.metadata.packages_distributions().items()}


def _distributions(package: str) -> list[str]:
    try:
        return [importlib.metadata.metadata(package)["Name"]]
    except importlib.metadata.PackageNotFoundError:
        return sorted(set(_providers().get(package, ())))


def _expanded(ship: frozenset[str]) -> frozenset[str]:
    """`ship` with the packages of those names that are distributions' ("scikit-learn" has sklearn)."""
    unknown = {name.lower() for name in ship if name.partition(".")[0] not in sys.modules}
    if not unknown:
        return ship
    providers = _providers().items()
    return ship | {package for package, names in providers if unknown & {name.lower() for name in names}}
