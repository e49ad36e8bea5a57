"""What `--logs` takes, for people."""

from __future__ import annotations

from typing import TextIO

from replay.report.page import Page
from replay.torch_adapter.logs import Log


def draw_logs(logs: list[Log], stream: TextIO, *, everything: bool) -> None:
    """Write the names in two groups. `everything`: also those that torch leaves out of its short list."""
    page = Page(stream)
    page.line("--logs NAME,...: a name alone is at level INFO, +NAME at DEBUG, -NAME at ERROR", indent=0)
    page.line("all, or any module such as torch.fx, is a name too", indent=0)
    page.heading("Loggers")
    page.pairs((one.name, one.what) for one in logs if not one.artifact)
    page.heading("Artifacts", "printed where they arise")
    page.pairs((one.name, one.what) for one in logs if one.artifact and (one.usual or everything))
    hidden = sum(one.artifact and not one.usual for one in logs)
    if hidden and not everything:
        page.gap()
        page.line(f"{hidden} more: --logs +help", indent=0)
