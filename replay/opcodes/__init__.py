"""What a pickle says it will do, read from its opcodes: names it looks up, calls, texts. Nothing is executed.

A small machine follows stack and memo with stand-ins in place of objects, so that the operands of an opcode are
known wherever the stream writes them out. It keeps what a reader needs (names, short texts, small tuples of
them) and forgets the rest, so that its memory is bounded by the stream's length. What the opcodes do not say is
said to be unknown.

Whether any of it is wanted or dangerous is judged elsewhere; bundles never appear here.

stand_ins  what stands for an object, and the steps that are told
machine    stack and memo, and the opcodes that only move what is there
reading    the opcodes that do something, and the reader
"""

from replay.opcodes.reading import MOST, read
from replay.opcodes.stand_ins import UNKNOWN, Made, Name, Step, Unknown, Value

__all__ = ["MOST", "UNKNOWN", "Made", "Name", "Step", "Unknown", "Value", "read"]
