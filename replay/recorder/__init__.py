"""From a failing frame to a bundle.

block       `record`: one object per block
happenings  which events make a bundle
telling     where the bundle is: notes, log, warnings
history     what earlier calls of a frame looked like
capture     one failure -> one bundle
frames      a frame's code and variables
precaution  bundles that are written ahead of a crash
chain       the root of a resume function
describing  inputs as rows for people
"""

from replay.recorder.block import record

__all__ = ["record"]
