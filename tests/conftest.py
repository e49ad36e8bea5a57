"""What runs around every test: nothing that a test, or `replay` inside it, installs may outlive it.

Cheap on purpose (microseconds), and it never imports torch: a test that does not need torch stays fast.
"""

from __future__ import annotations

import functools
import linecache
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

MARK = "__replay_synthetic__"
"""The attribute of modules that a replay puts into sys.modules."""

_PYTEST_OWN = frozenset({"PYTEST_CURRENT_TEST"})

# The hook as torch defined it; filled by the first look after torch's convert_frame was imported.
_original_call: list[Any] = []


def pytest_configure(config: pytest.Config) -> None:
    """The tests, and what they start, have a key and trusted directories of their own, never the user's."""
    folder = tempfile.mkdtemp(prefix="replay-tests-config-")
    config.add_cleanup(functools.partial(shutil.rmtree, folder, ignore_errors=True))
    os.environ["TORCH_REPLAY_CONFIG"] = folder


@pytest.fixture(scope="session", autouse=True)
def trusted(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What the tests write and `recordings/` are trusted: a test of the sandbox, or of a refusal, says so."""
    from replay import trust

    trust.vouch_for(tmp_path_factory.getbasetemp())
    trust.vouch_for(Path(__file__).parent.parent / "recordings")


@pytest.fixture(scope="session")
def inductor() -> None:
    """Inductor has compiled something: its imports change sys.path, which is torch's doing and not a test's."""
    import torch

    torch.compile(lambda x: x + 1)(torch.ones(2))


@pytest.fixture(autouse=True)
def no_trace() -> Iterator[None]:
    """Assert that hooks, modules, environment and torch's global state are after the test what they were."""
    before = _look()
    yield
    after = _look()
    changed = {name: (before[name], after[name]) for name in before if before[name] != after[name]}
    # torch may have been imported by the test itself: then only what must hold in any case is compared.
    if before["torch"] is None:
        changed.pop("torch", None)
    assert not changed, f"the test, or replay, left a trace: {changed}"
    assert _synthetic_modules() == [], "synthetic modules of a replay are left in sys.modules"
    assert _hook_is_original(), "torch._dynamo's frame conversion is still patched"


def _look() -> dict[str, Any]:
    _hook_is_original()
    return {
        "os.environ": {name: value for name, value in os.environ.items() if name not in _PYTEST_OWN},
        "sys.path": list(sys.path),
        "sys.argv": list(sys.argv),
        "the working directory": os.getcwd(),
        "__main__": id(sys.modules.get("__main__")),
        "sys.excepthook": sys.excepthook,
        "sys.stdout": id(sys.stdout),
        "linecache, entries that no file backs": _lazy_lines(),
        "torch": _torch_state(),
    }


def _lazy_lines() -> frozenset[str]:
    """Entries as a replay makes them: without a modification time, so that linecache never drops them.

    Names in angle brackets are left out: doctest, IPython, attrs and torch itself put such there for good.
    """
    return frozenset(
        name
        for name, entry in linecache.cache.copy().items()
        if len(entry) == 4 and entry[1] is None and not name.startswith("<")
    )


def _synthetic_modules() -> list[str]:
    return [
        name
        for name, module in list(sys.modules.items())
        if isinstance(module, ModuleType) and MARK in module.__dict__
    ]


def _torch_state() -> tuple[Any, ...] | None:
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "get_default_dtype"):
        return None
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.get_default_dtype(),
        torch.are_deterministic_algorithms_enabled(),
        torch.get_num_threads(),
        torch.get_float32_matmul_precision(),
    )


def _hook_is_original() -> bool:
    """Whether the method that the recorder patches is torch's own, or torch is not loaded."""
    convert_frame = sys.modules.get("torch._dynamo.convert_frame")
    cls = getattr(convert_frame, "ConvertFrameAssert", None)
    if cls is None:
        return True
    call = cls.__call__
    if not _original_call and call.__module__ == "torch._dynamo.convert_frame":
        _original_call.append(call)
    return bool(_original_call) and call is _original_call[0]
