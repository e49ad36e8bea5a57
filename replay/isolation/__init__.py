"""Run a function in a child process: time, memory, signals and crashes become data.

Everything that is particular to a platform stands here. Request and answer are plain data in MessagePack files
of a private directory, so that whatever a child prints cannot be taken for its answer.

child    the child's side: the call, its phases, its directory
results  what becomes of a child, and the limits that it has
fresh    `call`: a child that is a new Python process
forks    `ForkServer`: children forked from one process that has done the imports
forking  that process

boxed        `call_in_sandbox`: a new Python process that reaches nothing of the user's
sandbox      what it sees; bubblewrap's command line
confinement  the limits that it sets for itself
metering     what all of it uses, measured from outside
"""

from replay.isolation.boxed import call_in_sandbox
from replay.isolation.child import announce, private_directory
from replay.isolation.forks import ForkServer
from replay.isolation.fresh import call, remove
from replay.isolation.results import ChildResult, Ending, memory_limit
from replay.isolation.sandbox import Sandbox
from replay.isolation.sandbox import lacking as sandbox_lacking

__all__ = [
    "ChildResult",
    "Ending",
    "ForkServer",
    "Sandbox",
    "announce",
    "call",
    "call_in_sandbox",
    "memory_limit",
    "private_directory",
    "remove",
    "sandbox_lacking",
]
