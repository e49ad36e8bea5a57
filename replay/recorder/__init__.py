"""From a failing frame to a bundle.

block       `record`: one object per block
happenings  which events make a bundle
telling     where the bundle is: notes, log, warnings
history     what earlier calls of a frame looked like
remains     what is kept of a value after its call
attributes  values that earlier calls saw
sequences   the calls that compiled a frame, and its bundle
traffic     counting all calls of a frame
capture     one failure -> one bundle
frames      a frame's code and variables
precaution  bundles that are written ahead of a crash
chain       the root of a resume function
ways        how the frame came to the compiler
children    processes that the program starts
describing  inputs as rows for people
uses        what a code object says of the values that it handles
reach       what the frame's code can reach, by names
pruning     what the bundle therefore does without
survival    does the failure come back from what is in the bundle?
"""

from replay.recorder.block import record

__all__ = ["record"]
