"""`recompiles()`: why a recorded frame is compiled again and again.

counting     what a repetition came to
causes       which kind of thing a failing guard is about
grouping     from the calls of a sequence to the causes behind them
sentences    each cause in words
repeating    the replay of the sequence, with the instrument that asks the guards
grid         the sequence under other limits, with dynamic shapes and without
sources      what a guard is about, taken apart
proposals    what a remedy is that is worth a try
makers       the proposals of each cause
proposing    which of them, in which order
remedies     what of it helps, by replaying the sequence

Nothing here prints or parses arguments; `replay.report.recompiles` draws what comes of it.
"""

from replay.recompilation.repeating import recompiles

__all__ = ["recompiles"]
