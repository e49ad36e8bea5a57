"""Where the time of a frame goes: compiling it by phase, running it under each backend. Prints nothing.

measuring  one process after another, each alone on the machine
tracing    what they saw, as a file that Perfetto opens
"""

from replay.profiling.measuring import profile

__all__ = ["profile"]
