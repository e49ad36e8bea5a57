"""From a bundle and overrides to an outcome.

launch       `run` and `observe`: options, the child process, how it ended
asking       the options, checked, as the request that goes to the child
boxing       what a sandbox needs of this machine, and what comes out of it
publishing   the directory of `--artifacts`: refused, or given its name when all is in it
trials       many replays of one bundle, side by side
preloading   what the process that forks trials imports
process      environment variables, caches, torch
elsewhere    where: the recording's devices, others, fake ones
settings     what was recorded, by name, and a replay without some of it
task         one replay: what was asked, and what is to be told
preparation  from the bundle to a function that is ready to be called
session      the replay itself, in the child or in this process
sequence     the calls of a recorded sequence, repeated; `plan`: which, in what order
instruments  what an analysis adds to it
explaining   one of them: what Dynamo made of each frame
keeping      another: what torch makes of it, as files; `inventory` says what they are
timing       the instrument of `replay.profile`
listing      the instrument that lists the settings which act here
comparing    the instrument of `--compare`; `twins`: the runs that it compares with, `likeness`: what is like what
bisecting    the instrument of triage that asks torch's CompilerBisector
refusing     the instrument that asks which guards a call did not pass
remedying    the instrument that changes the calls of a sequence; `places`: what of them, `results`: what they give
debugger     `--pdb`
seen         what the hooks report
judgement    is it the recorded failure?
ways         entering the compiler as the recorded program did
"""

from replay.replayer.launch import Observed, observe, run
from replay.replayer.trials import Trial, Trials

__all__ = ["Observed", "Trial", "Trials", "observe", "run"]
