"""What an analysis adds to a replay: it watches the frame, and finds something. It lives in the replaying process.

A request names its instruments: `{"explain": {...options}}`. What each has found travels back beside the outcome,
as plain data. The base class does nothing; an instrument overrides what it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from replay.recording import Outcome
from replay.replayer.preparation import Prepared
from replay.replayer.seen import Seen
from replay.replayer.task import Task
from replay.torch_adapter import hooks

HOMES: Mapping[str, str] = {
    "explain": "replay.replayer.explaining:Explaining",
    "artifacts": "replay.replayer.keeping:Keeping",
    "compare": "replay.replayer.comparing:Comparing",
    "remedy": "replay.replayer.remedying:Remedying",
    "settings": "replay.replayer.listing:Listing",
    "bisect": "replay.replayer.bisecting:Bisection",
    "profile": "replay.replayer.timing:Stopwatch",
    "recompiles": "replay.replayer.refusing:Refusing",
    "export": "replay.exporting.transcription:Transcribing",
}
"""An instrument's name -> module:class. Imported when a request names it."""


class Instrument:
    """One instrument in one replay, at one place. Built with the options of the request as keywords."""

    wrap: hooks.Wrapper | None = None
    """`wrap(backend, code)`: the backend to compile with instead; see `torch_adapter.interception`."""

    differentiates = False
    """Whether the frame's output is to be differentiated, also where the recording does not ask for it."""

    def before(self, task: Task) -> None:
        """Called before the frame is loaded, with torch loaded and the environment variables set."""

    @contextmanager
    def around(self, prepared: Prepared, seen: Seen) -> Iterator[None]:
        """Around the calls, in which everything is compiled and run. No exception of the frame comes out of them."""
        yield

    def calling(self, function: Callable[..., Any], prepared: Prepared) -> Callable[..., Any]:
        """Called before anything is; gives what is called in place of `function`, in every call of a sequence."""
        return function

    def returned(self, output: Any) -> None:
        """Called with what the frame gave, before it is differentiated; not where the frame raised."""

    def differentiated(self) -> None:
        """Called when the output has been differentiated; not where that raised."""

    def observe(self, attempt: hooks.Attempt) -> None:
        """Called after every attempt to compile a frame."""

    def settled(self, task: Task, outcome: Outcome) -> Outcome:
        """Called when the frame is judged and all is put back; gives the outcome with what it adds."""
        return outcome

    def found(self, outcome: Outcome) -> Any:
        """What it found, as plain data (MessagePack); called once, after the frame has been judged."""


def build(request: Mapping[str, Any]) -> dict[str, Instrument]:
    """The instruments that a request names."""
    made = {}
    for name, options in request.get("instruments", {}).items():
        module, _, kind = HOMES[name].partition(":")
        made[name] = getattr(import_module(module), kind)(**options)
    return made
