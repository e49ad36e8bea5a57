"""A bundle as one readable Python file that runs without `replay`, and whether it fails as recorded.

transcription  the instrument: the loaded frame as a program
frames         a frame's calls
definitions    the user's code that it needs, verbatim
origins        where a global came from
values, modules, tensors, numbers, strides, naming    objects to expressions
settings       config and global state
transcript     what one pass over a frame knows
texts, expressions, layout, words   Python as text
checking       running the file
making         `export`: all of it together

Nothing here prints or parses arguments.
"""

from replay.exporting.making import export

__all__ = ["export"]
