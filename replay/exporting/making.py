"""`export()`: has the frame written down in a child, runs what came of it in another, and writes the file."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from replay import files, isolation
from replay.bundle import Bundle, load
from replay.errors import ReplayError, UsageError
from replay.exporting import checking, words
from replay.exporting.layout import render, render_notebook
from replay.findings.export import Check, Export, Program
from replay.plain import from_plain
from replay.replayer import observe
from replay.replayer.launch import TIMEOUT
from replay.torch_adapter import compiling
from replay.trust import admit

INSTRUMENT = "export"
TARGET = "replay.exporting.checking:check"

Heard = Callable[[str], None]
"""Called with what is being done."""
Call = Callable[..., isolation.ChildResult]
"""As `isolation.call`."""


def export(
    bundle: Bundle | str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    *,
    notebook: bool = False,
    unverified: bool = False,
    force: bool = False,
    timeout: float | None = TIMEOUT,
    trust: bool | None = None,
    sandbox: bool | None = None,
    heard: Heard | None = None,
    call: Call = isolation.call,
) -> Export:
    """Make one readable Python file of a bundle's frame, which runs without `replay`.

    The file is run in a clean process. It is written to `output` if its failure has the recorded fingerprint, or if
    `unverified` allows one that has not: its first lines then say so. `notebook`: as an .ipynb. `force`: over a
    file that exists. `timeout`: seconds for each of the child processes; None or 0: no limit. `trust`, `sandbox`: as
    `replay.run` takes them; the file is run where the bundle would be. `call`: what runs a function in a child process,
    where that is no sandbox.

    Raises UsageError for a bundle that no such file can stand for (the message names what and why), for a file that
    exists, and for one that is to be written and could not be verified. Raises BundleError for an unreadable bundle.
    """
    target = None if output is None else Path(output)
    if target is not None:
        files.check_place(target, ("",), option="-o")
    if target is not None and target.exists() and not force:
        raise UsageError(f"{target} exists; choose another name, or add --force")
    opened = bundle if isinstance(bundle, Bundle) else load(Path(bundle))
    try:
        how = _How(timeout, trust, sandbox, _caller(opened, trust, sandbox) or call)
        made = _Making(opened, how, heard or (lambda _: None)).export(notebook=notebook)
    finally:
        if not isinstance(bundle, Bundle):
            opened.close()
    if target is None:
        return made
    if not made.verified and not unverified:
        raise UsageError(
            f"{made.bundle}: the file that came of it is not verified ({made.check.reason}), and {target} was not "
            "written; add --unverified to have it all the same"
        )
    files.write(target, made.text.encode("utf-8"), option="-o")
    return replace(made, path=str(target))


def _caller(bundle: Bundle, trust: bool | None, sandbox: bool | None) -> Call | None:
    """What runs the file in a sandbox, if the bundle needs one: the file is code of it. Raises UntrustedError."""
    if not admit(bundle, trust=trust, sandbox=sandbox).sandboxed:
        return None
    return partial(isolation.call_in_sandbox, within=isolation.Sandbox())


@dataclass(frozen=True, slots=True)
class _How:
    """How the child processes are run."""

    timeout: float | None
    trust: bool | None
    sandbox: bool | None
    call: Call


@dataclass(frozen=True, slots=True)
class _Making:
    """One bundle on its way to a file."""

    bundle: Bundle
    how: _How
    heard: Heard

    def export(self, *, notebook: bool) -> Export:
        started = time.perf_counter()
        programs = self._programs()
        tried: list[tuple[Program, Check]] = []
        for number, program in enumerate(programs, start=1):
            self.heard(f"running the file (form {number} of at most {len(programs)})")
            tried.append((program, self._check(program)))
            if tried[-1][1].same or not tried[-1][1].ran:
                break
        program, check = tried[-1] if tried[-1][1].same else tried[0]
        return Export(
            bundle=str(self.bundle.path),
            text=self._text(program, check, notebook=notebook),
            check=check,
            kind="notebook" if notebook else "python",
            seconds=time.perf_counter() - started,
        )

    def _programs(self) -> list[Program]:
        """What the frame is as a program: by shape first, then with more values."""
        self.heard("writing the frame down")
        observed = observe(
            self.bundle,
            {INSTRUMENT: {}},
            {"backend": compiling.UNCOMPILED},
            timeout=self.how.timeout,
            trust=self.how.trust,
            sandbox=self.how.sandbox,
            call=self.how.call,
        )
        found = observed.found.get(INSTRUMENT)
        if found is None:
            lacking = (
                "; ".join(one.name for one in observed.outcome.missing) or "the frame could not be loaded"
            )
            raise UsageError(f"{self.bundle.path}: cannot be exported: {lacking}")
        if not found["programs"]:
            raise UsageError(f"{self.bundle.path}: cannot be exported: {found['refused']}")
        return from_plain(found["programs"], list[Program], strict=False)

    def _check(self, program: Program) -> Check:
        manifest = self.bundle.manifest
        on_cuda = any(spec.device.startswith("cuda") for spec in manifest.tensors.values())
        request = {
            "cuda": on_cuda,
            "text": self._text(program, None),
            "event": manifest.event,
            "fingerprint": checking.identity(manifest),
            "compiles": checking.compiles(manifest),
            "torch": manifest.environment.torch,
        }
        ended = self.how.call(TARGET, request, environment=dict(program.variables), timeout=self.how.timeout)
        if ended.ending == "answered":
            return from_plain(ended.answer, Check, strict=False)
        if ended.ending == "stopped":
            raise ReplayError(f"{self.bundle.path}: the export was given up")
        return Check(False, f"the process that ran it ended: {ended.ending}, {ended.reason}")

    def _text(self, program: Program, check: Check | None, *, notebook: bool = False) -> str:
        manifest = self.bundle.manifest
        write = render_notebook if notebook else render
        return write(program, words.head(manifest, program, check), words.foot(manifest))
