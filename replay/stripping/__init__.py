"""A bundle with less of a person's in it: `strip`. Nothing of the bundle is run but by the replay that checks it.

comments    source text without comments and docstrings, line by line as before
assignments source text without what is assigned to some names
renaming    other words for directories, user names, host names, addresses
values      the texts in values.pkl, rewritten opcode by opcode
cutting     globals and earlier calls, cut out of values.pkl opcode by opcode
statistics  what is kept of a tensor's values
content     all of these over one bundle
stripping   the new file, its check, what is left

Nothing here prints.
"""

from replay.stripping.stripping import strip

__all__ = ["strip"]
