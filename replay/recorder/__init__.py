"""From a failing frame to a bundle.

block       `record`: one object per block; which failures are recorded
history     what earlier calls of a frame looked like
capture     one failure -> one bundle
frames      a frame's code and variables
chain       the root of a resume function
ways        how the frame came to the compiler
children    processes that the program starts
describing  inputs as rows for people
"""

from replay.recorder.block import record

__all__ = ["record"]
