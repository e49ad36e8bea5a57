"""From a bundle and overrides to an outcome.

launch       `run` and `observe`: options, the child process, how it ended
publishing   the directory of `--artifacts`: refused, or given its name when all is in it
trials       many replays of one bundle, side by side
preloading   what the process that forks trials imports
process      environment variables, caches, torch
elsewhere    where: the recording's devices, others, fake ones
settings     what was recorded, by name, and a replay without some of it
task         one replay: what was asked, and what is to be told
preparation  from the bundle to a function that is ready to be called
session      the replay itself, in the child or in this process
instruments  what an analysis adds to it
explaining   one of them: what Dynamo made of each frame
keeping      another: what torch makes of it, as files; `inventory` says what they are
timing       the instrument of `replay.profile`
listing      the instrument that lists the settings which act here
remedying    the instrument that changes the calls of a sequence; `places`: what of them, `results`: what they give
debugger     `--pdb`
seen         what the hooks report
judgement    is it the recorded failure?
ways         entering the compiler as the recorded program did
"""

from replay.replayer.launch import Observed, observe, run
from replay.replayer.trials import Trial, Trials

__all__ = ["Observed", "Trial", "Trials", "observe", "run"]
