"""Which part of the compiler is at fault: the same frame under one backend after the other.

ladder     the rungs: which replays are made, and what came of each
likeness   are two failures the same underneath?
verdict    from the rungs to what is at fault
sentences  the verdict in words
bisection  further into a backend, with torch's CompilerBisector
course     all of it, in its order

Nothing here prints, parses arguments or imports torch.
"""

from replay.diagnosis.course import triage

__all__ = ["triage"]
