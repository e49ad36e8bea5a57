"""Config, global state and environment of a recording: what is ordinary stays out of sight."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from replay.recording import Environment, Manifest
from replay.report.page import Page
from replay.report.text import show_value
from replay.torch_adapter.state import ORDINARY

# torch's defaults for the switches that `torch_adapter.state` records as groups.
_GROUPS: Mapping[str, Mapping[str, bool]] = {
    "cudnn": {"enabled": True, "benchmark": False, "deterministic": False, "allow_tf32": True},
    "sdp": {"flash": True, "mem_efficient": True, "math": True, "cudnn": True},
}


def draw_config(page: Page, manifest: Manifest) -> None:
    """Every config value that differs from torch's default."""
    if manifest.config:
        page.heading("Config", "what differs from the default")
        page.pairs((name, show_value(value, 200)) for name, value in sorted(manifest.config.items()))


def draw_state(page: Page, manifest: Manifest) -> None:
    """The global state that a fresh process does not have, and where the program ran."""
    rows = [*unusual_state(manifest.state), *unusual_process(manifest.process)]
    if rows:
        page.heading("State", "what differs from a fresh process")
        page.pairs(rows)


def unusual_state(state: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Name and value of each setting that is not ordinary; generators by name, without their states."""
    for name, value in state.items():
        if name == "generators":
            continue
        if name in _GROUPS and isinstance(value, Mapping):
            usual = _GROUPS[name]
            yield from ((f"{name}.{k}", show_value(v)) for k, v in value.items() if v != usual.get(k))
        elif name not in ("threads", "interop_threads", "cuda_device") and not _is_ordinary(name, value):
            yield name, show_value(value, 200)


def unusual_process(process: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Thread, rank and so on, but for the main thread."""
    usual = {
        "thread": "MainThread",
        "session": process.get("session"),
    }  # the latter means nothing to a reader
    yield from ((name, show_value(v)) for name, v in process.items() if v != usual.get(name, ...))


def _is_ordinary(name: str, value: Any) -> bool:
    return name in ORDINARY and bool(ORDINARY[name] == value)


def draw_environment(page: Page, manifest: Manifest) -> None:
    """Versions and machine, then the packages and the environment variables that were kept."""
    page.heading("Environment")
    page.pairs(environment_rows(manifest.environment, manifest))


def environment_rows(found: Environment, manifest: Manifest) -> Iterator[tuple[str, str]]:
    """Rows of the environment table."""
    yield "python", f"{found.implementation} {found.python}"
    yield "torch", found.torch + (f", CUDA {found.cuda}" if found.cuda else "")
    if found.triton:
        yield "triton", found.triton
    yield "platform", f"{found.platform}, {found.machine}"
    yield "cpu", ", ".join(part for part in (found.cpu, found.cpu_capability, _threads(manifest)) if part)
    for gpu in found.gpus:
        yield "gpu", gpu
    if found.packages:
        yield "packages", ", ".join(f"{name} {version}" for name, version in sorted(found.packages.items()))
    if manifest.shipped:
        yield "shipped", ", ".join(manifest.shipped)
    for name, value in sorted(found.variables.items()):
        yield "variable", f"{name}={value}"


def _threads(manifest: Manifest) -> str:
    threads = manifest.state.get("threads")
    return f"{threads} threads" if threads else ""
