"""Everything that `replay` raises on purpose.

ReplayError                   a person can act on the message
├── UsageError                an option or argument that cannot be honoured
├── BundleError               the file is not a readable bundle
│   └── FormatVersionError    written by a newer replay
├── UntrustedError            nobody vouches for the bundle, and there is no sandbox for it
├── MissingError              the recording or this machine lacks something
└── UnsupportedTorchError     this torch has no hook that we know

RecordingWarning              the recorder could not keep something; the program goes on

Nothing else lives here: no formatting, no exit codes (`replay.cli` maps these classes to them).
"""

from __future__ import annotations


class ReplayError(Exception):
    """A failure whose message says which file or option, what is wrong and what to do next."""


class UsageError(ReplayError):
    """An option or argument that cannot be honoured (an unknown backend, a bad pattern, ...)."""


class BundleError(ReplayError):
    """The file is not a bundle that can be read."""


class FormatVersionError(BundleError):
    """The bundle was written by a newer `replay` than this one."""


class UntrustedError(ReplayError):
    """Nobody vouches for the bundle, and it is not replayed in a sandbox; nothing of it has run.

    `lacking`: why there is no sandbox.
    """

    def __init__(self, message: str, lacking: str = "") -> None:
        super().__init__(message)
        self.lacking = lacking


class MissingError(ReplayError):
    """The recording, or this machine, lacks something that the replay needs; the message names it."""


class UnsupportedTorchError(ReplayError):
    """A name that the adapter relies on is gone in the installed torch; the message gives both."""


class RecordingWarning(UserWarning):
    """The recorder lost something. The user's program is not affected; the message says what was lost."""
