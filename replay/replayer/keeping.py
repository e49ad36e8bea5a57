"""The instrument behind `--artifacts`: writes what torch makes of the frame to files, as it is made.

It lives in the replaying process. A crash leaves what was written until then; the other side, `publishing`, gives it
its final name.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import CodeType
from typing import Any

from replay import source
from replay.recording import Outcome
from replay.replayer import inventory
from replay.replayer.instruments import Instrument
from replay.replayer.preparation import Prepared
from replay.replayer.seen import Seen
from replay.replayer.task import Task
from replay.torch_adapter import byproducts, features, hooks

LARGEST = 256 << 20
"""Bytes of a graph's inputs that are written beside its script; of larger ones torch makes values up."""

_BESIDE = '__import__("pathlib").Path(__file__).absolute().with_name("inputs").as_posix()'
"""An expression in a script: the directory of its inputs, wherever both are moved."""

_OF_FRAMES = ("dynamo", "aot", "before_pre_grad", "after_pre_grad")


class Keeping(Instrument):
    """Writes into a new numbered folder of `directory`: one for each place where the frame is replayed."""

    def __init__(self, directory: str) -> None:
        self._root = Path(directory)
        self._number = len(list(self._root.iterdir()))
        self._folder = self._root / str(self._number)
        self._lock = threading.RLock()
        self._used: set[Path] = set()
        self._lost: list[str] = []
        self._backend = ""

    def before(self, task: Task) -> None:
        """A folder of its own."""
        self._folder.mkdir()
        self._backend = task.backend

    @contextmanager
    def around(self, prepared: Prepared, seen: Seen) -> Iterator[None]:
        """Everything that is made while the frame is called."""
        with ExitStack() as stack:
            trace = stack.enter_context(open(self._folder / "trace.log", "w", encoding="utf-8"))
            log = stack.enter_context(open(self._folder / "logs.txt", "w", encoding="utf-8"))

            def line_of(stream: Any) -> Any:
                def write(text: str) -> None:
                    with self._lock:
                        stream.write(text + "\n")
                        stream.flush()  # a crash must not take it away

                return write

            enter = stack.enter_context
            enter(byproducts.logs(line_of(log)))
            enter(byproducts.structured_trace(self._hear, line_of(trace)))
            enter(byproducts.inductor_debugging(self._folder))
            enter(byproducts.sources_written(self._keep_source))
            enter(byproducts.bytecode_made(self._keep_bytecode))
            enter(byproducts.graphs_compiled(self._keep_script))
            yield

    def observe(self, attempt: hooks.Attempt) -> None:
        """Which frame a folder is of, and what became of it."""
        code = attempt.code
        lines = [
            f"function  {source.qualified_name(code)}",
            f"file      {code.co_filename}:{code.co_firstlineno}",
            f"fate      {attempt.fate}",
        ]
        if attempt.error is not None:
            lines.append(f"error     {type(attempt.error).__name__}: {attempt.error}")
        folder = inventory.frame_folder((attempt.compile_id or "").replace("!", ""))
        self._write(f"{folder}/frame.txt", "\n".join(lines) + "\n")

    def found(self, outcome: Outcome) -> dict[str, Any]:
        """The folder that belongs to the outcome, and what could not be written there."""
        return {"folder": str(self._number), "lost": self._lost}

    def _hear(self, event: byproducts.Event) -> None:
        name = inventory.TRACED.get(event.name)
        if name is None or not event.payload:
            return
        frame = inventory.frame_folder(event.compile_id)
        of_graph = event.graph and not event.name.startswith(_OF_FRAMES)
        self._write(f"inductor/{event.graph}/{name}" if of_graph else f"{frame}/{name}", event.payload)

    def _keep_source(self, name: str, text: str) -> None:
        if not text.startswith("# AOT ID:"):  # the output code, which the trace brings
            self._write(f"kernels/{name}", text, once=True)

    def _keep_bytecode(self, compile_id: str, code: CodeType, made: CodeType) -> None:
        folder = inventory.frame_folder(compile_id)
        self._write(f"{folder}/bytecode_original.txt", byproducts.disassemble(code))
        self._write(f"{folder}/bytecode_modified.txt", byproducts.disassemble(made))

    def _keep_script(self, compile_id: str, gm: Any, inputs: Any) -> None:
        """A script of the graph that runs on its own; where torch cannot write it, the reason in its place."""
        folder = inventory.frame_folder(compile_id)
        values = self._folder / folder / "inputs"
        backend = self._backend if byproducts.is_registered(self._backend) else "eager"
        try:
            kept = byproducts.bytes_of(inputs) <= LARGEST
            text = byproducts.script_of(gm, inputs, backend, str(values) if kept else None)
        except Exception as error:  # noqa: BLE001 - torch raises much for a graph that it cannot write down
            why = f"torch could not write this graph as a script: {type(error).__name__}: {error}\n"
            self._write(f"{folder}/dynamo_graph_no_script.txt", why)
            return
        self._write(f"{folder}/dynamo_graph_runnable.py", _standalone(text, str(values), backend, kept=kept))

    def _write(self, name: str, text: str, *, once: bool = False) -> None:
        """A file under the folder. A second one of the same name gets a number, unless one is enough.

        Raises nothing: torch is in the middle of its work, and the frame must not fail for it.
        """
        with self._lock:
            path = self._folder / name
            number = 2
            while path in self._used and not once:
                path = (self._folder / name).with_stem(f"{Path(name).stem}_{number}")
                number += 1
            self._used.add(path)
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8", errors="backslashreplace")
            except OSError as error:
                self._lost.append(f"{name}: {error.strerror or error}")


def _standalone(text: str, values: str, backend: str, *, kept: bool) -> str:
    """torch's script, its inputs read from beside it wherever it lies."""
    version = features.module("torch").__version__
    origin = "are read from the folder beside it" if kept else "are made up: the real ones are too large"
    head = (
        f"# The graph that Dynamo handed to the backend, as a script. Its inputs {origin}.\n"
        f"# Written with torch {version}; compiles with the backend {backend!r}.\n"
    )
    return head + text.replace(f"save_dir={values!r}", f"save_dir={_BESIDE}")
