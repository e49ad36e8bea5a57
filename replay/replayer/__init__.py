"""From a bundle and overrides to an outcome.

launch   `run`: options, the child process, how it ended
process  environment variables, caches, torch
elsewhere  where: the recording's devices, others, fake ones
seen     what the hooks report
ways     entering the compiler as the recorded program did
session  the replay itself, in the child or in this process
"""

from replay.replayer.launch import run

__all__ = ["run"]
