"""One replay: what was asked, of which bundle, where, and what is to be told with its outcome."""

from __future__ import annotations

from dataclasses import dataclass, field

from replay.bundle import Bundle
from replay.recording import Drift, Manifest
from replay.replayer import settings
from replay.replayer.elsewhere import Place
from replay.replayer.process import Request
from replay.selection import Selection
from replay.torch_adapter import compiling
from replay.torch_adapter.building import TensorBuilder


@dataclass(slots=True)
class Task:
    """A replay of one request at one place. `drift`, `notes` and `remapped` grow while it goes on."""

    bundle: Bundle
    request: Request
    place: Place
    started: float  # time.perf_counter()
    drift: list[Drift] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    remapped: set[str] = field(default_factory=set)  # devices that are others here
    aside: float = 0.0  # seconds spent on other runs than the one that is asked for
    builder: type[TensorBuilder] = TensorBuilder  # of the bundle's tensors
    manifest: Manifest = field(init=False)  # of the bundle, less what the replay is to do without

    def __post_init__(self) -> None:
        self.manifest = settings.reduced(self.bundle.manifest, self.request["without"])

    @property
    def compiles(self) -> bool:
        """Whether the frame is compiled at all."""
        return bool(self.request["backend"] != compiling.UNCOMPILED)

    @property
    def as_recorded(self) -> bool:
        """Whether the frame goes into the compiler as it did when it was recorded."""
        return self.request["backend"] is None and self.request["mode"] is None

    @property
    def backend(self) -> str:
        """The backend's name."""
        return self.request["backend"] or self.manifest.compile.backend

    @property
    def backward(self) -> bool:
        """Whether the output is differentiated too."""
        chosen = self.request["backward"]
        return self.manifest.compile.backward if chosen is None else bool(chosen)

    @property
    def dynamic(self) -> bool | None:
        """As torch.compile's argument."""
        chosen: bool | None = self.request["dynamic"]
        return self.manifest.compile.dynamic if chosen is None else chosen

    @property
    def selection(self) -> Selection:
        """Which functions may be compiled."""
        return Selection(self.request["function"])

    def device(self, name: str) -> str:
        """Where a device of the recording goes; another than the recorded one is drift."""
        here = self.place.device_for(name)
        if here != name:
            if name not in self.remapped:
                self.drift.append(Drift(f"device {name}", name, here))
            self.remapped.add(name)
        return here
